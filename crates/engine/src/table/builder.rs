//! Writes a table, front to back.
//!
//! Flow: `add`* -> data block -> output buffer -> file; index and filter wait for their partition.
//! Format: docs/format/table.md.
//! Invariants: (1) records arrive in strictly increasing internal-key order, which is asserted;
//! (2) a data block and the index entry that leads to it stand in the same partition.
//! Crash: until `finish` has returned, the file is worth nothing and nobody names it.

use super::filter::FilterBuilder;
use super::format::{Footer, Handle, Origin, Properties, ReferenceBlock, encode_range_tombstones};
use super::index::{DataIndex, PartitionHandles, SeparatorWriter, TopIndex};
use super::references::{LogShare, ReferenceBuilder};
use crate::block::{BlockBuilder, Sealer, StoredBlock, TRAILER_BYTES};
use crate::log::ValuePointer;
use crate::options::{Compression, Filter, KeyspaceOptions};
use crate::range_tombstone::RangeTombstone;
use crate::run_index::DigestBuilder;
use esker_base::coding::put_varint;
use esker_base::vfs::WritableFile;
use esker_base::{Error, KeyOrder, Kind, Result, Seq, Trailer};
use std::cmp::Ordering;
use std::path::{Path, PathBuf};

/// Bytes gathered before they are handed to the file.
const WRITE_BYTES: usize = 256 << 10;

/// Bytes of a filter from which on its partition ends, however short its index is.
const PARTITION_FILTER_BYTES_MAX: usize = if cfg!(test) { 256 << 10 } else { 64 << 20 };

/// What the manifest has to know about a finished table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSummary {
    /// Length of the file.
    pub file_bytes: u64,
    /// The salt its checksums are bound to.
    pub salt: u64,
    /// Point records, tombstones included.
    pub entries: u64,
    /// Point records that delete.
    pub tombstones: u64,
    /// Range tombstones.
    pub range_tombstones: u64,
    /// Smallest user key, starts of range tombstones included.
    pub smallest_key: Vec<u8>,
    /// Largest user key, ends of range tombstones included.
    pub largest_key: Vec<u8>,
    /// True if `largest_key` is the end of a range tombstone: no record of the table is at it.
    pub largest_exclusive: bool,
    /// Least sequence number of any record.
    pub seq_min: Seq,
    /// Greatest sequence number of any record.
    pub seq_max: Seq,
    /// Bytes of all user keys of point records.
    pub raw_key_bytes: u64,
    /// Bytes of all their values, pointers to values counted as they are.
    pub raw_value_bytes: u64,
    /// How much of which logs it points to, ascending by log.
    pub references: Vec<LogShare>,
}

/// Builds one table file.
#[derive(Debug)]
pub struct TableBuilder {
    file: Box<dyn WritableFile>,
    path: PathBuf,
    salt: u64,
    order: KeyOrder,
    block_bytes: usize,
    index_partition_bytes: usize,
    compression: Compression,
    sealer: Sealer,
    block: BlockBuilder,
    /// Stored bytes of the data block at hand, if it was copied and is in `out`: then `block` is
    /// empty.
    copied: Option<u32>,
    last_trailer: Trailer,
    filter: FilterBuilder,
    has_filter: bool,
    /// Data blocks of the partition at hand: separators and stored lengths.
    index: SeparatorWriter,
    partition_at: u64,
    top: SeparatorWriter,
    /// Of all keys, if the keyspace has a run index.
    pub(super) digest: Option<DigestBuilder>,
    references: ReferenceBuilder,
    tombstones: Vec<RangeTombstone>,
    properties: Properties,
    /// Bytes handed to the file.
    written_bytes: u64,
    out: Vec<u8>,
    scratch: Vec<u8>,
}

