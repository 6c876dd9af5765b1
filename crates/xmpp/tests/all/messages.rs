//! Where messages go (RFC 6121 section 8.5).

use super::dialogue::play;

#[tokio::test]
async fn a_message_to_an_account_goes_to_its_resources_that_want_it() {
    play(
        "alice is here
         bob/phone is here
         bob/desk is here
         bob/quiet connects
         alice sends
           <message to='bob@weir.test' type='chat' id='m1'><body>hi</body></message>
         bob/phone receives
           <message from='alice@weir.test/home' to='bob@weir.test' type='chat' id='m1'>
           <body>hi</body><stanza-id xmlns='urn:xmpp:sid:0' by='bob@weir.test' id='*'/></message>
         bob/desk receives
           <message from='alice@weir.test/home' to='bob@weir.test'><body>hi</body></message>
         bob/quiet hears nothing",
    )
    .await;
}

#[tokio::test]
async fn a_message_to_a_resource_goes_there_alone() {
    play(
        "alice is here
         bob/phone is here
         bob/desk is here
         bob/phone listens no more
         alice sends
           <message to='bob@weir.test/desk' type='chat'><body>hi</body></message>
         bob/desk receives
           <message to='bob@weir.test/desk'><body>hi</body></message>
         bob/phone hears nothing",
    )
    .await;
}

#[tokio::test]
async fn a_message_to_a_resource_that_is_gone_goes_to_the_account() {
    play(
        "alice is here
         bob/phone is here
         alice sends
           <message to='bob@weir.test/gone' type='chat'><body>hi</body></message>
         bob/phone receives
           <message from='alice@weir.test/home'><body>hi</body></message>
         alice sends
           <message to='bob@weir.test/gone' type='headline'><body>news</body></message>
         bob/phone hears nothing",
    )
    .await;
}

#[tokio::test]
async fn a_resource_with_negative_priority_gets_only_what_is_for_itself() {
    play(
        "alice is here
         bob/robot connects
         bob/robot sends
           <presence><priority>-1</priority></presence>
         bob/robot receives
           <presence from='bob@weir.test/robot'><priority>-1</priority></presence>
         alice sends
           <message to='bob@weir.test/robot'><body>run</body></message>
         bob/robot receives
           <message><body>run</body></message>
         alice sends
           <message to='bob@weir.test' type='chat'><body>hi</body></message>
         bob/robot hears nothing
         bob/robot sends
           <presence><priority>1</priority></presence>
         bob/robot receives in any order
           <presence from='bob@weir.test/robot'><priority>1</priority></presence>
           <message><body>hi</body><delay xmlns='urn:xmpp:delay' stamp='*'/></message>",
    )
    .await;
}

#[tokio::test]
async fn what_is_said_to_nobody_waits_and_comes_once() {
    play(
        "bob has an account
         alice is here
         alice sends
           <message to='bob@weir.test' type='chat' id='1'><body>one</body></message>
           <message to='bob@weir.test' id='2'><body>two</body></message>
           <message to='bob@weir.test' type='headline'><body>news</body></message>
           <message to='bob@weir.test' type='chat'>
           <composing xmlns='http://jabber.org/protocol/chatstates'/></message>
         alice hears nothing
         bob connects
         bob sends
           <presence/>
         bob receives in any order
           <presence from='bob@weir.test/home'/>
           <message id='1'><body>one</body>
           <delay xmlns='urn:xmpp:delay' from='weir.test'/></message>
         bob receives
           <message id='2'><body>two</body><delay xmlns='urn:xmpp:delay'/></message>
         bob hears nothing
         bob leaves
         bob connects
         bob sends
           <presence/>
         bob receives
           <presence from='bob@weir.test/home'/>
         bob hears nothing",
    )
    .await;
}

#[tokio::test]
async fn what_nobody_can_get_is_refused() {
    play(
        "bob is here
         alice is here
         alice sends
           <message to='nobody@weir.test' type='chat' id='1'><body>hi</body></message>
         alice receives
           <message type='error' id='1' from='nobody@weir.test' to='alice@weir.test/home'>
           <error type='cancel'>
           <service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>
         alice sends
           <message to='bob@weir.test' type='groupchat' id='2'><body>hi</body></message>
         alice receives
           <message type='error' id='2'><error>
           <service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>
         alice sends
           <message to='bob@other.test' type='chat' id='3'><body>hi</body></message>
         alice receives
           <message type='error' id='3' from='bob@other.test'><error>
           <remote-server-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>
         alice sends
           <message to='weir.test' id='4'><body>hi</body></message>
         alice receives
           <message type='error' id='4' from='weir.test'/>
         alice sends
           <message to='bob@weir.test' type='error' id='5'><error/></message>
         alice hears nothing",
    )
    .await;
}

#[tokio::test]
async fn messages_of_one_person_keep_their_order() {
    play(
        "alice is here
         bob is here
         alice sends
           <message to='bob@weir.test' type='chat'><body>1</body></message>
           <message to='bob@weir.test' type='chat'>
           <active xmlns='http://jabber.org/protocol/chatstates'/></message>
           <message to='bob@weir.test' type='chat'><body>2</body></message>
           <message to='bob@weir.test' type='chat'><body>3</body>
           <no-store xmlns='urn:xmpp:hints'/></message>
           <message to='bob@weir.test' type='chat'><body>4</body></message>
         bob receives
           <message><body>1</body></message>
         bob receives
           <message><active xmlns='http://jabber.org/protocol/chatstates'/></message>
         bob receives
           <message><body>2</body></message>
         bob receives
           <message><body>3</body></message>
         bob receives
           <message><body>4</body></message>",
    )
    .await;
}

#[tokio::test]
async fn an_id_of_the_archive_is_not_believed_from_others() {
    play(
        "alice is here
         bob is here
         alice sends
           <message to='bob@weir.test' type='chat'><body>hi</body>
           <no-store xmlns='urn:xmpp:hints'/>
           <stanza-id xmlns='urn:xmpp:sid:0' by='bob@weir.test' id='forged'/>
           <origin-id xmlns='urn:xmpp:sid:0' id='own'/></message>
         bob receives
           <message><body>hi</body><origin-id xmlns='urn:xmpp:sid:0' id='own'/></message>
         bob hears nothing",
    )
    .await;
}

#[tokio::test]
async fn a_message_without_an_address_is_for_oneself() {
    play(
        "alice is here
         alice sends
           <message type='chat'><body>note</body></message>
         alice receives
           <message from='alice@weir.test/home' to='alice@weir.test'><body>note</body></message>",
    )
    .await;
}
