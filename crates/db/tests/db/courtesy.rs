//! Who goes first at PostgreSQL.

use metrics_exporter_prometheus::PrometheusBuilder;
use weir_db::Class;
use weir_storm::fixture;

use crate::{Held, insert, make_table, marks};

#[test]
fn what_comes_in_is_held_while_people_read_and_not_while_they_write() {
    let Some(fixture) = fixture::postgres() else { return };
    make_table(&fixture.db);
    let recorder = PrometheusBuilder::new().build_recorder();
    let counted = recorder.handle();
    let db = metrics::with_local_recorder(&recorder, || fixture.open_again());
    let held = || {
        let text = counted.render();
        let count = text.lines().find_map(|line| line.strip_prefix("weir_db_held_seconds_count "));
        count.map_or(0, |count| count.parse::<u64>().unwrap())
    };
    let write = |class, id| db.write_blocking(class, move |tx| insert(tx, id)).unwrap();

    let people = Held::writers(&db, 1);
    write(Class::Inbound, 1);
    assert_eq!(held(), 0, "they write, and may wait for its locks");
    people.release();

    let people = Held::reader(&db);
    write(Class::Interactive, 2);
    write(Class::Live, 3);
    assert_eq!(held(), 0, "what is as urgent, or nearly");
    let mut before = 0;
    for (id, class) in (4..).zip([Class::Inbound, Class::Outbound, Class::Housekeeping]) {
        write(class, id);
        assert!(held() > before, "{class:?} was not held");
        before = held();
    }
    people.release();
    assert_eq!(marks(&db), [1, 2, 3, 4, 5, 6], "nobody is held for ever");
}
