use serde_json::{Value, json};
use weir_activitypub::signature::Form;
use weir_community::federation::{self, Found, Resolver, Wanted};
use weir_community::{Env, Error, accounts, statuses};
use weir_db::{Tx, params};

use crate::peer::Peer;
use crate::place::{places, until};

#[tokio::test]
async fn a_name_leads_to_an_account_which_is_fetched_once_however_many_ask() {
    for place in places() {
        let peer = Peer::start().await;
        let domain = peer.domain();
        let asked = (0..8).map(|_| place.face.account("bob", &domain));
        let found = futures_util::future::join_all(asked).await;
        let id = *found[0].as_ref().unwrap();
        assert!(found.iter().all(|found| *found.as_ref().unwrap() == id));
        let fetched = peer.fetched();
        assert_eq!(fetched.iter().filter(|path| *path == "/users/bob").count(), 1, "{fetched:?}");
        let account = place.read(move |tx, _| accounts::by_id(tx, id)).await.unwrap();
        assert_eq!((account.username.as_str(), account.domain), ("bob", domain));
        assert_eq!(account.uri, peer.actor("bob"));
        assert_eq!(account.shared_inbox, peer.at("/inbox"));
        assert_eq!(account.display_name, "Somebody");
    }
}

#[tokio::test]
async fn who_is_not_there_is_not_found() {
    for place in places() {
        let peer = Peer::start().await;
        let found = place.face.account("nobody", &peer.domain()).await;
        assert!(matches!(found, Err(Error::NotFound(_) | Error::Gone(_))), "{found:?}");
        let found = place.face.address(&peer.at("/notes/7")).await;
        assert!(matches!(found, Err(Error::NotFound(_) | Error::Gone(_))), "{found:?}");
        let found = place.face.address("http://weir.test/ap/users/1").await;
        assert!(matches!(found, Err(Error::NotFound(_))), "{found:?}");
    }
}

#[tokio::test]
async fn a_post_comes_with_its_author_and_what_it_answers() {
    for place in places() {
        let peer = Peer::start().await;
        let running = place.start();
        let first = peer.write("bob", "The first", None);
        let second = peer.write("carol", "The second", Some(&first));
        let found = place.face.address(&second).await.unwrap();
        let Found::Status(id) = found else { panic!("{found:?}") };
        let carol = peer.actor("carol");
        let author = place.read(move |tx, _| accounts::by_uri(tx, &carol)).await.unwrap().unwrap();
        let status = place.read(move |tx, _| statuses::by_id(tx, id)).await.unwrap();
        assert_eq!(status.account_id, author.id);
        assert_eq!(status.content, "<p>The second</p>");
        until("the parent", async || {
            let status = place.read(move |tx, _| statuses::by_id(tx, id)).await.unwrap();
            status.in_reply_to_id.is_some()
        })
        .await;
        let again = place.face.address(&second).await.unwrap();
        assert_eq!(again, found);
        let fetched = peer.fetched();
        assert_eq!(fetched.iter().filter(|path| *path == "/notes/1").count(), 1, "{fetched:?}");
        running.stop().await;
    }
}

#[tokio::test]
async fn of_a_post_that_was_deleted_its_server_is_not_asked() {
    for place in places() {
        let peer = Peer::start().await;
        let running = place.start();
        let gone = peer.write("bob", "Still shown by a server that is behind", None);
        let (host, uri) = (peer.domain(), gone.clone());
        let delete = move |tx: &mut Tx, env: &Env| statuses::receive_delete(tx, env, &host, &uri);
        place.write(delete).await.unwrap();
        let found = place.face.address(&gone).await;
        assert!(matches!(found, Err(Error::Gone(_))), "{found:?}");
        // What answers it would have it fetched.
        place.face.address(&peer.write("carol", "An answer", Some(&gone))).await.unwrap();
        until("all is done", async || place.count("jobs").await == 0).await;
        let fetched = peer.fetched();
        assert!(fetched.contains(&"/notes/1".to_owned()), "{fetched:?}");
        assert!(!fetched.contains(&"/notes/0".to_owned()), "{fetched:?}");
        running.stop().await;
    }
}

