//! What apps tell each other about messages: passed on, and kept as people would miss it.

use super::dialogue::play;
use super::rooms::{BOB, ROOM};

/// Each by its name, and as it stands in a message.
const PAYLOADS: &[(&str, &str)] = &[
    ("received", "<received xmlns='urn:xmpp:receipts' id='1'/>"),
    ("displayed", "<displayed xmlns='urn:xmpp:chat-markers:0' id='1'/>"),
    ("replace", "<body>tea</body><replace xmlns='urn:xmpp:message-correct:0' id='1'/>"),
    ("retract", "<retract xmlns='urn:xmpp:message-retract:1' id='1'/>"),
    (
        "reactions",
        "<reactions xmlns='urn:xmpp:reactions:0' id='1'><reaction>+</reaction></reactions>",
    ),
    ("reply", "<body>yes</body><reply xmlns='urn:xmpp:reply:0' id='1' to='alice@weir.test'/>"),
];

#[tokio::test]
async fn receipts_and_all_else_about_messages_pass_between_two_and_stay_in_both_archives() {
    let mut script = String::from("alice is here\nbob is here\n");
    let mut archive = String::new();
    for (id, payload) in PAYLOADS {
        script += &format!(
            "bob sends
               <message to='alice@weir.test' type='chat' id='{id}'>{payload}</message>
             alice receives
               <message from='bob@weir.test/home' id='{id}'>{payload}
               <stanza-id xmlns='urn:xmpp:sid:0' by='alice@weir.test' id='*'/></message>\n"
        );
        archive += &format!(
            "WHO receives
               <message><result xmlns='urn:xmpp:mam:2'><forwarded xmlns='urn:xmpp:forward:0'>
               <message xmlns='jabber:client' id='{id}'>{payload}</message></forwarded></result>
               </message>\n"
        );
    }
    for who in ["alice", "bob"] {
        script += &format!(
            "{who} sends
               <iq type='set' id='m'><query xmlns='urn:xmpp:mam:2'/></iq>\n"
        );
        script += &archive.replace("WHO", who);
        script += &format!("{who} receives\n<iq type='result' id='m'/>\n");
    }
    play(&script).await;
}

#[tokio::test]
async fn the_same_passes_in_rooms_and_stays_in_their_archives() {
    let mut script = format!("{ROOM}{BOB}\n");
    let mut archive = String::new();
    for (id, payload) in PAYLOADS {
        script += &format!(
            "bob sends
               <message to='tea@conference.weir.test' type='groupchat' id='{id}'>{payload}</message>
             alice receives
               <message from='tea@conference.weir.test/bo' id='{id}'>{payload}
               <stanza-id xmlns='urn:xmpp:sid:0' by='tea@conference.weir.test' id='*'/></message>\n"
        );
        archive += &format!(
            "alice receives
               <message from='tea@conference.weir.test'><result xmlns='urn:xmpp:mam:2'>
               <forwarded xmlns='urn:xmpp:forward:0'>
               <message xmlns='jabber:client' id='{id}'>{payload}</message></forwarded></result>
               </message>\n"
        );
    }
    script += "alice sends
       <iq type='set' id='m' to='tea@conference.weir.test'><query xmlns='urn:xmpp:mam:2'/></iq>\n";
    script += &archive;
    script += "alice receives\n<iq type='result' id='m'/>\n";
    play(&script).await;
}
