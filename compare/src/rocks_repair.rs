//! RocksDB in full repairs: it knows of no groups, so that a range tombstone takes their old states out.

use esker_bench::Outcome;
use esker_bench::papers::phoenix::{Pairs, Replica, Way};
use rocksdb::statistics::Ticker;
use rocksdb::{DB, DBCompressionType, Options, WaitForCompactOptions, WriteBatch, WriteOptions};
use std::path::Path;

/// With a log, or without one and flushed in the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RocksRepair {
    pub(crate) log: bool,
}

struct RocksReplica {
    db: DB,
    /// Counts what is written.
    options: Options,
    writes: WriteOptions,
    log: bool,
}

impl Way for RocksRepair {
    fn name(&self) -> &str {
        if self.log {
            "RocksDB: log, DeleteRange, batches"
        } else {
            "RocksDB: no log, DeleteRange, batches"
        }
    }

    /// The shape is Esker's: as many bytes of memtables, tables and levels, and LZ4; all else is RocksDB's default.
    fn open(&self, dir: &Path, _groups: u64, part_bytes: u64) -> Outcome<Box<dyn Replica>> {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_write_buffer_size(part_bytes as usize);
        options.set_max_write_buffer_number(4);
        options.set_target_file_size_base(part_bytes);
        options.set_max_bytes_for_level_base(4 * part_bytes);
        options.set_max_background_jobs(2);
        options.set_compression_type(DBCompressionType::Lz4);
        options.enable_statistics();
        let mut writes = WriteOptions::default();
        writes.disable_wal(!self.log);
        let db = DB::open(&options, dir.join("store"))?;
        Ok(Box::new(RocksReplica { db, options, writes, log: self.log }))
    }
}

impl Replica for RocksReplica {
    fn remove(&mut self, from: &[u8], to: &[u8], _group: u64) -> Outcome<()> {
        let mut batch = WriteBatch::default();
        batch.delete_range(from, to);
        Ok(self.db.write_opt(batch, &self.writes)?)
    }

    fn write(&mut self, pairs: &Pairs, _group: u64) -> Outcome<()> {
        let mut batch = WriteBatch::default();
        pairs.iter().for_each(|(key, value)| batch.put(key, value));
        Ok(self.db.write_opt(batch, &self.writes)?)
    }

    fn persist(&mut self) -> Outcome<()> {
        if self.log { Ok(self.db.flush_wal(true)?) } else { Ok(self.db.flush()?) }
    }

    fn rest(&mut self) -> Outcome<()> {
        Ok(self.db.wait_for_compact(&WaitForCompactOptions::default())?)
    }

    fn compact(&mut self) -> Outcome<()> {
        self.db.compact_range(None::<&[u8]>, None::<&[u8]>);
        Ok(())
    }

    fn written_bytes(&self) -> u64 {
        let of = [Ticker::WalFileBytes, Ticker::FlushWriteBytes, Ticker::CompactWriteBytes];
        of.into_iter().map(|ticker| self.options.get_ticker_count(ticker)).sum()
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(())
    }
}
