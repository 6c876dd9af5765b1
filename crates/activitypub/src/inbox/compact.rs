//! Bodies as they wait on the disk: small, since messages say much that all messages say.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use lz4_flex::block::{compress_with_dict, decompress_with_dict};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// How it was made small: by LZ4, beginning with [`COMMON`]. Another way, or other common words,
/// get another number, and what waits is still read.
const LZ4_COMMON: u8 = 1;
/// Its way, and how long it is.
const HEAD_BYTES: usize = 5;
/// Longer bodies stay as they are: few are, and what takes little of the disk is to take no more
/// than so many times as much of the memory of who works on many.
const PACKED_BYTES_MAX: usize = 64 * 1_024;

/// What messages say again and again, as the servers that are most common write it.
const COMMON: &str = concat!(
    r#"{"@context":["https://www.w3.org/ns/activitystreams","https://w3id.org/security/v1",{"#,
    r#""ostatus":"http://ostatus.org#","atomUri":"ostatus:atomUri","#,
    r#""inReplyToAtomUri":"ostatus:inReplyToAtomUri","conversation":"ostatus:conversation","#,
    r#""sensitive":"as:sensitive","toot":"http://joinmastodon.org/ns#","#,
    r#""votersCount":"toot:votersCount","Emoji":"toot:Emoji","blurhash":"toot:blurhash","#,
    r#""focalPoint":{"@container":"@list","@id":"toot:focalPoint"},"Hashtag":"as:Hashtag","#,
    r#""manuallyApprovesFollowers":"as:manuallyApprovesFollowers","schema":"http://schema.org#","#,
    r#""PropertyValue":"schema:PropertyValue","value":"schema:value","#,
    r#""movedTo":{"@id":"as:movedTo","@type":"@id"},"quoteUri":"http://fedibird.com/ns#quoteUri","#,
    r#""misskey":"https://misskey-hub.net/ns#","_misskey_content":"misskey:_misskey_content","#,
    r#""_misskey_quote":"misskey:_misskey_quote"}],"litepub-0.1.jsonld",{"@language":"und"}],"#,
    r#""type":"Image","mediaType":"image/png","type":"Document","mediaType":"image/jpeg","#,
    r##""tag":[{"type":"Mention","href":"https://","name":"@"},{"type":"Hashtag","href":"https://"##,
    r##"/tags/","name":"#"}],"width":,"height":,"##,
    r#"<span class=\"h-card\" translate=\"no\"><a href=\"https://social/@"#,
    r#"\" class=\"u-url mention\">@<span></span></a></span> "#,
    r#"<a href=\"https://\" target=\"_blank\" rel=\"nofollow noopener noreferrer\">"#,
    r#"<span class=\"invisible\">https://</span><span class=\"ellipsis\"></span></a>"#,
    r#"\" class=\"mention hashtag\" rel=\"tag\">#<span></span></a></p>"#,
    r#""type":"Like","type":"Follow","type":"Undo","type":"Accept","type":"Announce","#,
    r#""type":"Delete","object":{"id":"","type":"Tombstone","atomUri":"https://"}},"#,
    r##""signature":{"type":"RsaSignature2017","creator":"https://#main-key","created":"2026-"##,
    r#"","signatureValue":""}},"@context":"https://www.w3.org/ns/activitystreams","#,
    r#""id":"https:///activity","type":"Create","type":"Update","actor":"https:///users/","#,
    r#""published":"2026-","to":["https://www.w3.org/ns/activitystreams#Public"],"#,
    r#""cc":["https:///followers","https://"],"object":{"id":"https:///users//statuses/11","#,
    r#""type":"Note","summary":null,"inReplyTo":null,"published":"2026-","updated":"2026-","#,
    r#""url":"https:///@/11","attributedTo":"https:///users/","#,
    r#""to":["https://www.w3.org/ns/activitystreams#Public"],"cc":["https:///followers"],"#,
    r#""sensitive":false,"atomUri":"https:///users//statuses/11","inReplyToAtomUri":null,"#,
    r#""conversation":"tag:,2026-:objectId=:objectType=Conversation","localOnly":false,"#,
    r#""content":"<p></p>","contentMap":{"en":"<p></p>","de":"<p></p>"},"attachment":[],"#,
    r#""tag":[],"replies":{"id":"https:///users//statuses/11/replies","type":"Collection","#,
    r#""first":{"type":"CollectionPage","next":"https:///replies?only_other_accounts=true&page=true","#,
    r#""partOf":"https:///replies","items":[]}},"likes":{"id":"https:///likes","#,
    r#""type":"Collection","totalItems":0},"shares":{"id":"https:///shares","#,
    r#""type":"Collection","totalItems":0}}}"#,
);

/// A body as it is kept, made small unless it is long. In memory too: what is worked later has been
/// parsed, or is parsed once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Compact(String);

