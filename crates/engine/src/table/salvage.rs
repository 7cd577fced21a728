//! What can still be read of a damaged table.
//!
//! Where an index can be read it leads to the blocks. Where none can, blocks are found by their
//! checksums: a block begins where the one before ends, and a sum bound to salt and offset that
//! fits the bytes before it says where it ends. Behind unreadable bytes every offset is tried, up
//! to a budget.
//! Invariant: no bytes of a file make this panic, or search without end.

use super::file::TableFile;
use super::format::{FOOTER_BYTES, Handle, decode_range_tombstones};
use super::reader::{TableContext, TableReader};
use crate::block::{Block, BlockCursor, TRAILER_BYTES};
use crate::options::KeyspaceOptions;
use crate::range_tombstone::RangeTombstone;
use crate::stats::TableCounters;
use esker_base::checksum::bind;
use esker_base::heap::Heap;
use esker_base::vfs::ReadableFile;
use esker_base::{Error, KeyOrder, Kind, Result, Trailer};
use std::cmp::Ordering;
use std::sync::Arc;

/// Bytes looked at for the end of a block, and, if it is not among them, once more. A longer block
/// is not found.
const SEARCH_WINDOW_BYTES: [u64; 2] = [256 << 10, 64 << 20];

/// Bytes read at a time for it.
const WINDOW_READ_BYTES: u64 = 1 << 20;

/// Steps that may be spent on finding blocks behind damage.
const SEARCH_STEPS: u64 = 1 << 31;

/// Steps that a page costs which cannot be read: a device may try for long.
const UNREADABLE_STEPS: u64 = SEARCH_STEPS >> 10;

/// Bytes that can be read or not as one.
const PAGE_BYTES: u64 = 4 << 10;

/// Behind damage, blocks up to this length are always found while the steps last.
const SEARCH_BLOCK_BYTES: u64 = 64 << 10;

/// Bytes of a table that hold nothing readable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LostBytes {
    pub(crate) offset_bytes: u64,
    pub(crate) bytes: u64,
    pub(crate) what: String,
}

/// The range tombstones of a damaged table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tombstones {
    /// All of them; often none.
    Kept(Vec<RangeTombstone>),
    /// Whether there were any is not known, or they cannot be read.
    Unreadable,
}

/// The readable parts of a table.
#[derive(Debug)]
pub(crate) struct TableRemains {
    file: TableFile,
    /// Sound data blocks in order.
    blocks: Vec<Handle>,
    /// Records in them.
    pub(crate) entries: u64,
    pub(crate) tombstones: Tombstones,
    pub(crate) lost: Vec<LostBytes>,
}

/// A file that is read only up to the length it should have.
#[derive(Debug)]
struct Clipped {
    inner: Arc<dyn ReadableFile>,
    file_bytes: u64,
}

impl ReadableFile for Clipped {
    fn read_at(&self, offset_bytes: u64, buf: &mut [u8]) -> Result<usize> {
        let room = self.file_bytes.saturating_sub(offset_bytes).min(buf.len() as u64) as usize;
        self.inner.read_at(offset_bytes, &mut buf[..room])
    }

    fn len_bytes(&self) -> Result<u64> {
        Ok(self.inner.len_bytes()?.min(self.file_bytes))
    }
}

impl TableRemains {
    /// Looks at all of a table that should have this length and salt.
    ///
    /// # Errors
    /// `Incompatible` if the table says that it is of another order or format.
    pub(crate) fn read(
        mut file: TableFile,
        options: &KeyspaceOptions,
        context: &TableContext,
    ) -> Result<TableRemains> {
        let file_bytes = file.bytes;
        let real_bytes = file.inner.len_bytes().unwrap_or(0);
        file.inner = Arc::new(Clipped { inner: file.inner, file_bytes });
        let opened = TableReader::open(file.clone(), options, context);
        file.bytes = real_bytes.min(file_bytes);
        let mut search = Search {
            remains: TableRemains {
                file,
                blocks: Vec::new(),
                entries: 0,
                tombstones: Tombstones::Unreadable,
                lost: Vec::new(),
            },
            order: &options.order,
            counters: &context.counters,
            last: None,
            steps: SEARCH_STEPS,
            largest: 0,
        };
        match opened {
            Ok(reader) => search.by_index(&Arc::new(reader)),
            Err(error @ Error::Incompatible { .. }) => return Err(error),
            Err(error) => {
                let mut end = search.remains.file.bytes;
                search.lose(end, file_bytes, &format!("{error}"));
                if end == file_bytes {
                    end = end.saturating_sub(FOOTER_BYTES as u64);
                }
                search.by_checksums(0, end);
            }
        }
        Ok(search.remains)
    }

    /// The sound data blocks, in order.
    pub(crate) fn blocks(&self) -> &[Handle] {
        &self.blocks
    }

    /// Reads one of them.
    pub(crate) fn load(&self, counters: &TableCounters, handle: Handle) -> Result<Block> {
        load(self, counters, handle)
    }

