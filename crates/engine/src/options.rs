//! Options: what a user may choose, with meaning, unit, range and default of each.
//!
//! Two plain structs: [`Options`] for a database, [`KeyspaceOptions`] for each keyspace in it.
//! Presets come before knobs: start from one and change what you know better.

mod compaction;
mod durability;
mod groups;
mod memory;

pub use compaction::{Compaction, Scheduler, TimeSlice};
pub use durability::Durability;
pub use groups::GroupPrefix;
pub(crate) use memory::{MemoryShares, memtable_limit_bytes, replayed_memtable_bytes};

use esker_base::{Error, KeyOrder, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Options of a database, given at every open; nothing of it is stored but the name of each
/// keyspace's order of keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Create the database if there is none. Default: true.
    pub create_if_missing: bool,
    /// Refuse to open a database that exists. Default: false.
    pub error_if_exists: bool,
    /// Bytes of memory for memtables, block cache, pinned index and filter blocks, run indexes, and
    /// buffers of compactions. What cursors hold comes on top; see docs/architecture.md. Default:
    /// 512 MiB.
    /// Minimum: 4 MiB.
    pub memory_budget_bytes: u64,
    /// The part of the budget that memtables of all keyspaces may hold, sealed ones included.
    /// Writes slow down as it fills. Default: 0, which means a half of the budget. Range: 1 MiB to
    /// `memory_budget_bytes`.
    pub memtables_bytes_max: u64,
    /// The part of the budget that the block cache may hold; 0 keeps no block. This,
    /// `pinned_bytes_max` and `run_index_bytes_max` are no more together than seven eighths of what
    /// memtables leave; the eighth is for compactions. Default: none given, which means what the
    /// two others leave of that, and what pins do not take of their part.
    pub block_cache_bytes: Option<u64>,
    /// The part of the budget that indexes and filters of tables that stay open may hold outside of
    /// the block cache, where nothing displaces them; 0 leaves all of them to the cache. Default:
    /// none given, which means a quarter of what memtables, compactions and run indexes leave, or
    /// all of it but the block cache if that is given.
    pub pinned_bytes_max: Option<u64>,
    /// The part of the budget that run indexes of all keyspaces may take. A keyspace whose index
    /// would not fit is read without one. Default: none given, which means a quarter of what
    /// memtables and compactions leave, or what a given block cache and given pins leave if that is
    /// less, if the default keyspace or one of `keyspaces` has a run index, and otherwise nothing.
    pub run_index_bytes_max: Option<u64>,
    /// What makes writes durable: the store's own log, or that of whoever applies requests. May
    /// change at any open.
    /// Default: wal.
    pub durability: Durability,
    /// Write-ahead logs kept, in bytes. When idle keyspaces pin more than this, or more than 32
    /// logs, the one that pins the oldest is flushed. With `durability = external` there are no
    /// logs: `memtables_bytes_max` bounds what is not flushed, values to be kept apart included,
    /// and this is the most that collections reckon with for these. Default: 512 MiB. Minimum: 1
    /// MiB.
    pub wal_bytes_max: u64,
    /// Threads that compact. One more flushes, one makes the next log ready, one makes memory ready
    /// for memtables and the cache, and one builds indexes; up to eight read for cursors and
    /// lookups of many keys when there are any. Default: 0, which means the number of processors,
    /// at most 8.
    /// Maximum: 64.
    pub compaction_threads: u32,
    /// Table files held open. Raising it saves reopening; each costs a descriptor. Half of them are
    /// for the tables that were opened first, which stay open as long as they live and are read
    /// without a guard; the others are closed when tables that are read more often want their
    /// place. Of files with values that are kept apart, a quarter as many are open besides.
    /// Default: 1 000. Minimum: 16.
    pub open_files_max: u32,
    /// About the most that a file with separated values takes: a write-ahead log that holds some, a
    /// file that values are moved into, which may be a quarter longer, or one that a bulk load or,
    /// with `durability = external`, a flush puts them into. The first two are shorter in a store
    /// with few values, and where space is short, but not below 8 MiB, or this if it is less.
    /// Raising it makes fewer files; lowering it lets space come back in smaller steps. Default: 64
    /// MiB. Range: 4 KiB to 1 GiB.
    pub value_log_file_bytes: u64,
    /// Bytes of files with separated values for each byte of values that are live, which
    /// overwriting and deleting may bring about, besides one file: values are moved together in the
    /// background so that this holds, and writes of such values are slowed where they come faster
    /// than that is done, but not with `durability = external`, where flushes keep values apart and
    /// nobody waits for collections. In a store with few live values the files that are being
    /// filled count for more. Raising it saves work, the more the lower it is: of values
    /// overwritten at random 3.3 bytes are moved for each that is written at 1.3, 1.4 at 1.5 and
    /// 0.4 at 2. Default: 1.5. Range: 1.1 to 100.
    pub value_log_space_amp_max: f64,
    /// The manifest is written anew when it is longer than this, and than twice what it began with.
    /// Where there is no space for another one it goes on. Default: 16 MiB. Minimum: 4 KiB.
    pub manifest_bytes_max: u64,
    /// Options of the default keyspace, and of keyspaces without options of their own.
    pub default_keyspace: KeyspaceOptions,
    /// Options of other keyspaces by name, for those that exist when the database is opened.
    pub keyspaces: BTreeMap<String, KeyspaceOptions>,
}

