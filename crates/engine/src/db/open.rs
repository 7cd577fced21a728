//! Opening and closing a database.
//!
//! ```text
//! lock -> CURRENT? -- no --> create
//!            | yes
//!         manifest -> are all named files there? -> replay logs -> new manifest, new log
//!         -> remove orphans
//! ```

use super::commit_state::CommitState;
use super::core::{BegunWal, Core, KeyspaceCore, Keyspaces, Parts, memtable_supply};
use super::journal::Journal;
use super::recover;
use super::replayed::{Replayed, Spill};
use super::secondary::catalogue::options_for;
use super::spare::{self, create_first};
use super::workers::Workers;
use crate::event::{EventListener, EventSink};
use crate::memtable::Supply;
use crate::names::{self, FileKind};
use crate::options::{Durability, Options};
use crate::version::{
    Change, KeyspaceRecord, ManifestRemains, NamedWals, Recovered, TableStore, VersionEdit,
    VersionSet,
};
use esker_base::vfs::{FileLock, create_dir_durably};
use esker_base::{Env, Error, KeyspaceId, Result};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name of the keyspace every database has.
pub(super) const DEFAULT_KEYSPACE: &str = "default";

/// What an open needs beside the options: the world and who listens.
#[derive(Clone)]
pub struct Setup {
    /// File system, clock, randomness.
    pub env: Env,
    /// Receives events.
    pub listener: Option<Arc<dyn EventListener>>,
    /// Start no threads: whoever writes, flushes or waits does the work in the background itself.
    /// The same calls then lead to the same files, which tests and simulations need. Default:
    /// false.
    pub inline_background: bool,
    /// Fail if [`Options::keyspaces`] has options of a keyspace that is not there, which would do
    /// nothing, by `InvalidArgument`; a database that is not there either is not made then.
    /// Default: false, for those who give them before
    /// [`Db::create_keyspace`](crate::Db::create_keyspace) too.
    pub keyspaces_must_exist: bool,
}

impl Default for Setup {
    /// The real machine, and nobody listens.
    fn default() -> Setup {
        Setup {
            env: Env::posix(),
            listener: None,
            inline_background: false,
            keyspaces_must_exist: false,
        }
    }
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").field("env", &self.env).finish_non_exhaustive()
    }
}

/// An open database with its threads: what the last handle drops.
pub(super) struct Running {
    pub(super) core: Arc<Core>,
    workers: esker_base::sync::Mutex<Option<Workers>>,
    /// What came of closing it.
    closed: esker_base::sync::Mutex<Option<Result<()>>>,
    /// The process that has opened it. A child that it forks has a copy of all this, but neither
    /// the threads nor the files.
    process: u32,
}

/// Opens a database for reading and writing.
pub(super) fn open(dir: &Path, options: Options, setup: Setup) -> Result<Running> {
    options.validate()?;
    let opening = Opening::new(dir, options, setup)?;
    let (env, dir) = (&opening.env, &*opening.dir);
    if !env.vfs.exists(&names::current(dir))? {
        if !opening.options.create_if_missing {
            if !env.vfs.exists(dir)? {
                return Err(Error::NotFound { path: dir.to_path_buf() });
            }
            // A directory that holds no database is not even given a lock.
            check_no_data(env, dir)?;
            return Err(Error::NotFound { path: names::current(dir) });
        }
        if let Err(missing) = opening.check_named([DEFAULT_KEYSPACE].into_iter()) {
            if env.vfs.exists(dir)? {
                check_no_data(env, dir)?;
            }
            return Err(missing);
        }
        create_dir_durably(env.vfs.as_ref(), dir)?;
    }
    let lock = env.vfs.lock(&names::lock(dir))?;
    let core = if env.vfs.exists(&names::current(dir))? {
        if opening.options.error_if_exists {
            return Err(Error::invalid(format!("{} exists already", dir.display())));
        }
        opening.recover(lock)?
    } else {
        opening.create(lock)?
    };
    let core = Arc::new(core);
    core.measure_level0();
    let workers = if core.background.is_inline() { None } else { Some(Workers::start(&core)?) };
    core.run_inline();
    Ok(Running::new(core, workers))
}

