//! RocksDB, also with its values in blob files, and with writes that enter log and memtable one
//! behind the other.

use esker_bench::Outcome;
use esker_bench::store::{Engine, Settings, Store, Walk};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Options, ReadOptions, WaitForCompactOptions,
    WriteOptions,
};
use std::path::Path;
use std::time::Instant;

/// As RocksDB's tuning guide has it; the default leaves all of it to the system at the end.
const BYTES_PER_SYNC: u64 = 1 << 20;
/// Values from here on are in blob files, where there are some.
const BLOB_BYTES_MIN: u64 = 512;

/// Memtables, as Esker has.
const MEMTABLES: i32 = 4;

/// The column family that everything is in.
const FAMILY: &str = "default";

/// RocksDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rocks {
    /// As it is.
    Plain,
    /// Large values are kept in blob files.
    Blobs,
    /// A group of writers writes its log while the one before it is still writing the memtable:
    /// more for many threads, of which some wait longer.
    Pipelined,
}

struct RocksStore {
    db: DB,
    writing: WriteOptions,
    writing_synced: WriteOptions,
    reading: ReadOptions,
}

/// Jobs of which so many compact: it leaves a quarter of them, but one at least, to flushes.
fn jobs(compaction_threads: u32) -> u32 {
    let compact = |jobs: &u32| jobs - (jobs / 4).max(1) >= compaction_threads;
    (2..).find(compact).unwrap_or(u32::MAX)
}

impl Rocks {
    fn options(self, settings: &Settings) -> Options {
        let mut options = Options::default();
        options.create_if_missing(!settings.existing);
        options.set_write_buffer_size(settings.memtable_bytes as usize);
        options.set_max_write_buffer_number(MEMTABLES);
        options.set_max_background_jobs(jobs(settings.compaction_threads) as i32);
        options.set_max_subcompactions(settings.compaction_threads);
        options.set_bytes_per_sync(BYTES_PER_SYNC);
        options.set_compression_type(match settings.compression {
            true => DBCompressionType::Lz4,
            false => DBCompressionType::None,
        });
        let mut tables = BlockBasedOptions::default();
        tables.set_block_size(settings.block_bytes as usize);
        let cache = Cache::new_lru_cache(settings.cache_bytes as usize);
        tables.set_block_cache(&cache);
        if settings.filter_bits_per_key > 0 {
            tables.set_bloom_filter(f64::from(settings.filter_bits_per_key), false);
        }
        options.set_block_based_table_factory(&tables);
        options.set_enable_pipelined_write(self == Rocks::Pipelined);
        if self == Rocks::Blobs {
            options.set_enable_blob_files(true);
            options.set_min_blob_size(BLOB_BYTES_MIN);
            options.set_enable_blob_gc(true);
            // One for blocks and values, as its documentation has it.
            options.set_blob_cache(&cache);
            options.set_blob_compression_type(match settings.compression {
                true => DBCompressionType::Lz4,
                false => DBCompressionType::None,
            });
        }
        options
    }
}

impl Engine for Rocks {
    fn name(&self) -> String {
        match self {
            Rocks::Plain => "rocksdb".to_owned(),
            Rocks::Blobs => "rocksdb+blobs".to_owned(),
            Rocks::Pipelined => "rocksdb+pipeline".to_owned(),
        }
    }

    fn setup(&self, settings: &Settings) -> String {
        let more = match self {
            Rocks::Plain => "",
            Rocks::Blobs => {
                "; enable_blob_files, min_blob_size = 512, enable_blob_gc, values in the block cache too"
            }
            Rocks::Pipelined => "; enable_pipelined_write",
        };
        let built_for = match option_env!("CXXFLAGS_x86_64_unknown_linux_gnu") {
            Some(flags) if flags.contains("-msse4.2") && flags.contains("-mpclmul") => {
                "processors with SSE 4.2, PCLMUL and AVX2"
            }
            _ => "any processor, so that it checks blocks by tables",
        };
        format!(
            "11.8.1 by the crate rocksdb, built for {built_for}: \
             max_write_buffer_number = {MEMTABLES}, max_background_jobs = {}, max_subcompactions = {}, bytes_per_sync = 1 MiB, \
             an LRU cache, {}, {}, gets pinned, several keys by batched MultiGet{more}",
            jobs(settings.compaction_threads),
            settings.compaction_threads,
            settings.filter("full Bloom filters"),
            settings.codec("LZ4"),
        )
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>> {
        let mut writing_synced = WriteOptions::default();
        writing_synced.set_sync(true);
        let options = self.options(settings);
        // By name, for its handle: lookups of several keys want one.
        let db = DB::open_cf_with_opts(&options, dir, [(FAMILY, options.clone())])?;
        let (writing, reading) = (WriteOptions::default(), ReadOptions::default());
        Ok(Box::new(RocksStore { db, writing, writing_synced, reading }))
    }
}

impl Store for RocksStore {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Outcome<()> {
        let options = if sync { &self.writing_synced } else { &self.writing };
        Ok(self.db.put_opt(key, value, options)?)
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let value = self.db.get_pinned_opt(key, &self.reading)?;
        if let Some(value) = &value {
            see(value);
        }
        Ok(value.is_some())
    }

    fn multi_get(&self, keys: &[Vec<u8>], see: &mut dyn FnMut(&[u8])) -> Outcome<u64> {
        let family = self.db.cf_handle(FAMILY).ok_or("RocksDB has no default column family")?;
        let mut found = 0;
        for value in self.db.batched_multi_get_cf_opt(family, keys, false, &self.reading) {
            if let Some(value) = value? {
                see(&value);
                found += 1;
            }
        }
        Ok(found)
    }

    fn delete(&self, key: &[u8], sync: bool) -> Outcome<()> {
        let options = if sync { &self.writing_synced } else { &self.writing };
        Ok(self.db.delete_opt(key, options)?)
    }

    fn walk(&self, walk: Walk<'_>, see: &mut dyn FnMut(&[u8], &[u8])) -> Outcome<u64> {
        let mut iterator = self.db.raw_iterator();
        match (walk.from, walk.backwards) {
            (Some(key), false) => iterator.seek(key),
            (Some(key), true) => iterator.seek_for_prev(key),
            (None, false) => iterator.seek_to_first(),
            (None, true) => iterator.seek_to_last(),
        }
        let mut seen = 0;
        while seen < walk.records_max
            && let Some((key, value)) = iterator.item()
        {
            see(key, value);
            seen += 1;
            // The others go no further than they are asked to either.
            if seen == walk.records_max {
                break;
            }
            if walk.backwards {
                iterator.prev();
            } else {
                iterator.next();
            }
        }
        iterator.status()?;
        Ok(seen)
    }

    fn settle(&self) -> Outcome<Option<Instant>> {
        self.db.flush()?;
        self.db.wait_for_compact(&WaitForCompactOptions::default())?;
        Ok(None)
    }

    fn compact(&self) -> Outcome<()> {
        self.db.compact_range(None::<&[u8]>, None::<&[u8]>);
        Ok(())
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_that_are_asked_for_compact() {
        for threads in 1..=64 {
            let jobs = jobs(threads);
            let left = jobs - (jobs / 4).max(1);
            assert_eq!(left, threads, "{jobs} jobs");
        }
        assert_eq!((jobs(2), jobs(7)), (3, 9));
    }
}
