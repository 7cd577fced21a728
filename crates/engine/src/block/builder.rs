//! Builds one block at a time, keys and values apart.

use super::{HEADER_BYTES, RESTART_BYTES, SHORT_HEAD_BYTES, TAG_LONG};
use esker_base::Trailer;
use esker_base::coding::{put_u32, put_varint, varint_len};
use esker_base::key::shared_prefix_len;

/// Collects records in order and writes them as a block payload.
#[derive(Debug)]
pub struct BlockBuilder {
    restart_interval: u32,
    since_restart: u32,
    keys: Vec<u8>,
    values: Vec<u8>,
    restarts: Vec<(u32, u32)>,
    last_key: Vec<u8>,
}

impl BlockBuilder {
    /// An empty block with a whole key every `restart_interval` records (at least 1).
    pub fn new(restart_interval: u32) -> BlockBuilder {
        BlockBuilder {
            restart_interval: restart_interval.max(1),
            since_restart: 0,
            keys: Vec::new(),
            values: Vec::new(),
            restarts: Vec::new(),
            last_key: Vec::new(),
        }
    }

    /// Adds a record, which must sort after all before it; the caller checks that.
    #[inline]
    pub fn add(&mut self, key: &[u8], trailer: Trailer, value: &[u8]) {
        let kind = trailer.0 as u8;
        assert!(kind < 16, "a record's kind has four bits");
        let shared = if self.since_restart == 0 || self.since_restart >= self.restart_interval {
            self.restarts.push((self.keys.len() as u32, self.values.len() as u32));
            self.since_restart = 0;
            0
        } else {
            shared_prefix_len(&self.last_key, key)
        };
        let suffix = &key[shared..];
        let seq = trailer.seq();
        let seq_bytes = 8 - seq.leading_zeros() as usize / 8;
        let tag = kind | (seq_bytes as u8) << 4;
        if (shared | suffix.len() | value.len()) < 256 {
            let head = [tag, shared as u8, suffix.len() as u8, value.len() as u8];
            self.keys.extend_from_slice(&head);
        } else {
            self.keys.push(tag | TAG_LONG);
            put_varint(&mut self.keys, shared as u64);
            put_varint(&mut self.keys, suffix.len() as u64);
            put_varint(&mut self.keys, value.len() as u64);
        }
        self.keys.extend_from_slice(&seq.to_le_bytes()[..seq_bytes]);
        self.keys.extend_from_slice(suffix);
        self.values.extend_from_slice(value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(suffix);
        self.since_restart += 1;
    }

    /// Notes the key of a record that stands in a block of its own, which was written otherwise.
    /// Needs [`BlockBuilder::is_empty`].
    pub(crate) fn pass(&mut self, key: &[u8]) {
        assert!(self.is_empty(), "a record passes between two blocks");
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
    }

    /// True if no record was added since the last [`BlockBuilder::finish`].
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.restarts.is_empty()
    }

    /// The key added last, in this block or the one before.
    #[inline]
    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Bytes of the payload as it stands.
    #[inline]
    pub fn payload_bytes(&self) -> usize {
        HEADER_BYTES + RESTART_BYTES * self.restarts.len() + self.keys.len() + self.values.len()
    }

    /// The most that a record of these lengths adds to the payload.
    #[inline]
    pub fn record_bytes_max(key_bytes: usize, value_bytes: usize) -> usize {
        let long = if (key_bytes | value_bytes) < 256 {
            SHORT_HEAD_BYTES
        } else {
            1 + 2 * varint_len(key_bytes as u64) + varint_len(value_bytes as u64)
        };
        RESTART_BYTES + long + 7 + key_bytes + value_bytes
    }

    /// Appends the payload to `out` and starts the next block.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        assert!(!self.is_empty(), "a block has at least one record");
        assert!(self.payload_bytes() <= i32::MAX as usize, "a block is shorter than 2 GiB");
        out.reserve(self.payload_bytes() + super::TRAILER_BYTES);
        put_u32(out, self.restarts.len() as u32);
        put_u32(out, self.keys.len() as u32);
        for (key_at, value_at) in self.restarts.drain(..) {
            put_u32(out, key_at);
            put_u32(out, value_at);
        }
        out.extend_from_slice(&self.keys);
        out.extend_from_slice(&self.values);
        self.keys.clear();
        self.values.clear();
        self.since_restart = 0;
    }
}
