//! Esker: a log-structured merge-tree key-value store.
// Re-exports only; the house is described in docs/architecture.md.

pub mod cursor;
mod log;
mod memtable;
pub mod options;
pub mod range_tombstone;
pub mod value;

pub use esker_base as base;
