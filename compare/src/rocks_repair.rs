//! RocksDB in full repairs: it knows of no groups, so that a range tombstone, in one way after
//! `DeleteFilesInRange`, takes their old states out.

use esker_bench::Outcome;
use esker_bench::papers::phoenix::{Pairs, Replica, States, Way};
use rocksdb::statistics::Ticker;
use rocksdb::{
    DB, DBCompressionType, IngestExternalFileOptions, Options, SstFileWriter,
    WaitForCompactOptions, WriteBatch, WriteOptions,
};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Threads that compact, as Esker has on two processors. RocksDB takes a quarter of its jobs, but
/// one at least, for flushes.
const COMPACTIONS: u32 = 2;

/// RocksDB's ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RocksRepair {
    /// A range tombstone, then batches, with a log.
    Logged,
    /// The same without a log, flushed in the end.
    Unlogged,
    /// Tables inside of the range are dropped, a range tombstone takes the rest, and the new state
    /// comes as a table.
    Files,
}

impl RocksRepair {
    pub(crate) const ALL: [RocksRepair; 3] =
        [RocksRepair::Logged, RocksRepair::Unlogged, RocksRepair::Files];

    /// The shape is Esker's: as many bytes of memtables, tables and levels, and LZ4; all else is
    /// RocksDB's default.
    fn options(part_bytes: u64) -> Options {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_write_buffer_size(part_bytes as usize);
        options.set_max_write_buffer_number(4);
        options.set_target_file_size_base(part_bytes);
        options.set_max_bytes_for_level_base(4 * part_bytes);
        options.set_max_background_jobs(COMPACTIONS as i32 + 1);
        options.set_max_subcompactions(COMPACTIONS);
        options.set_compression_type(DBCompressionType::Lz4);
        options.enable_statistics();
        options
    }
}

impl Way for RocksRepair {
    fn name(&self) -> &str {
        match self {
            RocksRepair::Logged => "RocksDB: log, DeleteRange, batches",
            RocksRepair::Unlogged => "RocksDB: no log, DeleteRange, batches",
            RocksRepair::Files => "RocksDB: DeleteFilesInRange, IngestExternalFile",
        }
    }

    fn open(&self, dir: &Path, _groups: u64, part_bytes: u64) -> Outcome<Box<dyn Replica>> {
        let options = RocksRepair::options(part_bytes);
        let mut writes = WriteOptions::default();
        writes.disable_wal(*self == RocksRepair::Unlogged);
        let db = DB::open(&options, dir.join("store"))?;
        let (way, files) = (*self, dir.join("files"));
        Ok(Box::new(RocksReplica { db, options, writes, way, files }))
    }
}

struct RocksReplica {
    db: DB,
    /// Counts what is written.
    options: Options,
    writes: WriteOptions,
    way: RocksRepair,
    /// Where states are that come as tables.
    files: PathBuf,
}

impl RocksReplica {
    fn file_of(&self, group: u64, state: u64) -> PathBuf {
        self.files.join(format!("{state}-{group}.sst"))
    }
}

impl Replica for RocksReplica {
    fn remove(&mut self, from: &[u8], to: &[u8], _group: u64) -> Outcome<()> {
        if self.way == RocksRepair::Files {
            self.db.delete_file_in_range(from, to)?;
        }
        let mut batch = WriteBatch::default();
        batch.delete_range(from, to);
        Ok(self.db.write_opt(batch, &self.writes)?)
    }

    fn write(&mut self, pairs: &Pairs, _group: u64) -> Outcome<()> {
        let mut batch = WriteBatch::default();
        pairs.iter().for_each(|(key, value)| batch.put(key, value));
        Ok(self.db.write_opt(batch, &self.writes)?)
    }

    fn prepare(&mut self, groups: Range<u64>, state: u64, states: &States<'_>) -> Outcome<()> {
        if self.way != RocksRepair::Files {
            return Ok(());
        }
        std::fs::create_dir_all(&self.files)?;
        for group in groups.take_while(|_| !states.is_stopped()) {
            let mut writer = SstFileWriter::create(&self.options);
            writer.open(self.file_of(group, state))?;
            states.each(group, state, &mut |pairs| {
                Ok(pairs.iter().try_for_each(|(key, value)| writer.put(key, value))?)
            })?;
            writer.finish()?;
        }
        Ok(())
    }

    fn take(&mut self, group: u64, state: u64) -> Outcome<bool> {
        if self.way != RocksRepair::Files {
            return Ok(false);
        }
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        self.db.ingest_external_file_opts(&options, vec![self.file_of(group, state)])?;
        Ok(true)
    }

    fn persist(&mut self) -> Outcome<()> {
        match self.way {
            RocksRepair::Unlogged => Ok(self.db.flush()?),
            _ => Ok(self.db.flush_wal(true)?),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn states_follow_each_other_in_every_way() {
        for way in RocksRepair::ALL {
            let dir = std::env::temp_dir()
                .join(format!("esker-compare-repair-{way:?}-{}", std::process::id()));
            std::fs::create_dir_all(&dir).expect("a directory");
            let stop = AtomicBool::new(false);
            let states = States { pairs: 200, stop: &stop };
            let mut replica = way.open(&dir, 3, 1 << 20).expect("a store");
            for group in 0..3 {
                states.insert(&mut *replica, group, 0).expect("inserted");
            }
            replica.prepare(1..2, 1, &states).expect("ready");
            states.replace(&mut *replica, 1, 1).expect("replaced");
            replica.persist().expect("persistent");
            replica.compact().expect("compacted");
            replica.rest().expect("at rest");
            assert!(replica.written_bytes() > 0, "{way:?}");
            replica.close().expect("closed");
            let db = DB::open_default(dir.join("store")).expect("opened again");
            let mut keys = db.raw_iterator();
            keys.seek_to_first();
            let mut expected = Vec::new();
            for (group, state) in [(0, 0), (1, 1), (2, 0)] {
                let mut take = |pairs: &Pairs| {
                    expected.extend(pairs.iter().map(|(key, _)| key.to_vec()));
                    Ok(())
                };
                states.each(group, state, &mut take).expect("a state");
            }
            let mut found = Vec::new();
            while let Some(key) = keys.key() {
                found.push(key.to_vec());
                keys.next();
            }
            assert!(found == expected, "{way:?}: {} keys of {}", found.len(), expected.len());
            drop(keys);
            drop(db);
            std::fs::remove_dir_all(&dir).expect("removed");
        }
    }
}
