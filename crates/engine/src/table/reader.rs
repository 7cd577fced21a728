//! Reads a table: the parts that lookups and cursors are made of, each from memory if pinned or
//! cached, else from the file and checked.
//!
//! Invariants: (1) what is pinned or cached passed its checksum and its decoder; (2) a table that
//! was told to pin keeps the indexes and filters it has once loaded, up to what was promised, and
//! nothing else of the file.
//! Threads: any number; the only things that change are the pins, each set once.

use super::block_cache::CachedPart;
use super::file::TableFile;
use super::filter::{FilterBlock, Probes};
use super::format::{FOOTER_BYTES, Handle, Properties, decode_range_tombstones};
use super::index::{DataIndex, TopIndex};
use super::{BlockCache, CursorOptions, TableCursor};
use crate::block::{Block, Damage, Payload};
use crate::cache::CacheKey;
use crate::options::{Filter, FilterPolicy, KeyspaceOptions};
use crate::range_tombstone::{RangeTombstone, RangeTombstones};
use crate::stats::TableCounters;
use esker_base::heap::Heap;
use esker_base::key::SEQ_MAX;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::sync::{Mutex, OnceLock};
use esker_base::{Error, KeyOrder, Result, Seq, Trailer};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

/// What all tables of a database share, and what is one table's own of it.
#[derive(Clone, Debug)]
pub struct TableContext {
    /// Where blocks are kept.
    pub cache: Arc<BlockCache>,
    /// Names the table in the cache: no other table that was ever in there has it.
    pub number: u64,
    /// Where reads are counted.
    pub counters: Arc<TableCounters>,
    /// A table keeps its indexes and filters outside the cache if they take at most this.
    /// 0 leaves them all to the cache.
    pub pin_bytes_max: u64,
}

/// An open table. Shared by `Arc`.
pub struct TableReader {
    pub(super) file: TableFile,
    pub(super) order: KeyOrder,
    pub(super) top: TopIndex,
    pub(super) properties: Properties,
    policy: Option<Arc<dyn FilterPolicy>>,
    /// True if filters may be asked: keys can be hashed in this order, or a policy of the user's is
    /// at hand.
    pub(super) asks_filters: bool,
    cache: Arc<BlockCache>,
    number: u64,
    pub(super) counters: Arc<TableCounters>,
    /// One for each partition; empty if nothing is pinned.
    pub(super) pins: Box<[Pins]>,
    pinned_bytes: AtomicU64,
    /// The right to pin. What two threads have read at once counts once, or it could be too much.
    pinning: Mutex<()>,
    tombstones: Vec<RangeTombstone>,
    fragments: Arc<RangeTombstones>,
}

/// Pinned parts of a partition.
#[derive(Default)]
pub(super) struct Pins {
    pub(super) index: OnceLock<Arc<DataIndex>>,
    pub(super) filter: OnceLock<FilterBlock>,
}

/// A part that is pinned, or held for the moment.
pub(super) enum Held<'a, T> {
    Pinned(&'a T),
    Shared(T),
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match self {
            Held::Pinned(part) => part,
            Held::Shared(part) => part,
        }
    }
}

impl TableReader {
    /// Opens a table and checks that it is the one the manifest means.
    ///
    /// Of `options`, the order and the filter policy matter.
    ///
    /// # Errors
    /// `Corruption` if length, salt, magic or a checksum is wrong; `Incompatible` if the format is
    /// newer or the table was written in another order.
    /// # Cost
    /// Three or four reads; index and filter blocks are read when first needed.
    pub fn open(
        file: TableFile,
        options: &KeyspaceOptions,
        context: &TableContext,
    ) -> Result<TableReader> {
        let parts = Parts::read(&file, options, &context.counters)?;
        let policy = match &options.filter {
            Filter::Custom(policy) => Some(policy.clone()),
            _ => None,
        };
        let pins = if pinnable_bytes(&parts.properties) <= context.pin_bytes_max {
            parts.top.partitions.iter().map(|_| Pins::default()).collect()
        } else {
            Box::default()
        };
        Ok(TableReader {
            file,
            order: options.order.clone(),
            top: parts.top,
            properties: parts.properties,
            asks_filters: options.order.is_hashable() || policy.is_some(),
            policy,
            cache: context.cache.clone(),
            number: context.number,
            counters: context.counters.clone(),
            pins,
            pinned_bytes: AtomicU64::new(0),
            pinning: Mutex::new(()),
            fragments: Arc::new(RangeTombstones::build(&options.order, &parts.tombstones)),
            tombstones: parts.tombstones,
        })
    }