/// Options of one keyspace. Only `order` is part of the data; all else may change at reopen.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeyspaceOptions {
    /// Bytes a memtable takes before it is sealed and flushed, at most a quarter of
    /// `memtables_bytes_max`. Raising it lowers write amplification and lengthens recovery.
    /// Default: 64 MiB. Range: 64 KiB to 4 GiB.
    pub memtable_bytes: u64,
    /// Uncompressed bytes of a data block. Raising it compresses better and reads more per get.
    /// Default: 4 KiB. Range: 512 B to 1 MiB.
    pub block_bytes: u32,
    /// Records between two whole keys in a block. Raising it makes blocks smaller and gets slower.
    /// Default: 16. Range: 1 to 256.
    pub restart_interval: u32,
    /// Uncompressed bytes of an index partition. A get of a table whose index is not in memory
    /// reads one, and a filter over the same records: raising it makes such gets slower, and tables
    /// a little smaller.
    /// Default: 4 KiB. Range: 1 KiB to 16 MiB.
    pub index_partition_bytes: u32,
    /// Compression of a table by the level it is written for; the last entry serves all deeper
    /// levels, and none at all compresses nothing. Default: LZ4.
    pub compression: Vec<Compression>,
    /// Filter that spares reads of tables without the key. Default: Bloom, 10 bits a key.
    pub filter: Filter,
    /// Bytes after which a flush or a compaction starts a new table, or 32 times those of its first
    /// and last key if that is more. Default: 64 MiB. Range: 16 KiB to 4 GiB.
    pub table_bytes_max: u64,
    /// Bytes of the first level below level 0. Default: 256 MiB. Minimum: 64 KiB.
    pub level_base_bytes: u64,
    /// Size ratio of neighbouring levels. Default: 10. Range: 2 to 100.
    pub level_fanout: u32,
    /// The shape that compactions give the tree. A tree of the other shape is changed by the
    /// compactions to come, and can be read meanwhile. Default: leveled.
    pub compaction: Compaction,
    /// Tiered compaction: sorted runs of a level that are merged into one of the next. Raising it
    /// writes less and lets reads look into more runs. Default: 4. Range: 2 to 32.
    pub tiered_runs: u32,
    /// Keep in memory which runs hold which keys, so that a get looks into few runs and a scan
    /// merges none, however many runs there are: for trees that are merged rarely, with
    /// `tiered_runs` and `level0_runs_compact` of a dozen or more. With the defaults of these a
    /// tree hardly ever has `run_index_runs_min` runs, and there is no index. Costs some 3 to 8
    /// bytes of memory a key, see `run_index_bytes_max`, and about as many in each table written
    /// from then on; runs without them are read as ever. Small tables next to each other do not
    /// become one. Needs tiered compaction and bytewise order. Default: false.
    pub run_index: bool,
    /// Runs from which on the run index is made and asked; fewer are looked into faster one by one,
    /// since filters are fast. Seeks of one step gain from 8 runs on, gets of absent keys from 16
    /// at the latest, gets of keys that are there and scans of fifty records from 24 to 32. Raising
    /// it saves memory and work. Default: 16. Range: 2 to 128.
    pub run_index_runs_min: u32,
    /// Values of so many bytes and more are kept apart from the tree, in value logs: compactions do
    /// not rewrite them, and reading one costs an access more. `None` keeps all in the tree. Counts
    /// for what is written from then on.
    /// Default: none. Range: 64 B to 1 GiB.
    pub value_log_bytes_min: Option<u64>,
    /// Compression of values that are kept apart, each for itself, by the thread that writes, or by
    /// flushes with `durability = external`. Default: LZ4.
    pub value_log_compression: Compression,
    /// Keys that begin alike are a group, which [`crate::Db::delete_group`] can delete at once;
    /// tables hold keys of one group only, as far as that makes none shorter than
    /// `group_table_bytes_min`. Needs bytewise order. Counts for tables that are written from then
    /// on. Default: none.
    pub groups: Option<GroupPrefix>,
    /// Bytes from which on a table is ended for the sake of groups: where the group changes, or in
    /// the midst of a group that shares the table with others and has so many bytes of it. Raising
    /// it makes fewer tables, and lets groups share more of them. Default: 1 MiB. Range: 4 KiB to 1
    /// GiB.
    pub group_table_bytes_min: u64,
    /// Which level is compacted first when several are over their limits. Default: ratio.
    pub scheduler: Scheduler,
    /// Sorted runs in level 0 that start a compaction. Default: 4. Range: 1 to 1 000.
    pub level0_runs_compact: u32,
    /// Sorted runs in level 0 above which writes are slowed, more with each further run.
    /// Default: 20. Range: `level0_runs_compact` to 10 000.
    pub level0_runs_slow: u32,
    /// Sorted runs in level 0 at which writes are slowest: an eighth of what compactions out of it
    /// drain, but 1 MiB a second at least. They do not stop there, but at twice as many: those that
    /// are written together for a second at most, after those before them, until compactions have
    /// made them fewer. The keyspace that has most slows and stops writes to all. Default: 36.
    /// Range: `level0_runs_slow` + 1 to 100 000.
    pub level0_runs_max: u32,
    /// Share of tombstones in a table (tiered: in a run and all that is older) from which it is
    /// compacted although its level is not over its limit; and level 0, if its tombstones may have
    /// deleted such a share of all records. So of a store that is left alone about that share may
    /// be dead. A table below level 0 with a range tombstone (tiered: the oldest run) is compacted
    /// whatever its share. 1.0 turns all of this off, for range tombstones too. Default: 0.5.
    /// Range: 0.01 to 1.0.
    pub tombstone_ratio_compact: f64,
    /// Compact, although no level is over its limit, as soon as scans have lost as much time over
    /// the runs that they find as that takes: level 0 into level 1, and, leveled, then a table at a
    /// time of the shallowest level into the next. A single run is left at last; or two and more,
    /// if the shallowest is so small that more than `level_fanout` bytes of the next would be
    /// rewritten for each of its own. Where there is a run index, scans pay for that instead.
    /// Default: true.
    pub compact_for_scans: bool,
    /// The order of keys. Fixed when the keyspace is created. Default: bytewise.
    #[serde(skip)]
    pub order: KeyOrder,
}

