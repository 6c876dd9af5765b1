//! Chat: contacts, the archive, what waits, blocks.

mod contacts;
mod devices;
mod messages;
mod places;

use weir_base::Id;
use weir_community::chat::contacts::{Contact, Exchange, Roster, exchange, get, list};
use weir_community::chat::subscription::Kind;
use weir_community::{Error, relationships};

use crate::place::Place;

impl Place {
    /// `by` sends a presence of `kind` to `jid`.
    pub async fn says(&self, by: Id, kind: Kind, jid: &'static str) -> Result<Exchange, Error> {
        self.write(move |tx, env| exchange(tx, env, by, kind, jid, "<presence/>")).await
    }

    pub async fn roster(&self, of: Id) -> Roster {
        self.read(move |tx, env| list(tx, env, of)).await.unwrap()
    }

    pub async fn contact(&self, of: Id, jid: &'static str) -> Option<Contact> {
        self.read(move |tx, _| get(tx, of, jid)).await.unwrap()
    }

    /// Both see each other's presence.
    pub async fn befriend(&self, alice: Id, bob: Id) {
        self.says(alice, Kind::Subscribe, "bob@weir.test").await.unwrap();
        self.says(bob, Kind::Subscribed, "alice@weir.test").await.unwrap();
        self.says(bob, Kind::Subscribe, "alice@weir.test").await.unwrap();
        self.says(alice, Kind::Subscribed, "bob@weir.test").await.unwrap();
    }

    pub async fn follow_each_other(&self, one: Id, other: Id) {
        for (by, target) in [(one, other), (other, one)] {
            let wish = relationships::FollowWish::default();
            self.write(move |tx, env| relationships::follow(tx, env, by, target, &wish))
                .await
                .unwrap();
        }
    }
}
