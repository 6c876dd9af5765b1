//! Who in the process hears of what changes about accounts, besides the hub: faces with sessions of
//! their own.

use std::sync::atomic::Ordering;

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_db::Tx;

use super::{Change, Streams};

/// What of an account that chat shows is another than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Aspect {
    /// Its name, picture or role, or whether it is there.
    Looks,
    /// Whom it follows, or who follows it.
    Bonds,
}

/// A face that hears of people.
struct Listener {
    wants: Box<dyn Fn(Id, Aspect) -> bool + Send + Sync>,
    hear: Box<dyn Fn(Id, Aspect) + Send + Sync>,
}

/// Who hears of people.
#[derive(Default)]
pub(super) struct Persons(RwLock<Vec<Listener>>);

impl Persons {
    fn wants(&self, account: Id, aspect: Aspect) -> bool {
        self.0.read().iter().any(|one| (one.wants)(account, aspect))
    }

    pub(super) fn heard(&self, account: Id, aspect: Aspect) {
        self.0.read().iter().for_each(|one| (one.hear)(account, aspect));
    }
}

impl Streams {
    /// Calls `hear` with each account of here of which chat shows something else than before, where
    /// `wants` says so. Both must be short. What another node changed while the bus was away is not
    /// told.
    pub fn on_person_changed(
        &self,
        wants: impl Fn(Id, Aspect) -> bool + Send + Sync + 'static,
        hear: impl Fn(Id, Aspect) + Send + Sync + 'static,
    ) {
        let (wants, hear) = (Box::new(wants), Box::new(hear));
        self.persons.0.write().push(Listener { wants, hear });
    }

    /// The name, picture or role of `account` changed, or whether it is there.
    pub(crate) fn looks_changed(&self, tx: &mut Tx, account: Id) {
        self.person_changed(tx, account, Aspect::Looks);
    }

    /// `by` follows `target` from now on, or does so no longer.
    pub(crate) fn follow_changed(&self, tx: &mut Tx, by: Id, target: Id) {
        self.person_changed(tx, by, Aspect::Bonds);
        self.person_changed(tx, target, Aspect::Bonds);
    }

    fn person_changed(&self, tx: &mut Tx, account: Id, aspect: Aspect) {
        let (persons, among_others) = (self.persons.clone(), self.among_others.clone());
        let is_wanted =
            move || among_others.load(Ordering::Relaxed) || persons.wants(account, aspect);
        self.after_if(tx, Change::Person(account, aspect), is_wanted);
    }

    /// `account` has another role.
    pub(crate) fn role_changed(&self, tx: &mut Tx, account: Id) {
        self.after(tx, Change::RoleChanged(account));
    }

    /// What `account` has open comes back with its new role; chat asks for it each time.
    pub(super) fn role_changed_of(&self, account: Id) {
        self.hub.close(account.0);
        self.log_ins_changed_of(Some(account));
        self.persons.heard(account, Aspect::Looks);
    }

    /// Calls `hear` with each account whose log-ins lost their power, for a face with sessions of
    /// its own. It must be short.
    pub fn on_access_changed(&self, hear: impl Fn(Id) + Send + Sync + 'static) {
        self.access.write().push(Box::new(hear));
    }

    /// Calls `hear` with each account of which a log-in may have ended, and without one where
    /// anybody's may have: for a face that looks itself at those its sessions go by. It must be
    /// short.
    pub fn on_log_ins_changed(&self, hear: impl Fn(Option<Id>) + Send + Sync + 'static) {
        self.log_ins.write().push(Box::new(hear));
    }

    pub(super) fn log_ins_changed_of(&self, account: Option<Id>) {
        self.log_ins.read().iter().for_each(|hear| hear(account));
    }

    /// Ends what `account` has open: who may come back does.
    pub(super) fn shut_out(&self, account: Id) {
        self.hub.close(account.0);
        self.access.read().iter().for_each(|hear| hear(account));
        self.log_ins_changed_of(Some(account));
    }

    /// Calls `hear` with each account that follows, blocks or mutes other people than before, for a
    /// face with sessions of its own; without one where anybody may. It must be short.
    pub fn on_bonds_changed(&self, hear: impl Fn(Option<Id>) + Send + Sync + 'static) {
        self.bonds.write().push(Box::new(hear));
    }

    pub(super) fn bonds_changed_of(&self, account: Option<Id>) {
        self.bonds.read().iter().for_each(|hear| hear(account));
    }
}
