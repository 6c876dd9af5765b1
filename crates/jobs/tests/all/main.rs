//! The engine on both databases.

mod fairness;
mod house;
mod life;
mod start;
mod tasks;
mod units;
