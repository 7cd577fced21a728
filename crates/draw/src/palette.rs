//! Names and their colours.

use crate::Outcome;
use crate::canvas::{Area, FONT, HEAD_HEIGHT, WIDTH};
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

/// Where the first row of a legend stands, and how far the next is below it.
const LEGEND_TOP: i32 = 34;
const LEGEND_ROW: i32 = 18;

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

    /// What the title and the legend take of the height of a drawing.
    pub fn head_height(&self) -> u32 {
        let last = self.places().last().map_or(LEGEND_TOP, |(_, y)| *y);
        HEAD_HEIGHT + (last - LEGEND_TOP) as u32
    }

    /// Writes all names with their colours side by side, in as many rows as that takes.
    ///
    /// # Errors
    /// Of the drawing.
    pub fn legend(&self, area: &Area<'_>) -> Outcome<()> {
        for ((name, colour), (x, y)) in self.0.iter().zip(self.places()) {
            area.draw(&Rectangle::new([(x, y), (x + 12, y + 12)], colour.filled()))?;
            area.draw(&Text::new(name.clone(), (x + 18, y), (FONT, 13)))?;
        }
        Ok(())
    }

    /// Where each name stands.
    fn places(&self) -> Vec<(i32, i32)> {
        let (mut x, mut y, mut places) = (10, LEGEND_TOP, Vec::new());
        for (name, _) in &self.0 {
            let width = 34 + 8 * name.chars().count() as i32;
            if x > 10 && x + width > WIDTH as i32 {
                (x, y) = (10, y + LEGEND_ROW);
            }
            places.push((x, y));
            x += width;
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_legend_takes_several_rows() {
        let names =
            |count: usize| Palette::of((0..count).map(|nth| format!("{nth}{}", "x".repeat(30))));
        assert_eq!(names(0).head_height(), HEAD_HEIGHT);
        assert_eq!(names(3).head_height(), HEAD_HEIGHT);
        let places = names(7).places();
        assert_eq!(names(7).head_height(), HEAD_HEIGHT + 2 * LEGEND_ROW as u32);
        assert!(places.iter().all(|(x, _)| x + 34 + 8 * 31 <= WIDTH as i32), "{places:?}");
        assert_eq!((places[3].0, places[3].1), (10, LEGEND_TOP + LEGEND_ROW));
    }
}
