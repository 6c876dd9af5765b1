//! What every document, delivery and fetch leans on.

use std::sync::{self, Arc};

use tokio::runtime::Handle;
use weir_base::Timestamp;
use weir_community::Community;
use weir_community::instance::Registrations;
use weir_fetch::Fetch;

use crate::inbox::{FreeDisk, Inbox, InboxLimits};
use crate::keys::Keys;
use crate::outbound::Outbound;
use crate::resolver::Finder;
use crate::serve::Usage;
use crate::wire::{Uri, Urls, WireError};

/// What the face is made of.
pub struct Setup {
    /// The nouns and the rules.
    pub community: Community,
    /// The way out.
    pub fetch: Fetch,
    /// Whether only servers that staff allowed are spoken with.
    pub allowlist: bool,
    /// Whether others must sign what they fetch; where there is an allowlist they must anyway.
    pub require_signed_fetch: bool,
    /// Who may sign up, where staff has not set it.
    pub registrations: Registrations,
    /// What is free on the database's disk, where that can be known: what comes in is refused
    /// before it is full.
    pub free_disk: FreeDisk,
    /// What the inboxes take before they tell others to come again.
    pub inbox_limits: InboxLimits,
    /// What else of this server host-meta tells: relations and addresses.
    pub host_links: Vec<HostLink>,
    /// Where what other servers send is judged: on threads that give way to those who are here.
    pub door: Handle,
}

/// Something at an address of this server, by its relation to it.
#[derive(Debug, Clone)]
pub struct HostLink {
    /// The relation.
    pub rel: &'static str,
    /// The address.
    pub href: String,
}

/// Why the face cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The public URL is not one.
    #[error("the public URL {url} cannot stand in ids ({source}); set public_url under [http]")]
    PublicUrl {
        /// What was given.
        url: String,
        /// What is wrong with it.
        source: WireError,
    },
}

/// The face's handle; clones share it.
#[derive(Clone)]
pub struct ActivityPub {
    inner: Arc<Inner>,
}

/// A handle that keeps nothing alive.
pub(crate) struct Weak(sync::Weak<Inner>);

impl Weak {
    pub(crate) fn upgrade(&self) -> Option<ActivityPub> {
        self.0.upgrade().map(|inner| ActivityPub { inner })
    }
}

struct Inner {
    community: Community,
    fetch: Fetch,
    allowlist: bool,
    urls: Urls,
    keys: Keys,
    finder: Finder,
    inbox: Inbox,
    outbound: Outbound,
    usage: Usage,
    require_signed_fetch: bool,
    registrations: Registrations,
    host_links: Vec<HostLink>,
}

impl ActivityPub {
    /// The face of `setup.community`.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn new(setup: Setup) -> Result<Self, SetupError> {
        let url = setup.community.env().site.base.clone();
        let base: Uri =
            url.parse().map_err(|source| SetupError::PublicUrl { url: url.clone(), source })?;
        let urls = Urls::new(&base);
        let inner = Inner {
            keys: Keys::new(setup.community.clone()),
            finder: Finder::new(setup.community.env().clock.clone()),
            inbox: Inbox::new(setup.inbox_limits, setup.free_disk, setup.door),
            outbound: Outbound::new(&setup.community),
            usage: Usage::default(),
            community: setup.community,
            fetch: setup.fetch,
            allowlist: setup.allowlist,
            urls,
            require_signed_fetch: setup.require_signed_fetch,
            registrations: setup.registrations,
            host_links: setup.host_links,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    pub(crate) fn downgrade(&self) -> Weak {
        Weak(Arc::downgrade(&self.inner))
    }

    /// The nouns and the rules.
    pub fn community(&self) -> &Community {
        &self.inner.community
    }

    /// Where this server's own things are.
    pub fn urls(&self) -> &Urls {
        &self.inner.urls
    }

    /// What people here sign with.
    pub fn keys(&self) -> &Keys {
        &self.inner.keys
    }

    /// What else of this server host-meta tells.
    pub fn host_links(&self) -> &[HostLink] {
        &self.inner.host_links
    }

    pub(crate) fn finder(&self) -> &Finder {
        &self.inner.finder
    }

    pub(crate) fn fetch(&self) -> &Fetch {
        &self.inner.fetch
    }

    pub(crate) fn inbox(&self) -> &Inbox {
        &self.inner.inbox
    }

    /// Whether only servers that staff allowed are spoken with.
    pub fn is_allowlist(&self) -> bool {
        self.inner.allowlist
    }

    pub(crate) fn outbound(&self) -> &Outbound {
        &self.inner.outbound
    }

    /// The present moment.
    pub(crate) fn now(&self) -> Timestamp {
        self.inner.community.env().clock.now()
    }

    pub(crate) fn usage(&self) -> &Usage {
        &self.inner.usage
    }

    /// Whether others must sign what they fetch: who is not listed could else read without saying
    /// who they are.
    pub(crate) fn requires_signed_fetch(&self) -> bool {
        self.inner.require_signed_fetch || self.inner.allowlist
    }

    /// Whether people may sign up, as staff or else the configuration says.
    pub(crate) fn registrations_open(&self) -> bool {
        let set = self.inner.community.env().instance.settings().registrations;
        let mode = set.unwrap_or(self.inner.registrations);
        matches!(mode, Registrations::Open | Registrations::Approval)
    }
}
