//! Random histories from eight threads at once: what they saw must fit some serial order.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use weir_db::{Db, Error, Migration, Options, Tx, params};
use weir_storm::fixture::{self, Fixture};

use crate::CLASS;

const TASKS: usize = 8;
const ACCOUNTS: i64 = 3;
const SLOTS: i64 = 4;
const BALANCE: i64 = 10;

const TABLES: Migration = Migration {
    number: 1,
    name: "histories",
    sql: "CREATE TABLE accounts (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL,
            version BIGINT NOT NULL, CHECK (balance >= 0));
          CREATE TABLE claims (slot BIGINT PRIMARY KEY, task BIGINT NOT NULL);
          CREATE TABLE wards (id BIGINT PRIMARY KEY, changes BIGINT NOT NULL);
          CREATE TABLE doctors (id BIGINT PRIMARY KEY, on_call BIGINT NOT NULL)",
};

/// What one unit does.
#[derive(Debug, Clone)]
enum Deed {
    /// Moves an amount, if it is there.
    Transfer { from: i64, to: i64, amount: i64 },
    /// Reads every account.
    Look,
    /// Takes a slot that only one can have, in one of two ways.
    Claim { slot: i64, looks_first: bool },
}

/// What one unit saw: the accounts it read, and whether it changed them.
#[derive(Debug)]
struct Sight {
    accounts: BTreeMap<i64, Account>,
    transfer: Option<(i64, i64, i64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Account {
    balance: i64,
    version: i64,
}

fn deeds() -> impl Strategy<Value = Vec<Vec<Deed>>> {
    let transfer = (0..ACCOUNTS, 1..ACCOUNTS, 1..BALANCE).prop_map(|(from, step, amount)| {
        Deed::Transfer { from, to: (from + step) % ACCOUNTS, amount }
    });
    let claim =
        (0..SLOTS, any::<bool>()).prop_map(|(slot, looks_first)| Deed::Claim { slot, looks_first });
    let deed = prop_oneof![4 => transfer, 1 => Just(Deed::Look), 1 => claim];
    prop::collection::vec(prop::collection::vec(deed, 1..10), TASKS)
}

#[test]
fn whatever_eight_tasks_do_at_once_fits_a_serial_order() {
    let cases = if std::env::var_os("WEIR_TEST_LONG").is_some() { 300 } else { 12 };
    for fixture in fixture::databases() {
        let db = &for_all(&fixture);
        db.migrate("histories", &[TABLES]).unwrap();
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        let result = TestRunner::new(config).run(&deeds(), |deeds| {
            reset(db);
            check(db, &deeds);
            Ok(())
        });
        result.unwrap_or_else(|failure| panic!("{}: {failure}", fixture.name));
    }
}

/// A handle with a connection for each task, that does not wait for the disk: what is tested here
/// is what tasks see of each other.
fn for_all(fixture: &Fixture) -> Db {
    let options = Options { connections_max: TASKS, sync: false, ..Options::default() };
    Db::open(&fixture.url, fixture.directory(), &options).unwrap()
}

fn reset(db: &Db) {
    db.write_blocking(CLASS, |tx| -> Result<(), Error> {
        tx.execute("DELETE FROM accounts", &[])?;
        tx.execute("DELETE FROM claims", &[])?;
        for id in 0..ACCOUNTS {
            let sql = "INSERT INTO accounts (id, balance, version) VALUES (?1, ?2, 0)";
            tx.execute(sql, params![id, BALANCE])?;
        }
        Ok(())
    })
    .unwrap();
}

fn check(db: &Db, deeds: &[Vec<Deed>]) {
    let start = &Barrier::new(TASKS);
    let (sights, claims) = std::thread::scope(|scope| {
        let tasks: Vec<_> = (0..)
            .zip(deeds)
            .map(|(task, deeds)| {
                scope.spawn(move || {
                    start.wait();
                    run(db, task, deeds)
                })
            })
            .collect();
        let mut all = (Vec::new(), Vec::new());
        for task in tasks {
            let (sights, claims) = task.join().expect("a task");
            all.0.extend(sights);
            all.1.extend(claims);
        }
        all
    });
    let end = look(db);
    assert_eq!(end.values().map(|account| account.balance).sum::<i64>(), ACCOUNTS * BALANCE);
    replay(&sights, &end);
    let table: HashMap<i64, i64> = db
        .read_blocking(CLASS, |tx| {
            tx.query("SELECT slot, task FROM claims", &[], |row| {
                Ok::<(i64, i64), Error>((row.get(0)?, row.get(1)?))
            })
        })
        .unwrap()
        .into_iter()
        .collect();
    let won: Vec<(i64, i64)> =
        claims.iter().filter(|claim| claim.2).map(|&(slot, task, _)| (slot, task)).collect();
    assert_eq!(won.len(), table.len(), "each slot is won once: {claims:?}");
    assert!(won.iter().all(|(slot, task)| table[slot] == *task), "{won:?} {table:?}");
    assert!(claims.iter().all(|(slot, ..)| table.contains_key(slot)), "a slot nobody got");
}

/// Slot, task, and whether it was won.
type Claimed = (i64, i64, bool);

fn run(db: &Db, task: i64, deeds: &[Deed]) -> (Vec<Sight>, Vec<Claimed>) {
    let (mut sights, mut claims) = (Vec::new(), Vec::new());
    for deed in deeds {
        match *deed {
            Deed::Transfer { from, to, amount } => sights.push(transfer(db, from, to, amount)),
            Deed::Look => sights.push(Sight { accounts: look(db), transfer: None }),
            Deed::Claim { slot, looks_first } => {
                claims.push((slot, task, claim(db, slot, task, looks_first)));
            }
        }
    }
    (sights, claims)
}

fn accounts(tx: &mut Tx, list: &[i64]) -> Result<BTreeMap<i64, Account>, Error> {
    let list: Vec<weir_base::Id> = list.iter().copied().map(weir_base::Id).collect();
    let rows = tx.query(
        "SELECT id, balance, version FROM accounts WHERE id IN ids(?1)",
        &[weir_db::ids(&list)],
        |row| Ok((row.get(0)?, Account { balance: row.get(1)?, version: row.get(2)? })),
    )?;
    Ok(rows.into_iter().collect())
}

fn look(db: &Db) -> BTreeMap<i64, Account> {
    let all: Vec<i64> = (0..ACCOUNTS).collect();
    db.read_blocking(CLASS, move |tx| accounts(tx, &all)).unwrap()
}

enum Refusal {
    TooLittle(BTreeMap<i64, Account>),
    Database(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

fn transfer(db: &Db, from: i64, to: i64, amount: i64) -> Sight {
    let unit = move |tx: &mut Tx| {
        let seen = accounts(tx, &[from, to])?;
        // In order of their ids, so that no two wait for each other.
        for (id, change) in BTreeMap::from([(from, -amount), (to, amount)]) {
            // After a change of its own, so that a refusal has something to roll back.
            if id == from && seen[&from].balance < amount {
                return Err(Refusal::TooLittle(seen));
            }
            change_balance(tx, id, change)?;
        }
        Ok(seen)
    };
    match db.write_blocking(CLASS, unit) {
        Ok(accounts) => Sight { accounts, transfer: Some((from, to, amount)) },
        Err(Refusal::TooLittle(accounts)) => Sight { accounts, transfer: None },
        Err(Refusal::Database(error)) => panic!("{error}"),
    }
}

fn change_balance(tx: &mut Tx, id: i64, change: i64) -> Result<u64, Error> {
    let sql = "UPDATE accounts SET balance = balance + ?2, version = version + 1 WHERE id = ?1";
    tx.execute(sql, params![id, change])
}

fn claim(db: &Db, slot: i64, task: i64, looks_first: bool) -> bool {
    let unit = move |tx: &mut Tx| {
        let sql = "SELECT task FROM claims WHERE slot = ?1";
        if looks_first && tx.value::<i64>(sql, params![slot])?.is_some() {
            return Ok(false);
        }
        let conflict = if looks_first { "" } else { " ON CONFLICT DO NOTHING" };
        let sql = format!("INSERT INTO claims (slot, task) VALUES (?1, ?2){conflict}");
        tx.execute(&sql, params![slot, task]).map(|rows| rows == 1)
    };
    db.write_blocking::<_, Error, _>(CLASS, unit).unwrap()
}

/// Orders the units by what they saw (who saw a version comes after its writer and before the
/// writer of the next) and works through them one after the other.
fn replay(sights: &[Sight], end: &BTreeMap<i64, Account>) {
    let mut writers = HashMap::new();
    for (at, sight) in sights.iter().enumerate() {
        for (id, account) in sight.accounts.iter().filter(|_| sight.transfer.is_some()) {
            let twice = writers.insert((*id, account.version + 1), at);
            assert!(twice.is_none(), "two units changed the same version: a lost update");
        }
    }
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); sights.len()];
    for (at, sight) in sights.iter().enumerate() {
        for (id, account) in &sight.accounts {
            before[at].extend(writers.get(&(*id, account.version)));
            let next = writers.get(&(*id, account.version + 1)).filter(|&&next| next != at);
            next.into_iter().for_each(|&next| before[next].push(at));
        }
    }
    let start = Account { balance: BALANCE, version: 0 };
    let mut state: BTreeMap<i64, Account> = (0..ACCOUNTS).map(|id| (id, start)).collect();
    let mut done = vec![false; sights.len()];
    for _ in 0..sights.len() {
        let next = (0..sights.len()).find(|&at| !done[at] && before[at].iter().all(|&at| done[at]));
        let at = next.unwrap_or_else(|| panic!("no serial order: {sights:?}"));
        done[at] = true;
        for (id, seen) in &sights[at].accounts {
            assert_eq!(state[id], *seen, "unit {at} saw what no serial order shows: {sights:?}");
        }
        if let Some((from, to, amount)) = sights[at].transfer {
            for (id, change) in [(from, -amount), (to, amount)] {
                let account = state.entry(id).or_insert(start);
                account.balance += change;
                account.version += 1;
            }
        }
    }
    assert_eq!(state, *end);
}

#[test]
fn units_that_wait_for_each_other_are_both_done_in_the_end() {
    let Some(fixture) = fixture::postgres() else { return };
    let db = &fixture.db;
    db.migrate("histories", &[TABLES]).unwrap();
    reset(db);
    let both_changed_one = Arc::new(Barrier::new(2));
    std::thread::scope(|scope| {
        for (first, second) in [(0, 1), (1, 0)] {
            let (barrier, mut again) = (both_changed_one.clone(), false);
            let unit = move |tx: &mut Tx| {
                change_balance(tx, first, 1)?;
                if !std::mem::replace(&mut again, true) {
                    barrier.wait();
                }
                change_balance(tx, second, 1)
            };
            scope.spawn(move || {
                assert_eq!(db.write_blocking::<_, Error, _>(CLASS, unit).unwrap(), 1)
            });
        }
    });
    let end = look(db);
    assert_eq!((end[&0].balance, end[&1].balance), (BALANCE + 2, BALANCE + 2));
}

/// Each doctor goes off call if another stays. Under REPEATABLE READ two who look at the same time
/// could both go; changing a row that both share makes the second look again.
#[test]
fn a_rule_over_several_rows_holds_when_its_units_change_a_row_they_share() {
    for fixture in fixture::databases() {
        let db = &fixture.db;
        db.migrate("histories", &[TABLES]).unwrap();
        db.write_blocking(CLASS, |tx| -> Result<(), Error> {
            tx.execute("INSERT INTO wards (id, changes) VALUES (1, 0)", &[])?;
            tx.execute("INSERT INTO doctors (id, on_call) VALUES (1, 1), (2, 1)", &[]).map(|_| ())
        })
        .unwrap();
        // On PostgreSQL both have looked before either goes on; SQLite runs one after the other.
        let parties = if fixture.name == "postgres" { 2 } else { 1 };
        let both_looked = Arc::new(Barrier::new(parties));
        let runs = Arc::new(AtomicUsize::new(0));
        let off = |doctor: i64| {
            let (both_looked, runs) = (both_looked.clone(), runs.clone());
            let mut again = false;
            move |tx: &mut Tx| -> Result<bool, Error> {
                runs.fetch_add(1, Ordering::Relaxed);
                let sql = "SELECT CAST(sum(on_call) AS BIGINT) FROM doctors";
                let on_call: Option<i64> = tx.value(sql, &[])?;
                if !std::mem::replace(&mut again, true) {
                    both_looked.wait();
                }
                tx.execute("UPDATE wards SET changes = changes + 1 WHERE id = 1", &[])?;
                if on_call < Some(2) {
                    return Ok(false);
                }
                tx.execute("UPDATE doctors SET on_call = 0 WHERE id = ?1", params![doctor])?;
                Ok(true)
            }
        };
        let went: Vec<bool> = std::thread::scope(|scope| {
            let units = [1, 2].map(|doctor| {
                let unit = off(doctor);
                scope.spawn(|| db.write_blocking(CLASS, unit).unwrap())
            });
            units.into_iter().map(|unit| unit.join().unwrap()).collect()
        });
        assert_eq!(went.iter().filter(|went| **went).count(), 1, "{}", fixture.name);
        let expected = if fixture.name == "postgres" { 3 } else { 2 };
        assert_eq!(runs.load(Ordering::Relaxed), expected, "the second looked again");
    }
}
