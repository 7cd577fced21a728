//! The database: handles that users hold, and a module for each path behind them.
//!
//! | path | modules |
//! |---|---|
//! | write | `write` -> `queue`, `stall` -> `commit` |
//! | read | `read`; `scan` |
//! | open, close | `open` -> `recover` |
//! | background | `workers` -> `flushing`, `compact` |
//! | upkeep | `keyspaces`, `checkpoint`, `ingest`, `verify`, `repair`, `inspect`, `statistics` |
//!
//! What they share, and the order of locks, is in `core`.

mod background;
mod checkpoint;
mod commit;
mod commit_state;
mod compact;
mod core;
mod flushing;
mod handle;
mod index_state;
mod indexing;
mod ingest;
pub(crate) mod inspect;
mod keyspaces;
#[cfg(all(test, esker_loom))]
mod models;
mod open;
mod queue;
mod read;
mod recover;
pub(crate) mod repair;
mod scan;
mod snapshot;
mod spare;
mod stall;
mod statistics;
mod steps;
mod underway;
mod verify;
mod workers;
mod write;

pub use handle::{Db, Keyspace};
pub use ingest::Ingest;
pub use open::Setup;
pub use scan::{Cursor, Pair, Pairs, ScanOptions, ScanRange};
pub use snapshot::Snapshot;
pub use verify::{VerifyProgress, VerifyReport};
