//! Esker's own interface for C: `esker.h`.
//!
//! Every function that can fail returns a code, and `esker_last_error` the text that belongs to it.
//! Handles are opaque, and each is closed by a function of its own, in any order: what others still
//! need stays alive behind them. After `esker_close` whatever belongs to the database says that it
//! is closed.
//! Flow: `store` -> the engine; `data`, `batch`, `cursor`, `find`, `groups`, `upkeep` -> `store`;
//! errors -> `error`.
//! Threads: databases, keyspaces and snapshots may be used by all at once, everything else by one
//! at a time.

mod batch;
mod cursor;
mod data;
mod error;
mod find;
mod groups;
mod record;
mod store;
mod upkeep;

pub use batch::*;
pub use cursor::*;
pub use data::*;
pub use error::{esker_code, esker_last_error};
pub use find::*;
pub use groups::*;
pub use record::*;
pub use store::*;
pub use upkeep::*;