impl TableBuilder {
    /// Starts a table for `level` in an empty file. `salt` is a random number that no other
    /// file has.
    pub fn new(
        file: Box<dyn WritableFile>,
        path: &Path,
        options: &KeyspaceOptions,
        level: usize,
        salt: u64,
    ) -> TableBuilder {
        // Keys that compare equal may differ in bytes: then only a user's policy knows what it may
        // be asked.
        let filter = match &options.filter {
            Filter::Bloom { .. } if !options.order.is_hashable() => Filter::None,
            filter => filter.clone(),
        };
        let compression = options.compression_at(level);
        let properties = Properties {
            order: options.order.name().to_owned(),
            filter: FilterBuilder::name(&filter).to_owned(),
            compression: compression_name(compression),
            seq_min: Seq::MAX,
            ..Properties::default()
        };
        TableBuilder {
            file,
            path: path.to_path_buf(),
            salt,
            order: options.order.clone(),
            block_bytes: options.block_bytes as usize,
            index_partition_bytes: options.index_partition_bytes as usize,
            compression,
            sealer: Sealer::new(),
            block: BlockBuilder::new(options.restart_interval),
            copied: None,
            last_trailer: Trailer(0),
            has_filter: !matches!(filter, Filter::None),
            filter: FilterBuilder::new(filter),
            index: SeparatorWriter::default(),
            partition_at: 0,
            top: SeparatorWriter::default(),
            digest: (options.run_index && options.order.is_bytewise()).then(DigestBuilder::default),
            references: ReferenceBuilder::default(),
            tombstones: Vec::new(),
            properties,
            written_bytes: 0,
            out: Vec::with_capacity(WRITE_BYTES + (64 << 10)),
            scratch: Vec::new(),
        }
    }

    /// Notes whose records these are.
    pub fn set_origin(&mut self, origin: &Origin) {
        self.properties.origin = Some(origin.clone());
    }

    /// The file being written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a point record. Panics if it does not sort after the one before.
    ///
    /// # Errors
    /// `Io`, `NoSpace`: the table is lost; abandon it.
    /// # Cost
    /// One copy of key and value into the block, one into the output buffer; a write each 256 KiB.
    #[inline]
    pub fn add(&mut self, key: &[u8], trailer: Trailer, value: &[u8]) -> Result<()> {
        self.make_room(key, trailer, value)?;
        self.block.add(key, trailer, value);
        Ok(())
    }

    /// As [`TableBuilder::add`] of a record that `stored` holds just so, and nothing else: it is
    /// copied if it begins a block here.
    ///
    /// The table that `stored` is of has to be compressed as this one is.
    pub(crate) fn add_stored(
        &mut self,
        key: &[u8],
        trailer: Trailer,
        value: &[u8],
        stored: &StoredBlock,
    ) -> Result<()> {
        self.make_room(key, trailer, value)?;
        if !self.block.is_empty() {
            self.block.add(key, trailer, value);
            return Ok(());
        }
        let at = self.begin_block();
        self.copied = Some(stored.copy_to(&mut self.out, self.salt, at));
        self.block.pass(key);
        Ok(())
    }

    /// Takes note of a record, and ends the block at hand if the record has no room in it.
    #[inline]
    fn make_room(&mut self, key: &[u8], trailer: Trailer, value: &[u8]) -> Result<()> {
        let first = self.properties.entries == 0;
        let (mut new_key, mut in_filter) = (true, true);
        if first {
            self.properties.smallest_key = key.to_vec();
        } else {
            let order = self.order.compare(self.block.last_key(), key);
            let ascending = match order {
                Ordering::Less => true,
                Ordering::Equal => self.last_trailer > trailer,
                Ordering::Greater => false,
            };
            assert!(ascending, "records are added to a table in strictly increasing order");
            new_key = order == Ordering::Less;
            in_filter = new_key;
            let most = BlockBuilder::record_bytes_max(key.len(), value.len());
            let is_full = self.block.payload_bytes() + most + TRAILER_BYTES > self.block_bytes;
            if self.copied.is_some() || !self.block.is_empty() && is_full {
                let partition_done = self.finish_block(Some((key, !new_key)))?;
                // A key that continues in a new partition has to be in that one's filter too.
                in_filter |= partition_done;
            }
        }
        if new_key && let Some(digest) = &mut self.digest {
            digest.add(key);
        }
        if self.has_filter && in_filter {
            self.filter.add(key);
        }
        if trailer.0 as u8 == Kind::PutPointer as u8 {
            let broken = "a pointer to a value does not decode";
            let pointer = ValuePointer::decode(value)
                .ok_or_else(|| Error::corruption(&self.path, self.position(), broken))?;
            self.references.add(&pointer);
        }
        self.last_trailer = trailer;
        self.count(trailer.seq());
        self.properties.entries += 1;
        self.properties.tombstones += u64::from(trailer.0 as u8 == Kind::Delete as u8);
        self.properties.raw_key_bytes += key.len() as u64;
        self.properties.raw_value_bytes += value.len() as u64;
        Ok(())
    }