/// Opens a database for reading only: nothing on the disk changes.
pub(super) fn open_read_only(dir: &Path, options: Options, setup: Setup) -> Result<Running> {
    options.validate()?;
    let opening = Opening::new(dir, options, setup)?;
    let lock_path = names::lock(&opening.dir);
    // Without a lock file nobody has it open, and where nothing can be locked nobody can open it to
    // write.
    let lock = match opening.env.vfs.lock_existing(&lock_path) {
        Ok(lock) => Some(lock),
        Err(Error::NotFound { .. }) => None,
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::Unsupported => None,
        Err(error) => return Err(error),
    };
    let core = Arc::new(opening.read_only(lock)?);
    Ok(Running::new(core, None))
}

/// An open under way.
struct Opening {
    env: Env,
    dir: PathBuf,
    options: Options,
    events: EventSink,
    store: Arc<TableStore>,
    inline: bool,
    keyspaces_must_exist: bool,
}

impl Opening {
    fn new(dir: &Path, options: Options, setup: Setup) -> Result<Opening> {
        // Wherever the process goes from here, the store stays.
        let dir = setup.env.vfs.absolute(dir)?;
        let (inline, keyspaces_must_exist) = (setup.inline_background, setup.keyspaces_must_exist);
        let shares = options.memory_shares();
        let events = EventSink::new(setup.listener);
        let store = TableStore::new(
            setup.env.clone(),
            dir.clone(),
            events.clone(),
            options.open_files_max as usize,
            shares,
        );
        let (env, store) = (setup.env, Arc::new(store));
        Ok(Opening { env, dir, options, events, store, inline, keyspaces_must_exist })
    }

