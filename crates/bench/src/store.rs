//! A store under test: what a workload asks of it.

use esker_draw::Outcome;
use std::path::Path;
use std::time::Instant;

/// How stores are set up, the same for all.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes of records that a memtable gathers before it is flushed. `db_bench`:
    /// `--write_buffer_size`.
    pub memtable_bytes: u64,
    /// Bytes of blocks kept in memory. `db_bench`: `--cache_size`.
    pub cache_bytes: u64,
    /// 0 for no filter. `db_bench`: `--bloom_bits`.
    pub filter_bits_per_key: u32,
    /// Uncompressed bytes of a block. `db_bench`: `--block_size`.
    pub block_bytes: u32,
    /// Whether tables are compressed, with the fastest codec an engine has. `db_bench`:
    /// `--compression_type`.
    pub compression: bool,
    /// Threads that compact. Flushes have one more, where an engine tells them apart. `db_bench`:
    /// `--max_background_compactions`.
    pub compaction_threads: u32,
    /// Whether the store is expected to be there.
    pub existing: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            memtable_bytes: 64 << 20,
            cache_bytes: 512 << 20,
            filter_bits_per_key: 10,
            block_bytes: 4096,
            compression: true,
            compaction_threads: 2,
            existing: false,
        }
    }
}

impl Settings {
    /// The name of a codec, as far as there is one, for [`Engine::setup`].
    pub fn codec(&self, name: &'static str) -> &'static str {
        if self.compression { name } else { "no compression" }
    }

    /// The name of a filter, as far as there is one, for [`Engine::setup`].
    pub fn filter(&self, name: &'static str) -> &'static str {
        if self.filter_bits_per_key > 0 { name } else { "no filters" }
    }
}

/// What an engine counts itself, as far as it does.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnCounters {
    /// Bytes written to log and tables.
    pub written_bytes: Option<u64>,
    /// Time that writers were held back.
    pub stalled_ns: Option<u64>,
}

/// A walk over records.
#[derive(Clone, Copy, Debug)]
pub struct Walk<'a> {
    /// The first key, or the last one backwards; `None` begins at the end.
    pub from: Option<&'a [u8]>,
    /// Records at the most.
    pub records_max: u64,
    /// From larger to smaller keys.
    pub backwards: bool,
}

/// An open store. Used by many threads.
pub trait Store: Send + Sync {
    /// Sets a key. With `sync` it must be on disk before the call returns.
    ///
    /// # Errors
    /// Of the engine.
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Outcome<()>;

    /// Shows the value of a key to `see`; false if there is none.
    ///
    /// # Errors
    /// Of the engine.
    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool>;

    /// Shows the values of several keys to `see`, as far as there are any, in the order of the
    /// keys; returns how many.
    ///
    /// # Errors
    /// Of the engine.
    fn multi_get(&self, keys: &[Vec<u8>], see: &mut dyn FnMut(&[u8])) -> Outcome<u64> {
        keys.iter().try_fold(0, |found, key| Ok(found + u64::from(self.get(key, see)?)))
    }

    /// Removes a key. With `sync` that must be on disk before the call returns.
    ///
    /// # Errors
    /// Of the engine.
    fn delete(&self, key: &[u8], sync: bool) -> Outcome<()>;

    /// Shows records in order to `see`; returns how many.
    ///
    /// # Errors
    /// Of the engine.
    fn walk(&self, walk: Walk<'_>, see: &mut dyn FnMut(&[u8], &[u8])) -> Outcome<u64>;

    /// Shows all records to `see`, in whichever order is fastest; returns how many, or `None` if
    /// the engine has but the order of keys.
    ///
    /// # Errors
    /// Of the engine.
    fn walk_unordered(&self, see: &mut dyn FnMut(&[u8], &[u8])) -> Outcome<Option<u64>> {
        let _ = see;
        Ok(None)
    }

    /// Writes memory out and waits until the engine has no more work of its own; returns since when
    /// it had none, if it takes longer to find that out.
    ///
    /// # Errors
    /// Of the engine.
    fn settle(&self) -> Outcome<Option<Instant>>;

    /// Brings everything into its final shape.
    ///
    /// # Errors
    /// Of the engine.
    fn compact(&self) -> Outcome<()>;

    /// What the engine counted since it was opened.
    fn counters(&self) -> OwnCounters {
        OwnCounters::default()
    }

    /// Closes it.
    ///
    /// # Errors
    /// Of the engine.
    fn close(self: Box<Self>) -> Outcome<()>;
}

/// An engine.
pub trait Engine: Sync {
    /// For reports: name and version.
    fn name(&self) -> String;

    /// In one line, how it is set up where that is not said by the settings.
    fn setup(&self, settings: &Settings) -> String;

    /// Opens a store, which is created unless `settings.existing`.
    ///
    /// # Errors
    /// Of the engine.
    fn open(&self, dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>>;
}
