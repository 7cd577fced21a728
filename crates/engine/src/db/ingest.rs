//! Bulk loading: sorted data straight into tables.
//!
//! Tables are written aside and join the tree with one edit. All their records count as written at
//! that moment: the edit gives the tables a sequence number. Memtables are read before tables, so
//! one that holds older records of the same keys is flushed first.
//! Crash: before the edit is durable the tables are orphans; after it all of them are there.

use super::commit::wait_for_level0;
use super::core::{Core, KeyspaceCore};
use super::flushing::{forget_wals, remove_wals};
use super::keyspaces;
use super::open::Running;
use super::placing::{level_for, run_for};
use super::secondary::declare::with_indexes_reset;
use crate::event::Event;
use crate::value_log::ValueMap;
use crate::version::{Change, SeparatedOutput, VersionEdit, Written};
use esker_base::key::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use esker_base::sync::atomic::Ordering;
use esker_base::{Error, Kind, Result, Trailer};
use std::sync::Arc;

/// Attempts to find the memtables empty before writers are made to wait for the flush.
const ATTEMPTS: usize = 3;

/// Bulk loading under way. Dropping it without `finish` leaves nothing behind, but for files that
/// the next open removes where the store was closed meanwhile.
pub struct Ingest {
    /// What is written aside. First, so that it is dropped first: it removes its files while the
    /// directory is still the store's, which may be closed with the next field.
    output: Option<SeparatedOutput>,
    running: Arc<Running>,
    keyspace: Arc<KeyspaceCore>,
    last_key: Option<Vec<u8>>,
    entries: u64,
}

impl Ingest {
    pub(super) fn new(running: Arc<Running>, keyspace: Arc<KeyspaceCore>) -> Ingest {
        let core = &running.core;
        let (store, options) = (core.store.clone(), keyspace.options.clone());
        let file_bytes = core.options.value_log_file_bytes;
        let output = Some(SeparatedOutput::bulk(store, options, keyspace.origin(), file_bytes));
        Ingest { output, running, keyspace, last_key: None, entries: 0 }
    }

    /// Adds a key, which must come after all added before.
    ///
    /// # Errors
    /// `InvalidArgument`: the key is out of order or over 1 MiB, or the value over 1 GiB; it was
    /// not added. After any other error the ingest is of no use any more.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            return Err(Error::invalid("a key is longer than 1 MiB or a value than 1 GiB"));
        }
        let order = &self.keyspace.options.order;
        if self.last_key.as_ref().is_some_and(|last| !order.less(last, key)) {
            return Err(Error::invalid("ingested keys must be in ascending order, each once"));
        }
        let output = self.output.as_mut().ok_or(Error::Cancelled)?;
        if let Err(error) = output.add(key, Trailer::new(0, Kind::Put), value) {
            self.output = None;
            return Err(error);
        }
        let last = self.last_key.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        self.entries += 1;
        Ok(())
    }

    /// Makes everything added visible and durable, at once. Returns the number of records.
    ///
    /// Waits up to a second while level 0 of some keyspace holds more than it may, as writes do.
    ///
    /// If the keyspace has indexes, nobody writes to indexed keyspaces meanwhile, and these indexes
    /// are built anew afterwards; until then finds fail.
    ///
    /// # Errors
    /// `InvalidArgument` if the keyspace was dropped; `Poisoned`, `NoSpace`; `Cancelled` if the
    /// database is closed, or an error of [`Ingest::put`] has ended this; of the disk. Nothing
    /// became visible then, but where the disk failed while the manifest was written, who opens
    /// the store next may find all of it.
    pub fn finish(mut self) -> Result<u64> {
        let Some(output) = self.output.take() else { return Err(Error::Cancelled) };
        let core = &self.running.core;
        let loaded = output.finish(&core.store)?;
        if loaded.tables.is_empty() {
            return Ok(0);
        }
        // What is loaded piles up in level 0 as what is flushed does.
        if core.stall.is_level0_over() {
            wait_for_level0(core).inspect_err(|_| loaded.remove(&core.store))?;
        }
        let keyspace = &self.keyspace;
        match with_indexes_reset(core, keyspace, || install(core, keyspace, &loaded)) {
            Ok(()) => Ok(self.entries),
            Err(failed) => {
                // What an edit may name must stay.
                if !failed.maybe_named {
                    loaded.remove(&core.store);
                }
                Err(failed.error)
            }
        }
    }
}

