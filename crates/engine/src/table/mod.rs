//! Table (SSTable): an immutable sorted file of records with its own index and filters.
//!
//! Flow: flush and compaction -> [`TableBuilder`] -> file;  file -> [`TableReader`] -> gets and
//! [`TableCursor`]s.
//! Format: docs/format/table.md (the only description), made of blocks as in docs/format/block.md.
//! In short: data blocks, cut into partitions that each end with an index and a filter block; then
//! digest, references, range tombstones, properties, an index over the partitions, and a footer of
//! fixed size.
//! Invariants: (1) records are in strictly increasing internal-key order; (2) every byte read is
//! covered by a checksum that binds the file's salt and the offset; (3) nothing is allocated from a
//! length in the file before it is bounded by the file's own length.
//! Threads: a builder belongs to one thread; a reader is shared by all; a cursor belongs to one.
//! Crash: a table counts only once the manifest names it, which is after `finish` has synced it.

mod block_cache;
mod builder;
#[cfg(test)]
mod copied_tests;
mod cursor;
mod digest;
mod file;
mod filter;
mod format;
#[cfg(test)]
mod golden;
mod index;
mod inspect;
mod lookup;
#[cfg(all(test, esker_loom))]
mod models;
mod reader;
mod references;
mod salvage;
mod slot;
#[cfg(test)]
mod tests;

pub use block_cache::BlockCache;
pub use builder::{TableBuilder, TableSummary};
pub use cursor::{CursorOptions, Keep, TableCursor};
pub(crate) use digest::StoredDigest;
pub use file::TableFile;
pub use filter::{FilterBlock, Probes};
pub use format::{FORMAT_VERSION, FileIdentity, Handle, Origin, Properties, read_identity};
pub(crate) use inspect::StoredForm;
pub use inspect::{DataBlock, DataBlocks};
pub use lookup::Spot;
pub use reader::{TableContext, TableReader};
pub use references::LogShare;
pub(crate) use salvage::{TableRemains, Tombstones};
