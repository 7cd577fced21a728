//! Values kept apart: which of them can be read, and what becomes of their files.
//!
//! A record that points to a value which nobody can read is left out, so that what is repaired can
//! be read throughout; an older value of its key may come back by that. Sound files of values stay
//! where they are; what can be read of a damaged one is moved, as a collection would move it.

use super::evidence::{Facts, name_of};
use super::holders::{Holder, Unread, Values};
use super::{FileFate, Repair};
use crate::log::{Gap, HEADER_BYTES, LogKind, Piece, Salvager};
use crate::names::FileKind;
use crate::value_log::{Directory, MovedWriter, Place, ValueFileMeta, first_directory};
use crate::version::{NamedValues, Recovered, Table};
use esker_base::Result;
use esker_base::vfs::Access;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What can be read of a file that may hold values.
#[derive(Default)]
struct Found {
    /// Where values begin.
    values: Vec<u64>,
    gaps: Vec<Gap>,
    /// What a mark vouches for.
    durable_bytes: u64,
    /// Where the last record ends.
    end_bytes: u64,
    /// A directory, and where the first one begins, be that this one or not.
    directory: Option<Directory>,
    directory_at: u64,
}

impl Found {
    fn read(log: &mut Salvager, has_directory: bool) -> Result<Found> {
        let mut found = Found { end_bytes: HEADER_BYTES as u64, ..Found::default() };
        let mut read_at = 0..0;
        while let Some(piece) = log.next()? {
            match piece {
                Piece::Value { offset_bytes, end_bytes, .. } => {
                    found.values.push(offset_bytes);
                    found.end_bytes = end_bytes;
                }
                Piece::Record { offset_bytes, end_bytes, payload } => {
                    if has_directory && found.directory.is_none() {
                        let decoded = Directory::decode(payload, HEADER_BYTES as u64, offset_bytes);
                        found.directory = decoded.ok();
                        read_at = offset_bytes..end_bytes;
                    }
                    found.end_bytes = end_bytes;
                }
                Piece::Mark { end_bytes, durable_bytes, .. } => {
                    found.end_bytes = end_bytes;
                    found.durable_bytes = durable_bytes.max(found.durable_bytes);
                }
                // No value stood in a header.
                Piece::Gap(gap) if gap.offset_bytes == 0 && !gap.is_tail => {}
                Piece::Gap(gap) => found.gaps.push(gap),
            }
        }
        found.directory_at = first_directory(read_at, found.end_bytes);
        Ok(found)
    }

    /// True if something is missing that was promised.
    fn is_damaged(&self) -> bool {
        let torn = |gap: &Gap| gap.is_tail && self.durable_bytes <= gap.offset_bytes;
        !self.gaps.iter().all(torn)
    }
}

