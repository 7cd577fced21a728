//! Opening a store: for reading, for writing, or creating it.
//!
//! Reading opens read-only, so that nothing on the disk changes. Writing never creates: only
//! commands that say so do, and only in a new or empty directory.

use crate::failure::{Code, Failure, Result};
use crate::output::note;
use crate::tuning::TuningArgs;
use clap::builder::UnknownArgumentValueParser;
use clap::{Arg, Args};
use esker::event::{Event, EventListener};
use esker::names::{self, FileKind};
use esker::{Db, Keyspace, KeyspaceOptions, Options, Setup};
use esker_lab::Recorder;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The keyspace every store has.
pub(crate) const DEFAULT_KEYSPACE: &str = "default";

/// Which store, and how to open it.
#[derive(Args, Clone, Debug)]
pub(crate) struct StoreArgs {
    /// Directory of the store
    #[arg(long, value_name = "PATH", env = "ESKER_DB", help_heading = "Store")]
    pub(crate) db: PathBuf,

    /// Keyspace to work on [default: default]
    #[arg(long, value_name = "NAME", help_heading = "Store")]
    pub(crate) keyspace: Option<String>,

    /// Write JSON for machines, one value a line
    #[arg(long, help_heading = "Store")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) tuning: TuningArgs,
}

/// Says of `--keyspace` that without it the command is for all of them.
pub(crate) fn or_all(keyspace: Arg) -> Arg {
    keyspace.help("Only this keyspace [default: all]")
}

/// Makes of `--keyspace` a mistake that is explained: for commands that have no use for it.
pub(crate) fn refused(keyspace: Arg) -> Arg {
    let tip = "leave it out: this is for the whole store";
    keyspace.hide(true).value_parser(UnknownArgumentValueParser::suggest(tip))
}

/// Where the work of flushes and compactions is written down.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TraceArgs {
    /// Write down what flushes and compactions do, for `esker watch` and `esker replay`
    #[arg(long, value_name = "FILE", help_heading = "Store")]
    trace: Option<PathBuf>,
}

/// How a store is opened, and where what happens to it is written down.
struct Traced {
    setup: Setup,
    recorder: Option<(PathBuf, Arc<Recorder>)>,
}

/// Ends a trace when it goes. The store's own end may be too late for those who read along: who
/// waits for Ctrl-C keeps a handle of it for as long as the process lives.
struct TraceEnd(Option<Arc<Recorder>>);

impl Drop for TraceEnd {
    fn drop(&mut self) {
        if let Some(recorder) = &self.0 {
            recorder.end();
        }
    }
}

impl TraceArgs {
    /// What the engine notices is told, what it does is written down.
    fn listen(&self) -> Result<Traced> {
        let Some(path) = &self.trace else { return Ok(Traced { setup: setup(), recorder: None }) };
        let recorder =
            Recorder::create(path).map_err(|error| Failure::io("write", path, &error))?;
        let recorder = Arc::new(recorder);
        let (kept, failed) = (recorder.clone(), AtomicBool::new(false));
        let listener = move |event: &Event| {
            tell(event);
            recorder.on_event(event);
            if let Some(failure) = recorder.failure()
                && !failed.swap(true, Ordering::Relaxed)
            {
                note(&format!("the trace ends here: {failure}"));
            }
        };
        let setup = Setup { listener: Some(Arc::new(listener)), ..strict() };
        Ok(Traced { setup, recorder: Some((path.clone(), kept)) })
    }
}

impl Traced {
    /// Opens the store; only then an old trace goes.
    fn open(self, dir: &Path, options: &Options) -> Result<(Db, TraceEnd)> {
        let db = Db::open_with(dir, options.clone(), self.setup);
        let db = db.map_err(|error| explain(dir, error))?;
        if let Some((path, recorder)) = &self.recorder {
            recorder.begin().map_err(|error| Failure::io("write", path, &error))?;
        }
        Ok((db, TraceEnd(self.recorder.map(|(_, recorder)| recorder))))
    }
}

/// An open store and the keyspace asked for.
pub(crate) struct Store {
    pub(crate) dir: PathBuf,
    pub(crate) db: Db,
    pub(crate) keyspace: Keyspace,
    pub(crate) options: Options,
    trace_end: TraceEnd,
}

/// Files that an open reads from end to end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadAtOpen {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

impl ReadAtOpen {
    fn new(dir: &Path) -> Result<ReadAtOpen> {
        let current = names::current(dir);
        let (ours, _) = contents(dir)?;
        // A clean store has one manifest; leftovers are not read.
        let manifest = ours.iter().filter_map(|kind| match kind {
            FileKind::Manifest(number) => Some(*number),
            _ => None,
        });
        let manifest = manifest.max().map(|number| names::manifest(dir, number));
        let files: Vec<PathBuf> = [current].into_iter().chain(manifest).collect();
        let bytes = files.iter().filter_map(|file| file.metadata().ok()).map(|m| m.len()).sum();
        Ok(ReadAtOpen { files: files.len() as u64, bytes })
    }
}

