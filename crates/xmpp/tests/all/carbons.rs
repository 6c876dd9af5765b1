//! Copies for one's other resources (XEP-0280).

use super::dialogue::play;

const ENABLE: &str = "<iq type='set' id='c'><enable xmlns='urn:xmpp:carbons:2'/></iq>";

#[tokio::test]
async fn other_resources_get_what_one_says_and_what_one_hears() {
    play(&format!(
        "alice/phone is here
         alice/desk is here
         alice/phone listens no more
         bob is here
         alice/desk sends
           {ENABLE}
         alice/desk receives
           <iq type='result' id='c'/>
         alice/phone sends
           <message to='bob@weir.test/home' type='chat'><body>hi</body></message>
         bob receives
           <message><body>hi</body></message>
         alice/desk receives
           <message from='alice@weir.test' to='alice@weir.test/desk' type='chat'>
           <sent xmlns='urn:xmpp:carbons:2'><forwarded xmlns='urn:xmpp:forward:0'>
           <message xmlns='jabber:client' from='alice@weir.test/phone' to='bob@weir.test/home'>
           <body>hi</body></message></forwarded></sent></message>
         bob sends
           <message to='alice@weir.test/phone' type='chat'><body>hello</body></message>
         alice/phone receives
           <message><body>hello</body></message>
         alice/desk receives
           <message from='alice@weir.test'><received xmlns='urn:xmpp:carbons:2'>
           <forwarded xmlns='urn:xmpp:forward:0'>
           <message xmlns='jabber:client' from='bob@weir.test/home'><body>hello</body></message>
           </forwarded></received></message>
         bob sends
           <message to='alice@weir.test/phone' type='chat'><body>psst</body>
           <private xmlns='urn:xmpp:carbons:2'/></message>
         alice/phone receives
           <message><body>psst</body></message>
         alice/desk hears nothing"
    ))
    .await;
}

#[tokio::test]
async fn nobody_gets_a_copy_of_what_they_get_anyway() {
    play(&format!(
        "alice/phone is here
         alice/desk is here
         alice/phone listens no more
         bob is here
         alice/desk sends
           {ENABLE}
         alice/desk receives
           <iq type='result' id='c'/>
         bob sends
           <message to='alice@weir.test' type='chat'><body>all</body></message>
         alice/phone receives
           <message><body>all</body></message>
         alice/desk receives
           <message from='bob@weir.test/home'><body>all</body></message>
         alice/desk hears nothing"
    ))
    .await;
}