/// It is not what was written.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body as it was kept is damaged: {0}")]
pub(crate) struct Damaged(&'static str);

impl Compact {
    /// `body`, which is a JSON object.
    pub(crate) fn of(body: &str) -> Self {
        if body.len() > PACKED_BYTES_MAX {
            return Self(body.to_owned());
        }
        let packed = compress_with_dict(body.as_bytes(), COMMON.as_bytes());
        let mut bytes = Vec::with_capacity(HEAD_BYTES + packed.len());
        bytes.push(LZ4_COMMON);
        // No longer than `PACKED_BYTES_MAX`.
        bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&packed);
        Self(STANDARD_NO_PAD.encode(bytes))
    }

    /// The body.
    ///
    /// # Errors
    /// When a row says something else than what was written.
    pub(crate) fn text(&self) -> Result<String, Damaged> {
        if is_json(&self.0) {
            return Ok(self.0.clone());
        }
        let bytes = STANDARD_NO_PAD.decode(&self.0).map_err(|_| Damaged("it is not Base64"))?;
        let Some((&[LZ4_COMMON, ref len @ ..], packed)) = bytes.split_first_chunk::<HEAD_BYTES>()
        else {
            return Err(Damaged("it was made small in a way that is not known here"));
        };
        let len = u32::from_le_bytes(*len) as usize;
        if len > PACKED_BYTES_MAX {
            return Err(Damaged("it is longer than what is packed"));
        }
        let text = decompress_with_dict(packed, len, COMMON.as_bytes());
        let text = text.map_err(|_| Damaged("it cannot be unpacked"))?;
        if text.len() != len {
            return Err(Damaged("a part of it is missing"));
        }
        String::from_utf8(text).map_err(|_| Damaged("it is not UTF-8"))
    }

    /// What it takes on the disk, in bytes.
    pub(crate) fn len_bytes(&self) -> usize {
        self.0.len()
    }
}

/// The payload of a job with what the message in it says; none where there is none, or where it is
/// damaged. A message that waits for somebody to be looked up stands a level below.
pub(super) fn readable(payload: &str) -> Option<String> {
    let mut payload: Value = serde_json::from_str(payload).ok()?;
    let place = if payload.get("then").is_some() { "/then" } else { "" };
    let holder = payload.pointer_mut(place)?.as_object_mut()?;
    let body = Compact::deserialize(holder.remove("compact")?).ok()?.text().ok()?;
    let body = serde_json::from_str(&body).unwrap_or(Value::String(body));
    holder.insert("body".into(), body);
    Some(payload.to_string())
}

/// Whether it is a body as it came: it begins with what no Base64 has.
fn is_json(kept: &str) -> bool {
    kept.trim_start().starts_with('{')
}

impl Serialize for Compact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Compact {
    /// A body that waits since before bodies were made small lies there as it came.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(if is_json(&text) { Self::of(&text) } else { Self(text) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use weir_base::Timestamp;
    use weir_jobs::Job;

    use super::*;
    use crate::inbox::{Inbound, Late, LookUp, Unverified};

    fn note() -> String {
        let (host, id) = ("https://social.example", "116423588471");
        let by = format!("{host}/users/alice");
        json!({
            "@context": ["https://www.w3.org/ns/activitystreams", {
                "ostatus": "http://ostatus.org#", "atomUri": "ostatus:atomUri",
                "inReplyToAtomUri": "ostatus:inReplyToAtomUri",
                "conversation": "ostatus:conversation", "sensitive": "as:sensitive",
                "toot": "http://joinmastodon.org/ns#", "votersCount": "toot:votersCount" }],
            "id": format!("{by}/statuses/{id}/activity"), "type": "Create", "actor": by,
            "published": "2026-03-01T12:00:00Z",
            "to": ["https://www.w3.org/ns/activitystreams#Public"],
            "cc": [format!("{by}/followers")],
            "object": { "id": format!("{by}/statuses/{id}"), "type": "Note", "summary": null,
                "inReplyTo": null, "published": "2026-03-01T12:00:00Z", "attributedTo": by,
                "url": format!("{host}/@alice/{id}"),
                "to": ["https://www.w3.org/ns/activitystreams#Public"],
                "cc": [format!("{by}/followers")], "sensitive": false,
                "content": "<p>The river is high today.</p>",
                "contentMap": { "en": "<p>The river is high today.</p>" },
                "attachment": [], "tag": [] }
        })
        .to_string()
    }

    #[test]
    fn a_post_takes_less_than_half() {
        let body = note();
        let compact = Compact::of(&body);
        assert_eq!(compact.text(), Ok(body.clone()));
        assert!(compact.len_bytes() * 2 < body.len(), "{} of {}", compact.len_bytes(), body.len());
    }

