//! Statistics as plain data: what the engine did and what it holds.

use serde::Serialize;

/// Statistics of a database at one moment.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// Each keyspace, the default one first.
    pub keyspaces: Vec<KeyspaceStats>,
    /// Each index of a field.
    pub indexes: Vec<IndexStats>,
    /// Values that are kept apart from the trees.
    pub values: ValueStats,
    /// Who uses the memory budget.
    pub memory: MemoryUse,
    /// Writes since open.
    pub writes: WriteStats,
    /// Reads of tables since open.
    pub reads: ReadStats,
    /// Sequence number of the newest visible write.
    pub last_seq: u64,
    /// Snapshots that are open.
    pub snapshots: u64,
    /// Write-ahead logs kept, in bytes, the current one not counted.
    pub wal_bytes: u64,
    /// Files of tables and values that are open.
    pub open_files: u64,
    /// Compactions that run in the background now, and run indexes being made; what
    /// [`crate::Keyspace::compact_range`] does is not counted.
    pub running_compactions: u64,
}

/// Statistics of the index of a field.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct IndexStats {
    /// The keyspace that is indexed.
    pub keyspace: String,
    /// The field.
    pub field: String,
    /// False while it is being built.
    pub is_ready: bool,
    /// Tables of its entries.
    pub tables: u64,
    /// Bytes of these.
    pub table_bytes: u64,
    /// Bytes of memory of its memtables.
    pub memtable_bytes: u64,
    /// Bytes written for it since open, before compactions.
    pub bytes_written: u64,
}

/// Statistics of the values that are kept apart.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct ValueStats {
    /// Bytes of the files that hold them, as far as tables point into these.
    pub bytes: u64,
    /// Bytes that tables point to. What newer records overwrite counts until a compaction has found
    /// that out.
    pub live_bytes: u64,
    /// The files, by number.
    pub files: Vec<ValueFileStats>,
    /// Values read since open.
    pub reads: u64,
    /// Files that were collected since open.
    pub collected_files: u64,
    /// Length of these.
    pub collected_bytes: u64,
    /// Length of the files that took their place.
    pub moved_bytes: u64,
}

/// A file with values.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct ValueFileStats {
    /// Its number.
    pub number: u64,
    /// Its length.
    pub bytes: u64,
    /// Bytes that tables point to.
    pub live_bytes: u64,
    /// True of a file of nothing but values: they were moved there by a collection, loaded in bulk,
    /// flushed by a store without a log, or came with a group. False of a write-ahead log.
    pub moved: bool,
}

/// Statistics of one keyspace.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct KeyspaceStats {
    /// Its name.
    pub name: String,
    /// Levels from 0 to the deepest that holds data or was written to.
    pub levels: Vec<LevelStats>,
    /// Records in memtables, tombstones and shadowed ones included.
    pub memtable_entries: u64,
    /// Bytes of memory of its memtables.
    pub memtable_bytes: u64,
    /// Memtables that wait to be flushed.
    pub sealed_memtables: u64,
    /// Bytes of keys and values written by the user since open, without bulk loads and groups that
    /// came as files.
    pub user_bytes_written: u64,
    /// The level that has the time slice, if the keyspace is scheduled so and one has it.
    pub slice_level: Option<u64>,
    /// Bytes that compaction has still to rewrite, about.
    pub compaction_debt_bytes: u64,
    /// Its run index, if one is in force.
    pub run_index: Option<RunIndexStats>,
}

/// Statistics of a run index.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct RunIndexStats {
    /// Sorted runs that it knows.
    pub runs: u64,
    /// Sorted runs there are.
    pub runs_total: u64,
    /// Records of the runs that it knows.
    pub records: u64,
    /// Its entries: about one for each key.
    pub entries: u64,
    /// Runs that entries name, each as often as it is named: about one for each record.
    pub names: u64,
    /// Bytes of memory. While it is made anew, both the old and the new one are there.
    pub bytes: u64,
    /// Times it was made since open.
    pub made: u64,
}

/// Statistics of one level.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct LevelStats {
    /// Sorted runs.
    pub runs: u64,
    /// Tables.
    pub tables: u64,
    /// Bytes of table files.
    pub bytes: u64,
    /// Bytes the level should have at most; 0 where runs count instead, and for level 6, the
    /// deepest there can be.
    pub limit_bytes: u64,
    /// Sorted runs at which the level is compacted; 0 where bytes count instead.
    pub limit_runs: u64,
    /// Point records.
    pub entries: u64,
    /// Point records that are tombstones.
    pub tombstones: u64,
    /// Range tombstones.
    pub range_tombstones: u64,
    /// Flushes and compactions that wrote into this level since open.
    pub jobs: u64,
    /// Parts that these compactions were cut into, to be worked on at once: more than compactions
    /// if any of them was cut.
    pub parts: u64,
    /// Tables that moved into this level, or into another run of it, without being rewritten.
    pub moves: u64,
    /// Bytes read by them.
    pub bytes_read: u64,
    /// Bytes written by them.
    pub bytes_written: u64,
    /// Time they took, in microseconds; rests of jobs that nobody waits for do not count.
    pub duration_us: u64,
}

