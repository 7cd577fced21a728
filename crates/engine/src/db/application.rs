//! How a request finds where its group's index is noted.
//!
//! ```text
//! apply(group, index, note) -> what this thread found the last time, asked for and then looked at,
//!                              or the names alone
//!       -> write queue -> under the right to write: of the current epoch? -> two stores
//!                                                   otherwise             -> `Epochs::note`, under its lock
//!       -> kept for the thread's next request of the group
//! ```
//!
//! So the usual request brings along the line that is to be written, which its own processor has,
//! and whoever writes searches nothing and takes no lock: every moment spent there is one that all
//! other writers wait.
//!
//! Invariants: (1) whoever has the right to write changes a `Progress`, and nobody else; (2)
//! without the lock of `Epochs` only one that is current; (3) of a group that is about to be
//! deleted none is current.

use super::epochs::Epochs;
use super::group_range::check_name;
use super::progress::{EpochId, NameHasher, Progress};
use crate::version::{GroupState, NOTE_BYTES_MAX};
use esker_base::checksum::hash64;
use esker_base::pages::prefetch;
use esker_base::sync::Mutex;
use esker_base::{Error, Result, Seq};
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

/// How many groups a thread remembers. Each takes some 150 bytes, its name, and its note.
const REMEMBERED_MAX: usize = 1 << 14;
/// Longer notes are not remembered: threads may keep what no store needs any more.
const REMEMBERED_NOTE_BYTES_MAX: usize = 256;

/// Where a request stands in its group's log.
#[derive(Clone, Copy, Debug)]
pub struct Applied<'a> {
    /// The group: the beginning of its keys. 1 B to 1 KiB.
    pub group: &'a [u8],
    /// Index of the request in the log of its group: 1 or more, above that of all that were applied
    /// before.
    pub index: u64,
    /// What else must be known after a crash, such as the term of the request and the members of
    /// the group. It is kept with the index and comes back with it. At most 64 KiB. A note that
    /// differs from the one before, or is longer than 256 B, costs a lock.
    pub note: &'a [u8],
}

/// As [`Applied`], on its way through the write queue.
pub(super) struct Application {
    index: u64,
    /// Of the group, and with the note, of the request: the newest one if this thread knows it.
    progress: Arc<Progress>,
    /// Of the name of the group.
    hash: u64,
}

/// What this thread found, by the hash of the group's name. Nothing while a request is on its way.
type Remembered = HashMap<u64, Option<Arc<Progress>>, BuildHasherDefault<NameHasher>>;

esker_base::sync::thread_local! {
    static REMEMBERED: RefCell<Remembered> = RefCell::default();
}

/// Does something with what this thread remembers. A thread that is ending remembers nothing any
/// more.
fn with_remembered<T>(f: impl FnOnce(&mut Remembered) -> T) -> Option<T> {
    REMEMBERED
        .try_with(|remembered| remembered.try_borrow_mut().ok().map(|mut r| f(&mut r)))
        .ok()?
}

/// What this thread may remember of a group, by the hash of its name.
pub(super) struct Sought {
    hash: u64,
    progress: Option<Arc<Progress>>,
}

impl Sought {
    /// Asks for it. A miss of the processor's caches then passes while the caller does other
    /// things; `found` looks at it.
    #[inline]
    pub(super) fn of(group: &[u8]) -> Sought {
        let hash = hash64(group);
        let progress = with_remembered(|remembered| remembered.get_mut(&hash)?.take()).flatten();
        if let Some(progress) = &progress {
            prefetch(Arc::as_ptr(progress));
        }
        Sought { hash, progress }
    }

    /// # Errors
    /// `InvalidArgument` if a length is not allowed.
    #[inline]
    pub(super) fn found(self, applied: &Applied<'_>) -> Result<Application> {
        let Sought { hash, progress } = self;
        match progress.filter(|progress| progress.is_of(applied.group, applied.note)) {
            Some(progress) => Ok(Application { index: applied.index, progress, hash }),
            None => Application::unknown(applied, hash),
        }
    }
}

impl Application {
    #[cold]
    fn unknown(applied: &Applied<'_>, hash: u64) -> Result<Application> {
        let Applied { group, index, note } = *applied;
        check_name(group)?;
        if note.len() > NOTE_BYTES_MAX {
            return Err(Error::invalid("the note of a request is longer than 64 KiB"));
        }
        let state = GroupState { index: 0, note: note.into() };
        let progress = Progress::of_no_epoch(group.into(), state, 0);
        Ok(Application { index, progress, hash })
    }

    /// Fetches what `note` changes.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch(Arc::as_ptr(&self.progress));
    }

    /// Notes that the request is about to be in the memtables, in this epoch, which is the current
    /// one of `epochs`. Its last sequence number will be `last_seq`, which is the newest before it
    /// if it has no records. True if the epoch should end behind it. Under the right to write.
    ///
    /// # Errors
    /// `InvalidArgument` if the request was applied before, or cannot be applied now.
    #[inline]
    pub(super) fn note(
        &mut self,
        epoch: EpochId,
        epochs: &Mutex<Epochs>,
        last_seq: Seq,
    ) -> Result<bool> {
        if self.progress.is_current(epoch) {
            // The epoch names nothing that it did not name before.
            return self.progress.advance(self.index, last_seq).map(|()| false);
        }
        self.note_first(epochs, last_seq)
    }

    #[cold]
    fn note_first(&mut self, epochs: &Mutex<Epochs>, last_seq: Seq) -> Result<bool> {
        let mut epochs = epochs.lock();
        self.progress = epochs.note(&self.progress, self.index, last_seq)?;
        Ok(epochs.is_full())
    }

    /// Remembers what was found for this thread's next request of the group.
    #[inline]
    pub(super) fn remember(self) {
        if self.progress.note.len() > REMEMBERED_NOTE_BYTES_MAX {
            return;
        }
        with_remembered(|remembered| match remembered.get_mut(&self.hash) {
            Some(known) => *known = Some(self.progress),
            None => self.remember_first(remembered),
        });
    }

    #[cold]
    fn remember_first(self, remembered: &mut Remembered) {
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(self.hash, Some(self.progress));
    }
}

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests {
    use super::*;

    fn application<'a>(group: &'a [u8], note: &'a [u8]) -> Application {
        Sought::of(group).found(&Applied { group, index: 1, note }).expect("lengths are fine")
    }

    #[test]
    fn what_has_the_same_hash_is_told_apart() {
        let of_b = application(b"b/", b"");
        of_b.remember();
        let mistaken = with_remembered(|remembered| {
            let of_b = remembered.remove(&hash64(b"b/")).expect("remembered");
            remembered.insert(hash64(b"a/"), of_b);
        });
        assert!(mistaken.is_some());
        assert_eq!(*application(b"a/", b"").progress.group, *b"a/");
    }

    #[test]
    fn the_same_request_finds_what_was_remembered() {
        let first = application(b"g/", b"term 1");
        let found = first.progress.clone();
        first.remember();
        let again = application(b"g/", b"term 1");
        assert!(Arc::ptr_eq(&found, &again.progress));
        again.remember();
        assert!(!Arc::ptr_eq(&found, &application(b"g/", b"term 2").progress));
    }

    #[test]
    fn long_notes_are_not_remembered() {
        for (length, is_found) in [(256, true), (257, false)] {
            let note = vec![b'n'; length];
            let first = application(b"long/", &note);
            let found = first.progress.clone();
            first.remember();
            assert_eq!(Arc::ptr_eq(&found, &application(b"long/", &note).progress), is_found);
        }
    }
}
