//! Esker for C: a drop-in for LevelDB's library, and an interface of its own.
//!
//! Both, with what they promise, are described in docs/c-api.md.
#![expect(
    clippy::missing_safety_doc,
    reason = "what pointers must be stands once, at the head of each header"
)]

mod boundary;
mod fork;
mod handle;
#[cfg(feature = "leveldb")]
pub mod leveldb;
#[cfg(feature = "native")]
pub mod native;
