//! Rebuilding without a manifest that can be relied on: all tables of a keyspace become one run.
//!
//! Tables say whose they are; records carry sequence numbers, so that a merge puts them in order.
//! What only a manifest knows is taken from readable edits where there are any, and is otherwise
//! missing: how old bulk-loaded tables are, and which tables had been replaced but not removed yet.
//! Records whose age a compaction forgot (number 0) count as older than all others; so of a log
//! nothing counts that was in tables before, as these say.

use super::evidence::{Evidence, Facts};
use super::tables::Checked;
use super::{FileFate, INDEX_REASON, Repair, Structure, table_number};
use crate::compaction::policy::leveled::roomy_level;
use crate::cursor::Cursor;
use crate::iter::{MergeCursor, Ranked, Retention};
use crate::names::{self, FileKind};
use crate::options::KeyspaceOptions;
use crate::range_tombstone::RangeTombstones;
use crate::table::{CursorOptions, FileIdentity, Origin, Properties, TableFile, read_identity};
use crate::version::{DEEPEST_LEVEL, RunCursor, RunOutput, Table, TableMeta};
use esker_base::key::SEQ_MAX;
use esker_base::vfs::Access;
use esker_base::{KeyOrder, KeyspaceId, Result, Seq, Trailer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is known of a table without opening it in the order of its keys.
struct Known {
    keyspace: KeyspaceId,
    name: String,
    order: String,
    meta: TableMeta,
    /// Up to here all records of the keyspace were in tables, it says.
    flushed_seq: Seq,
}

/// Tables to be merged, by keyspace.
type Inputs = BTreeMap<KeyspaceId, Input>;

/// Those of one keyspace.
#[derive(Default)]
struct Input {
    tables: Vec<TableMeta>,
    /// All records up to here were in tables before.
    flushed_seq: Seq,
}

impl Repair<'_> {
    /// Puts the database together from its tables and logs.
    pub(super) fn rebuild(&mut self, evidence: &Evidence) -> Result<()> {
        self.report.structure = Structure::Rebuilt;
        self.tell_unread(None);
        let facts = &evidence.facts;
        self.report.last_seq = facts.newest_seq;
        self.erased.clone_from(&facts.erased);
        self.groups.clone_from(&facts.groups);
        for (&id, (name, order)) in &facts.keyspaces {
            if !facts.dropped.contains(&id) {
                self.target(id, name, order)?;
            }
        }
        let mut inputs = Inputs::new();
        let numbers: Vec<u64> = self.files.keys().filter_map(table_number).collect();
        for number in numbers {
            self.gather(number, facts, &mut inputs)?;
            self.advance(FileKind::Table(number))?;
        }
        self.note_missing(facts);
        // What a log holds that is kept for its values is in tables, and may have been deleted
        // since. If not all of these can be read, it is better than nothing.
        let is_hurt = self.fates.iter().any(|(kind, said)| {
            // What no edit names is a leftover of a crash.
            let counts = match kind {
                FileKind::Table(_) => true,
                FileKind::Values(number) => facts.salts.contains_key(number),
                _ => false,
            };
            counts && matches!(said.fate, FileFate::Lost | FileFate::Salvaged)
        });
        for (id, input) in &inputs {
            if let Some(target) = self.keyspaces.get_mut(id) {
                target.flushed_seq = input.flushed_seq;
                target.hurt = is_hurt;
            }
            self.report.last_seq = self.report.last_seq.max(input.flushed_seq);
        }
        let logs: Vec<(u64, Option<u64>)> = self
            .files
            .keys()
            .filter_map(|kind| match *kind {
                FileKind::Wal(number) if number < facts.wal_min && !is_hurt => None,
                FileKind::Wal(number) => Some((number, facts.salts.get(&number).copied())),
                _ => None,
            })
            .collect();
        self.read_logs(&logs, None, None, facts)?;
        self.ensure_default()?;
        let ids: Vec<KeyspaceId> = self.keyspaces.keys().copied().collect();
        for (run, id) in (1..).zip(ids) {
            let mut tables = inputs.remove(&id).unwrap_or_default().tables;
            if let Some(target) = self.keyspaces.get_mut(&id) {
                tables.extend(target.log_tables.drain(..).flatten());
            }
            self.merge(id, run, tables)?;
        }
        self.report.notes.push(
            "no manifest could be relied on: records were ordered by their sequence numbers; tables \
             that had been replaced but not removed yet count again, so that deleted or older \
             values may have come back or taken the place of newer ones, and so may what deleted \
             groups left in tables that they shared"
                .to_owned(),
        );
        Ok(())
    }

    /// Tables that readable edits name and that are not there.
    fn note_missing(&mut self, facts: &Facts) {
        for (&number, fact) in &facts.tables {
            let kind = FileKind::Table(number);
            let dropped = facts.dropped.contains(&fact.keyspace);
            if fact.removed || dropped || self.files.contains_key(&kind) {
                continue;
            }
            if facts.is_of_index(number) {
                self.speak_for(kind, FileFate::Unneeded, INDEX_REASON, 0);
            } else {
                let reason = "missing; an edit names it, which later ones may have undone";
                self.speak_for(kind, FileFate::Lost, reason, 0);
            }
        }
    }

    /// Finds out whose table this is, and takes it, or what is readable of it, as an input.
    fn gather(&mut self, number: u64, facts: &Facts, inputs: &mut Inputs) -> Result<()> {
        let kind = FileKind::Table(number);
        if facts.is_obsolete(number, &self.files) {
            let reason = "replaced by other tables, says a version edit";
            self.speak_for(kind, FileFate::Unneeded, reason, 0);
            return Ok(());
        }
        let known = match self.identify(number, facts) {
            Ok(known) => known,
            // What nobody reads hurts nobody.
            Err(_) if facts.is_of_index(number) => {
                self.speak_for(kind, FileFate::Unneeded, INDEX_REASON, 0);
                return Ok(());
            }
            Err(why) => {
                self.speak_for(kind, FileFate::Lost, &why, 0);
                return Ok(());
            }
        };
        let id = known.keyspace;
        if facts.dropped.contains(&id) {
            self.speak_for(kind, FileFate::Unneeded, "its keyspace was dropped", 0);
            return Ok(());
        }
        self.target(id, &known.name, &known.order)?;
        if names::is_index(&known.name) {
            self.speak_for(kind, FileFate::Unneeded, INDEX_REASON, 0);
            return Ok(());
        }
        let Some(target) = self.keyspaces.get(&id) else { return Ok(()) };
        let (options, origin) = (target.options.clone(), target.origin(id));
        let Some(options) = options else {
            self.speak_for(kind, FileFate::Lost, "its keyspace is skipped", 0);
            self.report.keyspace(id).tables_lost += 1;
            return Ok(());
        };
        let checked = self.check(&known.meta, &options, origin, DEEPEST_LEVEL)?;
        let tables = match checked {
            Checked::Sound => {
                let records = known.meta.entries + known.meta.range_tombstones;
                if let Some(said) = self.fates.get_mut(&kind) {
                    said.fate = FileFate::Read;
                    said.records = records;
                }
                vec![known.meta]
            }
            Checked::Written(tables) => tables,
            Checked::Lost => {
                self.report.keyspace(id).tables_lost += 1;
                Vec::new()
            }
        };
        let input = inputs.entry(id).or_default();
        input.tables.extend(tables);
        input.flushed_seq = input.flushed_seq.max(known.flushed_seq);
        Ok(())
    }

    /// Whose table it is, from readable edits or from the table itself.
    fn identify(&mut self, number: u64, facts: &Facts) -> Result<Known, String> {
        let path = names::table(&self.store.dir, number);
        let open = self.store.env.vfs.open(&path, Access::Random);
        let file = open.map_err(|error| error.to_string())?;
        let identity = read_identity(file.as_ref(), &path);
        let properties = |identity: &FileIdentity| {
            TableFile::new(file.clone(), &path, identity.file_bytes, identity.salt).properties()
        };
        let fact = facts.tables.get(&number).filter(|fact| {
            identity.as_ref().map_or(true, |identity| identity.salt == fact.meta.salt)
        });
        if let Some(fact) = fact
            && let Some((name, order)) = facts.keyspaces.get(&fact.keyspace)
        {
            let (name, order) = (name.clone(), order.clone());
            let origin = identity.ok().and_then(|identity| properties(&identity).ok()?.origin);
            return Ok(Known {
                keyspace: fact.keyspace,
                name,
                order,
                meta: fact.meta.clone(),
                flushed_seq: origin.map_or(0, |origin| origin.flushed_seq),
            });
        }
        let identity = identity.map_err(|error| format!("{error}: nothing else knows its salt"))?;
        let properties = properties(&identity)
            .map_err(|error| format!("{error}: nothing says which keyspace it belongs to"))?;
        let Some(origin) = properties.origin.clone() else {
            return Err("it does not say which keyspace it belongs to".to_owned());
        };
        if origin.ingested && fact.is_none() {
            self.report.notes.push(format!(
                "{} was bulk-loaded, and only the lost manifest knew when: where other tables or logs \
                 hold the same key, theirs counts",
                path.display()
            ));
        }
        let name = match facts.keyspaces.get(&origin.keyspace) {
            Some((name, _)) => name.clone(),
            None => origin.name.to_string(),
        };
        let order = properties.order.clone();
        let meta = match fact {
            Some(fact) => fact.meta.clone(),
            None => meta_of(number, identity.file_bytes, identity.salt, properties),
        };
        let (keyspace, flushed_seq) = (origin.keyspace, origin.flushed_seq);
        Ok(Known { keyspace, name, order, meta, flushed_seq })
    }

    /// Merges the tables of a keyspace into one run.
    pub(super) fn merge(&mut self, id: KeyspaceId, run: u64, tables: Vec<TableMeta>) -> Result<()> {
        let Some(target) = self.keyspaces.get(&id) else { return Ok(()) };
        let (Some(options), false) = (target.options.clone(), tables.is_empty()) else {
            return Ok(());
        };
        let origin = target.origin(id);
        let erased = self.erased.get(&id).map_or(&[][..], Vec::as_slice);
        let erased = RangeTombstones::build(&options.order, erased).newest();
        let bytes = tables.iter().map(|meta| meta.file_bytes).sum();
        let level = roomy_level(&options, bytes);
        for meta in &tables {
            self.report.last_seq = self.report.last_seq.max(meta.max_seq);
        }
        let tables: Vec<Arc<Table>> =
            tables.into_iter().map(|meta| self.store.table(meta, &options)).collect();
        let merged = self.merge_tables(&options, origin, level, tables, &erased)?;
        self.note_made(&merged);
        let report = self.report.keyspace(id);
        report.tables_kept = 0;
        report.tables_written = merged.len() as u64;
        if let Some(target) = self.keyspaces.get_mut(&id) {
            for meta in merged {
                target.tables.insert((level as u32, meta.number), (run, meta));
            }
        }
        Ok(())
    }

    fn merge_tables(
        &self,
        options: &Arc<KeyspaceOptions>,
        origin: Origin,
        level: usize,
        tables: Vec<Arc<Table>>,
        erased: &RangeTombstones,
    ) -> Result<Vec<TableMeta>> {
        let order = &options.order;
        let mut all = Vec::new();
        for table in tables.iter().filter(|table| table.meta.range_tombstones > 0) {
            let reader = table.shared_reader()?;
            all.extend(table.range_tombstones(&reader).records());
        }
        let tombstones = RangeTombstones::build(order, &all);
        let fragments = tombstones.thinned(&[]).collect();
        self.write_run(options, origin, level, fragments, |output| {
            output.leave_out_erased(erased.records().map(|one| one.seq).max().unwrap_or(0));
            copy(order, tables, &tombstones, erased, output)
        })
    }
}

