//! The server's rules for stanzas to people of here (RFC 6121 section 8.5): a dialogue for each.

use super::contacts::FRIENDS;
use super::dialogue::play;

/// One of each type; `WHOM` is who they are for.
const ONE_OF_EACH: &str = "
    alice sends
      <message to='WHOM' id='n'><body>normal</body></message>
      <message to='WHOM' id='c' type='chat'><body>chat</body></message>
      <message to='WHOM' id='g' type='groupchat'><body>groupchat</body></message>
      <message to='WHOM' id='h' type='headline'><body>headline</body></message>
      <message to='WHOM' id='e' type='error'><error type='cancel'><gone
      xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>";

fn one_of_each(to: &str) -> String {
    ONE_OF_EACH.replace("WHOM", to)
}

/// How alice is told that nobody can get it.
fn refused(kind: &str, id: &str) -> String {
    format!(
        "<{kind} type='error' id='{id}' to='alice@weir.test/home'><error>
         <service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></{kind}>"
    )
}

/// Section 8.5.1.
#[tokio::test]
async fn messages_to_an_account_that_is_not_there_are_refused_or_ignored() {
    for to in ["nobody@weir.test", "nobody@weir.test/home"] {
        play(&format!(
            "alice is here
             {}
             alice receives in any order
               {}
               {}
               {}
             alice hears nothing",
            one_of_each(to),
            refused("message", "n"),
            refused("message", "c"),
            refused("message", "g"),
        ))
        .await;
    }
}

/// Section 8.5.1.
#[tokio::test]
async fn presence_to_an_account_that_is_not_there_is_ignored_and_queries_are_refused() {
    for to in ["nobody@weir.test", "nobody@weir.test/home"] {
        play(&format!(
            "alice is here
             alice sends
               <presence to='{to}'/>
               <presence to='{to}' type='unavailable'/>
               <presence to='{to}' type='unsubscribe'/>
               <presence to='{to}' type='subscribed'/>
               <presence to='{to}' type='unsubscribed'/>
             alice hears nothing
             alice sends
               <iq to='{to}' type='get' id='1'><query xmlns='jabber:iq:version'/></iq>
             alice receives
               {}
             alice sends
               <iq to='{to}' type='set' id='2'><query xmlns='jabber:iq:roster'/></iq>
             alice receives
               {}
             alice sends
               <iq to='{to}' type='result' id='3'/>
             alice hears nothing",
            refused("iq", "1"),
            refused("iq", "2"),
        ))
        .await;
    }
}

/// Section 8.5.2.1.1: with one resource, and with several of different priorities.
#[tokio::test]
async fn messages_to_an_account_go_to_all_its_resources_of_no_negative_priority() {
    play(&format!(
        "alice is here
         bob/phone is here
         bob/desk is here
         bob/robot is here
         bob/quiet connects
         bob/desk sends
           <presence><priority>5</priority></presence>
         bob/robot sends
           <presence><priority>-1</priority></presence>
         bob/phone listens no more
         bob/desk listens no more
         bob/robot listens no more
         {}
         alice receives
           {}
         bob/phone receives
           <message id='n' to='bob@weir.test'><body>normal</body></message>
         bob/phone receives
           <message id='c'><body>chat</body></message>
         bob/phone receives
           <message id='h'><body>headline</body></message>
         bob/phone hears nothing
         bob/desk receives
           <message id='n'><body>normal</body></message>
         bob/desk receives
           <message id='c'><body>chat</body></message>
         bob/desk receives
           <message id='h'><body>headline</body></message>
         bob/desk hears nothing
         bob/robot hears nothing
         bob/quiet hears nothing
         alice hears nothing",
        one_of_each("bob@weir.test"),
        refused("message", "g"),
    ))
    .await;
}

/// Section 8.5.2.1.2.
#[tokio::test]
async fn presence_to_an_account_goes_to_all_its_available_resources() {
    play(
        "alice is here
         bob/phone is here
         bob/robot is here
         bob/quiet connects
         bob/robot sends
           <presence><priority>-1</priority></presence>
         bob/phone listens no more
         bob/robot listens no more
         alice sends
           <presence to='bob@weir.test'><status>for you</status></presence>
         bob/phone receives
           <presence from='alice@weir.test/home'><status>for you</status></presence>
         bob/robot receives
           <presence from='alice@weir.test/home'><status>for you</status></presence>
         alice sends
           <presence to='bob@weir.test' type='unavailable'/>
         bob/phone receives
           <presence from='alice@weir.test/home' type='unavailable'/>
         bob/robot receives
           <presence from='alice@weir.test/home' type='unavailable'/>
         alice sends
           <presence to='bob@weir.test' type='subscribe' id='s'/>
         bob/phone receives
           <presence from='alice@weir.test' type='subscribe'/>
         bob/robot receives
           <presence from='alice@weir.test' type='subscribe'/>
         bob/quiet hears nothing",
    )
    .await;
}

/// Sections 8.5.2.1.3 and 8.5.2.2.3.
#[tokio::test]
async fn queries_to_an_account_are_answered_by_the_server_and_never_passed_on() {
    for bob in ["bob is here", "bob connects", "bob has an account"] {
        let silence = if bob.ends_with("account") { "" } else { "bob hears nothing" };
        play(&format!(
            "alice is here
             {bob}
             alice sends
               <iq to='bob@weir.test' type='get' id='1'>
               <vCard xmlns='vcard-temp'/></iq>
             alice receives
               <iq type='result' id='1' from='bob@weir.test'/>
             alice sends
               <iq to='bob@weir.test' type='get' id='2'><query xmlns='urn:nobody:knows'/></iq>
             alice receives
               {}
             alice sends
               <iq to='bob@weir.test' type='result' id='3'/>
               <iq to='bob@weir.test' type='error' id='4'/>
             alice hears nothing
             {silence}",
            refused("iq", "2"),
        ))
        .await;
    }
}

