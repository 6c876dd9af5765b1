//! A disk that fills: a small one in memory, in a mount namespace of its own.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use weir_db::{Db, Error, Options};

use crate::{CLASS, insert, make_table, marks};

/// Set for the child: where the small disk is mounted.
const DISK_VARIABLE: &str = "WEIR_TEST_FULL_DISK";

#[test]
fn a_full_disk_is_told_loses_nothing_and_is_no_trouble_once_there_is_room() {
    if let Ok(disk) = std::env::var(DISK_VARIABLE) {
        return fill(Path::new(&disk));
    }
    let disk = tempfile::tempdir().unwrap();
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let child = Command::new("unshare")
        .arg(if is_root { "-m" } else { "-Urm" })
        .args([
            "sh",
            "-c",
            "mount -t tmpfs -o size=8m weir \"$WEIR_TEST_FULL_DISK\" && exec \"$@\"",
        ])
        .arg("sh")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "--test-threads=1"])
        .arg("full_disk::a_full_disk_is_told_loses_nothing_and_is_no_trouble_once_there_is_room")
        .env(DISK_VARIABLE, disk.path())
        .output()
        .expect("unshare, of util-linux, gives the small disk");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(child.status.success(), "{}\n{}", text(&child.stdout), text(&child.stderr));
    assert!(text(&child.stdout).contains("1 passed"), "{}", text(&child.stdout));
}

fn fill(disk: &Path) {
    let room = disk.join("room");
    std::fs::write(&room, vec![0; 3 << 20]).unwrap();
    let options = Options { connections_max: 1, ..Options::default() };
    let db = Db::open("sqlite:weir.db", disk, &options).unwrap();
    make_table(&db);
    let filler = "x".repeat(2_000);
    let write = |id: i64| {
        let filler = filler.clone();
        db.write_blocking(CLASS, move |tx| insert(tx, id, &filler))
    };
    let mut kept = 0;
    let refused = loop {
        match write(kept) {
            Ok(()) => kept += 1,
            Err(refused) => break refused,
        }
        assert!(kept < 10_000, "the disk never filled");
    };
    assert!(matches!(refused, Error::Full), "{refused:?}");
    assert!(kept > 100, "the disk was full from the start");
    assert!(matches!(write(kept), Err(Error::Full)), "it is still full");
    let expected = |count: i64| (0..count).collect();
    assert_eq!(marks(&db).unwrap(), expected(kept), "all that was acknowledged, and no more");
    std::fs::remove_file(&room).unwrap();
    write(kept).unwrap();
    assert_eq!(marks(&db).unwrap(), expected(kept + 1));
    drop(db);
    let db = Db::open("sqlite:weir.db", disk, &options).unwrap();
    assert_eq!(marks(&db).unwrap(), expected(kept + 1));
}