    /// Adds a range tombstone, at any time before `finish` and in any order.
    ///
    /// One that covers nothing is left out.
    pub fn add_range_tombstone(&mut self, tombstone: &RangeTombstone) {
        if self.order.less(&tombstone.start, &tombstone.end) {
            self.count(tombstone.seq);
            self.tombstones.push(tombstone.clone());
        }
    }

    #[inline]
    fn count(&mut self, seq: Seq) {
        self.properties.seq_min = self.properties.seq_min.min(seq);
        self.properties.seq_max = self.properties.seq_max.max(seq);
    }

    /// Point records added so far.
    pub fn entries(&self) -> u64 {
        self.properties.entries
    }

    /// True if neither a record nor a range tombstone was added.
    pub fn is_empty(&self) -> bool {
        self.properties.entries == 0 && self.tombstones.is_empty()
    }

    /// How long the file would be if it ended here, about.
    pub fn estimated_bytes(&self) -> u64 {
        let waiting = self.block.payload_bytes()
            + self.index.bytes.len()
            + self.top.bytes.len()
            + self.filter.estimated_bytes()
            + self.digest.as_ref().map_or(0, DigestBuilder::bytes);
        let tombstones: usize =
            self.tombstones.iter().map(|t| t.start.len() + t.end.len() + 12).sum();
        self.position() + (waiting + tombstones) as u64
    }

    /// Ends the table, syncs it and closes the file.
    ///
    /// # Errors
    /// `Io`, `NoSpace`: the file is worth nothing; remove it.
    pub fn finish(mut self) -> Result<TableSummary> {
        if self.properties.entries > 0 {
            self.properties.largest_key = self.block.last_key().to_vec();
            self.finish_block(None)?;
            self.finish_partition()?;
        }
        if let Some(mut digest) = self.digest.take() {
            let blocks = digest.finish().map(|block| self.put_block(block, self.compression));
            self.properties.digest = blocks.collect();
        }
        let (shares, blocks) = std::mem::take(&mut self.references).finish();
        for (log, block) in blocks {
            let handle = self.put_block(&block, self.compression);
            self.properties.references.push(ReferenceBlock { handle, log });
        }
        let range_tombstones = self.finish_range_tombstones();
        if self.properties.seq_min > self.properties.seq_max {
            self.properties.seq_min = 0;
        }
        let mut payload = std::mem::take(&mut self.scratch);
        self.properties.encode(&mut payload);
        let properties = self.put_block(&payload, Compression::None);
        payload.clear();
        TopIndex::encode(&mut payload, &self.top);
        let top_index = self.put_block(&payload, Compression::None);
        let at = self.position();
        let footer = Footer { properties, top_index, range_tombstones, salt: self.salt };
        footer.encode(&mut self.out, at);
        self.write_out()?;
        self.file.sync()?;
        let file_bytes = self.file.len_bytes();
        assert!(file_bytes == self.written_bytes, "a table's file is as long as was written");
        self.file.finish()?;
        let p = self.properties;
        Ok(TableSummary {
            file_bytes,
            salt: self.salt,
            entries: p.entries,
            tombstones: p.tombstones,
            range_tombstones: p.range_tombstones,
            smallest_key: p.smallest_key,
            largest_key: p.largest_key,
            largest_exclusive: p.largest_exclusive,
            seq_min: p.seq_min,
            seq_max: p.seq_max,
            raw_key_bytes: p.raw_key_bytes,
            raw_value_bytes: p.raw_value_bytes,
            references: shares,
        })
    }

    /// Gives the table up. The caller removes the file.
    pub fn abandon(self) {
        // What the system says about a file nobody wants is of no use.
        let _ = self.file.finish();
    }

    /// Where the next byte goes.
    #[inline]
    fn position(&self) -> u64 {
        self.written_bytes + self.out.len() as u64
    }

    /// Where the next data block begins, which comes right now.
    fn begin_block(&mut self) -> u64 {
        let at = self.position();
        if self.index.entries == 0 {
            self.partition_at = at;
        }
        at
    }

