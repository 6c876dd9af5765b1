//! Commands (XEP-0050, XEP-0133), and what the domain tells of itself.

use weir_community::accounts;
use weir_community::users::{self, Role, UserChange};
use weir_db::Class;

use super::dialogue::{play, play_at};
use super::place::{Place, places};

pub async fn is_staff(place: &mut Place, name: &'static str, role: Role) {
    place.person(name).await;
    let set = place.community.write(Class::Interactive, move |tx, env| {
        let account = accounts::by_address(tx, name, "")?.unwrap().id;
        users::change(tx, env, account, &UserChange { role: Some(role), ..UserChange::default() })
    });
    set.await.unwrap();
}

#[tokio::test]
async fn people_see_the_commands_that_are_for_them() {
    play(
        "alice is here
         alice sends
           <iq type='get' to='weir.test' id='l'><query node='http://jabber.org/protocol/commands'
           xmlns='http://jabber.org/protocol/disco#items'/></iq>
         alice receives
           <iq type='result' id='l'><query xmlns='http://jabber.org/protocol/disco#items'>
           <item jid='weir.test' node='urn:weir:chat:mutual-followers'/></query></iq>
         alice sends
           <iq type='set' to='weir.test' id='c'><command action='execute'
           xmlns='http://jabber.org/protocol/commands'
           node='http://jabber.org/protocol/admin#announce'/></iq>
         alice receives
           <iq type='error' id='c'><error>
           <forbidden xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         alice sends
           <iq type='set' to='weir.test' id='n'><command action='execute'
           xmlns='http://jabber.org/protocol/commands' node='nothing'/></iq>
         alice receives
           <iq type='error' id='n'><error>
           <item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
    )
    .await;
}

#[tokio::test]
async fn mutual_followers_are_shown_by_choice() {
    play(
        "alice is here
         alice sends
           <iq type='set' to='weir.test' id='1'><command action='execute'
           xmlns='http://jabber.org/protocol/commands' node='urn:weir:chat:mutual-followers'/></iq>
         alice receives
           <iq type='result' id='1'><command status='executing' sessionid='*'
           xmlns='http://jabber.org/protocol/commands'><x xmlns='jabber:x:data' type='form'>
           <field var='show' type='boolean'><value>0</value></field></x></command></iq>
         alice sends
           <iq type='set' to='weir.test' id='2'><command action='complete'
           xmlns='http://jabber.org/protocol/commands' node='urn:weir:chat:mutual-followers'>
           <x xmlns='jabber:x:data' type='submit'><field var='show'><value>1</value></field></x>
           </command></iq>
         alice receives
           <iq type='result' id='2'><command status='completed'
           xmlns='http://jabber.org/protocol/commands'><note type='info'/></command></iq>
         alice sends
           <iq type='set' to='weir.test' id='3'><command action='execute'
           xmlns='http://jabber.org/protocol/commands' node='urn:weir:chat:mutual-followers'/></iq>
         alice receives
           <iq type='result' id='3'><command xmlns='http://jabber.org/protocol/commands'>
           <x xmlns='jabber:x:data'><field var='show'><value>1</value></field></x></command></iq>
         alice sends
           <iq type='set' to='weir.test' id='4'><command action='cancel'
           xmlns='http://jabber.org/protocol/commands' node='urn:weir:chat:mutual-followers'/></iq>
         alice receives
           <iq type='result' id='4'><command status='canceled'
           xmlns='http://jabber.org/protocol/commands'/></iq>
         alice sends
           <iq type='set' to='weir.test' id='5'><command action='execute'
           xmlns='http://jabber.org/protocol/commands' node='urn:xmpp:invite#invite'/></iq>
         alice receives
           <iq type='result' id='5'><command status='completed'
           xmlns='http://jabber.org/protocol/commands'><x xmlns='jabber:x:data' type='result'>
           <field var='uri'/><field var='landing-url'/></x></command></iq>",
    )
    .await;
}

#[tokio::test]
async fn staff_tells_everybody_and_ends_sessions() {
    for mut place in places().await {
        is_staff(&mut place, "carol", Role::Moderator).await;
        play_at(
            &mut place,
            "alice is here
             carol is here
             carol sends
               <iq type='set' to='weir.test' id='1'><command
               xmlns='http://jabber.org/protocol/commands'
               node='http://jabber.org/protocol/admin#announce'>
               <x xmlns='jabber:x:data' type='submit'><field var='announcement'>
               <value>We close at ten.</value></field></x></command></iq>
             alice receives
               <message from='weir.test' type='headline'><body>We close at ten.</body></message>
             carol receives in any order
               <message from='weir.test' type='headline'/>
               <iq type='result' id='1'/>
             carol sends
               <iq type='set' to='weir.test' id='2'><command
               xmlns='http://jabber.org/protocol/commands'
               node='http://jabber.org/protocol/admin#get-online-users-list'/></iq>
             carol receives
               <iq type='result' id='2'><command xmlns='http://jabber.org/protocol/commands'>
               <x xmlns='jabber:x:data'><field var='onlineuserjids'>
               <value>alice@weir.test</value><value>carol@weir.test</value></field></x>
               </command></iq>
             carol sends
               <iq type='set' to='weir.test' id='3'><command
               xmlns='http://jabber.org/protocol/commands'
               node='http://jabber.org/protocol/admin#end-user-session'>
               <x xmlns='jabber:x:data' type='submit'><field var='accountjids'>
               <value>alice@weir.test</value></field></x></command></iq>
             carol receives
               <iq type='result' id='3'/>
             carol sends
               <iq type='set' to='weir.test' id='4'><command
               xmlns='http://jabber.org/protocol/commands'
               node='http://jabber.org/protocol/admin#delete-user'/></iq>
             carol receives
               <iq type='error' id='4'><error>
               <forbidden xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
             alice receives
               <error xmlns='http://etherx.jabber.org/streams'><policy-violation
               xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></error>
             alice is sent away",
        )
        .await;
    }
}

