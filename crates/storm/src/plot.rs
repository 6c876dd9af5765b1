//! Plots as SVG that needs nothing else.

use std::fmt::Write as _;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 30.0;
const TOP: f64 = 26.0;
/// More points are not seen.
const POINTS_MAX: usize = 600;

/// A line of a plot.
pub struct Line<'l> {
    /// What it is.
    pub name: &'l str,
    /// Where it goes: x, y.
    pub points: Vec<(f64, f64)>,
}

/// The styles that the plots of a page use.
pub const STYLE: &str = "<style>svg.plot text{font:12px system-ui,sans-serif;fill:#444}\
    svg.plot .title{font-weight:600}svg.plot .axis{stroke:#999}svg.plot .grid{stroke:#8883}\
    svg.plot polyline{fill:none;stroke-width:1.6}svg.plot .l0{stroke:#2a7de1}\
    svg.plot .l1{stroke:#d9480f}svg.plot .l2{stroke:#2b8a3e}svg.plot .f0{fill:#2a7de1}\
    svg.plot .f1{fill:#d9480f}svg.plot .f2{fill:#2b8a3e}@media (prefers-color-scheme:dark){\
    svg.plot text{fill:#ccc}}</style>";

/// A plot of `lines` from zero upwards; `x` and `y` name the axes with their units.
pub fn lines(title: &str, x: &str, y: &str, lines: &[Line<'_>]) -> String {
    let all = || lines.iter().flat_map(|line| &line.points);
    let x_max = all().map(|point| point.0).fold(f64::MIN_POSITIVE, f64::max);
    let y_max = ceiling(all().map(|point| point.1).fold(f64::MIN_POSITIVE, f64::max));
    let right = |value: f64| LEFT + value / x_max * (WIDTH - LEFT - 10.0);
    let up = |value: f64| HEIGHT - BOTTOM - value / y_max * (HEIGHT - BOTTOM - TOP);
    let mut body = String::new();
    for step in 0..=4 {
        let (across, value) = (x_max * f64::from(step) / 4.0, y_max * f64::from(step) / 4.0);
        let _ = write!(
            body,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{0:.1}\" y2=\"{0:.1}\"/>\
             <text x=\"{1}\" y=\"{2:.1}\" text-anchor=\"end\">{3}</text>\
             <text x=\"{4:.1}\" y=\"{5}\" text-anchor=\"middle\">{6}</text>",
            up(value),
            LEFT - 6.0,
            up(value) + 4.0,
            short(value),
            right(across),
            HEIGHT - BOTTOM + 16.0,
            short(across),
        );
    }
    for (at, line) in lines.iter().enumerate() {
        let is_long = line.points.len() > POINTS_MAX;
        let step = if is_long { line.points.len().div_ceil(POINTS_MAX / 2) } else { 1 };
        // Of each part the lowest and the highest: what hurts is not to be thinned out.
        let points = line.points.chunks(step).flat_map(extremes);
        let points: Vec<String> =
            points.map(|(x, y)| format!("{:.1},{:.1}", right(*x), up(*y))).collect();
        let _ = write!(
            body,
            "<polyline class=\"l{0}\" points=\"{1}\"/><text class=\"f{0}\" x=\"{2}\" y=\"14\" \
             text-anchor=\"end\">{3}</text>",
            at % 3,
            points.join(" "),
            WIDTH - 110.0 * at as f64,
            escaped(line.name),
        );
    }
    format!(
        "<svg class=\"plot\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         role=\"img\" aria-label=\"{0}\"><text class=\"title\" x=\"0\" y=\"14\">{0}, {1}</text>\
         {body}<text x=\"{WIDTH}\" y=\"{2}\" text-anchor=\"end\">{3}</text></svg>",
        escaped(title),
        escaped(y),
        HEIGHT - 2.0,
        escaped(x),
    )
}

/// Bars beside each other: name, value, and what is shown of it.
pub fn bars(title: &str, bars: &[(String, f64, String)]) -> String {
    let most = bars.iter().map(|bar| bar.1).fold(f64::MIN_POSITIVE, f64::max);
    let mut body = String::new();
    for (at, (name, value, shown)) in bars.iter().enumerate() {
        let (y, width) = (24.0 + 22.0 * at as f64, value / most * (WIDTH - 330.0));
        let _ = write!(
            body,
            "<text x=\"0\" y=\"{0}\">{1}</text><rect class=\"f0\" x=\"210\" y=\"{y}\" \
             width=\"{width:.1}\" height=\"16\" rx=\"3\"/><text x=\"{2:.1}\" y=\"{0}\">{3}</text>",
            y + 12.0,
            escaped(name),
            216.0 + width,
            escaped(shown),
        );
    }
    let height = 34.0 + 22.0 * bars.len() as f64;
    format!(
        "<svg class=\"plot\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" aria-label=\"{0}\"><text class=\"title\" x=\"0\" y=\"14\">{0}</text>\
         {body}</svg>",
        escaped(title)
    )
}

/// A page of `body` under `title` that needs nothing else.
pub fn page(title: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>:root{{color-scheme:light \
         dark;font:15px system-ui}}body{{max-width:46rem;margin:2rem auto;padding:0 1rem}}\
         svg{{width:100%;margin:1rem 0}}th{{text-align:left;font-weight:400;padding-right:2rem}}\
         td{{font-variant-numeric:tabular-nums}}</style>{STYLE}<h1>{title}</h1>{body}</html>"
    )
}

