//! Write-ahead logs: every readable record, in write order, into tables.
//!
//! Several logs may hold the same records: a log is carried over into the next at open. And a log
//! whose append failed may hold records that a later log replaced. So the logs are read twice:
//! first to learn which sequence numbers each of them holds, as stretches without gaps; then
//! stretch by stretch in the order of the sequence numbers, each number from the newest log that
//! has it.

use super::evidence::{Facts, name_of};
use super::{FileFate, MissingWrites, Repair, Target};
use crate::flush::{Hidden, flush_memtable};
use crate::log::{LogKind, Piece, Salvager};
use crate::memtable::Memtable;
use crate::names::{self, FileKind};
use crate::options::replayed_memtable_bytes;
use crate::version::Recovered;
use esker_base::batch::{self, BatchOp};
use esker_base::{KeyspaceId, Result, Seq, Trailer};
use std::sync::Arc;

/// Records of consecutive sequence numbers in one log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    first: Seq,
    last: Seq,
    /// Index of the log.
    log: usize,
    /// Where its first record may stand, at the earliest.
    offset_bytes: u64,
}

/// A log as the first reading found it.
struct Found {
    number: u64,
    salt: Option<u64>,
    /// Records of earlier logs from here on are void. `None` if the header is unreadable.
    first_seq: Option<Seq>,
    stretches: Vec<Stretch>,
    damaged: bool,
    torn: bool,
    /// The manifest does not name it, and tells of a close before some of its records.
    late: bool,
    used: u64,
}

