//! A disk that fills.

use std::path::Path;

use weir_db::{Db, Error, Options};
use weir_storm::fixture::on_small_disk;

use crate::{CLASS, insert, make_table, marks};

#[test]
fn a_full_disk_is_told_loses_nothing_and_is_no_trouble_once_there_is_room() {
    on_small_disk(
        "full_disk::a_full_disk_is_told_loses_nothing_and_is_no_trouble_once_there_is_room",
        fill,
    );
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