impl std::fmt::Debug for Ingest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ingest({} entries)", self.entries)
    }
}

struct Failed {
    error: Error,
    /// The manifest may hold the edit.
    maybe_named: bool,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed { error, maybe_named: false }
    }
}

/// Adds the tables to the tree.
fn install(core: &Core, keyspace: &Arc<KeyspaceCore>, loaded: &Written) -> Result<(), Failed> {
    let mut forgotten = None;
    for attempt in 0.. {
        core.check_writable()?;
        // While it cannot be, what is loaded stays unnamed and goes.
        core.mend_manifest()?;
        keyspaces::flush(core, &[keyspace.id])?;
        let mut guard = core.commit.lock();
        let commit = guard.as_mut().ok_or(Error::Cancelled)?;
        // What is loaded is persistent, and so must be all that came before.
        let empty = !(keyspace.has_memtables() || core.is_external() && core.has_unpersisted());
        if !empty && attempt < ATTEMPTS {
            continue;
        }
        if !empty {
            // Writers wait while the last of the memtable is flushed.
            commit.seal(core, &[keyspace.id])?;
            let asked = core.background.ask_for_flushes();
            let waits = || match core.is_external() {
                true => core.has_unpersisted(),
                false => !keyspace.view.load().sealed.is_empty(),
            };
            while waits() {
                core.check_writable()?;
                core.wait_asked(asked, std::time::Duration::from_millis(50))?;
            }
        }
        if keyspace.dropped.load(Ordering::Relaxed) {
            return Err(Error::invalid("the keyspace was dropped").into());
        }
        let seq = commit.take_seq(core)?;
        // Everything before it must be as durable as the tables will be.
        commit.sync(core)?;
        forgotten = add_tables(core, keyspace, loaded, seq)?;
        break;
    }
    if let Some((wal_min, map)) = forgotten {
        remove_wals(core, wal_min, &map);
    }
    core.measure_level0();
    core.background.wake_workers();
    let bytes = loaded.file_bytes();
    let tables = loaded.tables.len() as u64;
    core.events.emit(&Event::Ingested { keyspace: keyspace.id, tables, bytes });
    Ok(())
}

