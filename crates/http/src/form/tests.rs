use axum::body::Body;
use serde::Deserialize;
use weir_base::Random;
use weir_community::media::Store;

use super::*;

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Asked {
    text: String,
    count: Option<u32>,
    flag: Option<bool>,
    ids: Vec<weir_base::Id>,
    fields: Vec<Named>,
    poll: Option<Poll>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
    value: String,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Poll {
    options: Vec<String>,
    expires_in: u32,
}

fn asked() -> Asked {
    Asked {
        text: "a b&ü".into(),
        count: Some(3),
        flag: Some(true),
        ids: vec![weir_base::Id(1), weir_base::Id(2)],
        fields: vec![
            Named { name: "n".into(), value: "v".into() },
            Named { name: "m".into(), value: "w".into() },
        ],
        poll: Some(Poll { options: vec!["x".into(), "y".into()], expires_in: 300 }),
    }
}

async fn form(kind: &str, uri: &str, body: impl Into<Body>) -> Result<Asked, FormError> {
    let request = Request::post(uri).header("content-type", kind).body(body.into()).unwrap();
    Form::from_request(request, &()).await.map(|Form(asked)| asked)
}

const URLENCODED: &str = "text=a+b%26%C3%BC&count=3&flag=on&ids[]=1&ids%5B%5D=2&fields[0][name]=n\
    &fields[0][value]=v&fields[1][name]=m&fields[1][value]=w&poll[options][]=x&poll[options][]=y\
    &poll[expires_in]=300";

#[tokio::test]
async fn query_form_multipart_and_json_say_the_same() {
    let urlencoded = "application/x-www-form-urlencoded";
    assert_eq!(form(urlencoded, "/", URLENCODED).await.unwrap(), asked());
    assert_eq!(form("", &format!("/?{URLENCODED}"), "").await.unwrap(), asked());
    let json = serde_json::json!({
        "text": "a b&ü", "count": 3, "flag": true, "ids": ["1", 2],
        "fields": [{"name": "n", "value": "v"}, {"name": "m", "value": "w"}],
        "poll": {"options": ["x", "y"], "expires_in": "300"},
    });
    let kind = "application/json; charset=utf-8";
    assert_eq!(form(kind, "/", json.to_string()).await.unwrap(), asked());
    let pairs = [
        ("text", "a b&ü"),
        ("count", "3"),
        ("flag", "1"),
        ("ids[]", "1"),
        ("ids[]", "2"),
        ("fields[][name]", "n"),
        ("fields[][value]", "v"),
        ("fields[][name]", "m"),
        ("fields[][value]", "w"),
        ("poll[options][]", "x"),
        ("poll[options][]", "y"),
        ("poll[expires_in]", "300"),
    ];
    let mut body: String = pairs
        .iter()
        .map(|(name, value)| {
            format!("--B\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        })
        .collect();
    body.push_str("--B--\r\n");
    assert_eq!(form("multipart/form-data; boundary=B", "/", body).await.unwrap(), asked());
}

#[tokio::test]
async fn false_has_several_names_and_absent_is_not_false() {
    for text in ["0", "false", "off", "f"] {
        assert_eq!(form("", &format!("/?flag={text}"), "").await.unwrap().flag, Some(false));
    }
    assert_eq!(form("", "/?flag=", "").await.unwrap().flag, None);
}

#[tokio::test]
async fn what_does_not_fit_is_named() {
    let error = form("", "/?count=many", "").await.unwrap_err();
    assert_eq!(error.to_string(), "Validation failed: count: many is not a number");
    assert_eq!(error.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let error = form("application/json", "/", "{\"text\":").await.unwrap_err();
    assert_eq!(error.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn depth_number_and_size_are_bounded() {
    let deep = format!("/?a{}=1", "[b]".repeat(20));
    assert_eq!(form("", &deep, "").await.unwrap_err().status(), StatusCode::BAD_REQUEST);
    let many = "a=1&".repeat(1_001);
    let kind = "application/x-www-form-urlencoded";
    assert_eq!(form(kind, "/", many).await.unwrap_err().status(), StatusCode::BAD_REQUEST);
    let nested = "[".repeat(100_000);
    let error = form("application/json", "/", nested).await.unwrap_err();
    assert_eq!(error.status(), StatusCode::BAD_REQUEST);
    let large = "x".repeat(BODY_BYTES_MAX + 1);
    let error = form(kind, "/", large).await.unwrap_err();
    assert_eq!(error.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn files_lie_on_disk_until_they_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().to_owned(), Random::seeded(1));
    let spool = Spool { store, file_bytes_max: 8 };
    let body = |content: &str| {
        format!(
            "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.png\"\r\n\
             Content-Type: image/png\r\n\r\n{content}\r\n--B--\r\n"
        )
    };
    let send = async |content: &str| {
        let request = Request::post("/").header("content-type", "multipart/form-data; boundary=B");
        WithUploads::<Asked>::from_request(request.body(body(content).into()).unwrap(), &spool)
            .await
    };
    let mut read = send("12345678").await.unwrap();
    let upload = read.uploads.take("file").unwrap();
    assert_eq!(upload.bytes, 8);
    assert_eq!(std::fs::read(&upload.file).unwrap(), b"12345678");
    let path = upload.file.to_path_buf();
    drop(upload);
    assert!(!path.exists());
    assert!(matches!(send("123456789").await, Err(FormError::TooLarge)));
    let left = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn text_beside_a_file_is_no_larger_than_text_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().to_owned(), Random::seeded(1));
    let spool = Spool { store, file_bytes_max: 64 << 20 };
    let (sent, body) = tokio::sync::mpsc::channel::<Result<Vec<u8>, std::io::Error>>(1);
    let head = "--B\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\n";
    let sending = tokio::spawn(async move {
        sent.send(Ok(head.into())).await.unwrap();
        let mut count = 0;
        // Until nobody reads any more.
        while sent.send(Ok(vec![b'x'; 64 << 10])).await.is_ok() {
            count += 1;
        }
        count
    });
    let body = futures_util::stream::unfold(body, |mut body| async move {
        body.recv().await.map(|chunk| (chunk, body))
    });
    let request = Request::post("/").header("content-type", "multipart/form-data; boundary=B");
    let request = request.body(axum::body::Body::from_stream(body)).unwrap();
    let read = WithUploads::<Asked>::from_request(request, &spool).await;
    assert!(matches!(read, Err(FormError::TooLarge)));
    let chunks: usize = sending.await.unwrap();
    assert!(chunks * (64 << 10) < 2 * BODY_BYTES_MAX, "{chunks} chunks were read");
}
