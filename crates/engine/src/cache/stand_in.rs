//! The cache's entries for model checkers: one list under one lock, which drops its oldest entry
//! first.

use super::entry::{CacheKey, Weigh, weight};
use esker_base::sync::Mutex;
use std::collections::VecDeque;

/// The list.
pub(super) struct Inner<V>(Mutex<List<V>>);

struct List<V> {
    capacity_bytes: u64,
    entries: VecDeque<(CacheKey, V)>,
}

/// An empty list.
pub(super) fn new<V: Weigh + Clone>(capacity_bytes: u64) -> Inner<V> {
    Inner(Mutex::new(List { capacity_bytes, entries: VecDeque::new() }))
}

/// Removes entries. What they hold is freed without the lock.
pub(super) fn remove<V: Weigh + Clone>(inner: &Inner<V>, is_one: impl Fn(&CacheKey) -> bool) {
    let mut list = inner.0.lock();
    let removed = list.entries.iter().filter(|(key, _)| is_one(key)).cloned().collect::<Vec<_>>();
    list.entries.retain(|(key, _)| !is_one(key));
    drop(list);
    drop(removed);
}

impl<V: Weigh> List<V> {
    fn weight(&self) -> u64 {
        self.entries.iter().map(|(_, value)| weight(value)).sum()
    }

    /// Drops the oldest until the rest fits. What it returns is freed without the lock.
    fn evict(&mut self) -> Vec<V> {
        let mut evicted = Vec::new();
        while self.weight() > self.capacity_bytes
            && let Some((_, value)) = self.entries.pop_front()
        {
            evicted.push(value);
        }
        evicted
    }
}

impl<V: Weigh + Clone> Inner<V> {
    pub(super) fn get(&self, key: &CacheKey) -> Option<V> {
        let list = self.0.lock();
        list.entries.iter().find(|(at, _)| at == key).map(|(_, value)| value.clone())
    }

    pub(super) fn insert(&self, key: CacheKey, value: V) {
        let mut list = self.0.lock();
        let before = list.entries.iter().position(|(at, _)| *at == key);
        let replaced = before.and_then(|at| list.entries.remove(at));
        list.entries.push_back((key, value));
        let evicted = list.evict();
        drop(list);
        drop((replaced, evicted));
    }

    pub(super) fn weight(&self) -> u64 {
        self.0.lock().weight()
    }

    pub(super) fn capacity(&self) -> u64 {
        self.0.lock().capacity_bytes
    }

    pub(super) fn set_capacity(&self, capacity_bytes: u64) {
        let mut list = self.0.lock();
        list.capacity_bytes = capacity_bytes;
        let evicted = list.evict();
        drop(list);
        drop(evicted);
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().entries.len()
    }
}
