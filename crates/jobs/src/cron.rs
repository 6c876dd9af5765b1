//! Cron expressions in a time zone: when a periodic job is due.
//!
//! Five fields (minute, hour, day of the month, month, day of the week) with lists, ranges, steps
//! and English names, or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`. When both the day
//! of the month and the day of the week are restricted, either of them suffices.
//!
//! Where clocks are changed: if the hour is `*`, a job runs by the time that really passes, so
//! each hour has its runs, also the one that comes twice. Otherwise it runs once a local time: at
//! the first of two, and for a time that the day leaves out at the moment of the change.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{Timestamp as Moment, ToSpan};
use weir_base::Timestamp;

/// The longest time between two runs is that between two leap days around a year like 2100.
const DAYS_MAX: usize = 9 * 366;
/// How often a search meets a changed clock or a run that is past, at most.
const STEPS_MAX: usize = 5_000;
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// An expression in a time zone.
#[derive(Clone)]
pub(crate) struct Cron {
    expression: String,
    zone_name: String,
    zone: TimeZone,
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
}

/// What a field allows.
#[derive(Clone, Copy)]
struct Field {
    /// A bit for each number.
    bits: u64,
    /// Written as `*`, also with a step.
    is_star: bool,
}

impl Field {
    fn has(self, number: i8) -> bool {
        u32::try_from(number).is_ok_and(|number| self.bits >> number & 1 == 1)
    }

    /// The first number that is allowed from `from` on.
    fn next(self, from: u32) -> Option<i8> {
        let rest = self.bits.checked_shr(from)?;
        (rest != 0).then(|| (from + rest.trailing_zeros()) as i8)
    }
}

impl Cron {
    /// Reads `expression` for the IANA time zone `zone`, such as `Europe/Berlin`; the error says
    /// what is wrong.
    pub(crate) fn parse(expression: &str, zone: &str) -> Result<Self, String> {
        let text = match expression.trim() {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            other => other,
        };
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            return Err(format!("{expression:?} has {} fields and needs 5", fields.len()));
        };
        let mut weekdays = field(weekdays, 0, 7, &DAYS)?;
        // Sunday is 0 and 7.
        weekdays.bits = (weekdays.bits | weekdays.bits >> 7) & 0x7f;
        let cron = Self {
            expression: expression.trim().to_owned(),
            zone_name: zone.to_owned(),
            zone: TimeZone::get(zone).map_err(|error| format!("time zone {zone}: {error}"))?,
            minutes: field(minutes, 0, 59, &[])?,
            hours: field(hours, 0, 23, &[])?,
            days: field(days, 1, 31, &[])?,
            months: field(months, 1, 12, &MONTHS)?,
            weekdays,
        };
        match cron.next_after(Timestamp::from_ms(0)) {
            Some(_) => Ok(cron),
            None => Err(format!("{expression:?} names a day that never comes")),
        }
    }

    /// The first run after `after`; none beyond the calendar.
    pub(crate) fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let after = Moment::from_millisecond(after.as_ms()).ok()?;
        let next = if self.hours.is_star { self.by_passing(after) } else { self.by_wall(after) };
        next.map(|next| Timestamp::from_ms(next.as_millisecond()))
    }

    /// In the time that really passes: from one change of the clock to the next.
    fn by_passing(&self, after: Moment) -> Option<Moment> {
        let mut offset = self.zone.to_offset(after);
        let mut from = offset.to_datetime(after);
        let mut since = after;
        let mut inclusive = false;
        for _ in 0..STEPS_MAX {
            let next = offset.to_timestamp(self.civil(from, inclusive)?).ok()?;
            let change = self.zone.following(since).next().map(|change| change.timestamp());
            match change {
                Some(change) if next >= change => {
                    offset = self.zone.to_offset(change);
                    (from, since, inclusive) = (offset.to_datetime(change), change, true);
                }
                _ => return Some(next),
            }
        }
        None
    }

    /// By the clock on the wall.
    fn by_wall(&self, after: Moment) -> Option<Moment> {
        let mut civil = self.zone.to_datetime(after);
        for _ in 0..STEPS_MAX {
            civil = self.civil(civil, false)?;
            let next = match self.zone.to_ambiguous_timestamp(civil).offset() {
                AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(civil).ok()?,
                AmbiguousOffset::Fold { before, .. } => before.to_timestamp(civil).ok()?,
                AmbiguousOffset::Gap { before, after } => self.change(civil, before, after)?,
            };
            if next > after {
                return Some(next);
            }
        }
        None
    }

    /// The moment of the change that leaves `civil` out.
    fn change(&self, civil: DateTime, before: Offset, after: Offset) -> Option<Moment> {
        // Read by the later offset it lies before the change, by the earlier one after it.
        let (early, late) = (after.to_timestamp(civil).ok()?, before.to_timestamp(civil).ok()?);
        let change = self.zone.following(early).next().map(|change| change.timestamp());
        change.filter(|change| *change <= late).or(Some(late))
    }

    /// The first local time after `from` that is allowed, or `from` itself if `inclusive`.
    fn civil(&self, from: DateTime, inclusive: bool) -> Option<DateTime> {
        let whole = from.date().to_datetime(Time::constant(from.hour(), from.minute(), 0, 0));
        let start =
            if inclusive && whole == from { whole } else { whole.checked_add(1.minute()).ok()? };
        let mut day = start.date();
        for _ in 0..DAYS_MAX {
            let since = if day == start.date() { start.time() } else { Time::midnight() };
            if self.allows(day)
                && let Some(time) = self.time(since)
            {
                return Some(day.to_datetime(time));
            }
            day = day.tomorrow().ok()?;
        }
        None
    }

    fn allows(&self, day: Date) -> bool {
        let by_month = self.days.has(day.day());
        let by_week = self.weekdays.has(day.weekday().to_sunday_zero_offset());
        let fits = match (self.days.is_star, self.weekdays.is_star) {
            (false, false) => by_month || by_week,
            _ => by_month && by_week,
        };
        fits && self.months.has(day.month())
    }

    /// The first time of a day from `since` on.
    fn time(&self, since: Time) -> Option<Time> {
        let hour = u32::try_from(since.hour()).ok()?;
        let minute = u32::try_from(since.minute()).ok()?;
        let same_hour = self.hours.has(since.hour()).then(|| self.minutes.next(minute)).flatten();
        let (hour, minute) = match same_hour {
            Some(minute) => (since.hour(), minute),
            None => (self.hours.next(hour + 1)?, self.minutes.next(0)?),
        };
        Time::new(hour, minute, 0, 0).ok()
    }
}

