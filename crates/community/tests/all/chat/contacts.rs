use weir_base::Id;
use weir_community::chat::contacts::{self, Other};
use weir_community::chat::subscription::{Kind, State};
use weir_community::chat::{blocks, settings};
use weir_community::{Env, Error, accounts, relationships};
use weir_db::Tx;

use crate::place::{Place, places};

async fn two() -> Vec<(Place, Id, Id)> {
    let mut all = Vec::new();
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        all.push((place, alice, bob));
    }
    all
}

fn subscription(contact: Option<contacts::Contact>) -> &'static str {
    contact.map_or("no contact", |contact| contact.state.subscription())
}

#[tokio::test]
async fn asking_and_granting_both_ways_makes_both_see_each_other() {
    for (place, alice, bob) in two().await {
        let asked = place.says(alice, Kind::Subscribe, "bob@weir.test").await.unwrap();
        assert!(asked.mine.is_seen() && asked.mine.contact.state.asks);
        let Other::Here(theirs) = asked.theirs else { panic!("{asked:?}") };
        assert!(theirs.passes && !theirs.is_seen(), "a request alone is no contact");
        assert_eq!(theirs.contact.request, "<presence/>");
        place.says(bob, Kind::Subscribed, "alice@weir.test").await.unwrap();
        assert_eq!(subscription(place.contact(alice, "bob@weir.test").await), "to");
        assert_eq!(subscription(place.contact(bob, "alice@weir.test").await), "from");
        place.says(bob, Kind::Subscribe, "alice@weir.test").await.unwrap();
        place.says(alice, Kind::Subscribed, "bob@weir.test").await.unwrap();
        assert_eq!(subscription(place.contact(alice, "bob@weir.test").await), "both");
        assert_eq!(subscription(place.contact(bob, "alice@weir.test").await), "both");
    }
}

#[tokio::test]
async fn who_was_approved_ahead_is_answered_at_once() {
    for (place, alice, bob) in two().await {
        place.says(bob, Kind::Subscribed, "alice@weir.test").await.unwrap();
        let asked = place.says(alice, Kind::Subscribe, "bob@weir.test").await.unwrap();
        assert!(asked.mine.contact.state.to && !asked.mine.contact.state.asks);
        let Other::Here(theirs) = asked.theirs else { panic!("{asked:?}") };
        assert!(theirs.shows() && !theirs.passes);
        assert_eq!(subscription(place.contact(bob, "alice@weir.test").await), "from");
    }
}

#[tokio::test]
async fn removing_a_contact_ends_it_on_both_sides() {
    for (place, alice, bob) in two().await {
        place.befriend(alice, bob).await;
        let removed =
            place.write(move |tx, env| contacts::remove(tx, env, alice, "bob@weir.test")).await;
        let told: Vec<Kind> = removed.unwrap().told.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(told, [Kind::Unsubscribe, Kind::Unsubscribed]);
        assert_eq!(place.contact(alice, "bob@weir.test").await, None);
        let left = place.contact(bob, "alice@weir.test").await.unwrap();
        assert_eq!(left.state, State { listed: true, ..State::default() });
        let again =
            place.write(move |tx, env| contacts::remove(tx, env, alice, "bob@weir.test")).await;
        assert!(matches!(again, Err(Error::NotFound(_))));
    }
}

#[tokio::test]
async fn names_and_groups_are_kept_and_each_change_makes_a_new_version() {
    for (place, alice, _) in two().await {
        let before = place.roster(alice).await.version;
        let groups = ["Work".to_owned(), "Chess".to_owned(), "Work".to_owned()];
        let change = place
            .write(move |tx, env| contacts::set(tx, env, alice, "carol@far.test", "Carol", &groups))
            .await
            .unwrap();
        assert!(change.is_seen());
        let roster = place.roster(alice).await;
        assert_eq!(roster.version, change.version);
        assert_ne!(roster.version, before);
        assert_eq!(roster.contacts[0].groups, ["Chess", "Work"]);
        let empty = ["".to_owned()];
        let refused = place
            .write(move |tx, env| contacts::set(tx, env, alice, "x@far.test", "", &empty))
            .await;
        assert!(matches!(refused, Err(Error::Invalid(_))));
    }
}

#[tokio::test]
async fn a_blocked_sender_is_not_heard() {
    for (place, alice, bob) in two().await {
        place.write(move |tx, env| blocks::block(tx, env, bob, "alice@weir.test")).await.unwrap();
        let asked = place.says(alice, Kind::Subscribe, "bob@weir.test").await.unwrap();
        assert_eq!(asked.theirs, Other::Deaf);
        assert_eq!(place.contact(bob, "alice@weir.test").await, None);
    }
}

