//! Values that were read for a cursor, several at a time, and where they stand before.

use super::file::{OpenedFile, ValueFile};
use crate::block::{Damage, expand_into, expanded_bytes};
use crate::log::{RECORD_HEADER_BYTES, ValuePointer};
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// A value that begins so closely behind the one before is read along with it: a batch lies
/// between.
const GAP_BYTES_MAX: u64 = 4 << 10;

/// The most that is read by one system call, but for a single value that is longer.
const PIECE_BYTES_MAX: u64 = 256 << 10;

/// Memory of more bytes than this is not kept for what is read next.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// A value that is to be read.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) file: Arc<ValueFile>,
    pub(crate) to: ValuePointer,
}

impl Wanted {
    /// True if it was written so closely behind the other one that both are likely to be read at
    /// once.
    pub(crate) fn follows(&self, other: &Wanted) -> bool {
        let end = other.to.offset_bytes + other.to.record_bytes();
        let gap = self.to.offset_bytes.checked_sub(end);
        self.to.log == other.to.log && gap.is_some_and(|gap| gap <= GAP_BYTES_MAX)
    }

    /// Where its record stands.
    fn extent(&self, opened: &OpenedFile) -> Result<Range<u64>> {
        let at = self.file.place_in(opened, &self.to)?;
        let bytes = self.file.source(opened).whole_bytes(at, self.to.stored_bytes)?;
        Ok(at..at + bytes as u64)
    }
}

/// The memory that values which are read together may expand to.
#[derive(Debug)]
pub(crate) struct Room(AtomicU64);

impl Room {
    pub(crate) fn new(bytes: u64) -> Room {
        Room(AtomicU64::new(bytes))
    }

    fn take(&self, bytes: usize) -> bool {
        let rest = |free: u64| free.checked_sub(bytes as u64);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest).is_ok()
    }
}

/// What became of a value that was to be read.
#[derive(Debug)]
enum Found {
    /// Where in what was read it stands, as it is.
    Stored(Range<usize>),
    /// Where in what was expanded.
    Expanded(Range<usize>),
    /// There was no room for it.
    Left,
    Failed(Error),
}

/// Values that were read, in memory that is used again.
#[derive(Debug, Default)]
pub(crate) struct Values {
    stored: Buffer,
    expanded: Buffer,
    found: Vec<Found>,
    /// Of what is read by one call.
    extents: Vec<Range<u64>>,
}

/// Bytes, of which those at the front are in use.
#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    used: usize,
}

impl Buffer {
    /// So many more bytes.
    fn grow(&mut self, bytes: usize) -> &mut [u8] {
        let start = self.used;
        self.used += bytes;
        if self.bytes.len() < self.used {
            self.bytes.resize(self.used, 0);
        }
        &mut self.bytes[start..self.used]
    }

    fn clear(&mut self) {
        self.used = 0;
        if self.bytes.len() > KEPT_BYTES_MAX {
            self.bytes = Vec::new();
        }
    }
}

impl Values {
    /// Reads these, in the order in which they are given. What was read before is gone.
    ///
    /// What cannot be read, or is more than there is `room` for, is told when it is asked for.
    /// Those that stand one behind the other are read at once.
    pub(crate) fn read(&mut self, wanted: &[Wanted], room: Option<&Room>) {
        self.stored.clear();
        self.expanded.clear();
        self.found.clear();
        while let Some(rest) = wanted.get(self.found.len()..).filter(|rest| !rest.is_empty()) {
            let before = self.found.len();
            if let Err(error) = self.read_some(rest, room) {
                self.found.truncate(before);
                self.found.push(Found::Failed(error));
            }
        }
    }