impl Repair<'_> {
    /// True if a log that the manifest does not name yet holds a record.
    pub(super) fn has_unnamed_records(&self, state: &Recovered) -> Result<bool> {
        for (number, _) in self.logs_of(state) {
            if state.wals.0.contains_key(&number) {
                continue;
            }
            let path = names::wal(&self.store.dir, number);
            let mut log = Salvager::open(self.store.env.vfs.as_ref(), &path, None)?;
            while let Some(piece) = log.next()? {
                if matches!(piece, Piece::Record { .. }) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The logs that count beside a manifest: those it names, and newer ones, but for such as it
    /// says nobody needs any more.
    pub(super) fn logs_of(&self, state: &Recovered) -> Vec<(u64, Option<u64>)> {
        let mut logs: Vec<_> = state.wals.0.iter().map(|(&n, wal)| (n, Some(wal.salt))).collect();
        let newest = state.wals.0.keys().next_back().copied().unwrap_or(0);
        logs.extend(self.files.keys().filter_map(|kind| match *kind {
            FileKind::Wal(number) if state.values.0.contains_key(&number) => None,
            FileKind::Wal(number) if number > newest && number >= state.wals.1 => {
                Some((number, None))
            }
            _ => None,
        }));
        logs
    }

    /// Takes what is readable of these logs. `closed` is the newest sequence number of an orderly
    /// close after which nothing was written.
    pub(super) fn read_logs(
        &mut self,
        logs: &[(u64, Option<u64>)],
        closed: Option<Seq>,
        state: Option<&Recovered>,
        facts: &Facts,
    ) -> Result<()> {
        let (mut found, mut named_from) = (Vec::new(), 0);
        for &(number, salt) in logs {
            let log = self.survey(number, salt, found.len(), state.is_some())?;
            let first_seq = log.as_ref().and_then(|log| log.first_seq);
            let has_records = log.as_ref().is_some_and(|log| !log.stretches.is_empty());
            if salt.is_some() {
                named_from = first_seq.unwrap_or(0).max(named_from);
            }
            // Logs of one store begin one behind the other.
            if salt.is_none() && has_records && first_seq.is_some_and(|seq| seq < named_from) {
                let reason = "it begins before logs of lower numbers: it is another store's";
                self.speak_for(FileKind::Wal(number), FileFate::Lost, reason, 0);
            } else {
                found.extend(log);
            }
            self.ask()?;
        }
        self.void(&mut found, closed);
        let stretches = choose(&found);
        let starts = found.iter().filter_map(|log| log.first_seq).min();
        self.report_gaps(&stretches, starts, closed, state);
        // With gaps in the logs an old record could come back without the newer one of its key.
        let whole = found.iter().all(|log| !log.damaged) && self.report.missing_writes.is_empty();
        for target in self.keyspaces.values_mut() {
            target.hurt &= whole;
        }
        let mut last = 0;
        for stretch in &stretches {
            self.ask()?;
            self.replay(stretch, &mut found, &mut last, state, facts)?;
        }
        self.report.last_seq = self.report.last_seq.max(last).max(closed.unwrap_or(0));
        self.flush_all()?;
        self.speak_for_logs(&found, state);
        Ok(())
    }

    /// Reads a log for the first time.
    fn survey(
        &mut self,
        number: u64,
        salt: Option<u64>,
        index: usize,
        has_manifest: bool,
    ) -> Result<Option<Found>> {
        let kind = FileKind::Wal(number);
        let name = name_of(kind);
        if !self.files.contains_key(&kind) {
            let reason = "missing, although the manifest names it";
            self.speak_for(kind, FileFate::Lost, reason, 0);
            return Ok(None);
        }
        let path = names::wal(&self.store.dir, number);
        let mut log = match Salvager::open(self.store.env.vfs.as_ref(), &path, salt) {
            Ok(log) => log,
            Err(error) => {
                self.speak_for(kind, FileFate::Lost, &error.to_string(), 0);
                return Ok(None);
            }
        };
        let header = log.header().ok();
        let foreign = header.is_some_and(|h| {
            let other = has_manifest && salt.is_some_and(|salt| salt != h.salt);
            h.kind != LogKind::Wal || h.number != number || other
        });
        if foreign {
            let reason = "it is another file than it should be";
            self.speak_for(kind, FileFate::Lost, reason, 0);
            return Ok(None);
        }
        let mut found = Found {
            number,
            salt,
            first_seq: header.map(|header| header.first_seq),
            stretches: Vec::new(),
            damaged: header.is_none(),
            torn: false,
            late: false,
            used: 0,
        };
        // A log that was being created when power failed, before any manifest named it, or was
        // never begun.
        let blank = match salt {
            None => log.is_blank(),
            Some(salt) => log.is_unbegun(number, salt),
        };
        if header.is_none() && blank.unwrap_or(false) {
            found.damaged = false;
            return Ok(Some(found));
        }
        self.scan(&mut log, &mut found, index, &name);
        self.tolerant.survey(&path);
        Ok(Some(found))
    }

    /// Goes through the records of a log, and lists what cannot be read.
    fn scan(&mut self, log: &mut Salvager, found: &mut Found, index: usize, name: &str) {
        let mut gaps: Vec<(u64, u64, bool)> = Vec::new();
        let mut durable = 0;
        loop {
            let piece = match log.next() {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                Err(error) => {
                    self.report.lose(name, 0, 0, &error.to_string());
                    found.damaged = true;
                    break;
                }
            };
            match piece {
                Piece::Value { .. } => {}
                Piece::Mark { durable_bytes, .. } => durable = durable_bytes.max(durable),
                Piece::Gap(gap) => gaps.push((gap.offset_bytes, gap.bytes, gap.is_tail)),
                Piece::Record { offset_bytes, payload, .. } => match span(payload) {
                    Some((first, last)) => found.add(first, last, index, offset_bytes),
                    None if is_empty(payload) => {}
                    None => gaps.push((offset_bytes, payload.len() as u64, false)),
                },
            }
        }
        for (offset, bytes, is_tail) in gaps {
            // Of a torn tail nobody was promised anything.
            let torn = is_tail && durable <= offset && offset > 0;
            let what = if torn { "torn tail, never synced" } else { "no record can be read" };
            self.report.lose(name, offset, bytes, what);
            found.damaged |= !torn;
            found.torn |= torn;
        }
    }

    /// Leaves out records that a later log, or a close, makes void.
    fn void(&mut self, found: &mut [Found], closed: Option<Seq>) {
        let mut void_from = closed.map_or(Seq::MAX, |seq| seq + 1);
        for log in found.iter_mut().rev() {
            // In a log that is named a failed append may have left something.
            let is_late = |stretch: &Stretch| closed.is_some_and(|seq| stretch.last > seq);
            log.late = log.salt.is_none() && log.stretches.iter().any(is_late);
            log.stretches.retain(|stretch| stretch.first < void_from);
            for stretch in &mut log.stretches {
                stretch.last = stretch.last.min(void_from - 1);
            }
            void_from = void_from.min(log.first_seq.unwrap_or(Seq::MAX));
        }
    }

    /// Lists the sequence numbers that no log holds between those that some log holds, or should.
    fn report_gaps(
        &mut self,
        stretches: &[Stretch],
        starts: Option<Seq>,
        closed: Option<Seq>,
        state: Option<&Recovered>,
    ) {
        // Logs begin at or before what is not in tables yet, and reach at least as far as the
        // tables.
        let in_tables = state.map_or(0, Recovered::newest_table_seq);
        let first = stretches.first().map(|stretch| stretch.first);
        let begin = first.into_iter().chain(starts).min();
        let mut last = match (state, begin) {
            (Some(_), begin) => begin.map_or(in_tables, |begin| in_tables.min(begin - 1)),
            (None, _) => first.map_or(0, |first| first - 1),
        };
        let mut missing = Vec::new();
        for stretch in stretches {
            if stretch.first > last + 1 {
                missing.push(MissingWrites { first_seq: last + 1, last_seq: stretch.first - 1 });
            }
            last = last.max(stretch.last);
        }
        let end = in_tables.max(closed.unwrap_or(0));
        if end > last {
            missing.push(MissingWrites { first_seq: last + 1, last_seq: end });
        }
        self.report.missing_writes = missing;
    }

    /// Reads a stretch for the second time and applies it.
    fn replay(
        &mut self,
        stretch: &Stretch,
        found: &mut [Found],
        last: &mut Seq,
        state: Option<&Recovered>,
        facts: &Facts,
    ) -> Result<()> {
        let log = &mut found[stretch.log];
        let path = names::wal(&self.store.dir, log.number);
        let mut reader = Salvager::open(self.store.env.vfs.as_ref(), &path, log.salt)?;
        while let Some(piece) = reader.next()? {
            let Piece::Record { offset_bytes, payload, .. } = piece else { continue };
            if offset_bytes < stretch.offset_bytes {
                continue;
            }
            let Some((first, end)) = span(payload) else { continue };
            if first > stretch.last {
                break;
            }
            if first < stretch.first || first <= *last {
                continue;
            }
            let Ok((_, _, ops)) = batch::decode(payload) else { continue };
            for (seq, op) in (first..).zip(ops.flatten()) {
                self.apply(&op, seq, state, facts)?;
                log.used += 1;
            }
            *last = end;
        }
        Ok(())
    }

    fn apply(
        &mut self,
        op: &BatchOp<'_>,
        seq: Seq,
        state: Option<&Recovered>,
        facts: &Facts,
    ) -> Result<()> {
        let id = op.keyspace;
        if !self.keyspaces.contains_key(&id) && !self.adopt(id, state, facts)? {
            return Ok(());
        }
        let Some(target) = self.keyspaces.get_mut(&id) else { return Ok(()) };
        if names::is_index(&target.name) {
            return Ok(());
        }
        if seq <= target.flushed_seq {
            if !target.hurt {
                return Ok(());
            }
            target.revived = true;
        }
        let Some(options) = target.options.clone() else {
            self.report.keyspace(id).log_operations_skipped += 1;
            return Ok(());
        };
        if op.is_empty_range() || !self.values.keeps(Trailer::new(seq, op.kind), op.value) {
            return Ok(());
        }
        let order = options.order.clone();
        let mem = target.mem.get_or_insert_with(|| Arc::new(Memtable::new(order))).clone();
        let before = mem.memory_bytes();
        mem.writer().apply(op, None, seq);
        let grown = mem.memory_bytes() - before;
        target.mem_bytes += grown;
        self.mem_bytes += grown;
        self.report.keyspace(id).log_operations += 1;
        let bytes_max = self.options.memtables_limit_bytes();
        if mem.is_full(replayed_memtable_bytes(bytes_max)) {
            return self.flush(id);
        }
        if self.mem_bytes <= bytes_max {
            return Ok(());
        }
        let largest = self.keyspaces.iter().max_by_key(|(_, target)| target.mem_bytes);
        let id = largest.map_or(id, |(&id, _)| id);
        self.flush(id)
    }

    /// A keyspace that only logs speak of: false if it was dropped after this was written.
    fn adopt(&mut self, id: KeyspaceId, state: Option<&Recovered>, facts: &Facts) -> Result<bool> {
        let known_then = state.is_some_and(|state| u64::from(id.0) < state.next_number);
        if known_then || facts.dropped.contains(&id) {
            return Ok(false);
        }
        if let Some((name, order)) = facts.keyspaces.get(&id) {
            self.target(id, name, order)?;
            return Ok(true);
        }
        if id == KeyspaceId::DEFAULT {
            self.ensure_default()?;
            return Ok(true);
        }
        let name = format!("recovered-{}", id.0);
        let order = self.options.for_keyspace(&name).order.name().to_owned();
        self.report.notes.push(format!(
            "only logs hold records of keyspace {}, and they do not say its name or key order: it is \
             now {name:?} in the order {order:?}",
            id.0
        ));
        self.target(id, &name, &order)?;
        Ok(true)
    }

    fn flush_all(&mut self) -> Result<()> {
        let ids: Vec<KeyspaceId> = self.keyspaces.keys().copied().collect();
        ids.into_iter().try_for_each(|id| self.flush(id))
    }

    /// Writes what was taken so far for a keyspace as tables.
    fn flush(&mut self, id: KeyspaceId) -> Result<()> {
        let Some(target) = self.keyspaces.get_mut(&id) else { return Ok(()) };
        let (Some(mem), Some(options)) = (target.mem.take(), target.options.clone()) else {
            return Ok(());
        };
        self.mem_bytes -= std::mem::take(&mut target.mem_bytes);
        let origin = target.origin(id);
        let store = &self.store;
        let tables =
            flush_memtable(store, &options, origin, &mem, &Hidden::by_newer(), None, &|| false)?
                .tables;
        self.note_made(&tables);
        self.ask()?;
        self.report.keyspace(id).tables_written += tables.len() as u64;
        let target: Option<&mut Target> = self.keyspaces.get_mut(&id);
        if let Some(target) = target {
            target.log_tables.push(tables);
        }
        Ok(())
    }

    /// What becomes of the logs.
    fn speak_for_logs(&mut self, found: &[Found], state: Option<&Recovered>) {
        let skipped = self.keyspaces.values().any(|target| target.options.is_none());
        let sound = found.iter().all(|log| !log.damaged)
            && self.report.missing_writes.is_empty()
            && state.is_some_and(|state| {
                state.wals.0.keys().all(|&n| self.files.contains_key(&FileKind::Wal(n)))
            });
        for log in found {
            let kind = FileKind::Wal(log.number);
            let named = state.and_then(|state| state.wals.0.get(&log.number));
            if let Some(&wal) = named.filter(|_| skipped && sound) {
                self.wals.0.insert(log.number, wal);
                self.speak_for(kind, FileFate::Kept, "needed for a skipped keyspace", log.used);
            } else if log.late {
                let reason = "written after the close that the manifest tells of";
                self.speak_for(kind, FileFate::Unneeded, reason, log.used);
                self.report.notes.push(format!(
                    "{} holds records from after the close that the manifest tells of, as where a backup \
                     was put over a newer store: they were left out",
                    name_of(kind)
                ));
            } else if !log.damaged {
                let reason = if log.torn { "read up to its torn tail" } else { "sound" };
                self.speak_for(kind, FileFate::Read, reason, log.used);
            } else if log.used == 0 && log.stretches.is_empty() {
                self.speak_for(kind, FileFate::Lost, "nothing in it can be read", 0);
            } else {
                self.speak_for(kind, FileFate::Salvaged, "damaged", log.used);
            }
        }
        let logs: Vec<FileKind> =
            self.files.keys().filter(|kind| matches!(kind, FileKind::Wal(_))).copied().collect();
        for kind in logs {
            let reason = "all it held is in tables, says the manifest";
            self.speak_for(kind, FileFate::Unneeded, reason, 0);
        }
    }
}

impl Found {
    /// Notes a record.
    fn add(&mut self, first: Seq, last: Seq, log: usize, offset_bytes: u64) {
        match self.stretches.last_mut() {
            Some(stretch) if stretch.last + 1 == first => stretch.last = last,
            _ => self.stretches.push(Stretch { first, last, log, offset_bytes }),
        }
    }
}

/// First and last sequence number of a sealed batch, if all of it decodes and it is not empty.
fn span(payload: &[u8]) -> Option<(Seq, Seq)> {
    let (first, count, mut ops) = batch::decode(payload).ok()?;
    let last = first.checked_add(u64::from(count))?.checked_sub(1)?;
    let sound = count > 0 && first > 0 && last <= esker_base::key::SEQ_MAX;
    (sound && ops.all(|op| op.is_ok())).then_some((first, last))
}

fn is_empty(payload: &[u8]) -> bool {
    batch::decode(payload).is_ok_and(|(_, count, _)| count == 0)
}

/// Cuts the stretches so that each sequence number comes from the newest log that holds it; in
/// order.
fn choose(found: &[Found]) -> Vec<Stretch> {
    let mut chosen: Vec<Stretch> = Vec::new();
    for log in found.iter().rev() {
        let newer = chosen.clone();
        for stretch in &log.stretches {
            let mut rest = vec![*stretch];
            for other in &newer {
                rest = rest.into_iter().flat_map(|piece| without(piece, other)).collect();
            }
            chosen.extend(rest);
        }
    }
    chosen.sort_by_key(|stretch| stretch.first);
    chosen
}

/// The parts of `stretch` outside `other`.
fn without(stretch: Stretch, other: &Stretch) -> Vec<Stretch> {
    if other.first > stretch.last || other.last < stretch.first {
        return vec![stretch];
    }
    let mut parts = Vec::new();
    if stretch.first < other.first {
        parts.push(Stretch { last: other.first - 1, ..stretch });
    }
    if stretch.last > other.last {
        parts.push(Stretch { first: other.last + 1, ..stretch });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_from_the_newest_log_that_has_it() {
        let log = |index: usize, spans: &[(Seq, Seq)]| Found {
            number: index as u64,
            salt: None,
            first_seq: None,
            stretches: spans
                .iter()
                .map(|&(first, last)| Stretch { first, last, log: index, offset_bytes: 0 })
                .collect(),
            damaged: false,
            torn: false,
            late: false,
            used: 0,
        };
        let found = [log(0, &[(1, 50)]), log(1, &[(7, 20), (45, 60)]), log(2, &[(10, 12)])];
        let chosen: Vec<(Seq, Seq, usize)> =
            choose(&found).iter().map(|s| (s.first, s.last, s.log)).collect();
        let expected = [(1, 6, 0), (7, 9, 1), (10, 12, 2), (13, 20, 1), (21, 44, 0), (45, 60, 1)];
        assert_eq!(chosen, expected);
    }
}
