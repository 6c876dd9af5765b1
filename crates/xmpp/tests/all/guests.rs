//! Rooms and contacts as people use them from outside of chat.

use weir_base::Id;
use weir_community::Error;
use weir_community::accounts;
use weir_community::chat::carrier::{Carrier, ContactDeed, RoomQuery, RoomView, Said, Saying};
use weir_community::streams::{Event, Topic};
use weir_db::Class;
use weir_xmpp::wire::Element;

use super::place::{App, Place, places};

const TEA: &str = "tea@conference.weir.test";
const CLIENT: &str = "jabber:client";

fn chat(place: &Place) -> &Carrier {
    place.community.env().chat.get().unwrap()
}

async fn id_of(place: &Place, name: &'static str) -> Id {
    let read = place
        .community
        .read(Class::Interactive, move |tx, _| Ok(accounts::by_address(tx, name, "")?.unwrap().id));
    read.await.unwrap()
}

async fn say(place: &Place, name: &'static str, text: &str) -> Result<Id, Error> {
    let by = id_of(place, name).await;
    (chat(place).say)(Saying { by, room: TEA.into(), text: text.into() }).await
}

async fn view(place: &Place, name: &'static str) -> Result<RoomView, Error> {
    let reader = id_of(place, name).await;
    (chat(place).room)(RoomQuery { reader, room: TEA.into(), before: None, limit: 10 }).await
}

fn texts(view: &RoomView) -> Vec<(&str, &str)> {
    let text = |said| -> Option<(&str, &str)> {
        let said: &Said = said;
        Some((&said.nick, said.text.as_deref()?))
    };
    view.messages.iter().filter_map(text).collect()
}

async fn enter(place: &mut Place, name: &str, nick: &str) -> App {
    let mut app = place.logged_in(name, "home").await;
    app.send(&format!(
        "<presence to='{TEA}/{nick}'><x xmlns='http://jabber.org/protocol/muc'/></presence>"
    ))
    .await;
    app.until_ping().await;
    app
}

async fn configure(app: &mut App, fields: &[(&str, &str)]) {
    let field = |(name, value): &(&str, &str)| {
        format!("<field var='muc#roomconfig_{name}'><value>{value}</value></field>")
    };
    let fields: String = fields.iter().map(field).collect();
    app.send(&format!(
        "<iq type='set' id='o' to='{TEA}'><query xmlns='http://jabber.org/protocol/muc#owner'>\
         <x xmlns='jabber:x:data' type='submit'>{fields}</x></query></iq>"
    ))
    .await;
    app.until_ping().await;
}

async fn affiliate(app: &mut App, name: &str, affiliation: &str) {
    app.send(&format!(
        "<iq type='set' id='a' to='{TEA}'><query xmlns='http://jabber.org/protocol/muc#admin'>\
         <item jid='{name}@weir.test' affiliation='{affiliation}'/></query></iq>"
    ))
    .await;
    app.until_ping().await;
}

/// Alice's app makes a room that stays, and is there.
async fn room(place: &mut Place) -> App {
    for name in ["bob", "carol", "dave"] {
        place.person(name).await;
    }
    let mut alice = enter(place, "alice", "al").await;
    configure(&mut alice, &[("persistentroom", "1")]).await;
    alice
}

fn body(message: &Element) -> String {
    message.child("body", CLIENT).map(Element::text).unwrap_or_default()
}

#[tokio::test]
async fn who_is_not_there_speaks_where_they_might_enter_and_all_hear_it_in_order() {
    for mut place in places().await {
        let mut alice = room(&mut place).await;
        let first = say(&place, "bob", "one <&>").await.unwrap();
        let heard = alice.receive().await;
        assert_eq!(heard.attr("from"), Some("tea@conference.weir.test/bob"), "on {}", place.name);
        assert_eq!(body(&heard), "one <&>");
        let stanza_id = heard.child("stanza-id", "urn:xmpp:sid:0").unwrap();
        assert_eq!(stanza_id.attr("id"), Some(first.to_string().as_str()));
        assert!(heard.has("occupant-id", "urn:xmpp:occupant-id:0"));
        alice
            .send(&format!("<message to='{TEA}' type='groupchat'><body>two</body></message>"))
            .await;
        assert_eq!(body(&alice.receive().await), "two");
        say(&place, "bob", "three").await.unwrap();
        assert_eq!(body(&alice.receive().await), "three");
        let seen = view(&place, "bob").await.unwrap();
        assert_eq!(texts(&seen), [("bob", "one <&>"), ("al", "two"), ("bob", "three")]);
        assert!(seen.messages[0].is_own && seen.messages[0].id == first);
        let [al] = &seen.people[..] else { panic!("{:?}", seen.people) };
        assert_eq!((&*al.nick, al.affiliation, al.role), ("al", "owner", Some("moderator")));
        assert_eq!(al.jid, None, "only moderators know addresses here");
        let own = view(&place, "alice").await.unwrap();
        assert_eq!(own.people[0].jid.as_deref(), Some("alice@weir.test"));
    }
}

