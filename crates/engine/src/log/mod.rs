//! Logs: files of checksummed records, written front to back, read once at open.
//!
//! The write-ahead log and the manifest are both logs; they differ in what a record holds.
//!
//! Flow: db::commit -> Writer -> vfs;  vfs -> Reader -> db::recover. The same for manifests, in version.
//! Format: docs/format/log.md (the only description).
//! Invariants: (1) the header stands before the first record, and of a manifest is durable before it; (2) after each sync a *mark*
//! says how far the file is durable, so that damage before it can be told from a torn tail.
//! Threads: one Writer, under its owner's lock.
//! Crash: whatever was appended after the last sync may be torn; the reader drops it and says so.

mod format;
mod reader;
mod salvage;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use format::{HeaderFault, LogHeader, LogKind};
pub(crate) use reader::{Reader, TornTail};
pub(crate) use salvage::{Gap, Piece, Salvager};
pub(crate) use writer::{Blank, Writer};
