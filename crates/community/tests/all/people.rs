//! Joining, proving an address, changing a password, leaving; and what staff does about people.

use weir_base::Id;
use weir_community::accounts::{self, RemoteAccount};
use weir_community::federation::order::Version;
use weir_community::hosts::{self, Severity};
use weir_community::instance::Registrations;
use weir_community::moderation::{self, Access};
use weir_community::notifications::{self, Kind, Page};
use weir_community::relationships::{self, FollowWish};
use weir_community::statuses::{self, Visibility};
use weir_community::users::{
    self, Door, KeptPassword, NewInvite, NewSession, Role, SignUp, Standing, UserChange,
};
use weir_community::{Community, Env, Error, Problem};
use weir_db::{Tx, params};

use crate::place::{Place, places};
use crate::working::{mails, token};

const OPEN: Door = Door { registrations: Registrations::Open, confirm_email: false };

fn new(name: &str) -> SignUp {
    SignUp {
        username: name.into(),
        email: format!("{name}@mail.test"),
        password: Ok(KeptPassword::of_hash("hash")),
        agreement: true,
        reason: String::new(),
        invite: String::new(),
        locale: "en".into(),
        ip: Some("192.0.2.7".parse().unwrap()),
    }
}

impl Place {
    async fn sign_up(&self, door: Door, new: SignUp) -> Result<(Id, Standing), Error> {
        self.write(move |tx, env| users::sign_up(tx, env, &door, &new)).await
    }

    async fn staff(&self, name: &str, role: Role) -> Id {
        let id = self.person(name).await;
        let change = UserChange { role: Some(role), ..UserChange::default() };
        self.write(move |tx, env| users::change(tx, env, id, &change)).await.unwrap();
        id
    }

    async fn standing(&self, of: Id) -> Standing {
        self.read(move |tx, _| Ok(users::by_account(tx, of)?.standing(&accounts::by_id(tx, of)?)))
            .await
            .unwrap()
    }
}

fn codes(error: Error) -> Vec<(&'static str, &'static str)> {
    let Error::Invalid(invalid) = error else { panic!("{error}") };
    invalid.problems.iter().map(|problem| (problem.field, problem.code)).collect()
}

#[tokio::test]
async fn everything_wrong_with_a_sign_up_is_said_at_once() {
    for place in places() {
        place.sign_up(OPEN, new("alice")).await.unwrap();
        place.write(|tx, env| moderation::block_email_domain(tx, env, "Bad.test")).await.unwrap();
        let password = Problem { field: "password", code: "ERR_TOO_SHORT", message: "x".into() };
        let wrong = SignUp {
            email: "a@mail.bad.test".into(),
            password: Err(password),
            agreement: false,
            ..new("Alice")
        };
        let door = Door { registrations: Registrations::Approval, ..OPEN };
        let problems = codes(place.sign_up(door, wrong).await.unwrap_err());
        assert_eq!(
            problems,
            [
                ("username", "ERR_TAKEN"),
                ("email", "ERR_BLOCKED"),
                ("agreement", "ERR_ACCEPTED"),
                ("reason", "ERR_BLANK"),
                ("password", "ERR_TOO_SHORT"),
            ]
        );
        for name in ["admin", "weir.test", "a b", ""] {
            assert!(place.sign_up(OPEN, new(name)).await.is_err(), "{name}");
        }
    }
}