/// How one write is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Return only when the write, and every write before it, is on stable storage. Without it a
    /// write survives the death of the process, but not a power cut. With `durability = external`
    /// it survives neither until it is flushed, and this is refused. Default: false.
    pub sync: bool,
}

impl WriteOptions {
    /// On stable storage before it returns.
    pub const SYNC: WriteOptions = WriteOptions { sync: true };
}

/// How blocks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    /// As they are.
    None,
    /// LZ4: fast, about half the size on text.
    Lz4,
    /// Zstandard at a level from 1 to 19: smaller, slower to write.
    Zstd {
        /// The compression level.
        level: i32,
    },
}

/// What spares reads of tables that do not hold a key.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Filter {
    /// Nothing: every table whose range holds the key is read.
    None,
    /// A cache-line blocked Bloom filter. Bits per key: 1 to 64; 10 lets about 1 in 100 through.
    Bloom {
        /// Size of the filter for each key.
        bits_per_key: u32,
    },
    /// A user's own.
    #[serde(skip)]
    Custom(Arc<dyn FilterPolicy>),
}

/// A user-given filter over the keys of a part of a table.
///
/// Called from any thread, several at once. A get asks it before it looks into a table, and
/// believes a no; scans do not ask. In an order in which keys of different bytes may be the same
/// key it must answer the same for all of them.
pub trait FilterPolicy: Send + Sync {
    /// Stored beside each filter; filters of other names are ignored when reading.
    fn name(&self) -> &str;

