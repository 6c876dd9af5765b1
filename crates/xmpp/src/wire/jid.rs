//! Addresses (RFC 7622): `local@domain/resource`, normalised when they are read.

use std::fmt;

use precis_profiles::precis_core::profile::PrecisFastInvocation;
use precis_profiles::{OpaqueString, UsernameCaseMapped};

/// The longest of each of the three parts, in bytes.
const PART_BYTES_MAX: usize = 1_023;

/// An address in its normal form; compares, sorts and hashes as its text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Jid {
    text: Box<str>,
    /// Where the domain begins: behind the `@`, or 0.
    domain_at: u16,
    /// Where the `/` stands, or the end.
    domain_end: u16,
}

/// A text is no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an address: write local@domain/resource (RFC 7622)")]
pub struct JidError;

impl Jid {
    /// Reads and normalises an address.
    ///
    /// # Errors
    /// [`JidError`] where a part is empty, too long or holds what it must not.
    pub fn parse(text: &str) -> Result<Self, JidError> {
        let (bare, resource) = match text.split_once('/') {
            Some((bare, resource)) => (bare, Some(resource)),
            None => (text, None),
        };
        let (local, domain) = match bare.split_once('@') {
            Some((local, domain)) => (Some(local), domain),
            None => (None, bare),
        };
        Self::of(local, domain, resource)
    }

    /// An address of its parts, which are normalised.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn of(local: Option<&str>, domain: &str, resource: Option<&str>) -> Result<Self, JidError> {
        let mut all = String::with_capacity(
            local.map_or(0, |local| local.len() + 1)
                + domain.len()
                + resource.map_or(0, |resource| resource.len() + 1),
        );
        if let Some(local) = local {
            push_local(local, &mut all)?;
            all.push('@');
        }
        let domain_at = all.len();
        push_domain(domain, &mut all)?;
        let domain_end = all.len();
        if let Some(resource) = resource {
            all.push('/');
            push_resource(resource, &mut all)?;
        }
        let place = |at: usize| u16::try_from(at).map_err(|_| JidError);
        let (domain_at, domain_end) = (place(domain_at)?, place(domain_end)?);
        Ok(Self { text: all.into(), domain_at, domain_end })
    }

    /// The address of two parts that are normalised already.
    pub(crate) fn joined(bare: &str, resource: &str) -> Self {
        let domain_at = bare.find('@').map_or(0, |at| at + 1);
        let text = format!("{bare}/{resource}").into();
        // A part that was normalised is at most 1,023 bytes long.
        let place = |at: usize| u16::try_from(at).unwrap_or(u16::MAX);
        Self { text, domain_at: place(domain_at), domain_end: place(bare.len()) }
    }

    /// What stands before the `@`.
    pub fn local(&self) -> Option<&str> {
        let end = usize::from(self.domain_at).checked_sub(1)?;
        Some(&self.text[..end])
    }

    /// The server.
    pub fn domain(&self) -> &str {
        &self.text[usize::from(self.domain_at)..usize::from(self.domain_end)]
    }

    /// What stands behind the `/`.
    pub fn resource(&self) -> Option<&str> {
        self.text.get(usize::from(self.domain_end) + 1..)
    }

    /// Without a resource, as text.
    pub fn bare_str(&self) -> &str {
        &self.text[..usize::from(self.domain_end)]
    }

    /// Without a resource.
    #[must_use]
    pub fn bare(&self) -> Self {
        Self { text: self.bare_str().into(), ..*self }
    }

    /// Whether there is no resource.
    pub fn is_bare(&self) -> bool {
        self.text.len() == usize::from(self.domain_end)
    }

    /// The whole.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// With this resource.
    ///
    /// # Errors
    /// Where it is none.
    pub fn with_resource(&self, resource: &str) -> Result<Self, JidError> {
        let mut text = String::with_capacity(self.bare_str().len() + 1 + resource.len());
        text.push_str(self.bare_str());
        text.push('/');
        push_resource(resource, &mut text)?;
        Ok(Self { text: text.into(), ..*self })
    }
}

impl fmt::Display for Jid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Jid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jid({})", self.text)
    }
}

impl std::str::FromStr for Jid {
    type Err = JidError;

    fn from_str(text: &str) -> Result<Self, JidError> {
        Self::parse(text)
    }
}