    /// Reads the first of these, and what follows it closely.
    ///
    /// # Errors
    /// Of the first.
    fn read_some(&mut self, wanted: &[Wanted], room: Option<&Room>) -> Result<()> {
        let file = &wanted[0].file;
        let opened = file.opened()?;
        self.gather(wanted, &opened)?;
        let source = file.source(&opened);
        let start = self.stored.used;
        let at = self.extents[0].start;
        let mut read = source.file.read_at(at, self.piece());
        if read.is_err() && self.extents.len() > 1 {
            // What is wrong may lie behind the first.
            self.extents.truncate(1);
            self.stored.used = start;
            read = source.file.read_at(at, self.piece());
        }
        let end = start + read?;
        let mut compressed = true;
        for nth in 0..self.extents.len() {
            let extent = self.extents[nth].clone();
            let record = start + (extent.start - at) as usize..start + (extent.end - at) as usize;
            let whole = self.stored.bytes.get(record.clone()).filter(|_| record.end <= end);
            let whole = whole.ok_or_else(|| source.damaged(extent.start, "a value is cut short"));
            let found = match whole.and_then(|whole| source.check(extent.start, whole)) {
                Ok(codec) => {
                    compressed &= codec != 0;
                    let damaged = |what| Error::corruption(file.path(), extent.start, what);
                    let range = record.start + RECORD_HEADER_BYTES..record.end;
                    self.expand(codec, range, room).unwrap_or_else(|d| Found::Failed(damaged(d.0)))
                }
                Err(error) => Found::Failed(error),
            };
            file.count_read(extent.end - extent.start);
            self.found.push(found);
        }
        if compressed {
            // The same memory again, while it is in the processor's caches.
            self.stored.used = start;
        }
        Ok(())
    }

    /// Finds out which of these can be read by one call, the first among them.
    fn gather(&mut self, wanted: &[Wanted], opened: &OpenedFile) -> Result<()> {
        let first = wanted[0].extent(opened)?;
        let (start, mut end) = (first.start, first.end);
        self.extents.clear();
        self.extents.push(first);
        for next in &wanted[1..] {
            if !Arc::ptr_eq(&next.file, &wanted[0].file) {
                break;
            }
            let Ok(extent) = next.extent(opened) else { break };
            let follows = extent.start >= end && extent.start - end <= GAP_BYTES_MAX;
            if !follows || extent.end - start > PIECE_BYTES_MAX {
                break;
            }
            end = extent.end;
            self.extents.push(extent);
        }
        Ok(())
    }

    /// Memory for all that is read by one call.
    fn piece(&mut self) -> &mut [u8] {
        let start = self.extents.first().map_or(0, |first| first.start);
        let end = self.extents.last().map_or(0, |last| last.end);
        self.stored.grow((end - start) as usize)
    }

    fn expand(
        &mut self,
        codec: u8,
        stored: Range<usize>,
        room: Option<&Room>,
    ) -> Result<Found, Damage> {
        if codec == 0 {
            return Ok(Found::Stored(stored));
        }
        let stored = &self.stored.bytes[stored];
        if let Some(room) = room
            && !room.take(expanded_bytes(codec, stored)?)
        {
            return Ok(Found::Left);
        }
        let start = self.expanded.used;
        self.expanded.used = expand_into(codec, stored, &mut self.expanded.bytes, start)?;
        Ok(Found::Expanded(start..self.expanded.used))
    }

    /// Some with room for so many bytes.
    #[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
    pub(crate) fn with_room(bytes: usize) -> Values {
        let expanded = Buffer { bytes: Vec::with_capacity(bytes), used: 0 };
        Values { expanded, ..Values::default() }
    }

    /// What it takes of memory, in use or not.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.stored.bytes.capacity()
            + self.expanded.bytes.capacity()
            + self.found.capacity() * size_of::<Found>()
            + self.extents.capacity() * size_of::<Range<u64>>()
    }

    /// The value with this number among those that were read; `None` if there was no room for it.
    ///
    /// # Errors
    /// `Corruption` naming file and offset, or `Io`, if it could not be read.
    #[inline]
    pub(crate) fn get(&self, nth: usize) -> Result<Option<&[u8]>> {
        match &self.found[nth] {
            Found::Stored(range) => Ok(Some(&self.stored.bytes[range.clone()])),
            Found::Expanded(range) => Ok(Some(&self.expanded.bytes[range.clone()])),
            Found::Left => Ok(None),
            Found::Failed(error) => Err(error.clone()),
        }
    }
}
