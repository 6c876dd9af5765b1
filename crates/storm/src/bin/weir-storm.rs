//! The load tool alone: as `weir storm`, quicker to build, and with the allocator of choice.

use std::process::ExitCode;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    match weir_storm::command::run(std::env::args_os().skip(1).collect(), None) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("weir storm: {reason}");
            ExitCode::FAILURE
        }
    }
}
