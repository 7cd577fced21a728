//! Repair of stores on a disk that cannot read some page of some file, now or ever.
//!
//! What must hold, for every page of every file: verification names the file, repair ends well,
//! what it makes opens and verifies on that disk, holds nothing that was never written, loses
//! nothing that it does not report, and little beside what stood there.

use super::{RepairReport, repair};
use crate::db::{Db, Setup};
use crate::options::{Compression, KeyspaceOptions, Options};
use crate::random::Random;
use esker_base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker_base::vfs::strict::StrictVfs;
use esker_base::{Env, Error, Result, Vfs};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const DIR: &str = "/db";
const PAGE_BYTES: usize = 4096;

/// Records that a page holds at the most, and those that go with it: the ends of blocks on it, and
/// an older value.
const RECORDS_OF_A_PAGE: usize = 30;

const KEYS: usize = 400;

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> Options {
    let default_keyspace = KeyspaceOptions {
        block_bytes: 512,
        index_partition_bytes: 1 << 10,
        compression: vec![Compression::None],
        value_log_bytes_min: Some(600),
        ..KeyspaceOptions::default()
    };
    Options {
        memory_budget_bytes: 4 << 20,
        compaction_threads: 1,
        default_keyspace,
        ..Options::default()
    }
}

fn setup(vfs: &impl Shared) -> Setup {
    // No two openings draw the same salts.
    static SEED: AtomicU64 = AtomicU64::new(1);
    let env = Env::with_vfs(vfs.shared(), SEED.fetch_add(1, Ordering::Relaxed) << 32);
    Setup { env, inline_background: true, ..Setup::default() }
}

trait Shared {
    fn shared(&self) -> Arc<dyn Vfs>;
}

impl<V: Vfs + Clone + 'static> Shared for V {
    fn shared(&self) -> Arc<dyn Vfs> {
        Arc::new(self.clone())
    }
}

fn open(vfs: &impl Shared) -> Result<Db> {
    Db::open_with(DIR, options(), setup(vfs))
}

fn run(vfs: &impl Shared) -> Result<RepairReport> {
    repair(Path::new(DIR), &options(), setup(vfs), |_| true)
}

/// What a key was given in a round.
fn value(key: usize, round: usize) -> Vec<u8> {
    // A fifth of the values is kept apart.
    let len = if key.is_multiple_of(5) { 900 } else { 150 };
    let mut random = Random((key * 3 + round) as u64);
    (0..len).map(|_| random.next() as u8).collect()
}

fn key(key: usize) -> Vec<u8> {
    format!("key{key:04}").into_bytes()
}

/// Keys in a table below, some of them again in a table of level 0, and some again in the log.
/// Closed in good order, or not at all.
fn specimen(closed: bool) -> (StrictVfs, Contents) {
    let disk = StrictVfs::new();
    let db = open(&disk).expect("create");
    let mut contents = Contents::new();
    for (round, step) in [(0, 1), (1, 3), (2, 7)] {
        for at in (0..KEYS).step_by(step) {
            let (key, value) = (key(at), value(at, round));
            db.put(&key, &value).expect("put");
            contents.insert(key, value);
        }
        match round {
            0 => db.default_keyspace().compact_range(None, None).expect("compact"),
            1 => db.flush().expect("flush"),
            _ => db.sync().expect("sync"),
        }
    }
    if closed {
        db.close().expect("close");
        return (disk, contents);
    }
    (disk.deep_copy(), contents)
}

fn contents(vfs: &impl Shared) -> Result<Contents> {
    let db = open(vfs)?;
    let mut found = Contents::new();
    for pair in db.iter()? {
        let (key, value) = pair?;
        assert_eq!(db.get(&key)?.as_deref(), Some(&value[..]));
        found.insert(key.to_vec(), value.to_vec());
    }
    let report = db.verify(|_| true)?;
    assert!(report.damage.is_empty(), "{:?}", report.damage);
    db.close()?;
    Ok(found)
}

/// The pages that hold something.
fn pages(disk: &StrictVfs) -> Vec<(PathBuf, u64)> {
    let mut pages = Vec::new();
    for name in disk.file_names(Path::new(DIR)).iter().filter(|name| *name != "LOCK") {
        let path = Path::new(DIR).join(name);
        let bytes = disk.read_file(&path).expect("a file");
        let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        // One behind that is only reserved, where there is one.
        let end = bytes.len().min(used + PAGE_BYTES);
        pages.extend((0..end).step_by(PAGE_BYTES).map(|at| (path.clone(), at as u64)));
    }
    pages
}

/// Either the file is named, or all is right without the page.
fn check_verification(vfs: &FaultyVfs, path: &Path, wanted: &Contents, what: &str) {
    let db = match Db::open_read_only_with(DIR, options(), setup(vfs)) {
        Err(error) => {
            assert_eq!(error.path(), Some(path), "{what}: {error}");
            return;
        }
        Ok(db) => db,
    };
    let report = db.verify(|_| true).unwrap_or_else(|error| panic!("{what}: verify: {error}"));
    if report.damage.is_empty() {
        let found: Result<Contents> = db
            .iter()
            .and_then(|pairs| pairs.map(|p| p.map(|(k, v)| (k.to_vec(), v.to_vec()))).collect());
        assert_eq!(&found.expect("all can be read"), wanted, "{what}: verified");
    }
    for (named, error) in &report.damage {
        assert_eq!(named, path, "{what}: {error}");
    }
}

