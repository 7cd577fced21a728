//! Arena: records appended one after the other, each with a 32-bit name.
//!
//! Memory comes in chunks of 4 MiB (or one chunk for one larger record) that never move; a full one
//! is followed by one that the supply has ready, if it has. A name is the chunk's index and the
//! record's place in it, in granules of 4 bytes.
//!
//! A record is laid out as
//! `trailer: u64, older: u32, key length: u32, value length: u32, key, value`, padded to a granule.
//!
//! Invariants: (1) bytes below a chunk's `used` are initialised and never written again; (2) a name
//! handed out refers to a whole record below `used`; (3) only one thread appends at a time (the
//! memtable's write lock).
//!
//! Under a model checker chunks are tiny, and a witness tells it who touches which granule.

use super::supply::Supply;
use esker_base::Trailer;
use esker_base::pages::{LINE_BYTES, Pages, prefetch};
use esker_base::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use esker_base::sync::{CHECKED, Mutex, Witness};
use std::sync::Arc;

const GRANULE: usize = 4;
/// Bits of a chunk's size in granules, and how many chunks there may be.
const CHUNKS: (u32, usize) = match (cfg!(esker_loom), CHECKED) {
    (true, _) => (5, 8),
    (false, true) => (8, 64),
    (false, false) => (20, 1 << (32 - 20)),
};
const CHUNK_BITS: u32 = CHUNKS.0;
/// Size of an ordinary chunk.
const CHUNK_BYTES: usize = GRANULE << CHUNK_BITS;
/// Records longer than this get a chunk of their own, so that little of a chunk is wasted.
const SHARED_BYTES_MAX: usize = CHUNK_BYTES / 4;
const CHUNKS_MAX: usize = CHUNKS.1;
const HEADER_BYTES: usize = 20;
/// How much of a record is asked for ahead: what is behind, the processor sees coming.
const AHEAD_BYTES: usize = 512;
/// How many records ahead a walk over all of them looks.
const WALK_DISTANCE: usize = 8;
/// With so many chunks a memtable is as good as full.
const CROWDED_CHUNKS: usize = if CHECKED { CHUNKS_MAX } else { CHUNKS_MAX / 4 };
/// The most records with chunks of their own in a batch.
pub(super) const LONG_RECORDS_MAX: usize = 1_000;
/// The most that a batch may take.
pub(super) const BATCH_MEMORY_MAX: usize = 3 << 30;
/// What a record takes besides its key and its value, at the most.
pub(super) const RECORD_BYTES: usize = HEADER_BYTES + GRANULE;

/// Names a record in an arena. Never 0 inside: 0 stands for "none" in stored form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryRef(pub(super) u32);

#[derive(Debug)]
struct Chunk {
    base: AtomicPtr<u8>,
    /// Granules that hold whole records.
    used: AtomicU32,
    /// Granules allocated; written once, before `base`.
    capacity: AtomicU32,
    granules: Witness,
}

/// Memory for the records of one memtable.
#[derive(Debug)]
pub(super) struct Arena {
    chunks: Box<[Chunk]>,
    /// Chunks allocated so far.
    chunk_count: AtomicU32,
    used_bytes: AtomicU64,
    /// The first chunk too may come from the supply, which has as a rule made all of it ready.
    fills_chunks: bool,
    /// What the chunks' addresses point into.
    memory: Mutex<Vec<Pages<u8>>>,
    /// Where memory comes from first, and goes when the arena is dropped.
    supply: Arc<Supply>,
    /// `used_bytes` at which the supply is told that another chunk will be wanted.
    want_bytes: AtomicU64,
}

/// A place in append order: everything before it has been seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    chunk: u32,
    granule: u32,
}

/// True if an arena that is not crowded has names for the records of a batch of so many bytes: for
/// so many, of so many bytes of keys and values each.
pub(super) fn has_names_for(
    batch_bytes: usize,
    count: u32,
    records: impl Iterator<Item = usize>,
) -> bool {
    let is_long = |bytes: &usize| bytes + HEADER_BYTES > SHARED_BYTES_MAX;
    let is_short = || batch_bytes < LONG_RECORDS_MAX * (SHARED_BYTES_MAX - HEADER_BYTES);
    let memory_bytes = batch_bytes.saturating_add(count as usize * RECORD_BYTES);
    CHECKED
        || memory_bytes <= BATCH_MEMORY_MAX
            && (is_short() || records.filter(is_long).count() <= LONG_RECORDS_MAX)
}

