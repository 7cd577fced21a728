//! A batch: the unit of writing, all or nothing, across keyspaces.
//!
//! The encoded form is built while the caller adds operations and goes into the WAL as it is.
//! Format: `docs/format/batch.md`.

use crate::coding::{
    put_slice, put_varint, take_slice, take_u8, take_varint, take_varint_u32, varint_len,
    write_varint,
};
use crate::error::{Error, Result};
use crate::key::{KEY_BYTES_MAX, KeyspaceId, Kind, SEQ_MAX, Seq, VALUE_BYTES_MAX};

/// Room before the first operation for the longest header: first sequence number and operation
/// count.
///
/// The header ends where the operations begin, so that most of the room is no part of the encoded
/// form.
const HEADER_ROOM_BYTES: usize = varint_len(SEQ_MAX) + varint_len(BATCH_OPS_MAX as u64);

/// More than an operation takes beside its key and its value.
const OP_HEAD_BYTES_MAX: usize = 32;

/// Set in an operation's first byte when a keyspace id follows.
const HAS_KEYSPACE: u8 = 0x80;

/// The most operations in one batch.
pub const BATCH_OPS_MAX: u32 = u32::MAX;

/// The longest encoded batch, in bytes.
pub const BATCH_BYTES_MAX: usize = u32::MAX as usize >> 1;

/// Operations to be written together.
///
/// Later operations win over earlier ones on the same key. Building a batch cannot fail; a key or
/// value that is too long, or a batch over 2 GiB, is reported when the batch is written, and
/// nothing of it is applied.
///
/// ```
/// let mut batch = esker_base::Batch::new();
/// batch.put(b"bread", b"2").delete(b"milk");
/// assert_eq!(batch.len(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct Batch {
    /// Room for the header, then the operations. Nothing, and no memory, before the first
    /// operation.
    bytes: Vec<u8>,
    count: u32,
    first_seq: Seq,
    /// True if some operation is not for the default keyspace.
    names_keyspaces: bool,
    /// True if some operation sets a key to a value that stands elsewhere.
    has_pointers: bool,
    fault: Option<&'static str>,
}

/// One operation of a batch, borrowed from its encoded form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOp<'a> {
    /// The keyspace it is for.
    pub keyspace: KeyspaceId,
    /// What it does.
    pub kind: Kind,
    /// The key, or the start of a range.
    pub key: &'a [u8],
    /// The value, the pointer to it, or the end of a range; empty for a delete.
    pub value: &'a [u8],
}

impl BatchOp<'_> {
    /// True of a range that ends where it starts. It holds no key in any order, so that none need
    /// be asked: one that knows keys of one form only may not be able to say.
    #[inline]
    pub fn is_empty_range(&self) -> bool {
        self.kind == Kind::DeleteRange && self.key == self.value
    }
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

impl Batch {
    /// An empty batch. It takes no memory before its first operation.
    pub fn new() -> Batch {
        Batch::with_capacity(0)
    }

    /// An empty batch with room for `capacity_bytes` of operations.
    pub fn with_capacity(capacity_bytes: usize) -> Batch {
        let bytes = match capacity_bytes {
            0 => Vec::new(),
            _ => Vec::with_capacity(HEADER_ROOM_BYTES + capacity_bytes),
        };
        Batch {
            bytes,
            count: 0,
            first_seq: 0,
            names_keyspaces: false,
            has_pointers: false,
            fault: None,
        }
    }

    /// Sets `key` to `value` in the default keyspace.
    #[inline]
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> &mut Batch {
        self.put_in(KeyspaceId::DEFAULT, key, value)
    }

    /// Removes `key` from the default keyspace.
    #[inline]
    pub fn delete(&mut self, key: &[u8]) -> &mut Batch {
        self.delete_in(KeyspaceId::DEFAULT, key)
    }

    /// Removes every key of `[start, end)` from the default keyspace.
    #[inline]
    pub fn delete_range(&mut self, start: &[u8], end: &[u8]) -> &mut Batch {
        self.delete_range_in(KeyspaceId::DEFAULT, start, end)
    }

    /// Sets `key` to `value` in a keyspace.
    #[inline]
    pub fn put_in(
        &mut self,
        keyspace: impl Into<KeyspaceId>,
        key: &[u8],
        value: &[u8],
    ) -> &mut Batch {
        self.push(keyspace.into(), Kind::Put, key, Some(value))
    }

