//! A session's subscriptions and the queries that answer them.

use std::sync::Arc;

use super::Session;
use crate::observer::{Bell, Observer};
use crate::wire::{self, Failure, Params};

/// A subscription: what was asked for, and the query that answers.
pub(super) struct Sub {
    token: u32,
    name: Arc<str>,
    // As text: who asks for much has it parsed only while it is looked at.
    params: Params,
    observer: Option<Arc<Observer>>,
}

impl Sub {
    pub(super) fn leave(&self, bell: &Arc<Bell>) {
        if let Some(observer) = &self.observer {
            observer.leave(bell, self.token);
        }
    }

    pub(super) fn token(&self) -> u32 {
        self.token
    }

    pub(super) fn observer(&self) -> Option<Arc<Observer>> {
        self.observer.clone()
    }
}

impl<A: Clone + Send + Sync + 'static> Session<A> {
    pub(super) fn open_always(&mut self) {
        for name in self.server.clone().always() {
            let token = self.token();
            self.view.open_silent(token);
            self.begin(token, name, Params::default());
        }
    }

    fn token(&mut self) -> u32 {
        self.next_token += 1;
        self.next_token
    }

    /// A client that comes back asks for what it has already: an id that is known is passed over.
    pub(super) fn subscribe(&mut self, id: String, name: &str, params: Params) {
        if self.view.token_of(&id).is_some() {
            return;
        }
        let limits = &self.server.0.limits;
        let refusal = if self.view.len() >= limits.subscriptions_max {
            let most = limits.subscriptions_max;
            Some((429, format!("A session has no more than {most} subscriptions.")))
        } else if params.size_bytes() > limits.params_bytes_max {
            let most = limits.params_bytes_max;
            Some((413, format!("The parameters take more than {most} bytes.")))
        } else {
            None
        };
        if let Some((code, reason)) = refusal {
            self.server.0.meters.refused.increment(1);
            self.out.push(wire::nosub(&id, Some(&Failure::new(code, reason))));
            return;
        }
        let token = self.token();
        self.view.open(token, &id);
        self.begin(token, name, params);
    }

    fn begin(&mut self, token: u32, name: &str, params: Params) {
        match self.server.observe(name, self.user, &params.values()) {
            Ok(observer) => {
                observer.listen(&self.door.bell, token);
                self.subs.push(Sub { token, name: name.into(), params, observer: Some(observer) });
            }
            Err(failure) => self.view.close(token, Some(failure)),
        }
    }

    pub(super) fn unsubscribe(&mut self, id: &str) {
        match self.view.token_of(id) {
            Some(token) => self.close_sub(token, None),
            None => self.out.push(wire::nosub(id, None)),
        }
    }

    fn close_sub(&mut self, token: u32, failure: Option<Failure>) {
        if let Some(at) = self.subs.iter().position(|sub| sub.token == token) {
            self.subs.remove(at).leave(&self.door.bell);
        }
        self.view.close(token, failure);
    }

    /// Takes what the queries have newly found.
    pub(super) fn collect(&mut self) {
        for token in self.door.bell.take() {
            let Some(sub) = self.subs.iter().find(|sub| sub.token == token) else { continue };
            match sub.observer.as_ref().and_then(|observer| observer.result()) {
                Some(Ok(snapshot)) => self.view.show(token, snapshot),
                Some(Err(failure)) => self.close_sub(token, Some(failure)),
                None => {}
            }
        }
    }

    /// Somebody else is logged in: subscriptions whose query is another one for that person go
    /// over to it, by what differs; the others are not touched.
    pub(super) fn change_reader(&mut self) {
        for at in 0..self.subs.len() {
            let (token, name) = (self.subs[at].token, self.subs[at].name.clone());
            let params = self.subs[at].params.values();
            let observed = self.server.observe(&name, self.user, &params);
            let old = self.subs[at].observer.take();
            match observed {
                Ok(new) if old.as_ref().is_some_and(|old| Arc::ptr_eq(old, &new)) => {
                    self.subs[at].observer = old;
                    continue;
                }
                Ok(new) => {
                    new.listen(&self.door.bell, token);
                    self.subs[at].observer = Some(new);
                }
                Err(failure) => self.view.close(token, Some(failure)),
            }
            if let Some(old) = old {
                old.leave(&self.door.bell, token);
            }
        }
        self.subs.retain(|sub| sub.observer.is_some());
    }
}