    /// Encodes a filter for these keys, which are sorted and without repetition.
    fn build(&self, keys: &[&[u8]]) -> Vec<u8>;

    /// False only if `key` was certainly not among the keys of `filter`.
    fn may_contain(&self, filter: &[u8], key: &[u8]) -> bool;
}

impl fmt::Debug for dyn FilterPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

impl Default for Options {
    fn default() -> Options {
        Options {
            create_if_missing: true,
            error_if_exists: false,
            memory_budget_bytes: 512 * MIB,
            memtables_bytes_max: 0,
            block_cache_bytes: None,
            pinned_bytes_max: None,
            run_index_bytes_max: None,
            durability: Durability::Wal,
            wal_bytes_max: 512 * MIB,
            compaction_threads: 0,
            open_files_max: 1_000,
            value_log_file_bytes: 64 * MIB,
            value_log_space_amp_max: 1.5,
            manifest_bytes_max: 16 * MIB,
            default_keyspace: KeyspaceOptions::default(),
            keyspaces: BTreeMap::new(),
        }
    }
}

impl Default for KeyspaceOptions {
    fn default() -> KeyspaceOptions {
        KeyspaceOptions {
            memtable_bytes: 64 * MIB,
            block_bytes: 4 * KIB as u32,
            restart_interval: 16,
            index_partition_bytes: 4 * KIB as u32,
            compression: vec![Compression::Lz4],
            filter: Filter::Bloom { bits_per_key: 10 },
            table_bytes_max: 64 * MIB,
            level_base_bytes: 256 * MIB,
            level_fanout: 10,
            compaction: Compaction::Leveled,
            tiered_runs: 4,
            run_index: false,
            run_index_runs_min: 16,
            value_log_bytes_min: None,
            value_log_compression: Compression::Lz4,
            groups: None,
            group_table_bytes_min: MIB,
            scheduler: Scheduler::Ratio,
            level0_runs_compact: 4,
            level0_runs_slow: 20,
            level0_runs_max: 36,
            tombstone_ratio_compact: 0.5,
            compact_for_scans: true,
            order: KeyOrder::Bytewise,
        }
    }
}

impl Options {
    /// For small devices: 16 MiB of memory, small files, Zstandard at the bottom.
    pub fn edge() -> Options {
        Options {
            memory_budget_bytes: 16 * MIB,
            wal_bytes_max: 8 * MIB,
            compaction_threads: 1,
            open_files_max: 64,
            value_log_file_bytes: 4 * MIB,
            manifest_bytes_max: MIB,
            default_keyspace: KeyspaceOptions {
                memtable_bytes: 2 * MIB,
                table_bytes_max: 4 * MIB,
                level_base_bytes: 8 * MIB,
                compression: vec![
                    Compression::Lz4,
                    Compression::Lz4,
                    Compression::Lz4,
                    Compression::Zstd { level: 3 },
                ],
                ..KeyspaceOptions::default()
            },
            ..Options::default()
        }
    }