impl Arena {
    /// An empty arena, which is likely to fill chunks or not.
    pub(super) fn new(supply: Arc<Supply>, fills_chunks: bool) -> Arena {
        let chunks = (0..CHUNKS_MAX)
            .map(|_| Chunk {
                base: AtomicPtr::new(std::ptr::null_mut()),
                used: AtomicU32::new(0),
                capacity: AtomicU32::new(0),
                granules: Witness::new(1 << CHUNK_BITS),
            })
            .collect();
        Arena {
            chunks,
            chunk_count: AtomicU32::new(0),
            used_bytes: AtomicU64::new(0),
            fills_chunks,
            memory: Mutex::new(Vec::new()),
            supply,
            want_bytes: AtomicU64::new(CHUNK_BYTES as u64 / 2),
        }
    }

    /// A supply for arenas that keeps at most so many bytes of chunks.
    pub(super) fn supply(bytes_max: u64) -> Supply {
        Supply::new(CHUNK_BYTES, bytes_max)
    }

    /// Bytes of records, with padding and what was left free of chunks that are followed by others.
    #[inline]
    pub(super) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Appends a record. One thread at a time.
    #[inline]
    pub(super) fn append(
        &self,
        key: &[u8],
        trailer: Trailer,
        value: &[u8],
        older: Option<EntryRef>,
    ) -> EntryRef {
        let granules = (HEADER_BYTES + key.len() + value.len()).div_ceil(GRANULE) as u32;
        let (index, start) = self.reserve(granules);
        let chunk = &self.chunks[index as usize];
        let base = chunk.base.load(Ordering::Relaxed);
        chunk.granules.wrote(start as usize..(start + granules) as usize);
        // SAFETY: `reserve` found room for `granules` at `start`; those bytes are above `used`, so
        // no reader looks at them, and appends are serialised, so no other writer does.
        unsafe {
            let at = base.add(start as usize * GRANULE);
            at.cast::<u64>().write_unaligned(trailer.0);
            let lens = [older.map_or(0, |e| e.0), key.len() as u32, value.len() as u32];
            at.add(8).cast::<[u32; 3]>().write_unaligned(lens);
            let body = at.add(HEADER_BYTES);
            std::ptr::copy_nonoverlapping(key.as_ptr(), body, key.len());
            std::ptr::copy_nonoverlapping(value.as_ptr(), body.add(key.len()), value.len());
        }
        chunk.used.store(start + granules, Ordering::Release);
        let used = self.used_bytes.load(Ordering::Relaxed) + granules as u64 * GRANULE as u64;
        self.used_bytes.store(used, Ordering::Relaxed);
        if used >= self.want_bytes.load(Ordering::Relaxed) {
            self.want_chunk(used);
        }
        EntryRef((index << CHUNK_BITS | start) + 1)
    }

    /// True if it has filled a chunk and begun another.
    pub(super) fn has_filled_one(&self) -> bool {
        self.chunk_count.load(Ordering::Relaxed) > 1
    }

