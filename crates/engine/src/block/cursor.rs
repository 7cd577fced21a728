//! Walks a block in both directions.
//!
//! Invariants: (1) while `valid`, key, trailer and value are those of the record at `at`, and
//! `next_at` is where the following one stands; (2) the top of `passed` is the predecessor of
//! the record whose `at` equals its `next_at`, and otherwise says nothing.
//! Threads: one.
//!
//! Forward, a key is copied only as far as prefix compression took it apart. Backward, an interval
//! is decoded once and its records are handed out from the end.

use super::search::{self, Hit, HitKey};
use super::{Block, Damage, Layout, Record, StoredBlock, restart};
use crate::cursor::Step;
use crate::value::Value;
use esker_base::pages::LINE_BYTES;
use esker_base::{KeyOrder, Trailer};

/// A key buffer always has this much room behind the key, so that short suffixes are copied whole.
const SLACK_BYTES: usize = 16;

/// How far behind the value of a record further values are brought near. Keys stand close together,
/// and whoever walks them finds values one by one.
const VALUES_AHEAD_BYTES: usize = 256;

/// Keys of one interval kept for walking backward, at most.
const PASSED_KEYS_BYTES_MAX: usize = 64 << 10;

/// Walks one block; can be pointed at another to save its memory.
#[derive(Debug, Default)]
pub struct BlockCursor {
    block: Option<Block>,
    /// How the block stands in its file, if that was kept.
    stored: Option<Box<StoredBlock>>,
    layout: Layout,
    valid: bool,
    /// The key stands whole in the block, at `key_at`; else it is in `key`.
    whole: bool,
    /// The last step forward found the key it came from again.
    repeats: bool,
    at: usize,
    next_at: usize,
    value_at: usize,
    value_end: usize,
    trailer: u64,
    key_at: usize,
    key_len: usize,
    key: Vec<u8>,
    passed: Vec<PassedRecord>,
    passed_keys: Vec<u8>,
}

/// A record behind the cursor.
#[derive(Clone, Copy, Debug)]
struct PassedRecord {
    at: usize,
    next_at: usize,
    value_at: usize,
    value_end: usize,
    trailer: Trailer,
    key_at: usize,
}

const BAD_SHARED: Damage = Damage("block record shares more than the key before has");
const BAD_VALUE: Damage = Damage("block value does not lie in the block");
const BAD_INTERVAL: Damage = Damage("block records do not end where the next restart begins");

impl BlockCursor {
    /// A cursor over no block, which is not valid.
    pub fn new() -> BlockCursor {
        BlockCursor::default()
    }

    /// Points the cursor at a block, on no record of it.
    #[inline]
    pub fn set_block(&mut self, block: Block) {
        self.layout = block.layout();
        self.next_at = self.layout.values_at;
        self.block = Some(block);
        self.stored = None;
        self.valid = false;
        self.passed.clear();
    }

    /// Keeps how the block stands in its file, until the cursor is pointed elsewhere.
    pub(crate) fn keep_stored(&mut self, stored: StoredBlock) {
        self.stored = Some(Box::new(stored));
    }

    /// How the block stands in its file, if that was kept.
    #[inline]
    pub(crate) fn stored(&self) -> Option<&StoredBlock> {
        self.stored.as_deref()
    }

    /// Lets go of the block.
    pub fn clear(&mut self) {
        self.block = None;
        self.stored = None;
        self.valid = false;
        self.layout = Layout::default();
        self.passed.clear();
    }

    /// True if the cursor stands on a record.
    #[inline]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The user key. Needs `valid`.
    #[inline]
    pub fn key(&self) -> &[u8] {
        assert!(self.valid, "a cursor is asked only while it is valid");
        self.last_key()
    }

