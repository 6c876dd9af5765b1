//! Lists, filters, conversations, tags, notifications by policy and in groups, reports.

use weir_base::Id;
use weir_community::filters::{self, FilterChange, KeywordChange, Rules};
use weir_community::notifications::policy::{self, Policy, Treatment};
use weir_community::notifications::{self, Kind, Page};
use weir_community::relationships::{self, FollowWish};
use weir_community::reports::{self, NewReport};
use weir_community::statuses::{self, View, Visibility};
use weir_community::timelines::{self, Range};
use weir_community::{
    Env, Error, announcements, conversations, lists, markers, suggestions, tags, trends,
};
use weir_db::Tx;

use crate::place::{Place, places};

fn as_they_are(_: &mut Tx, _: &Env, views: Vec<View>) -> Result<Vec<View>, Error> {
    Ok(views)
}

async fn follow(place: &Place, by: Id, target: Id) {
    let wish = FollowWish::default();
    place.write(move |tx, env| relationships::follow(tx, env, by, target, &wish)).await.unwrap();
}

#[tokio::test]
async fn an_exclusive_list_shows_its_members_and_keeps_them_out_of_home() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        follow(&place, alice, bob).await;
        let list = place
            .write(move |tx, env| {
                let list = lists::create(tx, env, alice, "friends", "list", true)?;
                lists::add_members(tx, env, alice, list.id, &[bob])?;
                Ok(list)
            })
            .await
            .unwrap();
        let post = place.post(bob, "hello", Visibility::Public).await;
        let ids = |views: Vec<statuses::View>| -> Vec<Id> {
            views.iter().map(|view| view.status.id).collect()
        };
        let shown =
            timelines::list(&place.community, alice, list.id, Range::default(), as_they_are).await;
        assert_eq!(ids(shown.unwrap()), [post]);
        let home =
            timelines::home(&place.community, alice, Range::default(), as_they_are).await.unwrap();
        assert_eq!(ids(home), []);
        place.write(move |tx, env| lists::delete(tx, env, alice, list.id)).await.unwrap();
        let home =
            timelines::home(&place.community, alice, Range::default(), as_they_are).await.unwrap();
        assert_eq!(ids(home), [post]);
    }
}

#[tokio::test]
async fn filters_match_words_of_others_posts() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let change = FilterChange {
            title: Some("no spoilers".into()),
            contexts: Some(vec!["home".into()]),
            action: Some("hide".into()),
            keywords: vec![KeywordChange {
                keyword: Some("Ending".into()),
                whole_word: Some(true),
                ..KeywordChange::default()
            }],
            ..FilterChange::default()
        };
        let filter =
            place.write(move |tx, env| filters::create(tx, env, alice, &change)).await.unwrap();
        assert_eq!(filter.keywords.len(), 1);
        let bad = place.post(bob, "the ending is sad", Visibility::Public).await;
        let good = place.post(bob, "unending joy", Visibility::Public).await;
        let matched = place
            .read(move |tx, env| {
                let rules = Rules::load(tx, alice, env.clock.now())?;
                let views = statuses::load(tx, env, Some(alice), &[bad, good])?;
                Ok(views.iter().map(|view| rules.matching(view, alice).len()).collect::<Vec<_>>())
            })
            .await
            .unwrap();
        assert_eq!(matched, [1, 0]);
        place.write(move |tx, env| filters::delete(tx, env, alice, filter.id)).await.unwrap();
        assert!(place.read(move |tx, _| filters::all(tx, alice)).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn direct_posts_make_one_conversation_and_strangers_wait_for_a_decision() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        place.post(bob, "@alice psst", Visibility::Direct).await;
        let newest = place.post(bob, "@alice still there?", Visibility::Direct).await;
        let found = place
            .read(move |tx, env| conversations::list(tx, env, alice, Range::default()))
            .await
            .unwrap();
        assert_eq!(found.len(), 2, "each first post begins a conversation");
        assert_eq!(found[0].last_status_id, newest);
        assert!(found[0].unread && found[0].accounts[0].id == bob);
        let shown = place
            .read(move |tx, env| notifications::list(tx, env, alice, &Page::default()))
            .await
            .unwrap();
        assert!(shown.is_empty(), "a stranger's direct mention is put aside at first");
        let requests =
            place.read(move |tx, _| policy::requests(tx, alice, Range::default())).await.unwrap();
        assert_eq!(requests.len(), 1);
        let request = requests[0].id;
        place.write(move |tx, env| policy::accept(tx, env, alice, &[request])).await.unwrap();
        let shown = place
            .read(move |tx, env| notifications::list(tx, env, alice, &Page::default()))
            .await
            .unwrap();
        assert_eq!(shown.len(), 2);
        place.write(move |tx, env| statuses::delete(tx, env, bob, newest)).await.unwrap();
        let left = place
            .read(move |tx, env| conversations::list(tx, env, alice, Range::default()))
            .await
            .unwrap();
        assert_eq!(left.len(), 1);
    }
}