/// Returns the first log that is not forgotten, and where values are then.
fn add_tables(
    core: &Core,
    keyspace: &KeyspaceCore,
    loaded: &Written,
    seq: u64,
) -> Result<Option<(u64, Arc<ValueMap>)>, Failed> {
    let Written { tables, values } = loaded;
    let mut versions = core.lock_versions()?;
    let id = keyspace.id;
    let version = versions.keyspace(id)?.version.clone();
    let level = level_for(&version, keyspace, tables, |_| false);
    let run = run_for(&mut versions, &version, keyspace, level);
    let mut edit = VersionEdit::new();
    edit.changes.extend(values.iter().cloned().map(Change::ValuesAdded));
    for meta in tables {
        let meta = meta.clone().dated(seq);
        edit.push(Change::TableAdded { id, level: level as u32, run, meta });
    }
    // Loads fill no memtable, so that no flush may ever come.
    let wal_min =
        (!core.is_external()).then(|| forget_wals(core, &versions, |_, _| true, &mut edit));
    versions.commit(edit, None).map_err(|error| Failed { error, maybe_named: true })?;
    core.measure_values(&versions);
    core.note_persisted(seq);
    let version = versions.keyspace(id)?.version.clone();
    // Tables hold only what is visible, for whoever lists the snapshots.
    core.snapshots.at_once(|| {
        let supply = core.supply.clone();
        keyspace.update_view(|view| {
            view.follow(version, None);
            // Who has the view of before must not see what is written after, without this.
            view.active = Arc::new(view.active.successor(supply));
        });
        core.visible_seq.store(seq, Ordering::Release);
    });
    Ok(wal_min.map(|wal_min| (wal_min, versions.value_map().clone())))
}

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests {
    use super::*;
    use crate::db::commit_state::RetiredWal;
    use crate::db::flushing::remove_wals;
    use crate::db::{Db, Setup};
    use crate::names;
    use crate::options::Options;
    use crate::value_log::ValueMap;
    use esker_base::Env;
    use esker_base::sync::Mutex;
    use esker_base::vfs::strict::StrictVfs;
    use std::path::Path;

    /// What a load took the place of is removed behind its locks: by then the store may be closed,
    /// and another one's logs may have these names.
    #[test]
    fn logs_of_a_directory_that_was_given_up_stay() {
        let disk = StrictVfs::new();
        let env = Env::with_vfs(Arc::new(disk.clone()), 1);
        let setup = Setup { env, inline_background: true, ..Setup::default() };
        let db = Db::open_with("/db", Options::default(), setup).expect("open");
        let core = db.core();
        for (number, is_removed) in [(1_000, true), (1_001, false)] {
            let path = names::wal(&core.dir, number);
            disk.write_file(&path, b"a log").expect("written");
            core.retired.lock().push(RetiredWal {
                number,
                first_seq: 0,
                bytes: 0,
                value_bytes: 0,
                records_end: 0,
                values: None,
                writer: Arc::new(Mutex::new(None)),
            });
            remove_wals(core, number + 1, &ValueMap::default());
            assert_eq!(disk.read_file(&path).is_err(), is_removed, "{number}");
            core.store.give_up_directory();
        }
    }

    #[test]
    fn a_load_that_is_dropped_behind_the_store_leaves_nothing_behind() {
        for value_log_bytes_min in [None, Some(512)] {
            let disk = StrictVfs::new();
            let env = Env::with_vfs(Arc::new(disk.clone()), 1);
            let setup = Setup { env, inline_background: true, ..Setup::default() };
            let mut options = Options::default();
            options.default_keyspace.value_log_bytes_min = value_log_bytes_min;
            let db = Db::open_with("/db", options, setup).expect("open");
            let mut load = db.default_keyspace().ingest().expect("begun");
            load.put(b"key", &[7; 1_000]).expect("put");
            let files = || {
                let names = disk.file_names(Path::new("/db"));
                names.iter().filter(|n| n.ends_with(".tbl") || n.ends_with(".val")).count()
            };
            assert!(files() > 0, "begun");
            drop(db);
            drop(load);
            assert_eq!(files(), 0);
        }
    }

    /// Whoever found out what there is just before a load, and up to where it can be read just
    /// after the write behind it.
    #[test]
    fn what_is_written_after_a_load_is_not_seen_without_it() {
        let setup = Setup {
            env: Env::with_vfs(Arc::new(StrictVfs::new()), 1),
            inline_background: true,
            ..Setup::default()
        };
        let db = Db::open_with("/db", Options::default(), setup).expect("open");
        let (core, keyspace) = (db.core(), &db.default_keyspace().core);
        let before = keyspace.view.load_full();
        let mut load = db.default_keyspace().ingest().expect("begun");
        load.put(b"loaded", b"1").expect("put");
        load.finish().expect("loaded");
        db.put(b"written", b"2").expect("put");
        let seq = core.visible_seq.load(Ordering::Acquire);
        for key in [b"loaded", &b"written"[..]] {
            let found = core.get_in(keyspace, &before, key, seq).expect("get");
            assert!(found.is_none(), "{}", key.escape_ascii());
            assert!(db.get(key).expect("get").is_some());
        }
    }
}
