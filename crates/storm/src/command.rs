//! The command line of the load tool: `weir storm SCENARIO`.

use std::ffi::OsString;
use std::path::Path;

use clap::{Parser, Subcommand};
use metrics_exporter_prometheus::PrometheusBuilder;
use weir_jobs::Jobs;

use crate::{chat, deliver, inbox, jobs, logins, streaming};

/// Load and faults, against Weir or any server of that kind.
#[derive(Debug, Parser)]
#[command(name = "weir storm", bin_name = "weir storm", max_term_width = 100)]
#[command(arg_required_else_help = true)]
#[command(after_help = "Example:\n  weir storm jobs --jobs 1000000 --report jobs.html")]
struct Command {
    #[command(subcommand)]
    scenario: Scenario,
}

#[derive(Debug, Subcommand)]
enum Scenario {
    /// Jobs: enqueued, drained, due and urgent, in an engine of its own.
    #[command(after_help = "Examples:\n  weir storm jobs --jobs 1000000 --report jobs.html\n  \
        weir storm jobs --target postgres://postgres@127.0.0.1/postgres --latency-ms 1\n  \
        weir storm jobs --target redis://127.0.0.1:6379 --json jobs.json")]
    Jobs(jobs::Options),
    /// The flood after an outage: signed activities of many actors, sent to a server's inbox.
    ///
    /// Hosts of a fake fediverse listen on loopback addresses of their own (127.80.0.1 and on), so
    /// the server must be one for development that takes an address and port for a domain, or be
    /// told by --names and --table where the hosts are.
    #[command(after_help = "Examples:\n  weir serve --dev --domain 127.0.0.1:8080\n  \
        weir storm inbox --target http://127.0.0.1:8080 --report flood.html\n  \
        weir storm inbox --target http://127.0.0.1:8080 --activities 200000 --actors 2000 \\\n    \
        --hosts 200 --people 100 --unknown 15 --latency-ms 1000\n  \
        weir storm inbox --target http://127.0.0.1:8080 --rate 1000 --minutes 60 \\\n    \
        --outward 500 --metrics http://127.0.0.1:9464/metrics --report soak.html")]
    Inbox(inbox::Options),
    /// A post to followers on many servers, some slow, failing or dead, and a second post.
    ///
    /// The hosts of the fake fediverse listen as in `weir storm inbox`.
    #[command(after_help = "Examples:\n  weir serve --dev --domain 127.0.0.1:8080\n  \
        weir storm deliver --target http://127.0.0.1:8080 --report deliver.html\n  \
        weir storm deliver --target http://127.0.0.1:8080 --followers 10000 --hosts 1000 \\\n    \
        --dead 50 --slow 50 --personal")]
    Deliver(deliver::Options),
    /// Listeners at a streaming server, and what is told to them: connecting, fan-out, a flood,
    /// some who never read, all coming back at once.
    ///
    /// Any server of Mastodon's kind, or any that tells things by WebSocket or server-sent events
    /// (--transport) and has a path to publish at (--path, --publish), or sends everybody back what
    /// they said (--path, --echo).
    #[command(after_help = "Examples:\n  weir serve --dev --domain 127.0.0.1:8080\n  \
        weir storm streaming --target http://127.0.0.1:8080 --report streaming.html\n  \
        weir storm streaming --target http://127.0.0.1:8080 --clients 5000 --visitors \\\n    \
        --stream public --parts paced,flood\n  \
        weir storm streaming --target https://127.0.0.1:8443 --insecure --transport sse\n  \
        weir storm streaming --target http://127.0.0.1:9000 --path / --publish /publish")]
    Streaming(streaming::Options),
    /// A burst of log-ins at a DDP server, while bystanders measure; and sessions that come back.
    #[command(after_help = "Examples:\n  weir serve --dev --domain 127.0.0.1:8080\n  \
        weir storm logins --target http://127.0.0.1:8080 --clients 100 --report logins.html\n  \
        weir storm logins --target ws://127.0.0.1:8090 --example --resume 5000")]
    Logins(logins::Options),
    /// People of an XMPP server who log in with their contacts online, talk, enter a room, and
    /// come back all at once.
    ///
    /// Any server where people may register in band, or where they are there already (--names,
    /// --password, --arranged).
    #[command(after_help = "Examples:\n  weir serve --dev --domain 127.0.0.1:8080\n  \
        weir storm chat --target xmpp://127.0.0.1:5222 --clients 1000 --report chat.html\n  \
        weir storm chat --target xmpp://127.0.0.1:5222 --domain localhost --tls --rate 550")]
    Chat(chat::Chat),
    /// People of an XMPP server who log in and say anew how they are, which their contacts hear.
    #[command(after_help = "Example:\n  \
        weir storm presence --target xmpp://127.0.0.1:5222 --clients 1000 --changes 500")]
    Presence(chat::Presence),
}

/// Lets other processes look at the jobs that lie in a directory, and tells the command for it.
pub type Shows = fn(&Jobs, &Path) -> Result<String, String>;

/// Runs the scenario that `words` name, the words after `weir storm`. Wrong usage ends the
/// process with status 2. Where the storm has jobs of its own, `shows` lets others look at them.
///
/// # Errors
/// One line that says what to do.
pub fn run(words: Vec<OsString>, shows: Option<Shows>) -> Result<(), String> {
    let words = std::iter::once(OsString::from("weir storm")).chain(words);
    let Command { scenario } = Command::parse_from(words);
    // What a server counts is counted here too: it is part of the cost.
    let recorder = PrometheusBuilder::new().build_recorder();
    let counted = recorder.handle();
    let found = counted.clone();
    // Where something counts already, that goes on.
    let _ = metrics::set_global_recorder(recorder);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // What it measures is not to be how late its own threads are.
        .on_thread_start(|| weir_base::Turns::Short.take())
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        tokio::spawn(async move {
            let mut each = tokio::time::interval(std::time::Duration::from_secs(5));
            loop {
                each.tick().await;
                counted.run_upkeep();
            }
        });
        let run = match scenario {
            Scenario::Jobs(options) => jobs::run(options, shows, &|| found.render()).await,
            Scenario::Inbox(options) => inbox::run(options).await,
            Scenario::Deliver(options) => deliver::run(options).await,
            Scenario::Streaming(options) => streaming::run(options).await,
            Scenario::Logins(options) => logins::run(options).await,
            Scenario::Chat(options) => chat::run(options).await,
            Scenario::Presence(options) => chat::run_presence(options).await,
        };
        run.map_err(|error| format!("{error:#}"))
    })
}
