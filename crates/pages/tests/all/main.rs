//! The pages as a browser meets them.

mod authorize;
mod browser;
mod join;
mod log_in;
mod migration;
mod public;
mod site;
