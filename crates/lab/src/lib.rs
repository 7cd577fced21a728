//! What traces of compactions tell, real or simulated: figures, a table, drawings; and traces in files.

#![allow(clippy::disallowed_methods, reason = "traces are no part of a store")]

mod file;
mod plot;
mod summary;
mod table;

pub use file::{Recorder, read, write};
pub use plot::draw;
pub use summary::{LevelSummary, Stops, Summary};
pub use table::table;
