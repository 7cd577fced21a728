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
            let axis = (x_min / 1.2..x_max * 1.2).log_scale();
            let mut chart = builder.build_cartesian_2d(axis, y_min..y_max)?;
            chart.configure_mesh().x_label_formatter(x_text).y_label_formatter(y_text).draw()?;
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
