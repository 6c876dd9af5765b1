//! Who is there (RFC 6121 section 4).

use super::contacts::FRIENDS;
use super::dialogue::play;

#[tokio::test]
async fn friends_see_each_other_come_change_and_leave() {
    play(&format!(
        "{FRIENDS}
         alice connects
         alice sends
           <presence id='p1'><show>chat</show><priority>5</priority></presence>
         alice receives
           <presence from='alice@weir.test/home' to='alice@weir.test' id='p1'>
           <show>chat</show></presence>
         alice hears nothing
         bob connects
         bob sends
           <presence/>
         bob receives in any order
           <presence from='bob@weir.test/home'/>
           <presence from='alice@weir.test/home' to='bob@weir.test'>
           <show>chat</show><priority>5</priority></presence>
         alice receives
           <presence from='bob@weir.test/home' to='alice@weir.test' type='(none)'/>
         bob sends
           <presence><show>dnd</show><status>busy</status></presence>
         bob receives
           <presence from='bob@weir.test/home'><show>dnd</show></presence>
         alice receives
           <presence from='bob@weir.test/home'><show>dnd</show><status>busy</status></presence>
         bob sends
           <presence type='unavailable'><status>later</status></presence>
         alice receives
           <presence from='bob@weir.test/home' type='unavailable'><status>later</status></presence>
         bob hears nothing
         alice sends
           <presence><show>xa</show></presence>
         alice receives
           <presence from='alice@weir.test/home'/>
         bob hears nothing"
    ))
    .await;
}

#[tokio::test]
async fn who_leaves_without_a_word_is_seen_to_leave() {
    play(&format!(
        "{FRIENDS}
         alice is here
         bob is here
         alice listens no more
         bob leaves
         alice receives
           <presence from='bob@weir.test/home' to='alice@weir.test' type='unavailable'/>"
    ))
    .await;
}

#[tokio::test]
async fn strangers_see_nothing() {
    play(
        "alice is here
         bob is here
         bob sends
           <presence><show>away</show></presence>
         bob receives
           <presence from='bob@weir.test/home'/>
         alice hears nothing
         alice sends
           <presence to='bob@weir.test' type='probe'/>
         alice receives
           <presence from='bob@weir.test' type='unsubscribed'/>
         alice sends
           <iq type='get' id='v' to='bob@weir.test/home'><query xmlns='jabber:iq:version'/></iq>
         alice receives
           <iq type='error' id='v' from='bob@weir.test/home'><error>
           <service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         bob hears nothing",
    )
    .await;
}

#[tokio::test]
async fn friends_apps_ask_each_other() {
    play(&format!(
        "{FRIENDS}
         alice is here
         bob is here
         alice listens no more
         alice sends
           <iq type='get' id='v' to='bob@weir.test/home'><query xmlns='jabber:iq:version'/></iq>
         bob receives
           <iq type='get' id='v' from='alice@weir.test/home' to='bob@weir.test/home'>
           <query xmlns='jabber:iq:version'/></iq>
         bob sends
           <iq type='result' id='v' to='alice@weir.test/home'/>
         alice receives
           <iq type='result' id='v' from='bob@weir.test/home' to='alice@weir.test/home'/>
         alice sends
           <iq type='get' id='w' to='bob@weir.test/gone'><query xmlns='jabber:iq:version'/></iq>
         alice receives
           <iq type='error' id='w'/>"
    ))
    .await;
}

#[tokio::test]
async fn presence_to_one_address_ends_when_the_session_does() {
    play(
        "alice is here
         bob is here
         bob sends
           <presence to='alice@weir.test/home'><status>only you</status></presence>
         alice receives
           <presence from='bob@weir.test/home' to='alice@weir.test/home'>
           <status>only you</status></presence>
         alice sends
           <iq type='get' id='v' to='bob@weir.test/home'><query xmlns='jabber:iq:version'/></iq>
         bob receives
           <iq type='get' id='v'/>
         bob leaves
         alice receives
           <presence from='bob@weir.test/home' to='alice@weir.test/home' type='unavailable'/>",
    )
    .await;
}

#[tokio::test]
async fn one_s_own_resources_see_each_other() {
    play(
        "alice/phone is here
         alice/desk connects
         alice/desk sends
           <presence/>
         alice/desk receives in any order
           <presence from='alice@weir.test/desk' to='alice@weir.test'/>
           <presence from='alice@weir.test/phone' to='alice@weir.test'/>
         alice/phone receives
           <presence from='alice@weir.test/desk' to='alice@weir.test'/>",
    )
    .await;
}

#[tokio::test]
async fn a_priority_is_a_small_number() {
    play(
        "alice connects
         alice sends
           <presence id='p'><priority>200</priority></presence>
         alice receives
           <presence type='error' id='p'><error type='modify'>
           <bad-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>",
    )
    .await;
}
