//! How the result of a compaction comes into force, whatever was deleted meanwhile.
//!
//! A group that is deleted takes tables with it that a compaction has among its inputs. The
//! compaction is not in vain: the rest of its inputs is replaced as if these had never been among
//! them, once what came of them was taken out of the result.
//!
//! ```text
//! lock -> are all inputs there? -> one edit
//!           no: what was erased since -> unlock -> leave out tables that hold nothing else,
//!               write the others anew without it -> once more from the start
//! ```
//!
//! Invariants: (1) of what was erased nothing comes back; (2) the result overlaps nothing of the
//! run it joins: where inputs are gone, others may have put tables, and then the result is given
//! up. Crash: as with every compaction; what is written anew is named by nobody before the edit.

use super::Chosen;
use crate::compaction::job::{self, JobResult};
use crate::compaction::policy;
use crate::db::core::{Core, VersionsGuard};
use crate::db::erasures::Erasure;
use crate::db::groups;
use crate::event::CompactionReason;
use crate::range_tombstone::RangeTombstone;
use crate::version::{CompactionSpec, InputRun, KeyRange, Replaced, Table, TableMeta, Version};
use esker_base::{Error, Result, Seq};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a try to install a result has come to.
enum Installed {
    Done,
    /// Nothing was changed, and the result is to be given up.
    InVain,
    /// The result may hold something of this, which was erased since.
    Overtaken(Vec<Erasure>),
}

impl Chosen {
    /// Puts the result in the place of the inputs, and returns it. `None` if it was in vain.
    pub(super) fn install(&self, core: &Core, mut result: JobResult) -> Result<Option<JobResult>> {
        let mut cleared_seq = self.version.erased_seq;
        loop {
            let tried = {
                let mut versions = core.lock_versions()?;
                self.try_install(core, &mut versions, &mut result, cleared_seq)?
            };
            match tried {
                Installed::Done => return Ok(Some(result)),
                Installed::InVain => {
                    self.discard(core, &result.tables);
                    return Ok(None);
                }
                Installed::Overtaken(erased) => {
                    cleared_seq = erased.iter().map(|one| one.seq).fold(cleared_seq, Seq::max);
                    self.leave_out(core, &mut result, &erased)?;
                }
            }
        }
    }

    fn discard(&self, core: &Core, tables: &[TableMeta]) {
        // What was only to move is not ours.
        if !self.spec.is_move {
            core.store.discard(tables);
        }
    }

    fn try_install(
        &self,
        core: &Core,
        versions: &mut VersionsGuard<'_>,
        result: &mut JobResult,
        cleared_seq: Seq,
    ) -> Result<Installed> {
        let id = self.keyspace.id;
        if !versions.keyspaces.contains_key(&id) {
            self.discard(core, &result.tables);
            return Err(Error::Cancelled);
        }
        let version = &versions.keyspace(id)?.version;
        let live: BTreeSet<u64> = version.tables().map(|(_, table)| table.meta.number).collect();
        let is_there = |table: &Table| live.contains(&table.meta.number);
        let joined = policy::output_run(version, &self.options, &self.spec);
        if !self.spec.tables().all(|(_, table)| is_there(table)) {
            let erased = self.keyspace.erasures.since(cleared_seq);
            let is_known = !erased.is_empty() || cleared_seq > self.version.erased_seq;
            if self.spec.is_move || !is_known {
                return Ok(Installed::InVain);
            }
            if !erased.is_empty() {
                return Ok(Installed::Overtaken(erased));
            }
            let is_any_there = self.spec.tables().any(|(_, table)| is_there(table));
            if !is_any_there || self.is_in_the_way(version, joined, &result.tables) {
                return Ok(Installed::InVain);
            }
        }
        if !self.spec.is_move {
            let order = &self.keyspace.options.order;
            for meta in &mut result.tables {
                meta.erased_seq = version.cleared_up_to(order, meta);
            }
        }
        let run = joined.unwrap_or_else(|| versions.new_run_id());
        let edit = job::edit_of(id, &self.spec, result, run, is_there);
        versions.commit(edit, None)?;
        core.measure_values(versions);
        let version = versions.keyspace(id)?.version.clone();
        let replaced = Replaced {
            taken: self.spec.tables().map(|(_, table)| table.meta.number).collect(),
            by: result.tables.iter().map(|meta| meta.number).collect(),
        };
        self.keyspace.update_view(|view| {
            let before = view.version.clone();
            view.follow(version.clone(), Some(&replaced));
            self.keyspace.note_replaced(&before, &version, replaced);
        });
        Ok(Installed::Done)
    }

    /// True if the run that the tables are to join has others between their keys, which are no
    /// inputs.
    pub(super) fn is_in_the_way(
        &self,
        version: &Version,
        run: Option<u64>,
        tables: &[TableMeta],
    ) -> bool {
        let order = &self.options.order;
        let inputs: BTreeSet<u64> = self.spec.tables().map(|(_, t)| t.meta.number).collect();
        let level = version.level(self.spec.output_level);
        let Some(run) = level.iter().find(|one| Some(one.id) == run) else { return false };
        tables.iter().any(|meta| {
            let among = run.overlapping(order, &KeyRange::closed(&meta.smallest, &meta.largest));
            among.iter().any(|table| !inputs.contains(&table.meta.number))
        })
    }

    /// Takes what was erased out of the result.
    ///
    /// # Errors
    /// Of the disk; then nothing of the result stays.
    fn leave_out(&self, core: &Core, result: &mut JobResult, erased: &[Erasure]) -> Result<()> {
        result.overtaken = true;
        let order = &self.options.order;
        let ranges: Vec<RangeTombstone> = erased.iter().map(Erasure::as_tombstone).collect();
        let mut version = self.version.without_files();
        version.erase(order, &ranges);
        let version = Arc::new(version);
        let (mut tables, mut replaced) = (Vec::new(), Vec::new());
        let mut metas = std::mem::take(&mut result.tables).into_iter();
        while let Some(meta) = metas.next() {
            if !ranges.iter().any(|range| meta.may_hold(order, range)) {
                tables.push(meta);
                continue;
            }
            replaced.push(meta.clone());
            if erased.iter().any(|one| groups::leaves(&one.range, one.seq, &meta)) {
                continue;
            }
            match self.written_anew(core, &version, meta) {
                Ok(JobResult { tables: left, bytes_read, bytes_written, .. }) => {
                    tables.extend(left);
                    result.bytes_read += bytes_read;
                    result.bytes_written += bytes_written;
                }
                Err(error) => {
                    core.store.discard(&[&tables[..], &replaced, metas.as_slice()].concat());
                    return Err(error);
                }
            }
        }
        core.store.discard(&replaced);
        result.tables = tables;
        Ok(())
    }

    /// A table of the result without what this version has erased.
    fn written_anew(
        &self,
        core: &Core,
        version: &Arc<Version>,
        meta: TableMeta,
    ) -> Result<JobResult> {
        let level = self.spec.output_level;
        let table = core.store.table(meta, &self.keyspace.options);
        let spec = CompactionSpec {
            reason: CompactionReason::Erased,
            level,
            output_level: level,
            output_run: None,
            inputs: vec![InputRun { level, tables: vec![table] }],
            is_move: false,
        };
        let mut context = self.context(core, Box::new(|| false), Box::new(|| ()))?;
        context.version = version.clone();
        job::run(&spec, context, 1, &*core.background)
    }
}
