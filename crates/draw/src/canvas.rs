//! A drawing in a string, and the measures that all drawings have in common.

use crate::Outcome;
use plotters::coord::Shift;
use plotters::prelude::*;

/// Width of every drawing.
pub const WIDTH: u32 = 960;
/// Height of a bar.
pub const BAR_HEIGHT: u32 = 20;
/// Between two groups of bars.
pub const GROUP_GAP: u32 = 14;
/// What title and legend take.
pub const HEAD_HEIGHT: u32 = 56;
/// What the names of groups take.
pub const NAME_WIDTH: i32 = 190;
/// Of all text.
pub const FONT: &str = "sans-serif";

/// What is drawn on.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws into a string.
///
/// # Errors
/// Of `draw`.
pub fn drawing(height: u32, draw: impl FnOnce(&Area<'_>) -> Outcome<()>) -> Outcome<String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE)?;
        draw(&area)?;
        area.present()?;
    }
    Ok(text)
}

/// Writes what a drawing shows above it.
///
/// # Errors
/// Of the drawing.
pub fn title(area: &Area<'_>, text: &str) -> Outcome<()> {
    area.draw(&Text::new(text.to_owned(), (10, 8), (FONT, 20)))?;
    Ok(())
}