    /// What the last step forward came to; `None` if not valid. A block's first record repeats
    /// none.
    #[inline(always)]
    pub(crate) fn step(&self) -> Option<Step<'_>> {
        let (trailer, repeats) = (self.trailer(), self.repeats);
        self.valid.then(|| Step { key: self.last_key(), trailer, repeats })
    }

    /// Moves to the following record of the block; false, and not moved, if there is none that can
    /// be read.
    ///
    /// Needs `valid`.
    #[inline(always)]
    pub(crate) fn advance_within(&mut self) -> bool {
        self.next_at < self.layout.values_at && self.decode_next().is_ok()
    }

    /// Says whether the record it stands on has the key of the one before, which stood in another
    /// block.
    pub(crate) fn set_repeats(&mut self, repeats: bool) {
        self.repeats = repeats;
    }

    /// The key of the last record the cursor stood on, until it is pointed elsewhere.
    #[inline(always)]
    pub(crate) fn last_key(&self) -> &[u8] {
        if self.whole {
            &self.bytes()[self.key_at..self.key_at + self.key_len]
        } else {
            &self.key[..self.key_len]
        }
    }

    /// Sequence number and kind. Needs `valid`.
    #[inline]
    pub fn trailer(&self) -> Trailer {
        Trailer(self.trailer)
    }

    /// The value. Needs `valid`.
    #[inline]
    pub fn value(&self) -> &[u8] {
        assert!(self.valid, "a cursor is asked only while it is valid");
        &self.bytes()[self.value_at..self.value_end]
    }

    /// The value, sharing the block's bytes; `None` if not valid.
    #[inline]
    pub fn shared_value(&self) -> Option<Value> {
        let block = self.block.as_ref().filter(|_| self.valid)?;
        Some(block.share(self.value_at, self.value_end))
    }

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        match &self.block {
            Some(block) => block.bytes(),
            None => &[],
        }
    }

    /// Moves to the first record.
    pub fn seek_to_first(&mut self) -> Result<(), Damage> {
        self.valid = false;
        self.next_at = self.layout.keys_at;
        self.value_end = self.layout.values_at;
        self.key_len = 0;
        self.whole = false;
        self.next()?;
        self.repeats = false;
        Ok(())
    }

    /// Moves to the last record.
    pub fn seek_to_last(&mut self) -> Result<(), Damage> {
        self.step_before(self.layout.values_at)
    }

    /// Moves to the following record; from none it stays at none.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "a cursor is not an iterator")]
    pub fn next(&mut self) -> Result<(), Damage> {
        self.valid = false;
        if self.next_at >= self.layout.values_at {
            return Ok(());
        }
        self.decode_next()?;
        self.valid = true;
        Ok(())
    }

    /// Moves to the record at `next_at`; if it is damaged, nothing has changed.
    #[inline(always)]
    fn decode_next(&mut self) -> Result<(), Damage> {
        let Some(block) = &self.block else { return Ok(()) };
        let bytes = block.bytes();
        let record = Record::decode(bytes, self.layout.values_at, self.next_at)?;
        let (value_at, value_end) = (self.value_end, self.value_end + record.value_bytes);
        if value_end > bytes.len() {
            return Err(BAD_VALUE);
        }
        let suffix_len = record.suffix_end - record.suffix_at;
        if record.shared == 0 {
            self.repeats = self.last_key() == &bytes[record.suffix_at..record.suffix_end];
            self.whole = true;
            self.key_at = record.suffix_at;
            self.key_len = suffix_len;
        } else {
            if record.shared > self.key_len {
                return Err(BAD_SHARED);
            }
            self.repeats = suffix_len == 0 && record.shared == self.key_len;
            if self.whole {
                let head = &bytes[self.key_at..self.key_at + record.shared];
                put_at(&mut self.key, 0, head);
                self.whole = false;
            }
            put_suffix(&mut self.key, bytes, &record, suffix_len);
            self.key_len = record.shared + suffix_len;
        }
        block.prefetch(value_end + VALUES_AHEAD_BYTES);
        self.at = self.next_at;
        self.next_at = record.suffix_end;
        self.value_at = value_at;
        self.value_end = value_end;
        self.trailer = record.trailer.0;
        Ok(())
    }

    /// Moves to the preceding record. Needs `valid`.
    pub fn prev(&mut self) -> Result<(), Damage> {
        assert!(self.valid, "a cursor is moved back only from a record");
        self.step_before(self.at)
    }

    /// Moves to the first record at or after `(key, trailer)`.
    #[inline]
    pub fn seek(&mut self, order: &KeyOrder, key: &[u8], trailer: Trailer) -> Result<(), Damage> {
        self.valid = false;
        let Some(block) = &self.block else { return Ok(()) };
        match search::lower_bound(block.bytes(), &self.layout, order, key, trailer)? {
            Some(hit) => self.settle(&hit, key),
            None => {
                self.next_at = self.layout.values_at;
                Ok(())
            }
        }
    }

    /// Moves to the last record before `(key, trailer)`.
    pub fn seek_before(
        &mut self,
        order: &KeyOrder,
        key: &[u8],
        trailer: Trailer,
    ) -> Result<(), Damage> {
        self.seek(order, key, trailer)?;
        if self.valid { self.prev() } else { self.seek_to_last() }
    }

    fn settle(&mut self, hit: &Hit, target: &[u8]) -> Result<(), Damage> {
        let Some(block) = &self.block else { return Ok(()) };
        let bytes = block.bytes();
        for ahead in (0..VALUES_AHEAD_BYTES).step_by(LINE_BYTES) {
            block.prefetch(hit.value_at + ahead);
        }
        let record = &hit.record;
        let suffix_len = record.suffix_end - record.suffix_at;
        self.key_len = record.shared + suffix_len;
        self.whole = hit.key == HitKey::Whole;
        match hit.key {
            HitKey::Whole => self.key_at = record.suffix_at,
            HitKey::FromTarget => {
                put_at(&mut self.key, 0, &target[..record.shared]);
                put_suffix(&mut self.key, bytes, record, suffix_len);
            }
            HitKey::Rebuild { restart } => {
                search::rebuild_key(bytes, &self.layout, restart, hit.at, &mut self.key)?;
            }
        }
        self.at = hit.at;
        self.next_at = record.suffix_end;
        self.value_at = hit.value_at;
        self.value_end = hit.value_at + record.value_bytes;
        self.trailer = record.trailer.0;
        self.valid = true;
        Ok(())
    }

    /// Moves to the record that ends where the one at `limit` begins.
    fn step_before(&mut self, limit: usize) -> Result<(), Damage> {
        self.valid = false;
        if limit <= self.layout.keys_at {
            return Ok(());
        }
        if self.passed.last().is_none_or(|p| p.next_at != limit) {
            self.decode_before(limit)?;
        }
        let Some(top) = self.passed.pop() else { return Err(BAD_INTERVAL) };
        put_at(&mut self.key, 0, &self.passed_keys[top.key_at..]);
        self.whole = false;
        self.key_len = self.passed_keys.len() - top.key_at;
        self.passed_keys.truncate(top.key_at);
        self.at = top.at;
        self.next_at = top.next_at;
        self.value_at = top.value_at;
        self.value_end = top.value_end;
        self.trailer = top.trailer.0;
        self.valid = true;
        Ok(())
    }

    /// Fills `passed` with the records of the interval that end at or before `limit`.
    fn decode_before(&mut self, limit: usize) -> Result<(), Damage> {
        self.passed.clear();
        self.passed_keys.clear();
        let Some(block) = &self.block else { return Ok(()) };
        let (bytes, layout) = (block.bytes(), &self.layout);
        let (mut low, mut high) = (0, layout.restarts);
        while low + 1 < high {
            let middle = (low + high) / 2;
            if restart(bytes, layout, middle).0 < limit {
                low = middle;
            } else {
                high = middle;
            }
        }
        let (mut at, mut record, mut value_at) = search::restart_record(bytes, layout, low)?;
        let mut before = 0..0;
        loop {
            let value_end = value_at + record.value_bytes;
            if value_end > bytes.len() {
                return Err(BAD_VALUE);
            }
            if record.shared > before.len() {
                return Err(BAD_SHARED);
            }
            let key_at = self.passed_keys.len();
            self.passed_keys.extend_from_within(before.start..before.start + record.shared);
            self.passed_keys.extend_from_slice(&bytes[record.suffix_at..record.suffix_end]);
            before = key_at..self.passed_keys.len();
            let next_at = record.suffix_end;
            let trailer = record.trailer;
            self.passed.push(PassedRecord { at, next_at, value_at, value_end, trailer, key_at });
            if next_at >= limit {
                return if next_at == limit { Ok(()) } else { Err(BAD_INTERVAL) };
            }
            if self.passed_keys.len() > PASSED_KEYS_BYTES_MAX {
                // Only the key before is needed to go on; what is forgotten is decoded again later.
                self.passed.clear();
                self.passed_keys.drain(..before.start);
                before = 0..self.passed_keys.len();
            }
            (at, value_at) = (next_at, value_end);
            record = Record::decode(bytes, layout.values_at, at)?;
        }
    }
}

/// Writes `part` at `at` and keeps room behind it.
#[inline]
fn put_at(key: &mut Vec<u8>, at: usize, part: &[u8]) {
    let end = at + part.len();
    if key.len() < end + SLACK_BYTES {
        key.resize(end + SLACK_BYTES, 0);
    }
    key[at..end].copy_from_slice(part);
}

/// Writes the suffix of `record` behind the bytes it shares.
#[inline(always)]
fn put_suffix(key: &mut Vec<u8>, bytes: &[u8], record: &Record, suffix_len: usize) {
    // One move of a fixed size where both sides have room, which is nearly always.
    if suffix_len <= SLACK_BYTES
        && let Some(from) = bytes.get(record.suffix_at..record.suffix_at + SLACK_BYTES)
        && let Some(to) = key.get_mut(record.shared..record.shared + SLACK_BYTES)
    {
        to.copy_from_slice(from);
        return;
    }
    put_at(key, record.shared, &bytes[record.suffix_at..record.suffix_end]);
}
