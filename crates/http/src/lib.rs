//! What HTTP faces share.
