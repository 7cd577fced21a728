//! Looks at a whole table: full verification, and block by block for dumps and salvage.
//!
//! Everything is read from the file, past the cache, so that the disk is what is judged.

use super::digest::StoredDigest;
use super::filter::Probes;
use super::format::{Handle, Properties};
use super::index::DataIndex;
use super::reader::TableReader;
use crate::block::{Block, BlockCursor, Damage, codec_name};
use crate::log::ValuePointer;
use crate::run_index::{DigestCursor, Entries, single_slot};
use esker_base::checksum::hash64;
use esker_base::{Kind, Result, Seq, Trailer};
use std::cmp::Ordering;
use std::sync::Arc;

const DIGEST_WRONG: &str = "digest does not fit the keys";

/// A data block, or why it cannot be read.
#[derive(Debug)]
pub struct DataBlock {
    /// Where it stands. For an unreadable index, where that stands.
    pub handle: Handle,
    /// The block, checked.
    pub block: Result<Block>,
}

/// The data blocks of a table in order; one that cannot be read is reported, not passed over.
///
/// An index that cannot be read is reported once, in the place of all blocks it leads to.
#[derive(Debug)]
pub struct DataBlocks {
    table: Arc<TableReader>,
    partition: usize,
    block: usize,
    index: Option<Arc<DataIndex>>,
}

impl Iterator for DataBlocks {
    type Item = DataBlock;

    fn next(&mut self) -> Option<DataBlock> {
        loop {
            if let Some(index) = &self.index {
                if self.block < index.len() {
                    let handle = index.handle(self.block);
                    self.block += 1;
                    return Some(DataBlock { handle, block: self.table.load_data(handle) });
                }
                self.index = None;
                self.partition += 1;
            }
            let handle = self.table.top.partitions.get(self.partition)?.index;
            self.block = 0;
            match self.table.read_index(self.partition) {
                Ok(index) => self.index = Some(Arc::new(index)),
                Err(error) => {
                    self.partition += 1;
                    return Some(DataBlock { handle, block: Err(error) });
                }
            }
        }
    }
}

impl DataBlock {
    /// A cursor over the block's records, standing on none; `None` if the block is unreadable.
    pub fn records(&self) -> Option<BlockCursor> {
        let block = self.block.as_ref().ok()?;
        let mut cursor = BlockCursor::new();
        cursor.set_block(block.clone());
        Some(cursor)
    }
}

/// A partition of a table, as the top index describes it.
#[derive(Clone, Debug)]
pub(crate) struct PartitionView {
    pub(crate) index: Handle,
    pub(crate) filter: Option<Handle>,
    /// No record of the partition comes after it.
    pub(crate) separator: Vec<u8>,
}

/// How the block at a place is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredForm {
    pub(crate) compression: &'static str,
    pub(crate) raw_bytes: u64,
}

/// What was counted while verifying.
struct Seen<'t> {
    properties: Properties,
    last: Option<(Vec<u8>, Trailer)>,
    /// Log and place of each value that a record points to.
    pointers: Vec<(u64, u64)>,
    /// The table's digest, if it has one, at the entry of the last key.
    digest: Option<DigestCursor<StoredDigest<&'t TableReader>>>,
}

impl TableReader {
    /// Goes through the data blocks, reading each from the file.
    pub fn data_blocks(self: &Arc<Self>) -> DataBlocks {
        DataBlocks { table: self.clone(), partition: 0, block: 0, index: None }
    }

