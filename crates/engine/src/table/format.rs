//! The fixed parts of a table file: handles, footer, properties, range tombstones.
//!
//! Format: docs/format/table.md (the only description).
//! Invariants: (1) the last 64 bytes of every version of the format hold the version, a checksum
//! over what stands before it, and the magic at the same places, so that a newer file is told from
//! a damaged one.

use crate::block::{Damage, TRAILER_BYTES};
use crate::range_tombstone::RangeTombstone;
use esker_base::coding::{
    put_slice, put_u32, put_u64, put_varint, take_bytes, take_slice, take_u32, take_u64,
    take_varint, take_varint_u32,
};
use esker_base::vfs::ReadableFile;
use esker_base::{Error, KeyspaceId, Result, Seq, checksum};
use std::path::Path;
use std::sync::Arc;

/// The version of the format that this code writes, and the newest it reads.
pub const FORMAT_VERSION: u32 = 1;

/// "EskerSST", the last bytes of a table.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"EskerSST");

pub(super) const FOOTER_BYTES: usize = 64;
const FOOTER_SUMMED_BYTES: usize = 52;

/// Where a stored block stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handle {
    /// Where it begins in the file.
    pub offset_bytes: u64,
    /// Its length without the block trailer.
    pub stored_bytes: u32,
}

impl Handle {
    /// Where the block's trailer ends.
    #[inline]
    pub fn end_bytes(self) -> u64 {
        self.offset_bytes.saturating_add(u64::from(self.stored_bytes) + TRAILER_BYTES as u64)
    }

    /// Length with the trailer.
    #[inline]
    pub fn whole_bytes(self) -> usize {
        self.stored_bytes as usize + TRAILER_BYTES
    }
}

/// What leads to everything else in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) properties: Handle,
    pub(super) top_index: Handle,
    /// `None` if the table has no range tombstones.
    pub(super) range_tombstones: Option<Handle>,
    pub(super) salt: u64,
}

/// Why a footer cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FooterDamage {
    Damage(&'static str),
    Newer(u32),
}

impl Footer {
    pub(super) fn encode(&self, out: &mut Vec<u8>, offset_bytes: u64) {
        let start = out.len();
        let tombstones = self.range_tombstones.unwrap_or_default();
        put_u64(out, self.properties.offset_bytes);
        put_u64(out, self.top_index.offset_bytes);
        put_u64(out, tombstones.offset_bytes);
        put_u32(out, self.properties.stored_bytes);
        put_u32(out, self.top_index.stored_bytes);
        put_u32(out, tombstones.stored_bytes);
        put_u32(out, 0);
        put_u64(out, self.salt);
        put_u32(out, FORMAT_VERSION);
        let crc = checksum::crc32c(&out[start..]);
        put_u32(out, checksum::bind(crc, self.salt, offset_bytes));
        put_u64(out, MAGIC);
    }

    pub(super) fn decode(
        bytes: &[u8; FOOTER_BYTES],
        offset_bytes: u64,
    ) -> std::result::Result<Footer, FooterDamage> {
        const CUT_SHORT: FooterDamage = FooterDamage::Damage("footer is cut short");
        let mut input = &bytes[..];
        let mut offsets = [0; 3];
        for offset in &mut offsets {
            *offset = take_u64(&mut input).ok_or(CUT_SHORT)?;
        }
        let mut lengths = [0; 4];
        for length in &mut lengths {
            *length = take_u32(&mut input).ok_or(CUT_SHORT)?;
        }
        let salt = take_u64(&mut input).ok_or(CUT_SHORT)?;
        let version = take_u32(&mut input).ok_or(CUT_SHORT)?;
        let sum = take_u32(&mut input).ok_or(CUT_SHORT)?;
        if take_u64(&mut input) != Some(MAGIC) {
            return Err(FooterDamage::Damage("file does not end as a table does"));
        }
        let crc = checksum::crc32c(&bytes[..FOOTER_SUMMED_BYTES]);
        if checksum::bind(crc, salt, offset_bytes) != sum {
            return Err(FooterDamage::Damage("footer checksum does not match"));
        }
        if version > FORMAT_VERSION {
            return Err(FooterDamage::Newer(version));
        }
        let handle = |i: usize| Handle { offset_bytes: offsets[i], stored_bytes: lengths[i] };
        let range_tombstones = (lengths[2] > 0).then(|| handle(2));
        let inside = [Some(handle(0)), Some(handle(1)), range_tombstones];
        if inside.into_iter().flatten().any(|h| h.end_bytes() > offset_bytes) {
            return Err(FooterDamage::Damage("footer leads beyond the end of the file"));
        }
        if version == 0 || lengths[3] != 0 {
            return Err(FooterDamage::Damage("footer has fields no version writes"));
        }
        Ok(Footer { properties: handle(0), top_index: handle(1), range_tombstones, salt })
    }

