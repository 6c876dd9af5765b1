//! Who handles which background job. A kind that nobody handles stops the start.

use weir_community::federation::Distribute;
use weir_community::mail::{self, MailError, Mailer};
use weir_community::{accounts, media, moderation};
use weir_db::Tx;
use weir_jobs::{Claimed, Outcome, Registry};

use crate::config::Config;
use crate::outside::Outside;
use crate::parts::Parts;

/// Every job of every part, with its handler.
///
/// # Errors
/// [`MailError`] when the configured mail server or sender cannot be used.
pub fn registry(config: &Config, parts: &Parts, outside: &Outside) -> Result<Registry, MailError> {
    let community = &parts.community;
    let mut registry = Registry::new();
    accounts::register_erasure(&mut registry, community);
    media::register(&mut registry, community);
    moderation::register(&mut registry, community);
    mail::register(&mut registry, community, &mailer(config, &community.env().site.domain)?);
    let Outside { fetch, vapid } = outside.clone();
    weir_mastodon::push::register(&mut registry, community.clone(), fetch, vapid);
    // Without federation there is nobody to tell.
    registry.simple_unit(|_: &mut Tx, jobs: &[Claimed<Distribute>]| {
        Ok(vec![Outcome::Done; jobs.len()])
    });
    Ok(registry)
}

fn mailer(config: &Config, domain: &str) -> Result<Mailer, MailError> {
    let from = match config.mail.from.as_str() {
        "" => sender(domain),
        from => from.to_owned(),
    };
    match config.mail.smtp_url.expose().as_str() {
        "" => Mailer::to_log(&from),
        url => Mailer::to_server(url, &from),
    }
}

/// The sender where none is configured. Mail knows no ports and no bare addresses.
fn sender(domain: &str) -> String {
    let host = domain.rsplit_once(':').map_or(domain, |(host, _)| host);
    let is_name = host.contains(|c: char| c.is_alphabetic()) && !host.starts_with('[');
    format!("Weir <weir@{}>", if is_name { host } else { "localhost" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_domain_gives_a_sender_that_mail_takes() {
        for (domain, sender_host) in
            [("a.social", "a.social"), ("localhost:80", "localhost"), ("127.0.0.2:80", "localhost")]
        {
            assert_eq!(sender(domain), format!("Weir <weir@{sender_host}>"));
            assert!(mailer(&Config::default(), domain).is_ok(), "{domain}");
        }
        assert!(mailer(&Config::default(), "[::1]:80").is_ok());
    }
}
