//! Forks: what a process has opened is told from what its children have inherited.
//!
//! A child has a copy of the memory of its parent, and none of its threads: locks may be held for
//! ever, and the files are the parent's. So what hangs on a store is kept in an [`Own`], which says
//! so in a child, and is not dropped there.
//! Threads: the number of forks changes only where there is one thread, in a child that was just
//! born.

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many forks ago the first process was that has used this library.
static FORKS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// How many forks lie between this process and the first: differs from that of all it descends
/// from.
#[inline]
pub(crate) fn forks() -> usize {
    FORKS.load(Ordering::Relaxed)
}

/// Counts forks from now on: called before there is anything that a child could inherit.
#[inline]
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: the function does what is allowed in a child, and stays as long as the library.
        // Without memory for it, the engine itself still refuses to close what is not this
        // process's.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// Something that only the process may use that has made it.
pub(crate) struct Own<T> {
    value: ManuallyDrop<T>,
    forks: usize,
}

/// It was made by another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inherited;

impl fmt::Display for Inherited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the database was opened by another process, from which this one was forked: open it after the fork",
        )
    }
}

impl<T> Own<T> {
    pub(crate) fn new(value: T) -> Own<T> {
        watch();
        Own { value: ManuallyDrop::new(value), forks: forks() }
    }

    /// What this process has made.
    ///
    /// # Errors
    /// It was another process.
    #[inline]
    pub(crate) fn get(&self) -> Result<&T, Inherited> {
        if self.forks == forks() { Ok(&self.value) } else { Err(Inherited) }
    }

    /// The same, to be changed.
    ///
    /// # Errors
    /// As `get`.
    #[inline]
    pub(crate) fn get_mut(&mut self) -> Result<&mut T, Inherited> {
        if self.forks == forks() { Ok(&mut self.value) } else { Err(Inherited) }
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if self.forks == forks() {
            // SAFETY: once, at the end.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}
