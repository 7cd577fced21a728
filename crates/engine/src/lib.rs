//! Esker: a log-structured merge-tree key-value store.
// Re-exports only; the house is described in docs/architecture.md.

#[doc(hidden)]
pub mod block;
#[doc(hidden)]
pub mod cache;
pub mod cursor;
pub mod event;
mod iter;
mod log;
mod memtable;
pub mod names;
pub mod options;
pub mod range_tombstone;
#[doc(hidden)]
pub mod stats;
#[doc(hidden)]
pub mod table;
pub mod value;

pub use esker_base as base;
