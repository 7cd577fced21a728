//! Dumps of tables.

use super::events::{DumpedKind, DumpedOp, TableEvent};
use super::logs::{kind_of, value_of};
use super::{DumpOptions, shown};
use crate::block::{Block, BlockCursor};
use crate::options::KeyspaceOptions;
use crate::stats::TableCounters;
use crate::table::{
    BlockCache, Handle, Properties, StoredForm, TableContext, TableFile, TableReader, TableRemains,
    Tombstones, read_identity,
};
use esker_base::vfs::Access;
use esker_base::{Error, KeyOrder, Result, Vfs};
use std::path::Path;
use std::sync::Arc;

/// Memory for blocks; what is dumped is read past it.
const CACHE_BYTES: u64 = 1 << 20;

/// A dump under way.
struct Dump<'a> {
    path: &'a Path,
    options: &'a DumpOptions,
    context: TableContext,
    sink: &'a mut dyn FnMut(&TableEvent),
}

/// Tells what stands in a table: file, properties, partitions with their index entries and blocks,
/// range tombstones. Where indexes or footer are damaged, blocks are found by their checksums.
///
/// `order` must be the order of its keys; with another one only the properties are told.
///
/// # Errors
/// Of the file system; `Incompatible` if the keys have another order, or the format is another.
/// Damage is told as events.
pub fn dump_table(
    vfs: &dyn Vfs,
    path: &Path,
    order: &KeyOrder,
    options: &DumpOptions,
    mut sink: impl FnMut(&TableEvent),
) -> Result<()> {
    let file = vfs.open(path, Access::Random)?;
    let file_bytes = file.len_bytes()?;
    let context = TableContext {
        cache: Arc::new(BlockCache::new(CACHE_BYTES)),
        number: 0,
        counters: Arc::new(TableCounters::new()),
        pin_bytes_max: 0,
    };
    let mut dump = Dump { path, options, context, sink: &mut sink };
    let identity = read_identity(file.as_ref(), path);
    let salt = identity.as_ref().map_or(options.salt, |identity| Some(identity.salt));
    dump.tell(&TableEvent::File { file_bytes, salt });
    if let Err(error) = &identity {
        dump.damage(error);
    }
    let Some(salt) = salt else { return Ok(()) };
    let file = TableFile::new(file, path, file_bytes, salt);
    match file.properties() {
        Ok(properties) => {
            dump.tell(&TableEvent::Properties { pairs: pairs(&properties) });
        }
        Err(error) if identity.is_ok() => dump.damage(&error),
        Err(_) => {}
    }
    let keyspace = KeyspaceOptions { order: order.clone(), ..KeyspaceOptions::default() };
    let context = &dump.context;
    match TableReader::open(file.clone(), &keyspace, context) {
        Ok(reader) => dump.by_index(&Arc::new(reader)),
        Err(error @ Error::Incompatible { .. }) => return Err(error),
        Err(_) => match TableRemains::read(file, &keyspace, context) {
            Ok(remains) => dump.by_checksums(&remains),
            Err(error) => dump.damage(&error),
        },
    }
    Ok(())
}