    /// True if it should take no more batches: it may run out of names for their records.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.chunk_count.load(Ordering::Relaxed) as usize > CROWDED_CHUNKS
    }

    /// A chunk with room for so many granules, and where the room starts.
    #[inline]
    fn reserve(&self, granules: u32) -> (u32, u32) {
        let count = self.chunk_count.load(Ordering::Relaxed);
        if count > 0 {
            let last = &self.chunks[count as usize - 1];
            let used = last.used.load(Ordering::Relaxed);
            // A record in a chunk of its own may reach beyond what names can address, so nothing
            // follows it.
            let limit = last.capacity.load(Ordering::Relaxed).min(1 << CHUNK_BITS);
            if used + granules <= limit && used < (1 << CHUNK_BITS) - 1 {
                return (count - 1, used);
            }
        }
        self.add_chunk(granules);
        (count, 0)
    }

    /// The last chunk is about half full.
    #[cold]
    fn want_chunk(&self, used_bytes: u64) {
        self.want_bytes.store(used_bytes + CHUNK_BYTES as u64, Ordering::Relaxed);
        self.supply.want_chunk();
    }

    #[cold]
    fn add_chunk(&self, granules: u32) {
        let count = self.chunk_count.load(Ordering::Relaxed);
        assert!((count as usize) < CHUNKS_MAX, "a crowded memtable takes one batch more");
        let bytes = match granules as usize * GRANULE {
            large if large > SHARED_BYTES_MAX => large,
            _ => CHUNK_BYTES,
        };
        if let Some(last) = count.checked_sub(1).map(|last| &self.chunks[last as usize]) {
            let [capacity, used] = [&last.capacity, &last.used].map(|n| n.load(Ordering::Relaxed));
            let left_bytes = u64::from(capacity - used) * GRANULE as u64;
            let used_bytes = self.used_bytes.load(Ordering::Relaxed) + left_bytes;
            self.used_bytes.store(used_bytes, Ordering::Relaxed);
        }
        let may_be_ready = bytes == CHUNK_BYTES && (count > 0 || self.fills_chunks);
        let spare = if may_be_ready { self.supply.take_chunk() } else { None };
        let memory = spare.unwrap_or_else(|| match count {
            // A memtable that stays small takes the pages it needs; huge ones from the second chunk
            // on.
            0 => Pages::zeroed(bytes),
            _ => Pages::huge(bytes),
        });
        let base = memory.as_ptr();
        self.memory.lock().push(memory);
        let chunk = &self.chunks[count as usize];
        chunk.capacity.store((bytes / GRANULE) as u32, Ordering::Relaxed);
        chunk.base.store(base, Ordering::Release);
        self.chunk_count.store(count + 1, Ordering::Release);
    }

    /// Address of byte `from` of a record, from where the caller reads `bytes`.
    #[inline]
    fn at(&self, entry: EntryRef, from: usize, bytes: usize) -> *const u8 {
        let name = entry.0 - 1;
        let chunk = &self.chunks[(name >> CHUNK_BITS) as usize];
        let granule = (name & ((1 << CHUNK_BITS) - 1)) as usize;
        chunk.granules.read(granule + from / GRANULE..granule + (from + bytes).div_ceil(GRANULE));
        // SAFETY: invariant (2): the record lies inside the chunk. The name reached this thread
        // through a Release store made after the chunk's address was stored.
        unsafe { chunk.base.load(Ordering::Relaxed).add(granule * GRANULE + from) }
    }

    #[inline]
    fn lens(&self, entry: EntryRef) -> [u32; 3] {
        // SAFETY: a record's header is initialised before its name is handed out.
        unsafe { self.at(entry, 8, 12).cast::<[u32; 3]>().read_unaligned() }
    }

    #[inline]
    pub(super) fn trailer(&self, entry: EntryRef) -> Trailer {
        // SAFETY: as in `lens`.
        Trailer(unsafe { self.at(entry, 0, 8).cast::<u64>().read_unaligned() })
    }

    /// The record of the same key inserted before this one.
    #[inline]
    pub(super) fn older(&self, entry: EntryRef) -> Option<EntryRef> {
        match self.lens(entry)[0] {
            0 => None,
            name => Some(EntryRef(name)),
        }
    }

    #[inline]
    pub(super) fn key(&self, entry: EntryRef) -> &[u8] {
        let len = self.lens(entry)[1] as usize;
        // SAFETY: the key's bytes are initialised, never written again, and live as long as
        // the arena (invariants 1 and 2).
        unsafe { std::slice::from_raw_parts(self.at(entry, HEADER_BYTES, len), len) }
    }

    #[inline]
    pub(super) fn value(&self, entry: EntryRef) -> &[u8] {
        let [_, key_len, len] = self.lens(entry);
        let (from, len) = (HEADER_BYTES + key_len as usize, len as usize);
        // SAFETY: as in `key`; the value follows the key.
        unsafe { std::slice::from_raw_parts(self.at(entry, from, len), len) }
    }

    /// Pulls a record's first bytes towards the processor, which may stand in two lines.
    #[inline]
    pub(super) fn prefetch(&self, entry: EntryRef) {
        prefetch(self.at(entry, 0, 0));
        prefetch(self.at(entry, HEADER_BYTES, 0));
    }

    /// Pulls what follows a record's first line, which should be near by now.
    #[inline]
    pub(super) fn prefetch_rest(&self, entry: EntryRef) {
        let [_, key_len, value_len] = self.lens(entry);
        let bytes = HEADER_BYTES + key_len as usize + value_len as usize;
        for from in (LINE_BYTES..bytes.min(AHEAD_BYTES)).step_by(LINE_BYTES) {
            prefetch(self.at(entry, from, 0));
        }
    }

    /// Calls `visit` for each record appended at or after `from`; returns where it ended.
    pub(super) fn walk(&self, from: Position, mut visit: impl FnMut(EntryRef)) -> Position {
        let mut position = from;
        let count = self.chunk_count.load(Ordering::Acquire);
        for index in from.chunk..count {
            let used = self.chunks[index as usize].used.load(Ordering::Acquire);
            let mut granule = if index == from.chunk { from.granule } else { 0 };
            while granule < used {
                let entry = EntryRef((index << CHUNK_BITS | granule) + 1);
                visit(entry);
                let [_, key_len, value_len] = self.lens(entry);
                let bytes = HEADER_BYTES + key_len as usize + value_len as usize;
                let granules = bytes.div_ceil(GRANULE);
                // Where later ones begin, if they are as long: there is no knowing before.
                let ahead = (granule as usize + WALK_DISTANCE * granules) * GRANULE;
                let base = self.chunks[index as usize].base.load(Ordering::Relaxed);
                prefetch(base.wrapping_add(ahead));
                granule += granules as u32;
            }
            position = Position { chunk: index, granule };
        }
        position
    }

    /// True if nothing was appended at or after `from`.
    pub(super) fn ends_at(&self, from: Position) -> bool {
        let count = self.chunk_count.load(Ordering::Acquire);
        if count == 0 {
            return true;
        }
        let last = count - 1;
        let used = self.chunks[last as usize].used.load(Ordering::Acquire);
        match from.chunk.cmp(&last) {
            std::cmp::Ordering::Equal => from.granule >= used,
            // Chunks in between hold at least one record each, but the last may still be empty.
            _ => from.chunk > last || (used == 0 && self.ends_before(from, last)),
        }
    }

    fn ends_before(&self, from: Position, last: u32) -> bool {
        from.chunk + 1 == last
            && from.granule >= self.chunks[from.chunk as usize].used.load(Ordering::Acquire)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut *self.memory.lock());
        self.supply.give_chunks(memory);
    }
}

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests {
    use super::*;

    /// Of a crowded arena, and a batch after it. Before each long record a chunk ends early; what
    /// is left of the batch fills the others to three quarters at least.
    #[test]
    fn names_last_for_the_batch_that_crowds_an_arena() {
        let (long, gib) = (SHARED_BYTES_MAX, 1 << 30);
        const {
            let ended_early = 2 * LONG_RECORDS_MAX + 1;
            let filled = BATCH_MEMORY_MAX / (CHUNK_BYTES - SHARED_BYTES_MAX) + 1;
            assert!(CROWDED_CHUNKS + 1 + ended_early + filled < CHUNKS_MAX);
        };
        let records = |count| std::iter::repeat_n([long, 7], count).flatten();
        assert!(has_names_for(2 * gib, 2_000, records(LONG_RECORDS_MAX)));
        assert!(!has_names_for(2 * gib, 2_000, records(LONG_RECORDS_MAX + 1)));
        assert!(has_names_for(2 * gib, 2_047, std::iter::repeat_n(long - HEADER_BYTES, 2_047)));
        let none = || std::iter::empty();
        assert!(has_names_for(gib / 2, 1 << 20, none()), "shorter ones are not even looked at");
        assert!(!has_names_for(gib / 2, 1 << 28, none()), "they take 24 bytes each");
        assert!(has_names_for(gib / 8, (gib / 16) as u32, none()), "the shortest there are");
    }

    #[test]
    fn what_is_left_of_a_chunk_before_a_long_record_counts() {
        let arena = Arena::new(Arc::new(Arena::supply(0)), false);
        let add = |bytes| {
            let before = arena.used_bytes();
            arena.append(b"", Trailer(0), &vec![0; bytes], None);
            (arena.used_bytes() - before) as usize
        };
        assert_eq!(add(40), 60);
        let long = CHUNK_BYTES + 40;
        assert_eq!(add(long), CHUNK_BYTES - 60 + long + HEADER_BYTES);
        assert!(arena.has_filled_one());
        assert_eq!(add(40), 60);
        assert_eq!(add(long), CHUNK_BYTES - 60 + long + HEADER_BYTES);
    }

    #[test]
    fn an_arena_that_may_stay_small_leaves_what_was_made_ready() {
        let supply = Arc::new(Arena::supply(2 * CHUNK_BYTES as u64));
        supply.give_chunks(vec![Pages::zeroed(CHUNK_BYTES)]);
        let arenas = [false, true].map(|fills_chunks| Arena::new(supply.clone(), fills_chunks));
        let left = arenas.each_ref().map(|arena| {
            arena.append(b"key", Trailer(0), b"value", None);
            supply.spare_bytes()
        });
        assert_eq!(left, [CHUNK_BYTES as u64, 0]);
    }
}
