//! The house rules as tests, and what is made from the code: `cargo xtask COMMAND`.
#![allow(clippy::print_stdout)]

mod deny;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "usage: cargo xtask COMMAND
  tidy             check the house rules
  deny             check licences and banned crates of the dependencies, by deny.toml
  example-config   write weir.example.toml from the code
  ddp-types        write types/, what DDP clients see, from the code
  schema           write schema/, the sum of the migrations, with WEIR_TEST_POSTGRES set";

fn main() -> ExitCode {
    let command = std::env::args().nth(1).unwrap_or_default();
    let outcome = match command.as_str() {
        "tidy" => report(tidy::check(&root())),
        "deny" => report(deny::check(&root())),
        "example-config" => example_config(),
        "schema" => schema(),
        "ddp-types" => ddp_types(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("xtask: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn report(found: Result<Vec<String>, String>) -> Result<(), String> {
    let found = found?;
    for line in &found {
        println!("{line}");
    }
    match found.len() {
        0 => Ok(()),
        count => Err(format!("{count} to mend")),
    }
}

fn example_config() -> Result<(), String> {
    let text = output(&["run", "--quiet", "--package", "weir", "--", "example-config"])?;
    std::fs::write(root().join("weir.example.toml"), text).map_err(|error| error.to_string())
}

/// The test that compares the types writes them when it is told to.
fn ddp_types() -> Result<(), String> {
    let status = cargo(&["test", "--quiet", "--package", "weir-ddp", "--lib", "types"])
        .env("WEIR_TEST_UPDATE", "1")
        .status()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err("the types were not written".into()) }
}

/// The test that compares the schemas writes them when it is told to.
fn schema() -> Result<(), String> {
    let status = cargo(&["test", "--quiet", "--package", "weir", "--test", "schema"])
        .env("WEIR_TEST_UPDATE", "1")
        .status()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err("the schemas were not written".into()) }
}

fn cargo(args: &[&str]) -> Command {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.args(args).current_dir(root());
    command
}

/// What `cargo` with `args` prints.
fn output(args: &[&str]) -> Result<Vec<u8>, String> {
    let output = cargo(args)
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(format!("cargo {} failed", args.join(" ")))
    }
}
