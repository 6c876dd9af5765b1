//! What a server tells of itself, in Prometheus' form: how long its database takes.

use anyhow::Result;

use crate::api::Api;

/// The histogram of the time that units of the database take; `kind` is `read` or `write`.
const UNITS: &str = "weir_db_unit_seconds";

/// Reads the numbers of a server again and again.
pub(super) struct Gauges {
    api: Api,
    url: String,
    before: Option<[Units; 2]>,
}

/// Units of one kind so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Units {
    count: f64,
    seconds: f64,
}

impl Gauges {
    /// Of a server that tells them at `url`.
    ///
    /// # Errors
    /// When the system lacks what a client needs.
    pub(super) fn new(url: &str) -> Result<Self> {
        Ok(Self { api: Api::new(url)?, url: url.to_owned(), before: None })
    }

    /// How long a unit that reads and one that writes took since the last look, on average, in ms;
    /// nothing where there was none, or nothing is told.
    pub(super) async fn look(&mut self) -> [Option<f64>; 2] {
        let Ok(text) = self.api.text(&self.url).await else { return [None; 2] };
        let now = ["read", "write"].map(|kind| units(&text, kind));
        let before = self.before.replace(now).unwrap_or(now);
        let mean_ms = |at: usize| {
            let count = now[at].count - before[at].count;
            (count > 0.0).then(|| (now[at].seconds - before[at].seconds) / count * 1e3)
        };
        [mean_ms(0), mean_ms(1)]
    }
}

/// Units of one kind, of all classes.
fn units(text: &str, kind: &str) -> Units {
    let label = format!("kind=\"{kind}\"");
    let mut units = Units::default();
    for line in text.lines().filter(|line| line.contains(&label)) {
        let Some(name) = line.strip_prefix(UNITS) else { continue };
        let value = line.rsplit(' ').next().and_then(|value| value.parse().ok());
        let value: f64 = value.unwrap_or_default();
        if name.starts_with("_sum{") {
            units.seconds += value;
        } else if name.starts_with("_count{") {
            units.count += value;
        }
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_all_classes_are_added_up_and_no_bucket_is() {
        let text = "# TYPE weir_db_unit_seconds histogram\n\
            weir_db_unit_seconds_bucket{class=\"inbound\",kind=\"write\",le=\"0.001\"} 7\n\
            weir_db_unit_seconds_sum{class=\"inbound\",kind=\"write\"} 0.5\n\
            weir_db_unit_seconds_count{class=\"inbound\",kind=\"write\"} 10\n\
            weir_db_unit_seconds_sum{class=\"interactive\",kind=\"write\"} 0.25\n\
            weir_db_unit_seconds_count{class=\"interactive\",kind=\"write\"} 5\n\
            weir_db_unit_seconds_sum{class=\"interactive\",kind=\"read\"} 9\n\
            weir_db_units_total{class=\"inbound\",kind=\"write\"} 99\n";
        assert_eq!(units(text, "write"), Units { count: 15.0, seconds: 0.75 });
        assert_eq!(units(text, "read"), Units { count: 0.0, seconds: 9.0 });
    }
}
