//! Groups of bars, each group scaled to its longest.

use crate::Outcome;
use crate::canvas::{BAR_HEIGHT, FONT, GROUP_GAP, NAME_WIDTH, WIDTH, drawing, title};
use crate::palette::Palette;
use plotters::prelude::*;

/// What the figure beside the longest bar takes.
const FIGURE_WIDTH: i32 = 110;

/// Bars that are compared with each other.
#[derive(Clone, Debug)]
pub struct Group {
    /// What is compared.
    pub label: String,
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

impl Group {
    /// Of bars with a name, a value and what is written beside it.
    pub fn new<'a>(
        label: impl Into<String>,
        bars: impl IntoIterator<Item = (&'a str, (f64, String))>,
    ) -> Group {
        let bar = |(name, (value, text)): (&str, _)| Bar { name: name.to_owned(), value, text };
        Group { label: label.into(), bars: bars.into_iter().map(bar).collect() }
    }
}

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Whose it is: decides the colour.
    pub name: String,
    /// How long it is, beside others of its group.
    pub value: f64,
    /// What is written beside it.
    pub text: String,
}

/// Draws groups below each other.
///
/// # Errors
/// Of the drawing.
pub fn bars(heading: &str, groups: &[Group], palette: &Palette) -> Outcome<String> {
    let count: u32 = groups.iter().map(|group| group.bars.len() as u32).sum();
    let head = palette.head_height();
    let height = head + count * BAR_HEIGHT + groups.len() as u32 * GROUP_GAP;
    drawing(height, |area| {
        title(area, heading)?;
        palette.legend(area)?;
        let mut y = head as i32;
        let room = f64::from(WIDTH as i32 - NAME_WIDTH - FIGURE_WIDTH);
        for group in groups {
            let longest = group.bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
            area.draw(&Text::new(group.label.clone(), (10, y + 3), (FONT, 14)))?;
            for bar in &group.bars {
                let end = NAME_WIDTH + (room * bar.value / longest) as i32;
                let corners = [(NAME_WIDTH, y + 2), (end, y + BAR_HEIGHT as i32 - 2)];
                area.draw(&Rectangle::new(corners, palette.colour(&bar.name).filled()))?;
                area.draw(&Text::new(bar.text.clone(), (end + 6, y + 3), (FONT, 13)))?;
                y += BAR_HEIGHT as i32;
            }
            y += GROUP_GAP as i32;
        }
        Ok(())
    })
}
