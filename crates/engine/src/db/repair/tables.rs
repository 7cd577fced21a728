//! Tables: checking them, and writing what is readable of a damaged one anew.

use super::{FileFate, Repair};
use crate::db::verify::check_table;
use crate::names::{self, FileKind};
use crate::options::KeyspaceOptions;
use crate::range_tombstone::{Fragment, RangeTombstones};
use crate::table::{Origin, TableFile, TableRemains, Tombstones};
use crate::version::{RawKeyspace, RunOutput, TableMeta};
use esker_base::vfs::Access;
use esker_base::{Error, KeyspaceId, Result};
use std::sync::Arc;

/// What could be made of a table.
pub(super) enum Checked {
    Sound,
    /// Other tables hold what was readable; none if nothing was.
    Written(Vec<TableMeta>),
    Lost,
}

impl Repair<'_> {
    /// Checks the tables that the manifest names, and keeps what can be kept where it is.
    pub(super) fn keep_tables(&mut self, id: KeyspaceId, raw: &RawKeyspace) -> Result<()> {
        for (&(level, number), (run, meta)) in &raw.tables {
            let kind = FileKind::Table(number);
            let Some(target) = self.keyspaces.get(&id) else { return Ok(()) };
            let checked = match target.options.clone() {
                None => self.check_untouched(meta),
                Some(options) => {
                    let origin = target.origin(id);
                    self.check(meta, &options, origin, level as usize)?
                }
            };
            self.count(id, &checked);
            let kept = match checked {
                Checked::Sound => vec![meta.clone()],
                Checked::Written(tables) => tables,
                Checked::Lost => Vec::new(),
            };
            let entries: u64 = kept.iter().map(|meta| meta.entries).sum();
            let ranges: u64 = kept.iter().map(|meta| meta.range_tombstones).sum();
            if let Some(target) = self.keyspaces.get_mut(&id) {
                // Nobody could merge what a skipped keyspace gets back from logs with its tables.
                target.hurt |= target.options.is_some()
                    && (entries < meta.entries || ranges < meta.range_tombstones);
                for meta in kept {
                    target.tables.insert((level, meta.number), (*run, meta));
                }
            }
            self.advance(kind)?;
        }
        Ok(())
    }

    pub(super) fn count(&mut self, id: KeyspaceId, checked: &Checked) {
        let report = self.report.keyspace(id);
        match checked {
            Checked::Sound => report.tables_kept += 1,
            Checked::Written(tables) => report.tables_written += tables.len() as u64,
            Checked::Lost => report.tables_lost += 1,
        }
    }

    /// A table of a skipped keyspace: it stays if opening would accept it.
    fn check_untouched(&mut self, meta: &TableMeta) -> Checked {
        let kind = FileKind::Table(meta.number);
        let has_values = meta.references.iter().all(|of| self.values.by_log.contains_key(&of.log));
        match self.files.get(&kind) {
            Some(&bytes) if bytes == meta.file_bytes && !has_values => {
                let why = "no file has values that it points to, and its keyspace is skipped";
                self.speak_for(kind, FileFate::Lost, why, 0);
                Checked::Lost
            }
            Some(&bytes) if bytes == meta.file_bytes => {
                self.speak_for(kind, FileFate::Kept, "not checked: its keyspace is skipped", 0);
                Checked::Sound
            }
            Some(_) => {
                let why = "wrong length, and its keyspace is skipped";
                self.speak_for(kind, FileFate::Lost, why, 0);
                Checked::Lost
            }
            None => {
                self.report_missing(meta);
                Checked::Lost
            }
        }
    }

    fn report_missing(&mut self, meta: &TableMeta) {
        let reason = format!(
            "missing: {} records, {} range tombstones, keys {} to {}",
            meta.entries,
            meta.range_tombstones,
            meta.smallest.escape_ascii(),
            meta.largest.escape_ascii()
        );
        self.speak_for(FileKind::Table(meta.number), FileFate::Lost, &reason, 0);
    }

    /// Checks a table; what is readable of a damaged one becomes new tables.
    pub(super) fn check(
        &mut self,
        meta: &TableMeta,
        options: &Arc<KeyspaceOptions>,
        origin: Origin,
        level: usize,
    ) -> Result<Checked> {
        let kind = FileKind::Table(meta.number);
        if !self.files.contains_key(&kind) {
            self.report_missing(meta);
            return Ok(Checked::Lost);
        }
        let table = self.store.table(meta.clone(), options);
        let checked = check_table(&self.store, &table).and_then(|()| self.has_values_of(&table));
        let missing = "some values that it points to cannot be read";
        match checked {
            Ok(false) => {
                drop(table);
                let path = names::table(&self.store.dir, meta.number);
                self.salvage(meta, options, origin, level, &Error::corruption(path, 0, missing))
            }
            Ok(true) => {
                self.speak_for(kind, FileFate::Kept, "sound", 0);
                Ok(Checked::Sound)
            }
            Err(error) => {
                drop(table);
                self.salvage(meta, options, origin, level, &error)
            }
        }
    }

    fn salvage(
        &mut self,
        meta: &TableMeta,
        options: &Arc<KeyspaceOptions>,
        mut origin: Origin,
        level: usize,
        error: &Error,
    ) -> Result<Checked> {
        let kind = FileKind::Table(meta.number);
        let path = names::table(&self.store.dir, meta.number);
        let why = error.to_string();
        let context = self.context(meta.number);
        let remains = self.store.env.vfs.open(&path, Access::Random).and_then(|file| {
            let file = TableFile::new(file, &path, meta.file_bytes, meta.salt);
            TableRemains::read(file, options, &context)
        });
        let remains = match remains {
            Ok(remains) => remains,
            Err(other) => {
                self.speak_for(kind, FileFate::Lost, &format!("{why}; {other}"), 0);
                return Ok(Checked::Lost);
            }
        };
        origin.ingested = meta.seq_override.is_some();
        let (tables, records) = self.write_remains(&remains, meta, options, origin, level)?;
        let name = super::name_of(kind);
        for lost in &remains.lost {
            self.report.lose(&name, lost.offset_bytes, lost.bytes, &lost.what);
        }
        let written: u64 = tables.iter().map(|table| table.entries).sum();
        let missing = meta.entries.saturating_sub(written);
        let mut reason = match missing {
            0 => format!("{why}; no record is lost"),
            n => format!("{why}; {n} of {} records lost", meta.entries),
        };
        if remains.tombstones == Tombstones::Unreadable && meta.range_tombstones > 0 {
            let n = meta.range_tombstones;
            reason.push_str(&format!("; {n} range tombstones lost, what they hid may come back"));
        }
        let fate = if tables.is_empty() { FileFate::Lost } else { FileFate::Salvaged };
        self.speak_for(kind, fate, &reason, records);
        Ok(if tables.is_empty() { Checked::Lost } else { Checked::Written(tables) })
    }

    /// Writes what is readable of a table. Returns the tables and their records.
    fn write_remains(
        &mut self,
        remains: &TableRemains,
        meta: &TableMeta,
        options: &Arc<KeyspaceOptions>,
        origin: Origin,
        level: usize,
    ) -> Result<(Vec<TableMeta>, u64)> {
        let tombstones = match &remains.tombstones {
            Tombstones::Kept(tombstones) => tombstones.as_slice(),
            Tombstones::Unreadable => &[],
        };
        let tombstones = RangeTombstones::build(&options.order, tombstones);
        // As many as there were: fewer would look like a loss.
        let fragments = tombstones.whole().collect();
        let counters = self.store.counters.clone();
        let mut values = std::mem::take(&mut self.values);
        let written = self.write_run(options, origin, level, fragments, |output| {
            remains.records(&counters, |key, trailer, value| match values.keeps(trailer, value) {
                true => output.add(key, trailer, value),
                false => Ok(()),
            })
        });
        self.values = values;
        let mut tables = written?;
        let mut records = 0;
        for table in &mut tables {
            // What was not in the table is not in what is left of it.
            table.erased_seq = meta.erased_seq;
            if let Some(seq) = meta.seq_override {
                table.seq_override = Some(seq);
                table.min_seq = seq;
                table.max_seq = seq;
            }
            records += table.entries + table.range_tombstones;
        }
        self.note_made(&tables);
        Ok((tables, records))
    }

    /// Writes a run of tables; on an error nothing of it stays.
    pub(super) fn write_run(
        &self,
        options: &Arc<KeyspaceOptions>,
        origin: Origin,
        level: usize,
        fragments: Vec<Fragment>,
        fill: impl FnOnce(&mut RunOutput) -> Result<()>,
    ) -> Result<Vec<TableMeta>> {
        let (store, options) = (self.store.clone(), options.clone());
        let mut output = RunOutput::new(store, options, origin, level, fragments, Vec::new());
        fill(&mut output)?;
        output.finish()
    }

    /// Notes tables that this repair wrote.
    pub(super) fn note_made(&mut self, tables: &[TableMeta]) {
        for table in tables {
            self.made.push(FileKind::Table(table.number));
        }
    }
}
