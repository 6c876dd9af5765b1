//! A session on its way to the connection that will serve it.

use std::sync::Arc;

use super::resume::{self, Hold};
use super::session::{Connection, finish};
use super::transport::Transport;
use crate::face::Xmpp;
use crate::router::Session;

/// A session that no connection serves yet. Should it come to none, because its client is gone in
/// the middle of the log-in, a new one ends, and one taken up waits to be taken up again.
pub(crate) struct Unserved {
    xmpp: Xmpp,
    session: Arc<Session>,
    hold: Option<Hold>,
    is_taken_up: bool,
    is_served: bool,
}

impl Unserved {
    /// A session that was bound just now.
    pub(crate) fn bound(xmpp: &Xmpp, session: Arc<Session>) -> Self {
        Self { xmpp: xmpp.clone(), session, hold: None, is_taken_up: false, is_served: false }
    }

    /// A session that another connection served before.
    pub(crate) fn taken_up(xmpp: &Xmpp, session: Arc<Session>, hold: Hold) -> Self {
        let hold = Some(hold);
        Self { xmpp: xmpp.clone(), session, hold, is_taken_up: true, is_served: false }
    }

    /// It can be resumed from now on, if there is anything to resume it by.
    pub(super) fn let_resume(&mut self) -> Option<&Hold> {
        self.hold = resume::register(&self.xmpp, &self.session);
        self.hold.as_ref()
    }

    /// The session.
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// It ends, whether it is new or not.
    pub(super) fn end(mut self) {
        self.is_taken_up = false;
    }

    /// The connection that serves it.
    pub(super) fn connection(mut self, transport: Box<dyn Transport>) -> Connection {
        self.is_served = true;
        let hold = self.hold.take();
        Connection::new(self.xmpp.clone(), transport, self.session.clone(), hold)
    }
}

impl Drop for Unserved {
    fn drop(&mut self) {
        if self.is_served {
            return;
        }
        match self.hold.take() {
            Some(hold) if self.is_taken_up => hold.let_go(&self.xmpp),
            hold => {
                hold.into_iter().for_each(|hold| hold.forget(&self.xmpp));
                finish(&self.xmpp, &self.session);
            }
        }
    }
}
