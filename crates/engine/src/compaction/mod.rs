//! Compaction: *policy* says what, *scheduler* says when, *job* says how.
//!
//! Policies and schedulers do nothing themselves: they are functions of a version, which tables are
//! taken, and the options, and can be run without a disk.

pub(crate) mod choice;
pub(crate) mod job;
pub(crate) mod parts;
pub(crate) mod policy;
pub(crate) mod scheduler;

#[cfg(test)]
mod tests;
