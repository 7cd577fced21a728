//! Value log: large values, written once and kept apart from the tree, which holds pointers to
//! them.
//!
//! A large value is a record of the write-ahead log that its batch went to; the log stays for as
//! long as a table points into it. What is left of logs with many dead values is moved into a file
//! of its own, whose directory tells where each value stood: pointers never change.
//!
//! Flow: db::write -> log::Writer -> the log;  db::read -> [`ValueMap`] -> [`ValueFile`] -> value;
//! gc -> [`MovedWriter`] -> a file.
//! Format: docs/format/log.md, docs/format/value-log.md.
//! Invariants: (1) a pointer in a memtable, or in a table of a version, is answered by what that
//! memtable or version holds; (2) a file is removed after the last holder is gone, and only if the
//! manifest does not name it any more.
//! Threads: any.
//! Source: WiscKey (FAST '16); the log that is its own value log: BVLSM; files that move under
//! stable handles: Pebble. Values of WiscKey, Badger and Titan get new pointers when they are
//! moved, which must then be written into the tree beside the user's writes: that is where they
//! lose or resurrect.

mod compress;
mod directory;
mod file;
mod map;
mod moved;
mod piece;
mod readers;
mod reading;
mod sweep;
mod values;

pub(crate) use compress::{Packed, pack};
pub(crate) use directory::{Directory, first_directory};
pub(crate) use file::{Place, ValueFile, ValueFileMeta, ValueStore};
pub(crate) use map::{LogList, ValueMap};
pub(crate) use moved::MovedWriter;
pub(crate) use readers::{CACHED_NS_MAX, READERS_MAX, Readers, Work};
pub(crate) use reading::Reading;
pub(crate) use sweep::Sweep;
pub(crate) use values::{Room, Values, Wanted};
