//! Names and their colours.

use crate::Outcome;
use crate::canvas::{Area, FONT};
use plotters::prelude::*;

/// Colours that people with any sight tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
    RGBColor(240, 228, 66),
];

/// Names in their order, each with a colour; after the eighth the colours come again.
#[derive(Clone, Debug, Default)]
pub struct Palette(Vec<(String, RGBColor)>);

impl Palette {
    /// Of these names; one that comes again is left out.
    pub fn of(names: impl IntoIterator<Item = String>) -> Palette {
        let mut known: Vec<String> = Vec::new();
        for name in names {
            if !known.contains(&name) {
                known.push(name);
            }
        }
        Palette(known.into_iter().zip(COLOURS.into_iter().cycle()).collect())
    }

    /// The colour of a name; the first one for a name that is not there.
    pub fn colour(&self, name: &str) -> RGBColor {
        let mut entries = self.0.iter();
        entries.find(|(other, _)| other == name).map_or(COLOURS[0], |(_, colour)| *colour)
    }

    /// Writes all names with their colours side by side.
    ///
    /// # Errors
    /// Of the drawing.
    pub fn legend(&self, area: &Area<'_>, y: i32) -> Outcome<()> {
        let mut x = 10;
        for (name, colour) in &self.0 {
            area.draw(&Rectangle::new([(x, y), (x + 12, y + 12)], colour.filled()))?;
            area.draw(&Text::new(name.clone(), (x + 18, y), (FONT, 13)))?;
            x += 34 + 8 * name.chars().count() as i32;
        }
        Ok(())
    }
}
