//! Logs: files of checksummed records, written front to back, read once at open.
//!
//! The write-ahead log, the manifest and the files that values are moved to are all logs; they
//! differ in what a record holds. A value of a log may be read for as long as the file stays:
//! whoever points to it knows its place.
//!
//! Flow: db::commit -> Writer -> vfs; vfs -> Reader -> db::recover. The same for manifests, in
//! version.
//! Format: docs/format/log.md (the only description).
//! Invariants: (1) the header stands before the first record, and of a manifest is durable before
//! it; (2) after each sync a *mark* says how far the file is durable, so that damage before it can
//! be told from a torn tail.
//! Threads: one Writer, under its owner's lock.
//! Crash: whatever was appended after the last sync may be torn; the reader drops it and says so.

mod bulk;
mod format;
mod reader;
mod salvage;
mod value;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use bulk::BulkWriter;
pub(crate) use format::{
    CODEC_MAX, HEADER_BYTES, HeaderFault, LogHeader, LogKind, RECORD_HEADER_BYTES,
};
pub(crate) use reader::{Reader, TornTail};
pub(crate) use salvage::{Gap, Piece, Salvager};
pub(crate) use value::{StoredValue, ValuePointer, ValueSource};
pub(crate) use writer::{Blank, Writer};
