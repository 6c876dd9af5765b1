//! Guarded outgoing HTTP.