    /// Fails if there are options of keyspaces that are not there, and that matters.
    fn check_named<'a>(&self, there: impl Iterator<Item = &'a str>) -> Result<()> {
        if !self.keyspaces_must_exist {
            return Ok(());
        }
        let there: Vec<&str> = there.filter(|name| !names::is_index(name)).collect();
        match self.options.keyspaces.keys().find(|name| !there.contains(&&***name)) {
            None => Ok(()),
            Some(name) => Err(Error::invalid(format!(
                "options of the keyspace {name:?}, which is not there; there are {}: mend the name, or leave it out and \
                 give its options when it is created",
                there.join(", ")
            ))),
        }
    }

    /// A new database: an empty default keyspace and a log.
    fn create(self, lock: Box<dyn FileLock>) -> Result<Core> {
        let mut files = check_no_data(&self.env, &self.dir)?;
        if !self.options.create_if_missing {
            return Err(Error::NotFound { path: names::current(&self.dir) });
        }
        let numbers = files.iter().filter_map(|kind| match kind {
            FileKind::Manifest(number) => Some(*number + 1),
            _ => None,
        });
        self.store.skip_numbers_below(numbers.max().unwrap_or(1));
        let options = Arc::new(options_for(&self.options, DEFAULT_KEYSPACE));
        let manifest_bytes_max = self.options.manifest_bytes_max;
        let versions =
            VersionSet::create(&self.store, manifest_bytes_max, DEFAULT_KEYSPACE, options)?;
        self.remove_orphans(&versions, &mut files);
        self.start(lock, versions, Replayed::default(), files)
    }

    /// An existing database.
    fn recover(self, lock: Box<dyn FileLock>) -> Result<Core> {
        let mut recovered = Recovered::read(&self.store)?;
        let mut files = list_files(&self.env, &self.dir)?;
        self.store.skip_numbers_below(recover::number_after(&files));
        recover::check_files(&self.env, &self.dir, &recovered)?;
        let target = recover::Target::of(&recovered);
        let wals = recovered.wals.clone();
        let options_of = |name: &str| Arc::new(options_for(&self.options, name));
        recover::check_unnamed_logs(&self.env, &self.dir, &files, &recovered)?;
        let mut records = recovered.keyspaces(&self.store, options_of)?;
        self.check_named(records.values().map(|record| &*record.name))?;
        self.store.skip_numbers_below(recovered.next_number);
        // Before the manifest is written anew: an open that fails must leave what it failed by.
        let spill = Spill::ToTables { memtables_bytes_max: self.options.memtables_limit_bytes() };
        let replayed = recover::replay(&self.store, &records, &wals, &target, spill)?;
        replayed.tell_logged(&mut records);
        recovered.wals.0.retain(|number, _| !replayed.idle_logs.contains(number));
        let versions = recovered.into_set(&self.store, records, self.options.manifest_bytes_max)?;
        // Before a log is made and what is in memory written: while that fails and is tried again,
        // it takes no more space.
        self.remove_orphans(&versions, &mut files);
        self.start(lock, versions, replayed, files)
    }

    /// Starts a log, makes what was replayed current, removes of these files what is not needed any
    /// more.
    fn start(
        self,
        lock: Box<dyn FileLock>,
        mut versions: VersionSet,
        mut replayed: Replayed,
        mut files: Vec<FileKind>,
    ) -> Result<Core> {
        let (number, last_seq) = (self.store.new_number(), replayed.last_seq);
        let options = &self.options;
        let mut edit = VersionEdit::new();
        // Small logs are copied into the new one; large ones become tables, and all where there is
        // no new one.
        let carried = replayed.take_carried().filter(|_| options.durability == Durability::Wal);
        if carried.is_none() {
            replayed.flush_all(&versions.keyspaces)?;
        }
        let mut journal = self.begin_journal(number, last_seq + 1, &mut edit)?;
        if let Some((batches, wal)) = carried.as_ref().zip(journal.wal()) {
            // The new log must be named before it holds records, and whole before the old ones go.
            versions.note_copies(number, replayed.first_seq.unwrap_or(0));
            versions.commit(edit, None).inspect_err(|_| versions.remove_void_files(false))?;
            replayed.carry_over(&self.store, batches, wal, number)?;
            wal.sync()?;
            edit = VersionEdit::new();
        }
        replayed.add_tables(&mut edit, &self.store, &mut versions)?;
        if carried.is_none() {
            // True of records that became no table too: those of keyspaces that were dropped.
            let id = KeyspaceId::DEFAULT;
            if versions.keyspaces.get(&id).is_some_and(|r| r.flushed_seq < last_seq) {
                edit.push(Change::Flushed { id, seq: last_seq });
            }
        }
        edit.push(Change::WalMin(number));
        // The next attempt shall not need room beside what this one wrote.
        versions.commit(edit, None).inspect_err(|_| versions.remove_void_files(false))?;
        self.remove_orphans(&versions, &mut files);
        let supply = memtable_supply(options);
        let keyspaces = build_keyspaces(&versions.keyspaces, options, number, &supply);
        let spare_due_bytes = spare::first_due_bytes(options);
        let mut commit = CommitState::new(journal, number, last_seq + 1, spare_due_bytes);
        commit.values = replayed.log_of_values(number);
        let groups = versions.groups().clone();
        let core = Core::new(Parts {
            env: self.env,
            dir: self.dir,
            options: self.options,
            events: self.events,
            store: self.store,
            keyspaces,
            supply,
            commit: Some(commit),
            versions: Some(versions),
            read_wals: NamedWals::default(),
            current_wal: BegunWal { number, first_seq: last_seq + 1 },
            last_seq,
            groups,
            read_only: false,
            inline: self.inline,
            lock: Some(lock),
        });
        if carried.is_some() {
            replayed.adopt_into(&core);
        }
        core.measure_values(&*core.lock_versions()?);
        Ok(core)
    }

    /// Starts a log, if the database has one, which an edit then names.
    fn begin_journal(
        &self,
        number: u64,
        first_seq: u64,
        edit: &mut VersionEdit,
    ) -> Result<Journal> {
        if self.options.durability == Durability::External {
            return Ok(Journal::External);
        }
        let (wal, salt) = create_first(&self.store, &self.options, number, first_seq)?;
        edit.push(Change::WalCreated { number, salt });
        edit.push(Change::WalBegun { number, first_seq });
        Ok(Journal::Wal(wal))
    }

    /// A database that is only read: logs are replayed into memory.
    fn read_only(self, lock: Option<Box<dyn FileLock>>) -> Result<Core> {
        if !self.env.vfs.exists(&names::current(&self.dir))? {
            check_no_data(&self.env, &self.dir)?;
        }
        let files = list_files(&self.env, &self.dir)?;
        let recovered = Recovered::read(&self.store)?;
        recover::check_files(&self.env, &self.dir, &recovered)?;
        recover::check_unnamed_logs(&self.env, &self.dir, &files, &recovered)?;
        let (wals, groups) = (recovered.wals.clone(), recovered.groups.clone());
        let target = recover::Target::of(&recovered);
        let options_of = |name: &str| Arc::new(options_for(&self.options, name));
        let records = recovered.into_read_only(&self.store, options_of)?;
        self.check_named(records.values().map(|record| &*record.name))?;
        let replayed = recover::replay(&self.store, &records, &wals, &target, Spill::ToMemory)?;
        let supply = memtable_supply(&self.options);
        let keyspaces = build_keyspaces(&records, &self.options, 0, &supply);
        let core = Core::new(Parts {
            env: self.env,
            dir: self.dir,
            options: self.options,
            events: self.events,
            store: self.store,
            keyspaces,
            supply,
            commit: None,
            versions: None,
            read_wals: wals,
            current_wal: BegunWal { number: 0, first_seq: 0 },
            last_seq: replayed.last_seq,
            groups,
            read_only: true,
            inline: self.inline,
            lock,
        });
        replayed.adopt_into(&core);
        Ok(core)
    }

    /// Removes those files that the manifest does not name, leftovers of work that a crash cut off,
    /// and leaves the others in the list.
    fn remove_orphans(&self, versions: &VersionSet, files: &mut Vec<FileKind>) {
        let tables: BTreeSet<u64> =
            versions.keyspaces.values().flat_map(|k| k.tables()).map(|t| t.meta.number).collect();
        let values = &versions.values().0;
        // Whatever the name of a file with values ends in, its number is its own.
        let wals: BTreeSet<u64> = versions.wal_numbers().chain(values.keys().copied()).collect();
        files.retain(|kind| {
            let path = match *kind {
                FileKind::Table(n) if !tables.contains(&n) => names::table(&self.dir, n),
                FileKind::Wal(n) if !wals.contains(&n) => names::wal(&self.dir, n),
                FileKind::Values(n) if !values.contains_key(&n) => names::values(&self.dir, n),
                FileKind::Manifest(n) if n != versions.manifest_number() => {
                    names::manifest(&self.dir, n)
                }
                FileKind::Temporary => names::temporary(&self.dir),
                _ => return true,
            };
            match self.env.vfs.remove(&path) {
                Ok(()) | Err(Error::NotFound { .. }) => {}
                // It is in nobody's way; the next open tries again.
                Err(error) => {
                    self.events.emit(&crate::event::Event::CleanupFailed { path, error });
                }
            }
            false
        });
    }
}

