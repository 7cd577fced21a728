//! Lines over a common axis.

use crate::Outcome;
use crate::canvas::{HEAD_HEIGHT, drawing, title};
use crate::palette::Palette;
use crate::units::rate;
use plotters::prelude::*;

const HEIGHT: u32 = 420;

/// Places on a line.
pub type Points = Vec<(f64, f64)>;
/// A name, and points under it.
pub type Line = (String, Points);

/// What the axes of a chart are.
#[derive(Clone, Copy)]
pub struct Axes<'a> {
    /// The x axis is logarithmic, and each point is marked.
    pub logarithmic_x: bool,
    /// Where the y axis starts.
    pub y_from: f64,
    /// How a place on the y axis is written.
    pub y_text: &'a dyn Fn(&f64) -> String,
    /// How a place on the x axis is written.
    pub x_text: &'a dyn Fn(&f64) -> String,
}

/// Something a second, from nothing on, over something that is counted.
pub const RATES: Axes<'_> = Axes {
    logarithmic_x: false,
    y_from: 0.0,
    y_text: &|y: &f64| rate(*y),
    x_text: &|x: &f64| rate(*x),
};

/// 1, 2 and 5 times each power of ten between two numbers.
fn round_numbers(from: f64, to: f64) -> Vec<f64> {
    let powers = from.max(f64::MIN_POSITIVE).log10().floor() as i32..=to.log10().ceil() as i32;
    let numbers = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|n| n * 10f64.powi(power)));
    numbers.filter(|n| (from..=to).contains(n)).collect()
}

/// Draws lines, each in the colour of its name.
///
/// # Errors
/// Of the drawing.
pub fn chart(heading: &str, lines: &[Line], palette: &Palette, axes: &Axes<'_>) -> Outcome<String> {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let x_min = points().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let x_max = points().map(|p| p.0).fold(0.0, f64::max);
    let y_max = points().map(|p| p.1).fold(axes.y_from + 1.0, f64::max) * 1.05;
    drawing(HEIGHT + palette.head_height() - HEAD_HEIGHT, |area| {
        title(area, heading)?;
        palette.legend(area)?;
        let (_, below) = area.split_vertically(palette.head_height());
        let mut builder = ChartBuilder::on(&below);
        builder.margin_right(20).x_label_area_size(30).y_label_area_size(70);
        let style = |name: &str| palette.colour(name).stroke_width(2);
        let (x_text, y_text, y_min) = (axes.x_text, axes.y_text, axes.y_from);
        if axes.logarithmic_x {
            let (from, to) = (x_min / 1.2, x_max * 1.2);
            let axis = (from..to).log_scale().with_key_points(round_numbers(from, to));
            let mut chart = builder.build_cartesian_2d(axis, y_min..y_max)?;
            let mut mesh = chart.configure_mesh();
            mesh.x_label_formatter(x_text).y_label_formatter(y_text).max_light_lines(0).draw()?;
            for (name, points) in lines {
                chart.draw_series(LineSeries::new(points.iter().copied(), style(name)))?;
                let dot = |&point: &(f64, f64)| Circle::new(point, 4, style(name).filled());
                chart.draw_series(points.iter().map(dot))?;
            }
        } else {
            let mut chart = builder.build_cartesian_2d(0.0..x_max.max(0.1), y_min..y_max)?;
            chart.configure_mesh().x_label_formatter(x_text).y_label_formatter(y_text).draw()?;
            for (name, points) in lines {
                chart.draw_series(LineSeries::new(points.iter().copied(), style(name)))?;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_a_logarithmic_axis_stand_apart() {
        assert_eq!(round_numbers(0.83e6, 60e6), [1e6, 2e6, 5e6, 10e6, 20e6, 50e6]);
        assert_eq!(round_numbers(5.0, 7.0), [5.0]);
        let points = [1e6, 10e6, 50e6].map(|x| (x, 1.0)).to_vec();
        let axes = Axes { logarithmic_x: true, ..RATES };
        let palette = Palette::of(["a".to_owned()]);
        let drawn = chart("growth", &[("a".to_owned(), points)], &palette, &axes).expect("drawn");
        for (place, shown) in [("1.00 M", true), ("50.0 M", true), ("9.00 M", false)] {
            assert_eq!(drawn.contains(place), shown, "{place}");
        }
    }
}