#[test]
fn any_page_may_be_unreadable_for_ever() {
    for closed in [true, false] {
        let (disk, wanted) = specimen(closed);
        let pages = pages(&disk);
        assert!(pages.len() > 30, "{} pages", pages.len());
        let mut losses = 0;
        for (path, at) in &pages {
            let what = format!("closed: {closed}, {} from {at}", path.display());
            let vfs = FaultyVfs::new(Arc::new(disk.deep_copy()));
            vfs.lose_page(path, *at);
            check_verification(&vfs, path, &wanted, &what);
            let report = run(&vfs).unwrap_or_else(|error| panic!("{what}: repair: {error}"));
            let found = contents(&vfs).unwrap_or_else(|error| panic!("{what}: then: {error}"));
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
            let mut missing = 0;
            for at in 0..KEYS {
                let (found, wanted) = (found.get(&key(at)), wanted.get(&key(at)));
                let was_written = |found: &Vec<u8>| (0..3).any(|round| *found == value(at, round));
                assert!(found.is_none_or(was_written), "{what}: {at} was never written so");
                missing += usize::from(found != wanted);
            }
            assert!(missing <= RECORDS_OF_A_PAGE, "{what}: {missing} are missing\n{report}");
            assert!(found.len() <= wanted.len(), "{what}: more than there was");
            assert!(missing == 0 || !report.is_complete(), "{what}: silent loss\n{report}");
            // Nothing is told to be lost that is not. Where only an older value was, who knows.
            let lost = report.lost.iter().filter(|lost| lost.file.ends_with(".val")).count();
            assert!(missing > 0 || lost == 0 || !name.ends_with(".val"), "{what}: {report}");
            let is_told = report.notes.iter().any(|note| note.contains(name));
            assert!(is_told || missing == 0, "{what}: nothing is said of the disk\n{report}");
            losses += missing;
        }
        assert!(losses > 0, "no page held anything");
    }
}

#[test]
fn a_read_that_fails_once_loses_nothing() {
    let (disk, wanted) = specimen(true);
    let reads = {
        let vfs = FaultyVfs::new(Arc::new(disk.deep_copy()));
        run(&vfs).expect("repair");
        vfs.calls(Op::Read)
    };
    for nth in 1..=reads {
        let vfs = FaultyVfs::new(Arc::new(disk.deep_copy()));
        vfs.inject(FaultRule::nth(nth, &[Op::Read], Fault::Eio));
        let report = run(&vfs).expect("repair");
        assert!(report.is_complete(), "read {nth} of {reads}: {report}");
        assert_eq!(contents(&vfs).expect("repaired"), wanted, "read {nth} of {reads}");
    }
}

/// A page that could be read at first, and then not any more: nothing is missed for that.
#[test]
fn a_page_may_go_bad_while_it_is_repaired() {
    for closed in [true, false] {
        let (disk, wanted) = specimen(closed);
        let pages = pages(&disk);
        let files = pages.iter().filter(|(path, _)| {
            path.extension().is_some_and(|ending| ending == "wal" || ending == "val")
        });
        let (mut ended, mut complete) = (0, 0);
        for (path, at) in files {
            for step in 1.. {
                let copy = disk.deep_copy();
                let vfs = FaultyVfs::new(Arc::new(copy.clone()));
                let mut steps = 0;
                let repaired = repair(Path::new(DIR), &options(), setup(&vfs), |_| {
                    steps += 1;
                    if steps == step {
                        vfs.lose_page(path, *at);
                    }
                    true
                });
                let what = format!("{} from {at}, at step {step} of {steps}", path.display());
                match repaired {
                    Ok(report) if report.is_complete() => {
                        // What went bad after its last reading is another repair's.
                        assert_eq!(contents(&copy).expect("repaired"), wanted, "{what}\n{report}");
                        complete += 1;
                    }
                    Ok(_) => {}
                    Err(error) => {
                        assert!(error.is_unreadable(), "{what}: {error}");
                        assert_eq!(contents(&copy).expect("as it was"), wanted, "{what}");
                        ended += 1;
                    }
                }
                if steps < step {
                    break;
                }
            }
        }
        assert!(ended > 0 && complete > 0, "{ended}, {complete}");
    }
}

#[test]
fn too_many_open_files_are_no_damage() {
    let (disk, wanted) = specimen(false);
    let opens = {
        let vfs = FaultyVfs::new(Arc::new(disk.deep_copy()));
        run(&vfs).expect("repair");
        vfs.calls(Op::Open)
    };
    assert!(opens > 5, "{opens}");
    for nth in 1..=opens {
        let copy = disk.deep_copy();
        let vfs = FaultyVfs::new(Arc::new(copy.clone()));
        vfs.inject(FaultRule::nth(nth, &[Op::Open], Fault::TooManyFiles));
        let refused = run(&vfs);
        let is_told = matches!(&refused, Err(Error::Io { source, .. })
            if source.raw_os_error().is_some());
        assert!(is_told || refused.is_ok_and(|report| report.is_complete()), "open {nth}");
        assert_eq!(contents(&copy).expect("as it was"), wanted, "open {nth} of {opens}");
    }
}
