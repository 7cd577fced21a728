//! What traces of compactions tell, real or simulated: figures, a table, drawings; and traces in
//! files.

mod file;
mod live;
mod plot;
mod summary;
mod table;

pub use file::{Entry, Reader, Recorder, parse, write};
pub use live::Live;
pub use plot::draw;
pub use summary::{LevelSummary, Stops, Summary};
pub use table::table;
