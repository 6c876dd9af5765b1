//! Where the server of a domain is: SRV records (RFC 6120, 3.2; XEP-0368), or the domain itself.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use weir_base::Random;
use weir_community::hosts;
use weir_fetch::is_public;

/// The port where servers are without SRV records.
const PORT: u16 = 5269;
/// Places that are tried for one domain.
const PLACES_MAX: usize = 8;
/// How long one question may take.
const QUESTION: Duration = Duration::from_secs(10);

/// A place where the server of a domain may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Where.
    pub address: SocketAddr,
    /// Whether TLS begins with the first byte.
    pub is_direct_tls: bool,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// Nothing is known of the name.
    #[error("the domain has no address")]
    Unknown,
    /// The domain says that it has no chat server.
    #[error("the domain has no chat server")]
    NoService,
    /// All its addresses are private ones.
    #[error("the domain has no public address")]
    Private,
}

/// How domains are found.
#[derive(Debug, Clone, Default)]
pub struct Finding {
    /// Servers of domains whose place is known.
    pub servers: BTreeMap<String, SocketAddr>,
    /// Addresses of names.
    pub addresses: BTreeMap<String, IpAddr>,
    /// The name server to ask; the system's without.
    pub name_server: Option<SocketAddr>,
    /// Whether private addresses may be reached on a remote's word: for tests only.
    pub allow_private: bool,
}

/// Finds the servers of domains.
pub(crate) struct Finder {
    finding: Finding,
    dns: Option<TokioResolver>,
    random: Random,
}

impl Finder {
    /// Finds as `finding` says.
    pub(crate) fn new(finding: Finding, random: Random) -> Self {
        let provider = TokioRuntimeProvider::default();
        let builder = match finding.name_server {
            Some(address) => {
                let mut connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
                connections.iter_mut().for_each(|connection| connection.port = address.port());
                let server = NameServerConfig::new(address.ip(), true, connections.into());
                let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
                Some(TokioResolver::builder_with_config(config, provider))
            }
            None => TokioResolver::builder(provider).ok(),
        };
        let dns = builder.and_then(|mut builder| {
            let options = builder.options_mut();
            options.timeout = Duration::from_secs(3);
            options.attempts = 2;
            options.cache_size = 4_096;
            builder.build().ok()
        });
        Self { finding, dns, random }
    }

    /// The places where the server of `domain` may be, best first.
    ///
    /// # Errors
    /// [`NotFound`].
    pub(crate) async fn places(&self, domain: &str) -> Result<Vec<Place>, NotFound> {
        if let Some(address) = self.finding.servers.get(domain) {
            return Ok(vec![Place { address: *address, is_direct_tls: false }]);
        }
        if let Some(address) = self.known(domain) {
            let address = self.admitted(address, domain)?;
            return Ok(vec![Place { address: (address, PORT).into(), is_direct_tls: false }]);
        }
        let dns = self.dns.as_ref().ok_or(NotFound::Unknown)?;
        let domain = &*hosts::name(domain);
        let (direct, usual) = tokio::join!(
            services(dns, format!("_xmpps-server._tcp.{domain}."), true),
            services(dns, format!("_xmpp-server._tcp.{domain}."), false)
        );
        let mut records: Vec<Record> = direct.into_iter().chain(usual).collect();
        // A single `.` as the target says that there is none (RFC 2782).
        let is_none = |record: &Record| record.target.is_empty();
        if !records.is_empty() && records.iter().all(is_none) {
            return Err(NotFound::NoService);
        }
        records.retain(|record| !is_none(record));
        self.arrange(&mut records);
        if records.is_empty() {
            let target = domain.to_owned();
            records.push(Record { port: PORT, target, ..Record::default() });
        }
        let (mut places, mut refused) = (Vec::new(), NotFound::Unknown);
        for record in records.iter().take(PLACES_MAX) {
            match self.addresses(dns, &record.target).await {
                Ok(found) => places.extend(found.into_iter().map(|address| Place {
                    address: (address, record.port).into(),
                    is_direct_tls: record.is_direct_tls,
                })),
                Err(error) => refused = error,
            }
        }
        places.truncate(PLACES_MAX);
        if places.is_empty() { Err(refused) } else { Ok(places) }
    }