    /// Reads and checks the footer of a file of `file_bytes`.
    pub(super) fn read(file: &dyn ReadableFile, path: &Path, file_bytes: u64) -> Result<Footer> {
        let Some(offset_bytes) = file_bytes.checked_sub(FOOTER_BYTES as u64) else {
            return Err(Error::corruption(path, 0, "table is shorter than its footer"));
        };
        let mut bytes = [0; FOOTER_BYTES];
        if file.read_at(offset_bytes, &mut bytes)? != FOOTER_BYTES {
            return Err(Error::corruption(path, offset_bytes, "footer is cut short"));
        }
        Footer::decode(&bytes, offset_bytes).map_err(|damage| match damage {
            FooterDamage::Damage(what) => Error::corruption(path, offset_bytes, what),
            FooterDamage::Newer(version) => Error::Incompatible {
                path: path.to_path_buf(),
                what: format!(
                    "table format {version} is newer than {FORMAT_VERSION}: use a newer release"
                ),
            },
        })
    }
}

/// What a manifest would say of a table: its length and its salt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    /// Length of the file.
    pub file_bytes: u64,
    /// The random number its checksums are bound to.
    pub salt: u64,
}

/// Reads what identifies a table from the file itself, for repair and for dumps.
///
/// # Errors
/// `Corruption` if the file does not end in a valid footer.
pub fn read_identity(file: &dyn ReadableFile, path: &Path) -> Result<FileIdentity> {
    let file_bytes = file.len_bytes()?;
    let footer = Footer::read(file, path, file_bytes)?;
    Ok(FileIdentity { file_bytes, salt: footer.salt })
}

/// Whose records a table holds: what repair goes by when no manifest can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// Its name.
    pub name: Arc<str>,
    /// True for bulk-loaded tables: their age is known to the manifest only.
    pub ingested: bool,
    /// All records of the keyspace up to this sequence number were in tables when this one was
    /// begun; 0 if nobody said. A compaction forgets ages and what was deleted, and older logs,
    /// kept for the values in them, do not.
    pub flushed_seq: Seq,
}

impl Origin {
    /// A table that a flush or a compaction writes.
    pub fn new(keyspace: KeyspaceId, name: &str) -> Origin {
        Origin { keyspace, name: name.into(), ingested: false, flushed_seq: 0 }
    }
}

/// What a table says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// Point records, tombstones included.
    pub entries: u64,
    /// Point records that delete.
    pub tombstones: u64,
    /// Range tombstones, as they were added.
    pub range_tombstones: u64,
    /// Bytes of all user keys of point records.
    pub raw_key_bytes: u64,
    /// Bytes of all their values.
    pub raw_value_bytes: u64,
    /// The smallest user key of any record, starts of range tombstones included.
    pub smallest_key: Vec<u8>,
    /// The largest user key, ends of range tombstones included.
    pub largest_key: Vec<u8>,
    /// True if `largest_key` is the end of a range tombstone and itself not covered.
    pub largest_exclusive: bool,
    /// The least sequence number of any record.
    pub seq_min: Seq,
    /// The greatest sequence number of any record.
    pub seq_max: Seq,
    /// Data blocks.
    pub data_blocks: u64,
    /// Bytes of the data blocks as stored.
    pub data_bytes: u64,
    /// Partitions.
    pub partitions: u64,
    /// Bytes of all index blocks but the top one, uncompressed.
    pub index_bytes: u64,
    /// Bytes of all filter blocks.
    pub filter_bytes: u64,
    /// Bytes of the keys in these index blocks, where they do not share any; 0 if the table does
    /// not say.
    pub separator_bytes: u64,
    /// Name of the key order.
    pub order: String,
    /// Name of the filter; "none" if there is none.
    pub filter: String,
    /// Name of the compression that was asked for.
    pub compression: String,
    /// Whose it is; `None` if the builder was not told.
    pub origin: Option<Origin>,
    /// The blocks of its digest, in their order; none if it has no digest.
    pub digest: Vec<Handle>,
    /// The blocks of its references, in their order; none if it points to no value.
    pub references: Vec<ReferenceBlock>,
}