    /// For stores that mostly take writes: larger memtables, later compactions.
    pub fn write_heavy() -> Options {
        Options {
            memory_budget_bytes: GIB,
            wal_bytes_max: GIB,
            default_keyspace: KeyspaceOptions {
                memtable_bytes: 128 * MIB,
                level_base_bytes: 512 * MIB,
                level0_runs_compact: 6,
                level0_runs_slow: 24,
                level0_runs_max: 48,
                ..KeyspaceOptions::default()
            },
            ..Options::default()
        }
    }

    /// For stores that mostly answer reads: more filter bits, fewer runs in level 0.
    pub fn read_mostly() -> Options {
        Options {
            memory_budget_bytes: GIB,
            memtables_bytes_max: 192 * MIB,
            default_keyspace: KeyspaceOptions {
                filter: Filter::Bloom { bits_per_key: 14 },
                level0_runs_compact: 2,
                level0_runs_slow: 12,
                restart_interval: 8,
                ..KeyspaceOptions::default()
            },
            ..Options::default()
        }
    }

    /// For stores of large values: those of a kibibyte and more are kept apart from the tree.
    pub fn large_values() -> Options {
        Options {
            default_keyspace: KeyspaceOptions {
                value_log_bytes_min: Some(KIB),
                ..KeyspaceOptions::default()
            },
            ..Options::default()
        }
    }

    /// A preset by name: `default`, `edge`, `write_heavy`, `read_mostly`, `large_values`.
    pub fn preset(name: &str) -> Result<Options> {
        match name {
            "default" => Ok(Options::default()),
            "edge" => Ok(Options::edge()),
            "write_heavy" => Ok(Options::write_heavy()),
            "read_mostly" => Ok(Options::read_mostly()),
            "large_values" => Ok(Options::large_values()),
            _ => Err(Error::invalid(format!(
                "no preset {name:?}: use default, edge, write_heavy, read_mostly or large_values"
            ))),
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// `InvalidArgument` naming the option, its value and its range.
    pub fn validate(&self) -> Result<()> {
        self.validate_memory()?;
        in_range("wal_bytes_max", self.wal_bytes_max, MIB, u64::MAX)?;
        in_range("compaction_threads", self.compaction_threads.into(), 0, 64)?;
        in_range("open_files_max", self.open_files_max.into(), 16, u32::MAX.into())?;
        in_range("value_log_file_bytes", self.value_log_file_bytes, 4 * KIB, GIB)?;
        let amp = self.value_log_space_amp_max;
        if !(1.1..=100.0).contains(&amp) {
            return Err(Error::invalid(format!(
                "value_log_space_amp_max = {amp} is outside 1.1 to 100"
            )));
        }
        in_range("manifest_bytes_max", self.manifest_bytes_max, 4 * KIB, u64::MAX)?;
        self.all_keyspaces().try_for_each(KeyspaceOptions::validate)?;
        self.all_keyspaces().try_for_each(|keyspace| self.check_run_index(keyspace))
    }

    /// Options of keyspaces that have their own, and the default ones.
    fn all_keyspaces(&self) -> impl Iterator<Item = &KeyspaceOptions> {
        self.keyspaces.values().chain([&self.default_keyspace])
    }

    /// The options of a keyspace that exists.
    pub(crate) fn for_keyspace(&self, name: &str) -> &KeyspaceOptions {
        self.keyspaces.get(name).unwrap_or(&self.default_keyspace)
    }

    /// Threads that compact.
    pub(crate) fn compaction_thread_count(&self) -> usize {
        match self.compaction_threads {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get().min(8)),
            n => n as usize,
        }
    }
}

impl KeyspaceOptions {
    /// Compression of tables written for `level`.
    pub fn compression_at(&self, level: usize) -> Compression {
        let last = self.compression.len().saturating_sub(1);
        self.compression.get(level.min(last)).copied().unwrap_or(Compression::None)
    }

