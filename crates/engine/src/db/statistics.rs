//! Gathers the statistics of an open database.

use super::core::{Core, KeyspaceCore, value_files};
use super::secondary::catalogue::Index;
use super::secondary::declare;
use crate::compaction::policy;
use crate::names;
use crate::report::{
    IndexStats, KeyspaceStats, LevelStats, MemoryUse, ReadStats, RunIndexStats, Stats, TableInfo,
    ValueFileStats, ValueStats, WriteStats,
};
use crate::stats::TableCounter;
use crate::value_log::{Place, ValueFile};
use crate::version::live_bytes;
use esker_base::sync::atomic::Ordering;
use std::sync::Arc;

/// The tables of a keyspace, newest data first.
pub(super) fn tables(keyspace: &KeyspaceCore) -> Vec<TableInfo> {
    let view = keyspace.view.load();
    let of_run = view.version.runs().flat_map(|(level, run)| {
        run.tables.iter().map(move |table| TableInfo {
            level,
            run: run.id,
            number: table.meta.number,
            bytes: table.meta.file_bytes,
            entries: table.meta.entries,
            smallest_key: table.meta.smallest.to_vec(),
            largest_key: table.meta.largest.to_vec(),
        })
    });
    of_run.collect()
}

impl Core {
    pub(super) fn stats(&self) -> Stats {
        let keyspaces = self.keyspaces.load();
        let (value_files_open, value_directories) = self.store.values.open_files();
        let (block_cache, block_cache_limit) = self.store.cache.usage_and_capacity_bytes();
        Stats {
            values: self.value_stats(),
            keyspaces: keyspaces
                .by_id
                .values()
                .filter(|keyspace| !names::is_index(&keyspace.name))
                .map(|keyspace| keyspace_stats(keyspace))
                .collect(),
            indexes: self.index_stats(),
            memory: MemoryUse {
                budget: self.options.memory_budget_bytes,
                memtables: self.memtable_bytes.load(Ordering::Relaxed),
                memtables_limit: self.memtables_limit_bytes,
                memtables_spare: self.supply.spare_bytes(),
                block_cache,
                block_cache_limit,
                pinned_tables: self.store.pinned_bytes(),
                value_directories,
                run_indexes: keyspaces.by_id.values().map(|k| k.view.load().index_bytes()).sum(),
                table_heap: self.store.cache.heap().taken_bytes(),
            },
            writes: self.write_stats(),
            reads: self.read_stats(),
            last_seq: self.visible_seq.load(Ordering::Acquire),
            snapshots: self.snapshots.count() as u64,
            wal_bytes: self.retired_wal_bytes.load(Ordering::Relaxed),
            open_files: (self.store.open_files() + value_files_open) as u64,
            running_compactions: self.background.running_compactions(),
        }
    }

    fn index_stats(&self) -> Vec<IndexStats> {
        let keyspaces = self.keyspaces.load();
        let stats_of = |index: &Arc<Index>| {
            let (of, holder) = (keyspaces.get(index.of)?, keyspaces.get(index.id)?);
            let held = keyspace_stats(holder);
            Some(IndexStats {
                keyspace: of.name.clone(),
                field: index.field.clone(),
                is_ready: declare::is_ready(self, index),
                tables: held.levels.iter().map(|level| level.tables).sum(),
                table_bytes: held.table_bytes(),
                memtable_bytes: held.memtable_bytes,
                bytes_written: held.user_bytes_written,
            })
        };
        self.indexes.list().all().filter_map(stats_of).collect()
    }

