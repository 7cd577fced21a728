//! Point reads: memtables from the newest on, then runs from the newest on, until the key is found.
//!
//! The tables are approached some at a time: the first lines of each that the lookup needs are on
//! their way before the first table is looked into, since most tables answer no from their filter
//! and waiting for its line is what that costs.
//!
//! No lock is taken: the view is loaded first and the sequence number after it. In the other order
//! a flush in between could have dropped the very records that the older number sees.

use super::core::{Core, KeyspaceCore, View};
use super::snapshot::Snapshot;
use crate::log::ValuePointer;
use crate::names;
use crate::run_index::Slots;
use crate::stats::TableCounter;
use crate::table::{Probes, Spot, TableReader};
use crate::value::Value;
use crate::value_log::ValueFile;
use crate::version::{Coverage, Table};
use esker_base::checksum::hash64;
use esker_base::sync::atomic::Ordering;
use esker_base::{Error, KeyOrder, Kind, Result, Seq, Trailer};
use std::path::Path;
use std::sync::Arc;

/// Tables that are approached before the first of them is looked into.
const TABLES_AHEAD: usize = 4;

/// What a get returns.
pub(super) type Answer = Result<Option<Value>>;

/// What a table knows of a key: the newest range tombstone over it, and the newest record.
type Found = (Option<Seq>, Option<(Trailer, Value)>);

/// What is looked for.
struct Lookup<'a> {
    order: &'a KeyOrder,
    key: &'a [u8],
    probes: Probes,
    seq: Seq,
    /// What is not newer was erased.
    erased: Option<Seq>,
}

impl Core {
    /// The newest value of `key` that the snapshot (or now) sees.
    #[inline]
    pub(super) fn get(
        &self,
        keyspace: &KeyspaceCore,
        key: &[u8],
        snapshot: Option<&Snapshot>,
    ) -> Result<Option<Value>> {
        let view = keyspace.view.load();
        let found = self.get_in(keyspace, &view, key, self.read_seq(snapshot)?)?;
        if found.is_none() {
            // What was dropped is empty.
            keyspace.check_live()?;
        }
        Ok(found)
    }

    /// The newest value of `key` that is in tables.
    pub(super) fn get_persisted(&self, keyspace: &KeyspaceCore, key: &[u8]) -> Answer {
        let view = keyspace.view.load();
        let order = &keyspace.options.order;
        let hash = if order.is_hashable() { hash64(key) } else { 0 };
        let erased = view.version.erased_over(order, key);
        // Nothing of it is newer than what is visible.
        let (probes, seq) = (Probes::new(hash), self.read_seq(None)?);
        let found = self.get_in_tables(&view, Lookup { order, key, probes, seq, erased })?;
        if found.is_none() {
            keyspace.check_live()?;
        }
        Ok(found)
    }

    /// What is to be read, and at which sequence number.
    ///
    /// Groups that were deleted after the view was loaded are gone at a number taken later, but not
    /// in the view: where more than one key is read, both must be of one time. And what was dropped
    /// before the view was loaded is not there, rather than empty.
    pub(super) fn moment(
        &self,
        keyspace: &KeyspaceCore,
        snapshot: Option<&Snapshot>,
    ) -> Result<(Arc<View>, Seq)> {
        loop {
            let view = keyspace.view.load_full();
            keyspace.check_live()?;
            let seq = self.read_seq(snapshot)?;
            if keyspace.erased_seq.load(Ordering::Acquire) <= view.version.erased_seq {
                return Ok((view, seq));
            }
        }
    }

    /// The sequence number to read at. To be called after the view is loaded.
    #[inline]
    pub(super) fn read_seq(&self, snapshot: Option<&Snapshot>) -> Result<Seq> {
        match snapshot {
            Some(snapshot) => snapshot.seq_in(&self.snapshots),
            None => Ok(self.visible_seq.load(Ordering::Acquire)),
        }
    }

    /// The newest value of `key` in a view, as of a sequence number.
    #[inline]
    pub(super) fn get_in(
        &self,
        keyspace: &KeyspaceCore,
        view: &View,
        key: &[u8],
        seq: Seq,
    ) -> Answer {
        let order = &keyspace.options.order;
        let hash = if order.is_hashable() { hash64(key) } else { 0 };
        let erased = view.version.erased_over(order, key);
        for mem in view.memtables() {
            let hidden = mem.covering(key, seq);
            if let Some((trailer, value)) = mem.get(key, hash, seq) {
                return match self.fate(trailer, hidden.max(erased))? {
                    Fate::Here => Ok(Some(Value::copied(value))),
                    Fate::Elsewhere => view.read_value(&self.dir, value).map(Some),
                    Fate::Absent => Ok(None),
                };
            }
            if hidden.is_some() {
                return Ok(None);
            }
        }
        let lookup = Lookup { order, key, probes: Probes::new(hash), seq, erased };
        self.get_in_tables(view, lookup)
    }

    #[inline]
    fn get_in_tables(&self, view: &View, mut lookup: Lookup<'_>) -> Answer {
        let Lookup { order, key, .. } = lookup;
        let mut ahead = [None; TABLES_AHEAD];
        let mut approached = 0;
        let coverage = view.coverage.as_deref().filter(|coverage| coverage.speaks());
        let mut named = Named { coverage, slots: None };
        for (nth, run) in view.version.levels.iter().flatten().enumerate() {
            if named.leave_out(nth, key) {
                continue;
            }
            let Some(table) = run.table_for(order, key) else { continue };
            ahead[approached] = Some(lookup.approach(table));
            approached += 1;
            if approached == TABLES_AHEAD {
                if let Some(answer) = self.look_into(view, &mut lookup, &ahead) {
                    return answer;
                }
                approached = 0;
            }
        }
        self.look_into(view, &mut lookup, &ahead[..approached]).unwrap_or(Ok(None))
    }