impl std::fmt::Display for Cron {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.expression, self.zone_name)
    }
}

/// Reads one field with numbers from `low` to `high`, of which `names` are the first.
fn field(text: &str, low: u32, high: u32, names: &[&str]) -> Result<Field, String> {
    let mut bits = 0_u64;
    for part in text.split(',') {
        let (range, step) = part.split_once('/').map_or((part, None), |(r, s)| (r, Some(s)));
        let step = step.map_or(Ok(1), str::parse::<u32>).ok().filter(|step| *step > 0);
        let step = step.ok_or_else(|| format!("{part:?}: a step is a positive number"))?;
        let number = |text: &str| -> Result<u32, String> {
            let lower = text.to_ascii_lowercase();
            let named = names.iter().position(|name| *name == lower);
            let number = match named {
                Some(at) => u32::try_from(at).ok().map(|at| at + low),
                None => text.parse().ok(),
            };
            number
                .filter(|number| (low..=high).contains(number))
                .ok_or_else(|| format!("{text:?} in {part:?} is not between {low} and {high}"))
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None if range == "*" => (low, high),
            None if part.contains('/') => (number(range)?, high),
            None => (number(range)?, number(range)?),
        };
        if first > last {
            return Err(format!("{part:?} ends before it begins"));
        }
        let mut at = first;
        while at <= last {
            bits |= 1 << at;
            at = at.saturating_add(step);
        }
    }
    Ok(Field { bits, is_star: text.starts_with('*') })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next `count` runs after `from`, as local times with their offsets.
    fn runs(expression: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
        let cron = Cron::parse(expression, zone).unwrap();
        let from: Moment = from.parse().unwrap();
        let mut at = Timestamp::from_ms(from.as_millisecond());
        let mut runs = Vec::new();
        for _ in 0..count {
            at = cron.next_after(at).unwrap();
            let moment = Moment::from_millisecond(at.as_ms()).unwrap();
            let local = moment.to_zoned(TimeZone::get(zone).unwrap());
            runs.push(local.strftime("%Y-%m-%d %H:%M%:z").to_string());
        }
        runs
    }

    #[test]
    fn fields_have_lists_ranges_steps_and_names() {
        let from = "2026-11-20T10:07:00Z";
        assert_eq!(
            runs("*/20 * * * *", "UTC", from, 2),
            ["2026-11-20 10:20+00:00", "2026-11-20 10:40+00:00"]
        );
        assert_eq!(
            runs("5,10 8-9 * * mon-fri", "UTC", from, 3),
            ["2026-11-23 08:05+00:00", "2026-11-23 08:10+00:00", "2026-11-23 09:05+00:00"]
        );
        assert_eq!(
            runs("0 0 29 FEB *", "UTC", "2096-03-01T00:00:00Z", 1),
            ["2104-02-29 00:00+00:00"]
        );
        assert_eq!(
            runs("0 12 1 * 7", "UTC", from, 3),
            ["2026-11-22 12:00+00:00", "2026-11-29 12:00+00:00", "2026-12-01 12:00+00:00"]
        );
        assert_eq!(runs("@monthly", "Asia/Tokyo", from, 1), ["2026-12-01 00:00+09:00"]);
    }

    #[test]
    fn a_time_that_a_day_leaves_out_runs_once_at_the_change() {
        // Berlin, 2026-03-29: 02:00 becomes 03:00.
        let from = "2026-03-28T12:00:00Z";
        assert_eq!(
            runs("10,45 2 * * *", "Europe/Berlin", from, 3),
            ["2026-03-29 03:00+02:00", "2026-03-30 02:10+02:00", "2026-03-30 02:45+02:00"]
        );
        assert_eq!(
            runs("30 1,3 * * *", "Europe/Berlin", from, 2),
            ["2026-03-29 01:30+01:00", "2026-03-29 03:30+02:00"]
        );
    }

    #[test]
    fn a_time_that_comes_twice_runs_at_the_first() {
        // Berlin, 2026-10-25: 03:00 becomes 02:00.
        let from = "2026-10-24T12:00:00Z";
        assert_eq!(
            runs("15,30 2 * * *", "Europe/Berlin", from, 3),
            ["2026-10-25 02:15+02:00", "2026-10-25 02:30+02:00", "2026-10-26 02:15+01:00"]
        );
        // Asked between the two, the second is not a run.
        assert_eq!(
            runs("30 2 * * *", "Europe/Berlin", "2026-10-25T01:00:00Z", 1),
            ["2026-10-26 02:30+01:00"]
        );
    }

    #[test]
    fn with_any_hour_runs_follow_the_time_that_passes() {
        assert_eq!(
            runs("0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", 4),
            [
                "2026-10-25 02:00+02:00",
                "2026-10-25 02:00+01:00",
                "2026-10-25 03:00+01:00",
                "2026-10-25 04:00+01:00"
            ]
        );
        assert_eq!(
            runs("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:10:00Z", 3),
            ["2026-03-29 01:30+01:00", "2026-03-29 03:00+02:00", "2026-03-29 03:30+02:00"]
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_reason() {
        let refused = |text: &str| Cron::parse(text, "UTC").err().unwrap();
        assert!(refused("* * * *").contains("4 fields"));
        assert!(refused("60 * * * *").contains("between 0 and 59"));
        assert!(refused("*/0 * * * *").contains("step"));
        assert!(refused("5-3 * * * *").contains("ends before"));
        assert!(refused("0 0 30 2 *").contains("never comes"));
        assert!(refused("0 0 * * someday").contains("someday"));
        assert!(Cron::parse("* * * * *", "Mars/Olympus").is_err());
    }

    proptest::proptest! {
        #[test]
        fn a_next_run_is_always_later_and_no_input_panics(
            text in "[0-9*/,a-z -]{0,24}", at in -4_000_000_000_000_i64..9_000_000_000_000,
        ) {
            if let Ok(cron) = Cron::parse(&text, "America/New_York") {
                let at = Timestamp::from_ms(at);
                proptest::prop_assert!(cron.next_after(at).is_none_or(|next| next > at));
            }
        }
    }
}