    /// The partitions in order.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = PartitionView> + '_ {
        self.top.partitions.iter().enumerate().map(|(i, handles)| PartitionView {
            index: handles.index,
            filter: handles.filter,
            separator: self.top.separators.key(i).to_vec(),
        })
    }

    /// The entries of a partition's index: where each data block stands, and its separator.
    pub(crate) fn index_entries(&self, partition: usize) -> Result<Vec<(Handle, Vec<u8>)>> {
        let index = self.read_index(partition)?;
        Ok((0..index.len()).map(|i| (index.handle(i), index.separators.key(i).to_vec())).collect())
    }

    /// How a data block is stored, once it was read as `block`.
    pub(crate) fn stored_form(&self, handle: Handle, block: &Block) -> StoredForm {
        let mut codec = [0xff];
        let at = handle.offset_bytes + u64::from(handle.stored_bytes);
        // The block was read, so that this byte is there.
        let _ = self.file.inner.read_at(at, &mut codec);
        let compression = codec_name(codec[0]);
        StoredForm { compression, raw_bytes: block.bytes().len() as u64 }
    }

    /// Reads everything and checks it: checksums, order, that indexes lead where they should, that
    /// filters know every key, and that the counts are those in the properties.
    ///
    /// # Errors
    /// `Corruption` naming the first block that is wrong, `Io`.
    /// # Cost
    /// Reads the whole file once, past the cache.
    pub fn verify(&self) -> Result<()> {
        let digest = DigestCursor::new(StoredDigest::new(self), single_slot(0));
        let mut seen = Seen {
            properties: Properties { seq_min: Seq::MAX, ..Properties::default() },
            last: None,
            pointers: Vec::new(),
            digest: (!self.properties.digest.is_empty()).then_some(digest),
        };
        for partition in 0..self.top.partitions.len() {
            self.verify_partition(partition, &mut seen)?;
        }
        if let Some(digest) = &mut seen.digest
            && digest.advance()?
        {
            return Err(self.damaged_digest(0, DIGEST_WRONG));
        }
        self.verify_references(&mut seen.pointers)?;
        for tombstone in self.range_tombstones().records() {
            seen.count_seq(tombstone.seq);
        }
        if seen.properties.seq_min > seen.properties.seq_max {
            seen.properties.seq_min = 0;
        }
        let (counted, stored) = (&seen.properties, &self.properties);
        let same = counted.entries == stored.entries
            && counted.tombstones == stored.tombstones
            && counted.raw_key_bytes == stored.raw_key_bytes
            && counted.raw_value_bytes == stored.raw_value_bytes
            && counted.seq_min == stored.seq_min
            && counted.seq_max == stored.seq_max
            && counted.data_blocks == stored.data_blocks
            && counted.data_bytes == stored.data_bytes
            && self.top.partitions.len() as u64 == stored.partitions
            && self.bounds_hold(&seen);
        if same {
            return Ok(());
        }
        let handle = Handle { offset_bytes: self.file.bytes, stored_bytes: 0 };
        Err(self.damaged(handle, Damage("properties do not agree with the records")))
    }

    /// Fails if the references are not what the records point to.
    fn verify_references(&self, pointers: &mut Vec<(u64, u64)>) -> Result<()> {
        pointers.sort_unstable();
        pointers.dedup();
        let mut expected = pointers.iter();
        let mut same = true;
        self.references(0, u64::MAX, |log, from| same &= expected.next() == Some(&(log, from)))?;
        if same && expected.next().is_none() {
            return Ok(());
        }
        let at =
            self.properties.references.first().map_or(self.file.bytes, |b| b.handle.offset_bytes);
        let handle = Handle { offset_bytes: at, stored_bytes: 0 };
        Err(self.damaged(handle, Damage("references do not agree with what records point to")))
    }

    /// True if the stored bounds enclose all records; the first key was checked on the way.
    fn bounds_hold(&self, seen: &Seen) -> bool {
        let stored = &self.properties;
        let points = seen.last.as_ref().is_none_or(|(largest, _)| {
            let order = self.order.compare(largest, &stored.largest_key);
            if stored.largest_exclusive { order.is_lt() } else { order.is_eq() }
        });
        let ranges = self.range_tombstones().fragments().iter().all(|f| {
            self.order.compare(&stored.smallest_key, &f.start).is_le()
                && self.order.compare(&f.end, &stored.largest_key).is_le()
        });
        points && ranges
    }

    fn verify_partition(&self, partition: usize, seen: &mut Seen<'_>) -> Result<()> {
        let index = self.read_index(partition)?;
        let filter = self.top.partitions[partition].filter;
        // One that nobody asks now may be asked again, by who has its policy.
        let filter = filter.map(|handle| self.read_filter(handle)).transpose()?;
        let filter = filter.filter(|_| self.asks_filters);
        let mut cursor = BlockCursor::new();
        for at in 0..index.len() {
            let handle = index.handle(at);
            seen.properties.data_blocks += 1;
            seen.properties.data_bytes += handle.whole_bytes() as u64;
            cursor.set_block(self.load_data(handle)?);
            cursor.seek_to_first().map_err(|d| self.damaged(handle, d))?;
            let first_lower = match (at.checked_sub(1), partition.checked_sub(1)) {
                (Some(before), _) => Some(index.separators.bound(before)),
                (None, Some(before)) => Some(self.top.separators.bound(before)),
                (None, None) => None,
            };
            let mut lower = first_lower;
            while cursor.valid() {
                let record = (cursor.key(), cursor.trailer());
                if lower.is_some_and(|l| self.order.compare_internal(l, record) != Ordering::Less) {
                    return Err(self.damaged(handle, Damage("record stands in the wrong block")));
                }
                lower = None;
                self.verify_record(handle, &cursor, seen)?;
                if let Some(filter) = &filter
                    && !filter.may_contain(&mut Probes::new(hash64(cursor.key())), cursor.key())
                {
                    return Err(self.damaged(handle, Damage("filter does not know a key")));
                }
                cursor.next().map_err(|d| self.damaged(handle, d))?;
            }
            let upper = index.separators.bound(at);
            if let Some((key, trailer)) = &seen.last
                && self.order.compare_internal((key, *trailer), upper).is_gt()
            {
                return Err(self.damaged(handle, Damage("record stands in the wrong block")));
            }
        }
        Ok(())
    }

    fn verify_record(&self, at: Handle, cursor: &BlockCursor, seen: &mut Seen<'_>) -> Result<()> {
        let wrong = |what| -> Result<()> { Err(self.damaged(at, Damage(what))) };
        let (key, trailer) = (cursor.key(), cursor.trailer());
        if let Some(digest) = &mut seen.digest
            && seen.last.as_ref().is_none_or(|(last, _)| last != key)
            && !(digest.advance()? && digest.covers(key))
        {
            return Err(self.damaged_digest(0, DIGEST_WRONG));
        }
        match trailer.kind() {
            None | Some(Kind::DeleteRange) => return wrong("record is of an unknown kind"),
            Some(Kind::PutPointer) => match ValuePointer::decode(cursor.value()) {
                Some(to) => seen.pointers.push((to.log, to.offset_bytes)),
                None => return wrong("a pointer to a value does not decode"),
            },
            Some(_) => {}
        }
        match &mut seen.last {
            Some((last, last_trailer)) => {
                let order = self.order.compare_internal((last, *last_trailer), (key, trailer));
                if order != Ordering::Less {
                    return wrong("records are out of order");
                }
                last.clear();
                last.extend_from_slice(key);
                *last_trailer = trailer;
            }
            None => {
                if self.order.less(key, &self.properties.smallest_key) {
                    return wrong("record is below the smallest key");
                }
                seen.last = Some((key.to_vec(), trailer));
            }
        }
        seen.count_seq(trailer.seq());
        let properties = &mut seen.properties;
        properties.entries += 1;
        properties.tombstones += u64::from(trailer.kind() == Some(Kind::Delete));
        properties.raw_key_bytes += key.len() as u64;
        properties.raw_value_bytes += cursor.value().len() as u64;
        Ok(())
    }
}

impl Seen<'_> {
    fn count_seq(&mut self, seq: Seq) {
        self.properties.seq_min = self.properties.seq_min.min(seq);
        self.properties.seq_max = self.properties.seq_max.max(seq);
    }
}
