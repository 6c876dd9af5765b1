//! Metrics of units, looked up once: a look-up for each unit would cost as much as a statement.

use std::time::Duration;

use crate::Class;

pub(crate) struct Meters {
    unit_seconds: [metrics::Histogram; 5],
}

impl Meters {
    /// `kind` is `read` or `write`.
    pub(crate) fn new(kind: &'static str) -> Self {
        Self {
            unit_seconds: Class::ALL.map(|class| {
                metrics::histogram!("weir_db_unit_seconds", "class" => class.name(), "kind" => kind)
            }),
        }
    }

    /// A unit was run.
    pub(crate) fn unit(&self, class: Class, took: Duration) {
        self.unit_seconds[class as usize].record(took.as_secs_f64());
    }
}