/// Section 8.5.2.2.1: nobody is there, or only who is not available or does not want them.
#[tokio::test]
async fn messages_to_an_account_that_nobody_reads_wait_or_are_refused_or_ignored() {
    let robot = "bob/robot connects
         bob/robot sends
           <presence><priority>-1</priority></presence>
         bob/robot listens no more";
    for bob in ["bob has an account", "bob/quiet connects", robot] {
        let shown = if bob == robot { "<presence from='bob@weir.test/robot'/>" } else { "" };
        play(&format!(
            "alice is here
             {bob}
             {}
             alice receives
               {}
             alice hears nothing
             bob connects
             bob sends
               <presence/>
             bob receives in any order
               <presence from='bob@weir.test/home'/>{shown}
               <message id='n'><body>normal</body><delay xmlns='urn:xmpp:delay'/></message>
               <message id='c'><body>chat</body><delay xmlns='urn:xmpp:delay'/></message>
             bob listens no more
             bob hears nothing",
            one_of_each("bob@weir.test"),
            refused("message", "g"),
        ))
        .await;
    }
}

/// Section 8.5.2.2.2.
#[tokio::test]
async fn presence_to_an_account_that_is_not_available_is_ignored_but_requests_wait() {
    play(
        "alice is here
         bob/quiet connects
         alice sends
           <presence to='bob@weir.test'/>
           <presence to='bob@weir.test' type='unavailable'/>
           <presence to='bob@weir.test' type='subscribe'/>
         alice listens no more
         bob/quiet hears nothing
         bob/quiet sends
           <presence/>
         bob/quiet receives in any order
           <presence from='bob@weir.test/quiet'/>
           <presence from='alice@weir.test' type='subscribe'/>
         bob/quiet hears nothing",
    )
    .await;
}

/// Section 8.5.3.1: whatever its priority, and whether it is available or not.
#[tokio::test]
async fn what_is_for_a_resource_that_is_connected_goes_there() {
    for bob in ["<presence/>", "<presence><priority>-1</priority></presence>", ""] {
        let shows = if bob.is_empty() { String::new() } else { format!("bob sends\n{bob}") };
        play(&format!(
            "alice is here
             bob connects
             bob/other is here
             {shows}
             bob listens no more
             bob/other listens no more
             {}
             bob receives
               <message to='bob@weir.test/home' id='n'><body>normal</body></message>
             bob receives
               <message id='c'><body>chat</body></message>
             bob receives
               <message id='g' type='groupchat'><body>groupchat</body></message>
             bob receives
               <message id='h' type='headline'><body>headline</body></message>
             bob receives
               <message id='e' type='error'/>
             alice sends
               <presence to='bob@weir.test/home'/>
             bob receives
               <presence from='alice@weir.test/home' to='bob@weir.test/home'/>
             alice sends
               <presence to='bob@weir.test/home' type='unavailable'/>
             bob receives
               <presence from='alice@weir.test/home' type='unavailable'/>
             bob hears nothing
             bob/other hears nothing
             alice hears nothing",
            one_of_each("bob@weir.test/home"),
        ))
        .await;
    }
}

/// Section 8.5.3.2.1: a chat goes on where the other is now; the rest is for nobody else.
#[tokio::test]
async fn messages_to_a_resource_that_is_gone_go_to_the_account_if_they_are_part_of_a_chat() {
    play(&format!(
        "alice is here
         bob/phone is here
         bob/desk is here
         bob/phone listens no more
         {}
         alice receives in any order
           {}
           {}
         alice hears nothing
         bob/phone receives
           <message id='c' to='bob@weir.test/gone'><body>chat</body></message>
         bob/phone hears nothing
         bob/desk receives
           <message id='c'><body>chat</body></message>
         bob/desk hears nothing",
        one_of_each("bob@weir.test/gone"),
        refused("message", "n"),
        refused("message", "g"),
    ))
    .await;
}

/// The same where nobody else is there.
#[tokio::test]
async fn a_chat_with_a_resource_that_was_the_last_waits() {
    play(&format!(
        "bob has an account
         alice is here
         {}
         alice receives in any order
           {}
           {}
         alice hears nothing
         bob connects
         bob sends
           <presence/>
         bob receives in any order
           <presence from='bob@weir.test/home'/>
           <message id='c'><body>chat</body><delay xmlns='urn:xmpp:delay'/></message>
         bob hears nothing",
        one_of_each("bob@weir.test/gone"),
        refused("message", "n"),
        refused("message", "g"),
    ))
    .await;
}

/// Sections 8.5.3.2.2 and 8.5.3.2.3.
#[tokio::test]
async fn presence_to_a_resource_that_is_gone_is_ignored_and_queries_are_refused() {
    play(&format!(
        "{FRIENDS}
         alice is here
         bob is here
         alice listens no more
         alice sends
           <presence to='bob@weir.test/gone'/>
           <presence to='bob@weir.test/gone' type='unavailable'/>
         alice hears nothing
         alice sends
           <iq to='bob@weir.test/gone' type='get' id='1'><query xmlns='jabber:iq:version'/></iq>
         alice receives
           {}
         alice sends
           <iq to='bob@weir.test/gone' type='set' id='2'><query xmlns='urn:nobody:knows'/></iq>
         alice receives
           {}
         alice sends
           <iq to='bob@weir.test/gone' type='result' id='3'/>
         alice hears nothing
         bob hears nothing",
        refused("iq", "1"),
        refused("iq", "2"),
    ))
    .await;
}
