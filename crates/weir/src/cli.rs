//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::command::{AccountCommand, FederationCommand, HousekeepingCommand, JobsCommand};
use crate::config::Flag;

/// The community server that does not fall over.
#[derive(Debug, Parser)]
#[command(name = "weir", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Example:\n  weir serve --dev --demo")]
pub struct Cli {
    /// The configuration file; weir.toml in the current directory is read if there is one.
    #[arg(long, global = true, value_name = "FILE", env = "WEIR_CONFIG")]
    pub config: Option<PathBuf>,
    /// The directory in which all state lies; `data` if nothing else is configured.
    #[arg(long, global = true, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Print data as JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Serve the community.
    #[command(
        after_help = "Examples:\n  weir serve --domain example.social --listen 0.0.0.0:443\n  \
                      weir serve --dev --data a --domain 127.0.0.2:8001 --listen 127.0.0.2:8001"
    )]
    Serve(ServeArgs),
    /// Create and change accounts, and make tokens for them.
    #[command(after_help = "Example:\n  weir account create alice --email alice@example.social")]
    Account {
        /// What to do.
        #[command(subcommand)]
        command: AccountCommand,
    },
    /// Look at background jobs, and steer them.
    #[command(after_help = "Example:\n  weir jobs stats")]
    Jobs {
        /// What to do.
        #[command(subcommand)]
        command: JobsCommand,
    },
    /// Look at other servers, and block them.
    #[command(after_help = "Example:\n  weir federation block spam.example")]
    Federation {
        /// What to do.
        #[command(subcommand)]
        command: FederationCommand,
    },
    /// Look at what is removed in time, and have it done now.
    #[command(after_help = "Example:\n  weir housekeeping status")]
    Housekeeping {
        /// What to do.
        #[command(subcommand)]
        command: HousekeepingCommand,
    },
    /// Put load on Weir, or on any server of that kind, and measure it.
    #[command(disable_help_flag = true)]
    #[command(after_help = "Example:\n  weir storm jobs --jobs 1000000 --report jobs.html")]
    Storm {
        /// The scenario and its flags; `weir storm --help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "SCENARIO")]
        words: Vec<OsString>,
    },
    /// Print the version.
    #[command(after_help = "Example:\n  weir version --json")]
    Version,
    /// Print a commented configuration file with every key and its default.
    #[command(after_help = "Example:\n  weir example-config > weir.toml")]
    ExampleConfig,
    /// Bring the database's tables up to date and print them.
    #[command(hide = true, after_help = "Example:\n  weir schema --data data/demo")]
    Schema,
}

/// How to serve.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// What stands after the @ in the names of the people here.
    #[arg(long, value_name = "NAME")]
    pub domain: Option<String>,
    /// Where to listen for HTTP; port 0 takes any free port.
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// The parts of the work to do, of web, live, jobs and xmpp.
    #[arg(long, value_name = "ROLES")]
    pub roles: Option<String>,
    /// Make people, posts and pictures to look at; listens on loopback only.
    #[arg(long)]
    pub demo: bool,
    /// For tests and development only: open sign-up, plain HTTP, no rate limits; local domains
    /// and loopback only.
    #[arg(long)]
    pub dev: bool,
    /// Trust the certificate authorities in this PEM file too, for what is fetched and for mail.
    #[arg(long, value_name = "FILE", requires = "dev")]
    pub extra_ca: Option<PathBuf>,
    /// Look for mistakes, print the configuration in effect, with where each value comes from, and
    /// stop.
    #[arg(long)]
    pub check: bool,
}

impl ServeArgs {
    /// The flags that set keys of the configuration.
    pub fn flags(&self) -> Vec<Flag> {
        [
            ("--domain", "domain", &self.domain),
            ("--listen", "http.listen", &self.listen),
            ("--roles", "roles", &self.roles),
        ]
        .into_iter()
        .filter_map(|(flag, key, value)| Some(Flag { flag, key, value: value.clone()? }))
        .collect()
    }
}
