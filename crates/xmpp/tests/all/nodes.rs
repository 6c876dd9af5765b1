//! Nodes: of accounts (PEP) and of the service.

use super::dialogue::play;

/// Alice sees bob.
pub const FRIENDS: &str = "
    alice is here
    bob has an account
    alice sends
      <presence type='subscribe' to='bob@weir.test'/>
    alice listens no more
    bob is here
    bob listens no more
    bob sends
      <presence type='subscribed' to='alice@weir.test'/>
    bob listens no more
    alice listens no more";

#[tokio::test]
async fn what_one_publishes_contacts_may_read_and_strangers_may_not() {
    play(&format!(
        "{FRIENDS}
         carol is here
         bob sends
           <iq type='set' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <publish node='urn:mood'><item id='now'><mood xmlns='urn:mood'/></item></publish>
           </pubsub></iq>
         bob receives
           <iq type='result' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <publish node='urn:mood'><item id='now'/></publish></pubsub></iq>
         alice sends
           <iq type='get' id='2' to='bob@weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='urn:mood'/></pubsub></iq>
         alice receives
           <iq type='result' id='2'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <items node='urn:mood'><item id='now'><mood xmlns='urn:mood'/></item></items>
           </pubsub></iq>
         carol sends
           <iq type='get' id='3' to='bob@weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='urn:mood'/></pubsub></iq>
         carol receives
           <iq type='error' id='3'><error type='auth'><not-authorized
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/><presence-subscription-required
           xmlns='http://jabber.org/protocol/pubsub#errors'/></error></iq>
         carol sends
           <iq type='set' id='4' to='bob@weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='urn:mood'><item/>
           </publish></pubsub></iq>
         carol receives
           <iq type='error' id='4'><error><forbidden
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         alice sends
           <iq type='get' id='5' to='bob@weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='urn:none'/></pubsub></iq>
         alice receives
           <iq type='error' id='5'><error><item-not-found
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
    ))
    .await;
}

#[tokio::test]
async fn an_app_that_says_so_hears_of_what_contacts_publish_and_have_published() {
    let info = "<query xmlns='http://jabber.org/protocol/disco#info'>\
                <identity category='client' type='pc'/><feature var='urn:mood+notify'/></query>";
    play(&format!(
        "{FRIENDS}
         bob sends
           <iq type='set' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <publish node='urn:mood'><item id='now'><mood xmlns='urn:mood'/></item></publish>
           </pubsub></iq>
         bob listens no more
         alice/phone connects
         alice/phone sends
           <presence><c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='urn:app'
           ver='unproven'/></presence>
         alice/phone receives in any order
           <presence from='alice@weir.test/phone'/><presence from='alice@weir.test/home'/>
           <presence from='bob@weir.test/home'/>
           <iq type='get' from='weir.test'>
           <query xmlns='http://jabber.org/protocol/disco#info' node='urn:app#unproven'/></iq>
         alice listens no more
         alice/phone answers
           {info}
         alice/phone receives
           <message from='bob@weir.test' type='headline'>
           <event xmlns='http://jabber.org/protocol/pubsub#event'><items node='urn:mood'>
           <item id='now'><mood xmlns='urn:mood'/></item></items></event>
           <delay xmlns='urn:xmpp:delay' stamp='*'/></message>
         bob sends
           <iq type='set' id='2'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <retract node='urn:mood'><item id='now'/></retract></pubsub></iq>
         bob receives
           <iq type='result' id='2'/>
         alice/phone receives
           <message from='bob@weir.test'><event xmlns='http://jabber.org/protocol/pubsub#event'>
           <items node='urn:mood'><retract id='now'/></items></event></message>
         alice hears nothing"
    ))
    .await;
}

