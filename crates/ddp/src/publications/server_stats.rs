//! `server.stats`: numbers of the server and its queues, for administrators.

use std::time::Duration;

use weir_base::Id;
use weir_community::streams::{Event, Topic};
use weir_community::users::{self, Role};
use weir_community::{Community, Error};
use weir_db::Class;

use super::person;
use crate::collections::{QueueDoc, StatDoc};
use crate::face::Face;
use crate::face::docs::Docs;
use crate::face::live::{Live, Query, Shown};
use crate::observer::Work;
use crate::server::Opening;
use crate::wire::Failure;

/// How often the numbers are looked at.
const TICK: Duration = Duration::from_secs(2);

struct ServerStats(Id);

/// `server.stats`
pub(crate) fn open(face: &Face, user: Option<Id>) -> Result<Opening, Failure> {
    let (face, query) = (face.clone(), ServerStats(person(user)?));
    Ok(Opening::own(&(), move || Live::new(&face, query)))
}

async fn check(community: &Community, reader: Id) -> Result<(), Error> {
    let unit = move |tx: &mut weir_db::Tx, _: &weir_community::Env| users::by_account(tx, reader);
    let user = community.read(Class::Interactive, unit).await?;
    match Role::parse(&user.role) {
        Some(Role::Admin) => Ok(()),
        _ => Err(Error::Forbidden("This is for administrators")),
    }
}

impl Query for ServerStats {
    fn topics(&self) -> Vec<Topic> {
        vec![Topic::Own(self.0)]
    }

    fn concerns(&self, event: &Event, _: &Shown) -> bool {
        matches!(event, Event::UserChanged)
    }

    fn reader(&self) -> Option<Id> {
        Some(self.0)
    }

    fn every(&self) -> Option<Duration> {
        Some(TICK)
    }

    fn read(&self, face: &Face) -> Work<'static, Result<Docs, Error>> {
        let (face, reader) = (face.clone(), self.0);
        Box::pin(async move {
            check(&face.community, reader).await?;
            let mut docs = Docs::new(&face.documents);
            let live = face.env().streams.hub().stats();
            let (reads, writes) = face.community.db().waiting();
            let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
            for (name, value) in [
                ("live_sessions", number(live.sessions)),
                ("live_people", number(live.identities)),
                ("live_topics", number(live.topics)),
                ("live_outbox_bytes", number(live.outbox_bytes)),
                ("database_reads_waiting", number(reads)),
                ("database_writes_waiting", number(writes)),
                ("documents", number(face.documents.count())),
            ] {
                docs.put("server_stats", name, &StatDoc { value });
            }
            for queue in face.env().jobs.queues() {
                let document =
                    QueueDoc { waiting: queue.depth, running: queue.running, paused: queue.paused };
                docs.put("queue_stats", &queue.name, &document);
            }
            Ok(docs)
        })
    }
}
