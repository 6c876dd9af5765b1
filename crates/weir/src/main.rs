//! Weir, the community server: the command line, the configuration, the listeners, the signals,
//! and how the parts are put together. Nothing here holds a rule of the community.

mod alone;
mod beneath;
mod cli;
mod command;
mod config;
mod control;
mod data_dir;
mod demo;
mod federation;
mod log;
mod metrics;
mod options;
mod output;
mod outside;
mod parts;
mod process;
mod routes;
mod serve;
mod site;
mod watch;
mod work;
mod xmpp;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Verb};
use config::{Flag, Loaded, Modes};

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What is freed goes back to the system within a second, by a thread of the allocator's own, also
/// when nothing else happens; and threads share arenas, which each keep something for themselves.
// SAFETY: the allocator reads the text behind this pointer, which lives for ever and ends in zero.
#[cfg(feature = "jemalloc")]
#[unsafe(export_name = "malloc_conf")]
static ALLOCATOR_OPTIONS: &[u8; 70] =
    b"background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0,narenas:4\0";

fn main() -> ExitCode {
    // Wrong usage ends inside `parse`, with status 2.
    let cli = Cli::parse();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            // A reason is one line, whatever it was made of.
            let reason = reason.split('\n').map(str::trim).collect::<Vec<_>>().join(" ");
            eprintln!("weir: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<(), String> {
    match &cli.verb {
        Verb::Serve(args) => {
            let mut loaded = load(cli, args.flags())?;
            let modes = Modes { dev: args.dev, demo: args.demo };
            let checked = config::check(&mut loaded, modes).map_err(|error| error.to_string())?;
            if args.check {
                if let Some(path) = &args.extra_ca {
                    outside::read_extra_ca(path).map_err(|error| error.to_string())?;
                }
                output::configuration(&loaded, cli.json);
                return Ok(());
            }
            serve::run(&loaded, &checked, args.extra_ca.as_deref())
                .map_err(|error| error.to_string())
        }
        Verb::Account { command } => act(cli, command::Command::Account(command.clone())),
        Verb::Jobs { command: command::JobsCommand::Watch { every, count } } => {
            watch::run(&load(cli, Vec::new())?, *every, *count, cli.json)
        }
        Verb::Jobs { command } => act(cli, command::Command::Jobs(command.clone())),
        Verb::Federation { command } => act(cli, command::Command::Federation(command.clone())),
        Verb::Housekeeping { command } => act(cli, command::Command::Housekeeping(command.clone())),
        Verb::Storm { words } => {
            // Hosts of a load listen on an address each.
            process::raise_descriptor_limit();
            weir_storm::command::run(words.clone(), Some(control::serve_jobs))
        }
        Verb::Version => {
            output::version(cli.json);
            Ok(())
        }
        Verb::ExampleConfig => {
            output::text(&config::example());
            Ok(())
        }
        Verb::Schema => {
            let (parts, _data) = control::open_here(&load(cli, Vec::new())?)?;
            output::text(&parts.db.schema().map_err(|error| error.to_string())?);
            Ok(())
        }
    }
}

fn act(cli: &Cli, command: command::Command) -> Result<(), String> {
    let loaded = load(cli, Vec::new())?;
    let value = control::run(&loaded, command)?;
    output::value(&value, cli.json);
    Ok(())
}

/// Puts the configuration together; `weir.toml` here is read where no other file is named.
fn load(cli: &Cli, mut flags: Vec<Flag>) -> Result<Loaded, String> {
    if let Some(data) = &cli.data {
        let value = data.display().to_string();
        flags.push(Flag { flag: "--data", key: "data", value });
    }
    let here = Path::new("weir.toml");
    let file = cli.config.as_deref().or_else(|| here.exists().then_some(here));
    // A variable that is not Unicode cannot be one of ours.
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    config::load(file, variables, &flags).map_err(|error| error.to_string())
}
