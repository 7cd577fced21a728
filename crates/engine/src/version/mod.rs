//! Versions: which tables are live, and the manifest that remembers it.
//!
//! Flow: flush and compaction produce a [`VersionEdit`]; [`VersionSet::commit`] writes it to the
//! manifest, makes it durable, and derives the next [`Version`] of each keyspace it touches.
//! Invariants: (1) a version is immutable; (2) what the manifest does not name does not exist; (3)
//! a table's file is removed only when no version holds the table any more.
//! Threads: the set is behind its owner's lock; versions are shared by reference count.
//! Crash: an edit is in force exactly if it is durable in the manifest that CURRENT names.

mod cover;
mod coverage;
mod cursor;
mod edit;
mod fences;
mod grouping;
mod groups;
mod keyspace;
mod manifest;
mod output;
mod recovered;
mod run;
mod run_tombstones;
mod salvage;
mod separated_output;
mod set;
mod spec;
mod state_edits;
mod store;
mod tree;
mod value_output;
mod values;
mod wals;

#[cfg(test)]
pub(crate) use cover::Cover;
pub(crate) use cover::Stretch;
pub(crate) use coverage::{Coverage, Replaced, RunDigest};
pub(crate) use cursor::RunCursor;
pub(crate) use edit::{
    Change, DEEPEST_LEVEL, GROUP_BYTES_MAX, GroupState, NOTE_BYTES_MAX, TableMeta, VersionEdit,
};
pub(crate) use groups::NamedGroups;
pub(crate) use keyspace::KeyspaceRecord;
pub(crate) use manifest::Current;
pub(crate) use output::{CUT_EARLY_FROM, RunOutput};
pub(crate) use recovered::{RawKeyspace, Recovered};
pub(crate) use run::{KeyRange, Run};
pub(crate) use run_tombstones::RunTombstones;
pub(crate) use salvage::{ManifestRemains, TableFact, write_state};
pub(crate) use separated_output::{SeparatedOutput, Written};
pub(crate) use set::VersionSet;
pub use spec::LevelScore;
pub(crate) use spec::{CompactionSpec, InputRun};
pub(crate) use store::{Table, TableStore};
pub(crate) use tree::Version;
pub(crate) use values::{NamedValues, live_bytes};
pub(crate) use wals::{NamedWal, NamedWals};