impl StoreArgs {
    /// Opens an existing store for reading.
    pub(crate) fn read(&self) -> Result<Store> {
        expect_store(&self.db)?;
        let options = self.tuning.options()?;
        let db = Db::open_read_only_with(&self.db, options.clone(), setup());
        self.enter(db.map_err(|error| explain(&self.db, error))?, options, TraceEnd(None), false)
    }

    /// Opens an existing store for reading, and says what was read for it and `verify` does not
    /// read again: CURRENT and the manifest.
    pub(crate) fn read_all(&self) -> Result<(Store, ReadAtOpen)> {
        let store = self.read()?;
        Ok((store, ReadAtOpen::new(&self.db)?))
    }

    /// Opens an existing store for writing.
    pub(crate) fn write(&self) -> Result<Store> {
        self.write_traced(&TraceArgs::default())
    }

    /// The same, with a trace.
    pub(crate) fn write_traced(&self, trace: &TraceArgs) -> Result<Store> {
        self.write_with(trace, Options::clone)
    }

    /// Opens an existing store for writing, and creates a keyspace in it.
    pub(crate) fn write_new(&self, name: &str) -> Result<Store> {
        let store = self.write_with(&TraceArgs::default(), |options| without(options, name))?;
        store.db.create_keyspace(name, options_of(&store.options, name))?;
        Ok(store)
    }

    /// Opens an existing store by what `known` leaves of the options.
    fn write_with(
        &self,
        trace: &TraceArgs,
        known: impl FnOnce(&Options) -> Options,
    ) -> Result<Store> {
        expect_store(&self.db)?;
        let options = Options { create_if_missing: false, ..self.tuning.options()? };
        let (db, trace_end) = trace.listen()?.open(&self.db, &known(&options))?;
        self.enter(db, options, trace_end, false)
    }

    /// Opens a store for writing; creates it, with the keyspace asked for, if there is none.
    pub(crate) fn create(&self) -> Result<Store> {
        self.create_traced(&TraceArgs::default())
    }

    /// The same, with a trace.
    pub(crate) fn create_traced(&self, trace: &TraceArgs) -> Result<Store> {
        let options = self.tuning.options()?;
        let exists = holds_store(&self.db)?;
        if !exists {
            // Before anything is made: a mistake leaves no empty store behind.
            expect_room(&self.db)?;
            self.keyspace.as_deref().map_or(Ok(()), names::check_keyspace)?;
        }
        let name = self.keyspace.as_deref().unwrap_or(DEFAULT_KEYSPACE);
        let known = match exists || name == DEFAULT_KEYSPACE {
            true => options.clone(),
            false => without(&options, name),
        };
        let (db, trace_end) = trace.listen()?.open(&self.db, &known)?;
        self.enter(db, options, trace_end, !exists)
    }

    fn enter(&self, db: Db, options: Options, trace_end: TraceEnd, new: bool) -> Result<Store> {
        let name = self.keyspace.as_deref().unwrap_or(DEFAULT_KEYSPACE);
        let dir = self.db.clone();
        let known = db.keyspace_names().iter().any(|known| known == name);
        let keyspace = match new && !known {
            true => db.create_keyspace(name, options_of(&options, name))?,
            false => find_keyspace(&db, &dir, name)?,
        };
        Ok(Store { dir, db, keyspace, options, trace_end })
    }
}

/// What a keyspace of this name is created with.
fn options_of(options: &Options, name: &str) -> KeyspaceOptions {
    options.keyspaces.get(name).unwrap_or(&options.default_keyspace).clone()
}

/// The options but for those of this keyspace, which is not there yet.
fn without(options: &Options, name: &str) -> Options {
    let mut options = options.clone();
    options.keyspaces.remove(name);
    options
}

/// A keyspace of an open store.
///
/// # Errors
/// `NotFound`, with the names there are.
pub(crate) fn find_keyspace(db: &Db, dir: &Path, name: &str) -> Result<Keyspace> {
    let names = db.keyspace_names();
    if names.iter().any(|known| known == name) {
        return Ok(db.keyspace(name)?);
    }
    let (names, dir) = (names.join(", "), dir.display());
    Err(Failure::new(
        Code::NotFound,
        format!(
            "no keyspace {name:?} in {dir}: there are {names}; `esker keyspaces create` makes one"
        ),
    ))
}

impl Store {
    /// Makes everything durable and closes the store.
    pub(crate) fn close(self) -> Result<()> {
        drop(self.keyspace);
        let closed = self.db.close();
        drop(self.trace_end);
        Ok(closed?)
    }
}

/// True if there is a store in a directory.
///
/// # Errors
/// Nobody may know: a directory on the way to it cannot be entered.
fn holds_store(dir: &Path) -> Result<bool> {
    match names::current(dir).try_exists() {
        Err(error) if error.kind() != io::ErrorKind::NotADirectory => {
            Err(Failure::io("read", dir, &error))
        }
        found => Ok(found.unwrap_or(false)),
    }
}