#[tokio::test]
async fn the_door_is_open_waits_for_staff_asks_for_an_invitation_or_is_closed() {
    for place in places() {
        let alice = place.staff("alice", Role::Admin).await;
        let bob = place.person("bob").await;
        let door = |registrations| Door { registrations, confirm_email: false };
        assert_eq!(place.sign_up(OPEN, new("one")).await.unwrap().1, Standing::Fine);
        let asked = SignUp { reason: "because".into(), ..new("two") };
        let (two, standing) = place.sign_up(door(Registrations::Approval), asked).await.unwrap();
        assert_eq!(standing, Standing::Pending);
        assert!(place.sign_up(door(Registrations::Closed), new("three")).await.is_err());
        assert!(place.sign_up(door(Registrations::Invite), new("three")).await.is_err());
        let once = NewInvite { uses_max: Some(1), autofollow: true, ..NewInvite::default() };
        let invite =
            place.write(move |tx, env| users::create_invite(tx, env, bob, &once)).await.unwrap();
        let invited = SignUp { invite: invite.code.clone(), ..new("three") };
        let (three, standing) =
            place.sign_up(door(Registrations::Invite), invited.clone()).await.unwrap();
        assert_eq!(standing, Standing::Fine);
        let followers = place
            .read(move |tx, _| relationships::follower_ids(tx, bob, Id::MAX, 9))
            .await
            .unwrap();
        assert_eq!(followers.iter().map(|pair| pair.1).collect::<Vec<_>>(), [three]);
        let again = SignUp { invite: invite.code, ..new("four") };
        assert!(place.sign_up(door(Registrations::Invite), again).await.is_err(), "used up");
        let waiting = place.read(|tx, _| moderation::pending(tx)).await.unwrap();
        assert_eq!(waiting.iter().map(|(account, _)| account.id).collect::<Vec<_>>(), [two]);
        let refused = place.write(move |tx, env| moderation::approve(tx, env, bob, two)).await;
        assert!(matches!(refused, Err(Error::Forbidden(_))), "bob is not of staff");
        place.write(move |tx, env| moderation::approve(tx, env, alice, two)).await.unwrap();
        assert_eq!(place.standing(two).await, Standing::Fine);
    }
}

#[tokio::test]
async fn who_is_not_let_in_follows_nobody() {
    for place in places() {
        let alice = place.staff("alice", Role::Admin).await;
        let bob = place.person("bob").await;
        let door = Door { registrations: Registrations::Approval, confirm_email: false };
        let follow = NewInvite { autofollow: true, ..NewInvite::default() };
        let invite =
            place.write(move |tx, env| users::create_invite(tx, env, bob, &follow)).await.unwrap();
        let reason = "because".into();
        let asked = SignUp { invite: invite.code, reason, ..new("carol") };
        let (carol, _) = place.sign_up(door, asked).await.unwrap();
        let followers = async || {
            let count = place.read(move |tx, _| accounts::by_id(tx, bob)).await.unwrap();
            count.followers_count
        };
        let before = followers().await;
        place.write(move |tx, env| moderation::reject(tx, env, alice, carol)).await.unwrap();
        assert_eq!((before, followers().await), (1, 0));
    }
}

#[tokio::test]
async fn those_who_may_be_logged_in_are_found_together_with_what_tells_their_passwords_apart() {
    for place in places() {
        let fine = place.person("alice").await;
        let mut asked = vec![fine, Id(1)];
        for (name, what) in [
            ("b", "UPDATE users SET disabled = 1 WHERE account_id = ?1"),
            ("c", "UPDATE users SET confirmed_at = NULL WHERE account_id = ?1"),
            ("d", "UPDATE users SET approved = 0 WHERE account_id = ?1"),
            ("e", "UPDATE accounts SET suspended_at = 1 WHERE id = ?1"),
            ("f", "UPDATE accounts SET deleted_at = 1 WHERE id = ?1"),
            ("g", "DELETE FROM users WHERE account_id = ?1"),
        ] {
            let id = place.person(name).await;
            let change = move |tx: &mut Tx, _: &Env| Ok(tx.execute(what, params![id])?);
            place.write(change).await.unwrap();
            asked.push(id);
        }
        let look = async || {
            let asked = asked.clone();
            place.read(move |tx, _| users::who_may_be_here(tx, &asked)).await.unwrap()
        };
        let found = look().await;
        assert_eq!(found.keys().collect::<Vec<_>>(), [&fine], "{}", place.name());
        assert_eq!(look().await, found);
        let new = KeptPassword::of_hash("another");
        let change =
            move |tx: &mut Tx, env: &Env| users::change_password(tx, env, fine, &new, None);
        place.write(change).await.unwrap();
        assert_ne!(look().await[&fine], found[&fine], "{}", place.name());
    }
}

