//! What people change by posts' API or on the web shows in chat at once.

use weir_community::users::Role;

use super::by_posts::PIXEL;
use super::commands::is_staff;
use super::contacts::FRIENDS;
use super::dialogue::{play, play_at};
use super::place::places;
use super::rooms::{BOB, OF_COMMUNITY, ROOM};

/// Alice's app wants to hear of pictures and names.
const LISTENING: &str = "
    alice connects
    alice sends
      <presence><c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='urn:app'
      ver='unproven'/></presence>
    alice receives in any order
      <presence from='alice@weir.test/home'/>
      <iq type='get' from='weir.test'>
      <query xmlns='http://jabber.org/protocol/disco#info' node='urn:app#unproven'/></iq>
    alice answers
      <query xmlns='http://jabber.org/protocol/disco#info'>
      <feature var='urn:xmpp:avatar:metadata+notify'/>
      <feature var='http://jabber.org/protocol/nick+notify'/></query>
    alice listens no more";

/// Alice wants mutual followers in her roster, and has asked for it.
const MUTUALS: &str = "
    bob has an account
    alice is here
    alice asks for the roster
    alice wants mutual followers in the roster
    alice receives
      <iq type='result' id='m'/>
    alice follows bob
    bob follows alice
    alice receives
      <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
      <item jid='bob@weir.test' subscription='none'><group>Mutual followers</group></item>
      </query></iq>";

fn nick(name: &str) -> String {
    format!(
        "<message from='bob@weir.test' type='headline'>
         <event xmlns='http://jabber.org/protocol/pubsub#event'>
         <items node='http://jabber.org/protocol/nick'><item>
         <nick xmlns='http://jabber.org/protocol/nick'>{name}</nick></item></items></event>
         </message>"
    )
}

const PICTURE: &str = "<message from='bob@weir.test' type='headline'>
    <event xmlns='http://jabber.org/protocol/pubsub#event'>
    <items node='urn:xmpp:avatar:metadata'><item id='*'>
    <metadata xmlns='urn:xmpp:avatar:metadata'><info id='*' bytes='*' type='*'/></metadata>
    </item></items></event></message>";

#[tokio::test]
async fn a_new_name_and_a_new_picture_show_at_once() {
    let (named, again) = (nick("Bob Brown"), nick("Bob"));
    play(&format!(
        "{FRIENDS}{LISTENING}
         bob is here
         bob is called Bob Brown
         alice receives
           {named}
         bob has a new picture
         alice receives in any order
           {PICTURE}
           <presence from='bob@weir.test/home'><x xmlns='vcard-temp:x:update'><photo/></x>
           </presence>
         alice sends
           <iq type='get' id='v' to='bob@weir.test'><vCard xmlns='vcard-temp'/></iq>
         alice receives
           <iq type='result' id='v'><vCard xmlns='vcard-temp'><FN>Bob Brown</FN>
           <PHOTO><TYPE>image/png</TYPE><BINVAL/></PHOTO></vCard></iq>
         bob leaves
         alice receives
           <presence from='bob@weir.test/home' type='unavailable'/>
         bob is called Bob
         alice receives
           {again}
         bob has a new picture
         alice receives
           {PICTURE}"
    ))
    .await;
}

#[tokio::test]
async fn a_new_picture_shows_in_the_rooms_where_one_is() {
    let bob = "<presence from='tea@conference.weir.test/bo'>
           <x xmlns='vcard-temp:x:update'><photo/></x>
           <x xmlns='http://jabber.org/protocol/muc#user'><item role='participant'/></x>
           </presence>";
    play(&format!(
        "{ROOM}{BOB}
         bob has a new picture
         alice receives
           {bob}
         bob receives in any order
           <presence from='bob@weir.test/home'><x xmlns='vcard-temp:x:update'><photo/></x>
           </presence>
           {bob}
         carol is here
         carol enters the room as ca
         carol receives in any order
           <presence from='tea@conference.weir.test/al'/>
           {bob}
         alice receives
           <presence from='tea@conference.weir.test/ca'/>
         alice hears nothing"
    ))
    .await;
}

#[tokio::test]
async fn a_name_that_an_app_publishes_is_that_of_the_profile() {
    let (named, again) = (nick("Robert"), nick("Bob"));
    play(&format!(
        "{FRIENDS}{LISTENING}
         bob is here
         bob sends
           <iq type='set' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <publish node='http://jabber.org/protocol/nick'><item>
           <nick xmlns='http://jabber.org/protocol/nick'>Robert</nick></item></publish></pubsub>
           </iq>
         alice receives
           {named}
         bob listens no more
         alice sends
           <iq type='get' id='v' to='bob@weir.test'><vCard xmlns='vcard-temp'/></iq>
         alice receives
           <iq type='result' id='v'><vCard xmlns='vcard-temp'><FN>Robert</FN></vCard></iq>
         bob is called Bob
         alice receives
           {again}"
    ))
    .await;
}

#[tokio::test]
async fn who_is_blocked_hears_nothing_of_what_one_publishes() {
    play(&format!(
        "{FRIENDS}{LISTENING}
         bob is here
         bob sends
           <iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='alice@weir.test'/>
           </block></iq>
         bob listens no more
         alice receives
           <presence from='bob@weir.test/home' type='unavailable'/>
         bob sends
           <iq type='set' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <publish node='http://jabber.org/protocol/nick'><item>
           <nick xmlns='http://jabber.org/protocol/nick'>Robert</nick></item></publish></pubsub>
           </iq>
         bob receives
           <iq type='result' id='1'/>
         alice hears nothing"
    ))
    .await;
}