    /// A cursor over the point records, standing on none.
    pub fn cursor(self: &Arc<Self>, options: CursorOptions) -> TableCursor {
        TableCursor::new(self.clone(), options)
    }

    /// The range tombstones, fragmented, with the sequence numbers they were written with.
    pub fn range_tombstones(&self) -> &Arc<RangeTombstones> {
        &self.fragments
    }

    /// The range tombstones as they read in an ingested table, whose every record has `seq`.
    pub fn range_tombstones_at(&self, seq: Seq) -> Arc<RangeTombstones> {
        let all: Vec<RangeTombstone> =
            self.tombstones.iter().map(|t| RangeTombstone { seq, ..t.clone() }).collect();
        Arc::new(RangeTombstones::build(&self.order, &all))
    }

    /// The range tombstones as they stand in the file.
    pub(super) fn stored_tombstones(&self) -> &[RangeTombstone] {
        &self.tombstones
    }

    /// What the table says about itself.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Length of the file.
    pub fn file_bytes(&self) -> u64 {
        self.file.bytes
    }

    /// About where in the file a key would stand: the offset of its data block.
    ///
    /// A partition whose index cannot be read counts as a whole.
    pub fn approximate_offset(&self, key: &[u8]) -> u64 {
        let newest = Trailer::seek(SEQ_MAX);
        let partition = self.top.separators.lower_bound(&self.order, key, newest);
        let Some(handles) = self.top.partitions.get(partition) else {
            return self.top.partitions.last().map_or(0, |p| p.index.offset_bytes);
        };
        match self.index_held(partition) {
            Ok(index) => {
                let at = index.separators.lower_bound(&self.order, key, newest);
                if at < index.len() {
                    index.handle(at).offset_bytes
                } else {
                    handles.index.offset_bytes
                }
            }
            Err(_) => handles.index.offset_bytes,
        }
    }

    /// Appends block `nth` of the digest to `out`.
    pub(crate) fn read_digest(&self, nth: usize, out: &mut Vec<u8>) -> Result<()> {
        let payload = self.read(self.properties.digest[nth])?;
        out.extend_from_slice(payload.bytes());
        Ok(())
    }

    /// What is wrong with block `nth` of the digest.
    #[cold]
    pub(crate) fn damaged_digest(&self, nth: usize, what: &'static str) -> Error {
        let handle = self.properties.digest.get(nth).copied().unwrap_or_default();
        self.damaged(handle, Damage(what))
    }

    /// The most that this reader will pin of its indexes and filters; 0 if it pins nothing.
    pub fn pin_limit_bytes(&self) -> u64 {
        if self.pins.is_empty() { 0 } else { pinnable_bytes(&self.properties) }
    }

    /// From now on all is left to the cache.
    pub fn pin_nothing(&mut self) {
        self.pins = Box::default();
    }

    /// Bytes of memory that this reader holds outside the block cache.
    pub fn memory_bytes(&self) -> u64 {
        let tombstones: usize =
            self.tombstones.iter().map(|t| size_of_val(t) + t.start.len() + t.end.len()).sum();
        let own = size_of::<TableReader>()
            + self.file.path.as_os_str().len()
            + self.properties.memory_bytes()
            + self.top.memory_bytes()
            + self.pins.len() * size_of::<Pins>()
            + self.fragments.memory_bytes()
            + tombstones;
        own as u64 + self.pinned_bytes.load(Ordering::Relaxed)
    }

    /// The index of a partition.
    pub(super) fn index(&self, partition: usize) -> Result<Arc<DataIndex>> {
        self.load_index(partition)
    }

    /// The index of a partition for one walk over it: nothing is pinned or cached for it.
    pub(super) fn index_in_passing(&self, partition: usize) -> Result<Arc<DataIndex>> {
        if let Some(index) = self.index_in_memory(partition) {
            return Ok(index);
        }
        self.read_index(partition).map(Arc::new)
    }