/// A block of references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReferenceBlock {
    /// Where it stands.
    pub handle: Handle,
    /// The log of its first reference.
    pub log: u64,
}

/// Tags of properties on disk; never reused. A reader passes over tags it does not know.
mod tag {
    pub(super) const ENTRIES: u64 = 1;
    pub(super) const TOMBSTONES: u64 = 2;
    pub(super) const RANGE_TOMBSTONES: u64 = 3;
    pub(super) const RAW_KEY_BYTES: u64 = 4;
    pub(super) const RAW_VALUE_BYTES: u64 = 5;
    pub(super) const SMALLEST_KEY: u64 = 6;
    pub(super) const LARGEST_KEY: u64 = 7;
    pub(super) const LARGEST_EXCLUSIVE: u64 = 8;
    pub(super) const SEQ_MIN: u64 = 9;
    pub(super) const SEQ_MAX: u64 = 10;
    pub(super) const DATA_BLOCKS: u64 = 11;
    pub(super) const DATA_BYTES: u64 = 12;
    pub(super) const PARTITIONS: u64 = 13;
    pub(super) const INDEX_BYTES: u64 = 14;
    pub(super) const FILTER_BYTES: u64 = 15;
    pub(super) const ORDER: u64 = 16;
    pub(super) const FILTER: u64 = 17;
    pub(super) const COMPRESSION: u64 = 18;
    pub(super) const KEYSPACE: u64 = 19;
    pub(super) const KEYSPACE_NAME: u64 = 20;
    pub(super) const INGESTED: u64 = 21;
    pub(super) const DIGEST: u64 = 22;
    pub(super) const REFERENCES: u64 = 23;
    pub(super) const FLUSHED_SEQ: u64 = 24;
    pub(super) const SEPARATOR_BYTES: u64 = 25;
}

