//! The connection to Redis.

use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client, RedisResult};

/// The longest wait for an answer: beyond it Redis counts as away.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// The longest wait for a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// The wait between two tries to connect grows up to this.
const CONNECT_AGAIN_MAX: Duration = Duration::from_millis(500);

/// One pipelined connection that all parts share and that comes back by itself, and what others
/// are made from.
#[derive(Clone)]
pub(crate) struct Link {
    client: Client,
    manager: ConnectionManager,
}

impl Link {
    /// Connects at the first use, so that a start does not wait for Redis. Needs a runtime.
    pub(crate) fn open(url: &str) -> RedisResult<Self> {
        let client = Client::open(url)?;
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(Some(ANSWER_WITHIN))
            .set_connection_timeout(Some(CONNECT_WITHIN))
            .set_max_delay(CONNECT_AGAIN_MAX)
            .set_number_of_retries(1);
        let manager = ConnectionManager::new_lazy_with_config(client.clone(), config)?;
        Ok(Self { client, manager })
    }

    /// A handle on the shared connection.
    pub(crate) fn shared(&self) -> ConnectionManager {
        self.manager.clone()
    }

    /// A connection of its own, for commands that wait for longer than others may.
    pub(crate) async fn waiting(&self) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_WITHIN))
            .set_response_timeout(Some(ANSWER_WITHIN));
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }
}
