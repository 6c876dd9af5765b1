//! Loads and faults for tests and benchmarks. It knows other servers only by what they speak,
//! Weir's database only to fill it, and the job engine as any program that embeds it.

pub mod api;
pub mod bulk;
pub mod chat;
pub mod command;
pub mod deliver;
pub mod fediverse;
pub mod findings;
pub mod fixture;
pub mod inbox;
pub mod jobs;
pub mod load;
pub mod logins;
pub mod machine;
mod pipe;
pub mod plot;
pub mod streaming;