impl Properties {
    /// Appends tag, length and bytes of each property.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let mut number = |tag, value: u64| {
            put_varint(out, tag);
            put_slice(out, &value.to_le_bytes());
        };
        number(tag::ENTRIES, self.entries);
        number(tag::TOMBSTONES, self.tombstones);
        number(tag::RANGE_TOMBSTONES, self.range_tombstones);
        number(tag::RAW_KEY_BYTES, self.raw_key_bytes);
        number(tag::RAW_VALUE_BYTES, self.raw_value_bytes);
        number(tag::LARGEST_EXCLUSIVE, u64::from(self.largest_exclusive));
        number(tag::SEQ_MIN, self.seq_min);
        number(tag::SEQ_MAX, self.seq_max);
        number(tag::DATA_BLOCKS, self.data_blocks);
        number(tag::DATA_BYTES, self.data_bytes);
        number(tag::PARTITIONS, self.partitions);
        number(tag::INDEX_BYTES, self.index_bytes);
        number(tag::FILTER_BYTES, self.filter_bytes);
        let mut bytes = |tag, value: &[u8]| {
            put_varint(out, tag);
            put_slice(out, value);
        };
        bytes(tag::SMALLEST_KEY, &self.smallest_key);
        bytes(tag::LARGEST_KEY, &self.largest_key);
        bytes(tag::ORDER, self.order.as_bytes());
        bytes(tag::FILTER, self.filter.as_bytes());
        bytes(tag::COMPRESSION, self.compression.as_bytes());
        if let Some(origin) = &self.origin {
            bytes(tag::KEYSPACE, &u64::from(origin.keyspace.0).to_le_bytes());
            bytes(tag::KEYSPACE_NAME, origin.name.as_bytes());
            bytes(tag::INGESTED, &u64::from(origin.ingested).to_le_bytes());
        }
        if !self.digest.is_empty() {
            bytes(tag::DIGEST, &encode_row(&self.digest));
        }
        if !self.references.is_empty() {
            bytes(tag::REFERENCES, &encode_references(&self.references));
        }
        let flushed_seq = self.origin.as_ref().map_or(0, |origin| origin.flushed_seq);
        if flushed_seq > 0 {
            bytes(tag::FLUSHED_SEQ, &flushed_seq.to_le_bytes());
        }
        if self.separator_bytes > 0 {
            bytes(tag::SEPARATOR_BYTES, &self.separator_bytes.to_le_bytes());
        }
    }

    pub(super) fn decode(payload: &[u8]) -> std::result::Result<Properties, Damage> {
        const BROKEN: Damage = Damage("property does not decode");
        let mut properties = Properties::default();
        let mut input = payload;
        while !input.is_empty() {
            let tag = take_varint(&mut input).ok_or(BROKEN)?;
            let value = take_slice(&mut input).ok_or(BROKEN)?;
            properties.set(tag, value).ok_or(BROKEN)?;
        }
        Ok(properties)
    }

    fn set(&mut self, tag: u64, value: &[u8]) -> Option<()> {
        let number = || value.try_into().ok().map(u64::from_le_bytes);
        let text = || std::str::from_utf8(value).ok().map(str::to_owned);
        match tag {
            tag::ENTRIES => self.entries = number()?,
            tag::TOMBSTONES => self.tombstones = number()?,
            tag::RANGE_TOMBSTONES => self.range_tombstones = number()?,
            tag::RAW_KEY_BYTES => self.raw_key_bytes = number()?,
            tag::RAW_VALUE_BYTES => self.raw_value_bytes = number()?,
            tag::SMALLEST_KEY => self.smallest_key = value.to_vec(),
            tag::LARGEST_KEY => self.largest_key = value.to_vec(),
            tag::LARGEST_EXCLUSIVE => self.largest_exclusive = number()? != 0,
            tag::SEQ_MIN => self.seq_min = number()?,
            tag::SEQ_MAX => self.seq_max = number()?,
            tag::DATA_BLOCKS => self.data_blocks = number()?,
            tag::DATA_BYTES => self.data_bytes = number()?,
            tag::PARTITIONS => self.partitions = number()?,
            tag::INDEX_BYTES => self.index_bytes = number()?,
            tag::FILTER_BYTES => self.filter_bytes = number()?,
            tag::ORDER => self.order = text()?,
            tag::FILTER => self.filter = text()?,
            tag::COMPRESSION => self.compression = text()?,
            tag::KEYSPACE => {
                self.origin_mut().keyspace = KeyspaceId(u32::try_from(number()?).ok()?);
            }
            tag::KEYSPACE_NAME => self.origin_mut().name = text()?.into(),
            tag::INGESTED => self.origin_mut().ingested = number()? != 0,
            tag::DIGEST => self.digest = decode_row(value)?,
            tag::REFERENCES => self.references = decode_references(value)?,
            tag::FLUSHED_SEQ => self.origin_mut().flushed_seq = number()?,
            tag::SEPARATOR_BYTES => self.separator_bytes = number()?,
            _ => {}
        }
        Some(())
    }

    fn origin_mut(&mut self) -> &mut Origin {
        self.origin.get_or_insert_with(|| Origin::new(KeyspaceId::DEFAULT, ""))
    }

    /// Heap bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.smallest_key.len()
            + self.origin.as_ref().map_or(0, |origin| origin.name.len())
            + self.largest_key.len()
            + self.order.len()
            + self.filter.len()
            + self.compression.len()
            + self.digest.len() * size_of::<Handle>()
            + self.references.len() * size_of::<ReferenceBlock>()
    }
}

/// Blocks that stand one right behind the other: the offset of the first, then the stored bytes of
/// each.
fn encode_row(blocks: &[Handle]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, blocks.first().map_or(0, |first| first.offset_bytes));
    for block in blocks {
        put_varint(&mut out, u64::from(block.stored_bytes));
    }
    out
}

fn decode_row(mut input: &[u8]) -> Option<Vec<Handle>> {
    let mut offset_bytes = take_varint(&mut input)?;
    let mut blocks = Vec::new();
    while !input.is_empty() {
        let block = Handle { offset_bytes, stored_bytes: take_varint_u32(&mut input)? };
        offset_bytes = block.end_bytes();
        blocks.push(block);
    }
    Some(blocks)
}

/// Blocks that stand one right behind the other: the offset of the first, then stored bytes and
/// first log of each.
fn encode_references(blocks: &[ReferenceBlock]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, blocks.first().map_or(0, |first| first.handle.offset_bytes));
    let mut before = 0;
    for block in blocks {
        put_varint(&mut out, u64::from(block.handle.stored_bytes));
        put_varint(&mut out, block.log - before);
        before = block.log;
    }
    out
}