#[tokio::test]
async fn bans_voice_membership_and_passwords_hold_for_who_is_not_there_too() {
    let forbidden = |done: Result<(), Error>| matches!(done, Err(Error::Forbidden(_)));
    for mut place in places().await {
        let mut alice = room(&mut place).await;
        affiliate(&mut alice, "bob", "outcast").await;
        assert!(forbidden(say(&place, "bob", "hi").await.map(drop)), "on {}", place.name);
        assert!(forbidden(view(&place, "bob").await.map(drop)));
        configure(&mut alice, &[("moderatedroom", "1")]).await;
        assert!(forbidden(say(&place, "carol", "hi").await.map(drop)));
        view(&place, "carol").await.unwrap();
        affiliate(&mut alice, "carol", "member").await;
        say(&place, "carol", "hi").await.unwrap();
        configure(&mut alice, &[("membersonly", "1")]).await;
        assert!(forbidden(say(&place, "dave", "hi").await.map(drop)));
        assert!(forbidden(view(&place, "dave").await.map(drop)));
        assert_eq!(texts(&view(&place, "carol").await.unwrap()), [("carol", "hi")]);
        configure(&mut alice, &[("passwordprotectedroom", "1"), ("roomsecret", "s")]).await;
        assert!(forbidden(say(&place, "carol", "hi").await.map(drop)));
        assert!(forbidden(view(&place, "carol").await.map(drop)));
        say(&place, "alice", "by the nick I have there").await.unwrap();
        let seen = view(&place, "alice").await.unwrap();
        assert_eq!(texts(&seen)[1], ("al", "by the nick I have there"));
    }
}

#[tokio::test]
async fn nobody_speaks_by_the_name_of_somebody_else() {
    for mut place in places().await {
        let mut alice = room(&mut place).await;
        let mut carol = enter(&mut place, "carol", "bob").await;
        let taken = say(&place, "bob", "hi").await;
        assert!(matches!(taken, Err(Error::Conflict(_))), "on {}: {taken:?}", place.name);
        let mut bob = enter(&mut place, "bob", "bobby").await;
        alice.until_ping().await;
        carol.until_ping().await;
        say(&place, "bob", "hi").await.unwrap();
        for app in [&mut alice, &mut carol, &mut bob] {
            let heard = app.receive().await;
            assert_eq!(heard.attr("from"), Some("tea@conference.weir.test/bobby"));
        }
        let elsewhere = Saying {
            by: id_of(&place, "bob").await,
            room: "bob@weir.test".into(),
            text: "hi".into(),
        };
        let elsewhere = (chat(&place).say)(elsewhere).await;
        assert!(matches!(elsewhere, Err(Error::Invalid(_))), "{elsewhere:?}");
    }
}

#[tokio::test]
async fn who_looks_at_a_room_is_told_when_it_is_another() {
    for mut place in places().await {
        let mut alice = room(&mut place).await;
        let env = place.community.env().clone();
        let mut looker = env.streams.hub().session(Id::ZERO.0).unwrap();
        looker.subscribe(Topic::Room(TEA.into())).unwrap();
        say(&place, "bob", "hi").await.unwrap();
        let told = |batch: &[(_, std::sync::Arc<weir_live::Shared<Event>>)]| {
            batch.iter().all(|(_, shared)| matches!(shared.event, Event::RoomMoved))
        };
        assert!(told(&looker.next().await.unwrap()), "on {}", place.name);
        let _bob = enter(&mut place, "bob", "bo").await;
        assert!(told(&looker.next().await.unwrap()));
        assert_eq!(view(&place, "bob").await.unwrap().people.len(), 2);
        alice
            .send(&format!(
                "<iq type='set' id='d' to='{TEA}'>\
             <query xmlns='http://jabber.org/protocol/muc#owner'><destroy/></query></iq>"
            ))
            .await;
        assert!(told(&looker.next().await.unwrap()));
        alice.until_ping().await;
        let gone = view(&place, "bob").await;
        assert!(matches!(gone, Err(Error::NotFound(_))), "{gone:?}");
    }
}

