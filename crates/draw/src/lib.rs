//! Drawings of measurements, as SVG: lines over an axis, groups of bars, in colours that people
//! with any sight tell apart; and the numbers beside them.

mod bars;
mod canvas;
mod chart;
mod html;
mod outcome;
mod palette;
pub mod units;

pub use bars::{Bar, Group, bars};
pub use canvas::{
    Area, BAR_HEIGHT, FONT, GROUP_GAP, HEAD_HEIGHT, NAME_WIDTH, WIDTH, drawing, title,
};
pub use chart::{Axes, Line, Points, RATES, chart};
pub use html::{Page, escaped};
pub use outcome::Outcome;
pub use palette::Palette;
