//! The way out against real sockets.

mod hosts;
mod limits;
mod redirects;
mod server;
mod tls;
