//! Walks the point records of a table in both directions.
//!
//! Flow: partition -> its index -> data block (cache, read-ahead buffer, or file) -> block cursor.
//! Invariants: (1) while `valid`, the block cursor stands on a record of block `block` of partition
//! `partition`, and `index` is that partition's; (2) after an error the cursor stands on nothing.
//! Threads: one.
//!
//! Walking in one direction makes the reads longer: after two neighbouring blocks a read fetches 8
//! KiB, then, while each follows on the one before, twice as much each time, up to the limit. A
//! compaction reads its limit at once and leaves the cache alone.

use super::builder::compression_name;
use super::format::{FOOTER_BYTES, Handle};
use super::index::DataIndex;
use super::reader::TableReader;
use crate::block::{Block, BlockCursor, Damage, StoredBlock, open_payload};
use crate::cursor::{Advance, BlocksRead, Cursor, Step};
use crate::options::Compression;
use crate::stats::TableCounter;
use crate::value::Value;
use esker_base::heap::SharedBytes;
use esker_base::key::SEQ_MAX;
use esker_base::{Error, Result, Seq, Trailer};
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

const READAHEAD_BYTES_FIRST: usize = 8 << 10;
const READAHEAD_BYTES_MAX: usize = 256 << 10;

/// What was read ahead is left to the thread's next cursor if it is no longer than this.
const LEFT_BYTES_MAX: usize = 32 << 10;

thread_local! {
    static LEFT: Cell<Option<SharedBytes>> = const { Cell::new(None) };
}

/// Neighbouring blocks that are read one by one before reads grow.
const RUN_BEFORE_READAHEAD: u32 = 2;

/// How a cursor reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorOptions {
    /// Look for blocks in the cache. Default: true.
    pub use_cache: bool,
    /// Put blocks and indexes that were read into the cache. Default: true.
    pub fill_cache: bool,
    /// Bytes of every read, from the first on. Default: 0, which grows as blocks follow each other.
    pub readahead_bytes_min: usize,
    /// The longest read. Default: 256 KiB. 0 reads block by block.
    pub readahead_bytes_max: usize,
    /// Which blocks are also kept as they stand in the file, where it is read past the cache.
    /// Default: none.
    pub keep: Option<Keep>,
    /// Every record reads as this sequence number: an ingested table, which must hold one record
    /// a key. Default: none.
    pub seq_override: Option<Seq>,
}

impl Default for CursorOptions {
    fn default() -> CursorOptions {
        CursorOptions {
            use_cache: true,
            fill_cache: true,
            readahead_bytes_min: 0,
            readahead_bytes_max: READAHEAD_BYTES_MAX,
            keep: None,
            seq_override: None,
        }
    }
}

/// Blocks that may be copied: in another table they would be written just so.
///
/// Of one record each, which reads as it stands there, and in a table that is compressed so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// How the other table is compressed.
    pub compression: Compression,
    /// Bytes that the payload has at least: those of a block there.
    pub payload_bytes_min: usize,
}

impl CursorOptions {
    /// Reads of `read_bytes` past the cache, each byte read once.
    pub fn compaction(read_bytes: usize) -> CursorOptions {
        CursorOptions {
            use_cache: false,
            fill_cache: false,
            readahead_bytes_min: read_bytes,
            readahead_bytes_max: read_bytes,
            ..CursorOptions::default()
        }
    }
}

/// How the cursor came to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Jump,
    Forward,
    Backward,
}

/// A cursor over one table. Holds the table open.
#[derive(Debug)]
pub struct TableCursor {
    table: Arc<TableReader>,
    options: CursorOptions,
    cursor: BlockCursor,
    partition: usize,
    block: usize,
    index: Option<Arc<DataIndex>>,
    /// Where the block stands that `cursor` has.
    handle: Option<Handle>,
    readahead: ReadAhead,
    blocks_read: BlocksRead,
}

