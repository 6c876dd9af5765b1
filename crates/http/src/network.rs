//! Whose address a request comes from: networks, trusted proxies, and the client behind them.

use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use axum::extract::FromRequestParts;
use http::HeaderMap;
use http::request::Parts;

/// The most hops of `X-Forwarded-For` that are looked at.
const HOPS_MAX: usize = 16;

/// A network of addresses, `10.0.0.0/8`; a single address is a network of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// A text is neither an address nor a network.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not an address or network; write it like 10.0.0.0/8 or 192.0.2.1")]
pub struct ParseNetworkError;

impl Network {
    /// Whether `address` lies in the network. IPv4 addresses written as IPv6 count as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        masked(address.to_canonical(), self.bits)
            .is_some_and(|start| Some(start) == masked(self.address, self.bits))
            && address.to_canonical().is_ipv4() == self.address.is_ipv4()
    }

    /// The network that counts as one source for limits: an IPv4 address, or the /64 of an IPv6
    /// address.
    pub fn source_of(address: IpAddr) -> IpAddr {
        match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) >> 64 << 64).into(),
        }
    }
}

/// The first address of the network of `bits` bits around `address`; none if it has fewer bits.
fn masked(address: IpAddr, bits: u8) -> Option<IpAddr> {
    Some(match address {
        IpAddr::V4(address) => {
            let host_bits = 32_u32.checked_sub(bits.into())?;
            let mask = u32::MAX.checked_shl(host_bits).unwrap_or(0);
            Ipv4Addr::from(u32::from(address) & mask).into()
        }
        IpAddr::V6(address) => {
            let host_bits = 128_u32.checked_sub(bits.into())?;
            let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
            Ipv6Addr::from(u128::from(address) & mask).into()
        }
    })
}

impl FromStr for Network {
    type Err = ParseNetworkError;

    fn from_str(text: &str) -> Result<Self, ParseNetworkError> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().map_err(|_| ParseNetworkError)?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| ParseNetworkError)?;
        let bits = bits.unwrap_or(if address.is_ipv4() { 32 } else { 128 });
        let address = masked(address, bits).ok_or(ParseNetworkError)?;
        Ok(Self { address, bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let single = if self.address.is_ipv4() { 32 } else { 128 };
        if self.bits == single {
            write!(f, "{}", self.address)
        } else {
            write!(f, "{}/{}", self.address, self.bits)
        }
    }
}

/// The address a request comes from, as far as it can be known: the peer's, or behind trusted
/// proxies the last one they vouch for. Every request served by [`crate::serve`] carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientIp(pub IpAddr);

impl ClientIp {
    /// The client behind `peer`. `X-Forwarded-For` is believed only as far as each hop, from the
    /// nearest on, is one of the `trusted`.
    pub fn find(peer: IpAddr, headers: &HeaderMap, trusted: &[Network]) -> Self {
        let is_trusted = |address| trusted.iter().any(|network| network.contains(address));
        let mut client = peer.to_canonical();
        let values: Vec<_> = headers.get_all("x-forwarded-for").iter().collect();
        let hops = values.iter().rev().filter_map(|value| value.to_str().ok());
        for hop in hops.flat_map(|value| value.rsplit(',')).take(HOPS_MAX) {
            if !is_trusted(client) {
                break;
            }
            let Ok(address) = hop.trim().parse::<IpAddr>() else { break };
            client = address.to_canonical();
        }
        Self(client)
    }

    /// The network that counts as one source for limits.
    pub fn source(self) -> IpAddr {
        Network::source_of(self.0)
    }
}

impl<S: Sync> FromRequestParts<S> for ClientIp {
    type Rejection = Infallible;

    /// The unspecified address stands for a request that did not come through [`crate::serve`].
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let unknown = Self(Ipv4Addr::UNSPECIFIED.into());
        Ok(parts.extensions.get().copied().unwrap_or(unknown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, forwarded: &[&str], trusted: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append("x-forwarded-for", value.parse().unwrap());
        }
        let trusted: Vec<_> = trusted.iter().map(|text| text.parse().unwrap()).collect();
        ClientIp::find(peer.parse().unwrap(), &headers, &trusted).0.to_string()
    }

    #[test]
    fn a_peer_that_is_not_trusted_is_the_client_whatever_it_claims() {
        assert_eq!(client("192.0.2.1", &["203.0.113.9"], &["10.0.0.0/8"]), "192.0.2.1");
        assert_eq!(client("192.0.2.1", &["203.0.113.9"], &[]), "192.0.2.1");
    }

    #[test]
    fn behind_trusted_proxies_the_first_untrusted_hop_is_the_client() {
        let trusted = ["10.0.0.0/8", "::1"];
        assert_eq!(client("10.0.0.1", &["203.0.113.9"], &trusted), "203.0.113.9");
        let forged = ["6.6.6.6, 203.0.113.9, 10.1.1.1"];
        assert_eq!(client("::ffff:10.0.0.1", &forged, &trusted), "203.0.113.9");
        assert_eq!(client("::1", &["6.6.6.6", "203.0.113.9"], &trusted), "203.0.113.9");
    }

    #[test]
    fn a_hop_that_is_no_address_ends_the_walk() {
        assert_eq!(client("10.0.0.1", &["203.0.113.9, unknown"], &["10.0.0.0/8"]), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &[], &["10.0.0.0/8"]), "10.0.0.1");
    }

    #[test]
    fn networks_contain_what_their_mask_says() {
        let contains = |network: &str, address: &str| {
            network.parse::<Network>().unwrap().contains(address.parse().unwrap())
        };
        assert!(contains("10.0.0.0/8", "10.255.0.1"));
        assert!(!contains("10.0.0.0/8", "11.0.0.1"));
        assert!(contains("0.0.0.0/0", "192.0.2.1"));
        assert!(!contains("0.0.0.0/0", "2001:db8::1"));
        assert!(contains("2001:db8::/32", "2001:db8:ffff::1"));
        assert!(contains("::/0", "2001:db8::1"));
        assert!(!contains("::/0", "192.0.2.1"));
        assert_eq!("10.0.0.0/33".parse::<Network>(), Err(ParseNetworkError));
        assert_eq!("10.1.2.3/8".parse::<Network>().unwrap().to_string(), "10.0.0.0/8");
        assert_eq!("10.1.2.3".parse::<Network>().unwrap().to_string(), "10.1.2.3");
    }

    #[test]
    fn an_ipv6_source_is_its_64_bit_network() {
        let source = |address: &str| Network::source_of(address.parse().unwrap()).to_string();
        assert_eq!(source("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(source("::ffff:192.0.2.1"), "192.0.2.1");
    }
}
