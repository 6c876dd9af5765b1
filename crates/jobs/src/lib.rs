//! Durable background jobs with fair lanes.