/// Copies what can be seen of the tables, in order.
fn copy(
    order: &KeyOrder,
    tables: Vec<Arc<Table>>,
    tombstones: &RangeTombstones,
    erased: &RangeTombstones,
    output: &mut RunOutput,
) -> Result<()> {
    let chains = chains(order, tables);
    let is_erased = |key: &[u8], trailer: Trailer, rank: usize| {
        erased
            .covering(order, key, SEQ_MAX)
            .is_some_and(|seq| is_erased(order, &chains[rank], key, trailer, seq))
    };
    let readahead = (super::READAHEAD_BYTES / chains.len().max(1)).clamp(4 << 10, 512 << 10);
    let options = CursorOptions::compaction(readahead);
    let sources = chains
        .iter()
        .enumerate()
        .map(|(rank, chain)| Ranked {
            rank,
            cursor: RunCursor::over(order.clone(), chain.clone(), options),
        })
        .collect();
    let mut cursor = MergeCursor::new(order.clone(), sources);
    let mut retention = Retention::new(order, &[], tombstones);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    cursor.seek_to_first()?;
    while cursor.valid() {
        if is_erased(cursor.key(), cursor.trailer(), cursor.rank()) {
            cursor.next()?;
            continue;
        }
        key.clear();
        key.extend_from_slice(cursor.key());
        value.clear();
        value.extend_from_slice(cursor.value());
        let (trailer, mut rank): (Trailer, usize) = (cursor.trailer(), cursor.rank());
        cursor.next()?;
        // The same record may stand in several tables; of records without an age, that of the
        // newest table counts.
        while cursor.valid() && cursor.trailer() == trailer && order.same(cursor.key(), &key) {
            if cursor.rank() < rank && !is_erased(&key, trailer, cursor.rank()) {
                rank = cursor.rank();
                value.clear();
                value.extend_from_slice(cursor.value());
            }
            cursor.next()?;
        }
        if retention.is_seen(&key, trailer) {
            output.add(&key, trailer, &value)?;
        }
    }
    Ok(())
}