    /// Writes the data block at hand. `next` is the key to come, and whether it is the last key
    /// again.
    ///
    /// Returns true if that ended a partition.
    fn finish_block(&mut self, next: Option<(&[u8], bool)>) -> Result<bool> {
        let stored = match self.copied.take() {
            Some(stored) => stored,
            None => {
                let (at, start) = (self.begin_block(), self.out.len());
                self.block.finish(&mut self.out);
                self.sealer.seal(&mut self.out, start, self.compression, self.salt, at)
            }
        };
        self.properties.data_blocks += 1;
        self.properties.data_bytes += u64::from(stored) + TRAILER_BYTES as u64;
        let last = self.block.last_key();
        match next {
            Some((_, true)) => self.index.put(last, self.last_trailer),
            Some((next, false)) => {
                let separator = self.order.separator(last, next);
                // A comparator's shortcut is believed only where it keeps its promise.
                let holds = !self.order.less(&separator, last) && self.order.less(&separator, next);
                self.index.put(if holds { &separator } else { last }, Trailer(0));
            }
            // Not a shorter successor: it would share less with the other separators, and what
            // all share is what searching them as integers saves.
            None => self.index.put(last, Trailer(0)),
        }
        put_varint(&mut self.index.bytes, u64::from(stored));
        let is_full = self.index.bytes.len() >= self.index_partition_bytes
            || self.filter.estimated_bytes() >= PARTITION_FILTER_BYTES_MAX;
        let partition_done = next.is_some() && is_full;
        if partition_done {
            self.finish_partition()?;
        }
        if self.out.len() >= WRITE_BYTES {
            self.write_out()?;
        }
        Ok(partition_done)
    }

    /// Writes index and filter of the partition at hand.
    fn finish_partition(&mut self) -> Result<()> {
        let mut payload = std::mem::take(&mut self.scratch);
        payload.clear();
        DataIndex::encode(&mut payload, self.partition_at, &self.index);
        self.properties.index_bytes += payload.len() as u64;
        self.properties.separator_bytes += self.index.whole_bytes as u64;
        let index = self.put_block(&payload, Compression::None);
        payload.clear();
        let mut filter = None;
        if self.filter.finish(&mut payload) {
            self.properties.filter_bytes += payload.len() as u64;
            filter = Some(self.put_block(&payload, Compression::None));
        }
        payload.clear();
        self.scratch = payload;
        let (key, trailer) = self.index.last_bound();
        TopIndex::put(&mut self.top, (key, trailer), &PartitionHandles { index, filter });
        self.properties.partitions += 1;
        self.index.clear();
        if self.out.len() >= WRITE_BYTES {
            self.write_out()?;
        }
        Ok(())
    }

    /// Writes the range tombstones, if any, and widens the bounds by them.
    fn finish_range_tombstones(&mut self) -> Option<Handle> {
        let mut tombstones = std::mem::take(&mut self.tombstones);
        if tombstones.is_empty() {
            return None;
        }
        let order = &self.order;
        tombstones.sort_by(|a, b| order.compare(&a.start, &b.start).then(b.seq.cmp(&a.seq)));
        let p = &mut self.properties;
        p.range_tombstones = tombstones.len() as u64;
        for tombstone in &tombstones {
            let nothing_yet = p.entries == 0 && !p.largest_exclusive;
            if nothing_yet || order.less(&tombstone.start, &p.smallest_key) {
                p.smallest_key = tombstone.start.to_vec();
            }
            if nothing_yet || order.less(&p.largest_key, &tombstone.end) {
                p.largest_key = tombstone.end.to_vec();
                p.largest_exclusive = true;
            }
        }
        let mut payload = Vec::new();
        encode_range_tombstones(&mut payload, &tombstones);
        Some(self.put_block(&payload, self.compression))
    }

    fn put_block(&mut self, payload: &[u8], compression: Compression) -> Handle {
        let offset_bytes = self.position();
        let start = self.out.len();
        self.out.extend_from_slice(payload);
        let stored_bytes =
            self.sealer.seal(&mut self.out, start, compression, self.salt, offset_bytes);
        Handle { offset_bytes, stored_bytes }
    }

    fn write_out(&mut self) -> Result<()> {
        self.file.append(&self.out)?;
        self.written_bytes += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }
}

/// What properties say of how a table is compressed.
pub(super) fn compression_name(compression: Compression) -> String {
    match compression {
        Compression::None => "none".to_owned(),
        Compression::Lz4 => "lz4".to_owned(),
        Compression::Zstd { level } => format!("zstd-{level}"),
    }
}