    /// Checks every range.
    ///
    /// # Errors
    /// `InvalidArgument` naming the option, its value and its range.
    pub fn validate(&self) -> Result<()> {
        in_range("memtable_bytes", self.memtable_bytes, 64 * KIB, 4 * GIB)?;
        in_range("block_bytes", self.block_bytes.into(), 512, MIB)?;
        in_range("restart_interval", self.restart_interval.into(), 1, 256)?;
        in_range("index_partition_bytes", self.index_partition_bytes.into(), KIB, 16 * MIB)?;
        in_range("table_bytes_max", self.table_bytes_max, 16 * KIB, 4 * GIB)?;
        in_range("level_base_bytes", self.level_base_bytes, 64 * KIB, u64::MAX)?;
        in_range("level_fanout", self.level_fanout.into(), 2, 100)?;
        in_range("tiered_runs", self.tiered_runs.into(), 2, 32)?;
        in_range("run_index_runs_min", self.run_index_runs_min.into(), 2, 128)?;
        in_range("value_log_bytes_min", self.value_log_bytes_min.unwrap_or(64), 64, GIB)?;
        if self.run_index && self.compaction != Compaction::Tiered {
            return Err(Error::invalid(
                "run_index = true needs compaction = tiered: a leveled tree has one run for each level",
            ));
        }
        if self.run_index && !self.order.is_bytewise() {
            return Err(Error::invalid(format!(
                "run_index = true needs keys in bytewise order, and order = {}",
                self.order.name()
            )));
        }
        in_range("group_table_bytes_min", self.group_table_bytes_min, 4 * KIB, GIB)?;
        if let Some(GroupPrefix::Fixed { bytes }) = self.groups {
            in_range("groups bytes", bytes.into(), 1, 1 << 10)?;
        }
        if self.groups.is_some() && !self.order.is_bytewise() {
            return Err(Error::invalid(format!(
                "groups need keys in bytewise order, and order = {}",
                self.order.name()
            )));
        }
        self.scheduler.validate()?;
        let (compact, slow) = (self.level0_runs_compact, self.level0_runs_slow);
        in_range("level0_runs_compact", compact.into(), 1, 1_000)?;
        in_range("level0_runs_slow", slow.into(), compact.into(), 10_000)?;
        in_range("level0_runs_max", self.level0_runs_max.into(), u64::from(slow) + 1, 100_000)?;
        if !(0.01..=1.0).contains(&self.tombstone_ratio_compact) {
            return Err(Error::invalid(format!(
                "tombstone_ratio_compact = {} is outside 0.01 to 1.0",
                self.tombstone_ratio_compact
            )));
        }
        for compression in self.compression.iter().chain([&self.value_log_compression]) {
            if let Compression::Zstd { level } = compression
                && !(1..=19).contains(level)
            {
                return Err(Error::invalid(format!("zstd level {level} is outside 1 to 19")));
            }
        }
        if let Filter::Bloom { bits_per_key } = self.filter {
            in_range("filter bits_per_key", bits_per_key.into(), 1, 64)?;
        }
        Ok(())
    }
}

fn in_range(name: &str, value: u64, min: u64, max: u64) -> Result<()> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid(match max {
        u64::MAX => format!("{name} = {value} is below its minimum {min}"),
        _ => format!("{name} = {value} is outside {min} to {max}"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_valid_and_round_trip() {
        for name in ["default", "edge", "write_heavy", "read_mostly", "large_values"] {
            Options::preset(name).expect(name).validate().expect(name);
        }
        assert!(Options::preset("fast").is_err());
    }

    #[test]
    fn a_bad_value_is_named_with_its_range() {
        let mut options = Options::default();
        options.default_keyspace.block_bytes = 1;
        let message = options.validate().expect_err("too small").to_string();
        assert!(message.contains("block_bytes = 1 is outside 512 to 1048576"), "{message}");
    }
}
