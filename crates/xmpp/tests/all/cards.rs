//! Business cards, and avatars in all their forms.

use weir_community::accounts;
use weir_db::Class;

use super::by_posts::PIXEL;
use super::dialogue::{play, play_at};
use super::place::places;

#[tokio::test]
async fn the_name_and_the_picture_are_those_of_the_profile() {
    for mut place in places().await {
        let script = format!(
            "bob is here
             alice is here
             alice sends
               <iq type='set' id='1'><vCard xmlns='vcard-temp'><FN>Alice A.</FN>
               <TITLE>Captain</TITLE><PHOTO><TYPE>image/png</TYPE><BINVAL>{PIXEL}</BINVAL></PHOTO>
               </vCard></iq>
             alice receives in any order
               <iq type='result' id='1'/>
               <presence from='alice@weir.test/home'><x xmlns='vcard-temp:x:update'><photo/></x>
               </presence>
             bob sends
               <iq type='get' id='2' to='alice@weir.test'><vCard xmlns='vcard-temp'/></iq>
             bob receives
               <iq type='result' id='2' from='alice@weir.test'><vCard xmlns='vcard-temp'>
               <FN>Alice A.</FN><TITLE>Captain</TITLE>
               <PHOTO><TYPE>image/png</TYPE><BINVAL>{PIXEL}</BINVAL></PHOTO></vCard></iq>
             alice sends
               <iq type='get' id='3'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
               <items node='urn:xmpp:avatar:metadata'/></pubsub></iq>
             alice receives
               <iq type='result' id='3'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
               <items node='urn:xmpp:avatar:metadata'><item id='*'>
               <metadata xmlns='urn:xmpp:avatar:metadata'><info bytes='70' type='image/png' id='*'/>
               </metadata></item></items></pubsub></iq>
             bob sends
               <iq type='set' id='4' to='alice@weir.test'><vCard xmlns='vcard-temp'/></iq>
             bob receives
               <iq type='error' id='4'><error><forbidden
               xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
        );
        play_at(&mut place, &script).await;
        let profile = place
            .community
            .read(Class::Interactive, |tx, env| accounts::lookup(tx, env, "alice"))
            .await
            .unwrap();
        assert_eq!(profile.display_name, "Alice A.");
        assert!(!profile.avatar.is_empty(), "{}", place.name);
    }
}

#[tokio::test]
async fn a_card_of_the_newer_form_is_of_the_same_profile() {
    play(&format!(
        "bob is here
         alice is here
         alice sends
           <iq type='set' id='1'><vcard xmlns='urn:ietf:params:xml:ns:vcard-4.0'>
           <fn><text>Alice A.</text></fn><title><text>Captain</text></title>
           <photo><uri>data:image/png;base64,{PIXEL}</uri></photo></vcard></iq>
         alice receives in any order
           <iq type='result' id='1'/>
           <presence from='alice@weir.test/home'><x xmlns='vcard-temp:x:update'><photo/></x>
           </presence>
         bob sends
           <iq type='get' id='2' to='alice@weir.test'>
           <vcard xmlns='urn:ietf:params:xml:ns:vcard-4.0'/></iq>
         bob receives
           <iq type='result' id='2' from='alice@weir.test'>
           <vcard xmlns='urn:ietf:params:xml:ns:vcard-4.0'><fn><text>Alice A.</text></fn>
           <title><text>Captain</text></title><photo><uri>data:image/png;base64,{PIXEL}</uri>
           </photo><url><uri>https://weir.test/@alice</uri></url></vcard></iq>
         bob sends
           <iq type='get' id='3' to='alice@weir.test'><vCard xmlns='vcard-temp'/></iq>
         bob receives
           <iq type='result' id='3'><vCard xmlns='vcard-temp'><FN>Alice A.</FN>
           <PHOTO><TYPE>image/png</TYPE><BINVAL>{PIXEL}</BINVAL></PHOTO></vCard></iq>
         bob sends
           <iq type='set' id='4' to='alice@weir.test'>
           <vcard xmlns='urn:ietf:params:xml:ns:vcard-4.0'/></iq>
         bob receives
           <iq type='error' id='4'><error><forbidden
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
    ))
    .await;
}

#[tokio::test]
async fn a_card_that_was_published_bears_the_name_of_the_profile() {
    play(
        "bob is here
         alice is here
         alice sends
           <iq type='set' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <publish node='urn:xmpp:vcard4'><item id='mine'>
           <vcard xmlns='urn:ietf:params:xml:ns:vcard-4.0'><fn><text>Alice A.</text></fn>
           <note><text>sails</text></note></vcard></item></publish></pubsub></iq>
         alice receives
           <iq type='result' id='1'/>
         bob sends
           <iq type='get' id='2' to='alice@weir.test'><vCard xmlns='vcard-temp'/></iq>
         bob receives
           <iq type='result' id='2'><vCard xmlns='vcard-temp'><FN>Alice A.</FN></vCard></iq>
         alice sends
           <iq type='set' id='3'><vCard xmlns='vcard-temp'><FN>Alice B.</FN></vCard></iq>
         alice receives
           <iq type='result' id='3'/>
         bob sends
           <iq type='get' id='4' to='alice@weir.test'>
           <vcard xmlns='urn:ietf:params:xml:ns:vcard-4.0'/></iq>
         bob receives
           <iq type='result' id='4'><vcard xmlns='urn:ietf:params:xml:ns:vcard-4.0'>
           <fn><text>Alice B.</text></fn><note><text>sails</text></note></vcard></iq>",
    )
    .await;
}

#[tokio::test]
async fn a_card_of_the_older_form_is_told_in_the_newer_one() {
    play(
        "bob is here
         alice is here
         alice sends
           <iq type='set' id='1'><vCard xmlns='vcard-temp'><FN>Alice A.</FN>
           <TITLE>Captain</TITLE></vCard></iq>
         alice receives
           <iq type='result' id='1'/>
         bob sends
           <iq type='get' id='2' to='alice@weir.test'>
           <vcard xmlns='urn:ietf:params:xml:ns:vcard-4.0'/></iq>
         bob receives
           <iq type='result' id='2'><vcard xmlns='urn:ietf:params:xml:ns:vcard-4.0'>
           <fn><text>Alice A.</text></fn><title><text>Captain</text></title></vcard></iq>
         bob sends
           <iq type='get' id='3' to='nobody@weir.test'>
           <vcard xmlns='urn:ietf:params:xml:ns:vcard-4.0'/></iq>
         bob receives
           <iq type='error' id='3'><error><service-unavailable
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
    )
    .await;
}
