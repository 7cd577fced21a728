//! Repair on specimens: every file missing, cut at every length, with flipped bits; and a crash at
//! every call of the repair itself.
//!
//! What must hold: opening gives the right data or names the damaged file; after a repair the database
//! opens and verifies, holds no key or value that was never written, loses nothing it does not
//! report, and nothing at all where the damage is in what can be made again.

use super::{FileFate, RepairReport, Structure, repair};
use crate::db::{Db, Setup};
use crate::options::{Compression, KeyspaceOptions, Options, WriteOptions};
use esker_base::vfs::strict::{StrictVfs, Survival};
use esker_base::{Batch, Comparator, Env, Error, KeyOrder, Result};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const DIR: &str = "/db";

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// A database on a disk, and what is known of it.
struct Specimen {
    vfs: StrictVfs,
    /// By keyspace.
    contents: BTreeMap<String, Contents>,
    /// All that was ever written, by keyspace.
    written: BTreeMap<String, BTreeSet<(Vec<u8>, Vec<u8>)>>,
}

fn options() -> Options {
    let keyspace = KeyspaceOptions {
        memtable_bytes: 64 << 10,
        block_bytes: 512,
        index_partition_bytes: 1 << 10,
        compression: vec![Compression::None],
        ..KeyspaceOptions::default()
    };
    Options {
        memory_budget_bytes: 4 << 20,
        compaction_threads: 1,
        default_keyspace: keyspace,
        ..Options::default()
    }
}

fn setup(vfs: &StrictVfs) -> Setup {
    // No two openings draw the same salts.
    static SEED: AtomicU64 = AtomicU64::new(1);
    let seed = SEED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    Setup { env: Env::with_vfs(Arc::new(vfs.clone()), seed << 32), listener: None }
}

fn open(vfs: &StrictVfs) -> Result<Db> {
    Db::open_with(DIR, options(), setup(vfs))
}

fn run(vfs: &StrictVfs) -> Result<RepairReport> {
    repair(Path::new(DIR), &options(), setup(vfs), |_| true)
}

impl Specimen {
    fn new() -> (Specimen, Db) {
        let vfs = StrictVfs::new();
        let db = open(&vfs).expect("create");
        let specimen = Specimen { vfs, contents: BTreeMap::new(), written: BTreeMap::new() };
        (specimen, db)
    }

    fn put(&mut self, db: &Db, keyspace: &str, key: &str, value: &str) {
        let (k, v) = (key.as_bytes().to_vec(), value.as_bytes().to_vec());
        db.keyspace(keyspace).expect("keyspace").put(&k, &v).expect("put");
        self.written.entry(keyspace.into()).or_default().insert((k.clone(), v.clone()));
        self.contents.entry(keyspace.into()).or_default().insert(k, v);
    }

    fn delete(&mut self, db: &Db, keyspace: &str, key: &str) {
        db.keyspace(keyspace).expect("keyspace").delete(key.as_bytes()).expect("delete");
        self.contents.entry(keyspace.into()).or_default().remove(key.as_bytes());
    }

    fn delete_range(&mut self, db: &Db, keyspace: &str, start: &str, end: &str) {
        let (start, end) = (start.as_bytes(), end.as_bytes());
        db.keyspace(keyspace).expect("keyspace").delete_range(start, end).expect("delete");
        let contents = self.contents.entry(keyspace.into()).or_default();
        contents.retain(|key, _| !(start <= key.as_slice() && key.as_slice() < end));
    }

    fn copy(&self) -> StrictVfs {
        self.vfs.deep_copy()
    }

    fn files(&self) -> Vec<PathBuf> {
        let files = self.vfs.file_names(Path::new(DIR)).into_iter();
        files.filter(|name| name != "LOCK").map(|name| Path::new(DIR).join(name)).collect()
    }
}

/// Two keyspaces, tables on two levels, range tombstones, and a log with records that are in no
/// table. Closed in good order.
fn closed() -> Specimen {
    let (mut s, db) = Specimen::new();
    db.create_keyspace("fruit", options().default_keyspace).expect("create");
    for i in 0..24 {
        s.put(&db, "default", &format!("key{i:03}"), &format!("first value {i}"));
        s.put(&db, "fruit", &format!("fruit{i:03}"), &format!("red {i}"));
    }
    db.flush().expect("flush");
    db.default_keyspace().compact_range(None, None).expect("compact");
    for i in (0..24).step_by(2) {
        s.put(&db, "default", &format!("key{i:03}"), &format!("second value {i}"));
    }
    s.delete(&db, "default", "key003");
    s.delete_range(&db, "default", "key010", "key014");
    s.put(&db, "fruit", "fruit001", "green");
    db.default_keyspace().flush().expect("flush");
    for i in 0..6 {
        s.put(&db, "default", &format!("late{i}"), "from the log");
        s.put(&db, "fruit", &format!("fruit{:03}", i * 3), "blue");
    }
    s.delete(&db, "fruit", "fruit020");
    s.delete_range(&db, "default", "key020", "key022");
    db.close().expect("close");
    s
}

