//! The engine on both databases.

mod alone;
mod batches;
mod conformance;
mod cursors;
mod ends;
mod fairness;
mod full_disk;
mod gates;
mod house;
mod killed;
mod leaders;
mod life;
mod limits;
mod many;
mod nodes;
mod outage;
mod poison;
mod redis_batches;
mod redis_faults;
mod redis_limits;
mod redis_relay;
mod redis_server;
mod ruby;
mod start;
mod tasks;
mod units;
