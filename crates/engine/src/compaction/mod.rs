//! Compaction: *policy* says what, *scheduler* says when, *job* says how.
//!
//! Policies and schedulers are pure functions over a version and the options, so that the same code
//! runs in the engine and in a simulator.

pub(crate) mod job;
pub(crate) mod policy;
pub(crate) mod scheduler;