/// What a database holds, after a check that it is sound.
fn contents(vfs: &StrictVfs) -> Result<BTreeMap<String, Contents>> {
    let db = open(vfs)?;
    let mut found = BTreeMap::new();
    for name in db.keyspace_names() {
        let mut pairs = Contents::new();
        for pair in db.keyspace(&name)?.range::<&[u8]>(..)? {
            let (key, value) = pair?;
            // Both ways of reading.
            assert_eq!(db.keyspace(&name)?.get(&key)?.as_deref(), Some(&value[..]));
            pairs.insert(key.to_vec(), value.to_vec());
        }
        found.insert(name, pairs);
    }
    let report = db.verify(|_| true)?;
    if let Some((path, error)) = report.damage.first() {
        panic!("verification finds {}: {error}", path.display());
    }
    db.close()?;
    Ok(found)
}

/// Fails naming the first difference.
fn assert_same(
    found: &BTreeMap<String, Contents>,
    expected: &BTreeMap<String, Contents>,
    what: &str,
) {
    for (name, pairs) in expected {
        let found = found.get(name).unwrap_or_else(|| panic!("{what}: no keyspace {name}"));
        for (key, value) in pairs {
            let key = key.escape_ascii();
            let value = value.escape_ascii().to_string();
            let got = found.get(&key.clone().to_string().into_bytes());
            let got = got.map(|v| v.escape_ascii().to_string());
            assert_eq!(got.as_ref(), Some(&value), "{what}: {name}: {key}");
        }
        assert_eq!(found.len(), pairs.len(), "{what}: {name}: more keys than there were");
    }
    assert_eq!(found.len(), expected.len(), "{what}: more keyspaces than there were");
}

/// Opening damaged files: the right data, or an error that names `file`.
fn check_open(s: &Specimen, vfs: &StrictVfs, file: &Path, what: &str) {
    let read = || -> Result<BTreeMap<String, Contents>> {
        let db = open(vfs)?;
        let mut found = BTreeMap::new();
        for name in db.keyspace_names() {
            let pairs = db.keyspace(&name)?.range::<&[u8]>(..)?;
            let pairs: Result<Contents> =
                pairs.map(|p| p.map(|(k, v)| (k.to_vec(), v.to_vec()))).collect();
            found.insert(name, pairs?);
        }
        Ok(found)
    };
    match read() {
        Ok(found) => assert_same(&found, &s.contents, &format!("{what}: opened with other data")),
        Err(Error::Corruption { path, .. }) => assert_eq!(path, file, "{what}: blames another file"),
        Err(error) => panic!("{what}: {error}"),
    }
}

/// Repairs, and checks what must hold of any repair.
fn check_repair(s: &Specimen, vfs: &StrictVfs, what: &str) -> BTreeMap<String, Contents> {
    let report = run(vfs).unwrap_or_else(|error| panic!("{what}: repair: {error}"));
    check_repaired(s, vfs, &report, what)
}

fn check_repaired(
    s: &Specimen,
    vfs: &StrictVfs,
    report: &RepairReport,
    what: &str,
) -> BTreeMap<String, Contents> {
    let found = contents(vfs).unwrap_or_else(|error| panic!("{what}: after repair: {error}"));
    for (name, pairs) in &found {
        let written = s.written.get(name).cloned().unwrap_or_default();
        for (key, value) in pairs {
            let pair = (key.clone(), value.clone());
            assert!(written.contains(&pair), "{what}: {name}: {} was never written", key.escape_ascii());
        }
    }
    if report.is_complete() {
        assert_same(&found, &s.contents, &format!("{what}: silent loss\n{report}"));
    }
    for file in report.files.iter().filter(|file| file.fate != FileFate::Kept) {
        if let Some(moved) = &file.moved_to {
            assert!(vfs.read_file(&Path::new(DIR).join(moved)).is_ok(), "{what}: {moved}");
        }
    }
    found
}