impl Repair<'_> {
    /// Reads all files that may hold values.
    pub(super) fn survey_values(&mut self, facts: &Facts) -> Result<()> {
        let kinds: Vec<FileKind> = self.files.keys().copied().collect();
        for kind in kinds {
            let found = match kind {
                FileKind::Wal(number) | FileKind::Values(number) => {
                    let found = self.survey_file(kind, number, facts)?;
                    self.advance(kind)?;
                    found
                }
                _ => None,
            };
            let Some(holder) = found else { continue };
            let nth = self.values.holders.len();
            for &log in &*holder.meta.logs {
                // What was moved stands in files of higher numbers than the log's own. But one that
                // is damaged may have been left by a collection that was cut off.
                let Values { holders, by_log, .. } = &mut self.values;
                let is_sound = |holder: &Holder| holder.readable.is_none();
                let before = by_log.get(&log).map(|&nth| &holders[nth]);
                if is_sound(&holder) || !before.is_some_and(is_sound) {
                    by_log.insert(log, nth);
                }
            }
            self.values.holders.push(holder);
        }
        let used: BTreeSet<usize> = self.values.by_log.values().copied().collect();
        for nth in used {
            let holder = &mut self.values.holders[nth];
            let (kind, gaps) = (holder.kind, std::mem::take(&mut holder.gaps));
            self.lose_values(kind, &gaps);
        }
        Ok(())
    }

    fn survey_file(
        &mut self,
        kind: FileKind,
        number: u64,
        facts: &Facts,
    ) -> Result<Option<Holder>> {
        let path = self.store.dir.join(name_of(kind));
        let known = facts.salts.get(&number).copied();
        let Ok(mut log) = Salvager::open(self.store.env.vfs.as_ref(), &path, known) else {
            // What is wrong with a log is told where logs are read.
            return Ok(None);
        };
        let wanted = if matches!(kind, FileKind::Wal(_)) { LogKind::Wal } else { LogKind::Values };
        let (salt, has_header) = match log.header() {
            Ok(header) if header.kind == wanted && header.number == number => (header.salt, true),
            Err(_) if known.is_some() => (known.unwrap_or_default(), false),
            Err(_) if wanted == LogKind::Values => {
                let why = "its header cannot be read, and no manifest knows the file";
                self.values.unread.push(Unread { number, why, gaps: Vec::new() });
                return Ok(None);
            }
            _ => return Ok(None),
        };
        let found = Found::read(&mut log, wanted == LogKind::Values)?;
        self.tolerant.survey(&path);
        // What cannot be read now may fail others later.
        let is_unreadable = self.tolerant.has_met(&path);
        let mut damaged = !has_header || is_unreadable || found.is_damaged();
        let mut gaps = Vec::new();
        if kind == FileKind::Values(number) {
            // Where none began, none is lost, as in one of the two directories.
            gaps = found.gaps;
            if let Some(directory) = &found.directory {
                // In the order in which they stand.
                let places: Vec<u64> = directory.iter().map(|(.., at)| at).collect();
                let before = |end: u64| places.partition_point(|&at| at < end);
                gaps.retain(|gap| before(gap.offset_bytes) < before(gap.offset_bytes + gap.bytes));
            }
            // No database opens with one that is longer than it should be.
            damaged |= self.files.get(&kind) != Some(&found.end_bytes);
            if found.directory.is_none() {
                let why = "the directory of its values cannot be read";
                self.values.unread.push(Unread { number, why, gaps });
                if found.values.is_empty() {
                    return Ok(None);
                }
                // Which values were moved there nobody knows; those that are its own stand where
                // records point to.
                (gaps, damaged) = (Vec::new(), true);
            }
        }
        let Found { directory, directory_at, .. } = found;
        let logs = directory.as_ref().map_or(vec![number], |d: &Directory| d.logs().to_vec());
        let place = match wanted {
            LogKind::Values => Place::Moved { directory_at },
            _ => Place::Wal,
        };
        let file_bytes = found.end_bytes;
        let meta = ValueFileMeta { number, salt, file_bytes, place, logs: logs.into() };
        // A torn tail is not within the length that counts.
        let readable = damaged.then_some(found.values);
        let durable_bytes = found.durable_bytes;
        Ok(Some(Holder { kind, meta, directory, readable, gaps, durable_bytes }))
    }

    /// Values are taken from where a manifest that is kept says that they stand, if they can be
    /// read there: a file that it does not name may come from another time, as where a backup was
    /// put over a newer store, and lack some that were not needed then. Files of moved values were
    /// durable before it named them.
    pub(super) fn prefer_named_values(&mut self, state: &Recovered) {
        let Values { holders, by_log, .. } = &mut self.values;
        for (nth, holder) in holders.iter_mut().enumerate() {
            let named = state.values.0.get(&holder.meta.number);
            let is_moved = matches!(holder.kind, FileKind::Values(_));
            if is_moved && named.is_some_and(|named| named.salt == holder.meta.salt) {
                holder.durable_bytes = holder.meta.file_bytes;
            }
            let named = named.filter(|_| holder.readable.is_none());
            for &log in named.iter().flat_map(|meta| &*meta.logs) {
                by_log.insert(log, nth);
            }
        }
    }

    /// Tells of the files with values that cannot be used. What a manifest that is kept does not
    /// name was being written when something ended it.
    pub(super) fn tell_unread(&mut self, kept: Option<&Recovered>) {
        for Unread { number, why, gaps } in std::mem::take(&mut self.values.unread) {
            if kept.is_none_or(|state| state.values.0.contains_key(&number)) {
                let kind = FileKind::Values(number);
                self.lose_values(kind, &gaps);
                self.speak_for(kind, FileFate::Lost, why, 0);
            }
        }
    }

    fn lose_values(&mut self, kind: FileKind, gaps: &[Gap]) {
        let name = name_of(kind);
        for gap in gaps {
            self.report.lose(&name, gap.offset_bytes, gap.bytes, "no value can be read");
        }
    }

    /// True if all values that a table points to can be read.
    pub(super) fn has_values_of(&self, table: &Arc<Table>) -> Result<bool> {
        let mut all = true;
        table.shared_reader()?.references(0, u64::MAX, |log, from| {
            all &= self.values.has(log, from);
        })?;
        Ok(all)
    }

    /// The files with values that the new manifest is to name: made durable if they stay, or new.
    pub(super) fn keep_values(&mut self) -> Result<NamedValues> {
        let tables = self.keyspaces.values().flat_map(|target| target.tables.values());
        let pointed_to: BTreeSet<u64> =
            tables.flat_map(|(_, meta)| &*meta.references).map(|share| share.log).collect();
        let mut named = NamedValues::default();
        let holders = std::mem::take(&mut self.values.holders);
        for (nth, holder) in holders.iter().enumerate() {
            let held = |log: &&u64| self.values.by_log.get(log) == Some(&nth);
            let logs: Vec<u64> = holder.meta.logs.iter().filter(held).copied().collect();
            let is_wanted = |log: &u64| pointed_to.contains(log);
            if !logs.iter().any(is_wanted) {
                continue;
            }
            let kind = holder.kind;
            let can_move = holder.readable.is_some() && !self.is_log_that_stays(kind);
            // Tables that nobody checked may point to values of a log of which none can be read: it
            // must be named all the same.
            let (moved, stuck): (Vec<u64>, Vec<u64>) =
                logs.iter().copied().partition(|&log| can_move && holder.has_any_of(log));
            // Whatever was taken from it as a log.
            let records = self.fates.remove(&kind).map_or(0, |said| said.records);
            let mut moved_to = None;
            if moved.iter().any(is_wanted) {
                let meta = self.move_values(holder, &moved)?;
                moved_to = Some(name_of(FileKind::Values(meta.number)));
                named.0.insert(meta.number, meta);
            }
            if stuck.iter().any(is_wanted) {
                let mut meta = holder.meta.clone();
                self.make_durable(holder)?;
                if let (Place::Moved { .. }, Some(&bytes)) = (meta.place, self.files.get(&kind)) {
                    // Whatever stands at its end: no database opens with one of another length.
                    meta.file_bytes = bytes;
                }
                meta.logs = stuck.into();
                named.0.insert(meta.number, meta);
                let what = match &moved_to {
                    None => "tables point to its values".to_owned(),
                    Some(to) => format!("damaged; values that can be read stand in {to} now"),
                };
                self.speak_for(kind, FileFate::Kept, &what, records);
            } else if let Some(to) = moved_to {
                let what = format!("damaged; its values that can be read stand in {to} now");
                self.speak_for(kind, FileFate::Salvaged, &what, records);
            }
            self.ask()?;
        }
        let rest: Vec<FileKind> =
            self.files.keys().filter(|kind| matches!(kind, FileKind::Values(_))).copied().collect();
        for kind in rest {
            self.speak_for(kind, FileFate::Unneeded, "no table points to its values", 0);
        }
        for (log, records) in std::mem::take(&mut self.values.missing) {
            let what = format!(
                "{records} records were left out whose values cannot be read; older values of their keys may \
                 have come back"
            );
            let name = name_of(FileKind::Wal(log));
            self.report.lose(&name, 0, 0, &what);
        }
        Ok(named)
    }

    /// True of a log that the new manifest names, for a skipped keyspace.
    fn is_log_that_stays(&self, kind: FileKind) -> bool {
        matches!(kind, FileKind::Wal(number) if self.wals.0.contains_key(&number))
    }

    /// What of a file only the page cache may have goes to the disk. Of one that cannot be read
    /// throughout nothing is worth that.
    fn make_durable(&self, holder: &Holder) -> Result<()> {
        let vfs = self.store.env.vfs.as_ref();
        let path = self.store.dir.join(name_of(holder.kind));
        let end_bytes = vfs.open(&path, Access::Sequential)?.len_bytes()?;
        if holder.readable.is_some() || holder.durable_bytes >= end_bytes {
            return Ok(());
        }
        vfs.rewrite(&path, holder.durable_bytes..end_bytes)?;
        vfs.truncate(&path, end_bytes)
    }

    /// Writes what can be read of a damaged file, and is of these logs, into a new one.
    fn move_values(&mut self, holder: &Holder, logs: &[u64]) -> Result<ValueFileMeta> {
        let (env, dir, number) = (&self.store.env, &self.store.dir, self.store.new_number());
        self.made.push(FileKind::Values(number));
        let mut from_places: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        if let Some(directory) = &holder.directory {
            let entries = directory.iter().filter(|(log, ..)| logs.contains(log));
            from_places.extend(entries.map(|(log, from, at)| (at, (log, from))));
        }
        let path = dir.join(name_of(holder.kind));
        let mut log = Salvager::open(env.vfs.as_ref(), &path, Some(holder.meta.salt))?;
        let mut writer = MovedWriter::create(env, dir, number)?;
        while let Some(piece) = log.next()? {
            let Piece::Value { offset_bytes, codec, stored, .. } = piece else { continue };
            let from = match holder.directory {
                None => Some((holder.meta.number, offset_bytes)),
                Some(_) => from_places.get(&offset_bytes).copied(),
            };
            if let Some((log, from)) = from {
                writer.add(log, from, codec, stored)?;
            }
        }
        writer.finish()
    }
}