    /// What the first of these tables says that knows; `None` if none does.
    #[inline]
    fn look_into(
        &self,
        view: &View,
        lookup: &mut Lookup<'_>,
        ahead: &[Option<Approached<'_>>],
    ) -> Option<Answer> {
        let mut denials = 0;
        let mut answer = None;
        for approached in ahead.iter().flatten() {
            if approached.is_denied(&mut lookup.probes) {
                denials += 1;
                continue;
            }
            answer = match lookup.search(approached) {
                Ok((hidden, Some((trailer, value)))) => Some(
                    self.fate(trailer, hidden.max(lookup.erased)).and_then(|fate| match fate {
                        Fate::Here => Ok(Some(value)),
                        Fate::Elsewhere => view.read_value(&self.dir, &value).map(Some),
                        Fate::Absent => Ok(None),
                    }),
                ),
                Ok((Some(_), None)) => Some(Ok(None)),
                Ok((None, None)) => continue,
                Err(error) => Some(Err(error)),
            };
            break;
        }
        if denials > 0 {
            let counters = self.store.counters.local();
            counters.add(TableCounter::FilterChecks, denials);
            counters.add(TableCounter::FilterNegatives, denials);
        }
        answer
    }

    /// What a found record means, given the newest range tombstone over its key in the same place.
    #[inline]
    fn fate(&self, trailer: Trailer, hidden: Option<Seq>) -> Result<Fate> {
        if hidden.is_some_and(|tombstone| tombstone > trailer.seq()) {
            return Ok(Fate::Absent);
        }
        match trailer.kind() {
            Some(Kind::Put) => Ok(Fate::Here),
            Some(Kind::Delete) => Ok(Fate::Absent),
            Some(Kind::PutPointer) => Ok(Fate::Elsewhere),
            _ => Err(Error::Incompatible {
                path: self.dir.to_path_buf(),
                what: "a record is of a kind that this version does not read".to_owned(),
            }),
        }
    }
}

/// What a found record says of its key.
enum Fate {
    /// It has the value that stands in the record.
    Here,
    /// It has the value that the record points to.
    Elsewhere,
    /// It is not there.
    Absent,
}

impl View {
    /// The value that an encoded pointer of a memtable or a table of this view leads to.
    pub(super) fn read_value(&self, dir: &Path, pointer: &[u8]) -> Result<Value> {
        let (file, pointer) = self.follow_pointer(dir, pointer)?;
        file.read(&pointer)
    }

    /// The pointer that these bytes are, and the file that holds its value.
    pub(super) fn follow_pointer(
        &self,
        dir: &Path,
        pointer: &[u8],
    ) -> Result<(Arc<ValueFile>, ValuePointer)> {
        let Some(pointer) = ValuePointer::decode(pointer) else {
            return Err(Error::corruption(dir, 0, "a pointer to a value does not decode"));
        };
        let Some(file) = self.value_file(pointer.log) else {
            let what = "a pointer leads to a log of which no file holds the values";
            return Err(Error::corruption(
                names::wal(dir, pointer.log),
                pointer.offset_bytes,
                what,
            ));
        };
        Ok((file, pointer))
    }
}

/// The runs that the run index names for a key, once it was asked.
struct Named<'v> {
    coverage: Option<&'v Coverage>,
    slots: Option<Slots>,
}

impl Named<'_> {
    /// True if the run that stands at `nth` place cannot hold the key, as the index says.
    #[inline]
    fn leave_out(&mut self, nth: usize, key: &[u8]) -> bool {
        let Some(coverage) = self.coverage else { return false };
        let speaks_for = coverage.spoken_for(nth);
        if speaks_for == 0 {
            return false;
        }
        let named = *self.slots.get_or_insert_with(|| coverage.index.slots(key));
        named & speaks_for == 0
    }
}

/// A table that may hold the key, and where, if it stays open.
#[derive(Clone, Copy)]
struct Approached<'v> {
    table: &'v Arc<Table>,
    near: Option<(&'v TableReader, Spot<'v>)>,
}

impl Approached<'_> {
    /// True if there is nothing to be found in the table, by what is at hand.
    #[inline]
    fn is_denied(&self, probes: &mut Probes) -> bool {
        self.near.is_some_and(|(_, spot)| spot.is_denied(probes))
            && self.table.meta.range_tombstones == 0
    }
}

impl Lookup<'_> {
    #[inline]
    fn approach<'v>(&self, table: &'v Arc<Table>) -> Approached<'v> {
        let near = table.kept_reader().map(|reader| (reader, self.spot(reader, table)));
        Approached { table, near }
    }

    #[inline]
    fn spot<'t>(&self, reader: &'t TableReader, table: &Table) -> Spot<'t> {
        reader.approach(self.key, &self.probes, self.seq, table.meta.seq_override)
    }

    fn search(&mut self, approached: &Approached<'_>) -> Result<Found> {
        let Approached { table, near } = approached;
        match near {
            Some((reader, spot)) => self.search_in(table, reader, spot),
            None => {
                let reader = table.reader()?;
                let spot = self.spot(&reader, table);
                self.search_in(table, &reader, &spot)
            }
        }
    }

    #[inline]
    fn search_in(&mut self, table: &Table, reader: &TableReader, spot: &Spot<'_>) -> Result<Found> {
        let hidden = match table.meta.range_tombstones {
            0 => None,
            _ => table.range_tombstones(reader).covering(self.order, self.key, self.seq),
        };
        let seq_override = table.meta.seq_override;
        let found = reader.get_at(spot, self.key, &mut self.probes, self.seq, seq_override)?;
        Ok((hidden, found))
    }
}
