//! A crowd that comes back to a community.

use std::sync::{Arc, Condvar, Mutex};

use futures_util::future::join_all;
use serde_json::json;
use weir_community::statuses::Visibility;
use weir_community::{Community, Error};
use weir_db::Class;

use crate::client::Ddp;
use crate::place::places;

const CROWD: usize = 60;
/// More than there are connections to any database.
const HOLDERS: usize = 100;

/// All connections by which is read are taken until it is dropped, and a line stands before them.
struct Held(Arc<(Mutex<bool>, Condvar)>);

impl Held {
    fn begin(community: &Community) -> Self {
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        for class in [Class::Interactive, Class::Live] {
            for _ in 0..HOLDERS {
                let (community, gate) = (community.clone(), gate.clone());
                tokio::spawn(async move {
                    let hold = move |_: &mut weir_db::Tx, _: &weir_community::Env| {
                        let (is_open, opened) = &*gate;
                        let open = is_open.lock().unwrap();
                        drop(opened.wait_while(open, |open| !*open).unwrap());
                        Ok::<_, Error>(())
                    };
                    community.read(class, hold).await
                });
            }
        }
        Self(gate)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

#[tokio::test]
async fn everybody_comes_back_without_a_question_to_the_database() {
    for place in places().await {
        let people = [place.person("alice").await, place.person("bob").await];
        place.post(people[0], "before", Visibility::Public).await;
        let mut crowd = Vec::new();
        for at in 0..CROWD {
            let mut ddp = place.session(people[at % 2]).await;
            for name in ["timelines.home", "timelines.public", "notifications", "lists"] {
                ddp.sub(name, name, json!([])).await.unwrap();
            }
            crowd.push(ddp);
        }
        let held = Held::begin(&place.community);
        let community = place.community.clone();
        let question = tokio::spawn(async move {
            community.read(Class::Interactive, |_, _| Ok::<_, Error>(())).await
        });
        let back = crowd.into_iter().map(|before| async {
            let mut ddp = Ddp::open(place.address).await;
            let (session, received) = (before.session.clone(), before.received);
            ddp.documents = before.documents.clone();
            drop(before);
            let connect = json!({ "msg": "connect", "version": "1", "support": ["1"],
                                  "session": session, "receivedCount": received });
            ddp.say(connect).await;
            // A document that is told again would be added twice.
            assert_eq!(ddp.next().await.unwrap()["msg"], "connected");
            assert_eq!(ddp.session, session, "it goes on, on {}", place.name);
            assert_eq!(ddp.call("echo", json!([1])).await, Ok(json!(1)));
            ddp
        });
        let mut crowd = join_all(back).await;
        assert!(!question.is_finished(), "who asks the database would wait still");
        drop(held);
        question.await.unwrap().unwrap();
        let after = place.post(people[1], "after", Visibility::Public).await.to_string();
        for ddp in &mut crowd {
            ddp.hear_until(|ddp| ddp.of("statuses").contains_key(&after)).await;
        }
    }
}