/// True if a record of one of these tables was erased, where everything up to `seq` was.
///
/// One whose number a compaction forgot was, unless the table is known to have been cleared since.
fn is_erased(
    order: &KeyOrder,
    chain: &[Arc<Table>],
    key: &[u8],
    trailer: Trailer,
    seq: Seq,
) -> bool {
    if trailer.seq() > 0 {
        return trailer.seq() <= seq;
    }
    let at = chain.partition_point(|table| table.ends_before(order, key));
    chain.get(at).is_some_and(|table| table.meta.erased_seq < seq)
}

/// Groups tables into lists of disjoint ones, so that few need to be open at once. Tables of higher
/// numbers stand in earlier lists.
fn chains(order: &KeyOrder, mut tables: Vec<Arc<Table>>) -> Vec<Vec<Arc<Table>>> {
    tables.sort_by_key(|table| std::cmp::Reverse(table.meta.number));
    let mut chains: Vec<Vec<Arc<Table>>> = Vec::new();
    for table in tables {
        let disjoint = |other: &Arc<Table>| {
            other.ends_before(order, &table.meta.smallest)
                || table.ends_before(order, &other.meta.smallest)
        };
        // Behind the last list with a table it overlaps: that one is newer.
        let after = chains.iter().rposition(|chain| !chain.iter().all(disjoint));
        let at = after.map_or(0, |at| at + 1);
        match chains.get_mut(at) {
            Some(chain) => chain.push(table),
            None => chains.push(vec![table]),
        }
    }
    for chain in &mut chains {
        chain.sort_by(|a, b| order.compare(&a.meta.smallest, &b.meta.smallest));
    }
    chains
}

/// What a manifest would say of a table that only speaks for itself.
fn meta_of(number: u64, file_bytes: u64, salt: u64, properties: Properties) -> TableMeta {
    TableMeta {
        // Nobody knows what was erased before it was written: better that it comes back than that
        // what is there is lost.
        erased_seq: SEQ_MAX,
        number,
        salt,
        file_bytes,
        smallest: properties.smallest_key.into(),
        largest: properties.largest_key.into(),
        largest_exclusive: properties.largest_exclusive,
        entries: properties.entries,
        tombstones: properties.tombstones,
        range_tombstones: properties.range_tombstones,
        raw_bytes: properties.raw_key_bytes + properties.raw_value_bytes,
        min_seq: properties.seq_min,
        max_seq: properties.seq_max,
        seq_override: None,
        references: Arc::default(),
    }
}
