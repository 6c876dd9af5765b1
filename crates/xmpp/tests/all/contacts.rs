//! Rosters and subscriptions (RFC 6121 sections 2 and 3).

use weir_db::Class;

use super::dialogue::{play, play_at};
use super::place::places;

/// Alice and bob see each other.
pub const FRIENDS: &str = "
    alice is here
    bob is here
    alice sends
      <presence to='bob@weir.test' type='subscribe'/>
    bob listens no more
    bob sends
      <presence to='alice@weir.test' type='subscribed'/>
      <presence to='alice@weir.test' type='subscribe'/>
    alice listens no more
    alice sends
      <presence to='bob@weir.test' type='subscribed'/>
    bob leaves
    alice leaves";

#[tokio::test]
async fn contacts_are_kept_and_pushed_to_those_who_asked() {
    play(
        "alice/phone is here
         alice/desk is here
         alice/phone listens no more
         alice/phone sends
           <iq type='get' id='r1'><query xmlns='jabber:iq:roster'/></iq>
         alice/phone receives
           <iq type='result' id='r1'><query xmlns='jabber:iq:roster' ver='*'/></iq>
         alice/desk sends
           <iq type='set' id='r2'><query xmlns='jabber:iq:roster'>
           <item jid='Bob@Weir.test/phone' name='Bob'><group>Friends</group></item></query></iq>
         alice/phone receives
           <iq type='set' id='*' from='(none)'><query xmlns='jabber:iq:roster' ver='*'>
           <item jid='bob@weir.test' name='Bob' subscription='none'><group>Friends</group></item>
           </query></iq>
         alice/desk receives
           <iq type='result' id='r2'/>
         alice/desk hears nothing
         alice/desk sends
           <iq type='set' id='r3'><query xmlns='jabber:iq:roster'>
           <item jid='bob@weir.test' subscription='remove'/></query></iq>
         alice/phone receives
           <iq type='set'><query xmlns='jabber:iq:roster'>
           <item jid='bob@weir.test' subscription='remove'/></query></iq>
         alice/desk receives
           <iq type='result' id='r3'/>
         alice/desk sends
           <iq type='set' id='r4'><query xmlns='jabber:iq:roster'>
           <item jid='bob@weir.test' subscription='remove'/></query></iq>
         alice/desk receives
           <iq type='error' id='r4'><error>
           <item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
    )
    .await;
}

#[tokio::test]
async fn a_roster_that_the_app_has_is_not_sent_again() {
    for mut place in super::place::places().await {
        let mut app = place.logged_in("alice", "home").await;
        app.send("<iq type='get' id='1'><query xmlns='jabber:iq:roster' ver=''/></iq>").await;
        let answer = app.receive().await;
        let version = answer.children().next().unwrap().attr("ver").unwrap().to_owned();
        let again =
            format!("<iq type='get' id='2'><query xmlns='jabber:iq:roster' ver='{version}'/></iq>");
        app.send(&again).await;
        let answer = app.receive().await;
        assert_eq!(answer.attr("type"), Some("result"));
        assert_eq!(answer.children().count(), 0);
    }
}

#[tokio::test]
async fn people_ask_for_presence_and_grant_it() {
    play(
        "alice is here
         alice asks for the roster
         bob is here
         bob asks for the roster
         alice sends
           <presence to='bob@weir.test' type='subscribe' id='s'><status>it is me</status></presence>
         alice receives
           <iq type='set'><query xmlns='jabber:iq:roster'>
           <item jid='bob@weir.test' subscription='none' ask='subscribe'/></query></iq>
         bob receives
           <presence from='alice@weir.test' to='bob@weir.test' type='subscribe'>
           <status>it is me</status></presence>
         bob sends
           <presence to='alice@weir.test' type='subscribed'/>
         bob receives
           <iq type='set'><query xmlns='jabber:iq:roster'>
           <item jid='alice@weir.test' subscription='from'/></query></iq>
         alice receives in any order
           <presence from='bob@weir.test' to='alice@weir.test' type='subscribed'/>
           <iq type='set'><query xmlns='jabber:iq:roster'>
           <item jid='bob@weir.test' subscription='to' ask='(none)'/></query></iq>
           <presence from='bob@weir.test/home' to='alice@weir.test'/>
         alice hears nothing
         bob sends
           <presence to='alice@weir.test' type='unsubscribed'/>
         bob receives
           <iq type='set'><query xmlns='jabber:iq:roster'>
           <item jid='alice@weir.test' subscription='none'/></query></iq>
         alice receives in any order
           <presence from='bob@weir.test' type='unsubscribed'/>
           <iq type='set'><query xmlns='jabber:iq:roster'>
           <item jid='bob@weir.test' subscription='none'/></query></iq>
           <presence from='bob@weir.test/home' type='unavailable'/>",
    )
    .await;
}