/// A piece of the file read ahead of need.
#[derive(Debug, Default)]
struct ReadAhead {
    data: Option<SharedBytes>,
    at: u64,
    /// How much of `data` was read.
    len: usize,
    /// What was read of the file last: that, or a block alone.
    fetched: Range<u64>,
    /// Blocks walked in one direction so far.
    run: u32,
    bytes: usize,
    /// A piece that could not be read as one: its blocks are read alone.
    unreadable: Range<u64>,
}

impl TableCursor {
    pub(super) fn new(table: Arc<TableReader>, mut options: CursorOptions) -> TableCursor {
        let may_keep = !options.use_cache && options.seq_override.is_none();
        options.keep = options.keep.filter(|keep| {
            may_keep && table.properties.compression == compression_name(keep.compression)
        });
        TableCursor {
            table,
            options,
            cursor: BlockCursor::new(),
            partition: 0,
            block: 0,
            index: None,
            handle: None,
            readahead: ReadAhead::default(),
            blocks_read: BlocksRead::default(),
        }
    }

    /// The blocks that it went to since it was made.
    pub(crate) fn blocks_read(&self) -> BlocksRead {
        self.blocks_read
    }

    /// The value without copying it, if the cursor is valid.
    ///
    /// Copied where sharing would keep far more memory alive than the block.
    pub fn shared_value(&self) -> Option<Value> {
        self.cursor.shared_value()
    }

    /// Exchanges the cursor over the block it stands in with `leaf`; false, and nothing is
    /// exchanged, if records do not read as they stand in the block.
    ///
    /// Until it is exchanged back, nothing else may be asked of this cursor.
    #[inline]
    pub(crate) fn exchange_leaf(&mut self, leaf: &mut BlockCursor) -> bool {
        let as_it_stands = self.options.seq_override.is_none();
        if as_it_stands {
            std::mem::swap(&mut self.cursor, leaf);
        }
        as_it_stands
    }

    /// The block of the present record as it stands in the file, if that was kept.
    #[inline]
    pub(crate) fn stored_block(&self) -> Option<&StoredBlock> {
        self.cursor.stored()
    }

