//! Messages that people write outside of chat, and apps that are woken when something waits.

use weir_community::Error;
use weir_community::accounts;
use weir_community::chat::carrier::Outgoing;
use weir_community::streams::Noun;
use weir_db::Class;

use super::dialogue::play;
use super::place::{Place, places};

async fn write(place: &Place, to: &str, text: &str) -> Result<weir_base::Id, Error> {
    let account = place
        .community
        .read(Class::Interactive, |tx, _| Ok(accounts::by_address(tx, "alice", "")?.unwrap().id));
    let message = Outgoing {
        from: account.await.unwrap(),
        from_jid: "alice@weir.test".into(),
        to_jid: to.into(),
        text: text.into(),
    };
    let chat = place.community.env().chat.get().unwrap();
    (chat.send)(message).await
}

#[tokio::test]
async fn what_is_written_elsewhere_reaches_the_apps_of_both_sides() {
    for mut place in places().await {
        let mut own = place.logged_in("alice", "home").await;
        own.send("<iq type='set' id='c'><enable xmlns='urn:xmpp:carbons:2'/></iq>").await;
        own.receive().await;
        let mut other = place.logged_in("bob", "phone").await;
        other.send("<presence/>").await;
        other.until_ping().await;
        let id = write(&place, "bob@weir.test", "hi <there>").await.unwrap();
        let came = other.receive().await;
        assert_eq!(came.child("body", "jabber:client").unwrap().text(), "hi <there>");
        assert_eq!(came.attr("from"), Some("alice@weir.test"));
        let stanza_id = came.child("stanza-id", "urn:xmpp:sid:0").unwrap();
        assert_eq!(stanza_id.attr("id"), Some(id.to_string().as_str()));
        let copy = own.receive().await;
        assert!(copy.has("sent", "urn:xmpp:carbons:2"), "{copy:?}");
    }
}

#[tokio::test]
async fn who_writes_elsewhere_learns_what_became_of_it() {
    for mut place in places().await {
        place.person("alice").await;
        place.person("bob").await;
        assert!(write(&place, "bob@weir.test", "you are not here").await.is_ok());
        let nobody = write(&place, "nobody@weir.test", "hi").await;
        assert!(matches!(nobody, Err(Error::NotFound(_))), "{nobody:?}");
        for to in ["@@", "bob@weir.test:8080", "bob@we,ir.test"] {
            let no_address = write(&place, to, "hi").await;
            assert!(matches!(no_address, Err(Error::Invalid(_))), "{to}: {no_address:?}");
        }
    }
}

#[tokio::test]
async fn who_comes_into_chat_and_leaves_is_told_to_those_who_look() {
    for mut place in places().await {
        place.person("bob").await;
        let found = place
            .community
            .read(Class::Interactive, |tx, _| Ok(accounts::by_address(tx, "bob", "")?.unwrap().id));
        let bob = found.await.unwrap();
        let env = place.community.env().clone();
        let (chat, touches) = (env.chat.get().unwrap(), env.streams.touches());
        touches.watch([Noun::Chatting(bob)], touches.now());
        let mut app = place.logged_in("bob", "home").await;
        assert_eq!((touches.take(), (chat.is_here)(bob)), (Vec::new(), false));
        for (said, is_here) in [("", true), (" type='unavailable'", false), ("", true)] {
            app.send(&format!("<presence{said}/>")).await;
            touches.wait().await;
            assert_eq!(touches.take(), [Noun::Chatting(bob)], "on {}", place.name);
            assert_eq!((chat.is_here)(bob), is_here);
            app.sync().await;
        }
        app.send("<presence><show>away</show></presence>").await;
        app.sync().await;
        assert_eq!(touches.take(), [], "bob is as much here as before");
        app.send("</stream:stream>").await;
        touches.wait().await;
        assert!(!(chat.is_here)(bob));
    }
}

#[tokio::test]
async fn apps_are_woken_when_a_message_waits_and_not_told_what_it_says() {
    play(
        "bob is here
         bob sends
           <iq type='set' id='e'><enable xmlns='urn:xmpp:push:0' jid='alice@weir.test/push'
           node='n1'><x xmlns='jabber:x:data' type='submit'><field var='secret'><value>s</value>
           </field></x></enable></iq>
         bob receives
           <iq type='result' id='e'/>
         bob leaves
         alice/push is here
         carol is here
         alice/push listens no more
         carol sends
           <message to='bob@weir.test' type='chat'><body>wake up</body></message>
         alice/push hears nothing",
    )
    .await;
    for mut place in places().await {
        let mut service = place.logged_in("alice", "push").await;
        service.send("<presence to='bob@weir.test'/><presence/>").await;
        service.until_ping().await;
        let mut bob = place.logged_in("bob", "home").await;
        let enable = "<iq type='set' id='e'><enable xmlns='urn:xmpp:push:0' \
                      jid='alice@weir.test/push' node='n1'/></iq>";
        bob.send(enable).await;
        bob.receive().await;
        let subscribe = "<presence to='alice@weir.test' type='subscribed'/>\
                         <presence to='alice@weir.test' type='subscribe'/>";
        bob.send(subscribe).await;
        bob.until_ping().await;
        service.send("<presence to='bob@weir.test' type='subscribed'/>").await;
        service.until_ping().await;
        bob.send("</stream:stream>").await;
        while bob.frame().await.is_some() {}
        let mut carol = place.logged_in("carol", "home").await;
        carol.send("<message to='bob@weir.test' type='chat'><body>wake up</body></message>").await;
        let woken = loop {
            let next = service.receive().await;
            if next.name == "iq" {
                break next;
            }
        };
        let text = weir_xmpp::wire::write::to_string(&woken);
        assert!(text.contains("urn:xmpp:push:summary") && text.contains("n1"), "{text}");
        assert!(!text.contains("wake up"), "{text}");
    }
}
