//! The main walk: people post, follow, read, favourite, boost, delete.

use weir_base::Id;
use weir_community::notifications::{self, Kind, Page};
use weir_community::relationships::{self, FollowWish, Following};
use weir_community::statuses::{self, View, Visibility};
use weir_community::timelines::{self, AccountPage, PublicPage, Range};

use crate::place::{Place, places};

async fn home(place: &Place, of: Id, range: Range) -> Vec<Id> {
    let ids = |views: Vec<View>| views.iter().map(|view| view.status.id).collect();
    let page = timelines::home(&place.community, of, range, move |_, _, views| Ok(ids(views)));
    page.await.unwrap()
}

#[tokio::test]
async fn a_post_reaches_followers_and_those_it_mentions() {
    for place in places() {
        let (alice, bob, carol) =
            (place.person("alice").await, place.person("bob").await, place.person("carol").await);
        let follow = place
            .write(move |tx, env| {
                relationships::follow(tx, env, bob, alice, &FollowWish::default())
            })
            .await
            .unwrap();
        assert_eq!(follow, Following::Yes);
        let first = place.post(alice, "hello @carol #Weir", Visibility::Public).await;
        let private = place.post(alice, "for followers", Visibility::Private).await;
        let direct = place.post(alice, "only @carol", Visibility::Direct).await;
        assert_eq!(home(&place, bob, Range::default()).await, [private, first]);
        assert_eq!(home(&place, alice, Range::default()).await, [direct, private, first]);
        assert_eq!(home(&place, carol, Range::default()).await, []);
        let told = place
            .read(move |tx, env| notifications::list(tx, env, carol, &Page::default()))
            .await
            .unwrap();
        let told: Vec<_> =
            told.iter().map(|n| (n.kind, n.status.as_ref().unwrap().status.id)).collect();
        // Private mentions by those one does not follow are kept apart, as the policy says.
        assert_eq!(told, [(Kind::Mention, first)]);
        let public = place
            .read(|tx, env| {
                timelines::public(tx, env, None, PublicPage::default(), Range::default())
            })
            .await
            .unwrap();
        assert_eq!(public.len(), 1);
        assert_eq!(public[0].tags[0].name, "weir");
        assert!(public[0].status.content.contains("https://weir.test/@carol"));
        for (reader, sees) in [(Some(bob), vec![private, first]), (None, vec![first])] {
            let shown = place
                .read(move |tx, env| {
                    let page = AccountPage::default();
                    timelines::account(tx, env, reader, alice, page, Range::default())
                })
                .await
                .unwrap();
            assert_eq!(shown.iter().map(|view| view.status.id).collect::<Vec<_>>(), sees);
        }
    }
}

#[tokio::test]
async fn paging_the_home_timeline_skips_and_repeats_nothing_across_memory_and_sql() {
    for place in places() {
        let reader = place.person("reader").await;
        let mut made = Vec::new();
        for name in ["alice", "bob"] {
            let author = place.person(name).await;
            place
                .write(move |tx, env| {
                    relationships::follow(tx, env, reader, author, &FollowWish::default())
                })
                .await
                .unwrap();
            for number in 0..150 {
                made.push(place.post(author, &format!("post {number}"), Visibility::Public).await);
            }
        }
        made.sort();
        made.reverse();
        let mut down = Vec::new();
        let mut range = Range { limit: 17, ..Range::default() };
        loop {
            let page = home(&place, reader, range).await;
            let Some(last) = page.last() else { break };
            range.max_id = Some(*last);
            down.extend(page);
        }
        assert_eq!(down, made);
        let mut up = Vec::new();
        let mut range = Range { limit: 23, min_id: Some(Id(1)), ..Range::default() };
        loop {
            let page = home(&place, reader, range).await;
            let Some(first) = page.first() else { break };
            range.min_id = Some(*first);
            up.extend(page.into_iter().rev());
        }
        made.reverse();
        assert_eq!(up, made);
    }
}

#[tokio::test]
async fn favourites_and_boosts_count_once_and_can_be_taken_back() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let post = place.post(alice, "like this", Visibility::Public).await;
        for _ in 0..2 {
            place.write(move |tx, env| statuses::favourite(tx, env, bob, post)).await.unwrap();
            place.write(move |tx, env| statuses::boost(tx, env, bob, post, None)).await.unwrap();
        }
        let view =
            place.read(move |tx, env| statuses::load_one(tx, env, Some(bob), post)).await.unwrap();
        assert_eq!((view.status.favourites_count, view.status.boosts_count), (1, 1));
        assert!(view.reader.unwrap().favourited && view.reader.unwrap().boosted);
        let told = place
            .read(move |tx, env| notifications::list(tx, env, alice, &Page::default()))
            .await
            .unwrap();
        assert_eq!(
            told.iter().map(|n| n.kind).collect::<Vec<_>>(),
            [Kind::Reblog, Kind::Favourite]
        );
        place.write(move |tx, env| statuses::unfavourite(tx, env, bob, post)).await.unwrap();
        place.write(move |tx, env| statuses::unboost(tx, env, bob, post)).await.unwrap();
        let view =
            place.read(move |tx, env| statuses::load_one(tx, env, Some(bob), post)).await.unwrap();
        assert_eq!((view.status.favourites_count, view.status.boosts_count), (0, 0));
        place.write(move |tx, env| statuses::delete(tx, env, alice, post)).await.unwrap();
        let gone = place.read(move |tx, env| statuses::load_one(tx, env, Some(bob), post)).await;
        assert!(gone.is_err());
    }
}

#[tokio::test]
async fn what_many_did_with_a_post_is_found_at_once_among_all_or_among_some() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let carol = place.person("carol").await;
        let draft = statuses::Draft {
            text: "?".into(),
            poll: Some(statuses::PollDraft {
                options: vec!["a".into(), "b".into()],
                multiple: true,
                expires_in_s: 600,
                hide_totals: false,
            }),
            ..statuses::Draft::default()
        };
        let touched = place
            .write(move |tx, env| {
                let post = statuses::publish(tx, env, alice, &draft)?;
                let view = statuses::load_one(tx, env, Some(bob), post)?;
                let poll = view.poll.clone().unwrap().id;
                statuses::vote(tx, env, bob, poll, &[0, 1])?;
                statuses::favourite(tx, env, bob, post)?;
                statuses::bookmark(tx, env, carol, post)?;
                let boost = statuses::boost(tx, env, carol, post, None)?;
                statuses::mute_conversation(tx, env, carol, post)?;
                let view = statuses::load_one(tx, env, None, boost)?;
                Ok([None, Some(vec![alice, bob])]
                    .map(|among| statuses::Touched::load(tx, &view, among.as_deref()).unwrap()))
            })
            .await
            .unwrap();
        for (touched, all) in touched.iter().zip([true, false]) {
            let by_bob = touched.by(bob).unwrap();
            assert!(by_bob.state.favourited && !by_bob.state.boosted && !by_bob.state.muted);
            assert_eq!(by_bob.votes, [0, 1]);
            assert_eq!(touched.by(alice), None);
            assert_eq!(touched.by(carol).is_some(), all);
        }
        let state = touched[0].by(carol).unwrap().state;
        assert!(state.bookmarked && state.boosted && state.muted && !state.favourited);
    }
}