/// Fails if a directory without CURRENT holds data, or what may be somebody else's. Returns the
/// files of ours that it holds: what a creation left that was cut off.
fn check_no_data(env: &Env, dir: &Path) -> Result<Vec<FileKind>> {
    let files = list_files(env, dir)?;
    for kind in &files {
        let harmless = match *kind {
            FileKind::Table(_) | FileKind::Wal(_) | FileKind::Values(_) => false,
            FileKind::Manifest(number) => ManifestRemains::is_of_creation(env, dir, number)?,
            FileKind::Current | FileKind::Lock | FileKind::Temporary => true,
        };
        if !harmless {
            let what = "CURRENT is missing from a directory with data; run repair";
            return Err(Error::corruption(names::current(dir), 0, what));
        }
    }
    Ok(files)
}

fn build_keyspaces(
    records: &std::collections::BTreeMap<KeyspaceId, KeyspaceRecord>,
    options: &Options,
    first_wal: u64,
    supply: &Arc<Supply>,
) -> Keyspaces {
    let mut keyspaces = Keyspaces::default();
    for (&id, record) in records {
        keyspaces.insert(Arc::new(KeyspaceCore::new(
            id,
            record.name.clone(),
            record.options.clone(),
            options.memtables_limit_bytes(),
            record.version.clone(),
            first_wal,
            supply,
        )));
    }
    keyspaces
}