    /// Removes `key` from a keyspace.
    #[inline]
    pub fn delete_in(&mut self, keyspace: impl Into<KeyspaceId>, key: &[u8]) -> &mut Batch {
        self.push(keyspace.into(), Kind::Delete, key, None)
    }

    /// Removes every key of `[start, end)` from a keyspace; nothing if `end` is not after `start`.
    ///
    /// Cost: one record, whatever the number of keys. Space comes back with compaction.
    #[inline]
    pub fn delete_range_in(
        &mut self,
        keyspace: impl Into<KeyspaceId>,
        start: &[u8],
        end: &[u8],
    ) -> &mut Batch {
        self.push(keyspace.into(), Kind::DeleteRange, start, Some(end))
    }

    /// Adds an operation as it was decoded, a pointer to a value included: for the engine alone,
    /// which refuses pointers that others put into a batch.
    #[doc(hidden)]
    #[inline]
    pub fn push_op(&mut self, op: &BatchOp<'_>) -> &mut Batch {
        self.has_pointers |= op.kind == Kind::PutPointer;
        let value = (op.kind != Kind::Delete).then_some(op.value);
        self.push(op.keyspace, op.kind, op.key, value)
    }

    #[inline]
    fn push(&mut self, ks: KeyspaceId, kind: Kind, key: &[u8], value: Option<&[u8]>) -> &mut Batch {
        let value_len = value.map_or(0, <[u8]>::len);
        if key.len() > KEY_BYTES_MAX || (kind == Kind::DeleteRange && value_len > KEY_BYTES_MAX) {
            self.fault = Some("a key is longer than 1 MiB");
        } else if value_len > VALUE_BYTES_MAX {
            self.fault = Some("a value is longer than 1 GiB");
        } else if self.bytes.len() + key.len() + value_len + OP_HEAD_BYTES_MAX > BATCH_BYTES_MAX {
            self.fault = Some("the batch is longer than 2 GiB");
        }
        if self.fault.is_some() {
            return self;
        }
        self.make_room(key.len() + value_len + OP_HEAD_BYTES_MAX);
        if ks == KeyspaceId::DEFAULT {
            self.bytes.push(kind as u8);
        } else {
            self.names_keyspaces = true;
            self.bytes.push(kind as u8 | HAS_KEYSPACE);
            put_varint(&mut self.bytes, u64::from(ks.0));
        }
        put_slice(&mut self.bytes, key);
        if let Some(value) = value {
            put_slice(&mut self.bytes, value);
        }
        self.count += 1;
        self
    }

    /// Makes room for so many bytes of operations, after the header's.
    #[inline]
    fn make_room(&mut self, bytes: usize) {
        if self.bytes.is_empty() {
            self.bytes.reserve(HEADER_ROOM_BYTES + bytes);
            self.bytes.resize(HEADER_ROOM_BYTES, 0);
        } else {
            self.bytes.reserve(bytes);
        }
    }

    /// The operations as they stand in the encoded form.
    #[inline]
    fn encoded_ops(&self) -> &[u8] {
        self.bytes.get(HEADER_ROOM_BYTES..).unwrap_or_default()
    }

    /// Appends all operations of `other`.
    pub fn append(&mut self, other: &Batch) -> &mut Batch {
        self.fault = self.fault.or(other.fault);
        if self.bytes.len() + other.bytes.len() > BATCH_BYTES_MAX {
            self.fault = Some("the batch is longer than 2 GiB");
        } else {
            let ops = other.encoded_ops();
            self.make_room(ops.len());
            self.bytes.extend_from_slice(ops);
            self.count += other.count;
            self.names_keyspaces |= other.names_keyspaces;
            self.has_pointers |= other.has_pointers;
        }
        self
    }

    /// Forgets all operations, keeping the memory.
    pub fn clear(&mut self) {
        self.bytes.truncate(HEADER_ROOM_BYTES);
        self.count = 0;
        self.names_keyspaces = false;
        self.has_pointers = false;
        self.fault = None;
    }

    /// How many operations it holds.
    #[inline]
    pub fn len(&self) -> u32 {
        self.count
    }

    /// True if it holds no operation.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Size of the encoded form with the longest header, in bytes.
    #[inline]
    pub fn size_bytes(&self) -> usize {
        self.bytes.len().max(HEADER_ROOM_BYTES)
    }