#[tokio::test]
async fn mutual_followers_come_and_go_in_the_roster_as_people_follow() {
    for mut place in places().await {
        is_staff(&mut place, "carol", Role::Admin).await;
        let both = "<iq type='set'><query xmlns='jabber:iq:roster' ver='*'>
               <item jid='bob@weir.test' subscription='both'><group>Mutual followers</group></item>
               </query></iq>
               <presence from='bob@weir.test/home'/>";
        let gone = "<iq type='set'><query xmlns='jabber:iq:roster' ver='*'>
               <item jid='bob@weir.test' subscription='remove'/></query></iq>
               <presence from='bob@weir.test/home' type='unavailable'/>";
        play_at(
            &mut place,
            &format!(
                "{MUTUALS}
             bob is here
             bob wants mutual followers in the roster
             alice receives in any order
               {both}
             bob receives in any order
               <iq type='result' id='m'/>
               <presence from='alice@weir.test/home'/>
             bob is called Bobby
             alice receives
               <iq type='set'><query xmlns='jabber:iq:roster' ver='*'>
               <item jid='bob@weir.test' name='Bobby' subscription='both'/></query></iq>
             bob unfollows alice
             alice receives in any order
               {gone}
             bob receives
               <presence from='alice@weir.test/home' type='unavailable'/>
             bob follows alice
             alice receives in any order
               {both}
             bob receives
               <presence from='alice@weir.test/home'/>
             bob is suspended
             alice receives in any order
               {gone}"
            ),
        )
        .await;
    }
}

#[tokio::test]
async fn who_is_suspended_or_deleted_is_gone_from_chat_at_once() {
    for how in ["is suspended", "is deleted"] {
        for mut place in places().await {
            is_staff(&mut place, "carol", Role::Admin).await;
            play_at(
                &mut place,
                &format!(
                    "{MUTUALS}
                 {FRIENDS}
                 alice is here
                 alice asks for the roster
                 bob is here
                 alice listens no more
                 bob {how}
                 bob receives
                   <error xmlns='http://etherx.jabber.org/streams'/>
                 bob is sent away
                 alice receives
                   <presence from='bob@weir.test/home' type='unavailable'/>
                 alice sends
                   <iq type='get' id='v' to='bob@weir.test'><vCard xmlns='vcard-temp'/></iq>
                 alice receives
                   <iq type='error' id='v'/>"
                ),
            )
            .await;
        }
    }
}

#[tokio::test]
async fn the_hats_of_staff_follow_their_role_while_they_are_in_the_room() {
    let hat = |title: &str| {
        let uri = title.to_lowercase();
        format!(
            "<presence from='tea@conference.weir.test/ca'><hats xmlns='urn:xmpp:hats:0'>
             <hat title='{title}' uri='urn:weir:hats:{uri}'/></hats></presence>"
        )
    };
    let (moderator, admin) = (hat("Moderator"), hat("Admin"));
    for mut place in places().await {
        // Carol is not to be the last admin, who cannot be made less.
        is_staff(&mut place, "olga", Role::Admin).await;
        is_staff(&mut place, "carol", Role::Moderator).await;
        play_at(
            &mut place,
            &format!(
                "{ROOM}
             carol is here
             carol enters the room as ca
             alice receives
               <presence from='tea@conference.weir.test/ca'/>
             carol listens no more{OF_COMMUNITY}
             alice receives
               {moderator}
             carol receives in any order
               <iq type='result' id='c'/>{moderator}
             carol becomes admin
             alice receives
               {admin}
             carol becomes user
             alice receives
               <presence from='tea@conference.weir.test/ca'/>
             carol becomes moderator
             alice receives
               {moderator}
             carol sends
               <message to='tea@conference.weir.test' type='groupchat'><body>still here</body>
               </message>
             alice receives
               <message from='tea@conference.weir.test/ca'><body>still here</body></message>"
            ),
        )
        .await;
    }
}

#[tokio::test]
async fn the_name_and_the_picture_of_the_profile_are_those_of_the_card() {
    play(&format!(
        "{FRIENDS}
         bob has a new picture
         alice is here
         alice sends
           <iq type='get' id='v' to='bob@weir.test'><vCard xmlns='vcard-temp'/></iq>
         alice receives
           <iq type='result' id='v'><vCard xmlns='vcard-temp'>
           <PHOTO><TYPE>image/png</TYPE><BINVAL/></PHOTO></vCard></iq>
         alice sends
           <iq type='set' id='s'><vCard xmlns='vcard-temp'><FN>Alice Archer</FN>
           <PHOTO><TYPE>image/png</TYPE><BINVAL>{PIXEL}</BINVAL></PHOTO></vCard></iq>
         alice receives in any order
           <iq type='result' id='s'/>
           <presence from='alice@weir.test/home'><x xmlns='vcard-temp:x:update'><photo/></x>
           </presence>
         alice is called Alice
         alice sends
           <iq type='get' id='o'><vCard xmlns='vcard-temp'/></iq>
         alice receives
           <iq type='result' id='o'><vCard xmlns='vcard-temp'><FN>Alice</FN></vCard></iq>"
    ))
    .await;
}