/// A table of a keyspace.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct TableInfo {
    /// The level that it is in.
    pub level: usize,
    /// The sorted run that it belongs to; of two runs of a level the one with the greater number is
    /// newer.
    pub run: u64,
    /// Number of its file.
    pub number: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// Point records, tombstones included.
    pub entries: u64,
    /// The smallest key, of records and of starts of range tombstones.
    pub smallest_key: Vec<u8>,
    /// The largest key, of records and of ends of range tombstones.
    pub largest_key: Vec<u8>,
}

/// A group of keys whose log is applied to a store without one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupStats {
    /// Its name: what its keys begin with.
    pub group: Vec<u8>,
    /// Index of the newest request that was applied.
    pub applied: u64,
    /// Index of the newest request that is persistent; 0 if none is.
    pub persisted: u64,
    /// Tables that hold nothing else.
    pub tables: u64,
    /// Bytes of these.
    pub table_bytes: u64,
    /// Point records in them, tombstones and hidden ones included.
    pub entries: u64,
    /// Bytes of values kept apart that they point to.
    pub value_bytes: u64,
    /// Tables that it may share with others: their keys begin before it, or end behind it.
    pub shared_tables: u64,
}

/// Memory by user, in bytes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct MemoryUse {
    /// The budget.
    pub budget: u64,
    /// Memtables, sealed ones included.
    pub memtables: u64,
    /// Most that memtables may hold.
    pub memtables_limit: u64,
    /// Memory for the next memtables: made ready for them, or left behind by those before them,
    /// which the system may take.
    pub memtables_spare: u64,
    /// Block cache.
    pub block_cache: u64,
    /// Most that the block cache may hold.
    pub block_cache_limit: u64,
    /// Index and filter blocks of open tables outside the cache, and what each open table takes
    /// besides: its top index, properties and range tombstones.
    pub pinned_tables: u64,
    /// Directories of open files with values.
    pub value_directories: u64,
    /// Run indexes.
    pub run_indexes: u64,
    /// Memory taken for blocks, indexes and filters, in use or free: what block cache and pinned
    /// tables lie in, but for what did not fit.
    pub table_heap: u64,
}

/// Writes since open.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct WriteStats {
    /// Batches.
    pub batches: u64,
    /// Operations in them.
    pub operations: u64,
    /// Groups in which they were written.
    pub groups: u64,
    /// Times a log was synced.
    pub syncs: u64,
    /// Bytes of batches and of large values appended to the write-ahead log.
    pub wal_bytes: u64,
    /// Writes that were slowed, and waits of all that are written together, or of a bulk load, for
    /// memory or behind level 0, each counted once.
    pub slowed: u64,
    /// Time that they waited, in microseconds.
    pub slowed_us: u64,
    /// Longest such wait, in microseconds.
    pub slowed_us_max: u64,
}

/// Reads of tables since open.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct ReadStats {
    /// Blocks found in the cache.
    pub block_cache_hits: u64,
    /// Blocks not found in the cache.
    pub block_cache_misses: u64,
    /// Lookups that asked a filter.
    pub filter_checks: u64,
    /// Lookups that a filter spared.
    pub filter_negatives: u64,
    /// Lookups that a filter let through in vain.
    pub filter_false_positives: u64,
    /// Read calls on table files.
    pub reads: u64,
    /// Bytes they read, and bytes read of values that are kept apart.
    pub read_bytes: u64,
}

impl KeyspaceStats {
    /// Bytes of all tables.
    pub fn table_bytes(&self) -> u64 {
        self.levels.iter().map(|level| level.bytes).sum()
    }

    /// Bytes written by flushes and compactions for each byte written by the user since open, as
    /// [`KeyspaceStats::user_bytes_written`] counts them; `None` if there are none.
    pub fn write_amplification(&self) -> Option<f64> {
        let written: u64 = self.levels.iter().map(|level| level.bytes_written).sum();
        let user = self.user_bytes_written;
        (user > 0).then(|| written as f64 / user as f64)
    }
}
