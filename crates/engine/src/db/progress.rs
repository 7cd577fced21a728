//! How far a group was applied, as of an epoch. `application` has the way of a request there.

use crate::version::GroupState;
use esker_base::checksum::hash64;
use esker_base::pages::LINE_BYTES;
use esker_base::sync::CHECKED;
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

/// Names of groups up to this length stand beside the index.
const SHORT_NAME_BYTES_MAX: usize = 32;

/// How far a group was applied in an epoch, as long as its note stays the same.
///
/// What a request without a note needs of it, if the name is no longer than 32 bytes, is one line
/// of the processor's caches, and no other group's: a thread that comes back to its processor finds
/// nothing of its groups there, and threads on other processors apply to other groups.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Progress {
    epoch: EpochId,
    index: AtomicU64,
    /// That of the request's last record or, if it has none, the newest before it.
    last_seq: AtomicU64,
    note_bytes: u32,
    /// False if requests are to be noted elsewhere, or the group is about to be deleted.
    is_current: AtomicBool,
    /// Of the name; one more than [`SHORT_NAME_BYTES_MAX`] if it does not stand here.
    name_bytes: u8,
    short_name: [u8; SHORT_NAME_BYTES_MAX],
    pub(super) group: Arc<[u8]>,
    pub(super) note: Arc<[u8]>,
}

const HOT_BYTES: usize = std::mem::offset_of!(Progress, short_name) + SHORT_NAME_BYTES_MAX;
const _: () = assert!(CHECKED || HOT_BYTES <= LINE_BYTES);

/// True if both hold the same. What the caller has just written costs a library's wide loads tens
/// of nanoseconds: they wait until all that was written before is in the cache.
#[inline]
fn is_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let is_same_word =
        |(a, b): (&[u8; 8], &[u8; 8])| u64::from_ne_bytes(*a) == u64::from_ne_bytes(*b);
    let is_same_half = |a: &[u8; 4], b: &[u8; 4]| u32::from_ne_bytes(*a) == u32::from_ne_bytes(*b);
    // Words from the front, and the last one, which may lie over them.
    if let (Some(a_last), Some(b_last)) = (a.last_chunk(), b.last_chunk()) {
        let words = a.as_chunks().0.iter().zip(b.as_chunks().0);
        return words.chain([(a_last, b_last)]).all(is_same_word);
    }
    if let (Some(a_first), Some(b_first)) = (a.first_chunk(), b.first_chunk())
        && let (Some(a_last), Some(b_last)) = (a.last_chunk(), b.last_chunk())
    {
        return is_same_half(a_first, b_first) && is_same_half(a_last, b_last);
    }
    a.iter().zip(b).all(|(a, b)| a == b)
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
        let mut short_name = [0; SHORT_NAME_BYTES_MAX];
        if let Some(place) = short_name.get_mut(..group.len()) {
            place.copy_from_slice(&group);
        }
        let name_bytes = group.len().min(SHORT_NAME_BYTES_MAX + 1) as u8;
        let note_bytes = u32::try_from(note.len()).expect("notes are at most 64 KiB long");
        Arc::new(Progress {
            epoch,
            index,
            last_seq,
            note_bytes,
            is_current,
            name_bytes,
            short_name,
            group,
            note,
        })
    }

    /// One that is persistent, or only says which group a request is for.
    pub(super) fn of_no_epoch(group: Arc<[u8]>, state: GroupState, last_seq: Seq) -> Arc<Progress> {
        Progress::new(EpochId::NONE, group, state, last_seq)
    }

    /// True if it is of this group, and stays so with this note.
    #[inline]
    pub(super) fn is_of(&self, group: &[u8], note: &[u8]) -> bool {
        let name = self.short_name.get(..usize::from(self.name_bytes)).unwrap_or(&self.group);
        is_same(name, group)
            && self.note_bytes as usize == note.len()
            && (note.is_empty() || is_same(&self.note, note))
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

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_the_same_if_all_are() {
        let bytes: Vec<u8> = (0..40).collect();
        for length in 0..bytes.len() {
            let whole = &bytes[..length];
            let copy = whole.to_vec();
            assert!(is_same(whole, &copy));
            assert!(!is_same(whole, &bytes[..length + 1]));
            for changed in 0..length {
                let mut other = whole.to_vec();
                other[changed] ^= 0x80;
                assert!(!is_same(whole, &other), "byte {changed} of {length}");
            }
        }
    }

    #[test]
    fn names_and_notes_of_every_length_are_told_apart() {
        let bytes: Vec<u8> = (0..40).collect();
        for length in 1..bytes.len() {
            let (group, note) = (&bytes[..length], &bytes[length..]);
            let state = GroupState { index: 1, note: note.into() };
            let progress = Progress::of_no_epoch(group.into(), state, 0);
            assert!(progress.is_of(group, note), "{length} bytes");
            assert!(!progress.is_of(&bytes, note) && !progress.is_of(&group[1..], note));
            assert!(!progress.is_of(group, b"") && !progress.is_of(group, &note[1..]));
            let mut other = group.to_vec();
            other[length - 1] ^= 1;
            assert!(!progress.is_of(&other, note), "{length} bytes, the last another");
        }
    }
}