/// The engine's files in a directory, and whether there are others.
fn contents(dir: &Path) -> Result<(Vec<FileKind>, bool)> {
    let entries = std::fs::read_dir(dir).map_err(|error| Failure::io("read", dir, &error))?;
    let (mut ours, mut others) = (Vec::new(), false);
    for entry in entries {
        let entry = entry.map_err(|error| Failure::io("read", dir, &error))?;
        match entry.file_name().to_str().and_then(names::parse) {
            Some(kind) => ours.push(kind),
            None => others = true,
        }
    }
    Ok((ours, others))
}

fn is_data(kind: &FileKind) -> bool {
    matches!(kind, FileKind::Table(_) | FileKind::Wal(_))
}

/// True if a directory holds tables or logs of Esker.
pub(crate) fn holds_tables(dir: &Path) -> bool {
    contents(dir).is_ok_and(|(ours, _)| ours.iter().any(is_data))
}

/// True if a directory holds tables of LevelDB or of an engine that comes from it.
fn holds_foreign_tables(dir: &Path) -> bool {
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path());
    let mut endings = names.filter_map(|path| path.extension().map(OsStr::to_owned));
    endings.any(|ending| ending == "ldb" || ending == "sst")
}

/// A directory that may hold a store, however damaged.
///
/// # Errors
/// `NotFound` if there is none.
pub(crate) fn expect_directory(dir: &Path) -> Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let message = format!("{} is no directory: --db names the store", dir.display());
    Err(Failure::new(Code::NotFound, message))
}

/// Fails if there is no store in a directory.
pub(crate) fn expect_store(dir: &Path) -> Result<()> {
    if holds_store(dir)? {
        return Ok(());
    }
    if dir.is_dir() && contents(dir)?.0.iter().any(is_data) {
        return Err(without_current(dir));
    }
    Err(Failure::new(
        Code::NotFound,
        format!(
            "no store in {}: check --db; `esker put` and `esker load` create one",
            dir.display()
        ),
    ))
}

fn without_current(dir: &Path) -> Failure {
    let dir = dir.display();
    let what = format!("CURRENT is missing from {dir}, which holds data: run `esker repair`");
    Failure::new(Code::Corruption, what)
}

/// Fails if a store cannot be created in a directory without mixing it with other files.
pub(crate) fn expect_room(dir: &Path) -> Result<()> {
    if !dir.exists() {
        return Ok(());
    }
    if !dir.is_dir() {
        return Err(Failure::usage(format!("{} is no directory: give another", dir.display())));
    }
    let (ours, others) = contents(dir)?;
    // Beside what an earlier repair left, for instance.
    if others && ours.iter().any(is_data) {
        return Err(without_current(dir));
    }
    if others {
        return Err(Failure::usage(format!(
            "{} is not empty and holds no store: give a new or empty directory",
            dir.display()
        )));
    }
    Ok(())
}

/// A failed open of a store that is there: a file that is missing inside is damage.
fn explain(dir: &Path, error: esker::Error) -> Failure {
    match error {
        esker::Error::Corruption { .. }
            if error.is_about(&names::current(dir))
                && !holds_tables(dir)
                && holds_foreign_tables(dir) =>
        {
            let dir = dir.display();
            let what = format!(
                "{dir} is no store of Esker but of another engine: `esker load leveldb:{dir}` \
                 reads those of LevelDB"
            );
            Failure::new(Code::NotFound, what)
        }
        esker::Error::NotFound { ref path }
            if !error.is_about(dir) && holds_store(dir).unwrap_or(false) =>
        {
            Failure::new(
                Code::Corruption,
                format!("{} is missing from the store: repair or restore", path.display()),
            )
        }
        error => Failure::from(error),
    }
}

/// The real machine; what the engine notices is told.
pub(crate) fn setup() -> Setup {
    Setup { listener: Some(Arc::new(tell)), ..strict() }
}

/// Options of keyspaces that are not there are a mistake.
fn strict() -> Setup {
    Setup { keyspaces_must_exist: true, ..Setup::default() }
}

fn tell(event: &Event) {
    match event {
        Event::WalReplayed { number, torn_bytes, .. } if *torn_bytes > 0 => note(&format!(
            "the last {torn_bytes} bytes of log {number} were never durable and are dropped"
        )),
        Event::ManifestTorn { number, torn_bytes } => note(&format!(
            "the last {torn_bytes} bytes of manifest {number} were never durable and are dropped"
        )),
        Event::CleanupFailed { path, error } => {
            note(&format!("cannot remove {}, which is not needed: {error}", path.display()));
        }
        Event::ValueUnreadable { error } => {
            note(&format!("{error}: the file stays as it is; `esker repair` gives up the record"));
        }
        Event::BackgroundRetry { error } => note(&format!("{error}: trying again")),
        Event::Poisoned { why } => note(&format!("the store takes no more writes: {why}")),
        _ => {}
    }
}
