//! The last steps of a repair: `lost/`, the new manifest, and removing what was replaced.

use super::evidence::name_of;
use super::{FileFate, Repair, table_number};
use crate::db::checkpoint::link_or_copy;
use crate::names::{self, FileKind};
use crate::version::write_state;
use esker_base::vfs::{Access, write_atomic};
use esker_base::{Error, Result, Vfs};
use std::collections::BTreeSet;
use std::path::Path;

/// Bytes compared at a time.
const COMPARE_BYTES: usize = 256 << 10;

/// Reports of repairs that were not complete are kept in `lost/` under this name and a number.
const REPORT_PREFIX: &str = "report-";

/// Names tried for a file in `lost/`.
const NAMES_MAX: u32 = 100_000;

impl Repair<'_> {
    /// Makes what was put together the database.
    pub(super) fn install(&mut self) -> Result<()> {
        let vfs = self.store.env.vfs.clone();
        let dir = self.store.dir.clone();
        self.count_salvaged();
        let state = self.new_state()?;
        let leaving = self.leaving();
        self.give_second_names(vfs.as_ref(), &dir, &leaving)?;
        // What was taken for damage is some; nothing more is read from here on.
        self.tolerant.check()?;
        self.report.notes.extend(self.tolerant.notes());
        self.report.manifest = self.store.peek_number();
        self.report.files = std::mem::take(&mut self.fates).into_values().collect();
        self.keep_report(vfs.as_ref(), &dir.join("lost"))?;
        vfs.sync_dir(&dir)?;
        // If this fails nobody knows whether the new manifest is in force: what it names must stay.
        let made = std::mem::take(&mut self.made);
        write_state(&self.store, &state, self.report.last_seq)?;
        // From here on the repaired database is in force. What cannot be removed now is in its way
        // no more than leftovers of a crash are.
        let live: BTreeSet<u64> = state.tables().map(|meta| meta.number).collect();
        for kind in &leaving {
            if *kind != FileKind::Current {
                let _ = vfs.remove(&dir.join(name_of(*kind)));
            }
        }
        let made = made.iter().filter_map(table_number);
        for number in made.filter(|number| !live.contains(number)) {
            let _ = vfs.remove(&names::table(&dir, number));
        }
        let _ = vfs.sync_dir(&dir);
        Ok(())
    }

    /// Writes down what is lost before the database looks sound again: a crash may keep the caller
    /// from ever seeing the report.
    fn keep_report(&mut self, vfs: &dyn Vfs, lost_dir: &Path) -> Result<()> {
        if vfs.exists(lost_dir)? {
            for entry in vfs.list(lost_dir)?.iter().filter(|e| e.name.starts_with(REPORT_PREFIX)) {
                let note = format!("an earlier repair left its report in lost/{}", entry.name);
                self.report.notes.push(note);
            }
        }
        if self.report.is_complete() {
            return Ok(());
        }
        let name = format!("{REPORT_PREFIX}{:06}.txt", self.report.manifest);
        vfs.create_dir_all(lost_dir)?;
        write_atomic(vfs, &lost_dir.join(name), format!("{}\n", self.report).as_bytes())
    }

    fn count_salvaged(&mut self) {
        let made: BTreeSet<u64> = self.made.iter().filter_map(table_number).collect();
        let tables = self.keyspaces.values().flat_map(|target| target.tables.values());
        self.report.records_salvaged = tables
            .filter(|(_, meta)| made.contains(&meta.number))
            .map(|(_, meta)| meta.entries + meta.range_tombstones)
            .sum();
    }

    /// The files that do not stay.
    fn leaving(&self) -> Vec<FileKind> {
        let stays = |kind: &FileKind| {
            matches!(kind, FileKind::Lock | FileKind::Temporary)
                || self.fates.get(kind).is_some_and(|said| said.fate == FileFate::Kept)
        };
        self.files.keys().filter(|kind| !stays(kind)).copied().collect()
    }

    /// Gives files that were not used, or not completely, a second name in `lost/`.
    ///
    /// If anything at all is amiss, those that were read go there too.
    fn give_second_names(&mut self, vfs: &dyn Vfs, dir: &Path, leaving: &[FileKind]) -> Result<()> {
        let amiss = self
            .fates
            .values()
            .any(|said| matches!(said.fate, FileFate::Lost | FileFate::Salvaged))
            || !self.report.lost.is_empty()
            || !self.report.missing_writes.is_empty();
        let lost_dir = dir.join("lost");
        let mut any = false;
        for kind in leaving {
            let Some(said) = self.fates.get_mut(kind) else { continue };
            if said.fate == FileFate::Read && (!amiss || *kind == FileKind::Current) {
                continue;
            }
            if !any {
                vfs.create_dir_all(&lost_dir)?;
                any = true;
            }
            let name = second_name(vfs, dir, &lost_dir, &name_of(*kind))?;
            said.moved_to = Some(format!("lost/{name}"));
        }
        if any { vfs.sync_dir(&lost_dir) } else { Ok(()) }
    }
}

/// Puts a file into `lost_dir` under a free name; a copy that is there from a repair that was cut
/// off is used again.
fn second_name(vfs: &dyn Vfs, dir: &Path, lost_dir: &Path, name: &str) -> Result<String> {
    let from = dir.join(name);
    for i in 0..NAMES_MAX {
        let candidate = if i == 0 { name.to_owned() } else { format!("{name}.{i}") };
        let to = lost_dir.join(&candidate);
        if vfs.exists(&to)? {
            if is_same(vfs, &from, &to) {
                return Ok(candidate);
            }
            continue;
        }
        link_or_copy(vfs, &from, &to, || Ok(()))?;
        return Ok(candidate);
    }
    Err(Error::invalid(format!("{} is full of files named {name}", lost_dir.display())))
}

/// True if two files hold the same bytes. Files that cannot be read are not the same.
fn is_same(vfs: &dyn Vfs, a: &Path, b: &Path) -> bool {
    let compare = || -> Result<bool> {
        let (a, b) = (vfs.open(a, Access::Sequential)?, vfs.open(b, Access::Sequential)?);
        let len = a.len_bytes()?;
        if b.len_bytes()? != len {
            return Ok(false);
        }
        let (mut x, mut y) = (vec![0; COMPARE_BYTES], vec![0; COMPARE_BYTES]);
        let mut at = 0;
        while at < len {
            let (n, m) = (a.read_at(at, &mut x)?, b.read_at(at, &mut y)?);
            if n == 0 || n != m || x[..n] != y[..n] {
                return Ok(false);
            }
            at += n as u64;
        }
        Ok(true)
    };
    compare().unwrap_or(false)
}
