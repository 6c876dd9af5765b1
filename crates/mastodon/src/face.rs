//! What every endpoint leans on.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::{FromRef, FromRequestParts, Path};
use http::request::Parts;
use serde::Serialize;
use weir_base::Id;
use weir_community::federation::SharedResolver;
use weir_community::users::Door;
use weir_community::{Community, Env, Error as CommunityError};
use weir_db::{Class, Tx};
use weir_http::{Limiter, Spool, Tokens};

use weir_live::socket::Sockets;

use crate::Error;
use crate::instance::Numbers;
use crate::streaming::{self, Payloads};

/// What the face is made with.
#[derive(Clone)]
pub struct Setup {
    /// The community.
    pub community: Community,
    /// Learns of what lies on other servers.
    pub resolver: SharedResolver,
    /// The public key by which push messages are signed, as apps get it.
    pub vapid_key: String,
    /// How people come in.
    pub door: Door,
    /// For tests and development: no rate limits, and the password grant of OAuth.
    pub dev: bool,
}

/// What every endpoint leans on; clones share it.
#[derive(Clone)]
pub struct Face(Arc<Inner>);

/// The parts of a [`Face`].
pub struct Inner {
    /// The community.
    pub community: Community,
    /// Learns of what lies on other servers.
    pub resolver: SharedResolver,
    /// The public key by which push messages are signed, as apps get it.
    pub vapid_key: String,
    /// How people come in.
    pub door: Door,
    /// Numbers that take a while to count.
    pub numbers: Numbers,
    /// Whether this is for tests and development.
    pub dev: bool,
    /// Looks tokens up.
    pub tokens: Tokens,
    /// Counts requests.
    pub limiter: Limiter,
    /// Where uploads lie while they are worked on.
    pub spool: Spool,
    /// Reads what streams tell.
    pub(crate) payloads: Payloads,
    /// What the WebSockets share.
    pub(crate) sockets: Sockets,
}

impl Deref for Face {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Face {
    pub(crate) fn new(setup: Setup) -> Self {
        let env = setup.community.env();
        let settings = env.instance.settings();
        let spool = Spool {
            store: env.media.store.clone(),
            file_bytes_max: settings.video_bytes_max.max(settings.image_bytes_max),
        };
        env.streams.prepare_with(streaming::prepare);
        Self(Arc::new(Inner {
            tokens: Tokens::new("mastodon", setup.community.clone()),
            limiter: Limiter::new("mastodon", env.clock.clone()),
            spool,
            payloads: Payloads::default(),
            sockets: Sockets::default(),
            community: setup.community,
            resolver: setup.resolver,
            vapid_key: setup.vapid_key,
            door: setup.door,
            numbers: Numbers::new(),
            dev: setup.dev,
        }))
    }

    /// What use cases lean on besides the transaction.
    pub fn env(&self) -> &Env {
        self.community.env()
    }

    /// Runs `unit` on one consistent snapshot, for somebody who waits.
    ///
    /// # Errors
    /// What the unit returns, or the database's own.
    pub async fn read<T, F>(&self, unit: F) -> Result<T, Error>
    where
        F: FnMut(&mut Tx, &Env) -> Result<T, CommunityError> + Send + 'static,
        T: Send + 'static,
    {
        Ok(self.community.read(Class::Interactive, unit).await?)
    }

    /// Runs `unit` in a transaction, for somebody who waits. It may run again.
    ///
    /// # Errors
    /// What the unit returns, or the database's own.
    pub async fn write<T, F>(&self, unit: F) -> Result<T, Error>
    where
        F: FnMut(&mut Tx, &Env) -> Result<T, CommunityError> + Send + 'static,
        T: Send + 'static,
    {
        Ok(self.community.write(Class::Interactive, unit).await?)
    }
}

impl FromRef<Face> for Spool {
    fn from_ref(face: &Face) -> Self {
        face.spool.clone()
    }
}

/// The `{id}` of a path. What is no id names nothing: 404.
#[derive(Debug, Clone, Copy)]
pub struct At(pub Id);

impl FromRequestParts<Face> for At {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, face: &Face) -> Result<Self, Error> {
        let path = Path::<String>::from_request_parts(parts, face).await;
        let id = path.ok().and_then(|Path(text)| text.parse().ok());
        id.map(Self).ok_or_else(Error::not_found)
    }
}

/// An answer without content: `{}`.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Done {}