    fn index_in_memory(&self, partition: usize) -> Option<Arc<DataIndex>> {
        if let Some(index) = self.pins.get(partition).and_then(|pins| pins.index.get()) {
            return Some(index.clone());
        }
        match self.cache.part(self.cache_key(self.top.partitions[partition].index)) {
            Some(CachedPart::Index(index)) => Some(index),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn index_held(&self, partition: usize) -> Result<Held<'_, Arc<DataIndex>>> {
        if let Some(index) = self.pins.get(partition).and_then(|pins| pins.index.get()) {
            return Ok(Held::Pinned(index));
        }
        self.load_index(partition).map(Held::Shared)
    }

    #[inline(never)]
    fn load_index(&self, partition: usize) -> Result<Arc<DataIndex>> {
        if let Some(index) = self.index_in_memory(partition) {
            return Ok(index);
        }
        let index = Arc::new(self.read_index(partition)?);
        let pin = self.pins.get(partition).map(|pins| &pins.index);
        match pin.map(|pin| self.pin(pin, index.clone(), index.memory_bytes())) {
            Some(Ok(pinned)) => Ok(pinned.clone()),
            _ => {
                let key = self.cache_key(self.top.partitions[partition].index);
                self.cache.insert_part(key, CachedPart::Index(index.clone()));
                Ok(index)
            }
        }
    }

    /// Pins a part, unless all that is pinned would take more than was promised: then it is given
    /// back, for the cache.
    fn pin<'a, T>(&self, pin: &'a OnceLock<T>, part: T, bytes: usize) -> Result<&'a T, T> {
        let (bytes, limit) = (bytes as u64, self.pin_limit_bytes());
        let _one_at_a_time = self.pinning.lock();
        if let Some(pinned) = pin.get() {
            return Ok(pinned);
        }
        let all = self.pinned_bytes.load(Ordering::Relaxed).saturating_add(bytes);
        if all > limit {
            return Err(part);
        }
        self.pinned_bytes.store(all, Ordering::Relaxed);
        Ok(pin.get_or_init(|| part))
    }

    /// Reads the index of a partition from the file.
    pub(super) fn read_index(&self, partition: usize) -> Result<DataIndex> {
        let handle = self.top.partitions[partition].index;
        let payload = self.read(handle)?;
        let index = DataIndex::decode(self.heap(), &self.order, payload.bytes(), self.file.bytes)
            .map_err(|d| self.damaged(handle, d))?;
        // What the top index promises decides that a lookup ends inside this partition.
        let last = index.separators.bound(index.len() - 1);
        let promised = self.top.separators.bound(partition);
        if self.order.compare_internal(last, promised).is_ne() {
            return Err(self.index_mismatch(partition));
        }
        Ok(index)
    }

    /// False if the filter of a partition says that the key is not there.
    #[inline]
    pub(super) fn may_contain(
        &self,
        partition: usize,
        probes: &mut Probes,
        key: &[u8],
    ) -> Result<bool> {
        match self.pins.get(partition).and_then(|pins| pins.filter.get()) {
            Some(filter) => Ok(filter.may_contain(probes, key)),
            None => self.may_contain_unpinned(partition, probes, key),
        }
    }

    #[inline(never)]
    fn may_contain_unpinned(
        &self,
        partition: usize,
        probes: &mut Probes,
        key: &[u8],
    ) -> Result<bool> {
        let Some(handle) = self.top.partitions[partition].filter else { return Ok(true) };
        let cache_key = self.cache_key(handle);
        if let Some(CachedPart::Filter(filter)) = self.cache.part(cache_key) {
            return Ok(filter.may_contain(probes, key));
        }
        let mut filter = self.read_filter(handle)?;
        if let Some(pins) = self.pins.get(partition) {
            let bytes = filter.memory_bytes();
            match self.pin(&pins.filter, filter, bytes) {
                Ok(pinned) => return Ok(pinned.may_contain(probes, key)),
                Err(back) => filter = back,
            }
        }
        let filter = Arc::new(filter);
        self.cache.insert_part(cache_key, CachedPart::Filter(filter.clone()));
        Ok(filter.may_contain(probes, key))
    }

    /// Reads a filter from the file.
    pub(super) fn read_filter(&self, handle: Handle) -> Result<FilterBlock> {
        let payload = self.read(handle)?;
        let hashes = self.order.is_hashable();
        FilterBlock::decode(self.heap(), payload.bytes(), hashes, self.policy.as_ref())
            .map_err(|d| self.damaged(handle, d))
    }

    /// Data block `at` of an index, if the cache has it.
    #[inline]
    pub(super) fn cached_data(&self, index: &DataIndex, at: usize) -> Option<Block> {
        index.slot(at).get()
    }

    /// Reads a data block from the file.
    #[inline(never)]
    pub(super) fn load_data(&self, handle: Handle) -> Result<Block> {
        let payload = self.file.read(self.block_heap(), &self.counters, handle)?;
        Block::new(payload).map_err(|d| self.damaged(handle, d))
    }

    /// Puts a data block into the cache.
    pub(super) fn cache_data(&self, index: &Arc<DataIndex>, at: usize, block: &Block) {
        self.cache.insert_block(self.cache_key(index.handle(at)), index, at, block);
    }

    #[inline]
    fn cache_key(&self, handle: Handle) -> CacheKey {
        CacheKey { file: self.number, offset_bytes: handle.offset_bytes }
    }

    /// Where memory for indexes and filters comes from.
    pub(super) fn heap(&self) -> &Heap {
        self.cache.heap()
    }

    /// Where memory for data blocks comes from.
    pub(super) fn block_heap(&self) -> &Heap {
        self.cache.impatient_heap()
    }

    pub(super) fn read(&self, handle: Handle) -> Result<Payload> {
        self.file.read(self.heap(), &self.counters, handle)
    }

    #[cold]
    pub(super) fn damaged(&self, handle: Handle, damage: Damage) -> Error {
        self.file.damaged(handle, damage)
    }

    #[cold]
    pub(super) fn index_mismatch(&self, partition: usize) -> Error {
        let handle = self.top.partitions[partition].index;
        self.damaged(handle, Damage("index does not end where the top index says"))
    }
}

