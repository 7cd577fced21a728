//! The tour: load, ask, index, change, kill, verify, sum up.
//!
//! Two stores in one directory: `files`, loaded from the file system, and `crash`, written by a
//! child process that is killed. Every answer is checked; a failed check keeps the stores and fails
//! the tour.

mod ask;
mod change;
pub(crate) mod child;
mod expect;
mod fields;
mod kill;
mod show;
mod shuffle;
mod state;
mod summary;

use crate::clock::Stopwatch;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::load::{self, FileTree, Paths, Values};
use crate::paint::Paint;
use crate::progress::Progress;
use crate::store;
use crate::{output, units};
use esker::Db;
use expect::Expected;
use show::Show;
use shuffle::Shuffled;
use state::{Figures, Tour};
pub(crate) use state::{Plan, small_tree};
use std::path::{Path, PathBuf};

/// The directory of the stores. Removed in the end unless it is to be kept.
struct Place {
    dir: PathBuf,
    keep: bool,
}

impl Place {
    fn new(plan: &Plan) -> Result<Place> {
        let unique = || std::env::temp_dir().join(format!("esker-tour-{}", std::process::id()));
        let dir = plan.dir.clone().unwrap_or_else(unique);
        store::expect_room(&dir)?;
        if dir.join("CURRENT").exists() {
            let dir = dir.display();
            return Err(Failure::usage(format!("{dir} is a store: give a new directory")));
        }
        std::fs::create_dir_all(&dir).map_err(|error| Failure::io("create", &dir, &error))?;
        Ok(Place { dir, keep: plan.keep })
    }

    fn files(&self) -> PathBuf {
        self.dir.join("files")
    }

    fn crash(&self) -> PathBuf {
        self.dir.join("crash")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What cannot be removed is in nobody's way.
        if !self.keep {
            let _ = std::fs::remove_dir_all(self.files());
            let _ = std::fs::remove_dir_all(self.crash());
            let _ = std::fs::remove_dir(&self.dir);
        }
    }
}

/// Does the tour.
///
/// # Errors
/// A check failed, the source cannot be read, or the store failed.
pub(crate) fn run(plan: &Plan) -> Result<()> {
    let interrupt = Interrupt::watch()?;
    // Tells what is wrong with the source before anything is made.
    FileTree::open(&plan.source, Paths::Full, false, Values::Fields)?;
    let mut place = Place::new(plan)?;
    let paint = Paint::for_stdout(output::to_terminal());
    let mut tour = Tour {
        plan,
        show: Show::new(paint, plan.json),
        figures: Figures::default(),
        interrupt,
        watch: Stopwatch::start(),
    };
    let done = tour.sections(&place);
    let failed = tour.show.failed;
    if plan.keep || failed > 0 {
        place.keep = true;
        output::note(&format!("the stores are kept in {}", place.dir.display()));
    }
    match (done, failed) {
        // A check that failed counts, also where nobody reads.
        (Err(failure), n) if n == 0 || !failure.reader_gone => Err(failure),
        (_, 0) => Ok(()),
        (_, n) => Err(Failure::other(format!(
            "{} of the tour failed",
            units::plural(n, "check", "checks")
        ))),
    }
}

impl Tour<'_> {
    fn sections(&mut self, place: &Place) -> Result<()> {
        let source = crate::bytes::printable(self.plan.source.as_os_str().as_encoded_bytes());
        self.show.title(&format!("Load the metadata of the files under {source}"))?;
        let db = Db::open_with(place.files(), self.plan.options.clone(), store::setup())?;
        // What changes from here on may be in the store or not.
        let since_unix_seconds = self.watch.unix_seconds();
        self.load(&db)?;
        self.pause()?;

        self.show.title("Ask, and compare with a fresh walk of the file system")?;
        let expected = Expected::walk(&self.plan.source, since_unix_seconds)?;
        let expected = ask::ask(self, &db, expected)?;
        self.pause()?;

        self.show.title("Index a field, and find by it")?;
        fields::index(self, &db, &expected)?;
        self.pause()?;

        self.show.title("Overwrite, delete, and look at the past through a snapshot")?;
        let expected = change::change(self, &db, &expected)?;
        self.pause()?;

        self.show.title("Kill a process while it writes")?;
        kill::kill(self, &place.crash())?;
        self.pause()?;

        self.show.title("Verify every file of both stores")?;
        self.verify("files", &db)?;
        self.verify_closed("crash", &place.crash())?;
        self.figures.expected_records = expected.len() as u64;
        summary::summary(self, db, &place.files())
    }

    fn load(&mut self, db: &Db) -> Result<()> {
        let mut source =
            Shuffled::new(FileTree::open(&self.plan.source, Paths::Full, false, Values::Fields)?)?;
        self.pause()?;
        let keyspace = db.default_keyspace();
        let plan = load::Plan { bulk: false, skip_bad: false, keyspace, db };
        let progress = Progress::start("loading", self.plan.json);
        let (done, ended) = load::load(&mut source, &plan, progress, &self.interrupt);
        ended?;
        db.sync()?;
        self.show.figure("records", done.records, &units::rate(done.records, done.seconds))?;
        let bytes = units::bytes(done.bytes);
        self.show.text_figure("keys and values", &bytes, "in random order, in batches of 1 000")?;
        if source.skipped > 0 {
            self.show.figure("left out", source.skipped, "could not be read")?;
        }
        self.figures.loaded = done.records;
        self.figures.loaded_bytes = done.bytes;
        self.figures.load_seconds = done.seconds;
        Ok(())
    }

    fn verify_closed(&mut self, name: &str, dir: &Path) -> Result<()> {
        let db = Db::open_read_only_with(dir, self.plan.options.clone(), store::setup())?;
        self.verify(name, &db)?;
        Ok(db.close()?)
    }

    fn verify(&mut self, name: &str, db: &Db) -> Result<()> {
        let (report, seconds) =
            crate::commands::verify::verify(db, &self.interrupt, self.plan.json)?;
        let what = format!(
            "{name}: {}, {}, {} in tables, {seconds:.2} s",
            units::plural(report.files, "file", "files"),
            units::bytes(report.bytes),
            units::plural(report.entries, "record", "records"),
        );
        for index in &report.indexes {
            let entries = units::plural(index.entries, "entry", "entries");
            let what = format!("{name}: index of {}, {entries}, as the records say", index.field);
            self.show.check(index.example.is_none(), &what)?;
        }
        for (path, error) in &report.damage {
            self.show.check(false, &format!("{}: {error}", path.display()))?;
        }
        self.show.check(report.damage.is_empty(), &what)
    }
}
