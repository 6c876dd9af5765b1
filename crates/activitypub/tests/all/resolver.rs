use weir_community::federation::{Found, Resolver};
use weir_community::{Error, accounts, statuses};

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