    #[test]
    fn what_waits_since_before_is_read() {
        let body = format!(" {}", note());
        let kept = json!(body).to_string();
        let compact: Compact = serde_json::from_str(&kept).unwrap();
        assert_eq!(compact.text(), Ok(body));
        let again: Compact = serde_json::from_str(&json!(compact).to_string()).unwrap();
        assert_eq!(again, compact);
    }

    #[test]
    fn what_is_damaged_is_told_and_takes_no_memory() {
        let head = |first: u8, len: u32| [&[first], &len.to_le_bytes()[..]].concat();
        let short = STANDARD_NO_PAD.encode([LZ4_COMMON, 1]);
        let other = STANDARD_NO_PAD.encode(head(9, 1));
        let long = STANDARD_NO_PAD.encode(head(LZ4_COMMON, u32::MAX));
        let cut = STANDARD_NO_PAD.encode(head(LZ4_COMMON, 5));
        let unknown = "it was made small in a way that is not known here";
        for (damaged, why) in [
            ("", unknown),
            ("?", "it is not Base64"),
            (&short, unknown),
            (&other, unknown),
            (&long, "it is longer than what is packed"),
            (&cut, "it cannot be unpacked"),
        ] {
            assert_eq!(Compact(damaged.to_owned()).text(), Err(Damaged(why)), "{damaged:?}");
        }
        let whole = STANDARD_NO_PAD.decode(&Compact::of(&note()).0).unwrap();
        for len in 0..whole.len() {
            assert!(Compact(STANDARD_NO_PAD.encode(&whole[..len])).text().is_err(), "{len}");
        }
    }

    /// `job`, the body of which is `text`, as rows had it before bodies were made small.
    fn as_before<J: Job>(job: &J, text: &str) -> J {
        let mut row = serde_json::to_value(job).unwrap();
        let place = if row.get("then").is_some() { "/then" } else { "" };
        let fields = row.pointer_mut(place).unwrap().as_object_mut().unwrap();
        fields.remove("looked_up");
        fields.remove("compact").unwrap();
        fields.insert("body".into(), text.into());
        serde_json::from_value(row).unwrap()
    }

    #[test]
    fn whole_rows_of_before_are_read() {
        let (text, at) = (note(), Timestamp::from_ms(1_700_000_000_000));
        let (host, actor) = ("social.example".to_owned(), "https://social.example/a".to_owned());
        let message = Inbound {
            host: host.clone(),
            actor: actor.clone(),
            body: Compact::of(&text),
            signed_at: at,
            arrived: at,
            seq: None,
            looked_up: false,
            activity: None,
        };
        let unverified = Unverified {
            host: host.clone(),
            source: "192.0.2.0".into(),
            key_id: format!("{actor}#main-key"),
            actor: actor.clone(),
            path: "/inbox".into(),
            headers: Vec::new(),
            body: Compact::of(&text),
            arrived: at,
        };
        let look_up = LookUp { host, account: actor, then: Some(message.clone()) };
        let late = as_before(&Late(message.clone()), &text).0;
        let then = as_before(&look_up, &text).then.unwrap();
        let unverified = as_before(&unverified, &text);
        for body in [as_before(&message, &text).body, late.body, then.body, unverified.body] {
            assert_eq!(body, message.body);
        }
    }

    #[test]
    fn people_read_a_payload_with_the_message_as_it_came() {
        let note: Value = serde_json::from_str(&note()).unwrap();
        let message = json!({ "host": "a.example", "compact": Compact::of(&note.to_string()) });
        let read =
            |payload: &Value| serde_json::from_str::<Value>(&readable(&payload.to_string())?).ok();
        let shown = json!({ "host": "a.example", "body": note });
        assert_eq!(read(&message), Some(shown.clone()));
        assert_eq!(read(&json!({ "then": message })), Some(json!({ "then": shown })));
        for none in [json!({ "then": null }), json!({ "compact": "?" }), json!([])] {
            assert_eq!(read(&none), None, "{none}");
        }
        assert_eq!(readable("no JSON"), None);
    }

    #[test]
    fn what_is_long_stays_as_it_is() {
        for len in [PACKED_BYTES_MAX - 2, PACKED_BYTES_MAX - 1, 1024 * 1024] {
            let body = format!("{{{}}}", "x".repeat(len));
            let kept = json!(Compact::of(&body)).to_string();
            assert_eq!(kept.len() > len, len + 2 > PACKED_BYTES_MAX);
            let kept: Compact = serde_json::from_str(&kept).unwrap();
            assert_eq!(kept.text(), Ok(body));
        }
    }

    proptest! {
        #[test]
        fn all_that_is_said_is_kept(body in ".{0,2000}") {
            prop_assert_eq!(Compact::of(&body).text(), Ok(body));
        }

        #[test]
        fn whatever_a_row_says_is_no_panic(row in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut row = row;
            row.splice(0..0, [LZ4_COMMON, 100, 0, 0, 0]);
            let _ = Compact(STANDARD_NO_PAD.encode(row)).text();
        }
    }
}