    /// The operations in the order they were added.
    pub fn iter(&self) -> impl Iterator<Item = BatchOp<'_>> {
        // What this type encoded, it decodes; an error here would be our own bug.
        self.ops().map_while(Result::ok)
    }

    /// Checks that the batch can be written, but for what a memtable cannot take: more than 1 000
    /// records over 1 MiB, or more than 3 GiB with what it notes of each record. No batch of up to
    /// 128 MiB is any of that.
    ///
    /// # Errors
    /// `InvalidArgument`: a key or value is longer than the limits in [`crate::key`], or the batch
    /// than 2 GiB.
    #[inline]
    pub fn check(&self) -> Result<()> {
        match self.fault {
            None => Ok(()),
            Some(fault) => Err(Error::invalid(fault)),
        }
    }

    /// True if some operation is for another keyspace than the default one.
    #[inline]
    pub fn names_keyspaces(&self) -> bool {
        self.names_keyspaces
    }

    /// True if some operation sets a key to a value that stands elsewhere.
    #[inline]
    pub fn has_pointers(&self) -> bool {
        self.has_pointers
    }

    /// Where the first operation goes, and its key or the start of its range.
    #[inline]
    pub fn first_key(&self) -> Option<(KeyspaceId, &[u8])> {
        let (_, keyspace, key) = take_head(&mut self.encoded_ops())?;
        Some((keyspace, key))
    }

    /// The first sequence number, as last stamped by [`Batch::seal`]; 0 before.
    #[inline]
    pub fn first_seq(&self) -> Seq {
        self.first_seq
    }

    /// Stamps the first sequence number and returns the encoded form.
    #[inline]
    pub fn seal(&mut self, first_seq: Seq) -> &[u8] {
        self.first_seq = first_seq;
        self.make_room(0);
        let count = u64::from(self.count);
        let start = HEADER_ROOM_BYTES - varint_len(first_seq) - varint_len(count);
        let header = &mut self.bytes[start..HEADER_ROOM_BYTES];
        let count_at = write_varint(header, first_seq);
        write_varint(&mut header[count_at..], count);
        &self.bytes[start..]
    }

    /// The operations in encoded form, without the header.
    #[inline]
    pub fn ops(&self) -> BatchIter<'_> {
        BatchIter { input: self.encoded_ops(), left: self.count }
    }
}

/// Walks the operations of an encoded batch, checking every bound.
///
/// Yields `Err` once at the first malformed operation and then ends.
#[derive(Clone, Debug)]
pub struct BatchIter<'a> {
    input: &'a [u8],
    left: u32,
}

/// Opens an encoded batch: its first sequence number, its count, and its operations.
///
/// # Errors
/// Fails with the reason if the header is short or the count cannot fit in the bytes.
pub fn decode(bytes: &[u8]) -> Result<(Seq, u32, BatchIter<'_>), &'static str> {
    let mut input = bytes;
    let seq = take_varint(&mut input).ok_or("batch header is cut short")?;
    let count = take_varint_u32(&mut input).ok_or("batch header is cut short")?;
    // The shortest operation is two bytes: a kind and the length of an empty key.
    if u64::from(count) * 2 > input.len() as u64 {
        return Err("batch count exceeds its bytes");
    }
    if seq > SEQ_MAX - u64::from(count) {
        return Err("batch has an implausible sequence number");
    }
    Ok((seq, count, BatchIter { input, left: count }))
}

impl BatchIter<'_> {
    /// Bytes not yet read; a well-formed batch ends with none.
    pub fn rest_len(&self) -> usize {
        self.input.len()
    }
}

impl<'a> Iterator for BatchIter<'a> {
    type Item = Result<BatchOp<'a>, &'static str>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let op = take_op(&mut self.input);
        if op.is_none() {
            self.left = 0;
        }
        Some(op.ok_or("batch operation is malformed"))
    }
}

/// What an operation begins with: its tag, where it goes, and its key.
#[inline]
fn take_head<'a>(input: &mut &'a [u8]) -> Option<(u8, KeyspaceId, &'a [u8])> {
    let tag = take_u8(input)?;
    let keyspace = match tag & HAS_KEYSPACE {
        0 => KeyspaceId::DEFAULT,
        _ => KeyspaceId(take_varint_u32(input)?),
    };
    Some((tag, keyspace, take_slice(input)?))
}