fn decode_references(mut input: &[u8]) -> Option<Vec<ReferenceBlock>> {
    let mut offset_bytes = take_varint(&mut input)?;
    let (mut blocks, mut log) = (Vec::new(), 0u64);
    while !input.is_empty() {
        let handle = Handle { offset_bytes, stored_bytes: take_varint_u32(&mut input)? };
        log = log.checked_add(take_varint(&mut input)?)?;
        offset_bytes = handle.end_bytes();
        blocks.push(ReferenceBlock { handle, log });
    }
    Some(blocks)
}

/// Appends range tombstones: a count, then sequence number, start and end of each.
pub(super) fn encode_range_tombstones(out: &mut Vec<u8>, tombstones: &[RangeTombstone]) {
    put_varint(out, tombstones.len() as u64);
    for tombstone in tombstones {
        put_varint(out, tombstone.seq);
        put_slice(out, &tombstone.start);
        put_slice(out, &tombstone.end);
    }
}

pub(super) fn decode_range_tombstones(
    payload: &[u8],
) -> std::result::Result<Vec<RangeTombstone>, Damage> {
    const BROKEN: Damage = Damage("range tombstone does not decode");
    let mut input = payload;
    let count = take_varint(&mut input).ok_or(BROKEN)?;
    // Each takes at least three bytes.
    if count > input.len() as u64 / 3 {
        return Err(Damage("more range tombstones declared than there is room for"));
    }
    let mut tombstones = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let seq = take_varint(&mut input).ok_or(BROKEN)?;
        let start = take_slice(&mut input).ok_or(BROKEN)?;
        let end = take_slice(&mut input).ok_or(BROKEN)?;
        if seq > esker_base::key::SEQ_MAX {
            return Err(BROKEN);
        }
        tombstones.push(RangeTombstone { start: start.into(), end: end.into(), seq });
    }
    if take_bytes(&mut input, 1).is_some() {
        return Err(Damage("range tombstone block is longer than its tombstones"));
    }
    Ok(tombstones)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footer() -> Footer {
        Footer {
            properties: Handle { offset_bytes: 10, stored_bytes: 20 },
            top_index: Handle { offset_bytes: 50, stored_bytes: 30 },
            range_tombstones: None,
            salt: 77,
        }
    }

    fn encoded(footer: &Footer, at: u64) -> [u8; FOOTER_BYTES] {
        let mut out = Vec::new();
        footer.encode(&mut out, at);
        out.try_into().expect("64 bytes")
    }

    #[test]
    fn a_footer_round_trips_and_refuses_every_bit_flip() {
        let bytes = encoded(&footer(), 1_000);
        assert_eq!(Footer::decode(&bytes, 1_000), Ok(footer()));
        assert!(Footer::decode(&bytes, 1_001).is_err());
        for bit in 0..FOOTER_BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(
                matches!(Footer::decode(&flipped, 1_000), Err(FooterDamage::Damage(_))),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        let mut bytes = encoded(&footer(), 1_000);
        bytes[48] = 2;
        let crc = checksum::crc32c(&bytes[..FOOTER_SUMMED_BYTES]);
        bytes[52..56].copy_from_slice(&checksum::bind(crc, 77, 1_000).to_le_bytes());
        assert_eq!(Footer::decode(&bytes, 1_000), Err(FooterDamage::Newer(2)));
    }

    #[test]
    fn unknown_properties_are_passed_over() {
        let origin =
            Origin { ingested: true, flushed_seq: 9, ..Origin::new(KeyspaceId(7), "fruit") };
        let properties = Properties {
            entries: 3,
            order: "o".into(),
            origin: Some(origin),
            digest: vec![
                Handle { offset_bytes: 700, stored_bytes: 300 },
                Handle { offset_bytes: 1_005, stored_bytes: 20 },
            ],
            references: vec![
                ReferenceBlock { handle: Handle { offset_bytes: 1_030, stored_bytes: 8 }, log: 5 },
                ReferenceBlock { handle: Handle { offset_bytes: 1_043, stored_bytes: 9 }, log: 5 },
                ReferenceBlock { handle: Handle { offset_bytes: 1_057, stored_bytes: 7 }, log: 80 },
            ],
            ..Properties::default()
        };
        let mut out = Vec::new();
        properties.encode(&mut out);
        put_varint(&mut out, 999);
        put_slice(&mut out, b"from the future");
        assert_eq!(Properties::decode(&out), Ok(properties));
        for cut in 0..out.len() {
            let _ = Properties::decode(&out[..cut]);
        }
    }
}
