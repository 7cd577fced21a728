//! Esker: a log-structured merge-tree key-value store.
// Re-exports only; the house is described in docs/architecture.md.

pub mod cursor;
pub mod event;
mod iter;
mod log;
mod memtable;
pub mod names;
pub mod options;
pub mod range_tombstone;
pub mod value;

pub use esker_base as base;
