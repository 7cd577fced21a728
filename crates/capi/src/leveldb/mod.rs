//! The functions of LevelDB 1.23's `leveldb/c.h`, on Esker.
//!
//! Names, arguments and what they mean are LevelDB's; docs/c-api.md says what differs. Memory that
//! is handed out is freed with `free` or `leveldb_free`.
//! Flow: `options`, `policy` -> `db` -> the engine; `db` -> `iterator`, `property`; `batch` ->
//! `db`; errors -> `status`.
//! Threads: a database, a snapshot and options that nobody sets any more may be used by all at
//! once, everything else by one at a time.

mod batch;
mod db;
mod foreign;
mod iterator;
mod options;
mod policy;
mod property;
mod snapshot;
mod status;

pub use batch::*;
pub use db::*;
pub use iterator::*;
pub use options::*;
pub use policy::*;
pub use snapshot::*;
