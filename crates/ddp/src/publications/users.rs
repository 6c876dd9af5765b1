//! `users`: oneself; every session has it without asking.

use weir_base::Id;
use weir_community::streams::{Event, Topic};
use weir_community::{Error, accounts, users};

use crate::collections::UserDoc;
use crate::face::Face;
use crate::face::docs::Docs;
use crate::face::live::{Live, Query, Shown, in_one_unit};
use crate::observer::Work;
use crate::server::Opening;
use crate::wire::Failure;

struct Own(Option<Id>);

/// `users`
pub(crate) fn open(face: &Face, user: Option<Id>) -> Result<Opening, Failure> {
    let face = face.clone();
    Ok(Opening::own(&(), move || Live::new(&face, Own(user))))
}

impl Query for Own {
    fn topics(&self) -> Vec<Topic> {
        self.0.map(Topic::Own).into_iter().collect()
    }

    fn concerns(&self, event: &Event, _: &Shown) -> bool {
        matches!(event, Event::BondsChanged | Event::UserChanged)
    }

    fn reader(&self) -> Option<Id> {
        self.0
    }

    fn read(&self, face: &Face) -> Work<'static, Result<Docs, Error>> {
        let Some(user) = self.0 else {
            let docs = Docs::new(&face.documents);
            return Box::pin(async move { Ok(docs) });
        };
        in_one_unit(face, move |tx, env, docs| {
            let (account, own) = (accounts::by_id(tx, user)?, users::by_account(tx, user)?);
            let preferences = own.settings.0;
            let document = UserDoc {
                username: account.username.clone(),
                role: own.role,
                default_visibility: preferences.default_visibility,
                default_sensitive: preferences.default_sensitive,
                default_language: preferences.default_language,
                locale: own.locale,
            };
            docs.put("users", &user.to_string(), &document);
            docs.account(env, &account);
            Ok(())
        })
    }
}
