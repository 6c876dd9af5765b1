//! Are you there? (XEP-0199)

use super::{Answer, Asked};

/// `<ping/>`
pub async fn ping(_: Asked) -> Answer {
    Ok(None)
}