#[tokio::test]
async fn staff_adds_shuts_out_and_deletes_people_below_it() {
    for mut place in places().await {
        is_staff(&mut place, "carol", Role::Admin).await;
        place.person("alice").await;
        play_at(
            &mut place,
            "carol is here
             carol sends
               <iq type='set' to='weir.test' id='1'><command
               xmlns='http://jabber.org/protocol/commands'
               node='http://jabber.org/protocol/admin#add-user'>
               <x xmlns='jabber:x:data' type='submit'>
               <field var='accountjid'><value>bob@weir.test</value></field>
               <field var='password'><value>password of bob</value></field>
               <field var='password-verify'><value>password of bob</value></field>
               <field var='email'><value>bob@mail.test</value></field></x></command></iq>
             carol receives
               <iq type='result' id='1'><command status='completed'
               xmlns='http://jabber.org/protocol/commands'/></iq>
             carol sends
               <iq type='set' to='weir.test' id='2'><command
               xmlns='http://jabber.org/protocol/commands'
               node='http://jabber.org/protocol/admin#disable-user'>
               <x xmlns='jabber:x:data' type='submit'><field var='accountjids'>
               <value>bob@weir.test</value></field></x></command></iq>
             carol receives
               <iq type='result' id='2'/>
             carol sends
               <iq type='set' to='weir.test' id='3'><command
               xmlns='http://jabber.org/protocol/commands'
               node='http://jabber.org/protocol/admin#delete-user'>
               <x xmlns='jabber:x:data' type='submit'><field var='accountjids'>
               <value>alice@weir.test</value><value>bob@weir.test</value></field></x></command></iq>
             carol receives
               <iq type='result' id='3'/>
             carol sends
               <iq type='set' to='weir.test' id='4'><command
               xmlns='http://jabber.org/protocol/commands'
               node='http://jabber.org/protocol/admin#delete-user'>
               <x xmlns='jabber:x:data' type='submit'><field var='accountjids'>
               <value>carol@weir.test</value></field></x></command></iq>
             carol receives
               <iq type='error' id='4'><error>
               <forbidden xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
             carol sends
               <iq type='set' to='weir.test' id='5'><command
               xmlns='http://jabber.org/protocol/commands'
               node='http://jabber.org/protocol/admin#get-registered-users-num'/></iq>
             carol receives
               <iq type='result' id='5'><command xmlns='http://jabber.org/protocol/commands'>
               <x xmlns='jabber:x:data'><field var='registeredusersnum'><value>1</value></field></x>
               </command></iq>",
        )
        .await;
    }
}

#[tokio::test]
async fn apps_learn_what_calls_need_and_how_long_the_server_is_up() {
    play(
        "alice is here
         alice sends
           <iq type='get' to='weir.test' id='x'><services xmlns='urn:xmpp:extdisco:2'/></iq>
         alice receives
           <iq type='result' id='x'><services xmlns='urn:xmpp:extdisco:2'>
           <service type='stun' host='stun.weir.test' port='3478' transport='udp'
           username='(none)'/>
           <service type='turn' host='turn.weir.test' port='3478' transport='udp'
           username='1700086400:alice' password='*' expires='2023-11-15T22:13:20.000Z'/>
           </services></iq>
         alice sends
           <iq type='get' to='weir.test' id='c'><credentials xmlns='urn:xmpp:extdisco:2'>
           <service type='turn' host='turn.weir.test'/></credentials></iq>
         alice receives
           <iq type='result' id='c'><credentials xmlns='urn:xmpp:extdisco:2'>
           <service type='turn' password='*'/></credentials></iq>
         alice sends
           <iq type='get' to='weir.test' id='l'><query xmlns='jabber:iq:last'/></iq>
         alice receives
           <iq type='result' id='l'><query xmlns='jabber:iq:last' seconds='0'/></iq>
         bob is here
         bob sends
           <iq type='get' to='alice@weir.test' id='l'><query xmlns='jabber:iq:last'/></iq>
         bob receives
           <iq type='error' id='l'><error>
           <forbidden xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
    )
    .await;
}