/// The files of ours in a directory.
pub(super) fn list_files(env: &Env, dir: &Path) -> Result<Vec<FileKind>> {
    let entries = env.vfs.list(dir)?;
    let mut files: Vec<FileKind> =
        entries.iter().filter(|e| !e.is_dir).filter_map(|e| names::parse(&e.name)).collect();
    files.sort();
    Ok(files)
}

impl Running {
    fn new(core: Arc<Core>, workers: Option<Workers>) -> Running {
        let workers = esker_base::sync::Mutex::new(workers);
        let closed = esker_base::sync::Mutex::new(None);
        Running { core, workers, closed, process: std::process::id() }
    }

    /// True in a process that was forked from the one that has opened this. There any lock may be
    /// held for ever, by a thread that is not there, and the files belong to the parent, which goes
    /// on writing to them.
    fn is_inherited(&self) -> bool {
        self.process != std::process::id()
    }

    /// Ends the threads, makes every write durable, and ends log and manifest in good order.
    /// Whoever comes second waits for the first and is told the same.
    ///
    /// # Errors
    /// The first thing that failed. The database is closed in any case, but for one that another
    /// process has opened, which is not touched: `InvalidArgument`.
    pub(super) fn close(&self) -> Result<()> {
        if self.is_inherited() {
            let opener = self.process;
            return Err(Error::invalid(format!(
                "this store was opened by another process, {opener}: open it after the fork, in the process that uses it"
            )));
        }
        let mut closed = self.closed.lock();
        closed.get_or_insert_with(|| self.close_once()).clone()
    }

    fn close_once(&self) -> Result<()> {
        let flushed = self.flush_external();
        // Whoever waits for work in the background, or does it, ends.
        self.core.background.stop();
        if let Some(mut workers) = self.workers.lock().take() {
            workers.stop(&self.core);
        }
        self.core.readers.end();
        let core = &self.core;
        let commit = core.commit.lock().take();
        // After the lock: who held it may have poisoned the store.
        let healthy = core.check_writable();
        spare::discard(core);
        let versions = core.versions.lock().take();
        let result = match (commit, versions) {
            (Some(commit), Some(versions)) => match healthy {
                Ok(()) => commit.close(core).and_then(|last_seq| {
                    // Without a log what is in no table is gone.
                    let last_seq =
                        if core.is_external() { versions.newest_seq() } else { last_seq };
                    versions.close(last_seq)
                }),
                Err(error) => Err(error),
            },
            _ => Ok(()),
        };
        let result = flushed.and(result);
        // Once it is not ours any more, somebody else's files may have the same names.
        let mut lock = core.lock.lock();
        if lock.is_some() {
            core.store.sweep();
        }
        core.store.give_up_directory();
        *lock = None;
        drop(lock);
        result
    }
}

impl Running {
    /// Makes persistent what was applied to a store without a log, so that whoever has the log need
    /// not give it again.
    fn flush_external(&self) -> Result<()> {
        let core = &self.core;
        let is_open = core.commit.lock().is_some();
        if !is_open || !core.is_external() || !core.has_unpersisted() {
            return Ok(());
        }
        core.flush_epochs()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_inherited() {
            // Memory, threads and files go with the process.
            std::mem::forget(self.core.clone());
            std::mem::forget(self.workers.get_mut().take());
            return;
        }
        // Whoever wants to know calls `close`.
        let _ = self.close();
    }
}