/// `text` without what HTML would take as its own.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The lowest and the highest of some points, as they follow each other; one where they are one.
fn extremes(points: &[(f64, f64)]) -> impl Iterator<Item = &(f64, f64)> {
    let by_height = |one: &usize, two: &usize| points[*one].1.total_cmp(&points[*two].1);
    let lowest = (0..points.len()).min_by(by_height);
    let highest = (0..points.len()).max_by(by_height);
    let both: std::collections::BTreeSet<usize> = lowest.into_iter().chain(highest).collect();
    both.into_iter().map(|place| &points[place])
}

/// The next round number at or above `value`.
fn ceiling(value: f64) -> f64 {
    let step = 10_f64.powf(value.log10().floor());
    let fits = [1.0, 2.0, 2.5, 4.0, 5.0, 8.0, 10.0].map(|times| times * step);
    fits.into_iter().find(|fits| *fits >= value * 0.999_999).unwrap_or(value)
}

/// A number as short as it can be told.
fn short(value: f64) -> String {
    let (value, unit) = match value {
        value if value >= 1e9 => (value / 1e9, "G"),
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e3 => (value / 1e3, "k"),
        value => (value, ""),
    };
    let text = format!("{value:.2}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_scales_end_at_round_ones() {
        assert_eq!(short(1_500_000.0), "1.5M");
        assert_eq!(short(0.25), "0.25");
        assert_eq!(short(0.0), "0");
        assert_eq!(ceiling(340_000.0), 400_000.0);
        assert_eq!(ceiling(1_000.0), 1_000.0);
    }

    #[test]
    fn a_plot_shows_its_lines_and_nothing_that_html_would_run() {
        let line = Line { name: "<b>", points: vec![(0.0, 1.0), (1.0, 2.0)] };
        let svg = lines("a & b", "s", "jobs/s", &[line]);
        assert!(svg.contains("&lt;b&gt;") && svg.contains("a &amp; b") && !svg.contains("<b>"));
        assert!(svg.contains("<polyline") && !svg.contains("NaN"));
    }

    #[test]
    fn a_peak_and_a_trough_are_seen_however_many_points_there_are() {
        let height = |at: u32| match at {
            3_333 => 0.0,
            7_777 => 100.0,
            _ => 50.0,
        };
        let point = |at: u32| (f64::from(at), height(at));
        let line = Line { name: "waits", points: (0..10_000).map(point).collect() };
        let svg = lines("t", "s", "ms", &[line]);
        let line = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        let heights: Vec<&str> = line.split(' ').map(|it| it.split(',').nth(1).unwrap()).collect();
        assert!(heights.len() <= POINTS_MAX);
        assert_eq!(heights.iter().filter(|height| **height != heights[0]).count(), 2);
    }

    #[test]
    fn a_plot_of_nothing_is_still_a_plot() {
        assert!(!lines("t", "s", "y", &[]).contains("NaN"));
        assert!(!bars("t", &[]).contains("NaN"));
    }
}