#[tokio::test]
async fn a_network_can_be_kept_out_or_looked_at() {
    for place in places() {
        for (network, access) in
            [("192.0.2.0/28", Access::NoSignUp), ("2001:db8::/32", Access::SignUpByApproval)]
        {
            place
                .write(move |tx, env| {
                    let block = moderation::NetworkBlock {
                        network: network.into(),
                        access,
                        comment: String::new(),
                        expires_at: None,
                    };
                    moderation::block_network(tx, env, &block)
                })
                .await
                .unwrap();
        }
        assert!(matches!(place.sign_up(OPEN, new("one")).await, Err(Error::Forbidden(_))));
        let looked_at =
            SignUp { ip: Some("2001:db8::7".parse().unwrap()), reason: "x".into(), ..new("two") };
        assert_eq!(place.sign_up(OPEN, looked_at).await.unwrap().1, Standing::Pending);
        let elsewhere = SignUp { ip: Some("192.0.2.99".parse().unwrap()), ..new("three") };
        assert_eq!(place.sign_up(OPEN, elsewhere).await.unwrap().1, Standing::Fine);
    }
}

#[tokio::test]
async fn an_address_is_proven_changed_and_proven_again_by_mail() {
    for place in places() {
        let folder = tempfile::tempdir().unwrap();
        let working = place.work(folder.path());
        let door = Door { confirm_email: true, ..OPEN };
        let (alice, standing) = place.sign_up(door, new("alice")).await.unwrap();
        assert_eq!(standing, Standing::Unconfirmed);
        place.idle().await;
        let link = token(&mails(folder.path()), "/auth/confirmation");
        let wrong = place.write(|tx, env| users::confirm(tx, env, "wrong")).await;
        assert!(matches!(wrong, Err(Error::NotFound(_))));
        let good = link.clone();
        place.write(move |tx, env| users::confirm(tx, env, &good)).await.unwrap();
        assert_eq!(place.standing(alice).await, Standing::Fine);
        let again = place.write(move |tx, env| users::confirm(tx, env, &link)).await;
        assert!(matches!(again, Err(Error::NotFound(_))), "a link works once");
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
        let new = "new@mail.test";
        place.write(move |tx, env| users::change_email(tx, env, alice, new, true)).await.unwrap();
        let user = place.read(move |tx, _| users::by_account(tx, alice)).await.unwrap();
        assert_eq!(user.email, "alice@mail.test", "until the new one is proven");
        place.idle().await;
        let sent = mails(folder.path());
        assert!(sent[0].contains("To: new@mail.test"), "{sent:?}");
        let link = token(&sent, "/auth/confirmation");
        let user = place.write(move |tx, env| users::confirm(tx, env, &link)).await.unwrap();
        assert_eq!(user.email, "new@mail.test");
        place.idle().await;
        let told = mails(folder.path());
        assert!(told.iter().any(|mail| mail.contains("To: alice@mail.test")), "the old one");
        working.stop().await;
    }
}

#[tokio::test]
async fn a_new_password_ends_the_change_of_address_that_somebody_else_began() {
    for place in places() {
        let folder = tempfile::tempdir().unwrap();
        let working = place.work(folder.path());
        let alice = place.person("alice").await;
        let evil = "evil@other.test";
        let password = KeptPassword::of_hash("new");
        for by_staff in [false, true] {
            place
                .write(move |tx, env| users::change_email(tx, env, alice, evil, true))
                .await
                .unwrap();
            place.idle().await;
            let link = token(&mails(folder.path()), "/auth/confirmation");
            let password = password.clone();
            place
                .write(move |tx, env| {
                    if !by_staff {
                        return users::change_password(tx, env, alice, &password, None);
                    }
                    let password = Some(password.clone());
                    users::change(tx, env, alice, &UserChange { password, ..UserChange::default() })
                })
                .await
                .unwrap();
            let late = place.write(move |tx, env| users::confirm(tx, env, &link)).await;
            assert!(matches!(late, Err(Error::NotFound(_))), "by staff: {by_staff}");
            let user = place.read(move |tx, _| users::by_account(tx, alice)).await.unwrap();
            assert_eq!((&*user.email, user.unconfirmed_email), ("alice@mail.test", None));
            place.idle().await;
            for entry in std::fs::read_dir(folder.path()).unwrap() {
                std::fs::remove_file(entry.unwrap().path()).unwrap();
            }
        }
        working.stop().await;
    }
}

