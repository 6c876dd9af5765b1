//! `GET /api/v1_alpha/async_refreshes/:id`: work in the background that an app may ask after.

use crate::Error;
use crate::auth::{Person, Read};

/// None is ever announced here, so there is none to ask after.
pub async fn get(_: Person<Read>) -> Error {
    Error::not_found()
}