impl std::fmt::Debug for TableReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableReader")
            .field("path", &self.file.path)
            .field("file_bytes", &self.file.bytes)
            .field("entries", &self.properties.entries)
            .finish_non_exhaustive()
    }
}

/// What is read when a table is opened.
struct Parts {
    properties: Properties,
    top: TopIndex,
    tombstones: Vec<RangeTombstone>,
}

impl Parts {
    fn read(
        file: &TableFile,
        options: &KeyspaceOptions,
        counters: &TableCounters,
    ) -> Result<Parts> {
        let corrupt = |at, what| Error::corruption(&file.path, at, what);
        let len = file.inner.len_bytes()?;
        if len != file.bytes {
            return Err(corrupt(len.min(file.bytes), "table has another length than it should"));
        }
        let footer = file.footer()?;
        if footer.salt != file.salt {
            let at = file.bytes - FOOTER_BYTES as u64;
            return Err(corrupt(at, "table is another file than it should be"));
        }
        let heap = Heap::global();
        let read = |handle| file.read(&heap, counters, handle);
        let properties = Properties::decode(read(footer.properties)?.bytes())
            .map_err(|damage| file.damaged(footer.properties, damage))?;
        if properties.order != options.order.name() {
            return Err(Error::Incompatible {
                path: file.path.clone(),
                what: format!(
                    "its keys are in the order {:?}, not {:?}: open it with that comparator",
                    properties.order,
                    options.order.name()
                ),
            });
        }
        let top = TopIndex::decode(&options.order, read(footer.top_index)?.bytes(), file.bytes)
            .map_err(|damage| file.damaged(footer.top_index, damage))?;
        let tombstones = match footer.range_tombstones {
            None => Vec::new(),
            Some(handle) => decode_range_tombstones(read(handle)?.bytes())
                .map_err(|damage| file.damaged(handle, damage))?,
        };
        Ok(Parts { properties, top, tombstones })
    }
}

/// What the decoded indexes and filters of a table take, and the most that is pinned of them.
fn pinnable_bytes(properties: &Properties) -> u64 {
    let Properties { partitions, data_blocks, index_bytes, .. } = *properties;
    let separators = match properties.separator_bytes {
        // What keys share is not known, and of those that share a lot a part is left to the cache.
        0 => index_bytes.saturating_mul(2),
        bytes => bytes,
    };
    let filters = match properties.filter_bytes {
        0 => 0,
        bytes => FilterBlock::memory_bytes_of(partitions, bytes),
    };
    filters.saturating_add(DataIndex::memory_bytes_of(partitions, data_blocks, separators))
}
