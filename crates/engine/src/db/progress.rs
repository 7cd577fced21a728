//! How far a group was applied, as of an epoch. `application` has the way of a request there.

use crate::version::GroupState;
use esker_base::checksum::hash64;
use esker_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use esker_base::{Error, Result, Seq};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// A store's current epoch, as none other of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EpochId(u64);

impl EpochId {
    const NONE: EpochId = EpochId(0);

    pub(super) fn new() -> EpochId {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        EpochId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// How far a group was applied in an epoch, as long as its note stays the same. It has a line of
/// the processor's caches of its own: threads on other processors apply to other groups.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Progress {
    pub(super) group: Arc<[u8]>,
    pub(super) note: Arc<[u8]>,
    epoch: EpochId,
    /// False if requests are to be noted elsewhere, or the group is about to be deleted.
    is_current: AtomicBool,
    index: AtomicU64,
    /// That of the request's last record or, if it has none, the newest before it.
    last_seq: AtomicU64,
}

impl Progress {
    pub(super) fn new(
        epoch: EpochId,
        group: Arc<[u8]>,
        state: GroupState,
        last_seq: Seq,
    ) -> Arc<Progress> {
        let GroupState { index, note } = state;
        let (index, last_seq) = (AtomicU64::new(index), AtomicU64::new(last_seq));
        let is_current = AtomicBool::new(epoch != EpochId::NONE);
        Arc::new(Progress { group, note, epoch, is_current, index, last_seq })
    }

    /// One that is persistent, or only says which group a request is for.
    pub(super) fn of_no_epoch(group: Arc<[u8]>, state: GroupState, last_seq: Seq) -> Arc<Progress> {
        Progress::new(EpochId::NONE, group, state, last_seq)
    }

    pub(super) fn index(&self) -> u64 {
        self.index.load(Ordering::Acquire)
    }

    /// Readers see all that was applied up to `index`, which was asked before, once they see this
    /// sequence number.
    pub(super) fn last_seq(&self) -> Seq {
        self.last_seq.load(Ordering::Relaxed)
    }

    pub(super) fn state(&self) -> GroupState {
        GroupState { index: self.index(), note: self.note.clone() }
    }

    /// True if all that it stands for was applied before this sequence number was taken.
    pub(super) fn is_before(&self, seq: Seq) -> bool {
        self.last_seq.load(Ordering::Relaxed) < seq
    }

    /// From now on requests are noted under the lock of `Epochs`. Under the right to write.
    pub(super) fn retire(&self) {
        self.is_current.store(false, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn is_current(&self, epoch: EpochId) -> bool {
        self.epoch == epoch && self.is_current.load(Ordering::Relaxed)
    }

    /// Notes a request. Under the right to write.
    ///
    /// # Errors
    /// `InvalidArgument` if it was applied before.
    #[inline]
    pub(super) fn advance(&self, index: u64, last_seq: Seq) -> Result<()> {
        self.check_newer(index)?;
        self.last_seq.store(last_seq, Ordering::Relaxed);
        // Whoever sees it sees the sequence number too.
        self.index.store(index, Ordering::Release);
        Ok(())
    }

    /// # Errors
    /// `InvalidArgument` if this request was applied before.
    #[inline]
    pub(super) fn check_newer(&self, index: u64) -> Result<()> {
        if index > self.index() { Ok(()) } else { Err(self.not_again(index)) }
    }

    #[cold]
    fn not_again(&self, index: u64) -> Error {
        Error::invalid(format!(
            "request {index} of group {} was not applied: the newest that was is {}",
            self.group.escape_ascii(),
            self.index()
        ))
    }
}

/// Groups by their name.
pub(super) type Groups = HashMap<Arc<[u8]>, Arc<Progress>, BuildHasherDefault<NameHasher>>;

/// Hashes names of groups, which are short, and takes what is a hash already as it is.
#[derive(Default)]
pub(super) struct NameHasher(u64);

impl Hasher for NameHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0 ^= hash64(bytes);
    }

    #[inline]
    fn write_usize(&mut self, length: usize) {
        self.0 ^= length as u64;
    }

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}
