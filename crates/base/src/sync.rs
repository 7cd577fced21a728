//! Locks and atomics for the concurrent parts, so that a model checker can stand in for them.
//!
//! Under `--cfg loom` the names below are loom's; otherwise they are the ones used in production.
//! Locks do not poison: a panic in a background thread is caught and recorded by the store itself.

#[cfg(not(loom))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

#[cfg(not(loom))]
pub use std::sync::atomic;