#[tokio::test]
async fn links_to_a_new_password_end_with_the_address_they_were_sent_to() {
    for place in places() {
        let folder = tempfile::tempdir().unwrap();
        let working = place.work(folder.path());
        let alice = place.person("alice").await;
        place.write(|tx, env| users::ask_reset(tx, env, "alice@mail.test")).await.unwrap();
        place.idle().await;
        let link = token(&mails(folder.path()), "/auth/password/edit");
        let new = "new@mail.test";
        place.write(move |tx, env| users::change_email(tx, env, alice, new, false)).await.unwrap();
        let open = place.read(move |tx, env| users::reset_is_open(tx, env, &link)).await.unwrap();
        assert!(!open);
        working.stop().await;
    }
}

#[tokio::test]
async fn a_forgotten_password_is_replaced_once_and_ends_every_log_in() {
    for place in places() {
        let folder = tempfile::tempdir().unwrap();
        let working = place.work(folder.path());
        let alice = place.person("alice").await;
        let session = place
            .write(move |tx, env| users::start_session(tx, env, alice, &NewSession::default()))
            .await
            .unwrap();
        for email in ["Alice@mail.test", "nobody@mail.test"] {
            place.write(move |tx, env| users::ask_reset(tx, env, email)).await.unwrap();
        }
        place.idle().await;
        let sent = mails(folder.path());
        assert_eq!(sent.len(), 1, "nobody learns who has an account: {sent:?}");
        let link = token(&sent, "/auth/password/edit");
        let hash = KeptPassword::of_hash("other");
        let (one, two) = ((link.clone(), hash.clone()), (link.clone(), hash));
        place.write(move |tx, env| users::reset_password(tx, env, &one.0, &one.1)).await.unwrap();
        let again =
            place.write(move |tx, env| users::reset_password(tx, env, &two.0, &two.1)).await;
        assert!(matches!(again, Err(Error::NotFound(_))));
        let found =
            place.read(move |tx, env| users::session(tx, env, session.expose())).await.unwrap();
        assert!(found.is_none());
        let user = place.read(move |tx, _| users::by_account(tx, alice)).await.unwrap();
        assert_eq!(user.password_hash, "other");
        place.write(|tx, env| users::ask_reset(tx, env, "alice@mail.test")).await.unwrap();
        place.idle().await;
        let late = mails(folder.path());
        let late = late.iter().find(|mail| mail.contains("?token=") && !mail.contains(&link));
        let late = token(&[late.unwrap().clone()], "/auth/password/edit");
        place.clock.advance(25 * 3_600 * 1_000);
        let open = place.read(move |tx, env| users::reset_is_open(tx, env, &late)).await.unwrap();
        assert!(!open, "a day is over");
        working.stop().await;
    }
}

