//! Moments as people read them.

use weir_base::Timestamp;

/// A moment: for machines, for people at a glance, and in full.
pub struct Moment {
    /// RFC 3339.
    pub machine: String,
    /// `3 h`, or a date when it is more than a week from now.
    pub short: String,
    /// Date and time.
    pub full: String,
}

impl Moment {
    /// The moment `at` as it is seen at `now`.
    pub fn new(at: Timestamp, now: Timestamp) -> Self {
        let machine = at.to_string();
        let full = format!("{}, {} UTC", date(at), machine.get(11..16).unwrap_or_default());
        let past = now.since_ms(at) / 1_000;
        let short = match past {
            i64::MIN..=-1 => date(at),
            0..=59 => "now".to_owned(),
            60..=3_599 => format!("{} min", past / 60),
            3_600..=86_399 => format!("{} h", past / 3_600),
            86_400..=604_799 => format!("{} d", past / 86_400),
            _ => date(at),
        };
        Self { machine, short, full }
    }
}

/// `1 May 2024`, in UTC.
pub fn date(at: Timestamp) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let iso = at.date();
    let mut parts = iso.rsplitn(3, '-');
    let (day, month, year) = (parts.next(), parts.next(), parts.next());
    let month = month.and_then(|month| month.parse::<usize>().ok());
    let name = month.and_then(|month| MONTHS.get(month.wrapping_sub(1)));
    match (day, name, year) {
        (Some(day), Some(name), Some(year)) => {
            format!("{} {name} {year}", day.trim_start_matches('0'))
        }
        _ => iso.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_as_people_say_them() {
        let now: Timestamp = "2024-05-08T12:00:00Z".parse().unwrap();
        let seen = |at: &str| Moment::new(at.parse().unwrap(), now).short;
        assert_eq!(seen("2024-05-08T11:59:30Z"), "now");
        assert_eq!(seen("2024-05-08T11:01:00Z"), "59 min");
        assert_eq!(seen("2024-05-08T10:00:00Z"), "2 h");
        assert_eq!(seen("2024-05-02T12:00:01Z"), "5 d");
        assert_eq!(seen("2024-05-01T09:00:00Z"), "1 May 2024");
        assert_eq!(seen("2031-12-24T09:00:00Z"), "24 Dec 2031");
        let full = Moment::new("2024-05-01T09:07:00Z".parse().unwrap(), now).full;
        assert_eq!(full, "1 May 2024, 09:07 UTC");
    }
}
