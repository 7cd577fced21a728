//! Esker as a store under test.

use crate::store::{Engine, OwnCounters, Settings, Store, Walk};
use esker::Compaction;
use esker::options::{Compression, Filter, WriteOptions};
use esker::{Batch, Db, KeyspaceOptions, Options, ScanOptions};
use esker_draw::Outcome;
use std::path::Path;
use std::time::Instant;

/// Memtables that may be in memory at once, of the peers too where that can be said.
const MEMTABLES: u64 = 4;

/// The shape of a store's trees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tree {
    /// One run in each level below level 0.
    #[default]
    Leveled,
    /// Several runs in each level.
    Tiered,
    /// The same, with an index of which run has which key.
    Indexed,
}

/// Esker, as it is in this build, with trees of one shape.
#[derive(Clone, Copy, Debug, Default)]
pub struct Esker {
    /// Their shape.
    pub tree: Tree,
    /// Runs at which a level is merged, if not the engine's default. Of no use in leveled trees but
    /// in level 0.
    pub runs: Option<u32>,
    /// Whether values of [`VALUE_BYTES_MIN`] bytes and more are kept apart from the tree.
    pub values: bool,
    /// What these may take for each live byte, if not the engine's default.
    pub space_amp_max: Option<f64>,
}

/// Values from which on engines that can keep them apart.
pub const VALUE_BYTES_MIN: u64 = 512;

/// Memory that a run index may take.
const INDEX_BYTES: u64 = 512 << 20;

/// Memory that a scan in the order of values may take, as the report on key-value separation gives
/// it.
const UNORDERED_BYTES: usize = 32 << 20;

struct EskerStore(Db);

/// A database that is open, as a store under test.
pub fn store_of(db: Db) -> Box<dyn Store> {
    Box::new(EskerStore(db))
}

impl Engine for Esker {
    fn name(&self) -> String {
        let name = match self.tree {
            Tree::Leveled => "esker",
            Tree::Tiered => "esker+tiered",
            Tree::Indexed => "esker+index",
        };
        let amp = self.space_amp_max.map_or(String::new(), |amp| format!("/{amp}"));
        let values = if self.values { format!("+values{amp}") } else { String::new() };
        let runs = self.runs.map_or(String::new(), |runs| format!(":{runs}"));
        format!("{name}{values}{runs}")
    }

    fn setup(&self, settings: &Settings) -> String {
        let options = self.options(settings);
        format!(
            "{}: compaction = {:?}, run_index = {}, memory_budget_bytes = {}, memtables_bytes_max = {}, compaction_threads = {}, compression = {:?}, value_log_bytes_min = {:?}",
            env!("CARGO_PKG_VERSION"),
            options.default_keyspace.compaction,
            options.default_keyspace.run_index,
            options.memory_budget_bytes,
            options.memtables_bytes_max,
            options.compaction_threads,
            options.default_keyspace.compression,
            options.default_keyspace.value_log_bytes_min,
        )
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>> {
        Ok(Box::new(EskerStore(Db::open(dir, self.options(settings))?)))
    }
}

impl Esker {
    /// How it is opened.
    pub fn options(self, settings: &Settings) -> Options {
        let mut options = options(settings);
        options.default_keyspace.compaction = match self.tree {
            Tree::Leveled => Compaction::Leveled,
            Tree::Tiered | Tree::Indexed => Compaction::Tiered,
        };
        options.default_keyspace.value_log_bytes_min = self.values.then_some(VALUE_BYTES_MIN);
        if let Some(amp) = self.space_amp_max {
            options.value_log_space_amp_max = amp;
        }
        if let Some(runs) = self.runs {
            let keyspace = &mut options.default_keyspace;
            keyspace.level0_runs_compact = runs;
            keyspace.tiered_runs = runs;
            keyspace.level0_runs_slow = keyspace.level0_runs_slow.max(2 * runs);
            keyspace.level0_runs_max = keyspace.level0_runs_max.max(3 * runs);
        }
        if self.tree == Tree::Indexed {
            options.default_keyspace.run_index = true;
            // Besides what the other engines may use; what it takes is part of the memory shown.
            options.run_index_bytes_max = Some(INDEX_BYTES);
            options.memory_budget_bytes += INDEX_BYTES + INDEX_BYTES / 7 + 1;
        }
        options
    }
}

/// What Esker keeps in memory beside memtables and the top of each index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Nothing, and there are no filters.
    Nothing,
    /// Indexes; there are no filters.
    Indexes,
    /// Indexes and filters.
    Filters,
    /// Indexes, filters and blocks.
    Blocks,
}

impl Kept {
    /// From nothing to everything.
    pub const ALL: [Kept; 4] = [Kept::Nothing, Kept::Indexes, Kept::Filters, Kept::Blocks];

    /// Whether tables have filters.
    pub fn filters(self) -> bool {
        matches!(self, Kept::Filters | Kept::Blocks)
    }
}

/// Esker with a part of what it usually keeps in memory; the settings' cache is the most for each
/// kind.
#[derive(Clone, Copy, Debug)]
pub struct KeptEsker(pub Kept);

impl Engine for KeptEsker {
    fn name(&self) -> String {
        let name = match self.0 {
            Kept::Nothing => "nothing",
            Kept::Indexes => "indexes",
            Kept::Filters => "indexes, filters",
            Kept::Blocks => "indexes, filters, blocks",
        };
        name.to_owned()
    }

