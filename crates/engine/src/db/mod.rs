//! The database: handles that users hold, and a module for each path behind them.
//!
//! | path | modules |
//! |---|---|
//! | write | `write` -> `separate`, `queue`, `stall` -> `commit` |
//! | read | `read`; `scan`, `unordered` |
//! | records of fields | `records` -> `secondary`, which stands before `write` and keeps indexes |
//! | open, close | `open` -> `recover` |
//! | background | `workers` -> `flushing`, `compact`, `collect` |
//! | groups | `requests` -> `external`, `epochs`, `application`; `groups`; `carry` -> `arrival` |
//! | upkeep | `keyspaces`, `checkpoint`, `ingest`, `verify`, `repair`, `destroy`, `inspect`, `statistics` |
//!
//! What they share, and the order of locks, is in `core`.

mod application;
mod arrival;
mod background;
mod carry;
mod checkpoint;
mod collect;
mod collect_report;
mod commit;
mod commit_state;
mod compact;
mod core;
mod destroy;
mod epochs;
mod erasures;
mod external;
mod flushing;
mod group_range;
mod groups;
mod handle;
mod index_state;
mod indexing;
mod ingest;
pub(crate) mod inspect;
mod journal;
mod keyspaces;
mod leisure;
#[cfg(all(test, esker_loom))]
mod models;
mod multi_get;
mod open;
mod panic_watch;
mod patience;
mod placing;
#[cfg(esker_planted)]
mod planted;
mod progress;
mod queue;
mod read;
mod records;
mod recover;
pub(crate) mod repair;
mod replayed;
mod requests;
mod reshape;
mod scan;
mod scan_ahead;
mod scan_range;
mod secondary;
mod separate;
mod separated;
mod snapshot;
mod source;
mod spare;
mod stall;
mod statistics;
mod steps;
mod turns;
mod underway;
mod unordered;
mod value_use;
mod verify;
mod workers;
mod write;

pub use application::Applied;
pub use carry::GroupFiles;
pub use collect_report::CollectReport;
pub use destroy::destroy;
pub use epochs::GroupIndex;
pub use groups::DeletedGroup;
pub use handle::{Db, Keyspace};
pub use ingest::Ingest;
pub use open::Setup;
#[cfg(esker_planted)]
pub use planted::Planted;
pub use scan::{Cursor, Pair, Pairs};
pub use scan_range::{ScanOptions, ScanRange};
pub use secondary::catalogue::{IndexInfo, IndexState};
pub use secondary::find::{FindOptions, Found};
pub use snapshot::Snapshot;
pub use unordered::UnorderedCursor;
pub use verify::{IndexReport, VerifyProgress, VerifyReport};
