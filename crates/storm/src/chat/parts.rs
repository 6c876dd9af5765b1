//! What is done and measured, part by part.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tokio::runtime::{Builder, Handle};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};
use weir_base::Turns;

use super::Storm;
use super::crowd::{Online, Person};
use crate::load::Latencies;

/// How long anything may take before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long nothing may come before what is missing is given up.
const SILENCE: Duration = Duration::from_secs(3);
/// People who register, or ask for their contacts, at once.
const ARRANGING: usize = 32;
/// Those who stay when the others are cut, and ping.
const BYSTANDERS: usize = 10;
const PING_EACH: Duration = Duration::from_millis(20);
/// Messages to the room that are measured.
const ROOM_MESSAGES: usize = 20;
/// How long a server rests before its memory is read.
const REST: Duration = Duration::from_secs(5);

/// Somebody who got in, and after how long.
struct Arrival {
    at: usize,
    bound: Duration,
    ready: Duration,
    contacts: usize,
    online: Online,
}

impl Storm {
    /// Registers those who are not there, and gives them their contacts.
    pub(super) async fn arrange(&mut self) -> Result<()> {
        if !self.options.arranged {
            eprintln!("registering {} people", self.clients());
            let door = self.door.clone();
            let names = (0..self.clients()).map(|at| self.name(at));
            all(names.map(|name| {
                let door = door.clone();
                async move { door.register(&name).await }
            }))
            .await?;
        }
        eprintln!("getting ready what they prove who they are by");
        let door = self.door.clone();
        let names = (0..self.clients()).map(|at| self.name(at));
        let credentials = all(names.map(|name| {
            let door = door.clone();
            async move { door.credential(&name).await }
        }));
        self.credentials = Arc::new(credentials.await?);
        if !self.options.arranged {
            self.befriend().await?;
        }
        Ok(())
    }

    /// Everybody subscribes to their neighbours in the ring, who agree.
    async fn befriend(&mut self) -> Result<()> {
        let (count, half) = (self.clients(), self.options.contacts as usize / 2);
        let arrived = self.arrive(0..count, None).await?;
        let befriended = arrived.iter().all(|one| one.contacts >= 2 * half);
        self.online = arrived.into_iter().map(|one| one.online).collect();
        if half == 0 || befriended {
            return self.all_leave().await;
        }
        eprintln!("{count} people subscribe to {} others each", 2 * half);
        let bare = |at: usize| format!("{}@{}", self.name(at % count), self.door.domain);
        let wishes: Vec<String> = (0..count)
            .map(|at| {
                let others = (1..=half).flat_map(|step| [at + step, at + count - step]);
                let each =
                    others.map(|to| format!("<presence to='{}' type='subscribe'/>", bare(to)));
                each.collect()
            })
            .collect();
        let (from, used) = (Instant::now(), self.used_us());
        let people: Vec<_> = self.online.iter().map(|one| one.person.clone()).collect();
        let each = people.into_iter().zip(wishes).map(|(person, wish)| async move {
            person.say(&wish).await?;
            let done = timeout(PATIENCE, person.until(2 * half as u64)).await;
            done.with_context(|| format!("{} was not subscribed to all", person.jid))
        });
        all(each).await?;
        let pairs = (count * half) as f64;
        self.measured.number("subscriptions_per_s", pairs / from.elapsed().as_secs_f64());
        let each_us = (self.used_us() - used) / pairs;
        self.measured.number("subscription_processor_us", each_us);
        self.all_leave().await
    }

