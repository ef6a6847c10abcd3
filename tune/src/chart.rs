//! [`Chart`]: bar charts over named categories, as SVG. [`BenchReport`](super::BenchReport) and
//! [`Report`](super::Report) draw theirs with it. Use it to draw figures of your own in the same
//! style.

use std::fmt::Write;

/// A bar chart of one quantity. Each named category, such as a problem size, has one bar per
/// series.
///
/// ```
/// use tilewright_tune::{Chart, Series};
/// let chart = Chart {
///     title: "Speed".into(),
///     note: "made up".into(),
///     quantity: "TFLOP/s".into(),
///     categories: vec!["512".into(), "1024".into()],
///     series: vec![Series::new("ours", vec![Some(70.0), Some(340.0)])],
/// };
/// let svg = chart.svg();
/// assert!(svg.starts_with("<svg") && svg.contains("TFLOP/s") && svg.contains("1024"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// The title.
    pub title: String,
    /// Where the figures come from: device, date, driver. It is printed small below the title.
    pub note: String,
    /// The quantity on the vertical axis, with its unit.
    pub quantity: String,
    /// The categories' names, from left to right.
    pub categories: Vec<String>,
    /// The series; each has one bar per category.
    pub series: Vec<Series>,
}

/// The bars of one colour in a [`Chart`], for example one library's kernel.
///
/// ```
/// use tilewright_tune::{Series, SeriesStyle};
/// let roofline = Series::new("roofline", vec![Some(1070.0), None]).style(SeriesStyle::Bound);
/// assert_eq!((roofline.values.len(), roofline.style), (2, SeriesStyle::Bound));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// One value per category, in the chart's order; `None` leaves a gap, for example for a kernel
    /// that cannot run the problem.
    pub values: Vec<Option<f64>>,
    /// Whether the series is drawn as bars or as a bound.
    pub style: SeriesStyle,
}

impl Series {
    /// Returns a series of plain bars. Call [`style`](Series::style) on it for another look.
    pub fn new(name: impl Into<String>, values: Vec<Option<f64>>) -> Series {
        Series { name: name.into(), values, style: SeriesStyle::Bar }
    }

    /// Sets how the series is drawn, for example [`SeriesStyle::Main`] for the one that the chart
    /// is about.
    pub fn style(self, style: SeriesStyle) -> Series {
        Series { style, ..self }
    }
}

/// How a [`Series`] is drawn: as labelled bars, plain bars, or a bound. [`Series::new`] makes plain
/// bars.
///
/// ```
/// use tilewright_tune::{Series, SeriesStyle};
/// assert_eq!(Series::new("cuBLAS", vec![]).style, SeriesStyle::Bar);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SeriesStyle {
    /// Bars with their values printed above: the series that the chart is about.
    Main,
    /// Plain bars without values, for series to compare with.
    Bar,
    /// A line across each category's bars, for an upper bound such as the roofline.
    Bound,
}

pub(super) const WIDTH: f64 = 880.0;
pub(super) const HEIGHT: f64 = 470.0;
pub(super) const LEFT: f64 = 64.0;
pub(super) const RIGHT: f64 = 24.0;
pub(super) const TOP: f64 = 96.0;
pub(super) const BOTTOM: f64 = 84.0;
/// The fonts of all texts.
const SANS: &str = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";
pub(super) const INK: &str = "#111111";
pub(super) const FAINT: &str = "#555555";
pub(super) const GRID: &str = "#DDDDDD";
/// Replaces the colours of text, lines and background if the viewer prefers a dark page. A viewer
/// without CSS draws the light chart.
const DARK: &str = concat!(
    "<style>@media (prefers-color-scheme: dark) { ",
    "[fill=\"#FFFFFF\"] { fill: #0D1117 } ",
    "[fill=\"#111111\"] { fill: #EEEEEE } [stroke=\"#111111\"] { stroke: #EEEEEE } ",
    "[fill=\"#555555\"] { fill: #AAAAAA } [stroke=\"#555555\"] { stroke: #AAAAAA } ",
    "[stroke=\"#DDDDDD\"] { stroke: #333A44 } }</style>"
);
/// Paul Tol's "bright" scheme, which colour-blind readers can tell apart; grey is for bounds.
pub(super) const COLOURS: [&str; 6] =
    ["#4477AA", "#EE6677", "#228833", "#AA3377", "#CCBB44", "#66CCEE"];
