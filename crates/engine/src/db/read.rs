//! Point reads: memtables from the newest on, then runs from the newest on, until the key is found.
//!
//! The tables are approached some at a time: the first lines of each that the lookup needs are on
//! their way before the first table is looked into, since most tables answer no from their filter and
//! waiting for its line is what that costs.
//!
//! No lock is taken: the view is loaded first and the sequence number after it. In the other order a
//! flush in between could have dropped the very records that the older number sees.

use super::core::{Core, KeyspaceCore, View};
use super::snapshot::Snapshot;
use crate::table::{Spot, TableReader};
use crate::value::Value;
use crate::version::{Opened, Table};
use esker_base::checksum::hash64;
use esker_base::sync::atomic::Ordering;
use esker_base::{Error, KeyOrder, Kind, Result, Seq, Trailer};
use std::sync::Arc;

/// Tables that are approached before the first of them is looked into.
const TABLES_AHEAD: usize = 4;

/// A record as found.
type Found = (Trailer, Value);

/// What is looked for.
struct Lookup<'a> {
    order: &'a KeyOrder,
    key: &'a [u8],
    hash: u64,
    seq: Seq,
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
        self.get_in(keyspace, &view, key, self.read_seq(snapshot)?)
    }

    /// The values of several keys, all as of one moment, in the order of the keys.
    pub(super) fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &KeyspaceCore,
        keys: &[K],
        snapshot: Option<&Snapshot>,
    ) -> Result<Vec<Option<Value>>> {
        let view = keyspace.view.load();
        let seq = self.read_seq(snapshot)?;
        keys.iter().map(|key| self.get_in(keyspace, &view, key.as_ref(), seq)).collect()
    }

    /// The sequence number to read at. To be called after the view is loaded.
    #[inline]
    pub(super) fn read_seq(&self, snapshot: Option<&Snapshot>) -> Result<Seq> {
        match snapshot {
            Some(snapshot) => snapshot.seq_in(&self.snapshots),
            None => Ok(self.visible_seq.load(Ordering::Acquire)),
        }
    }

    #[inline]
    fn get_in(
        &self,
        keyspace: &KeyspaceCore,
        view: &View,
        key: &[u8],
        seq: Seq,
    ) -> Result<Option<Value>> {
        let order = &keyspace.options.order;
        let hash = if order.is_hashable() { hash64(key) } else { 0 };
        let lookup = Lookup { order, key, hash, seq };
        let mems = std::iter::once(&view.active).chain(view.sealed.iter().map(|s| &s.mem));
        for mem in mems {
            let hidden = mem.covering(key, seq);
            if let Some((trailer, value)) = mem.get(key, hash, seq) {
                return self.answer(trailer, hidden, || Value::copied(value));
            }
            if hidden.is_some() {
                return Ok(None);
            }
        }
        let runs = view.version.levels.iter().flatten();
        let mut tables = runs.filter_map(|run| run.table_for(order, key));
        loop {
            let near: [_; TABLES_AHEAD] =
                std::array::from_fn(|_| tables.next().map(|table| lookup.approach(table)));
            for approached in near {
                let Some(approached) = approached else { return Ok(None) };
                let (hidden, found) = lookup.look_into(approached)?;
                if let Some((trailer, value)) = found {
                    return self.answer(trailer, hidden, || value);
                }
                if hidden.is_some() {
                    return Ok(None);
                }
            }
        }
    }

    /// What a found record means, given the newest range tombstone over its key in the same place.
    #[inline]
    fn answer(
        &self,
        trailer: Trailer,
        hidden: Option<Seq>,
        value: impl FnOnce() -> Value,
    ) -> Result<Option<Value>> {
        if hidden.is_some_and(|tombstone| tombstone > trailer.seq()) {
            return Ok(None);
        }
        match trailer.kind() {
            Some(Kind::Put) => Ok(Some(value())),
            Some(Kind::Delete) => Ok(None),
            _ => Err(Error::Incompatible {
                path: self.dir.to_path_buf(),
                what: "a record is of a kind that this version does not read".to_owned(),
            }),
        }
    }
}

/// A table that may hold the key, and where. One that is not open is opened when it is looked into.
struct Approached<'v> {
    table: &'v Arc<Table>,
    near: Option<(Opened<'v>, Spot)>,
}

impl Lookup<'_> {
    #[inline]
    fn approach<'v>(&self, table: &'v Arc<Table>) -> Approached<'v> {
        let near = table.reader_if_open().map(|reader| {
            let spot = self.spot(&reader, table);
            (reader, spot)
        });
        Approached { table, near }
    }

    #[inline]
    fn spot(&self, reader: &TableReader, table: &Table) -> Spot {
        reader.approach(self.key, self.hash, self.seq, table.meta.seq_override)
    }

    /// The newest range tombstone over the key in a table, and the newest record.
    #[inline]
    fn look_into(&self, approached: Approached<'_>) -> Result<(Option<Seq>, Option<Found>)> {
        let Approached { table, near } = approached;
        let (reader, spot) = match near {
            Some(near) => near,
            None => {
                let reader = table.reader()?;
                let spot = self.spot(&reader, table);
                (reader, spot)
            }
        };
        let hidden = match table.meta.range_tombstones {
            0 => None,
            _ => table.range_tombstones(&reader).covering(self.order, self.key, self.seq),
        };
        Ok((hidden, reader.get_at(&spot, self.key, self.hash)?))
    }
}
