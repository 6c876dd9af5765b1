//! Accounts as members of a collection.

use weir_base::Id;
use weir_community::{Error, accounts};
use weir_db::{Class, Tx};

use super::answer::Refusal;
use super::page::ACCOUNTS_PER_PAGE;
use crate::ActivityPub;
use crate::wire::ObjectRef;

/// The accounts of the pairs that `list` reads (a follow's id, an account), in that order, and
/// before which id the next page begins.
pub async fn page(
    face: &ActivityPub,
    mut list: impl FnMut(&mut Tx) -> Result<Vec<(Id, Id)>, Error> + Send + 'static,
) -> Result<(Vec<ObjectRef>, Option<Id>), Refusal> {
    let read = face.community().read(Class::Interactive, move |tx: &mut Tx, _| {
        let pairs = list(tx)?;
        let wanted: Vec<Id> = pairs.iter().map(|(_, account)| *account).collect();
        Ok((pairs, accounts::by_ids(tx, &wanted)?))
    });
    let (pairs, people) = read.await?;
    let uri = |wanted: Id| {
        let person = people.iter().find(|person| person.id == wanted && person.is_available())?;
        Some(ObjectRef::Uri(person.uri.parse().ok()?))
    };
    let items = pairs.iter().filter_map(|(_, account)| uri(*account)).collect();
    let next = pairs.last().map(|(id, _)| *id).filter(|_| pairs.len() == ACCOUNTS_PER_PAGE);
    Ok((items, next))
}