    /// Hands every readable record to `visit`, in order.
    pub(crate) fn records(
        &self,
        counters: &TableCounters,
        mut visit: impl FnMut(&[u8], Trailer, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut cursor = BlockCursor::new();
        for &handle in &self.blocks {
            let damaged = |damage| self.file.damaged(handle, damage);
            let block = load(self, counters, handle)?;
            cursor.set_block(block);
            cursor.seek_to_first().map_err(damaged)?;
            while cursor.valid() {
                visit(cursor.key(), cursor.trailer(), cursor.value())?;
                cursor.next().map_err(damaged)?;
            }
        }
        Ok(())
    }
}

fn load(remains: &TableRemains, counters: &TableCounters, handle: Handle) -> Result<Block> {
    let payload = remains.file.read(&Heap::global(), counters, handle)?;
    Block::new(payload).map_err(|damage| remains.file.damaged(handle, damage))
}

/// A search under way.
struct Search<'a> {
    remains: TableRemains,
    order: &'a KeyOrder,
    counters: &'a TableCounters,
    /// The last record taken.
    last: Option<(Vec<u8>, Trailer)>,
    steps: u64,
    /// Bytes of the largest block met.
    largest: u64,
}

impl Search<'_> {
    fn lose(&mut self, from: u64, to: u64, what: &str) {
        if to > from {
            let lost = LostBytes { offset_bytes: from, bytes: to - from, what: what.to_owned() };
            self.remains.lost.push(lost);
        }
    }

    /// Goes by the indexes; where one is damaged, by checksums.
    fn by_index(&mut self, reader: &Arc<TableReader>) {
        self.remains.tombstones = Tombstones::Kept(reader.stored_tombstones().to_vec());
        let mut partition_at = 0;
        for (i, handles) in reader.top.partitions.iter().enumerate() {
            let index_at = handles.index.offset_bytes;
            match reader.read_index(i) {
                Ok(index) => {
                    for at in 0..index.len() {
                        self.take(index.handle(at));
                    }
                }
                Err(_) => self.by_checksums(partition_at, index_at),
            }
            partition_at = handles.filter.unwrap_or(handles.index).end_bytes();
        }
    }

    /// Takes a block whose place is known, or notes why not.
    fn take(&mut self, handle: Handle) {
        let taken = load(&self.remains, self.counters, handle)
            .map_err(|error| match error {
                Error::Corruption { what, .. } => what.to_owned(),
                other => other.to_string(),
            })
            .and_then(|block| self.accept(handle, block).map_err(str::to_owned));
        if let Err(what) = taken {
            self.lose(handle.offset_bytes, handle.end_bytes(), &what);
        }
    }

    /// Takes a block if all its records are sound and come after those taken before.
    fn accept(&mut self, handle: Handle, block: Block) -> Result<(), &'static str> {
        let mut cursor = BlockCursor::new();
        cursor.set_block(block);
        let mut last = self.last.clone();
        let mut entries = 0;
        cursor.seek_to_first().map_err(|damage| damage.0)?;
        while cursor.valid() {
            let (key, trailer) = (cursor.key(), cursor.trailer());
            if !matches!(trailer.kind(), Some(Kind::Put | Kind::PutPointer | Kind::Delete)) {
                return Err("record is of an unknown kind");
            }
            if let Some((last, last_trailer)) = &last {
                let order = self.order.compare_internal((last, *last_trailer), (key, trailer));
                if order != Ordering::Less {
                    return Err("records are out of order");
                }
            }
            let (buffer, last_trailer) = last.get_or_insert_with(|| (Vec::new(), trailer));
            buffer.clear();
            buffer.extend_from_slice(key);
            *last_trailer = trailer;
            entries += 1;
            cursor.next().map_err(|damage| damage.0)?;
        }
        self.last = last;
        self.remains.entries += entries;
        self.remains.blocks.push(handle);
        Ok(())
    }

    /// Finds blocks of `[from, end)` by their checksums.
    fn by_checksums(&mut self, from: u64, end: u64) {
        let mut at = from;
        // Where unreadable bytes begin.
        let mut lost_from: Option<u64> = None;
        let file = self.remains.file.inner.clone();
        let mut window = Window { file, at: 0, bytes: Vec::new(), ends_unreadable: false };
        while at < end {
            let near = SEARCH_BLOCK_BYTES.max(4 * self.largest);
            let limits = if lost_from.is_none() { &SEARCH_WINDOW_BYTES[..] } else { &[near][..] };
            let mask = bind(0, self.remains.file.salt, at);
            let mut stored = None;
            for limit in limits {
                stored = block_end(window.get(at, end - at, *limit), mask, &mut self.steps);
                if stored.is_some() {
                    break;
                }
            }
            let Some(stored) = stored else {
                lost_from = lost_from.or(Some(at));
                if let Some(page_end) = window.unreadable_until(at) {
                    self.steps = self.steps.saturating_sub(UNREADABLE_STEPS);
                    at = page_end;
                } else {
                    at += 1;
                }
                if self.steps == 0 {
                    break;
                }
                continue;
            };
            if let Some(from) = lost_from.take() {
                self.lose(from, at, "nothing here is a block");
            }
            let handle = Handle { offset_bytes: at, stored_bytes: stored as u32 };
            self.largest = self.largest.max(u64::from(handle.stored_bytes));
            self.classify(handle);
            at = handle.end_bytes();
        }
        if let Some(from) = lost_from {
            self.lose(from, end, "nothing here is a block");
        }
    }

    /// Takes what is found if it holds records or range tombstones; indexes and filters are not
    /// needed.
    fn classify(&mut self, handle: Handle) {
        let read = self.remains.file.read(&Heap::global(), self.counters, handle);
        let Ok(payload) = read else { return };
        let tombstones = decode_range_tombstones(payload.bytes()).ok();
        if let Ok(block) = Block::new(payload)
            && self.accept(handle, block).is_ok()
        {
            return;
        }
        if let Some(tombstones) = tombstones.filter(|found| !found.is_empty()) {
            let ordered = tombstones.iter().all(|t| self.order.less(&t.start, &t.end));
            if ordered {
                self.remains.tombstones = Tombstones::Kept(tombstones);
            }
        }
    }
}