#[tokio::test]
async fn that_no_post_lies_where_an_account_does_says_nothing_of_the_account() {
    for place in places() {
        let peer = Peer::start().await;
        let running = place.start();
        let bob = peer.actor("bob");
        let wanted = Wanted::Status { uri: bob.clone() };
        place.write(move |tx, env| federation::want(tx, env, wanted.clone(), 0)).await.unwrap();
        until("it was looked for", async || place.count("jobs").await == 0).await;
        assert!(peer.fetched().contains(&"/users/bob".to_owned()), "{:?}", peer.fetched());
        let follow = json!({
            "@context": "https://www.w3.org/ns/activitystreams", "id": peer.at("/follows/1"),
            "type": "Follow", "actor": bob, "object": peer.actor("carol"),
        });
        let body = follow.to_string().into_bytes();
        let (inbox, now) = ("http://weir.test/inbox", place.clock.now());
        let headers = peer.sign_post(Form::Cavage, None, "bob", inbox, &body, now);
        assert_eq!(place.send("/inbox", headers, body).await, 202);
        until("bob is known", async || {
            let bob = bob.clone();
            place.read(move |tx, _| accounts::by_uri(tx, &bob)).await.unwrap().is_some()
        })
        .await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_name_at_what_is_no_server_is_not_believed() {
    for place in places() {
        let peer = Peer::start().await;
        let bob = peer.actor("bob");
        let link = json!({ "rel": "self", "type": "application/activity+json", "href": bob });
        let subject = format!("acct:bob@{}#1", peer.domain());
        // What follows a `#` is of no request: the same server confirms it.
        for path in ["/.well-known/webfinger", "/"] {
            peer.put(path, json!({ "subject": subject, "links": [link] }));
        }
        let Ok(Found::Account(id)) = place.face.address(&bob).await else { panic!("no account") };
        let account = place.read(move |tx, _| accounts::by_id(tx, id)).await.unwrap();
        assert_eq!(account.domain, peer.domain());
    }
}

#[tokio::test]
async fn nobody_speaks_for_another_server() {
    for place in places() {
        let (one, other) = (Peer::start().await, Peer::start().await);
        other.write("bob", "Mine", None);
        let forged = one.write("bob", "Not mine", None);
        // A note whose author lives elsewhere.
        one.attribute(0, &other.actor("bob"));
        let found = place.face.address(&forged).await;
        assert!(matches!(found, Err(Error::NotFound(_))), "{found:?}");
    }
}

/// A post with this id that says it is of `by`.
fn note(id: &str, by: &str) -> Value {
    let everybody = "https://www.w3.org/ns/activitystreams#Public";
    json!({ "id": id, "type": "Note", "attributedTo": by, "content": "Forged", "to": [everybody] })
}

#[tokio::test]
async fn who_sends_askers_on_to_others_lets_nobody_speak_in_their_name() {
    for place in places() {
        let (victim, other) = (Peer::start().await, Peer::start().await);
        let alice = victim.actor("alice");
        let go = |path: &str| {
            victim.redirect(path, &other.at(path));
            victim.at(path)
        };
        let (post, created, actor) = (go("/go/post"), go("/go/created"), go("/go/actor"));
        other.put("/go/post", note(&post, &alice));
        let inner = note(&victim.at("/notes/999"), &alice);
        let by = other.actor("bob");
        let id = other.at("/go/created");
        other.put(
            "/go/created",
            json!({ "id": id, "type": "Create", "actor": by, "object": inner }),
        );
        let key = json!({ "id": actor, "owner": actor, "publicKeyPem": other.public_pem() });
        let inbox = format!("{actor}/inbox");
        let forged = json!({
            "id": actor, "type": "Person", "preferredUsername": "nobody", "inbox": inbox,
            "publicKey": key,
        });
        other.put("/go/actor", forged);
        for uri in [&post, &created, &actor] {
            let found = place.face.address(uri).await;
            assert!(matches!(found, Err(Error::NotFound(_))), "{uri}: {found:?}");
        }
        assert!(place.face.refetch(&actor).await.unwrap().is_none());
        assert_eq!(place.count("statuses").await, 0);
    }
}

#[tokio::test]
async fn an_old_address_on_another_server_leads_to_a_post() {
    for place in places() {
        let (old, new) = (Peer::start().await, Peer::start().await);
        let moved = new.write("bob", "Moved", None);
        old.redirect("/@bob/1", &moved);
        let found = place.face.address(&old.at("/@bob/1")).await.unwrap();
        let Found::Status(id) = found else { panic!("{found:?}") };
        let status = place.read(move |tx, _| statuses::by_id(tx, id)).await.unwrap();
        assert_eq!(status.uri, moved);
    }
}

#[tokio::test]
async fn no_redirect_leads_to_a_blocked_server_or_from_server_to_server_without_end() {
    for place in places() {
        let (open, blocked) = (Peer::start().await, Peer::start().await);
        let domain = blocked.domain();
        place
            .write(move |tx, env| {
                tx.execute(
                    "INSERT INTO domain_blocks (id, domain, severity) VALUES (?1, ?2, 'suspend')",
                    params![env.ids.next(), domain],
                )?;
                Ok(())
            })
            .await
            .unwrap();
        open.redirect("/to/blocked", &blocked.write("bob", "Blocked", None));
        open.redirect("/.well-known/webfinger", &blocked.at("/.well-known/webfinger"));
        let (one, other) = (Peer::start().await, Peer::start().await);
        one.redirect("/round", &other.at("/round"));
        other.redirect("/round", &one.at("/round"));
        for uri in [open.at("/to/blocked"), one.at("/round")] {
            let found = place.face.address(&uri).await;
            assert!(matches!(found, Err(Error::NotFound(_))), "{uri}: {found:?}");
        }
        let found = place.face.account("bob", &open.domain()).await;
        assert!(found.is_err(), "{found:?}");
        assert_eq!(blocked.fetched(), Vec::<String>::new());
        assert_eq!((one.fetched().len(), other.fetched().len()), (2, 1));
    }
}

#[tokio::test]
async fn where_the_address_of_an_account_ends_with_its_name_webfinger_is_asked_beside_it() {
    const WEBFINGER: &str = "/.well-known/webfinger";
    for place in places() {
        let peer = Peer::start().await;
        let asked = || peer.fetched().iter().filter(|path| *path == WEBFINGER).count();
        place.face.address(&peer.write("bob", "The first of this server", None)).await.unwrap();
        assert_eq!(asked(), 1);
        let second = peer.write("carol", "The second", None);
        peer.hold("/users/carol");
        let both = async {
            until("WebFinger is asked too", async || asked() == 2).await;
            peer.let_go("/users/carol");
        };
        let (found, ()) = tokio::join!(place.face.address(&second), both);
        found.unwrap();
        assert_eq!(asked(), 2, "its answer is taken");
        // Whose address ends with another name is not who WebFinger told of.
        let dora = peer.write("7", "The third", None);
        let mut actor = peer.actor_with("7", &peer.public_pem());
        actor["preferredUsername"] = "dora".into();
        peer.put("/users/7", actor);
        let found = place.face.address(&dora).await;
        assert!(matches!(found, Err(Error::NotFound(_))), "{found:?}");
        assert_eq!(asked(), 4, "it is asked for dora as well, who lives elsewhere");
    }
}
