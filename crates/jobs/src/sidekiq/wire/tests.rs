use super::*;

const FOREIGN: &str = r#"{"retry":true,"queue":"default","class":"HardWorker",
    "args":["bob",1,{"mike":"b\u00f6b"}],"jid":"b4a577edbccf1d805744efa9",
    "created_at":1699999999.25,"enqueued_at":1700000000.5,"retry_count":2,"tags":["a"]}"#;

#[test]
fn a_job_of_rubys_sidekiq_is_read() {
    let job = Job::parse(FOREIGN.as_bytes()).unwrap();
    let claim = job.claim("hard");
    assert_eq!((job.class.as_ref(), &*claim.kind, claim.attempt), ("HardWorker", "hard", 4));
    assert_eq!(claim.enqueued_at, Timestamp::from_ms(1_699_999_999_250));
    assert_eq!(claim.ready_at, Timestamp::from_ms(1_700_000_000_500));
    assert_eq!(claim.jid.as_deref(), Some("b4a577edbccf1d805744efa9"));
    assert_eq!((&*claim.lane, claim.unique_key), ("", None));
    assert_eq!(claim.payload, r#"["bob",1,{"mike":"b\u00f6b"}]"#);
}

#[test]
fn moments_are_read_in_both_forms() {
    for (text, ms) in [
        ("1700000000.5", 1_700_000_000_500),
        ("1700000000500", 1_700_000_000_500),
        ("1700000000", 1_700_000_000_000),
        ("1.7e9", 1_700_000_000_000),
    ] {
        let number: serde_json::Number = serde_json::from_str(text).unwrap();
        assert_eq!(time(&number), Some(Timestamp::from_ms(ms)), "{text}");
    }
}

#[test]
fn what_is_composed_is_read_back() {
    let row = Claim {
        lane: "host \"a\"".into(),
        id: weir_base::Id(42),
        kind: "deliver".into(),
        attempt: 3,
        enqueued_at: Timestamp::from_ms(1_600_000_000_000),
        ready_at: Timestamp::from_ms(1_700_000_000_007),
        unique_key: Some("k".into()),
        payload: r#"{"to":"bob"}"#.into(),
        batch_id: Some(weir_base::Id(7)),
        expires_at: Some(Timestamp::from_ms(1_700_000_900_000)),
        postponed_since: None,
        jid: None,
        in_hand: None,
    };
    let retry = Retry::NEVER.attempts(17);
    for (times, text) in [
        (Times::Seconds, "\"enqueued_at\":1700000000.007"),
        (Times::Millis, "\"enqueued_at\":1700000000007"),
    ] {
        let json = compose(&row, "push", "Deliver", &retry, times, Place::Ready);
        assert!(json.contains(text), "{json}");
        assert!(json.contains(r#""retry":16"#) && json.contains(r#""dead":false"#), "{json}");
        let job = Job::parse(json.as_bytes()).unwrap();
        let claim = job.claim("deliver");
        assert_eq!((claim.id, claim.attempt), (row.id, 3));
        assert_eq!((&*claim.lane, claim.unique_key.as_deref()), ("host \"a\"", Some("k")));
        assert_eq!((claim.enqueued_at, claim.ready_at), (row.enqueued_at, row.ready_at));
        assert_eq!((claim.batch_id, claim.expires_at), (row.batch_id, row.expires_at));
        assert_eq!(args::read::<BTreeMap<String, String>>(&claim.payload).unwrap()["to"], "bob");
    }
    let later = compose(&row, "push", "Deliver", &retry, Times::Seconds, Place::Later);
    assert!(!later.contains("enqueued_at"), "{later}");
    let failed = r#""retry_count":1,"failed_at":1600000000.000,"retried_at":1600000000.000,"weir""#;
    assert!(later.contains(failed), "{later}");
    let new = Claim { attempt: 1, ..row };
    let new = compose(&new, "push", "Deliver", &retry, Times::Seconds, Place::Later);
    assert!(!new.contains("retry_count") && !new.contains("failed_at"), "{new}");
}

#[test]
fn what_is_no_job_is_refused() {
    for raw in ["", "{}", "[]", "nil", r#"{"class":"A","args":{},"jid":"1"}"#, "\u{0}"] {
        assert!(Job::parse(raw.as_bytes()).is_err(), "{raw}");
    }
    assert!(Job::parse(b"\xff\xfe").is_err());
}
