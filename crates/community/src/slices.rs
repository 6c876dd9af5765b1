//! Work that is too much for one unit is done in slices, each a unit of its own.

use weir_db::{Class, Tx};
use weir_jobs::Queue;

/// Where jobs wait that do, slice by slice, what follows from a decision or a message.
pub(crate) const UPKEEP: Queue = Queue::new("upkeep", Class::Housekeeping);
/// How long a slice may take before the rest is left to another unit, in ms: so long others wait
/// for the database.
const SLICE_MS_MAX: u128 = 5;

/// Whether the slice that `tx` is has had its time.
pub(crate) fn is_over(tx: &Tx) -> bool {
    tx.elapsed().as_millis() >= SLICE_MS_MAX
}
