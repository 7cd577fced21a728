//! The tables of docs/errors.md for the library: each row is a call, and the page says what it
//! returns.
//!
//! A row names the call and what is wrong; which error it is stands in the table here, its message
//! stands in the page only and must be what the error says. With `ESKER_REWRITE` set the page is
//! written anew instead. After each row the disk is healed and mended and the database opened
//! again: what it held before, it holds still, and `verify` finds nothing.

mod groups;
mod table;

use self::table::{Harm, SECTIONS};
use esker::base::Env;
use esker::base::checksum::crc32c;
use esker::base::vfs::faulty::FaultyVfs;
use esker::base::vfs::strict::StrictVfs;
use esker::{Db, Error, KeyspaceOptions, Options, Setup};
use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md");
const BEGIN: &str = "<!-- what the library returns: begin -->\n";
const END: &str = "<!-- what the library returns: end -->\n";

/// A disk in memory with a closed database in `store`: `k1` to `k3` in a table, `k4` in a log, and
/// a keyspace `people` with one key.
pub(crate) struct World {
    pub(crate) disk: StrictVfs,
    pub(crate) faults: Arc<FaultyVfs>,
}

impl World {
    fn new() -> World {
        let disk = StrictVfs::new();
        let faults = Arc::new(FaultyVfs::new(Arc::new(disk.clone())));
        let world = World { disk, faults };
        let db = world.open();
        for key in [b"k1", b"k2", b"k3"] {
            db.put(key, b"1").expect("put");
        }
        let people = db.create_keyspace("people", KeyspaceOptions::default()).expect("keyspace");
        people.put(b"ann", b"1").expect("put");
        db.flush().expect("flush");
        db.put(b"k4", b"4").expect("put");
        drop(people);
        db.close().expect("close");
        world
    }

    /// The world without threads, on this disk.
    pub(crate) fn setup(&self) -> Setup {
        let env = Env::with_vfs(self.faults.clone(), 7);
        Setup { env, inline_background: true, ..Setup::default() }
    }

    /// Opens the database as it should be opened.
    pub(crate) fn open(&self) -> Db {
        self.open_with(Options::default()).expect("opens")
    }

    pub(crate) fn open_with(&self, options: Options) -> Result<Db, Error> {
        Db::open_with("store", options, self.setup())
    }

    pub(crate) fn read_only(&self) -> Result<Db, Error> {
        Db::open_read_only_with("store", Options::default(), self.setup())
    }

    /// The newest file of the database whose name begins or ends so; of logs the one with records.
    pub(crate) fn file(&self, part: &str) -> PathBuf {
        let mut names = self.disk.file_names(Path::new("store"));
        names.sort();
        let fits = |name: &String| name.starts_with(part) || name.ends_with(part);
        let mut paths = names.into_iter().filter(fits).map(|name| Path::new("store").join(name));
        let length = |path: &PathBuf| self.disk.read_file(path).expect("file").len();
        let found = if part == ".wal" { paths.max_by_key(length) } else { paths.next_back() };
        found.expect(part)
    }

    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let read = |path: PathBuf| {
            let bytes = self.disk.read_file(&path).expect("file");
            (path, bytes)
        };
        self.disk.all_files().into_iter().map(read).collect()
    }

    fn harm(&self, harm: Harm) {
        let vfs: &dyn esker::base::Vfs = &self.disk;
        match harm {
            Harm::None => {}
            Harm::Flip(file, at) => {
                self.disk.flip_bit(&self.file(file), at * 8).expect("flip");
            }
            Harm::Cut(file, bytes) => {
                let path = self.file(file);
                let length = self.disk.read_file(&path).expect("file").len() as u64;
                self.disk.truncate_raw(&path, length - bytes).expect("cut");
            }
            Harm::Newer(file) => {
                let path = self.file(file);
                let mut bytes = self.disk.read_file(&path).expect("file");
                bytes[8] = 2;
                let sum = crc32c(&bytes[..36]);
                bytes[36..40].copy_from_slice(&sum.to_le_bytes());
                self.disk.write_file(&path, &bytes).expect("newer");
            }
            Harm::Remove(file) => vfs.remove(&self.file(file)).expect("remove"),
        }
    }

    /// Everything the database holds.
    fn content(&self) -> Vec<String> {
        let db = self.open();
        let report = db.verify(|_| true).expect("verify");
        assert!(report.damage.is_empty(), "{report:?}");
        let mut all = Vec::new();
        for name in db.keyspace_names() {
            for pair in db.keyspace(&name).expect("keyspace").iter().expect("scan") {
                let (key, value) = pair.expect("pair");
                all.push(format!("{name} {} {}", key.escape_ascii(), value.escape_ascii()));
            }
        }
        db.close().expect("close");
        all
    }
}

/// The name of an error's variant.
fn variant(error: &Error) -> String {
    let debug = format!("{error:?}");
    debug.split([' ', '{', '(']).next().unwrap_or_default().to_owned()
}

fn check(case: &table::Case) -> String {
    let world = World::new();
    let held = world.content();
    let sound = world.files();
    world.harm(case.harm);
    let harmed = world.files();
    let result = (case.run)(&world);
    world.faults.heal();
    world.disk.set_capacity_bytes(None);
    for (path, bytes) in &sound {
        if harmed.get(path) != Some(bytes) {
            let now = world.disk.read_file(path).ok();
            assert!(now.as_ref() == harmed.get(path), "{} changed {}", case.call, path.display());
            world.disk.write_file(path, bytes).expect("mend");
        }
    }
    assert_eq!(world.content(), held, "{}: {}", case.call, case.wrong);
    match (result, case.error) {
        (Ok(()), "") => "nothing".to_owned(),
        (Err(error), expected) if variant(&error) == expected => format!("`` {error} ``"),
        (result, expected) => panic!("{}: {}: {result:?}, not {expected:?}", case.call, case.wrong),
    }
}

#[test]
fn each_row_of_the_page_is_what_the_library_returns() {
    let page = fs::read_to_string(PAGE).expect("page");
    let (head, rest) = page.split_once(BEGIN).expect("the page has a place for the tables");
    let (_, tail) = rest.split_once(END).expect("the place has an end");
    let mut tables = String::new();
    let mut failed = Vec::new();
    for (section, cases) in SECTIONS {
        let head = "| call | what is wrong | error | message |\n|---|---|---|---|";
        tables.push_str(&format!("\n### {section}\n\n{head}\n"));
        for case in cases() {
            // All rows are run before one of them fails the test.
            match catch_unwind(AssertUnwindSafe(|| check(&case))) {
                Ok(said) => {
                    let error = if case.error.is_empty() { "none" } else { case.error };
                    let (call, wrong) = (case.call, &case.wrong);
                    tables.push_str(&format!("| `{call}` | {wrong} | {error} | {said} |\n"));
                }
                Err(_) => failed.push(format!("{}: {}", case.call, case.wrong)),
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    let now = format!("{head}{BEGIN}{tables}\n{END}{tail}");
    if std::env::var_os("ESKER_REWRITE").is_some() {
        fs::write(PAGE, now).expect("page");
        return;
    }
    for (stands, told) in page.lines().zip(now.lines()) {
        assert_eq!(stands, told, "docs/errors.md: set ESKER_REWRITE=1 to write it anew");
    }
    assert_eq!(page.lines().count(), now.lines().count(), "docs/errors.md has other rows");
}