    /// What the last step forward came to; `None` if not valid.
    #[inline(always)]
    pub fn step(&self) -> Option<Step<'_>> {
        let step = self.cursor.step()?;
        Some(match self.options.seq_override {
            None => step,
            Some(all) => Step { trailer: step.trailer.with_seq(all), ..step },
        })
    }

    /// The table walked.
    pub fn table(&self) -> &Arc<TableReader> {
        &self.table
    }

    #[cold]
    fn damaged(&self, damage: Damage) -> Error {
        self.table.damaged(self.handle.unwrap_or_default(), damage)
    }

    /// Lets go of the block, so that the cursor is not valid.
    fn unset(&mut self) {
        self.cursor.clear();
        self.handle = None;
    }

    fn set_partition(&mut self, partition: usize) -> Result<()> {
        if self.index.is_none() || self.partition != partition {
            self.unset();
            self.index = None;
            self.index = Some(match self.options.fill_cache {
                true => self.table.index(partition)?,
                false => self.table.index_in_passing(partition)?,
            });
            self.partition = partition;
        }
        Ok(())
    }

    /// Points the block cursor at block `block` of the partition at hand, on no record.
    fn set_block(&mut self, block: usize, way: Way) -> Result<()> {
        let Some(index) = self.index.clone() else { return Ok(()) };
        let handle = index.handle(block);
        self.block = block;
        if self.handle == Some(handle) {
            return Ok(());
        }
        // Let go first, so that the read-ahead buffer can be used again.
        self.unset();
        let block = self.fetch(&index, block, way)?;
        let is_kept = |keep: Keep| block.is_one_record_of(keep.payload_bytes_min);
        let is_kept = self.options.keep.is_some_and(is_kept);
        self.cursor.set_block(block);
        if is_kept && let Some(stored) = self.stored(handle) {
            self.cursor.keep_stored(stored);
        }
        self.handle = Some(handle);
        Ok(())
    }

    fn fetch(&mut self, index: &Arc<DataIndex>, at: usize, way: Way) -> Result<Block> {
        let run = if way == Way::Jump { 0 } else { self.readahead.run.saturating_add(1) };
        self.readahead.run = run;
        self.blocks_read.walked += 1;
        if self.options.use_cache {
            let found = self.table.cached_data(index, at);
            // Who goes on soon needs the block beside it.
            match way {
                Way::Jump => {}
                Way::Forward => index.warm_block(at + 1),
                Way::Backward => index.warm_block(at.wrapping_sub(1)),
            }
            let stripe = self.table.counters.local();
            if let Some(block) = found {
                stripe.add(TableCounter::BlockCacheHits, 1);
                return Ok(block);
            }
            stripe.add(TableCounter::BlockCacheMisses, 1);
        }
        self.blocks_read.loaded += 1;
        let block = self.read_block(index.handle(at), way)?;
        if !self.options.fill_cache {
            return Ok(block);
        }
        let block = block.detached(self.table.block_heap());
        self.table.cache_data(index, at, &block);
        Ok(block)
    }

    /// Reads a block from the file, or from what was read ahead.
    fn read_block(&mut self, handle: Handle, way: Way) -> Result<Block> {
        if !self.readahead.holds(handle) && !self.read_ahead(handle, way) {
            self.readahead.fetched = handle.offset_bytes..handle.end_bytes();
            return self.table.load_data(handle);
        }
        let table = &self.table;
        let Some(data) = &self.readahead.data else { return table.load_data(handle) };
        let start = (handle.offset_bytes - self.readahead.at) as usize;
        let stored = handle.stored_bytes as usize;
        let payload = open_payload(
            table.block_heap(),
            data,
            start,
            stored,
            table.file.salt,
            handle.offset_bytes,
        )
        .map_err(|d| table.damaged(handle, d))?;
        Block::new(payload).map_err(|d| table.damaged(handle, d))
    }

    /// The block as it stands in the file, if it was read ahead.
    fn stored(&self, handle: Handle) -> Option<StoredBlock> {
        let data = self.readahead.data.as_ref().filter(|_| self.readahead.holds(handle))?;
        let start = (handle.offset_bytes - self.readahead.at) as usize;
        let (stored, salt) = (handle.stored_bytes as usize, self.table.file.salt);
        StoredBlock::new(data, start, stored, salt, handle.offset_bytes)
    }

    /// Reads a piece of the file that holds `handle` and what is likely to come after it.
    ///
    /// False if the block is better read alone.
    fn read_ahead(&mut self, handle: Handle, way: Way) -> bool {
        if self.readahead.unreadable.contains(&handle.offset_bytes) {
            return false;
        }
        let CursorOptions { readahead_bytes_min: min, readahead_bytes_max: max, .. } = self.options;
        let bytes = match (self.readahead.run, self.readahead.bytes) {
            (0..RUN_BEFORE_READAHEAD, _) => min,
            // Where blocks between were in the cache, others will be.
            (_, last) if last > 0 && self.readahead.leads_to(handle) => (2 * last).max(min),
            _ => READAHEAD_BYTES_FIRST.max(min),
        };
        let bytes = bytes.min(max);
        self.readahead.bytes = bytes;
        let whole = handle.whole_bytes();
        if bytes <= whole {
            return false;
        }
        let end_max = self.table.file.bytes - FOOTER_BYTES as u64;
        let (start, end) = if way == Way::Backward {
            (handle.end_bytes().saturating_sub(bytes as u64), handle.end_bytes())
        } else {
            let end = handle.offset_bytes + bytes as u64;
            (handle.offset_bytes, end.min(end_max).max(handle.end_bytes()))
        };
        if end > self.table.file.bytes {
            return false;
        }
        let len = (end - start) as usize;
        let fill = |data: &mut [u8]| self.table.file.inner.read_at(start, data);
        let spare = self.readahead.take_spare(len);
        let (data, read) = SharedBytes::refilled(spare, len, fill);
        if !read.is_ok_and(|read| read == len) {
            // What is wrong may lie where nobody asks for it. Whoever does is told then.
            self.readahead.unreadable = start..end;
            self.readahead.bytes = 0;
            return false;
        }
        let stripe = self.table.counters.local();
        stripe.add(TableCounter::Reads, 1);
        stripe.add(TableCounter::ReadBytes, len as u64);
        self.readahead.data = Some(data);
        self.readahead.at = start;
        self.readahead.len = len;
        self.readahead.fetched = start..end;
        true
    }

    /// Goes to the first record of the following block.
    #[inline(never)]
    fn next_block(&mut self) -> Result<()> {
        let Some(index) = &self.index else { return Ok(()) };
        let mut block = self.block + 1;
        if block >= index.len() {
            if self.partition + 1 >= self.table.top.partitions.len() {
                self.unset();
                return Ok(());
            }
            self.set_partition(self.partition + 1)?;
            block = 0;
        }
        self.set_block(block, Way::Forward)?;
        self.cursor.seek_to_first().map_err(|d| self.damaged(d))
    }

    /// Goes to the last record of the preceding block.
    #[inline(never)]
    fn prev_block(&mut self) -> Result<()> {
        if self.index.is_none() {
            return Ok(());
        }
        let block = match self.block.checked_sub(1) {
            Some(block) => block,
            None => {
                let Some(partition) = self.partition.checked_sub(1) else {
                    self.unset();
                    return Ok(());
                };
                self.set_partition(partition)?;
                self.index.as_ref().map_or(0, |index| index.len() - 1)
            }
        };
        self.set_block(block, Way::Backward)?;
        self.cursor.seek_to_last().map_err(|d| self.damaged(d))
    }

    /// Points at the block that may hold the target; false if it is after all records.
    fn find_block(&mut self, key: &[u8], trailer: Trailer) -> Result<bool> {
        let table = &self.table;
        let partition = table.top.separators.lower_bound(&table.order, key, trailer);
        if partition >= table.top.partitions.len() {
            self.unset();
            return Ok(false);
        }
        self.set_partition(partition)?;
        let table = &self.table;
        let Some(index) = &self.index else { return Ok(false) };
        let block = index.find(&table.order, key, trailer);
        if block >= index.len() {
            return Err(table.index_mismatch(partition));
        }
        self.set_block(block, Way::Jump)?;
        Ok(true)
    }

    fn seek_stored(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        if !self.find_block(key, trailer)? {
            return Ok(());
        }
        let sought = self.cursor.seek(&self.table.order, key, trailer);
        sought.map_err(|d| self.damaged(d))?;
        if self.cursor.valid() { Ok(()) } else { self.next_block() }
    }

    fn seek_before_stored(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        if !self.find_block(key, trailer)? {
            return self.go_last();
        }
        let sought = self.cursor.seek_before(&self.table.order, key, trailer);
        sought.map_err(|d| self.damaged(d))?;
        if self.cursor.valid() { Ok(()) } else { self.prev_block() }
    }

    /// Seeks where every record has the sequence number `all`.
    fn seek_overridden(&mut self, key: &[u8], trailer: Trailer, all: Seq) -> Result<()> {
        self.seek_stored(key, Trailer::seek(SEQ_MAX))?;
        while self.cursor.valid()
            && self.table.order.same(self.cursor.key(), key)
            && self.cursor.trailer().with_seq(all) > trailer
        {
            self.step_forward()?;
        }
        Ok(())
    }

    #[inline]
    fn step_forward(&mut self) -> Result<()> {
        if let Err(damage) = self.cursor.next() {
            return Err(self.fail(damage));
        }
        if self.cursor.valid() { Ok(()) } else { self.on_error(Self::step_to_next_block) }
    }

    /// Goes to the first record of the following block, and looks whether it has the key of the
    /// last.
    #[inline(never)]
    fn step_to_next_block(&mut self) -> Result<()> {
        let left = self.cursor.last_key().to_vec();
        self.next_block()?;
        let repeats = self.cursor.valid() && self.cursor.key() == left;
        self.cursor.set_repeats(repeats);
        Ok(())
    }

    fn go_last(&mut self) -> Result<()> {
        let Some(last) = self.table.top.partitions.len().checked_sub(1) else {
            self.unset();
            return Ok(());
        };
        self.set_partition(last)?;
        let block = self.index.as_ref().map_or(0, |index| index.len() - 1);
        self.set_block(block, Way::Jump)?;
        self.cursor.seek_to_last().map_err(|d| self.damaged(d))
    }

    #[cold]
    fn fail(&mut self, damage: Damage) -> Error {
        let error = self.damaged(damage);
        self.unset();
        error
    }

    /// Runs a move and lets go of everything if it fails.
    fn on_error(&mut self, go: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let gone = go(self);
        if gone.is_err() {
            self.unset();
        }
        gone
    }
}

