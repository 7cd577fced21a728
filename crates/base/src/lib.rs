//! Shared ground of the Esker key-value store.
//!
//! Everything here is either plain data (keys, batches, errors, byte coding) or a door to the
//! outside world (file system, clock, randomness). Nothing here knows what a tree is.
//!
//! The doors are traits so that the very same engine code runs on a real disk, in a strict
//! in-memory file system that forgets what was not synced, and under injected faults.

pub mod batch;
pub mod checksum;
pub mod coding;
pub mod env;
pub mod error;
pub mod heap;
pub mod key;
pub mod pages;
pub mod sync;
pub mod vfs;

pub use batch::{Batch, BatchOp};
pub use env::{Clock, Entropy, Env};
pub use error::{Error, Result};
pub use key::{Comparator, KeyOrder, KeyspaceId, Kind, Seq, Trailer};
pub use vfs::Vfs;
