//! Forks: what a process has opened is told from what its children have inherited.
//!
//! A child has a copy of the memory of its parent, and none of its threads: locks may be held for
//! ever, and the files are the parent's. So nothing of a store that was inherited is called, waited
//! for or dropped.
//! Threads: the number of forks changes only where there is one thread, in a child that was just
//! born.

use pyo3::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many forks ago the first process was that has imported this module.
static FORKS: AtomicUsize = AtomicUsize::new(0);

/// How many forks lie between this process and the first: differs from that of all it descends
/// from.
#[inline]
pub(crate) fn forks() -> usize {
    FORKS.load(Ordering::Relaxed)
}

/// Called in a child when it was forked.
#[pyfunction]
pub(crate) fn after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