async fn act(place: &Place, by: &'static str, of: &str, deed: ContactDeed) -> Result<(), Error> {
    let by = id_of(place, by).await;
    (chat(place).contact)(by, format!("{of}@weir.test"), deed).await
}

fn add(name: &str) -> ContactDeed {
    ContactDeed::Add { name: Some(name.into()), groups: Some(vec!["Friends".into()]) }
}

/// What the app was pushed of its roster, as subscription and name.
async fn pushed(app: &mut App) -> Vec<(String, String)> {
    let came = app.until_ping().await;
    let queries = came.iter().filter_map(|iq| iq.child("query", "jabber:iq:roster"));
    let item = |query: &Element| {
        let item = query.child("item", "jabber:iq:roster").unwrap();
        let text = |name: &str| item.attr(name).unwrap_or_default().to_owned();
        (text("subscription"), text("name"))
    };
    queries.map(item).collect()
}

async fn interested(place: &mut Place, name: &str) -> App {
    let mut app = place.logged_in(name, "home").await;
    app.send("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq><presence/>").await;
    app.until_ping().await;
    app
}

#[tokio::test]
async fn contacts_are_kept_from_outside_as_apps_do_and_these_are_told() {
    let of = |all: &[(String, String)]| all.iter().map(|one| one.0.clone()).collect::<Vec<_>>();
    for mut place in places().await {
        let mut alice = interested(&mut place, "alice").await;
        let mut bob = interested(&mut place, "bob").await;
        act(&place, "alice", "bob", add("Bobby")).await.unwrap();
        let seen = pushed(&mut alice).await;
        assert_eq!(seen.last().unwrap(), &("none".into(), "Bobby".into()), "on {}", place.name);
        let asked = bob.until_ping().await;
        let asked = asked.iter().find(|one| one.attr("type") == Some("subscribe")).unwrap();
        assert_eq!(asked.attr("from"), Some("alice@weir.test"));
        act(&place, "bob", "alice", ContactDeed::Approve).await.unwrap();
        assert_eq!(of(&pushed(&mut alice).await), ["to"]);
        let rename = ContactDeed::Add { name: Some("Rob".into()), groups: None };
        act(&place, "alice", "bob", rename).await.unwrap();
        assert_eq!(pushed(&mut alice).await, [("to".into(), "Rob".into())]);
        act(&place, "bob", "alice", ContactDeed::Refuse).await.unwrap();
        assert_eq!(of(&pushed(&mut alice).await), ["none"]);
        act(&place, "alice", "bob", ContactDeed::Remove).await.unwrap();
        assert_eq!(of(&pushed(&mut alice).await), ["remove"]);
        let none = act(&place, "alice", "bob", ContactDeed::Remove).await;
        assert!(matches!(none, Err(Error::NotFound(_))), "{none:?}");
        let own = act(&place, "alice", "alice", add("me")).await;
        assert!(matches!(own, Err(Error::Invalid(_))), "{own:?}");
    }
}

#[tokio::test]
async fn of_whom_one_has_blocked_nothing_is_asked() {
    for mut place in places().await {
        place.person("bob").await;
        let mut alice = place.logged_in("alice", "home").await;
        alice
            .send(
                "<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'>\
                 <item jid='bob@weir.test'/></block></iq>",
            )
            .await;
        alice.until_ping().await;
        let blocked = act(&place, "alice", "bob", add("Bobby")).await;
        assert!(matches!(blocked, Err(Error::Forbidden(_))), "on {}: {blocked:?}", place.name);
        act(&place, "alice", "nobody", add("Nobody")).await.unwrap();
        act(&place, "alice", "nobody", ContactDeed::Remove).await.unwrap();
    }
}
