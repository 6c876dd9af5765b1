//! What the hosts are called, and where they listen.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use clap::Args;
use serde::Serialize;
use weir_base::Random;

/// Hosts in one block of addresses: no address ends in 0 or 255.
const BLOCK: usize = 250;
/// The second part of the first address: far from what else a machine has on loopback.
const FIRST: usize = 80;
/// Where a free port is looked for: below those that Linux gives to connections, unless it was told
/// otherwise. What another storm sends goes out from the addresses of its hosts, which are the same
/// as ours.
const PORTS: std::ops::Range<u16> = 20_000..32_768;
/// How many ports are tried.
const TRIES: usize = 32;

/// What the hosts are called.
///
/// Every host listens on a loopback address of its own, all on the same port, so that a host can
/// refuse connections, and a server that counts by address sees many. Linux gives all of
/// 127.0.0.0/8 to programs; elsewhere the addresses have to be set up first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Names {
    /// `https://hN.storm.test`, which nobody can reach.
    Nowhere,
    /// `http://127.80.X.Y:PORT`: for servers that take an address and port for a domain, as Weir
    /// does with `serve --dev`.
    Loopback {
        /// The port of all hosts.
        port: u16,
    },
    /// `http://hN.SUFFIX:PORT`: the server under test must be told where they are, by
    /// [`Names::table`] (as lines of /etc/hosts, or Weir's `[federation] resolve`).
    Under {
        /// What stands after `hN.`.
        suffix: String,
        /// The port of all hosts.
        port: u16,
    },
}

/// How the hosts are to be named.
#[derive(Debug, Clone, Default, Args, Serialize)]
pub struct Named {
    /// Name the hosts `hN.SUFFIX` instead of by their addresses; the server must find them where
    /// --table says.
    #[arg(long, value_name = "SUFFIX", requires = "port")]
    pub names: Option<String>,
    /// The port of all hosts; a free one if it is not given.
    #[arg(long)]
    pub port: Option<u16>,
    /// Print the names and addresses of the hosts as lines of /etc/hosts, and end.
    #[arg(long, requires = "names")]
    #[serde(skip)]
    pub table: bool,
}

impl Named {
    /// The names that are meant, for so many hosts.
    ///
    /// # Errors
    /// When no port is free.
    pub fn names(&self, hosts: usize) -> io::Result<Names> {
        match (&self.names, self.port) {
            (Some(suffix), Some(port)) => Ok(Names::Under { suffix: suffix.clone(), port }),
            (_, Some(port)) => Ok(Names::loopback(port)),
            (_, None) => Names::on_a_free_port(hosts),
        }
    }
}

impl Names {
    /// Addresses as names.
    pub fn loopback(port: u16) -> Self {
        Self::Loopback { port }
    }

    /// Addresses as names, on a port that is free now at each of them.
    ///
    /// # Errors
    /// When there is none.
    pub fn on_a_free_port(hosts: usize) -> io::Result<Self> {
        Self::on_a_port_of(&Random::system(), hosts)
    }

    fn on_a_port_of(random: &Random, hosts: usize) -> io::Result<Self> {
        let mut refused = io::Error::from(io::ErrorKind::AddrInUse);
        for _ in 0..TRIES {
            let names = Self::loopback(PORTS.start + random.below(PORTS.len() as u64) as u16);
            let mut addresses = (0..hosts).filter_map(|host| names.address(host));
            match addresses.try_for_each(|address| TcpListener::bind(address).map(drop)) {
                Ok(()) => return Ok(names),
                Err(error) => refused = error,
            }
        }
        let why = format!(
            "no port was found on which all {hosts} hosts can listen at their addresses \
             ({refused}); give one by --port"
        );
        Err(io::Error::new(refused.kind(), why))
    }

    /// The name of a host, with the port where it has one.
    pub fn authority(&self, host: usize) -> String {
        match self {
            Self::Nowhere => format!("h{host}.storm.test"),
            Self::Loopback { port } => format!("{}:{port}", ip(host)),
            Self::Under { suffix, port } => format!("h{host}.{suffix}:{port}"),
        }
    }

    /// What the URLs of a host begin with.
    pub fn origin(&self, host: usize) -> String {
        let scheme = if *self == Self::Nowhere { "https" } else { "http" };
        format!("{scheme}://{}", self.authority(host))
    }

    /// Where a host listens, if it can be reached.
    pub fn address(&self, host: usize) -> Option<SocketAddr> {
        match self {
            Self::Nowhere => None,
            Self::Loopback { port } | Self::Under { port, .. } => Some((ip(host), *port).into()),
        }
    }

    /// Addresses and names of the first `hosts` hosts, as lines of /etc/hosts.
    pub fn table(&self, hosts: usize) -> String {
        let line = |host| match self {
            Self::Under { suffix, .. } => format!("{} h{host}.{suffix}\n", ip(host)),
            Self::Nowhere | Self::Loopback { .. } => String::new(),
        };
        (0..hosts).map(line).collect()
    }
}

fn ip(host: usize) -> Ipv4Addr {
    let part = |value: usize| u8::try_from(value).unwrap_or(u8::MAX);
    let (block, last) = (host / BLOCK, host % BLOCK + 1);
    Ipv4Addr::new(127, part(FIRST + block / BLOCK), part(block % BLOCK), part(last))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_host_has_an_address_of_its_own() {
        let names = Names::loopback(80);
        let all: HashSet<_> = (0..70_000).map(|host| names.address(host).unwrap()).collect();
        assert_eq!(all.len(), 70_000);
        assert!(all.iter().all(|address| address.ip().is_loopback()));
    }

    #[test]
    fn a_port_is_free_at_the_addresses_of_all_hosts() {
        // Other runs of this test choose other ports.
        let seed = Random::system().below(u64::MAX);
        let chosen = |hosts| Names::on_a_port_of(&Random::seeded(seed), hosts).unwrap();
        let first = chosen(3);
        let _taken = TcpListener::bind(first.address(2).unwrap()).unwrap();
        assert_ne!(chosen(3), first);
        assert_eq!(chosen(2), first);
    }

    #[test]
    fn names_of_ones_own_choice_come_with_a_table() {
        let names = Names::Under { suffix: "flood.test".into(), port: 81 };
        assert_eq!(names.origin(1), "http://h1.flood.test:81");
        assert_eq!(names.table(2), "127.80.0.1 h0.flood.test\n127.80.0.2 h1.flood.test\n");
    }
}
