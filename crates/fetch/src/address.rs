//! Which addresses are public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 blocks that are no place on the public internet (IANA's special-purpose registry, plus
/// multicast, the reserved top and the retired 6to4 relays): the first address, and the prefix
/// length in bits.
const NOT_PUBLIC_V4: [(Ipv4Addr, u32); 15] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// IPv6 blocks inside global unicast (2000::/3) that are not public: protocol assignments with
/// Teredo and ORCHID, documentation, 6to4 (it can carry any IPv4 address), documentation again.
const NOT_PUBLIC_V6: [(Ipv6Addr, u32); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

const GLOBAL_UNICAST: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
const MAPPED: (Ipv6Addr, u32) = (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96);
/// NAT64's well-known prefix (RFC 6052): where a host has only IPv6, every IPv4 server is here.
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// Whether an address is a place on the public internet: not private, loopback, link-local,
/// shared (CGNAT), multicast, documentation, benchmarking or reserved, and not an IPv6 form that
/// carries such an IPv4 address.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = u32::from(address);
    !NOT_PUBLIC_V4.iter().any(|(block, prefix)| (bits ^ u32::from(*block)) >> (32 - prefix) == 0)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if within(address, MAPPED) || within(address, NAT64) {
        // The last 32 bits are the IPv4 address; the cast keeps just these.
        return is_public_v4(Ipv4Addr::from(u128::from(address) as u32));
    }
    within(address, GLOBAL_UNICAST) && !NOT_PUBLIC_V6.iter().any(|block| within(address, *block))
}

fn within(address: Ipv6Addr, (block, prefix): (Ipv6Addr, u32)) -> bool {
    (u128::from(address) ^ u128::from(block)) >> (128 - prefix) == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn public(text: &str) -> bool {
        is_public(text.parse().unwrap())
    }

    #[test]
    fn public_servers_are_public() {
        for text in ["1.1.1.1", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1"] {
            assert!(public(text), "{text}");
        }
        for text in ["2606:4700::1", "2a00:1450::1", "64:ff9b::8.8.8.8", "::ffff:8.8.8.8"] {
            assert!(public(text), "{text}");
        }
    }

    #[test]
    fn private_and_reserved_addresses_are_not_public() {
        for text in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.255",
            "255.255.255.255",
        ] {
            assert!(!public(text), "{text}");
        }
    }

    #[test]
    fn reserved_ipv6_addresses_are_not_public() {
        for text in [
            "::",
            "::1",
            "::10.0.0.1",
            "::8.8.8.8",
            "::ffff:127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:2::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:808:808::",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!public(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_the_standard_library_calls_local_is_never_public(bits: u32) {
            let v4 = Ipv4Addr::from(bits);
            let local = v4.is_private() || v4.is_loopback() || v4.is_link_local()
                || v4.is_multicast() || v4.is_broadcast() || v4.is_documentation()
                || v4.is_unspecified();
            prop_assert!(!(local && is_public(IpAddr::V4(v4))));
        }

        #[test]
        fn an_embedded_ipv4_address_is_judged_as_itself(bits: u32) {
            let v4 = Ipv4Addr::from(bits);
            let nat64 = Ipv6Addr::from(u128::from(NAT64.0) | u128::from(bits));
            prop_assert_eq!(is_public(IpAddr::V6(v4.to_ipv6_mapped())), is_public(IpAddr::V4(v4)));
            prop_assert_eq!(is_public(IpAddr::V6(nat64)), is_public(IpAddr::V4(v4)));
        }

        #[test]
        fn only_global_unicast_and_embedded_forms_are_public(bits: u128) {
            let v6 = Ipv6Addr::from(bits);
            let may = within(v6, GLOBAL_UNICAST) || within(v6, MAPPED) || within(v6, NAT64);
            prop_assert!(may || !is_public(IpAddr::V6(v6)));
        }

        #[test]
        fn every_address_of_a_private_block_is_refused(
            block in 0..NOT_PUBLIC_V4.len(), offset: u32,
        ) {
            let (first, prefix) = NOT_PUBLIC_V4[block];
            let inside = u32::from(first) | (offset & (u32::MAX >> prefix));
            prop_assert!(!is_public(IpAddr::V4(Ipv4Addr::from(inside))));
        }
    }
}