impl ReadAhead {
    fn holds(&self, handle: Handle) -> bool {
        self.data.is_some()
            && handle.offset_bytes >= self.at
            && handle.end_bytes() <= self.at + self.len as u64
    }

    /// True if this block comes next to what was read last, on either side.
    fn leads_to(&self, handle: Handle) -> bool {
        handle.offset_bytes <= self.fetched.end && handle.end_bytes() >= self.fetched.start
    }

    /// Memory for so many bytes that is there: what was read last, or what another cursor left.
    fn take_spare(&mut self, len: usize) -> Option<SharedBytes> {
        match self.data.take() {
            None if len <= LEFT_BYTES_MAX => LEFT.try_with(Cell::take).ok().flatten(),
            spare => spare,
        }
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        if let Some(data) = self.data.take_if(|data| data.len() <= LEFT_BYTES_MAX) {
            // At the end of a thread there may be no place for it any more.
            let _ = LEFT.try_with(|left| left.set(Some(data)));
        }
    }
}

impl Cursor for TableCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.cursor.valid()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.on_error(|this| {
            if this.table.top.partitions.is_empty() {
                this.unset();
                return Ok(());
            }
            this.set_partition(0)?;
            this.set_block(0, Way::Jump)?;
            this.cursor.seek_to_first().map_err(|d| this.damaged(d))
        })
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.on_error(Self::go_last)
    }

    fn seek(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        self.on_error(|this| match this.options.seq_override {
            None => this.seek_stored(key, trailer),
            Some(all) => this.seek_overridden(key, trailer, all),
        })
    }

    fn seek_before(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        self.on_error(|this| match this.options.seq_override {
            None => this.seek_before_stored(key, trailer),
            Some(all) => {
                this.seek_overridden(key, trailer, all)?;
                if this.cursor.valid() { this.prev() } else { this.go_last() }
            }
        })
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.step_forward()
    }

    fn prev(&mut self) -> Result<()> {
        if let Err(damage) = self.cursor.prev() {
            return Err(self.fail(damage));
        }
        if self.cursor.valid() { Ok(()) } else { self.on_error(Self::prev_block) }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.cursor.key()
    }

    #[inline]
    fn trailer(&self) -> Trailer {
        let trailer = self.cursor.trailer();
        match self.options.seq_override {
            None => trailer,
            Some(all) => trailer.with_seq(all),
        }
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.cursor.value()
    }
}

impl Advance for TableCursor {
    #[inline]
    fn advance(&mut self) -> Result<Option<Step<'_>>> {
        self.step_forward()?;
        Ok(self.step())
    }
}
