//! `GET /api/v1/instance/domain_blocks`: servers that staff limits or shuts out.

use aws_lc_rs::digest::{SHA256, digest};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use weir_community::instance;

use crate::{Error, Face};

/// A server that is limited or shut out.
#[derive(Debug, Serialize)]
pub struct DomainBlock {
    domain: String,
    digest: String,
    severity: String,
    comment: String,
}

/// The servers.
pub async fn get(State(face): State<Face>) -> Result<Json<Vec<DomainBlock>>, Error> {
    let blocks = face.read(|tx, _| instance::domain_blocks(tx)).await?;
    let block = |block: instance::DomainBlock| DomainBlock {
        digest: hex(&block.domain),
        domain: if block.obfuscate { hidden(&block.domain) } else { block.domain },
        severity: block.severity,
        comment: block.public_comment,
    };
    Ok(Json(blocks.into_iter().map(block).collect()))
}

fn hex(text: &str) -> String {
    let digest = digest(&SHA256, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The name with its middle as asterisks; dots stay.
fn hidden(domain: &str) -> String {
    let count = domain.chars().count();
    let (first, last) = (count / 4, count - count / 4);
    let shown = |(at, one): (usize, char)| {
        if one == '.' || at < first || at >= last { one } else { '*' }
    };
    domain.chars().enumerate().map(shown).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn hidden_names_keep_their_ends_and_dots() {
        assert_eq!(super::hidden("bad.example"), "ba*.*****le");
        assert_eq!(super::hidden(""), "");
    }
}
