//! Metrics of units, looked up once: a look-up for each unit would cost as much as a statement.

use std::time::Duration;

use crate::Class;

/// Under load one unit in this many is timed: a recorder keeps every time until it is next read,
/// and to hand it over takes a good part of what a small unit does.
const SAMPLE: usize = 16;
/// So many at the beginning of a group or the end of a line are timed all the same.
const FEW: usize = 4;

pub(crate) struct Meters {
    units: [metrics::Counter; 5],
    unit_seconds: [metrics::Histogram; 5],
}

impl Meters {
    /// `kind` is `read` or `write`.
    pub(crate) fn new(kind: &'static str) -> Self {
        Self {
            units: Class::ALL.map(|class| {
                metrics::counter!("weir_db_units_total", "class" => class.name(), "kind" => kind)
            }),
            unit_seconds: Class::ALL.map(|class| {
                metrics::histogram!("weir_db_unit_seconds", "class" => class.name(), "kind" => kind)
            }),
        }
    }

    /// A unit was run, while `waiting` others stood in line or in its group.
    pub(crate) fn unit(&self, class: Class, took: Duration, waiting: usize) {
        self.units[class as usize].increment(1);
        if is_sample(waiting) {
            self.unit_seconds[class as usize].record(took.as_secs_f64());
        }
    }
}

/// Every unit while there are few, and one in sixteen of many.
pub(crate) fn is_sample(waiting: usize) -> bool {
    waiting < FEW || waiting.is_multiple_of(SAMPLE)
}
