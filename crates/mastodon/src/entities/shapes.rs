//! What the posts and accounts of one answer share.

use std::collections::{HashMap, HashSet};

use weir_base::Id;
use weir_community::accounts;
use weir_community::filters::{self, Rules};
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
    /// process and back, unless it was found with the posts; only the emoji of those moved to, and
    /// what filters look for, are asked for afterwards, where there are any.
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
        let mut known = HashSet::new();
        let mut unknown = |one: &&accounts::Account| known.insert(one.id);
        let authors: Vec<&accounts::Account> =
            each().map(|view| view.account.as_ref()).filter(&mut unknown).collect();
        let others: Vec<&accounts::Account> = people.iter().copied().filter(&mut unknown).collect();
        let people = || authors.iter().chain(&others).copied();
        let of_posts = each()
            .flat_map(|view| status::emoji_texts(view).map(|text| (&*view.account.domain, text)));
        let named = of_posts.chain(texts_of(people()));

        let (mut parts, mut emojis) = (AccountParts::default(), Emojis::default());
        views.iter().for_each(|view| parts.learn(&view.around));
        let filtered_for = reader.filter(|_| !views.is_empty());
        let learnt = filtered_for.and_then(|reader| views[0].around.filters_of(reader));
        let mut bare = learnt.cloned().unwrap_or_default();
        let mut questions = parts.ask(&authors, &others);
        questions.extend(emojis.ask(env, named));
        let unlearnt = filtered_for.filter(|_| learnt.is_none());
        questions.extend(unlearnt.map(|reader| filters::ask_bare(&mut bare, reader)));
        tx.query_together(questions)?;
        let more = emojis.ask(env, texts_of(parts.others()));
        tx.query_together(more.into_iter().collect())?;
        let filters = Rules::of_bare(tx, bare, env.clock.now())?;

        let shape = |one: &accounts::Account| account::shape(env, one, &parts, &emojis);
        let shaped = people().map(|one| (one.id, Shared::new(shape(one))));
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