#[tokio::test]
async fn a_request_waits_for_who_is_not_here_and_comes_at_each_arrival_until_answered() {
    play(
        "bob has an account
         alice is here
         alice sends
           <presence to='bob@weir.test' type='subscribe'/>
         alice hears nothing
         bob connects
         bob sends
           <presence/>
         bob receives in any order
           <presence from='bob@weir.test/home'/>
           <presence from='alice@weir.test' type='subscribe'/>
         bob leaves
         bob connects
         bob sends
           <presence/>
         bob receives in any order
           <presence from='bob@weir.test/home'/>
           <presence from='alice@weir.test' type='subscribe'/>
         bob sends
           <presence to='alice@weir.test' type='unsubscribed'/>
         alice receives
           <presence from='bob@weir.test' type='unsubscribed'/>
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
async fn approval_in_advance_is_given_at_once_when_asked_for() {
    play(
        "alice is here
         bob is here
         bob asks for the roster
         bob sends
           <presence to='alice@weir.test' type='subscribed'/>
         bob receives
           <iq type='set'><query xmlns='jabber:iq:roster'>
           <item jid='alice@weir.test' subscription='none' approved='true'/></query></iq>
         alice hears nothing
         alice sends
           <presence to='bob@weir.test' type='subscribe'/>
         alice receives in any order
           <presence from='bob@weir.test' type='subscribed'/>
           <presence from='bob@weir.test/home'/>
         bob receives
           <iq type='set'><query xmlns='jabber:iq:roster'>
           <item jid='alice@weir.test' subscription='from'/></query></iq>
         bob hears nothing",
    )
    .await;
}

#[tokio::test]
async fn who_asks_nobody_is_told_so() {
    play(
        "alice is here
         alice sends
           <presence to='nobody@weir.test' type='subscribe'/>
         alice receives
           <presence from='nobody@weir.test' to='alice@weir.test' type='unsubscribed'/>
         alice hears nothing",
    )
    .await;
}

#[tokio::test]
async fn a_contact_that_is_removed_sees_nothing_any_more() {
    let script = format!(
        "{FRIENDS}
         alice is here
         bob is here
         alice listens no more
         alice sends
           <iq type='set' id='x'><query xmlns='jabber:iq:roster'>
           <item jid='bob@weir.test' subscription='remove'/></query></iq>
         alice receives in any order
           <iq type='result' id='x'/>
           <presence from='bob@weir.test/home' type='unavailable'/>
         bob receives in any order
           <presence from='alice@weir.test/home' type='unavailable'/>
           <presence from='alice@weir.test' type='unsubscribe'/>
           <presence from='alice@weir.test' type='unsubscribed'/>
         bob sends
           <presence><show>away</show></presence>
         bob receives
           <presence from='bob@weir.test/home'/>
         alice hears nothing"
    );
    play(&script).await;
}

#[tokio::test]
async fn who_asks_to_be_a_contact_says_by_which_name() {
    for mut place in places().await {
        place.person("alice").await;
        let named = place.community.write(Class::Interactive, |tx, _| {
            let sql = "UPDATE accounts SET display_name = 'Alice' WHERE username_key = 'alice'";
            Ok(tx.execute(sql, &[])?)
        });
        named.await.unwrap();
        play_at(
            &mut place,
            "bob is here
             alice is here
             alice sends
               <presence to='bob@weir.test' type='subscribe'/>
             bob receives
               <presence from='alice@weir.test' type='subscribe'>
               <nick xmlns='http://jabber.org/protocol/nick'>Alice</nick></presence>",
        )
        .await;
    }
}