const BOUND: &str = "#888888";

/// Writes a line. Writing into a `String` cannot fail.
macro_rules! put {
    ($out:expr, $($format:tt)*) => { let _ = writeln!($out, $($format)*); };
}
pub(super) use put;

/// Returns the beginning of a chart: background, title and note.
pub(super) fn head(title: &str, note: &str) -> String {
    let mut out = String::new();
    let (title, note) = (escaped(title), escaped(note));
    put!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} \
         {HEIGHT}\">"
    );
    put!(out, "<title>{title}</title>");
    put!(out, "{DARK}");
    put!(out, "<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#FFFFFF\"/>");
    put!(out, "<g font-family=\"{SANS}\" font-size=\"13\" fill=\"{INK}\">");
    put!(out, "<text x=\"{LEFT}\" y=\"28\" font-size=\"18\" font-weight=\"bold\">{title}</text>");
    put!(out, "<text x=\"{LEFT}\" y=\"48\" font-size=\"12\" fill=\"{FAINT}\">{note}</text>");
    out
}

/// Draws a series' key in the legend, and returns where the next one starts.
pub(super) fn key(
    out: &mut String,
    x: f64,
    (y, height): (f64, f64),
    colour: &str,
    name: &str,
) -> f64 {
    put!(out, "<rect x=\"{x:.1}\" y=\"{y}\" width=\"16\" height=\"{height}\" fill=\"{colour}\"/>");
    put!(out, "<text x=\"{:.1}\" y=\"74.5\">{}</text>", x + 22.0, escaped(name));
    // Letters in this font are about 7 wide.
    x + 44.0 + 6.9 * name.chars().count() as f64
}