fn bounded(from: usize, all: &str) -> Result<(), JidError> {
    match all.len() - from {
        1..=PART_BYTES_MAX => Ok(()),
        _ => Err(JidError),
    }
}

/// The profile UsernameCaseMapped of RFC 8265, less what RFC 7622 section 3.3.1 excludes.
fn push_local(local: &str, all: &mut String) -> Result<(), JidError> {
    let from = all.len();
    if local.contains(['"', '&', '\'', '/', ':', '<', '>', '@']) {
        return Err(JidError);
    }
    if local.bytes().all(|byte| byte.is_ascii_graphic()) {
        all.extend(local.chars().map(|c| c.to_ascii_lowercase()));
    } else {
        all.push_str(&UsernameCaseMapped::enforce(local).map_err(|_| JidError)?);
    }
    bounded(from, all)
}

/// The profile OpaqueString of RFC 8265.
fn push_resource(resource: &str, all: &mut String) -> Result<(), JidError> {
    let from = all.len();
    if resource.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        all.push_str(resource);
    } else {
        all.push_str(&OpaqueString::enforce(resource).map_err(|_| JidError)?);
    }
    bounded(from, all)
}

/// A name of the DNS with U-labels, or an address of a host.
fn push_domain(domain: &str, all: &mut String) -> Result<(), JidError> {
    let from = all.len();
    let domain = domain.strip_suffix('.').unwrap_or(domain);
    if let Some(address) = domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        address.parse::<std::net::Ipv6Addr>().map_err(|_| JidError)?;
        all.push_str(domain);
        return bounded(from, all);
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let is_ascii = domain.bytes().all(is_plain);
    if is_ascii && !domain.contains("xn--") {
        all.extend(domain.chars().map(|c| c.to_ascii_lowercase()));
    } else {
        let (unicode, fine) = idna::domain_to_unicode(domain);
        fine.map_err(|_| JidError)?;
        // Of ASCII no more than names have: a port, above all, is no part of an address.
        if unicode.bytes().any(|byte| byte.is_ascii() && !is_plain(byte)) {
            return Err(JidError);
        }
        all.push_str(&unicode);
    }
    if all[from..].split('.').any(|label| label.is_empty() || label.len() > 63 * 4) {
        return Err(JidError);
    }
    bounded(from, all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_address_has_three_parts_in_their_normal_form() {
        let jid = Jid::parse("Alice@Example.SOCIAL./Phone 1/@x").unwrap();
        assert_eq!(jid.as_str(), "alice@example.social/Phone 1/@x");
        assert_eq!(jid.local(), Some("alice"));
        assert_eq!(jid.domain(), "example.social");
        assert_eq!(jid.resource(), Some("Phone 1/@x"));
        assert_eq!(jid.bare().as_str(), "alice@example.social");
        assert!(jid.bare().is_bare() && !jid.is_bare());
        assert_eq!(Jid::parse("example.social").unwrap().local(), None);
    }

    #[test]
    fn other_scripts_are_normalised_too() {
        assert_eq!(Jid::parse("JÜRGEN@bücher.test").unwrap().as_str(), "jürgen@bücher.test");
        assert_eq!(Jid::parse("a@xn--bcher-kva.test").unwrap().domain(), "bücher.test");
        assert_eq!(Jid::parse("u\u{308}@a.test").unwrap().local(), Some("ü"));
        assert_eq!(Jid::parse("a@a.test/u\u{308}").unwrap().resource(), Some("ü"));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let long = format!("{}@a.test", "a".repeat(1_024));
        for text in [
            "",
            "@a.test",
            "a@",
            "a@b@c",
            "a b@a.test",
            "a@a..test",
            "a@a.test/",
            "a'b@a.test",
            "a@a.test/\u{1}",
            "a@[1]",
            "a@localhost:8080",
            "a@a.test:5222/r",
            "a@bücher.test:80",
            "a@a,test",
            "/r",
            "a\u{0}@a.test",
            "♚@a.test",
            &long,
        ] {
            assert!(Jid::parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn the_normal_form_is_its_own(text in ".{0,20}") {
            if let Ok(jid) = Jid::parse(&text) {
                prop_assert_eq!(Jid::parse(jid.as_str()), Ok(jid));
            }
        }
    }
}