#[tokio::test]
async fn a_deleted_account_is_gone_at_once_and_its_traces_soon() {
    for place in places() {
        let folder = tempfile::tempdir().unwrap();
        let working = place.work(folder.path());
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let bobs = place.post(bob, "of bob", Visibility::Public).await;
        for number in 0..120 {
            place.post(alice, &format!("post {number} #tag"), Visibility::Public).await;
        }
        place
            .write(move |tx, env| {
                statuses::favourite(tx, env, alice, bobs)?;
                statuses::boost(tx, env, alice, bobs, None)?;
                relationships::follow(tx, env, bob, alice, &FollowWish::default())?;
                relationships::follow(tx, env, alice, bob, &FollowWish::default()).map(|_| ())
            })
            .await
            .unwrap();
        place.write(move |tx, env| accounts::delete(tx, env, alice)).await.unwrap();
        let again = place.write(move |tx, env| accounts::delete(tx, env, alice)).await;
        assert!(matches!(again, Err(Error::NotFound(_))));
        let seen = place.read(|tx, env| accounts::lookup(tx, env, "alice")).await;
        assert!(seen.is_err());
        assert!(place.sign_up(OPEN, new("alice")).await.is_err(), "the name stays taken");
        place.clock.advance(61_000);
        place.community.env().jobs.wake();
        let left = async || {
            place
                .read(move |tx, _| {
                    let sql = "SELECT count(*) FROM statuses WHERE account_id = ?1";
                    Ok(tx.value::<i64>(sql, weir_db::params![alice])?.unwrap_or(0))
                })
                .await
                .unwrap()
        };
        while left().await > 0 {
            tokio::task::yield_now().await;
        }
        place.idle().await;
        let (post, bob) = place
            .read(move |tx, _| Ok((statuses::by_id(tx, bobs)?, accounts::by_id(tx, bob)?)))
            .await
            .unwrap();
        assert_eq!((post.favourites_count, post.boosts_count), (0, 0));
        assert_eq!((bob.followers_count, bob.following_count), (0, 0));
        working.stop().await;
    }
}

#[tokio::test]
async fn the_last_admin_neither_leaves_nor_loses_the_role() {
    for place in places() {
        let admin = place.staff("olga", Role::Admin).await;
        place.staff("bob", Role::Moderator).await;
        let no_change = UserChange::default;
        let ends = [
            UserChange { role: Some(Role::Moderator), ..no_change() },
            UserChange { approved: Some(false), ..no_change() },
            UserChange { disabled: Some(true), ..no_change() },
        ];
        let refused = |ended: Result<(), Error>| {
            let Err(Error::Conflict(why)) = ended else { panic!("{ended:?}") };
            assert!(why.contains("weir account set NAME --role admin"), "{why}");
        };
        for change in ends.clone() {
            refused(place.write(move |tx, env| users::change(tx, env, admin, &change)).await);
        }
        refused(place.write(move |tx, env| accounts::delete(tx, env, admin)).await);
        let stays = UserChange { role: Some(Role::Admin), disabled: Some(false), ..no_change() };
        place.write(move |tx, env| users::change(tx, env, admin, &stays)).await.unwrap();
        // Those who cannot log in can do nothing, and so do not count.
        let other = place.staff("alice", Role::Admin).await;
        let [demote, _, shut_out] = ends;
        place.write(move |tx, env| users::change(tx, env, other, &shut_out)).await.unwrap();
        let suspended = place.staff("dave", Role::Admin).await;
        let sql = "UPDATE accounts SET suspended_at = 1 WHERE id = ?1";
        place.write(move |tx, _| Ok(tx.run(sql, params![suspended])?)).await.unwrap();
        refused(place.write(move |tx, env| accounts::delete(tx, env, admin)).await);
        place.staff("carol", Role::Admin).await;
        place.write(move |tx, env| users::change(tx, env, admin, &demote)).await.unwrap();
        place.write(move |tx, env| accounts::delete(tx, env, admin)).await.unwrap();
    }
}

