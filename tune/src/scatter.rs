//! [`Scatter`]: scatter plots with two logarithmic axes, as SVG, for example speedup over problem
//! size. Use it if bars per problem would be too many.

use std::fmt::Write;

use super::chart::{
    BOTTOM, COLOURS, FAINT, GRID, HEIGHT, INK, LEFT, RIGHT, TOP, WIDTH, escaped, head, key, number,
    put,
};

/// A scatter plot of ratios over problem sizes. Both axes are logarithmic, and a line marks ratio
/// 1.
///
/// ```
/// use tilewright_tune::{PointSeries, Scatter};
/// let scatter = Scatter {
///     title: "Beside cuBLAS".into(),
///     note: "made up".into(),
///     axes: ["operations".into(), "speed relative to cuBLAS".into()],
///     series: vec![PointSeries { name: "any sizes".into(), points: vec![[1e6, 1.4], [3e9, 0.97]] }],
/// };
/// assert_eq!(scatter.svg().matches("<circle").count(), 2);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Scatter {
    /// The title.
    pub title: String,
    /// Where the figures come from: device, date, driver.
    pub note: String,
    /// The names of the quantities on the horizontal and the vertical axis, with their units.
    pub axes: [String; 2],
    /// The series, each in its own colour.
    pub series: Vec<PointSeries>,
}

/// The points of one colour in a [`Scatter`], for example one kind of problem.
///
/// ```
/// use tilewright_tune::PointSeries;
/// let points = (9..12).map(|power| [f64::powi(2.0, power), 1.0]).collect();
/// let series = PointSeries { name: "squares".into(), points };
/// assert_eq!(series.points[0], [512.0, 1.0]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PointSeries {
    /// The name in the legend.
    pub name: String,
    /// Each point's horizontal and vertical value. A point with a value that is not positive and
    /// finite is not drawn.
    pub points: Vec<[f64; 2]>,
}

/// Where the vertical axis may have grid lines.
const RATIOS: [f64; 17] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0];

impl Scatter {
    /// Returns the plot as SVG 1.1, 880 x 470 on a white background. Write it to a file or into a
    /// page.
    pub fn svg(&self) -> String {
        let mut out = head(&self.title, &self.note);
        let [xs, ys] = [0, 1].map(|axis| self.range(axis));
        // The vertical axis always includes 1 and its neighbours.
        let [low, high] = [ys[0].min(0.8), ys[1].max(1.2)];
        let place = |value: f64, [low, high]: [f64; 2]| (value / low).ln() / (high / low).ln();
        let right = |x: f64| LEFT + place(x, xs) * (WIDTH - LEFT - RIGHT);
        let up = |y: f64| HEIGHT - BOTTOM - place(y, [low, high]) * (HEIGHT - TOP - BOTTOM);
        for ratio in RATIOS.into_iter().filter(|ratio| (low..=high).contains(ratio)) {
            let (y, colour) = (up(ratio), if ratio == 1.0 { INK } else { GRID });
            let end = WIDTH - RIGHT;
            put!(
                out,
                "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{end}\" y2=\"{y:.1}\" stroke=\"{colour}\"/>"
            );
            let (x, y, text) = (LEFT - 8.0, y + 4.0, number(ratio));
            put!(
                out,
                "<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\" fill=\"{FAINT}\">{text}</text>"
            );
        }
        let [first, last] = xs.map(f64::log10);
        for power in first.ceil() as i32..=last.floor() as i32 {
            let (x, y) = (right(10f64.powi(power)), HEIGHT - BOTTOM);
            put!(
                out,
                "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{y}\" stroke=\"{GRID}\"/>"
            );
            let y = y + 22.0;
            put!(
                out,
                "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\" fill=\"{FAINT}\">1e{power}</text>"
            );
        }
        let [across, along] = self.axes.each_ref().map(|axis| escaped(axis));
        let (x, y) = ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - BOTTOM + 46.0);
        put!(
            out,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" fill=\"{FAINT}\">{across}</text>"
        );
        let y = (TOP + HEIGHT - BOTTOM) / 2.0;
        put!(
            out,
            "<text x=\"18\" y=\"{y}\" fill=\"{FAINT}\" text-anchor=\"middle\" transform=\"rotate(-90 18 {y})\">{along}</text>"
        );
        let mut at = LEFT;
        for (series, colour) in self.series.iter().zip(COLOURS.into_iter().cycle()) {
            at = key(&mut out, at, (63.0, 13.0), colour, &series.name);
            for [x, y] in series.points.iter().filter(|point| is_drawn(point)) {
                let (x, y) = (right(*x), up(*y));
                put!(
                    out,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\" fill-opacity=\"0.7\"/>"
                );
            }
        }
        out.push_str("</g>\n</svg>\n");
        out
    }

    /// Returns the smallest and the largest value on an axis, with a margin.
    fn range(&self, axis: usize) -> [f64; 2] {
        let points = self.series.iter().flat_map(|series| &series.points);
        let values = points.filter(|point| is_drawn(point)).map(|point| point[axis]);
        let start = [f64::INFINITY, 0.0];
        let [low, high] =
            values.fold(start, |[low, high], value| [low.min(value), high.max(value)]);
        if high > 0.0 { [low / 1.1, high * 1.1] } else { [0.5, 2.0] }
    }
}

fn is_drawn(point: &[f64; 2]) -> bool {
    point.iter().all(|value| value.is_finite() && *value > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_points_are_inside_and_the_line_is_at_1() {
        let points = vec![[1e4, 0.4], [2e12, 7.0], [1e9, f64::NAN], [0.0, 1.0]];
        for points in [points, vec![[5.0, 1.0]], Vec::new()] {
            let drawn = points.iter().filter(|point| is_drawn(point)).count();
            let series = vec![PointSeries { name: "<any>".into(), points }];
            let axes = ["operations".into(), "ratio".into()];
            let scatter = Scatter { title: "a & b".into(), note: String::new(), axes, series };
            let svg = scatter.svg();
            assert!(svg.contains("&lt;any&gt;") && svg.ends_with("</svg>\n"));
            assert_eq!(svg.matches("<circle").count(), drawn);
            assert_eq!(svg.matches(&format!(" stroke=\"{INK}\"")).count(), 1);
            for (attribute, max) in [(" cx=\"", WIDTH), (" cy=\"", HEIGHT), ("y1=\"", HEIGHT)] {
                for part in svg.split(attribute).skip(1) {
                    let at: f64 = part.split('"').next().unwrap().parse().unwrap();
                    assert!((0.0..=max).contains(&at), "{attribute}{at}");
                }
            }
        }
    }
}