/// The keyspace that a table or nothing (other files) belongs to.
fn keyspace_of(s: &Specimen, file: &Path) -> Option<String> {
    let bytes = s.vfs.read_file(file).expect("file");
    let extension = file.extension().and_then(|e| e.to_str());
    let is_fruit = bytes.windows(8).any(|w| w == b"fruit001" || w == b"fruit000");
    (extension == Some("tbl")).then(|| if is_fruit { "fruit".into() } else { "default".into() })
}

fn is_rebuildable(file: &Path) -> bool {
    let name = file.file_name().and_then(|n| n.to_str()).expect("name");
    name == "CURRENT" || name.starts_with("MANIFEST")
}

/// Checks that only what the file held is concerned.
fn check_extent(s: &Specimen, file: &Path, found: &BTreeMap<String, Contents>, what: &str) {
    if is_rebuildable(file) {
        assert_same(found, &s.contents, what);
        return;
    }
    if let Some(concerned) = keyspace_of(s, file) {
        for (name, pairs) in s.contents.iter().filter(|(name, _)| **name != concerned) {
            assert_eq!(found.get(name), Some(pairs), "{what}: an undamaged keyspace changed");
        }
    }
}

fn damage_all(s: &Specimen, step: u64, damage: impl Fn(&StrictVfs, &Path, u64), cases: impl Fn(u64) -> u64) {
    for file in s.files() {
        let len = s.vfs.read_file(&file).expect("file").len() as u64;
        for case in (0..cases(len)).step_by(step as usize) {
            let what = format!("{} case {case}", file.display());
            let vfs = s.copy();
            damage(&vfs, &file, case);
            check_open(s, &vfs.deep_copy(), &file, &what);
            let found = check_repair(s, &vfs, &what);
            check_extent(s, &file, &found, &what);
        }
    }
}

#[test]
fn a_sound_database_stays_as_it_is() {
    let s = closed();
    assert_eq!(contents(&s.copy()).expect("sound"), s.contents);
    let report = run(&s.vfs).expect("repair");
    assert!(report.is_complete(), "{report}");
    assert!(matches!(report.structure, Structure::Kept { .. }));
    assert_eq!(contents(&s.vfs).expect("repaired"), s.contents);
    assert!(s.vfs.file_names(&Path::new(DIR).join("lost")).is_empty());
}

#[test]
fn any_file_may_be_missing() {
    let s = closed();
    damage_all(&s, 1, |vfs, file, _| esker_base::Vfs::remove(vfs, file).expect("remove"), |_| 1);
}

#[test]
fn any_file_may_be_cut_at_any_length() {
    let s = closed();
    damage_all(&s, 1, |vfs, file, case| vfs.truncate_raw(file, case).expect("cut"), |len| len);
}

#[test]
fn any_bit_may_be_flipped() {
    let s = closed();
    damage_all(&s, 3, |vfs, file, case| vfs.flip_bit(file, case).expect("flip"), |len| len * 8);
}

/// Crashes the repair at each of its calls, then looks what is there, and repairs again.
fn crash_everywhere(s: &Specimen, damaged: &StrictVfs, what: &str) {
    let whole = damaged.deep_copy();
    let before = whole.mutating_calls();
    let clean = check_repair(s, &whole.deep_copy(), what);
    run(&whole).expect("repair");
    let calls = whole.mutating_calls() - before;
    for k in 1..=calls {
        for survival in [Survival::None, Survival::Some { percent: 50 }, Survival::All] {
            let what = format!("{what}, crash at call {k} of {calls}, {survival:?}");
            let vfs = damaged.deep_copy();
            vfs.set_crash_at(before + k);
            // The last calls tidy up; a repair that was cut off there has succeeded.
            let _ = run(&vfs);
            let after = vfs.crash(survival, k);
            match contents(&after.deep_copy()) {
                Ok(found) => {
                    assert_same(&found, &clean, &format!("{what}: opened without another repair"));
                }
                Err(Error::Corruption { .. }) => {}
                Err(error) => panic!("{what}: {error}"),
            }
            let found = check_repair(s, &after, &what);
            assert_same(&found, &clean, &format!("{what}: another outcome"));
        }
    }
}

#[test]
fn a_repair_may_crash_at_any_call() {
    let s = closed();
    crash_everywhere(&s, &s.copy(), "sound");
    for file in s.files() {
        let vfs = s.copy();
        esker_base::Vfs::remove(&vfs, &file).expect("remove");
        crash_everywhere(&s, &vfs, &format!("{} missing", file.display()));
        let vfs = s.copy();
        let len = s.vfs.read_file(&file).expect("file").len() as u64;
        vfs.flip_bit(&file, len * 8 / 3).expect("flip");
        crash_everywhere(&s, &vfs, &format!("{} flipped", file.display()));
    }
}