#[tokio::test]
async fn staff_acts_only_below_its_rank_and_what_it_does_can_be_taken_back() {
    for place in places() {
        let admin = place.staff("root_1", Role::Admin).await;
        let moderator = place.staff("bob", Role::Moderator).await;
        let alice = place.person("alice").await;
        let post = place.post(alice, "hello", Visibility::Public).await;
        for (by, target) in [(alice, moderator), (moderator, admin), (moderator, moderator)] {
            let refused =
                place.write(move |tx, env| moderation::suspend(tx, env, by, target)).await;
            assert!(matches!(refused, Err(Error::Forbidden(_))));
        }
        place.write(move |tx, env| moderation::suspend(tx, env, moderator, alice)).await.unwrap();
        assert_eq!(place.standing(alice).await, Standing::Disabled);
        let seen = place.read(move |tx, _| statuses::visible(tx, None, post)).await;
        assert!(seen.is_err());
        place.write(move |tx, env| moderation::unsuspend(tx, env, moderator, alice)).await.unwrap();
        assert_eq!(place.standing(alice).await, Standing::Fine);
        assert!(place.read(move |tx, _| statuses::visible(tx, None, post)).await.is_ok());
        place
            .write(move |tx, env| moderation::delete_status(tx, env, moderator, post))
            .await
            .unwrap();
        let said = place
            .read(move |tx, env| {
                let told = notifications::list(tx, env, alice, &Page::default())?;
                let about: Vec<Id> = told.iter().filter_map(|told| told.subject_id).collect();
                notifications::warnings(tx, &about)
            })
            .await
            .unwrap();
        let mut actions: Vec<&str> = said.iter().map(|one| &*one.action).collect();
        actions.sort();
        assert_eq!(actions, ["delete_statuses", "none", "suspend"], "each is told of itself");
        let deleted = said.iter().find(|one| one.action == "delete_statuses").unwrap();
        assert_eq!(deleted.status_ids.0, [post]);
        assert!(deleted.content.contains("broke the rules"));
        assert!(place.read(move |tx, _| statuses::visible(tx, None, post)).await.is_err());
    }
}

#[tokio::test]
async fn suspending_a_remote_account_ends_follows_and_tells_those_concerned() {
    for place in places() {
        let folder = tempfile::tempdir().unwrap();
        let working = place.work(folder.path());
        let staff = place.staff("bob", Role::Moderator).await;
        let alice = place.person("alice").await;
        let remote = place.person("remote").await;
        place
            .write(move |tx, env| {
                relationships::follow(tx, env, alice, remote, &FollowWish::default())?;
                relationships::follow(tx, env, remote, alice, &FollowWish::default())?;
                let sql = "UPDATE accounts SET domain = 'other.test' WHERE id = ?1";
                tx.execute(sql, weir_db::params![remote])?;
                tx.execute("DELETE FROM users WHERE account_id = ?1", weir_db::params![remote])?;
                moderation::suspend(tx, env, staff, remote)
            })
            .await
            .unwrap();
        place.idle().await;
        let told = place
            .read(move |tx, env| notifications::list(tx, env, alice, &Page::default()))
            .await
            .unwrap();
        let about = |told: &Vec<notifications::Notification>| {
            let lost = told.iter().find(|told| told.kind == Kind::SeveredRelationships);
            lost.and_then(|told| told.subject_id).unwrap()
        };
        let subject = about(&told);
        let lost = place.read(move |tx, _| notifications::severances(tx, &[subject])).await;
        let lost = &lost.unwrap()[0];
        assert_eq!((&*lost.kind, &*lost.target), ("account_suspension", "remote@other.test"));
        assert_eq!((lost.followers_count, lost.following_count), (1, 1));
        let left = place
            .read(move |tx, _| {
                let mut left = relationships::follower_ids(tx, remote, Id::MAX, 9)?;
                left.extend(relationships::follower_ids(tx, alice, Id::MAX, 9)?);
                Ok(left)
            })
            .await
            .unwrap();
        assert_eq!(left, []);
        working.stop().await;
    }
}