impl Chart {
    /// Returns the chart as SVG 1.1, 880 x 470. It follows the dark mode of the page that shows it.
    /// Write it to a file or into a page.
    pub fn svg(&self) -> String {
        let mut out = head(&self.title, &self.note);
        let step = self.step();
        let top = (self.largest() / step).ceil().max(1.0) * step;
        let up = |value: f64| HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM);
        self.grid(&mut out, step, top, &up);
        self.legend(&mut out);
        for (i, series) in self.series.iter().enumerate() {
            self.marks(&mut out, series, i, &up);
        }
        out.push_str("</g>\n</svg>\n");
        out
    }

    fn largest(&self) -> f64 {
        let values = self.series.iter().flat_map(|series| series.values.iter().flatten());
        values.copied().filter(|value| value.is_finite()).fold(0.0, f64::max)
    }

    /// Returns the spacing of the grid lines: 1, 2 or 5 times a power of 10, for 4 to 10 lines.
    fn step(&self) -> f64 {
        let rough = (self.largest() / 6.0).max(1e-9);
        let power = 10f64.powf(rough.log10().floor());
        let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= rough);
        factor.unwrap_or(10.0) * power
    }

    fn colour(&self, index: usize) -> &'static str {
        let is_bound = |series: &Series| series.style == SeriesStyle::Bound;
        match self.series.get(index) {
            Some(series) if is_bound(series) => BOUND,
            _ => {
                let before = self.series.iter().take(index).filter(|series| !is_bound(series));
                COLOURS[before.count() % COLOURS.len()]
            }
        }
    }

    /// Returns a category's width.
    fn width(&self) -> f64 {
        (WIDTH - LEFT - RIGHT) / self.categories.len().max(1) as f64
    }

    /// Returns a category's centre.
    fn x(&self, category: usize) -> f64 {
        LEFT + (category as f64 + 0.5) * self.width()
    }

    fn grid(&self, out: &mut String, step: f64, top: f64, up: &impl Fn(f64) -> f64) {
        let lines = (top / step).round() as usize;
        for line in 0..=lines {
            let value = line as f64 * step;
            let y = up(value);
            let colour = if line == 0 { FAINT } else { GRID };
            put!(
                out,
                "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{}\" y2=\"{y:.1}\" stroke=\"{colour}\"/>",
                WIDTH - RIGHT
            );
            put!(
                out,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{FAINT}\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                number(value)
            );
        }
        let y = HEIGHT - BOTTOM + 22.0;
        for (category, name) in self.categories.iter().enumerate() {
            // Each word of a name has a line of its own.
            for (line, word) in name.split(' ').enumerate() {
                put!(
                    out,
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    self.x(category),
                    y + 16.0 * line as f64,
                    escaped(word)
                );
            }
        }
        put!(
            out,
            "<text x=\"18\" y=\"{:.1}\" fill=\"{FAINT}\" text-anchor=\"middle\" transform=\"rotate(-90 18 {:.1})\">{}</text>",
            (TOP + HEIGHT - BOTTOM) / 2.0,
            (TOP + HEIGHT - BOTTOM) / 2.0,
            escaped(&self.quantity)
        );
    }

    fn legend(&self, out: &mut String) {
        let mut x = LEFT;
        for (i, series) in self.series.iter().enumerate() {
            let place = if series.style == SeriesStyle::Bound { (68.5, 3.0) } else { (63.0, 13.0) };
            x = key(out, x, place, self.colour(i), &series.name);
        }
    }

    /// Returns the height for a category's label: above its bars, and above a bound that is close
    /// to them.
    fn above(&self, category: usize, up: &impl Fn(f64) -> f64) -> f64 {
        let tops = |of_bounds: bool| {
            let of = move |series: &&Series| (series.style == SeriesStyle::Bound) == of_bounds;
            let values = self
                .series
                .iter()
                .filter(of)
                .filter_map(move |series| *series.values.get(category)?);
            values.filter(|value| value.is_finite()).map(|value| up(value.max(0.0)))
        };
        let free = tops(false).fold(HEIGHT - BOTTOM, f64::min) - 8.0;
        let covered = tops(true).filter(|bound| (free - 14.0..free + 6.0).contains(bound));
        covered.map(|bound| bound - 6.0).fold(free, f64::min)
    }

    fn marks(&self, out: &mut String, series: &Series, index: usize, up: &impl Fn(f64) -> f64) {
        let is_bar = |series: &&Series| series.style != SeriesStyle::Bound;
        let bars = self.series.iter().filter(is_bar).count().max(1) as f64;
        let before = self.series.iter().take(index).filter(is_bar).count() as f64;
        // A category's bars take four fifths of its width, up to a maximum per bar.
        let bar = (self.width() * 0.8 / bars).min(40.0);
        let colour = self.colour(index);
        let values = series.values.iter().take(self.categories.len()).enumerate();
        for (category, value) in values.filter_map(|(category, value)| Some((category, (*value)?)))
        {
            if !value.is_finite() {
                continue;
            }
            let (left, y) = (self.x(category) - bars * bar / 2.0, up(value.max(0.0)));
            if series.style == SeriesStyle::Bound {
                put!(
                    out,
                    "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"3\" fill=\"{colour}\"/>",
                    left - 2.0,
                    y - 1.5,
                    bars * bar + 4.0
                );
                continue;
            }
            let x = left + before * bar;
            put!(
                out,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>",
                bar - 1.0,
                HEIGHT - BOTTOM - y
            );
            if series.style == SeriesStyle::Main {
                put!(
                    out,
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"12\" font-weight=\"bold\" fill=\"{colour}\">{}</text>",
                    self.x(category),
                    self.above(category, up),
                    number(value)
                );
            }
        }
    }
}