#[tokio::test]
async fn nobody_and_elsewhere_are_told_apart() {
    for (place, alice, _) in two().await {
        let far = place.says(alice, Kind::Subscribe, "carol@far.test").await.unwrap();
        assert_eq!((far.theirs, far.mine.passes), (Other::Elsewhere, true));
        let missing = place.says(alice, Kind::Subscribe, "carol@weir.test").await.unwrap();
        assert_eq!(missing.theirs, Other::Nobody);
        let own = place.says(alice, Kind::Subscribe, "alice@weir.test").await;
        assert!(matches!(own, Err(Error::Invalid(_))));
    }
}

#[tokio::test]
async fn mutual_followers_are_contacts_for_who_wants_that() {
    for (place, alice, bob) in two().await {
        place.follow_each_other(alice, bob).await;
        assert_eq!(place.roster(alice).await.contacts, []);
        place.write(move |tx, env| settings::show_mutuals(tx, env, alice, true)).await.unwrap();
        let one_sided = place.roster(alice).await;
        assert_eq!(one_sided.contacts[0].groups, [contacts::MUTUALS]);
        assert_eq!(one_sided.contacts[0].state.subscription(), "none");
        place.write(move |tx, env| settings::show_mutuals(tx, env, bob, true)).await.unwrap();
        let both = place.roster(alice).await;
        assert_eq!(both.contacts[0].state.subscription(), "both");
        assert_ne!(both.version, one_sided.version);
    }
}

#[tokio::test]
async fn a_block_in_chat_is_a_block_everywhere_and_shows_in_both() {
    for (place, alice, bob) in two().await {
        place.write(move |tx, env| blocks::block(tx, env, alice, "bob@weir.test")).await.unwrap();
        place.write(move |tx, env| blocks::block(tx, env, alice, "spam.test")).await.unwrap();
        let now = place.clock.now();
        let shown = place
            .read(move |tx, _| relationships::relationships(tx, alice, &[bob], now))
            .await
            .unwrap();
        assert!(shown[0].blocking);
        let asked = ["bob@weir.test/phone", "x@spam.test/y", "carol@far.test"];
        for (jid, blocked) in asked.into_iter().zip([true, true, false]) {
            let found = place.read(move |tx, env| blocks::blocks(tx, env, alice, jid)).await;
            assert_eq!(found.unwrap(), blocked, "{jid}");
        }
        let list = place.read(move |tx, env| blocks::list(tx, env, alice)).await.unwrap();
        assert_eq!(list, ["bob@weir.test", "spam.test"]);
        place.write(move |tx, env| blocks::unblock_all(tx, env, alice)).await.unwrap();
        let list = place.read(move |tx, env| blocks::list(tx, env, alice)).await.unwrap();
        assert!(list.is_empty());
    }
}

#[tokio::test]
async fn a_server_is_blocked_however_its_name_is_written() {
    for (place, alice, _) in two().await {
        place.write(move |tx, env| blocks::block(tx, env, alice, "carol@far.test")).await.unwrap();
        let everywhere = move |tx: &mut Tx, env: &Env| {
            relationships::block_domain(tx, env, alice, "M\u{FC}ller.test")
        };
        place.write(everywhere).await.unwrap();
        let list = move |tx: &mut Tx, env: &Env| blocks::list(tx, env, alice);
        assert_eq!(place.read(list).await.unwrap(), ["carol@far.test", "m\u{FC}ller.test"]);
        let asked = |jid| move |tx: &mut Tx, env: &Env| blocks::blocks(tx, env, alice, jid);
        assert!(place.read(asked("x@m\u{FC}ller.test/y")).await.unwrap());
        assert!(!place.read(asked("x@muller.test/y")).await.unwrap());
        let unblock =
            move |tx: &mut Tx, env: &Env| blocks::unblock(tx, env, alice, "m\u{FC}ller.test");
        place.write(unblock).await.unwrap();
        assert_eq!(place.read(list).await.unwrap(), ["carol@far.test"]);
    }
}

#[tokio::test]
async fn a_deleted_account_leaves_the_contacts_of_the_others() {
    for (place, alice, bob) in two().await {
        place.befriend(alice, bob).await;
        place.write(move |tx, env| accounts::delete(tx, env, alice)).await.unwrap();
        let step = move |tx: &mut Tx, env: &Env| accounts::erase_step(tx, env, alice);
        while !place.write(step).await.unwrap() {}
        assert_eq!(subscription(place.contact(bob, "alice@weir.test").await), "none");
        assert_eq!(place.contact(alice, "bob@weir.test").await, None);
    }
}
