//! `arc_swap` for checkers, which cannot see into the real one: a lock around the pointer.
//!
//! Stronger than the real one in that a load waits for a store under way. What it keeps is when a
//! value is dropped: by whoever lets go of it last. Letting go is an access that the checker sees.

use super::RwLock;
use super::atomic::{AtomicUsize, Ordering};
use std::ops::Deref;
use std::sync::Arc;

/// As `arc_swap`'s.
#[derive(Debug)]
pub struct AnySwap<T> {
    value: RwLock<T>,
    holders: Arc<AtomicUsize>,
}

/// As `arc_swap`'s.
pub type ArcSwap<T> = AnySwap<Arc<T>>;

/// As `arc_swap`'s.
pub type ArcSwapOption<T> = AnySwap<Option<Arc<T>>>;

/// What a load returned.
#[derive(Debug)]
pub struct Guard<T> {
    value: T,
    holders: Option<Arc<AtomicUsize>>,
}

impl<T> Deref for Guard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for Guard<T> {
    fn drop(&mut self) {
        // As a reference count does: who is last has seen what the others did.
        if let Some(holders) = &self.holders
            && !std::thread::panicking()
        {
            holders.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl<T> Guard<T> {
    /// A guard of a value that was not loaded.
    pub fn from_inner(value: T) -> Guard<T> {
        Guard { value, holders: None }
    }
}

impl<T: Clone> AnySwap<T> {
    fn of(value: T) -> AnySwap<T> {
        AnySwap { value: RwLock::new(value), holders: Arc::new(AtomicUsize::new(0)) }
    }

    /// The value, for a short time.
    pub fn load(&self) -> Guard<T> {
        Guard { value: self.load_full(), holders: Some(self.holders.clone()) }
    }

    /// The value, to keep.
    pub fn load_full(&self) -> T {
        self.value.read().clone()
    }

    /// Replaces the value.
    pub fn store(&self, value: T) {
        drop(self.swap(value));
    }

    /// Replaces the value and returns the one before.
    pub fn swap(&self, value: T) -> T {
        let before = std::mem::replace(&mut *self.value.write(), value);
        self.holders.fetch_add(1, Ordering::AcqRel);
        before
    }
}

impl<T> AnySwap<Arc<T>> {
    /// Holds `value`.
    pub fn from_pointee(value: T) -> AnySwap<Arc<T>> {
        AnySwap::of(Arc::new(value))
    }
}

impl<T> AnySwap<Option<Arc<T>>> {
    /// Holds nothing.
    pub fn empty() -> AnySwap<Option<Arc<T>>> {
        AnySwap::of(None)
    }

    /// Replaces the value if it is `current`; returns the one before.
    pub fn compare_and_swap(
        &self,
        current: &Option<Arc<T>>,
        new: Option<Arc<T>>,
    ) -> Guard<Option<Arc<T>>> {
        let address = |value: &Option<Arc<T>>| value.as_ref().map(Arc::as_ptr);
        let mut value = self.value.write();
        let before = value.clone();
        if address(&before) == address(current) {
            *value = new;
        }
        Guard::from_inner(before)
    }
}
