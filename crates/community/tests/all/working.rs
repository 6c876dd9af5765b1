//! The workers of a community under test.

use std::path::Path;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weir_community::federation::Distribute;
use weir_community::mail::{self, Mailer};
use weir_community::{accounts, cards, moderation, push, search};
use weir_db::Class;
use weir_jobs::{Claimed, Registry, Workers};

use crate::place::Place;

/// How long a test waits for what should come at once: far beyond any slowness.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Working {
    stop: CancellationToken,
    workers: Workers,
}

impl Place {
    /// Starts the workers; mail goes to `folder`, what is for other servers nowhere.
    pub fn work(&self, folder: &Path) -> Working {
        let mut registry = Registry::new();
        let mailer = Mailer::to_files(folder.to_owned(), "Weir <weir@weir.test>").unwrap();
        mail::register(&mut registry, &self.community, &mailer);
        moderation::register(&mut registry, &self.community);
        search::register(&mut registry, &self.community);
        cards::register(&mut registry, &self.community, &crate::origin::fetch());
        accounts::register_erasure(&mut registry, &self.community);
        registry.task(async |_: Claimed<Distribute>| Ok(()));
        registry.task(async |_: Claimed<push::SendPush>| Ok(()));
        let stop = CancellationToken::new();
        let workers = self.community.env().jobs.start(registry, stop.clone()).unwrap();
        Working { stop, workers }
    }

    /// Waits until nothing is to be done now.
    pub async fn idle(&self) {
        self.community.env().jobs.wake();
        let asked = async {
            while self.waiting().await > 0 {
                tokio::task::yield_now().await;
            }
        };
        assert!(tokio::time::timeout(PATIENCE, asked).await.is_ok(), "work does not end");
    }

    async fn waiting(&self) -> i64 {
        let count = |tx: &mut weir_db::Tx, _: &weir_community::Env| {
            Ok(tx.query_one("SELECT count(*) FROM jobs", &[], |row| row.get(0))?)
        };
        self.community.read(Class::Interactive, count).await.unwrap()
    }
}

impl Working {
    pub async fn stop(self) {
        self.stop.cancel();
        self.workers.finish(PATIENCE).await;
    }
}

/// The mails in `folder` as (to, subject, text), in order of their names.
pub fn mails(folder: &Path) -> Vec<String> {
    let mut found: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        // Undoes quoted-printable's soft line ends and its sign for `=`.
        .map(|mail| mail.replace("=\r\n", "").replace("=3D", "="))
        .collect();
    found.sort();
    found
}

/// The token in the first link of `path` among `mails`.
pub fn token(mails: &[String], path: &str) -> String {
    let begin = format!("https://weir.test{path}?token=");
    let rest = mails.iter().find_map(|mail| mail.split_once(&begin)).expect("a link").1;
    rest.chars().take_while(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect()
}
