//! The pages as a browser meets them.

mod authorize;
mod browser;
mod log_in;
mod site;
