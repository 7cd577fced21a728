//! Garbage collection of values: what is still pointed to of files with many dead values is moved
//! into a new file.
//!
//! ```text
//! choose files -> ask the tables of the newest versions what they point to -> copy that -> one edit: the new file is
//! there, the old ones are gone
//! ```
//!
//! Pointers do not change, and no key is written: whatever users write, delete or compact
//! meanwhile, a value that was pointed to is in the new file, and one that is not is not found by
//! anybody. What falls out of use meanwhile is garbage in the new file.
//! Invariants: (1) only files are taken into which no memtable points: their references can only
//! become fewer; (2) old files stay as long as a version or a memtable that somebody reads holds
//! them.
//! Crash: before the edit is durable the new file is an orphan; after it the old ones are.
//! Source: blob file rewriting in Pebble; LFS for the choice of files.

mod choose;
mod job;

pub(crate) use choose::{Balance, FileUse, choose, with_dead_share};
pub(crate) use job::{Victim, collect};