/// A piece of the file in memory.
struct Window {
    file: Arc<dyn ReadableFile>,
    at: u64,
    bytes: Vec<u8>,
    /// What follows on `bytes` cannot be read.
    ends_unreadable: bool,
}

impl Window {
    /// Up to `len` of the `left` bytes at `at`; fewer where the file cannot be read.
    fn get(&mut self, at: u64, left: u64, len: u64) -> &[u8] {
        let len = len.min(left);
        let end = self.at + self.bytes.len() as u64;
        let has_all_there_is = self.ends_unreadable && at < end;
        if at < self.at || (at + len > end && !has_all_there_is) {
            // More than asked for, since the next call asks for what follows.
            self.fill(at, len.max(WINDOW_READ_BYTES).min(left) as usize);
        }
        let start = ((at - self.at) as usize).min(self.bytes.len());
        let end = (start + len as usize).min(self.bytes.len());
        &self.bytes[start..end]
    }

    /// Reads so much, or what comes before a page that cannot be read.
    fn fill(&mut self, at: u64, want: usize) {
        self.at = at;
        self.bytes.resize(want, 0);
        let mut read = self.file.read_at(at, &mut self.bytes).unwrap_or(0);
        while read < want {
            let page_end = page_end(at + read as u64) - at;
            let page = read..want.min(page_end as usize);
            match self.file.read_at(at + read as u64, &mut self.bytes[page.clone()]) {
                Ok(more) if more == page.len() => read = page.end,
                _ => break,
            }
        }
        self.bytes.truncate(read);
        self.ends_unreadable = read < want;
    }

    /// Where the page ends which `get` could read nothing of at `at`.
    fn unreadable_until(&self, at: u64) -> Option<u64> {
        let is_unreadable = self.ends_unreadable && at >= self.at + self.bytes.len() as u64;
        is_unreadable.then(|| page_end(at))
    }
}

fn page_end(at: u64) -> u64 {
    (at / PAGE_BYTES + 1) * PAGE_BYTES
}

/// Stored bytes of the block that begins at the first of `bytes`, found by its checksum.
///
/// `mask` is what its place adds to the checksum.
fn block_end(bytes: &[u8], mask: u32, steps: &mut u64) -> Option<usize> {
    let mut crc = !0u32;
    let last = bytes.len().checked_sub(TRAILER_BYTES - 1)?;
    for (i, &byte) in bytes[..last].iter().enumerate() {
        crc = crc >> 8 ^ CRC_TABLE[usize::from(crc as u8 ^ byte)];
        // The codec is the last byte summed.
        if byte <= 2 && i > 0 {
            let sum = &bytes[i + 1..i + TRAILER_BYTES];
            if sum == (!crc ^ mask).to_le_bytes() {
                return Some(i);
            }
        }
    }
    *steps = steps.saturating_sub(last as u64);
    None
}

/// CRC-32C, a byte at a time: here every prefix has to be judged.
const CRC_TABLE: [u32; 256] = {
    let mut table = [0u32; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_block_is_found_by_its_sum() {
        for len in [1usize, 2, 30, 700] {
            let mut bytes: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
            bytes.push(0);
            let mask = bind(0, 5, 99);
            let sum = esker_base::checksum::crc32c(&bytes) ^ mask;
            bytes.extend_from_slice(&sum.to_le_bytes());
            bytes.extend_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
            let mut steps = 1_000_000;
            assert_eq!(block_end(&bytes, mask, &mut steps), Some(len));
            assert_eq!(block_end(&bytes, mask ^ 1, &mut steps), None);
            assert_eq!(block_end(&bytes[..len + 4], mask, &mut steps), None);
        }
    }
}
