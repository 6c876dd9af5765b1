//! Mail domains and networks from which nobody joins.

use std::net::IpAddr;

use weir_base::Timestamp;
use weir_db::{Tx, params, texts};

use crate::{Env, Error, hosts};

/// Network blocks that are looked at for a sign-up.
const NETWORKS_MAX: i64 = 10_000;

/// What may be done from a network, from the freest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Everything.
    Free,
    /// Who joins from there is looked at by staff first.
    SignUpByApproval,
    /// Nobody joins from there.
    NoSignUp,
}

/// What may be done from the address `ip`.
///
/// # Errors
/// The database's.
pub fn access_from(tx: &mut Tx, env: &Env, ip: IpAddr) -> Result<Access, Error> {
    let now = env.clock.now();
    let blocks: Vec<(String, String)> = tx.query(
        "SELECT network, severity FROM ip_blocks
         WHERE expires_at IS NULL OR expires_at > ?1 LIMIT ?2",
        params![now, NETWORKS_MAX],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let hits = blocks.iter().filter(|(network, _)| contains(network, ip));
    let worst = hits.map(|(_, severity)| access_of(severity));
    Ok(worst.max().unwrap_or(Access::Free))
}

/// Whether `ip` lies in `network`, written as `192.0.2.0/24` or a single address.
fn contains(network: &str, ip: IpAddr) -> bool {
    let (start, bits) = match network.split_once('/') {
        Some((start, bits)) => (start, bits.parse().ok()),
        None => (network, None),
    };
    let Ok(start) = start.parse::<IpAddr>() else { return false };
    let widen = |ip: IpAddr| match ip.to_canonical() {
        IpAddr::V4(ip) => (u128::from(u32::from(ip)) << 96, 32),
        IpAddr::V6(ip) => (u128::from(ip), 128),
    };
    let ((start, width), (ip, ip_width)) = (widen(start), widen(ip));
    let bits: u32 = bits.unwrap_or(width);
    let mask = u128::MAX.checked_shl(128_u32.saturating_sub(bits)).unwrap_or(0);
    width == ip_width && bits <= width && start & mask == ip & mask
}

/// Whether nobody joins with an address of this domain, or one above it.
///
/// # Errors
/// The database's.
pub fn email_is_blocked(tx: &mut Tx, email: &str) -> Result<bool, Error> {
    let domain = hosts::name(email.rsplit_once('@').map_or("", |(_, domain)| domain));
    let labels = domain.match_indices('.').map(|(at, _)| domain[at + 1..].to_owned());
    let above: Vec<String> = std::iter::once(domain.clone()).chain(labels.take(20)).collect();
    let found: Option<i64> = tx.value(
        "SELECT 1 FROM email_domain_blocks WHERE domain IN texts(?1)",
        &[texts(above.iter())],
    )?;
    Ok(found.is_some())
}

/// The blocked mail domains in alphabetical order.
///
/// # Errors
/// The database's.
pub fn blocked_email_domains(tx: &mut Tx) -> Result<Vec<String>, Error> {
    Ok(tx.column("SELECT domain FROM email_domain_blocks ORDER BY domain LIMIT 10000", &[])?)
}

/// Nobody joins with an address of `domain` any more.
///
/// # Errors
/// [`Error::Invalid`] when it is no domain.
pub fn block_email_domain(tx: &mut Tx, env: &Env, domain: &str) -> Result<(), Error> {
    let domain = hosts::name(domain.trim().trim_start_matches('@'));
    let stands = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if !(1..=253).contains(&domain.len()) || !domain.bytes().all(stands) {
        let reason = "is not a domain: write what follows the @ of addresses, such as mail.example";
        return Err(Error::invalid("domain", "ERR_INVALID", reason));
    }
    tx.run(
        "INSERT INTO email_domain_blocks (id, domain) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        params![env.ids.next(), domain],
    )?;
    Ok(())
}

/// People may join with an address of `domain` again.
///
/// # Errors
/// The database's.
pub fn unblock_email_domain(tx: &mut Tx, domain: &str) -> Result<(), Error> {
    tx.run("DELETE FROM email_domain_blocks WHERE domain = ?1", params![hosts::name(domain)])?;
    Ok(())
}

/// A network from which people join with restraint, or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkBlock {
    /// The network, like `192.0.2.0/24`.
    pub network: String,
    /// What may be done from there.
    pub access: Access,
    /// Why, for staff.
    pub comment: String,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

/// The networks that are blocked now, in the order in which they were.
///
/// # Errors
/// The database's.
pub fn blocked_networks(tx: &mut Tx, env: &Env) -> Result<Vec<NetworkBlock>, Error> {
    let now = env.clock.now();
    let list = tx.query(
        "SELECT network, severity, comment, expires_at FROM ip_blocks
         WHERE expires_at IS NULL OR expires_at > ?1 ORDER BY id LIMIT ?2",
        params![now, NETWORKS_MAX],
        |row| {
            let severity: String = row.get(1)?;
            let access = access_of(&severity);
            Ok(NetworkBlock {
                network: row.get(0)?,
                access,
                comment: row.get(2)?,
                expires_at: row.get(3)?,
            })
        },
    )?;
    Ok(list)
}

fn access_of(severity: &str) -> Access {
    match severity {
        "sign_up_requires_approval" => Access::SignUpByApproval,
        _ => Access::NoSignUp,
    }
}

/// People may join from `network` again.
///
/// # Errors
/// The database's.
pub fn unblock_network(tx: &mut Tx, network: &str) -> Result<(), Error> {
    tx.run("DELETE FROM ip_blocks WHERE network = ?1", params![network])?;
    Ok(())
}

/// Adds a network from which sign-ups are refused or looked at.
///
/// # Errors
/// [`Error::Invalid`] when it is no network.
pub fn block_network(tx: &mut Tx, env: &Env, block: &NetworkBlock) -> Result<(), Error> {
    let NetworkBlock { network, access, comment, expires_at } = block;
    let network = network.trim();
    let start = network.split('/').next().unwrap_or_default();
    let fits = start.parse::<IpAddr>().is_ok_and(|ip| contains(network, ip));
    if !fits || *access == Access::Free {
        return Err(Error::invalid("network", "ERR_INVALID", "is not a network like 192.0.2.0/24"));
    }
    let severity = match access {
        Access::SignUpByApproval => "sign_up_requires_approval",
        _ => "sign_up_block",
    };
    tx.run(
        "INSERT INTO ip_blocks (id, network, severity, comment, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (network) DO UPDATE SET severity = excluded.severity,
           comment = excluded.comment, expires_at = excluded.expires_at",
        params![env.ids.next(), network, severity, comment.trim(), *expires_at],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_its_own_addresses_and_no_others() {
        let holds = |network: &str, ip: &str| contains(network, ip.parse().unwrap());
        assert!(holds("192.0.2.0/24", "192.0.2.200") && !holds("192.0.2.0/24", "192.0.3.1"));
        assert!(holds("192.0.2.1", "192.0.2.1") && !holds("192.0.2.1", "192.0.2.2"));
        assert!(holds("0.0.0.0/0", "203.0.113.1") && !holds("0.0.0.0/0", "2001:db8::1"));
        assert!(holds("2001:db8::/32", "2001:db8:1::1") && !holds("2001:db8::/32", "2001:db9::1"));
        assert!(holds("192.0.2.0/24", "::ffff:192.0.2.7"));
        for broken in ["", "x", "192.0.2.0/33", "192.0.2.0/x/", "2001:db8::/129"] {
            assert!(!holds(broken, "192.0.2.0") || broken == "192.0.2.0/x/", "{broken}");
        }
    }
}
