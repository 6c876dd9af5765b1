//! What limits a queue, in words.

use std::fmt::{self, Display};

/// Why no more jobs of a queue run at this moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LimitedBy {
    /// No job waits.
    #[default]
    Nothing,
    /// It was paused by hand, or the whole process is quiet.
    Paused,
    /// The limit of its declaration.
    Declared,
    /// A limit that was set by hand.
    ByHand,
    /// It holds units: one batch is prepared while others are written and brought to the disk.
    Batches,
    /// Its jobs block, and have as many threads.
    Threads,
    /// Its limit has just been raised, or is about to be.
    Growing,
    /// More at once did not make more of them end.
    Slower,
    /// The processor.
    Processor,
    /// The database.
    Database,
    /// The memory.
    Memory,
    /// The budget of running jobs that all queues share.
    Budget,
    /// What it gives way to ([`Registry::give_way`](crate::Registry::give_way)), or steps back for
    /// ([`Registry::step_back`](crate::Registry::step_back)).
    Urgent,
    /// Its lanes: each has as many running as one lane may, or waits for its time.
    Lanes,
}

impl LimitedBy {
    /// A stable word for reports and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Paused => "paused",
            Self::Declared => "declared",
            Self::ByHand => "by_hand",
            Self::Batches => "batches",
            Self::Threads => "threads",
            Self::Growing => "growing",
            Self::Slower => "slower",
            Self::Processor => "processor",
            Self::Database => "database",
            Self::Memory => "memory",
            Self::Budget => "budget",
            Self::Urgent => "urgent",
            Self::Lanes => "lanes",
        }
    }
}

impl Display for LimitedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "no job waits",
            Self::Paused => {
                "it is paused, or the server is quiet; `weir jobs resume` or a restart ends that"
            }
            Self::Declared => "as many run as its declaration allows",
            Self::ByHand => "as many run as was set by hand",
            Self::Batches => {
                "one batch is prepared while others are written and brought to the disk"
            }
            Self::Threads => "its jobs block, and all threads for such jobs are in use",
            Self::Growing => "all places are in use, and their number is being raised",
            Self::Slower => "more at once did not make more of them end",
            Self::Processor => "the processor is busy",
            Self::Database => "the database hands out and takes back no more",
            Self::Memory => "the memory budget is nearly used up",
            Self::Budget => "the running jobs of all queues reach their common budget",
            Self::Urgent => {
                "it gives way to what is urgent; a few go on now and then, or batches with rests"
            }
            Self::Lanes => "each lane has as many running as one lane may, or waits for its time",
        })
    }
}