/// Formats a value with at least three significant digits and without trailing zeros. Only zero
/// prints as "0".
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || size >= 100.0 || !size.is_finite() {
        return format!("{value:.0}");
    }
    if size < 1e-4 {
        return format!("{value:.2e}");
    }
    // 1 decimal for 10 to 100, 2 for 1 to 10, and so on.
    let digits = (2.0 - size.log10().floor()) as usize;
    let text = format!("{value:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Escapes the characters that mean something in XML, and drops those that XML forbids.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            c if c.is_control() || matches!(c, '\u{FFFE}' | '\u{FFFF}') => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(series: Vec<Series>) -> Chart {
        Chart {
            title: "a < b & \"c\"".into(),
            note: String::new(),
            quantity: "TFLOP/s".into(),
            categories: ["512", "1024", "2048"].map(String::from).into(),
            series,
        }
    }

    #[test]
    fn texts_are_escaped_and_all_lines_are_inside() {
        let values = |scale: f64| vec![Some(scale), None, Some(2.0 * scale)];
        for scale in [0.0, 1e-3, 0.7, 4.2, 99.0, 1070.0, 1e6] {
            let svg = chart(vec![
                Series::new("<ours>", values(scale)).style(SeriesStyle::Main),
                Series::new("bound", vec![Some(scale); 3]).style(SeriesStyle::Bound),
            ])
            .svg();
            assert!(svg.contains("a &lt; b &amp; &quot;c&quot;") && svg.contains("&lt;ours&gt;"));
            for attribute in [" x=\"", " y=\"", "height=\"", "y1=\"", "y2=\""] {
                for part in svg.split(attribute).skip(1) {
                    let number: f64 = part.split('"').next().unwrap().parse().unwrap();
                    assert!((0.0..=WIDTH).contains(&number), "{attribute}{number}, {scale}");
                }
            }
            // The background, two legend marks, one bar per value, and three bounds.
            assert_eq!(svg.matches("<rect").count(), 1 + 2 + 2 + 3);
        }
    }

    #[test]
    fn an_empty_chart_is_one() {
        let empty = Chart { categories: Vec::new(), ..chart(Vec::new()) };
        assert!(empty.svg().ends_with("</svg>\n"));
        let odd = chart(vec![Series::new("nan", vec![Some(f64::NAN), Some(f64::INFINITY)])]);
        assert!(!odd.svg().contains("NaN") && !odd.svg().contains("inf"));
    }

    #[test]
    fn a_label_has_three_digits() {
        let mantissas = [1.0, 1.234, 2.5, 9.87, 9.999];
        for value in (-9..9).flat_map(|e| mantissas.map(|mantissa| mantissa * 10f64.powi(e))) {
            let text = number(value);
            let read: f64 = text.parse().unwrap();
            assert!((read / value - 1.0).abs() <= 0.005, "{value}: {text}");
            assert!(text.len() <= 11, "{value}: {text}");
        }
        assert_eq!([0.0, 0.004, 0.3, 4.2, 100.0].map(number), ["0", "0.004", "0.3", "4.2", "100"]);
    }

    /// The simulator's GB/s are tiny; their chart still needs labels.
    #[test]
    fn a_chart_of_small_values_has_labels() {
        let svg = chart(vec![Series::new("x", vec![Some(0.0042)]).style(SeriesStyle::Main)]).svg();
        assert!(svg.contains(">0.0042<") && svg.contains(">0.004<"));
        assert_eq!(svg.matches(">0<").count(), 1);
    }

    #[test]
    fn the_grid_has_few_lines() {
        for largest in [0.011, 0.3, 7.0, 99.0, 101.0, 705.0, 1070.0] {
            let chart = chart(vec![Series::new("x", vec![Some(largest)])]);
            let lines = (largest / chart.step()).ceil();
            assert!((3.0..=10.0).contains(&lines), "{largest}: {lines}");
        }
    }
}
