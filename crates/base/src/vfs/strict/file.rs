//! The bytes of one file: what programs see, and what the disk would still hold after a power cut.
//!
//! The durable content is not kept as a copy but as a difference, so that appending and syncing
//! cost what they write: it is the first `durable.data_len` live bytes, except for the blocks
//! overwritten since, whose old bytes stand in `durable.undo`; or, if the file was cut short since
//! the last sync, it is `durable.whole`.
//!
//! Invariants: (1) `data.len() <= len`; the file reads as `data`, then zeros up to `len`.
//! (2) `durable.data_len <= data.len()`. (3) a key of `durable.undo` lies below `durable.data_len`.

use super::survival::Rng;
use std::collections::{BTreeMap, BTreeSet};

/// Granularity of remembered old bytes.
const UNDO_BYTES: usize = 512;

/// Granularity of space given back by holes.
const HOLE_BYTES: u64 = 4096;

#[derive(Clone, Debug, Default)]
pub(super) struct FileData {
    data: Vec<u8>,
    len: u64,
    durable: Durable,
    /// Blocks of `HOLE_BYTES` whose space was given back.
    holes: BTreeSet<u64>,
}

#[derive(Clone, Debug, Default)]
struct Durable {
    data_len: usize,
    len: u64,
    undo: BTreeMap<usize, Vec<u8>>,
    whole: Option<Content>,
}

/// Plain content: `data`, then zeros up to `len`.
#[derive(Clone, Debug, Default)]
struct Content {
    data: Vec<u8>,
    len: u64,
}

impl FileData {
    /// A file of these bytes, all durable.
    pub(super) fn from_bytes(bytes: &[u8]) -> FileData {
        FileData::durable_as(Content { data: bytes.to_vec(), len: bytes.len() as u64 })
    }

    fn durable_as(content: Content) -> FileData {
        let mut file = FileData { data: content.data, len: content.len, ..FileData::default() };
        file.sync();
        file
    }

    pub(super) fn len_bytes(&self) -> u64 {
        self.len
    }

