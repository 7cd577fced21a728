//! Locks, atomics and threads for the concurrent parts, so that a model checker can stand in for
//! them.
//!
//! | build | what the names below are |
//! |---|---|
//! | usual | the standard library, `arc_swap` |
//! | `--cfg esker_loom` | loom's: all interleavings of a small model, weak memory included |
//! | `--cfg esker_shuttle` | shuttle's: random schedules of large models |
//! | `--cfg esker_tsan` | the usual, with the locks of `parking_lot`: the thread sanitizer cannot see into the standard ones |
//!
//! Under a checker everything here works inside one of its models only. Reference counts stay the
//! standard library's in all builds.
//! Locks do not poison: a panic in a background thread is caught and recorded by the store itself.

#[cfg(esker_loom)]
pub mod atomics;
#[cfg(not(esker_tsan))]
mod locks;
#[cfg(any(esker_loom, esker_shuttle, esker_tsan))]
mod once;
#[cfg(any(esker_loom, esker_shuttle))]
mod swap;
mod witness;
mod word;

/// True in builds for a model checker: sizes are chosen so that small models reach everything.
pub const CHECKED: bool = cfg!(any(esker_loom, esker_shuttle));

#[cfg(not(any(esker_loom, esker_shuttle)))]
pub use arc_swap::{ArcSwap, ArcSwapOption, Guard};
#[cfg(not(any(esker_loom, esker_shuttle)))]
pub use std::{sync::atomic, thread, thread_local};

#[cfg(not(esker_tsan))]
pub use locks::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(esker_tsan)]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

#[cfg(any(esker_loom, esker_shuttle))]
pub use swap::{ArcSwap, ArcSwapOption, Guard};

/// The checker itself, for models.
#[cfg(esker_loom)]
pub use loom as checker;
#[cfg(esker_shuttle)]
pub use shuttle as checker;

#[cfg(esker_loom)]
pub use atomics as atomic;
#[cfg(esker_shuttle)]
pub use checker::sync::atomic;
#[cfg(any(esker_loom, esker_shuttle))]
pub use checker::{thread, thread_local};

#[cfg(any(esker_loom, esker_shuttle, esker_tsan))]
pub use once::OnceLock;
#[cfg(not(any(esker_loom, esker_shuttle, esker_tsan)))]
pub use std::sync::OnceLock;

pub use witness::Witness;
pub use word::WaitWord;
