//! What people do by posts' API or on the web while others chat.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use weir_base::Id;
use weir_community::accounts::{self, ProfileChange};
use weir_community::media::{self, Body};
use weir_community::relationships::{self, FollowWish};
use weir_community::users::{self, Role, UserChange};
use weir_community::{Env, Error, moderation};
use weir_db::{Class, Tx};

use super::place::Place;

/// A picture of one pixel.
pub const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Does what stands in a dialogue; false where it is nothing of the kind.
pub async fn act(place: &Place, name: &str, what: &str) -> bool {
    if let Some(other) = what.strip_prefix("follows ") {
        let wish = FollowWish::default();
        follow(place, name, other, move |tx, env, one, two| {
            relationships::follow(tx, env, one, two, &wish).map(drop)
        })
        .await;
    } else if let Some(other) = what.strip_prefix("unfollows ") {
        follow(place, name, other, |tx, env, one, two| {
            relationships::unfollow(tx, env, one, two).map(drop)
        })
        .await;
    } else if let Some(called) = what.strip_prefix("is called ") {
        let display_name = Some(called.to_owned());
        change(place, name, ProfileChange { display_name, ..ProfileChange::default() }).await;
    } else if what == "has a new picture" {
        let body = Body::Bytes(BASE64_STANDARD.decode(PIXEL).unwrap());
        let avatar = Some(media::store_avatar(&place.community, body).await.unwrap());
        change(place, name, ProfileChange { avatar, ..ProfileChange::default() }).await;
    } else if let Some(role) = what.strip_prefix("becomes ").and_then(Role::parse) {
        let change = UserChange { role: Some(role), ..UserChange::default() };
        write(place, name, move |tx, env, account| users::change(tx, env, account, &change)).await;
    } else if what == "is suspended" {
        write(place, name, |tx, env, account| {
            let staff = account_of(tx, "carol")?;
            moderation::suspend(tx, env, staff, account)
        })
        .await;
    } else if what == "is deleted" {
        write(place, name, accounts::delete).await;
    } else {
        return false;
    }
    true
}

fn account_of(tx: &mut Tx, name: &str) -> Result<Id, Error> {
    Ok(accounts::by_address(tx, name, "")?.expect("they have an account").id)
}

async fn change(place: &Place, name: &str, change: ProfileChange) {
    write(place, name, move |tx, env, account| {
        accounts::update_profile(tx, env, account, &change).map(drop)
    })
    .await;
}

async fn follow(
    place: &Place,
    one: &str,
    two: &str,
    unit: impl Fn(&mut Tx, &Env, Id, Id) -> Result<(), Error> + Send + 'static,
) {
    let two = two.to_owned();
    write(place, one, move |tx, env, one| {
        let two = account_of(tx, &two)?;
        unit(tx, env, one, two)
    })
    .await;
}

async fn write(
    place: &Place,
    name: &str,
    unit: impl Fn(&mut Tx, &Env, Id) -> Result<(), Error> + Send + 'static,
) {
    let name = name.to_owned();
    let written = place.community.write(Class::Interactive, move |tx, env| {
        let account = account_of(tx, &name)?;
        unit(tx, env, account)
    });
    written.await.unwrap();
}