#[inline]
fn take_op<'a>(input: &mut &'a [u8]) -> Option<BatchOp<'a>> {
    let (tag, keyspace, key) = take_head(input)?;
    let kind = Kind::from_u8(tag & !HAS_KEYSPACE)?;
    let value = match kind {
        Kind::Put | Kind::PutPointer | Kind::DeleteRange => take_slice(input)?,
        Kind::Delete => &[],
        Kind::Merge | Kind::PutExpiring => return None,
    };
    Some(BatchOp { keyspace, kind, key, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Batch {
        let mut batch = Batch::new();
        batch.put(b"a", b"1").delete_in(KeyspaceId(7), b"b").delete_range(b"c", b"d");
        batch
    }

    #[test]
    fn ops_come_back_in_order() {
        let batch = sample();
        let ops: Vec<_> = batch.iter().collect();
        assert_eq!(ops.len(), 3);
        assert_eq!(batch.first_key(), Some((KeyspaceId::DEFAULT, &b"a"[..])));
        assert_eq!(ops[0].value, b"1");
        assert_eq!((ops[1].keyspace, ops[1].kind), (KeyspaceId(7), Kind::Delete));
        assert_eq!(
            (ops[2].kind, ops[2].key, ops[2].value),
            (Kind::DeleteRange, &b"c"[..], &b"d"[..])
        );
    }

    #[test]
    fn sealed_form_decodes_and_every_cut_is_refused() {
        let mut batch = sample();
        let bytes = batch.seal(42).to_vec();
        let (seq, count, ops) = decode(&bytes).expect("whole batch");
        assert_eq!((seq, count, ops.count()), (42, 3, 3));
        for cut in 0..bytes.len() {
            let refused = match decode(&bytes[..cut]) {
                Err(_) => true,
                Ok((_, _, mut ops)) => ops.any(|op| op.is_err()),
            };
            assert!(refused, "cut at {cut}");
        }
    }

    #[test]
    fn too_long_a_key_is_reported_and_nothing_kept() {
        let mut batch = Batch::new();
        batch.put(&vec![0; KEY_BYTES_MAX + 1], b"");
        assert!(batch.is_empty());
        assert!(matches!(batch.check(), Err(Error::InvalidArgument { .. })));
        batch.clear();
        assert!(batch.check().is_ok());
    }

    #[test]
    fn the_first_key_stands_with_its_keyspace() {
        let mut batch = Batch::new();
        batch.delete_range_in(KeyspaceId(7), b"c", b"d").put(b"a", b"1");
        assert_eq!(batch.first_key(), Some((KeyspaceId(7), &b"c"[..])));
    }

    #[test]
    fn append_joins_batches() {
        let mut batch = sample();
        batch.append(&sample());
        assert_eq!(batch.iter().count(), 6);
    }

    /// Before its first operation, and after the last was forgotten.
    #[test]
    fn an_empty_batch_is_like_any_other() {
        let mut cleared = sample();
        cleared.clear();
        for mut empty in [Batch::new(), Batch::with_capacity(100), cleared] {
            assert_eq!((empty.iter().count(), empty.ops().rest_len()), (0, 0));
            assert_eq!(empty.first_key(), None);
            assert_eq!(empty.size_bytes(), HEADER_ROOM_BYTES);
            assert!(matches!(decode(empty.seal(42)), Ok((42, 0, ops)) if ops.rest_len() == 0));
            assert_eq!(sample().append(&empty).iter().count(), 3);
            assert_eq!(empty.append(&sample()).iter().count(), 3);
            assert_eq!(empty.seal(42), sample().seal(42));
        }
    }

    /// The example of the format's page is what this code writes.
    #[test]
    fn the_documented_example_is_the_sealed_form() {
        let page = include_str!("../../../docs/format/batch.md");
        let example = page.split("```hex").nth(1).and_then(|rest| rest.split("```").next());
        let bytes: Vec<u8> = example
            .expect("the page has an example")
            .lines()
            .flat_map(|line| line.split('|').next().unwrap_or("").split_whitespace())
            .map(|byte| u8::from_str_radix(byte, 16).expect("hexadecimal"))
            .collect();
        assert_eq!(sample().seal(42), bytes);
    }
}
