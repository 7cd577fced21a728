//! A cell that is set once, of our own locks: checkers and sanitizers do not see into the standard
//! one.

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
        OnceLock::new()
    }
}

impl<T> OnceLock<T> {
    /// An empty cell.
    pub fn new() -> OnceLock<T> {
        OnceLock {
            lock: Mutex::new(()),
            set: AtomicBool::new(false),
            cell: std::sync::OnceLock::new(),
        }
    }

    /// The value, if it was set.
    pub fn get(&self) -> Option<&T> {
        if self.set.load(Ordering::Acquire) { self.cell.get() } else { None }
    }

    /// Sets the value.
    ///
    /// # Errors
    /// The value given, if there is one already.
    pub fn set(&self, value: T) -> Result<(), T> {
        let _one = self.lock.lock();
        let result = self.cell.set(value);
        self.set.store(true, Ordering::Release);
        result
    }

    /// The value, made now if it was not set.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        let _one = self.lock.lock();
        let value = self.cell.get_or_init(make);
        self.set.store(true, Ordering::Release);
        value
    }
}