    async fn all_leave(&mut self) -> Result<()> {
        for one in std::mem::take(&mut self.online) {
            let _ = one.person.say("</stream:stream>").await;
            one.cut(&self.scene).await;
        }
        sleep(REST).await;
        self.scene.presences.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// All of these log in: at a rate, or so many at once, as fast as they go.
    async fn arrive(&self, who: Range<usize>, at_once: Option<usize>) -> Result<Vec<Arrival>> {
        self.arrive_on(&Handle::current(), who, at_once).await
    }

    /// The same, served by this runtime from then on.
    async fn arrive_on(
        &self,
        runtime: &Handle,
        who: Range<usize>,
        at_once: Option<usize>,
    ) -> Result<Vec<Arrival>> {
        let at_once = Arc::new(Semaphore::new(at_once.unwrap_or(self.options.at_once as usize)));
        let rate = self.options.rate as f64;
        let mut arriving = JoinSet::new();
        let began = Instant::now();
        for (number, at) in who.clone().enumerate() {
            let due = (rate > 0.0).then(|| began + Duration::from_secs_f64(number as f64 / rate));
            let permit = match due {
                Some(due) => {
                    sleep_until(due.into()).await;
                    None
                }
                None => Some(at_once.clone().acquire_owned().await?),
            };
            let (door, all, name) = (self.door.clone(), self.credentials.clone(), self.name(at));
            let scene = self.scene.clone();
            let arrives = async move {
                let from = due.unwrap_or_else(Instant::now);
                let credential = all.get(at).context("somebody has nothing to prove it by")?;
                let arrived = timeout(PATIENCE, door.log_in(&name, credential, from)).await;
                drop(permit);
                let arrived = arrived.with_context(|| format!("{name} did not get in"))?;
                let arrived = arrived.with_context(|| format!("{name} did not get in"))?;
                let (bound, ready, contacts) = (arrived.bound, arrived.ready, arrived.contacts);
                // Each reads on as soon as it is in, or those who come later would wait for it.
                let online = Online::new(arrived, at, &scene);
                anyhow::Ok(Arrival { at, bound, ready, contacts, online })
            };
            arriving.spawn_on(arrives, runtime);
        }
        let mut all = Vec::with_capacity(who.len());
        while let Some(one) = arriving.join_next().await {
            all.push(one??);
            if all.len().is_multiple_of(1_000) {
                eprintln!("  {} of {} are in", all.len(), who.len());
            }
        }
        all.sort_by_key(|one| one.at);
        Ok(all)
    }

    /// Everybody logs in and stays. `rss` is the server's memory before anybody came.
    pub(super) async fn log_in(&mut self, rss: u64) -> Result<()> {
        let count = self.clients();
        eprintln!("{count} people log in");
        let (used, began) = (self.used_us(), Instant::now());
        let arrived = self.arrive(0..count, None).await?;
        let took = began.elapsed().as_secs_f64();
        let (mut bound, mut ready) = (Latencies::default(), Latencies::default());
        for one in arrived {
            bound.record(one.bound, true);
            ready.record(one.ready, true);
            self.online.push(one.online);
        }
        self.settle(|scene| scene.presences.load(Ordering::Relaxed)).await;
        self.measured.number("logins_per_s", count as f64 / took);
        self.measured.times("bound", &bound);
        self.measured.times("login", &ready);
        self.measured.number("login_processor_us", (self.used_us() - used) / count as f64);
        let presences = self.scene.presences.load(Ordering::Relaxed);
        self.measured.number("presences_at_login", presences as f64);
        sleep(REST).await;
        let grown = self.rss_bytes().saturating_sub(rss) as f64;
        let people = (count as u64 * self.options.processes) as f64;
        self.measured.number("people_online", people);
        self.measured.number("rss_bytes", self.rss_bytes() as f64);
        self.measured.number("rss_per_user_bytes", grown / people);
        self.scene.take();
        Ok(())
    }

    /// Waits until nothing more comes of what `count` counts.
    async fn settle(&self, count: impl Fn(&super::Scene) -> u64) {
        let (mut seen, mut since) = (count(&self.scene), Instant::now());
        while since.elapsed() < SILENCE {
            sleep(Duration::from_millis(50)).await;
            let now = count(&self.scene);
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
        }
    }

    /// Pairs talk as fast as it goes: each message that comes is answered with the next.
    pub(super) async fn messages(&mut self, chats: usize, in_flight: u64) -> Result<()> {
        let chats = chats.min(self.online.len() / 2);
        eprintln!("{chats} chats with {in_flight} messages under way in each");
        self.scene.running.store(true, Ordering::Relaxed);
        for at in 0..chats {
            let (from, to) = (&self.online[2 * at].person, &self.online[2 * at + 1].person);
            for _ in 0..in_flight {
                from.say(&self.scene.message(&to.jid, 'm', self.scene.now_ns())).await?;
            }
        }
        sleep(Duration::from_secs(1)).await;
        self.scene.take();
        let came = self.scene.messages.load(Ordering::Relaxed);
        let (used, from) = (self.used_us(), Instant::now());
        sleep(Duration::from_secs(self.options.seconds)).await;
        let came = (self.scene.messages.load(Ordering::Relaxed) - came) as f64;
        let took = from.elapsed().as_secs_f64();
        let used = self.used_us() - used;
        self.scene.running.store(false, Ordering::Relaxed);
        let times = self.scene.take().messages;
        self.settle(|scene| scene.messages.load(Ordering::Relaxed)).await;
        self.measured.number("messages_per_s", came / took);
        self.measured.number("message_processor_us", used / came.max(1.0));
        self.measured.times("message", &times);
        Ok(())
    }

    /// A message and its answer, again and again, each timed from when it was due.
    pub(super) async fn trips(&mut self, rate: u64) -> Result<()> {
        eprintln!("{rate} round trips a second");
        self.scene.take();
        let (began, began_ns) = (Instant::now(), self.scene.now_ns());
        let (pairs, used) = (self.online.len() / 2, self.used_us());
        let count = rate * self.options.seconds;
        for number in 0..count {
            let after = Duration::from_secs(1).mul_f64(number as f64 / rate as f64);
            sleep_until((began + after).into()).await;
            let at = number as usize * 7 % pairs;
            let (from, to) = (&self.online[2 * at].person, &self.online[2 * at + 1].person);
            let due_ns = began_ns + u64::try_from(after.as_nanos())?;
            from.say(&self.scene.message(&to.jid, 'p', due_ns)).await?;
        }
        sleep(SILENCE).await;
        let times = self.scene.take().trips;
        self.measured.times("round_trip", &times);
        self.measured.number("round_trips_missing", (count - times.count().min(count)) as f64);
        self.measured.number("round_trip_processor_us", (self.used_us() - used) / count as f64);
        Ok(())
    }

    /// People say anew how they are, at a rate.
    pub(super) async fn changes(&mut self, rate: u64) -> Result<()> {
        eprintln!("{rate} changes of presence a second");
        self.scene.take();
        let (began, used) = (Instant::now(), self.used_us());
        let count = rate * self.options.seconds;
        for number in 0..count {
            sleep_until(
                (began + Duration::from_secs(1).mul_f64(number as f64 / rate as f64)).into(),
            )
            .await;
            let person = &self.online[number as usize * 7 % self.online.len()].person;
            let status = self.scene.now_ns();
            person.say(&format!("<presence><status>s{status}</status></presence>")).await?;
        }
        let took = began.elapsed().as_secs_f64();
        self.settle(|scene| scene.presences.load(Ordering::Relaxed)).await;
        let times = self.scene.take().presences;
        self.measured.number("presences_per_s", times.count() as f64 / took);
        self.measured.times("presence", &times);
        let each_us = (self.used_us() - used) / times.count().max(1) as f64;
        self.measured.number("presence_processor_us", each_us);
        Ok(())
    }

    /// A room that everybody enters, and messages to all in it.
    pub(super) async fn room(&mut self, service: &str, occupants: usize) -> Result<()> {
        let occupants = occupants.min(self.online.len());
        let room = format!("storm{}@{service}", self.scene.now_ns());
        eprintln!("{occupants} people enter {room}");
        let (from, used) = (Instant::now(), self.used_us());
        for at in 0..occupants {
            let person = self.online[at].person.clone();
            let steps = person.steps();
            let enter = format!(
                "<presence to='{room}/{}'><x xmlns='http://jabber.org/protocol/muc'>\
                 <history maxstanzas='0'/></x></presence>",
                self.name(at)
            );
            person.say(&enter).await?;
            let entered = timeout(PATIENCE, person.until(steps + 1)).await;
            entered.with_context(|| format!("{} did not get into {room}", person.jid))?;
            if at == 0 {
                self.open_room(&room, &person).await?;
            }
        }
        self.measured.number("room_enter_ms", from.elapsed().as_secs_f64() * 1e3);
        let enter_us = (self.used_us() - used) / occupants as f64;
        self.measured.number("room_enter_processor_us", enter_us);
        self.settle(|scene| scene.presences.load(Ordering::Relaxed)).await;
        let mut times = Latencies::default();
        let used = self.used_us();
        for number in 0..ROOM_MESSAGES {
            self.scene.in_room.store(0, Ordering::Relaxed);
            let at_ns = self.scene.now_ns();
            let speaker = &self.online[number % occupants].person;
            speaker.say(&self.scene.message(&room, 'g', at_ns)).await?;
            let from = Instant::now();
            while self.scene.in_room.load(Ordering::Relaxed) < occupants as u64 {
                if from.elapsed() > Duration::from_secs(30) {
                    bail!("a message to {room} did not come to all");
                }
                sleep(Duration::from_millis(1)).await;
            }
            times.record(self.scene.room_took(at_ns), true);
            sleep(Duration::from_millis(50)).await;
        }
        self.measured.times("room_all", &times);
        let each_us = (self.used_us() - used) / (ROOM_MESSAGES * occupants) as f64;
        self.measured.number("room_delivery_processor_us", each_us);
        Ok(())
    }

    /// Takes the room as it is (XEP-0045 §10.1.2), so that others may enter.
    async fn open_room(&self, room: &str, owner: &Arc<Person>) -> Result<()> {
        let steps = owner.steps();
        let instant = format!(
            "<iq type='set' to='{room}' id='r'><query xmlns='http://jabber.org/protocol/muc#owner'>\
             <x xmlns='jabber:x:data' type='submit'/></query></iq>"
        );
        owner.say(&instant).await?;
        let opened = timeout(PATIENCE, owner.until(steps + 1)).await;
        opened.with_context(|| format!("{room} did not open"))
    }

    /// All but a few are cut and come back at once; those few ping meanwhile, from a thread of
    /// their own: what is measured is the server, not how busy this side is.
    pub(super) async fn reconnect(&mut self) -> Result<()> {
        let aside = Builder::new_multi_thread()
            .worker_threads(1)
            .on_thread_start(|| Turns::First.take())
            .enable_all()
            .build()?;
        let done = self.reconnect_beside(aside.handle()).await;
        aside.shutdown_background();
        done
    }

    async fn reconnect_beside(&mut self, aside: &Handle) -> Result<()> {
        let stay = BYSTANDERS.min(self.online.len() / 2);
        let count = self.online.len() - stay;
        for one in self.online.drain(..stay) {
            one.cut(&self.scene).await;
        }
        let stayed = self.arrive_on(aside, 0..stay, None).await?;
        self.online.splice(0..0, stayed.into_iter().map(|one| one.online));
        self.scene.take();
        let pinging: Vec<_> = self.online[..stay]
            .iter()
            .map(|one| aside.spawn(ping(one.person.clone(), self.scene.clone())))
            .collect();
        sleep(Duration::from_secs(2)).await;
        let quiet = self.scene.take().pings;
        self.measured.times("quiet_ping", &quiet);
        eprintln!("{count} people are cut and come back");
        for one in self.online.split_off(stay) {
            one.cut(&self.scene).await;
        }
        let from = Instant::now();
        let rate = std::mem::replace(&mut self.options.rate, 0);
        let arrived = self.arrive(stay..stay + count, Some(count)).await?;
        self.options.rate = rate;
        self.measured.number("reconnect_all_ms", from.elapsed().as_secs_f64() * 1e3);
        let mut times = Latencies::default();
        for one in arrived {
            times.record(one.ready, true);
            self.online.push(one.online);
        }
        self.measured.times("reconnect", &times);
        for one in pinging {
            one.abort();
        }
        let pings = self.scene.take().pings;
        self.measured.times("reconnect_ping", &pings);
        Ok(())
    }
}

/// Asks the server again and again whether it is there (XEP-0199).
async fn ping(person: Arc<Person>, scene: Arc<super::Scene>) {
    let mut each = tokio::time::interval(PING_EACH);
    loop {
        each.tick().await;
        let id = scene.now_ns();
        let ping = format!("<iq type='get' id='i{id}'><ping xmlns='urn:xmpp:ping'/></iq>");
        if person.say(&ping).await.is_err() {
            return;
        }
    }
}

/// Awaits all of these, a few at a time, in their order.
async fn all<T: Send + 'static>(
    each: impl Iterator<Item = impl Future<Output = Result<T>> + Send + 'static>,
) -> Result<Vec<T>> {
    use futures_util::{StreamExt as _, TryStreamExt as _};
    futures_util::stream::iter(each).buffered(ARRANGING).try_collect().await
}
