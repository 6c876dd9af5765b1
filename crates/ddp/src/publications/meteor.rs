//! What Meteor's own web client subscribes to without being asked: there is nothing in it here.

use crate::document::Revision;
use crate::observer::{Source, Trouble, Update, Work};
use crate::server::Opening;
use crate::wire::Failure;

struct Nothing;

/// `meteor.loginServiceConfiguration`, `meteor_autoupdate_clientVersions`
pub(crate) fn open() -> Result<Opening, Failure> {
    Ok(Opening::shared(&(), || Nothing))
}

impl Source for Nothing {
    fn wait(&mut self) -> Work<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn update(&mut self) -> Work<'_, Result<Update, Trouble>> {
        Box::pin(async { Ok(Update::Whole(Vec::<std::sync::Arc<Revision>>::new())) })
    }
}
