//! What a room shows of itself and of its staff: pictures (XEP-0486) and hats (XEP-0317).

use weir_community::users::Role;

use super::commands::is_staff;
use super::dialogue::{play, play_at};
use super::place::places;
use super::rooms::{BOB, OF_COMMUNITY, ROOM};

/// The SHA-1 of `hello`.
const HASH: &str = "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d";

#[tokio::test]
async fn a_room_shows_the_picture_that_its_owner_gave_it() {
    let card = "<vCard xmlns='vcard-temp'><PHOTO><TYPE>image/png</TYPE>
                <BINVAL>aGVsbG8=</BINVAL></PHOTO></vCard>";
    let told = |who: &str| {
        format!(
            "{who} receives
           <message type='groupchat' from='tea@conference.weir.test'>
           <x xmlns='http://jabber.org/protocol/muc#user'><status code='104'/></x></message>
         {who} receives
           <presence from='tea@conference.weir.test'>
           <x xmlns='vcard-temp:x:update'><photo>{HASH}</photo></x></presence>"
        )
    };
    let (alice, bob) = (told("alice"), told("bob"));
    play(&format!(
        "{ROOM}{BOB}
         bob sends
           <iq type='set' id='s' to='tea@conference.weir.test'>{card}</iq>
         bob receives
           <iq type='error' id='s'><error><forbidden
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         alice sends
           <iq type='set' id='s' to='tea@conference.weir.test'>{card}</iq>
         {alice}
         alice receives
           <iq type='result' id='s' from='tea@conference.weir.test'/>
         {bob}
         bob sends
           <iq type='get' id='g' to='tea@conference.weir.test'><vCard xmlns='vcard-temp'/></iq>
         bob receives
           <iq type='result' id='g'>{card}</iq>
         carol is here
         carol enters the room as ca
         carol receives
           <presence from='*'/>
         carol receives
           <presence from='*'/>
         carol receives
           <presence from='tea@conference.weir.test/ca'/>
         carol receives
           <presence from='tea@conference.weir.test'>
           <x xmlns='vcard-temp:x:update'><photo>{HASH}</photo></x></presence>"
    ))
    .await;
}

#[tokio::test]
async fn the_staff_wears_a_hat_in_rooms_of_the_community() {
    for mut place in places().await {
        is_staff(&mut place, "carol", Role::Moderator).await;
        play_at(
            &mut place,
            &format!(
                "{ROOM}
         carol is here{OF_COMMUNITY}
         carol receives
           <iq type='result' id='c'/>
         carol enters the room as ca
         alice receives
           <presence from='tea@conference.weir.test/ca'><hats xmlns='urn:xmpp:hats:0'>
           <hat title='Moderator' uri='urn:weir:hats:moderator'/></hats></presence>"
            ),
        )
        .await;
    }
}