#[tokio::test]
async fn who_blocks_a_server_is_told_how_many_follows_that_ended() {
    for place in places() {
        let alice = place.person("alice").await;
        let (one, two) = (place.person("one").await, place.person("two").await);
        place
            .write(move |tx, env| {
                relationships::follow(tx, env, alice, one, &FollowWish::default())?;
                relationships::follow(tx, env, alice, two, &FollowWish::default())?;
                relationships::follow(tx, env, two, alice, &FollowWish::default())?;
                let sql = "UPDATE accounts SET domain = 'other.test' WHERE id = ?1 OR id = ?2";
                tx.execute(sql, weir_db::params![one, two])?;
                relationships::block_domain(tx, env, alice, "other.test")?;
                relationships::block_domain(tx, env, alice, "empty.test")
            })
            .await
            .unwrap();
        let told = place
            .read(move |tx, env| notifications::list(tx, env, alice, &Page::default()))
            .await
            .unwrap();
        assert_eq!(
            told.iter().map(|told| told.kind).collect::<Vec<_>>(),
            [Kind::SeveredRelationships]
        );
        let subject = told[0].subject_id.unwrap();
        let lost = place.read(move |tx, _| notifications::severances(tx, &[subject])).await;
        let lost = &lost.unwrap()[0];
        assert_eq!((&*lost.kind, &*lost.target), ("user_domain_block", "other.test"));
        assert_eq!((lost.followers_count, lost.following_count), (1, 2));
    }
}

#[tokio::test]
async fn blocking_a_server_acts_on_its_people_and_lifting_it_frees_just_those() {
    for place in places() {
        let folder = tempfile::tempdir().unwrap();
        let working = place.work(folder.path());
        let staff = place.staff("bob", Role::Moderator).await;
        let (one, two) = (place.person("one").await, place.person("two").await);
        place
            .write(move |tx, env| {
                let sql = "UPDATE accounts SET domain = 'a.bad.test' WHERE id = ?1 OR id = ?2";
                tx.execute(sql, weir_db::params![one, two])?;
                let sql = "INSERT INTO hosts (domain, first_seen_at) VALUES ('a.bad.test', 1)";
                tx.execute(sql, &[])?;
                moderation::suspend(tx, env, staff, two)
            })
            .await
            .unwrap();
        place.write(|tx, env| hosts::block(tx, env, "bad.test", Severity::Suspend)).await.unwrap();
        place.idle().await;
        let suspended = async |id: Id| {
            let account = place.read(move |tx, _| accounts::by_id(tx, id)).await.unwrap();
            (account.suspended_at.is_some(), account.silenced_at.is_some())
        };
        assert_eq!((suspended(one).await, suspended(two).await), ((true, false), (true, false)));
        place.write(|tx, env| hosts::block(tx, env, "bad.test", Severity::Silence)).await.unwrap();
        place.idle().await;
        assert_eq!((suspended(one).await, suspended(two).await), ((false, true), (true, true)));
        place.write(|tx, env| hosts::unblock(tx, env, "bad.test")).await.unwrap();
        place.idle().await;
        assert_eq!((suspended(one).await, suspended(two).await), ((false, false), (true, false)));
        working.stop().await;
    }
}

#[tokio::test]
async fn messages_of_whom_somebody_follows_are_known_by_the_host_they_come_from() {
    for place in places() {
        let alice = place.person("alice").await;
        let remote = RemoteAccount {
            username: "bob".into(),
            domain: "example.com".into(),
            uri: "https://social.example.com/users/bob".into(),
            inbox: "https://social.example.com/users/bob/inbox".into(),
            shared_inbox: "https://inbox.example.com/inbox".into(),
            ..RemoteAccount::default()
        };
        let remote = remote.cleaned().unwrap();
        let follow = move |tx: &mut Tx, env: &Env| {
            let version = Version { at: env.clock.now(), seq: env.ids.next() };
            let bob = accounts::upsert(tx, env, &remote, version)?;
            relationships::follow(tx, env, alice, bob, &FollowWish::default())?;
            relationships::accept_request(tx, env, bob, alice)
        };
        let followed =
            |community: &Community, host: &str| community.env().feeds.is_followed_host(host);
        let hosts = ["social.example.com", "inbox.example.com"];
        assert!(hosts.iter().all(|host| !followed(&place.community, host)));
        place.write(follow).await.unwrap();
        for community in [place.community.clone(), place.known_anew()] {
            assert!(hosts.iter().all(|host| followed(&community, host)), "{}", place.name());
            assert!(!followed(&community, "other.example.com"));
        }
    }
}