#[tokio::test]
async fn options_make_a_node_and_later_have_to_fit_it() {
    let publish = |id: &str, model: &str| {
        format!(
            "<iq type='set' id='{id}'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
             <publish node='urn:keys'><item id='current'><k xmlns='urn:keys'/></item></publish>
             <publish-options><x xmlns='jabber:x:data' type='submit'>
             <field var='FORM_TYPE' type='hidden'>
             <value>http://jabber.org/protocol/pubsub#publish-options</value></field>
             <field var='pubsub#access_model'><value>{model}</value></field>
             </x></publish-options></pubsub></iq>"
        )
    };
    play(&format!(
        "carol is here
         bob is here
         bob sends
           {}
         bob receives
           <iq type='result' id='1'/>
         carol sends
           <iq type='get' id='2' to='bob@weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='urn:keys'/></pubsub></iq>
         carol receives
           <iq type='result' id='2'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <items node='urn:keys'><item id='current'/></items></pubsub></iq>
         bob sends
           {}
         bob receives
           <iq type='error' id='3'><error><conflict
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/><precondition-not-met
           xmlns='http://jabber.org/protocol/pubsub#errors'/></error></iq>",
        publish("1", "open"),
        publish("3", "whitelist")
    ))
    .await;
}

#[tokio::test]
async fn what_is_kept_for_oneself_nobody_else_reads() {
    play(&format!(
        "{FRIENDS}
         bob sends
           <iq type='set' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <publish node='urn:drafts'><item id='one'><draft xmlns='urn:drafts'/></item></publish>
           <publish-options><x xmlns='jabber:x:data' type='submit'>
           <field var='FORM_TYPE' type='hidden'>
           <value>http://jabber.org/protocol/pubsub#publish-options</value></field>
           <field var='pubsub#persist_items'><value>true</value></field>
           <field var='pubsub#access_model'><value>whitelist</value></field>
           </x></publish-options></pubsub></iq>
         bob receives
           <iq type='result' id='1'/>
         alice sends
           <iq type='get' id='2' to='bob@weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='urn:drafts'/></pubsub>
           </iq>
         alice receives
           <iq type='error' id='2'><error><not-allowed
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         bob/phone connects
         bob/phone sends
           <iq type='get' id='3'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <items node='urn:drafts'/></pubsub></iq>
         bob/phone receives
           <iq type='result' id='3'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <items node='urn:drafts'><item id='one'><draft xmlns='urn:drafts'/></item></items>
           </pubsub></iq>"
    ))
    .await;
}

#[tokio::test]
async fn who_subscribes_to_a_node_of_the_service_hears_of_it() {
    play(
        "alice is here
         bob is here
         alice sends
           <iq type='set' id='1' to='pubsub.weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub'><create node='news'/></pubsub></iq>
         alice receives
           <iq type='result' id='1' from='pubsub.weir.test'/>
         bob sends
           <iq type='set' id='2' to='pubsub.weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <subscribe node='news' jid='bob@weir.test/home'/></pubsub></iq>
         bob receives
           <iq type='result' id='2'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <subscription node='news' jid='bob@weir.test/home' subscription='subscribed'/>
           </pubsub></iq>
         alice sends
           <iq type='set' id='3' to='pubsub.weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='news'>
           <item id='a'><n xmlns='urn:n'/></item></publish></pubsub></iq>
         alice receives
           <iq type='result' id='3'/>
         bob receives
           <message from='pubsub.weir.test'>
           <event xmlns='http://jabber.org/protocol/pubsub#event'><items node='news'>
           <item id='a' publisher='alice@weir.test'><n xmlns='urn:n'/></item></items></event>
           </message>
         bob sends
           <iq type='set' id='4' to='pubsub.weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><delete node='news'/></pubsub>
           </iq>
         bob receives
           <iq type='error' id='4'><error><forbidden
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         bob sends
           <iq type='get' id='5' to='pubsub.weir.test'>
           <query xmlns='http://jabber.org/protocol/disco#items'/></iq>
         bob receives
           <iq type='result' id='5'><query xmlns='http://jabber.org/protocol/disco#items'>
           <item jid='pubsub.weir.test' node='news'/></query></iq>
         alice sends
           <iq type='set' id='6' to='pubsub.weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><delete node='news'/></pubsub>
           </iq>
         alice receives
           <iq type='result' id='6'/>
         bob receives
           <message><event xmlns='http://jabber.org/protocol/pubsub#event'><delete node='news'/>
           </event></message>",
    )
    .await;
}
