//! Devices that are told of messages in chat while their people are away.

use weir_base::Id;
use weir_community::chat::messages::{self, New, Side};
use weir_community::chat::offline;
use weir_community::chat::push::{Waits, tell_devices};
use weir_community::push::{self, Alerts, NewSubscription};
use weir_community::relationships;

use crate::place::{Place, places};

const BOB: &str = "bob@weir.test";

impl Place {
    /// Another device of `account`, which wants to hear of chat or not, by this policy.
    async fn device(&self, account: Id, chat: bool, policy: &str) {
        let new = NewSubscription {
            endpoint: "https://push.test/1".into(),
            p256dh: vec![4; 65],
            auth: vec![7; 16],
            alerts: Alerts::from([("chat".into(), chat), ("mention".into(), true)]),
            policy: policy.into(),
            standard: true,
        };
        self.write(move |tx, env| push::subscribe(tx, env, env.ids.next(), account, &new))
            .await
            .unwrap();
    }

    /// A message waits for bob. How many devices are to be told so far.
    async fn waits(&self, from: Option<Id>, jid: &str, bob: Id, says: &str) -> usize {
        let (jid, says) = (jid.to_owned(), says.to_owned());
        self.write(move |tx, env| {
            let id = env.ids.next();
            let from = Side { account: from, jid: jid.clone() };
            let to = Side { account: Some(bob), jid: BOB.into() };
            let xml = "<message/>".into();
            let (archive, waits) = (true, true);
            let new = New { id, from: from.clone(), to: to.clone(), xml, archive, waits };
            messages::store(tx, &[new])?;
            tell_devices(tx, env, &[Waits { message: id, from, to, says: says.clone() }])?;
            let sql = "SELECT count(*) FROM jobs WHERE kind = 'push_chat'";
            Ok(tx.query_one(sql, &[], |row| row.get(0))?)
        })
        .await
        .unwrap()
    }
}

#[tokio::test]
async fn a_device_that_wants_it_is_told_of_the_first_message_of_each_sender() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let carol = place.person("carol").await;
        place.device(bob, true, "all").await;
        place.device(bob, false, "all").await;
        assert_eq!(place.waits(Some(alice), "alice@weir.test/a", bob, "hello").await, 1);
        assert_eq!(place.waits(Some(alice), "alice@weir.test/b", bob, "again").await, 1);
        assert_eq!(place.waits(Some(carol), "carol@weir.test/a", bob, "hello").await, 2);
        place
            .write(move |tx, _| {
                let waiting = offline::waiting(tx, bob, &[])?;
                let ids: Vec<Id> = waiting.messages.iter().map(|message| message.id).collect();
                offline::received(tx, bob, &ids)
            })
            .await
            .unwrap();
        let told = place.waits(Some(alice), "alice@weir.test/a", bob, "later").await;
        assert_eq!(told, 3, "bob was there in between");
    }
}

#[tokio::test]
async fn nobody_is_told_of_what_says_nothing_or_of_whom_they_do_not_want_to_hear() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        place.device(bob, true, "followed").await;
        assert_eq!(place.waits(Some(alice), "alice@weir.test/a", bob, "hello").await, 0);
        place.device(bob, true, "all").await;
        let carol = place.person("carol").await;
        assert_eq!(place.waits(Some(carol), "carol@weir.test/a", bob, "").await, 0);
        let dave = "dave@far.test/a";
        assert_eq!(place.waits(None, dave, bob, "a stranger").await, 0);
        let mute = move |tx: &mut weir_db::Tx, env: &weir_community::Env| {
            relationships::mute(tx, env, bob, carol, true, None).map(drop)
        };
        place.write(mute).await.unwrap();
        assert_eq!(place.waits(Some(carol), "carol@weir.test/a", bob, "hello").await, 0);
    }
}
