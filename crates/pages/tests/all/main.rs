//! The pages as a browser meets them.

mod authorize;
mod browser;
mod join;
mod joining;
mod log_in;
mod migration;
mod pictures;
mod public;
mod site;
