//! A checker's locks in the shape of `parking_lot`'s.
//!
//! A wait with a time limit lets others run and comes back: for a checker time may pass at any moment, so
//! whoever relies on a limit is tried with one that is always over at once. What waits without a
//! limit and is never woken is a deadlock, which the checker reports.

use super::checker::sync as inner;
use super::checker::thread::yield_now;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

/// As `parking_lot`'s.
pub struct Mutex<T>(inner::Mutex<T>);

/// As `parking_lot`'s. Empty only while a condition variable has the lock.
pub struct MutexGuard<'a, T> {
    lock: &'a inner::Mutex<T>,
    held: Option<inner::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// An unlocked lock.
    pub fn new(value: T) -> Mutex<T> {
        Mutex(inner::Mutex::new(value))
    }

    /// Waits for the lock.
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        MutexGuard { lock: &self.0, held: Some(held) }
    }

    /// Takes the lock if nobody has it.
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let held = match self.0.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard { lock: &self.0, held: Some(held) })
    }

    /// Whether somebody has it. Asked only to bring the lock near, so any answer will do.
    pub fn is_locked(&self) -> bool {
        false
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

    fn deref(&self) -> &T {
        self.held.as_ref().expect("held but while waiting")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("held but while waiting")
    }
}

impl<T> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MutexGuard")
    }
}

/// As `parking_lot`'s.
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
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all that wait.
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

    /// Gives the lock back and takes it again: the time is over.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) {
        guard.held = None;
        yield_now();
        guard.held = Some(guard.lock.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// As `parking_lot`'s.
pub struct RwLock<T>(inner::RwLock<T>);

impl<T> RwLock<T> {
    /// An unlocked lock.
    pub fn new(value: T) -> RwLock<T> {
        RwLock(inner::RwLock::new(value))
    }

    /// Waits for the lock, to be shared with other readers.
    #[track_caller]
    pub fn read(&self) -> inner::RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the lock.
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
