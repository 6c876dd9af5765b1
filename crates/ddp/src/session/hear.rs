//! What a client says, and what is done about it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;
use weir_base::Id;

use super::{Done, Session};
use crate::server::{Answer, Call, Login};
use crate::wire::{self, Failure, Incoming, Offence, Params};

impl<A: Clone + Send + Sync + 'static> Session<A> {
    /// Takes one message; false where the client leaves for good.
    pub(super) fn hear(&mut self, text: &str) -> bool {
        self.allowance.spend();
        self.server.0.meters.received.increment(1);
        match wire::parse(text) {
            Ok(None | Some(Incoming::Pong)) => {}
            // Answered out of the queue.
            Ok(Some(Incoming::Ping { id })) => self.answers.push(wire::pong(id.as_deref())),
            Ok(Some(Incoming::Disconnect)) => return false,
            Ok(Some(Incoming::Connect(_))) => {
                self.complain(&Offence::new("Already connected", text));
            }
            Ok(Some(message)) => self.waiting.push(message),
            Err(offence) => self.complain(&offence),
        }
        true
    }

    fn complain(&mut self, offence: &Offence) {
        self.out.push(wire::error(offence.reason, offence.offending.as_ref()));
    }

    /// Works on what waits, in order, until a method holds up the rest.
    pub(super) fn hear_waiting(&mut self) {
        while self.blocked_by.is_none() {
            let is_method = matches!(self.waiting.front(), Some(Incoming::Method { .. }));
            if is_method && self.methods >= self.server.0.limits.methods_max {
                return;
            }
            match self.waiting.pop() {
                Some(Incoming::Sub { id, name, params }) => self.subscribe(id, &name, params),
                Some(Incoming::Unsub { id }) => self.unsubscribe(&id),
                Some(Incoming::Method { id, method, params, random_seed }) => {
                    self.call(id, &method, params, random_seed);
                }
                Some(_) => {}
                None => return,
            }
        }
    }

    /// Whether a call of `method` comes too soon after others; then, for how long.
    fn too_soon(&mut self, method: &str) -> Option<Duration> {
        let slow = &self.server.0.slow;
        if !slow.methods.contains(&method) {
            return None;
        }
        let now = Instant::now();
        self.slow_calls.retain(|at| now.duration_since(*at) < slow.window);
        if self.slow_calls.len() < slow.most {
            self.slow_calls.push(now);
            return None;
        }
        self.slow_calls.first().map(|first| slow.window.saturating_sub(now.duration_since(*first)))
    }

    fn call(&mut self, id: String, method: &str, params: Params, random_seed: Option<Value>) {
        if let Some(wait) = self.too_soon(method) {
            let failure = Failure::too_many_requests(wait);
            self.out.push(wire::result(&id, Err(&failure)));
            self.settled.push(id);
            return;
        }
        let (unblock, unblocked) = oneshot::channel();
        let call = Call {
            app: self.server.0.app.clone(),
            user: self.user,
            token: self.token.clone(),
            client: self.client.clone(),
            random_seed,
            unblock: Some(unblock),
        };
        let (work, writes) = self.server.call(method, call, params.values());
        self.next_method += 1;
        let number = self.next_method;
        self.methods += 1;
        self.blocked_by = Some(number);
        self.working.push(Box::pin(async move {
            // A method that panics is a defect here, not the end of the session.
            let outcome = match tokio::spawn(work).await {
                Ok(outcome) => outcome,
                Err(error) => {
                    tracing::error!(%error, "a method broke; this is a defect in Weir");
                    Err(Failure::internal())
                }
            };
            Done::Method { id, number, outcome, writes }
        }));
        self.working.push(Box::pin(async move {
            // A call that is dropped has not unblocked: its result does.
            match unblocked.await {
                Ok(()) => Done::Unblocked(number),
                Err(_) => Done::Nothing,
            }
        }));
    }

    /// Something is done that the session waited for.
    pub(super) fn done(&mut self, done: Done) {
        match done {
            Done::Unblocked(number) => self.unblock(number),
            Done::Method { id, number, outcome, writes } => {
                self.methods -= 1;
                match outcome {
                    Ok(Answer { value, login }) => {
                        if let Some(login) = login {
                            self.log_in(login);
                        }
                        self.out.push(wire::result(&id, Ok(&value)));
                    }
                    Err(failure) => self.out.push(wire::result(&id, Err(&failure))),
                }
                self.unblock(number);
                if writes {
                    self.settle(id);
                } else {
                    self.settled.push(id);
                }
            }
            Done::Settled(id) => self.settled.push(id),
            Done::Checked(token, good) => {
                if !good && self.token == Some(token) {
                    self.log_in(Login { user: None, token: None });
                }
            }
            Done::Nothing => {}
        }
    }

    fn unblock(&mut self, number: u64) {
        if self.blocked_by == Some(number) {
            self.blocked_by = None;
        }
    }

    /// Waits until all that this session's queries have to say of a method's writes is known.
    fn settle(&mut self, id: String) {
        let everybody = self.server.settle();
        let mine: Vec<_> = self.subs.iter().filter_map(|sub| sub.observer()).collect();
        self.working.push(Box::pin(async move {
            everybody.await;
            for observer in mine {
                observer.flush().await;
            }
            Done::Settled(id)
        }));
    }

    /// Asks whether the log-in is still good; who lost it is nobody from then on.
    pub(super) fn check_log_in(&mut self) {
        self.doubts_next = self.methods > 0;
        if let Some(token) = self.token.clone() {
            let good = self.server.is_good(&token);
            self.working.push(Box::pin(async move { Done::Checked(token, good.await) }));
        }
    }

    fn log_in(&mut self, login: Login) {
        self.token = login.token;
        self.door.user.store(login.user.unwrap_or(Id::ZERO).0, Ordering::SeqCst);
        if self.doubts_next {
            self.check_log_in();
        }
        if self.user != login.user {
            self.user = login.user;
            self.change_reader();
        }
    }
}