    /// By priority, and within one by chance as heavy as the weight (RFC 2782): the order of
    /// `lot^(1/weight)` is a weighted draw without putting back.
    fn arrange(&self, records: &mut [Record]) {
        for record in &mut *records {
            let lot = self.random.below(1_000_000) as f64 / 1_000_000.0;
            record.lot = lot.powf(1.0 / (f64::from(record.weight) + 0.1));
        }
        records.sort_by(|one, other| {
            one.priority.cmp(&other.priority).then(other.lot.total_cmp(&one.lot))
        });
    }

    async fn addresses(&self, dns: &TokioResolver, name: &str) -> Result<Vec<IpAddr>, NotFound> {
        if let Some(address) = self.known(name) {
            return Ok(vec![self.admitted(address, name)?]);
        }
        let asked = tokio::time::timeout(QUESTION, dns.lookup_ip(format!("{name}."))).await;
        let found: Vec<IpAddr> = match asked {
            Ok(Ok(found)) => found.iter().collect(),
            _ => return Err(NotFound::Unknown),
        };
        let admitted: Vec<IpAddr> =
            found.into_iter().filter_map(|address| self.admitted(address, "").ok()).collect();
        if admitted.is_empty() { Err(NotFound::Private) } else { Ok(admitted) }
    }

    /// The address of a name that is one, or whose address is given.
    fn known(&self, name: &str) -> Option<IpAddr> {
        if let Some(address) = self.finding.addresses.get(name) {
            return Some(*address);
        }
        name.trim_start_matches('[').trim_end_matches(']').parse().ok()
    }

    /// What is reached on a remote's word is public; what is given by configuration may be any.
    fn admitted(&self, address: IpAddr, name: &str) -> Result<IpAddr, NotFound> {
        let is_given = self.finding.addresses.contains_key(name);
        if is_given || self.finding.allow_private || is_public(address) {
            Ok(address)
        } else {
            Err(NotFound::Private)
        }
    }
}

/// What DNS says of one server of a domain.
#[derive(Debug, Clone, Default)]
struct Record {
    is_direct_tls: bool,
    priority: u16,
    weight: u16,
    port: u16,
    target: String,
    /// By chance.
    lot: f64,
}

async fn services(dns: &TokioResolver, name: String, is_direct_tls: bool) -> Vec<Record> {
    let Ok(Ok(found)) = tokio::time::timeout(QUESTION, dns.srv_lookup(name)).await else {
        return Vec::new();
    };
    let records = found.answers().iter().filter_map(|answer| match &answer.data {
        RData::SRV(srv) => Some(Record {
            is_direct_tls,
            priority: srv.priority,
            weight: srv.weight,
            port: srv.port,
            target: srv.target.to_utf8().trim_end_matches('.').to_owned(),
            lot: 0.0,
        }),
        _ => None,
    });
    records.take(2 * PLACES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finder(allow_private: bool) -> Finder {
        let servers = BTreeMap::from([("a.test".into(), "127.0.0.1:15269".parse().unwrap())]);
        let addresses = BTreeMap::from([("b.test".into(), "10.0.0.1".parse().unwrap())]);
        let finding = Finding { servers, addresses, name_server: None, allow_private };
        Finder::new(finding, Random::seeded(1))
    }

    async fn first(finder: &Finder, domain: &str) -> Result<String, NotFound> {
        Ok(finder.places(domain).await?[0].address.to_string())
    }

    #[tokio::test]
    async fn given_places_are_taken_as_they_are() {
        assert_eq!(first(&finder(false), "a.test").await.unwrap(), "127.0.0.1:15269");
        assert_eq!(first(&finder(false), "b.test").await.unwrap(), "10.0.0.1:5269");
    }

    #[tokio::test]
    async fn private_addresses_are_not_reached_on_a_remotes_word() {
        assert_eq!(first(&finder(false), "127.0.0.1").await, Err(NotFound::Private));
        assert_eq!(first(&finder(false), "[::1]").await, Err(NotFound::Private));
        assert_eq!(first(&finder(true), "127.0.0.1").await.unwrap(), "127.0.0.1:5269");
    }

    #[test]
    fn records_of_a_lower_priority_come_first() {
        let record = |priority| Record { priority, weight: 1, ..Record::default() };
        let mut records = vec![record(20), record(10), record(30)];
        finder(false).arrange(&mut records);
        let order: Vec<u16> = records.iter().map(|record| record.priority).collect();
        assert_eq!(order, [10, 20, 30]);
    }
}