#[tokio::test]
async fn a_policy_drops_and_groups_are_counted() {
    for place in places() {
        let alice = place.person("alice").await;
        let post = place.post(alice, "like me", Visibility::Public).await;
        let mut likers = Vec::new();
        for name in ["bob", "carol", "dave"] {
            let liker = place.person(name).await;
            place.write(move |tx, env| statuses::favourite(tx, env, liker, post)).await.unwrap();
            likers.push(liker);
        }
        let page = Page::default();
        let groups = place
            .read(move |tx, env| notifications::groups(tx, env, alice, &page, &[Kind::Favourite]))
            .await
            .unwrap();
        assert_eq!(groups.len(), 1);
        assert_eq!((groups[0].count, groups[0].sample.len()), (3, 3));
        let key = groups[0].key.clone();
        let people =
            place.read(move |tx, _| notifications::group_accounts(tx, alice, &key)).await.unwrap();
        likers.reverse();
        assert_eq!(people, likers);
        let policy = Policy { for_not_following: Treatment::Drop, ..Policy::default() };
        place.write(move |tx, _| policy::set_policy(tx, alice, policy)).await.unwrap();
        let erin = place.person("erin").await;
        place.write(move |tx, env| statuses::favourite(tx, env, erin, post)).await.unwrap();
        let count = place
            .read(move |tx, _| notifications::unread_count(tx, alice, &Page::default(), &[]))
            .await
            .unwrap();
        assert_eq!(count, 3);
    }
}

#[tokio::test]
async fn tags_markers_suggestions_announcements_and_reports_do_what_they_say() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        place
            .write(move |tx, env| {
                tags::follow(tx, env, alice, "#Weir")?;
                tags::feature(tx, env, bob, "weir")?;
                let marker = markers::set(tx, env, alice, "home", Id(5))?;
                assert_eq!((marker.version, marker.last_read_id), (1, Id(5)));
                assert_eq!(markers::set(tx, env, alice, "home", Id(9))?.version, 2);
                let suggested = suggestions::list(tx, alice, 10, env.clock.now())?;
                assert!(suggested.is_empty(), "nobody is discoverable");
                let id = announcements::publish(tx, env, "Back at 8", None, None, false)?;
                announcements::react(tx, env, alice, id, "🎉")?;
                assert_eq!(announcements::reactions(tx, alice, &[id])?[0].count, 1);
                announcements::dismiss(tx, alice, id)?;
                assert!(announcements::current(tx, env, alice)?[0].1);
                Ok(())
            })
            .await
            .unwrap();
        let post = place.post(bob, "about #weir", Visibility::Public).await;
        let home =
            timelines::home(&place.community, alice, Range::default(), as_they_are).await.unwrap();
        assert_eq!(home[0].status.id, post, "a followed hashtag's posts come home");
        place
            .write(move |tx, env| {
                assert_eq!(tags::featured(tx, bob)?[0].statuses_count, 1);
                assert_eq!(trends::tags(tx, env, 5, 0)?[0].name, "weir");
                let tag = tags::by_name(tx, "WEIR")?.unwrap();
                assert_eq!(tags::history(tx, env, tag.id)?[0].1, 1);
                let new = NewReport {
                    target_id: bob,
                    status_ids: vec![post],
                    comment: "hm".into(),
                    ..NewReport::default()
                };
                let report = reports::create(tx, env, alice, &new, "")?;
                assert_eq!(report.category, "other");
                assert_eq!(reports::list(tx, false, Range::default())?.len(), 1);
                reports::resolve(tx, env, alice, report.id, true)?;
                assert!(reports::list(tx, false, Range::default())?.is_empty());
                Ok(())
            })
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_report_names_no_post_that_the_reporter_cannot_see() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let remote = place.person("remote").await;
        let open = place.post(bob, "for all", Visibility::Public).await;
        let to_alice = place.post(bob, "secret for @alice", Visibility::Direct).await;
        let to_remote = place.post(bob, "secret for @remote", Visibility::Direct).await;
        let closed = place.post(bob, "for followers", Visibility::Private).await;
        let new = NewReport {
            target_id: bob,
            status_ids: vec![closed, to_remote, to_alice, open],
            ..NewReport::default()
        };
        place
            .write(move |tx, env| {
                let sql = "UPDATE accounts SET domain = 'other.test' WHERE id = ?1";
                tx.execute(sql, weir_db::params![remote])?;
                let named = reports::create(tx, env, alice, &new, "")?.status_ids.0;
                assert_eq!(named, [open, to_alice]);
                let uri = "https://other.test/flags/1";
                let named = reports::create(tx, env, remote, &new, uri)?.status_ids.0;
                assert_eq!(named, [open, to_remote]);
                Ok(())
            })
            .await
            .unwrap();
    }
}