    fn setup(&self, settings: &Settings) -> String {
        let options = self.options(settings);
        format!(
            "block_cache_bytes = {:?}, pinned_bytes_max = {:?}, filter = {:?}",
            options.block_cache_bytes, options.pinned_bytes_max, options.default_keyspace.filter
        )
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>> {
        Ok(Box::new(EskerStore(Db::open(dir, self.options(settings))?)))
    }
}

impl KeptEsker {
    fn options(self, settings: &Settings) -> Options {
        let kept = |is: bool| Some(if is { settings.cache_bytes } else { 0 });
        let options = options(settings);
        Options {
            // An eighth of what memtables leave is not for what is kept.
            memory_budget_bytes: options.memtables_bytes_max + 3 * settings.cache_bytes,
            block_cache_bytes: kept(self.0 == Kept::Blocks),
            pinned_bytes_max: kept(self.0 != Kept::Nothing),
            ..options
        }
    }
}

/// Esker with the options that it has by default, whatever the settings say.
#[derive(Clone, Copy, Debug)]
pub struct DefaultEsker;

impl Engine for DefaultEsker {
    fn name(&self) -> String {
        "esker".to_owned()
    }

    fn setup(&self, _: &Settings) -> String {
        format!("{}: default options", env!("CARGO_PKG_VERSION"))
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>> {
        let options = Options {
            create_if_missing: !settings.existing,
            error_if_exists: !settings.existing,
            ..Options::default()
        };
        Ok(Box::new(EskerStore(Db::open(dir, options)?)))
    }
}

fn options(settings: &Settings) -> Options {
    let defaults = KeyspaceOptions::default();
    let memtables_bytes_max = MEMTABLES * settings.memtable_bytes;
    Options {
        create_if_missing: !settings.existing,
        error_if_exists: !settings.existing,
        memory_budget_bytes: settings.cache_bytes + memtables_bytes_max,
        memtables_bytes_max,
        compaction_threads: settings.compaction_threads,
        default_keyspace: KeyspaceOptions {
            memtable_bytes: settings.memtable_bytes,
            block_bytes: settings.block_bytes,
            filter: match settings.filter_bits_per_key {
                0 => Filter::None,
                bits_per_key => Filter::Bloom { bits_per_key },
            },
            compression: match settings.compression {
                true => defaults.compression.clone(),
                false => vec![Compression::None],
            },
            value_log_compression: match settings.compression {
                true => defaults.value_log_compression,
                false => Compression::None,
            },
            ..defaults
        },
        ..Options::default()
    }
}

impl Store for EskerStore {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Outcome<()> {
        if !sync {
            return Ok(self.0.put(key, value)?);
        }
        let mut batch = Batch::new();
        batch.put(key, value);
        Ok(self.0.write(batch, WriteOptions { sync })?)
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let value = self.0.get(key)?;
        if let Some(value) = &value {
            see(value);
        }
        Ok(value.is_some())
    }

    fn multi_get(&self, keys: &[Vec<u8>], see: &mut dyn FnMut(&[u8])) -> Outcome<u64> {
        let values = self.0.default_keyspace().multi_get(keys, None)?;
        values.iter().flatten().for_each(|value| see(value));
        Ok(values.iter().flatten().count() as u64)
    }

    fn delete(&self, key: &[u8], sync: bool) -> Outcome<()> {
        if !sync {
            return Ok(self.0.delete(key)?);
        }
        let mut batch = Batch::new();
        batch.delete(key);
        Ok(self.0.write(batch, WriteOptions { sync })?)
    }

    fn walk(&self, walk: Walk<'_>, see: &mut dyn FnMut(&[u8], &[u8])) -> Outcome<u64> {
        let mut cursor = self.0.default_keyspace().scan(&ScanOptions::default())?;
        match (walk.from, walk.backwards) {
            (Some(key), false) => cursor.seek(key)?,
            (Some(key), true) => {
                cursor.seek(key)?;
                if cursor.valid() && cursor.key() != key {
                    cursor.prev()?;
                }
            }
            (None, false) => cursor.seek_to_first()?,
            (None, true) => cursor.seek_to_last()?,
        }
        let mut seen = 0;
        while seen < walk.records_max && cursor.valid() {
            see(cursor.key(), cursor.value());
            seen += 1;
            if seen == walk.records_max {
                break;
            }
            if walk.backwards {
                cursor.prev()?;
            } else {
                cursor.next()?;
            }
        }
        Ok(seen)
    }

    fn walk_unordered(&self, see: &mut dyn FnMut(&[u8], &[u8])) -> Outcome<Option<u64>> {
        let keyspace = self.0.default_keyspace();
        let mut cursor = keyspace.scan_unordered(&ScanOptions::default(), UNORDERED_BYTES)?;
        let mut seen = 0;
        while cursor.advance()? {
            see(cursor.key(), cursor.value());
            seen += 1;
        }
        Ok(Some(seen))
    }

    fn settle(&self) -> Outcome<Option<Instant>> {
        self.0.flush()?;
        self.0.wait_idle()?;
        Ok(None)
    }

    fn compact(&self) -> Outcome<()> {
        Ok(self.0.default_keyspace().compact_range(None, None)?)
    }

    fn counters(&self) -> OwnCounters {
        let stats = self.0.stats();
        let levels = stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
        let tables: u64 = levels.map(|level| level.bytes_written).sum();
        OwnCounters {
            written_bytes: Some(tables + stats.writes.wal_bytes + stats.values.moved_bytes),
            stalled_ns: Some(stats.writes.slowed_us * 1_000),
        }
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(self.0.close()?)
    }
}
