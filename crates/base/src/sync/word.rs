//! A number that threads sleep on until it changes.

use super::atomic::{AtomicU32, Ordering};
#[cfg(any(esker_loom, esker_shuttle))]
use super::{Condvar, Mutex};

/// A number that any number of threads sleep on, woken by one call.
///
/// A call wakes all of them by one `futex` of Linux, where a condition variable would need one for
/// each. For a checker it is made of a lock and a condition variable.
#[derive(Debug)]
pub struct WaitWord {
    value: AtomicU32,
    #[cfg(any(esker_loom, esker_shuttle))]
    lock: Mutex<()>,
    #[cfg(any(esker_loom, esker_shuttle))]
    changed: Condvar,
}

impl WaitWord {
    /// The number, as it stands now. What was written before it was stored can be read after this.
    #[inline]
    pub fn load(&self) -> u32 {
        self.value.load(Ordering::Acquire)
    }

    /// Stores a number. Wakes nobody.
    #[inline]
    pub fn store(&self, value: u32) {
        self.value.store(value, Ordering::Release);
    }
}

#[cfg(not(any(esker_loom, esker_shuttle)))]
impl WaitWord {
    /// Holds `value`.
    pub fn new(value: u32) -> WaitWord {
        WaitWord { value: AtomicU32::new(value) }
    }

    /// Sleeps unless the number is another than `seen` or becomes another. May return for no
    /// reason.
    #[inline]
    pub fn wait(&self, seen: u32) {
        use rustix::thread::futex;
        // It fails if the number is another by now, or for a signal: the caller looks again either
        // way.
        let _ = futex::wait(&self.value, futex::Flags::PRIVATE, seen, None);
    }

    /// Wakes one that sleeps.
    #[inline]
    pub fn wake_one(&self) {
        self.wake(1);
    }

    /// Wakes all that sleep.
    #[inline]
    pub fn wake_all(&self) {
        self.wake(i32::MAX as u32);
    }

    fn wake(&self, at_most: u32) {
        use rustix::thread::futex;
        // It fails for a bad address only.
        let _ = futex::wake(&self.value, futex::Flags::PRIVATE, at_most);
    }
}

#[cfg(any(esker_loom, esker_shuttle))]
impl WaitWord {
    /// Holds `value`.
    pub fn new(value: u32) -> WaitWord {
        WaitWord { value: AtomicU32::new(value), lock: Mutex::new(()), changed: Condvar::new() }
    }

    /// Sleeps unless the number is another than `seen` or becomes another. May return for no
    /// reason.
    pub fn wait(&self, seen: u32) {
        let mut lock = self.lock.lock();
        if self.load() == seen {
            self.changed.wait(&mut lock);
        }
    }

    /// Wakes one that sleeps.
    pub fn wake_one(&self) {
        // Whoever saw the old number sleeps once this is to be had.
        drop(self.lock.lock());
        self.changed.notify_one();
    }

    /// Wakes all that sleep.
    pub fn wake_all(&self) {
        drop(self.lock.lock());
        self.changed.notify_all();
    }
}
