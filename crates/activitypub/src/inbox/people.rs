//! Whose inbox it is: people who live here, as addresses name them.

use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;
use weir_db::Class;

use crate::ActivityPub;
use crate::serve::{Refusal, find_account};

/// People remembered whose inboxes were written to, and for how long they are believed to be here.
const PEOPLE_MAX: u64 = 20_000;
const LIFE: Duration = Duration::from_secs(60);
/// No id is longer, and no name, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// See the module.
pub(super) struct People(Cache<String, ()>);

impl Default for People {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(PEOPLE_MAX).time_to_live(LIFE).build())
    }
}

impl People {
    /// People in memory.
    pub(super) fn held(&self) -> u64 {
        self.0.entry_count()
    }
}

impl ActivityPub {
    /// That the person of this id or name lives here, or did a moment ago. It is read once, however
    /// many ask.
    ///
    /// # Errors
    /// [`Refusal::NotFound`], [`Refusal::Gone`], [`Refusal::Failed`].
    pub(super) async fn check_resident(&self, account: &str) -> Result<(), Arc<Refusal>> {
        if account.len() > NAME_BYTES_MAX {
            return Err(Arc::new(Refusal::NotFound));
        }
        let look = async { find_account(self, Class::Inbound, account).await.map(drop) };
        self.inbox().people.0.try_get_with_by_ref(account, look).await
    }
}
