//! A shop that takes orders: a unit books each of them exactly once, in the transaction that also
//! enqueues the mail; a task sends the mail, at least once; a periodic job counts the bookings.
//!
//! `cargo run -p weir-jobs --example shop`
#![allow(clippy::print_stdout)]

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use weir_base::{Clock, Random};
use weir_db::{Class, Db, Error, Migration, Options, Tx, params};
use weir_jobs::{Claimed, Failure, Job, Jobs, Outcome, Prepared, Queue, Registry, Retry};

const TABLES: &[Migration] = &[Migration {
    number: 1,
    name: "bookings",
    sql: "CREATE TABLE bookings (customer TEXT NOT NULL, cents BIGINT NOT NULL);",
}];

/// An order to be booked. Customers take turns: nobody's thousand orders stand before another's
/// one.
#[derive(Serialize, Deserialize)]
struct Book {
    customer: String,
    price: String,
}

impl Job for Book {
    const KIND: &'static str = "book";
    const QUEUE: Queue = Queue::new("orders", Class::Inbound);

    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.customer)
    }
}

/// A mail to be sent, tried five times.
#[derive(Serialize, Deserialize)]
struct Mail {
    to: String,
}

impl Job for Mail {
    const KIND: &'static str = "mail";
    const QUEUE: Queue = Queue::new("mail", Class::Outbound);
    const RETRY: Retry = Retry::DEFAULT.attempts(5);
    const TIMEOUT_S: u64 = 30;
}

/// The hourly sum.
#[derive(Serialize, Deserialize)]
struct Sum;

impl Job for Sum {
    const KIND: &'static str = "sum";
    const QUEUE: Queue = Queue::new("sums", Class::Housekeeping);
}

fn registry(jobs: &Jobs) -> Registry {
    let mut registry = Registry::new();
    let for_mail = jobs.clone();
    registry.unit(
        // Outside the transaction: what needs thought but no database.
        async |orders: Vec<Claimed<Book>>| {
            let parse = |order: Claimed<Book>| match order.job.price.parse::<i64>() {
                Ok(cents) => Prepared::Run((order.job.customer, cents)),
                Err(error) => Prepared::Not(Outcome::Dead(format!("no price: {error}"))),
            };
            orders.into_iter().map(parse).collect()
        },
        // Inside: the booking, the end of the order and the mail commit together.
        move |tx, orders: &[(String, i64)]| {
            for (customer, cents) in orders {
                tx.run(
                    "INSERT INTO bookings (customer, cents) VALUES (?1, ?2)",
                    params![customer, cents],
                )?;
                for_mail.enqueue(tx, &Mail { to: customer.clone() })?;
            }
            Ok(vec![Outcome::Done; orders.len()])
        },
    );
    registry.task(async |mail: Claimed<Mail>| {
        // The id is the same at each attempt: a good mail server recognises the repeat by it.
        println!("mail {} to {} (attempt {})", mail.id, mail.job.to, mail.attempt);
        Ok::<(), Failure>(())
    });
    registry.simple_unit::<Sum, _>(|tx, sums| {
        let cents: Option<i64> =
            tx.value("SELECT CAST(coalesce(SUM(cents), 0) AS BIGINT) FROM bookings", &[])?;
        tx.after_commit(move || println!("booked so far: {} cents", cents.unwrap_or(0)));
        Ok(vec![Outcome::Done; sums.len()])
    });
    registry.periodic("hourly sum", 3_600_000, || Sum);
    registry
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let db = Db::open("sqlite:shop.db", directory.path(), &Options::default())?;
    db.migrate("shop", TABLES)?;
    let jobs = Jobs::open(db.clone(), Clock::system(), Random::system())?;
    let shutdown = CancellationToken::new();
    let workers = jobs.start(registry(&jobs), shutdown.clone())?;

    let (customers, shop) = (["alice", "bob", "carol"], jobs.clone());
    let order = move |tx: &mut Tx| {
        for (customer, price) in customers.iter().zip(["1250", "399", "a lot"]) {
            shop.enqueue(tx, &Book { customer: (*customer).into(), price: price.into() })?;
        }
        Ok::<_, Error>(())
    };
    db.write(Class::Interactive, order).await?;

    while jobs.queues().iter().any(|queue| queue.depth > 0) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for dead in jobs.list(weir_jobs::Set::Dead, None, 10).await? {
        println!("dead: {} {} ({})", dead.kind, dead.payload, dead.reason.unwrap_or_default());
    }
    shutdown.cancel();
    workers.finish(Duration::from_secs(10)).await;
    Ok(())
}
