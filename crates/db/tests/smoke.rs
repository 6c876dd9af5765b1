//! A fresh database opens, answers and migrates from asynchronous code.

#[tokio::test]
async fn a_fresh_database_answers_from_asynchronous_code() {
    for fixture in weir_storm::fixture::databases() {
        let two: Result<i64, weir_db::Error> = fixture
            .db
            .read(weir_db::Class::Interactive, |tx| {
                tx.query_one("SELECT 1 + 1", &[], |row| row.get(0))
            })
            .await;
        assert_eq!(two.unwrap(), 2, "{}", fixture.name);
        fixture.db.migrate("test", &[]).unwrap();
    }
}