    fn value_stats(&self) -> ValueStats {
        let keyspaces = self.keyspaces.load();
        let views: Vec<_> = keyspaces.by_id.values().map(|k| k.view.load_full()).collect();
        let tables = views.iter().flat_map(|view| view.version.tables());
        let live = live_bytes(tables.map(|(_, table)| &table.meta));
        let stats_of = |file: &ValueFile| ValueFileStats {
            number: file.meta.number,
            bytes: file.named_bytes(),
            live_bytes: file.meta.logs.iter().filter_map(|log| live.get(log)).sum(),
            moved: file.meta.place != Place::Wal,
        };
        let files: Vec<ValueFileStats> = value_files(&views).map(|file| stats_of(file)).collect();
        let collected = *self.value_use.collected.lock();
        ValueStats {
            bytes: files.iter().map(|file| file.bytes).sum(),
            live_bytes: live.values().sum(),
            files,
            reads: self.store.counters.total(TableCounter::ValueReads),
            collected_files: collected.files,
            collected_bytes: collected.bytes_before,
            moved_bytes: collected.bytes_after,
        }
    }

    fn write_stats(&self) -> WriteStats {
        let (slowed, slowed_ns, slowed_ns_max) = self.stall.totals();
        let c = &self.counters;
        WriteStats {
            batches: c.batches.load(Ordering::Relaxed),
            operations: c.operations.load(Ordering::Relaxed),
            groups: c.groups.load(Ordering::Relaxed),
            syncs: c.syncs.load(Ordering::Relaxed),
            wal_bytes: c.wal_bytes.load(Ordering::Relaxed),
            slowed,
            slowed_us: slowed_ns / 1_000,
            slowed_us_max: slowed_ns_max / 1_000,
        }
    }

    fn read_stats(&self) -> ReadStats {
        let total = |which| self.store.counters.total(which);
        ReadStats {
            block_cache_hits: total(TableCounter::BlockCacheHits),
            block_cache_misses: total(TableCounter::BlockCacheMisses),
            filter_checks: total(TableCounter::FilterChecks),
            filter_negatives: total(TableCounter::FilterNegatives),
            filter_false_positives: total(TableCounter::FilterFalsePositives),
            reads: total(TableCounter::Reads),
            read_bytes: total(TableCounter::ReadBytes),
        }
    }
}

fn keyspace_stats(keyspace: &KeyspaceCore) -> KeyspaceStats {
    let view = keyspace.view.load();
    let version = &view.version;
    let options = keyspace.compacted_by.load();
    let work = keyspace.level_work.lock().clone();
    let worked = work.iter().rposition(|w| w.jobs + w.moves > 0).map_or(0, |level| level + 1);
    let depth = version.depth().max(worked).max(1);
    let level_stats = |level: usize| {
        let tables = || version.level(level).iter().flat_map(|run| &run.tables);
        let limit = policy::level_limit(&options, level);
        let (limit_bytes, limit_runs) = limit.bytes_and_runs();
        LevelStats {
            runs: version.level(level).len() as u64,
            tables: tables().count() as u64,
            bytes: version.level_bytes(level),
            limit_bytes,
            limit_runs,
            entries: tables().map(|t| t.meta.entries).sum(),
            tombstones: tables().map(|t| t.meta.tombstones).sum(),
            range_tombstones: tables().map(|t| t.meta.range_tombstones).sum(),
            ..work.get(level).cloned().unwrap_or_default()
        }
    };
    KeyspaceStats {
        name: keyspace.name.clone(),
        levels: (0..depth).map(level_stats).collect(),
        memtable_entries: view.memtables().map(|mem| mem.entries()).sum(),
        memtable_bytes: view.memtables().map(|mem| mem.memory_bytes()).sum(),
        sealed_memtables: view.sealed.len() as u64,
        user_bytes_written: keyspace.user_bytes.load(Ordering::Relaxed),
        slice_level: keyspace.schedule.lock().turn().map(|level| level as u64),
        compaction_debt_bytes: policy::debt_bytes(version, &options),
        run_index: view.coverage.as_ref().map(|coverage| RunIndexStats {
            runs: coverage.runs(),
            runs_total: version.runs().count() as u64,
            records: coverage.entries(),
            entries: coverage.index.entries(),
            names: coverage.index.names(),
            bytes: view.index_bytes(),
            made: keyspace.indexes_made(),
        }),
    }
}