impl Dump<'_> {
    fn tell(&mut self, event: &TableEvent) {
        (self.sink)(event);
    }

    fn damage(&mut self, error: &Error) {
        let (offset_bytes, what) = match error {
            Error::Corruption { offset_bytes, what, .. } => (*offset_bytes, (*what).to_owned()),
            other => (0, other.to_string()),
        };
        self.tell(&TableEvent::Damage { offset_bytes, bytes: 0, what });
    }

    fn by_index(&mut self, reader: &Arc<TableReader>) {
        for (i, partition) in reader.partitions().enumerate() {
            self.tell(&TableEvent::Partition {
                partition: i as u64,
                index_offset_bytes: partition.index.offset_bytes,
                index_bytes: partition.index.stored_bytes.into(),
                filter_bytes: partition.filter.map_or(0, |filter| filter.stored_bytes.into()),
                separator: partition.separator.escape_ascii().to_string(),
            });
            let entries = match reader.index_entries(i) {
                Ok(entries) => entries,
                Err(error) => {
                    self.damage(&error);
                    continue;
                }
            };
            for (handle, separator) in &entries {
                self.tell(&TableEvent::IndexEntry {
                    offset_bytes: handle.offset_bytes,
                    stored_bytes: handle.stored_bytes.into(),
                    separator: separator.escape_ascii().to_string(),
                });
            }
        }
        for found in reader.data_blocks() {
            match found.block {
                Ok(block) => {
                    let form = reader.stored_form(found.handle, &block);
                    self.block(found.handle, block, Some(form));
                }
                Err(error) => {
                    let bytes = found.handle.whole_bytes() as u64;
                    let (offset_bytes, what) = (found.handle.offset_bytes, error.to_string());
                    self.tell(&TableEvent::Damage { offset_bytes, bytes, what });
                }
            }
        }
        for tombstone in reader.range_tombstones().records() {
            self.tombstone(tombstone.seq, &tombstone.start, &tombstone.end);
        }
    }

    fn by_checksums(&mut self, remains: &TableRemains) {
        for &handle in remains.blocks() {
            match remains.load(&self.context.counters.clone(), handle) {
                Ok(block) => self.block(handle, block, None),
                Err(error) => self.damage(&error),
            }
        }
        if let Tombstones::Kept(tombstones) = &remains.tombstones {
            for tombstone in tombstones {
                self.tombstone(tombstone.seq, &tombstone.start, &tombstone.end);
            }
        }
        for lost in &remains.lost {
            let (offset_bytes, bytes) = (lost.offset_bytes, lost.bytes);
            self.tell(&TableEvent::Damage { offset_bytes, bytes, what: lost.what.clone() });
        }
    }

    fn tombstone(&mut self, seq: u64, start: &[u8], end: &[u8]) {
        let (start, end) = (start.escape_ascii().to_string(), end.escape_ascii().to_string());
        self.tell(&TableEvent::RangeTombstone { seq, start, end });
    }

    /// Tells of a block, and of its records if that was asked for.
    fn block(&mut self, handle: Handle, block: Block, form: Option<StoredForm>) {
        let raw_bytes = form.map_or(block.bytes().len() as u64, |form| form.raw_bytes);
        let mut cursor = BlockCursor::new();
        cursor.set_block(block);
        let mut records = Vec::new();
        let (mut count, mut first_key) = (0, None);
        let mut moved = cursor.seek_to_first();
        while moved.is_ok() && cursor.valid() {
            count += 1;
            let escaped = || cursor.key().escape_ascii().to_string();
            first_key.get_or_insert_with(escaped);
            if self.options.records {
                let trailer = cursor.trailer();
                records.push(TableEvent::Record(DumpedOp {
                    seq: trailer.seq(),
                    keyspace: None,
                    kind: trailer.kind().map_or(DumpedKind::Other(trailer.0 as u8), kind_of),
                    key: escaped(),
                    value: match trailer.kind() {
                        Some(kind) => value_of(kind, cursor.value(), self.options),
                        None => shown(cursor.value(), self.options.value_bytes_max),
                    },
                    value_bytes: cursor.value().len() as u64,
                }));
            }
            moved = cursor.next();
        }
        self.tell(&TableEvent::Block {
            offset_bytes: handle.offset_bytes,
            stored_bytes: handle.stored_bytes.into(),
            raw_bytes,
            compression: form.map_or("", |form| form.compression),
            records: count,
            first_key: first_key.unwrap_or_default(),
        });
        records.iter().for_each(|record| self.tell(record));
        if let Err(damage) = moved {
            let error = Error::corruption(self.path, handle.offset_bytes, damage.0);
            self.damage(&error);
        }
    }
}

fn pairs(p: &Properties) -> Vec<(&'static str, String)> {
    let mut pairs = vec![
        ("records", p.entries.to_string()),
        ("tombstones", p.tombstones.to_string()),
        ("range tombstones", p.range_tombstones.to_string()),
        ("raw key bytes", p.raw_key_bytes.to_string()),
        ("raw value bytes", p.raw_value_bytes.to_string()),
        ("smallest key", p.smallest_key.escape_ascii().to_string()),
        ("largest key", p.largest_key.escape_ascii().to_string()),
        ("largest key covered", (!p.largest_exclusive).to_string()),
        ("oldest sequence number", p.seq_min.to_string()),
        ("newest sequence number", p.seq_max.to_string()),
        ("data blocks", p.data_blocks.to_string()),
        ("data bytes", p.data_bytes.to_string()),
        ("partitions", p.partitions.to_string()),
        ("index bytes", p.index_bytes.to_string()),
        ("separator bytes", p.separator_bytes.to_string()),
        ("filter bytes", p.filter_bytes.to_string()),
        (
            "digest bytes",
            p.digest.iter().map(|block| u64::from(block.stored_bytes)).sum::<u64>().to_string(),
        ),
        ("key order", p.order.clone()),
        ("filter", p.filter.clone()),
        ("compression", p.compression.clone()),
    ];
    if let Some(origin) = &p.origin {
        pairs.push(("keyspace", format!("{} {:?}", origin.keyspace.0, origin.name)));
        if origin.flushed_seq > 0 {
            pairs.push(("in tables before, up to", origin.flushed_seq.to_string()));
        }
        pairs.push(("bulk-loaded", origin.ingested.to_string()));
    }
    pairs
}