    /// Bytes of disk space taken.
    pub(super) fn allocated_bytes(&self) -> u64 {
        let given_back: u64 = self
            .holes
            .iter()
            .map(|&block| HOLE_BYTES.min(self.len.saturating_sub(block * HOLE_BYTES)))
            .sum();
        self.len - given_back
    }

    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) -> usize {
        let n = (buf.len() as u64).min(self.len.saturating_sub(offset)) as usize;
        let buf = &mut buf[..n];
        let stored = self.data.get(offset as usize..).unwrap_or(&[]);
        let copied = stored.len().min(n);
        buf[..copied].copy_from_slice(&stored[..copied]);
        buf[copied..].fill(0);
        n
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = self.data.clone();
        bytes.resize(self.len as usize, 0);
        bytes
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let start = offset as usize;
        let end = start + bytes.len();
        self.remember(start, end);
        if self.data.len() < end {
            self.data.resize(end, 0);
        }
        self.data[start..end].copy_from_slice(bytes);
        self.len = self.len.max(end as u64);
        if !self.holes.is_empty() {
            let (first, last) = (offset / HOLE_BYTES, (end as u64 - 1) / HOLE_BYTES);
            self.holes.retain(|block| !(first..=last).contains(block));
        }
    }

    /// Zeros a range that lies in the file; whole blocks of it no longer take space.
    pub(super) fn punch(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.len);
        if offset >= end {
            return;
        }
        let stored_end = (end as usize).min(self.data.len());
        let start = (offset as usize).min(stored_end);
        self.remember(start, stored_end);
        self.data[start..stored_end].fill(0);
        self.holes.extend(offset.div_ceil(HOLE_BYTES)..end / HOLE_BYTES);
    }

    /// Cuts or extends (with zeros). Not durable until `sync`.
    pub(super) fn set_len(&mut self, len: u64) {
        let durable = &mut self.durable;
        if (len as usize) < durable.data_len || durable.len > len && self.data.len() as u64 > len {
            let content = Self::durable_content(&self.data, durable);
            durable.whole.get_or_insert(content);
            durable.data_len = durable.data_len.min(len as usize);
            durable.len = durable.len.min(len);
            durable.undo.retain(|&at, _| at < durable.data_len);
        }
        self.data.truncate(len as usize);
        self.len = len;
        self.holes.retain(|block| block * HOLE_BYTES < len);
    }

    pub(super) fn sync(&mut self) {
        self.durable = Durable {
            data_len: self.data.len(),
            len: self.len,
            undo: BTreeMap::new(),
            whole: None,
        };
    }

    /// Damage as by a decaying disk: the bit is wrong now and after any crash.
    pub(super) fn flip_bit(&mut self, bit: u64) {
        let (at, mask) = ((bit / 8) as usize, 1 << (bit % 8));
        assert!((at as u64) < self.len, "bit {bit} lies beyond the end at {} bytes", self.len);
        if at >= self.data.len() {
            let all_durable = self.durable.data_len == self.data.len();
            self.data.resize(at + 1, 0);
            if all_durable {
                self.durable.data_len = self.data.len();
            }
        }
        self.data[at] ^= mask;
        let block = at / UNDO_BYTES * UNDO_BYTES;
        if let Some(byte) = self.durable.undo.get_mut(&block).and_then(|b| b.get_mut(at - block)) {
            *byte ^= mask;
        }
        if let Some(byte) = self.durable.whole.as_mut().and_then(|w| w.data.get_mut(at)) {
            *byte ^= mask;
        }
    }

    /// Keeps the durable bytes of the blocks of `[start, end)` before they are overwritten.
    fn remember(&mut self, start: usize, end: usize) {
        let end = end.min(self.durable.data_len);
        let mut block = start / UNDO_BYTES * UNDO_BYTES;
        while block < end {
            let block_end = (block + UNDO_BYTES).min(self.durable.data_len);
            let bytes = &self.data[block..block_end];
            self.durable.undo.entry(block).or_insert_with(|| bytes.to_vec());
            block += UNDO_BYTES;
        }
    }

    fn durable_content(data: &[u8], durable: &Durable) -> Content {
        if let Some(whole) = &durable.whole {
            return whole.clone();
        }
        Self::durable_base(data, durable)
    }

    /// The durable content, had the cut since the last sync (if there was one) reached the disk.
    fn durable_base(data: &[u8], durable: &Durable) -> Content {
        let mut bytes = data[..durable.data_len].to_vec();
        for (&at, old) in &durable.undo {
            let n = old.len().min(bytes.len() - at);
            bytes[at..at + n].copy_from_slice(&old[..n]);
        }
        Content { data: bytes, len: durable.len }
    }

    fn is_durable(&self) -> bool {
        let d = &self.durable;
        d.whole.is_none() && d.undo.is_empty() && d.len == self.len && d.data_len == self.data.len()
    }

    /// The file after a power cut that left nothing unsynced.
    pub(super) fn after_losing_all(&self) -> FileData {
        let content = Self::durable_content(&self.data, &self.durable);
        self.with_holes_of(FileData::durable_as(content))
    }

    /// The file after a power cut that left everything.
    pub(super) fn after_losing_nothing(&self) -> FileData {
        let mut file = self.clone();
        file.sync();
        file
    }

    /// The file after a power cut in which each unsynced block, the length and a cut each
    /// reached the disk with a chance of `percent`.
    ///
    /// A block that reached the disk may have done so before the last bytes were appended to it:
    /// then only its beginning is new.
    pub(super) fn after_losing_some(
        &self,
        percent: u8,
        rng: &mut Rng,
        block_bytes: usize,
    ) -> FileData {
        if self.is_durable() {
            return self.clone();
        }
        if self.durable.whole.is_some() && !rng.percent(percent) {
            return self.after_losing_all();
        }
        let base = Self::durable_base(&self.data, &self.durable);
        let len = surviving_len(base.len, self.len, percent, rng, block_bytes as u64);
        let size = base.data.len().max(self.data.len()).min(len as usize);
        let mut old = base.data;
        old.resize(size, 0);
        let mut new = self.data.clone();
        new.resize(size, 0);
        for start in (0..size).step_by(block_bytes) {
            let end = (start + block_bytes).min(size);
            if old[start..end] == new[start..end] || !rng.percent(percent) {
                continue;
            }
            let torn = rng.below(4) == 0;
            let end = if torn { start + rng.below((end - start) as u64) as usize } else { end };
            old[start..end].copy_from_slice(&new[start..end]);
        }
        self.with_holes_of(FileData::durable_as(Content { data: old, len }))
    }

    /// Keeps those holes of `self` that are still empty in `after`.
    fn with_holes_of(&self, mut after: FileData) -> FileData {
        after.holes = self
            .holes
            .iter()
            .copied()
            .filter(|block| {
                let (start, end) = (block * HOLE_BYTES, (block + 1) * HOLE_BYTES);
                let stored = after.data.len() as u64;
                end <= after.len
                    && after.data[start.min(stored) as usize..end.min(stored) as usize]
                        .iter()
                        .all(|&byte| byte == 0)
            })
            .collect();
        after
    }
}

/// The length that a power cut leaves of one that grew or shrank from `old` to `new`.
fn surviving_len(old: u64, new: u64, percent: u8, rng: &mut Rng, block_bytes: u64) -> u64 {
    if old == new || !rng.percent(percent) {
        return old;
    }
    if new < old {
        return new;
    }
    match rng.below(4) {
        0 => old + rng.below(new - old),
        1 => ((old + rng.below(new - old)) / block_bytes * block_bytes).max(old),
        _ => new,
    }
}
