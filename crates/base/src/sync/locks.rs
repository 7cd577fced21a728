//! Locks that do not poison, of the standard library's or of a checker's.
//!
//! The standard library's keep nothing outside of themselves. Others keep the threads that wait in
//! a table of the whole process: a child that is forked inherits that with the threads of its
//! parent in it, and may then wait for ever in a store of its own. The block cache has such a lock
//! of the crate `quick_cache`, unless a program asks for that crate's feature `parking_lot`.
//!
//! Under a checker a wait with a time limit lets others run and comes back: for a checker time may
//! pass at any moment, so whoever relies on a limit is tried with one that is always over at once.
//! What waits without a limit and is never woken is a deadlock, which the checker reports.

#[cfg(any(esker_loom, esker_shuttle))]
use super::checker::sync as inner;
use std::fmt;
use std::ops::{Deref, DerefMut};
#[cfg(not(any(esker_loom, esker_shuttle)))]
use std::sync as inner;
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

/// One at a time.
pub struct Mutex<T>(inner::Mutex<T>);

/// What a lock guards, while it is held. Empty only while a condition variable has the lock.
pub struct MutexGuard<'a, T> {
    held: Option<inner::MutexGuard<'a, T>>,
    #[cfg(any(esker_loom, esker_shuttle))]
    lock: &'a inner::Mutex<T>,
}

impl<T> Mutex<T> {
    /// An unlocked lock.
    #[cfg(not(any(esker_loom, esker_shuttle)))]
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(inner::Mutex::new(value))
    }

    /// An unlocked lock.
    #[cfg(any(esker_loom, esker_shuttle))]
    pub fn new(value: T) -> Mutex<T> {
        Mutex(inner::Mutex::new(value))
    }

    /// Waits for the lock.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.guard(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the lock if nobody has it.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let held = match self.0.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(self.guard(held))
    }

    #[inline]
    fn guard<'a>(&'a self, held: inner::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard {
            held: Some(held),
            #[cfg(any(esker_loom, esker_shuttle))]
            lock: &self.0,
        }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value, which nobody else can reach.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutex")
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.held.as_ref().expect("held but while waiting")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("held but while waiting")
    }
}

impl<T> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MutexGuard")
    }
}

/// Something to wait for.
#[derive(Debug)]
pub struct Condvar(inner::Condvar);

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar::new()
    }
}

impl Condvar {
    /// Nobody waits.
    pub fn new() -> Condvar {
        Condvar(inner::Condvar::new())
    }

    /// Wakes one that waits.
    #[inline]
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all that wait.
    #[inline]
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Gives the lock back and waits for a call.
    #[track_caller]
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if let Some(held) = guard.held.take() {
            guard.held = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// The same, for so long at the most.
    #[cfg(not(any(esker_loom, esker_shuttle)))]
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, limit: Duration) {
        if let Some(held) = guard.held.take() {
            let waited = self.0.wait_timeout(held, limit);
            guard.held = Some(waited.unwrap_or_else(PoisonError::into_inner).0);
        }
    }

    /// Gives the lock back and takes it again: the time is over.
    #[cfg(any(esker_loom, esker_shuttle))]
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) {
        guard.held = None;
        super::checker::thread::yield_now();
        guard.held = Some(guard.lock.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// One who writes, or any number who read.
pub struct RwLock<T>(inner::RwLock<T>);

impl<T> RwLock<T> {
    /// An unlocked lock.
    pub fn new(value: T) -> RwLock<T> {
        RwLock(inner::RwLock::new(value))
    }

    /// Waits for the lock, to be shared with other readers.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> inner::RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the lock.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> inner::RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RwLock")
    }
}
