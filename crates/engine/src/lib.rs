//! Esker: an embedded log-structured merge-tree key-value store.
//!
//! Start at [`Db::open`]. A database holds [`Keyspace`]s; writes go one by one or in a [`Batch`],
//! reads by key or by [`Cursor`], at the present or at a [`Snapshot`].
// Re-exports only; the house is described in docs/architecture.md.

#[doc(hidden)]
pub mod block;
#[doc(hidden)]
pub mod cache;
mod compaction;
#[doc(hidden)]
pub mod cursor;
mod db;
pub mod event;
pub mod fields;
mod flush;
mod gc;
mod iter;
mod log;
mod memtable;
#[cfg(all(test, esker_loom))]
mod models;
#[doc(hidden)]
pub mod names;
pub mod options;
#[cfg(test)]
mod random;
#[doc(hidden)]
pub mod range_tombstone;
pub mod report;
mod run_index;
pub mod simulate;
#[doc(hidden)]
pub mod stats;
#[doc(hidden)]
pub mod table;
pub mod trace;
pub mod value;
mod value_log;
mod version;

/// Looking into files: what stands in a log, a table or CURRENT, damaged ones included.
pub mod inspect {
    pub use crate::db::inspect::{
        CurrentDump, DumpOptions, DumpedKind, DumpedOp, LogEvent, TableEvent, dump_current,
        dump_log, dump_table,
    };
}

/// Making a damaged database one that opens again.
pub mod repair {
    pub use crate::db::repair::{
        FileFate, FileReport, KeyspaceReport, LostRange, MissingWrites, RepairProgress,
        RepairReport, Structure, repair,
    };
}

#[cfg(esker_planted)]
pub use db::Planted;
pub use db::{
    Applied, CollectReport, Cursor, Db, DeletedGroup, FindOptions, Found, GroupFiles, GroupIndex,
    IndexInfo, IndexReport, IndexState, Ingest, Keyspace, Pair, Pairs, ScanOptions, ScanRange,
    Setup, Snapshot, UnorderedCursor, VerifyProgress, VerifyReport, destroy,
};
pub use esker_base as base;
pub use esker_base::{Batch, Comparator, Error, KeyOrder, KeyspaceId, Result};
pub use options::{
    Compaction, Compression, Durability, Filter, FilterPolicy, GroupPrefix, KeyspaceOptions,
    Options, Scheduler, TimeSlice, WriteOptions,
};
pub use value::Value;

/// The example of the README, run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
