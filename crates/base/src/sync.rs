//! Locks and atomics for the concurrent parts, so that a model checker can stand in for them.
//!
//! Under `--cfg loom` the names below are loom's; otherwise they are the ones used in production.
//! Locks do not poison: a panic in a background thread is caught and recorded by the store itself.

#[cfg(not(loom))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

#[cfg(not(loom))]
pub use std::sync::atomic;

#[cfg(not(esker_tsan))]
pub use std::sync::OnceLock;

#[cfg(esker_tsan)]
pub use visible::OnceLock;

/// What the standard library does out of the thread sanitizer's sight, done where it can see it.
#[cfg(esker_tsan)]
mod visible {
    use super::Mutex;
    use super::atomic::{AtomicBool, Ordering};

    /// As the standard library's.
    #[derive(Debug)]
    pub struct OnceLock<T> {
        lock: Mutex<()>,
        set: AtomicBool,
        cell: std::sync::OnceLock<T>,
    }

    impl<T> Default for OnceLock<T> {
        fn default() -> OnceLock<T> {
            OnceLock {
                lock: Mutex::new(()),
                set: AtomicBool::new(false),
                cell: std::sync::OnceLock::new(),
            }
        }
    }

    impl<T> OnceLock<T> {
        /// The value, if it was set.
        pub fn get(&self) -> Option<&T> {
            if self.set.load(Ordering::Acquire) { self.cell.get() } else { None }
        }

        /// The value, made now if it was not set.
        pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
            let _one = self.lock.lock();
            let value = self.cell.get_or_init(make);
            self.set.store(true, Ordering::Release);
            value
        }
    }
}
