//! What the posts and accounts of one answer share.

use std::collections::{HashMap, HashSet};

use weir_base::Id;
use weir_community::accounts;
use weir_community::filters::{self, Bare, Rules};
use weir_community::statuses::View;
use weir_community::{Env, Error};
use weir_db::Tx;

use super::account::{self, AccountParts};
use super::{Account, Emojis, Shared, status};

/// Everybody who is shown, and what posts are shown with.
pub(super) struct Shapes<'e> {
    pub(super) env: &'e Env,
    pub(super) reader: Option<Id>,
    pub(super) filters: Rules,
    pub(super) emojis: Emojis,
    accounts: HashMap<Id, Shared<Account>>,
}

impl<'e> Shapes<'e> {
    /// For `people`, and for posts as `reader` (none: a visitor) sees them, with their authors. It
    /// is asked for together, for on PostgreSQL each answer that is waited for is a way to another
    /// process and back; only the emoji of those moved to, and what filters look for, are asked for
    /// afterwards, where there are any.
    ///
    /// # Errors
    /// The database's.
    pub(super) fn load(
        tx: &mut Tx,
        env: &'e Env,
        reader: Option<Id>,
        people: &[&accounts::Account],
        views: &[&View],
    ) -> Result<Self, Error> {
        let each =
            || views.iter().flat_map(|view| std::iter::once(*view).chain(view.boost.as_deref()));
        let authors = each().map(|view| view.account.as_ref());
        let mut known = HashSet::new();
        let people: Vec<&accounts::Account> =
            authors.chain(people.iter().copied()).filter(|one| known.insert(one.id)).collect();
        let of_posts = each()
            .flat_map(|view| status::emoji_texts(view).map(|text| (&*view.account.domain, text)));
        let named = of_posts.chain(texts_of(people.iter().copied()));

        let (mut parts, mut emojis) = (AccountParts::default(), Emojis::default());
        let mut bare = Bare::default();
        let mut questions = parts.ask(&people);
        questions.extend(emojis.ask(env, named));
        let filtered_for = reader.filter(|_| !views.is_empty());
        questions.extend(filtered_for.map(|reader| filters::ask_bare(&mut bare, reader)));
        tx.query_together(questions)?;
        let more = emojis.ask(env, texts_of(parts.others()));
        tx.query_together(more.into_iter().collect())?;
        let filters = Rules::of_bare(tx, bare, env.clock.now())?;

        let shape = |one: &accounts::Account| account::shape(env, one, &parts, &emojis);
        let shaped = people.iter().map(|one| (one.id, Shared::new(shape(one))));
        let accounts = shaped.collect();
        Ok(Self { env, reader, filters, emojis, accounts })
    }

    /// One of those for whom this was loaded.
    pub(super) fn account(&self, id: Id) -> Option<Shared<Account>> {
        self.accounts.get(&id).cloned()
    }
}

/// The texts of people that may name emoji, each with its server.
fn texts_of<'a>(
    people: impl Iterator<Item = &'a accounts::Account>,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    people.flat_map(|one| account::emoji_texts(one).map(|text| (&*one.domain, text)))
}
