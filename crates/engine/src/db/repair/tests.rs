//! Repair on specimens: every file missing, cut at every length, with flipped bits; and a crash at
//! every call of the repair itself.
//!
//! What must hold: opening gives the right data or names the damaged file; after a repair the
//! database opens and verifies, holds no key or value that was never written, loses nothing it does
//! not report, and nothing at all where the damage is in what can be made again.

use super::{FileFate, RepairReport, Structure, repair};
use crate::db::{Db, Setup};
use crate::options::{Compression, KeyspaceOptions, Options, WriteOptions};
use esker_base::vfs::strict::{StrictVfs, Survival};
use esker_base::{Batch, Comparator, Env, Error, KeyOrder, Result, Vfs};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const DIR: &str = "/db";

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;
type Pair = (Vec<u8>, Vec<u8>);

/// A database on a disk, and what is known of it.
struct Specimen {
    vfs: StrictVfs,
    /// By keyspace.
    contents: BTreeMap<String, Contents>,
    /// All that was ever written, by keyspace.
    written: BTreeMap<String, BTreeSet<Pair>>,
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
    Setup {
        env: Env::with_vfs(Arc::new(vfs.clone()), seed << 32),
        listener: None,
        inline_background: true,
        ..Setup::default()
    }
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
        for pair in db.keyspace(&name)?.range(..)? {
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
    let read = |read_only: bool| -> Result<BTreeMap<String, Contents>> {
        let db = match read_only {
            true => Db::open_read_only_with(DIR, options(), setup(vfs))?,
            false => open(vfs)?,
        };
        let mut found = BTreeMap::new();
        for name in db.keyspace_names() {
            let pairs = db.keyspace(&name)?.range(..)?;
            let pairs: Result<Contents> =
                pairs.map(|p| p.map(|(k, v)| (k.to_vec(), v.to_vec()))).collect();
            found.insert(name, pairs?);
        }
        Ok(found)
    };
    // An open that fails must not make the next one succeed with less.
    for read_only in [true, false, false, true] {
        match read(read_only) {
            Ok(found) => {
                assert_same(&found, &s.contents, &format!("{what}: opened with other data"));
            }
            Err(Error::Corruption { path, .. }) => {
                assert_eq!(path, file, "{what}: blames another file");
            }
            Err(error) => panic!("{what}: {error}"),
        }
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
            assert!(
                written.contains(&pair),
                "{what}: {name}: {} was never written",
                key.escape_ascii()
            );
        }
    }
    // What an earlier repair lost, its own report says.
    let earlier = report.notes.iter().any(|note| note.contains("an earlier repair"));
    if report.is_complete() && !earlier {
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

/// Removes a file for good.
fn remove(vfs: &StrictVfs, file: &Path) {
    vfs.remove(file).expect("remove");
    vfs.sync_dir(Path::new(DIR)).expect("sync");
}

fn damage_all(
    s: &Specimen,
    step: u64,
    damage: impl Fn(&StrictVfs, &Path, u64),
    cases: impl Fn(u64) -> u64,
) {
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
    damage_all(&s, 1, |vfs, file, _| remove(vfs, file), |_| 1);
}

#[test]
fn any_file_may_be_cut_at_any_length() {
    let s = closed();
    damage_all(&s, 1, |vfs, file, case| vfs.truncate_raw(file, case).expect("cut"), |len| len);
}

#[test]
fn any_bit_may_be_flipped() {
    let s = closed();
    damage_all(&s, 7, |vfs, file, case| vfs.flip_bit(file, case).expect("flip"), |len| len * 8);
}

/// Crashes the repair at each of its calls, then looks what is there, and repairs again.
fn crash_everywhere(s: &Specimen, damaged: &StrictVfs, what: &str) {
    let whole = damaged.deep_copy();
    let before = whole.mutating_calls();
    let clean = check_repair(s, &whole.deep_copy(), what);
    run(&whole).expect("repair");
    let calls = whole.mutating_calls() - before;
    for k in 1..=calls {
        let survivals = [Survival::None, Survival::Some { percent: 50 }, Survival::All];
        for survival in [survivals[k as usize % 3], survivals[(k as usize + 1) % 3]] {
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
            let report = run(&after).unwrap_or_else(|error| panic!("{what}: repair: {error}"));
            let found = check_repaired(s, &after, &report, &what);
            assert_same(&found, &clean, &format!("{what}: another outcome\n{report}"));
        }
    }
}

#[test]
fn a_repair_may_crash_at_any_call() {
    let s = closed();
    crash_everywhere(&s, &s.copy(), "sound");
    for file in s.files() {
        let vfs = s.copy();
        remove(&vfs, &file);
        crash_everywhere(&s, &vfs, &format!("{} missing", file.display()));
        let vfs = s.copy();
        let len = s.vfs.read_file(&file).expect("file").len() as u64;
        vfs.flip_bit(&file, len * 8 / 3).expect("flip");
        crash_everywhere(&s, &vfs, &format!("{} flipped", file.display()));
    }
}

/// Another order of keys.
struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "test.backwards"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

#[test]
fn without_any_manifest_everything_comes_from_tables_and_logs() {
    let s = closed();
    for file in s.files().iter().filter(|file| is_rebuildable(file)) {
        remove(&s.vfs, file);
    }
    let report = run(&s.vfs).expect("repair");
    assert_eq!(report.structure, Structure::Rebuilt);
    assert_same(&contents(&s.vfs).expect("repaired"), &s.contents, &report.to_string());
    // Every old file is still to be had.
    let lost = s.vfs.file_names(&Path::new(DIR).join("lost"));
    assert!(lost.iter().any(|name| name.ends_with(".tbl")), "{lost:?}");
    assert!(lost.iter().any(|name| name.ends_with(".wal")), "{lost:?}");
    let json = serde_json::to_string(&report).expect("json");
    assert!(json.contains("\"structure\":\"rebuilt\""), "{json}");
}

#[test]
fn a_keyspace_that_only_logs_know_gets_a_name() {
    let (mut s, db) = Specimen::new();
    db.create_keyspace("young", options().default_keyspace).expect("create");
    s.put(&db, "young", "a", "1");
    s.put(&db, "default", "b", "2");
    db.close().expect("close");
    for file in s.files().iter().filter(|file| is_rebuildable(file)) {
        remove(&s.vfs, file);
    }
    let report = run(&s.vfs).expect("repair");
    let found = contents(&s.vfs).expect("repaired");
    let other = found.keys().find(|name| name.starts_with("recovered-")).expect("keyspace");
    assert_eq!(found[other], s.contents["young"]);
    assert_eq!(found["default"], s.contents["default"]);
    assert!(report.notes.iter().any(|note| note.contains(other)), "{report}");
}

#[test]
fn bulk_loaded_tables_keep_their_age_while_an_edit_tells_it() {
    let build = || {
        let (mut s, db) = Specimen::new();
        s.put(&db, "default", "a", "old");
        s.put(&db, "default", "c", "kept");
        db.flush().expect("flush");
        let mut ingest = db.default_keyspace().ingest().expect("ingest");
        for (key, value) in [("a", "loaded"), ("b", "loaded")] {
            ingest.put(key.as_bytes(), value.as_bytes()).expect("put");
            let pair = (key.as_bytes().to_vec(), value.as_bytes().to_vec());
            s.written.entry("default".into()).or_default().insert(pair.clone());
            s.contents.entry("default".into()).or_default().insert(pair.0, pair.1);
        }
        ingest.finish().expect("finish");
        db.close().expect("close");
        s
    };
    let s = build();
    let tables: Vec<PathBuf> =
        s.files().into_iter().filter(|f| f.extension().is_some_and(|e| e == "tbl")).collect();
    for (i, table) in tables.iter().enumerate() {
        // The footer: all blocks have to be found by their checksums.
        let vfs = s.copy();
        let len = vfs.read_file(table).expect("table").len() as u64;
        vfs.flip_bit(table, (len - 30) * 8).expect("flip");
        let found = check_repair(&s, &vfs, &format!("table {i}"));
        assert_same(&found, &s.contents, &format!("table {i}: only the footer was damaged"));
    }
    // CURRENT and the middle of the manifest.
    let manifest = s.files().into_iter().find(|f| f.to_string_lossy().contains("MANIFEST"));
    let vfs = s.copy();
    vfs.flip_bit(&manifest.expect("manifest"), 60 * 8).expect("flip");
    remove(&vfs, &Path::new(DIR).join("CURRENT"));
    let found = check_repair(&s, &vfs, "manifest flipped");
    assert_same(&found, &s.contents, "a readable edit tells the age");
    // Nothing at all: the known limit, which the report must tell.
    for file in s.files().iter().filter(|file| is_rebuildable(file)) {
        remove(&s.vfs, file);
    }
    let report = run(&s.vfs).expect("repair");
    assert!(report.notes.iter().any(|note| note.contains("bulk-loaded")), "{report}");
    let found = check_repaired_known(&s, &report);
    assert_eq!(found["default"].get(&b"b"[..]).map(Vec::as_slice), Some(&b"loaded"[..]));
}

fn check_repaired_known(s: &Specimen, report: &RepairReport) -> BTreeMap<String, Contents> {
    let found = contents(&s.vfs).expect("repaired");
    for (key, value) in &found["default"] {
        assert!(s.written["default"].contains(&(key.clone(), value.clone())), "{report}");
    }
    found
}

#[test]
fn a_keyspace_in_an_unknown_order_is_left_alone() {
    let (mut s, db) = Specimen::new();
    let backwards = KeyspaceOptions {
        order: KeyOrder::Custom(Arc::new(Backwards)),
        ..options().default_keyspace
    };
    db.create_keyspace("backwards", backwards.clone()).expect("create");
    s.put(&db, "backwards", "a", "1");
    s.put(&db, "default", "k", "v");
    db.flush().expect("flush");
    s.put(&db, "backwards", "b", "2");
    s.put(&db, "default", "l", "w");
    db.close().expect("close");
    let mut right = options();
    right.keyspaces.insert("backwards".into(), backwards);
    let check = |vfs: &StrictVfs| {
        let db = Db::open_with(DIR, right.clone(), setup(vfs)).expect("open");
        for (name, pairs) in &s.contents {
            for (key, value) in pairs {
                let got = db.keyspace(name).expect("keyspace").get(key).expect("get");
                assert_eq!(got.as_deref(), Some(&value[..]), "{name}");
            }
        }
        assert!(db.verify(|_| true).expect("verify").damage.is_empty());
    };
    let vfs = s.copy();
    let report = run(&vfs).expect("repair");
    assert!(!report.is_complete());
    assert!(report.keyspaces.iter().any(|k| k.name == "backwards" && k.skipped.is_some()));
    check(&vfs);
    let vfs = s.copy();
    let report = repair(Path::new(DIR), &right, setup(&vfs), |_| true).expect("repair");
    assert!(report.is_complete(), "{report}");
    check(&vfs);
}

/// And what is left of it is not merged with what a log holds of the table it lost.
#[test]
fn a_keyspace_in_an_unknown_order_keeps_its_tables_when_one_is_lost() {
    let (s, db) = Specimen::new();
    let backwards = KeyspaceOptions {
        order: KeyOrder::Custom(Arc::new(Backwards)),
        ..options().default_keyspace
    };
    let keyspace = db.create_keyspace("backwards", backwards.clone()).expect("create");
    db.put(b"pins", b"the log").expect("put");
    for key in [b"a", b"b"] {
        keyspace.put(key, b"v").expect("put");
        keyspace.flush().expect("flush");
    }
    drop(keyspace);
    db.close().expect("close");
    let tables: Vec<PathBuf> =
        s.files().into_iter().filter(|file| file.extension().is_some_and(|e| e == "tbl")).collect();
    assert_eq!(tables.len(), 2, "{tables:?}");
    let mut right = options();
    right.keyspaces.insert("backwards".into(), backwards);
    for lost in &tables {
        let vfs = s.copy();
        vfs.remove(lost).expect("remove");
        let report = run(&vfs).expect("repair");
        let told = report.keyspaces.iter().find(|k| k.name == "backwards").expect("it is told of");
        assert!(
            told.skipped.is_some() && told.tables_lost == 1 && told.tables_kept == 1,
            "{report}"
        );
        let db = Db::open_with(DIR, right.clone(), setup(&vfs)).expect("open");
        let keyspace = db.keyspace("backwards").expect("keyspace");
        let found = [b"a", b"b"].map(|key| keyspace.get(key).expect("get").is_some());
        assert_eq!(
            found.iter().filter(|&&is_there| is_there).count(),
            1,
            "{}: {report}",
            lost.display()
        );
    }
}

/// Tombstones that lie over each other for a snapshot's sake are written as they were.
#[test]
fn a_table_that_lost_no_record_gets_nothing_back_from_logs() {
    let (s, db) = Specimen::new();
    db.create_keyspace("other", options().default_keyspace).expect("create");
    db.keyspace("other").expect("keyspace").put(b"pins", b"the log").expect("put");
    let delete = || {
        let mut batch = Batch::new();
        batch.delete_range(&b"a"[..], &b"m"[..]);
        db.write(batch, WriteOptions::default()).expect("write");
    };
    for key in 0..50u8 {
        db.put(&[b'n', key], &[key; 100]).expect("put");
    }
    delete();
    let snapshot = db.snapshot();
    delete();
    db.default_keyspace().flush().expect("flush");
    drop(snapshot);
    db.close().expect("close");
    let table = s.files().into_iter().find(|file| file.extension().is_some_and(|e| e == "tbl"));
    let table = table.expect("a table");
    let mut whole = 0;
    for byte in (0..s.vfs.read_file(&table).expect("read").len() as u64).step_by(23) {
        let vfs = s.copy();
        vfs.flip_bit(&table, 8 * byte).expect("flip");
        let report = run(&vfs).expect("repair");
        let name = table.file_name().and_then(|name| name.to_str()).expect("a name");
        let told = report.files.iter().find(|file| file.file == name).expect("it is told of");
        if told.records == 52 {
            whole += 1;
            let notes = report.notes.join(" ");
            assert!(!notes.contains("got back from logs"), "byte {byte}: {report}");
        }
    }
    assert!(whole > 5, "{whole}");
}

#[test]
fn a_default_keyspace_in_another_order_is_an_error_and_nothing_changes() {
    let s = closed();
    let mut wrong = options();
    wrong.default_keyspace.order = KeyOrder::Custom(Arc::new(Backwards));
    for lost in [false, true] {
        let vfs = s.copy();
        for file in s.files().iter().filter(|file| lost && is_rebuildable(file)) {
            remove(&vfs, file);
        }
        let before = vfs.file_names(Path::new(DIR));
        let refused = repair(Path::new(DIR), &wrong, setup(&vfs), |_| true);
        assert!(matches!(refused, Err(Error::Incompatible { .. })), "{refused:?}");
        assert_eq!(vfs.file_names(Path::new(DIR)), before);
    }
}

/// Found by cutting the log of a closed database: the failed open had written the manifest anew,
/// without what it had failed by, and the second open succeeded with less.
#[test]
fn a_failed_open_leaves_the_damage_to_be_found_again() {
    let (mut s, db) = Specimen::new();
    for i in 0..4 {
        s.put(&db, "default", &format!("key{i}"), "v");
    }
    db.close().expect("close");
    let wal = s.files().into_iter().find(|f| f.extension().is_some_and(|e| e == "wal"));
    s.vfs.truncate_raw(&wal.expect("log"), 100).expect("cut");
    for attempt in 0..3 {
        let refused = open(&s.vfs).map(|_| ());
        assert!(refused.is_err_and(|error| error.is_corruption()), "attempt {attempt}");
    }
}

/// Found by cutting logs: the records of an idle keyspace in an older log were gone, and what
/// followed in the next log was taken, because tables of another keyspace reached that far.
#[test]
fn an_older_log_that_lost_everything_is_noticed() {
    let (mut s, db) = Specimen::new();
    db.create_keyspace("idle", options().default_keyspace).expect("create");
    s.put(&db, "idle", "a", "1");
    s.put(&db, "default", "b", "2");
    db.default_keyspace().flush().expect("flush");
    s.put(&db, "default", "c", "3");
    db.close().expect("close");
    let wal = s.files().into_iter().find(|f| f.extension().is_some_and(|e| e == "wal"));
    let wal = wal.expect("log");
    // The header alone is left.
    s.vfs.truncate_raw(&wal, 40).expect("cut");
    match open(&s.vfs).map(|_| ()) {
        Err(Error::Corruption { path, .. }) => assert_eq!(path, wal),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_repair_needs_the_lock_and_can_be_called_off() {
    let s = closed();
    let files = s.vfs.file_names(Path::new(DIR));
    let db = open(&s.vfs).expect("open");
    assert!(matches!(run(&s.vfs), Err(Error::Busy { .. })));
    db.close().expect("close");
    let before = s.vfs.file_names(Path::new(DIR));
    let called_off = repair(Path::new(DIR), &options(), setup(&s.vfs), |_| false);
    assert!(matches!(called_off, Err(Error::Cancelled)));
    assert_eq!(s.vfs.file_names(Path::new(DIR)), before);
    assert!(!files.is_empty());
    let empty = StrictVfs::new();
    assert!(matches!(run(&empty), Err(Error::NotFound { .. })));
    empty.create_dir_all(Path::new(DIR)).expect("directory");
    assert!(matches!(run(&empty), Err(Error::NotFound { .. })));
}

/// A database whose process was killed after synced writes to three keyspaces; power went too.
fn killed() -> Specimen {
    let (mut s, db) = Specimen::new();
    db.create_keyspace("fruit", options().default_keyspace).expect("create");
    for i in 0..10 {
        s.put(&db, "default", &format!("key{i:03}"), "in a table");
        s.put(&db, "fruit", &format!("fruit{i:03}"), "in the log");
    }
    db.default_keyspace().flush().expect("flush");
    s.put(&db, "default", "key003", "newer");
    db.create_keyspace("young", options().default_keyspace).expect("create");
    let young = db.keyspace("young").expect("keyspace").id();
    let mut batch = Batch::new();
    batch.put_in(young, b"y", b"1").put(b"key100", b"1");
    db.write(batch, WriteOptions::SYNC).expect("write");
    for (name, key) in [("young", &b"y"[..]), ("default", &b"key100"[..])] {
        let pair = (key.to_vec(), b"1".to_vec());
        s.written.entry(name.into()).or_default().insert(pair.clone());
        s.contents.entry(name.into()).or_default().insert(pair.0, pair.1);
    }
    s.vfs = s.vfs.crash(Survival::None, 1);
    drop(db);
    s
}

#[test]
fn after_a_crash_a_cut_of_one_file_is_noticed_wherever_another_file_tells() {
    let s = killed();
    assert_same(&contents(&s.copy()).expect("sound"), &s.contents, "sound");
    for file in s.files() {
        let len = s.vfs.read_file(&file).expect("file").len() as u64;
        // A spare log behind it holds nothing.
        let is_begun = |log: &&PathBuf| {
            log.extension().is_some_and(|e| e == "wal")
                && s.vfs.read_file(log).expect("file").iter().any(|&byte| byte != 0)
        };
        let is_last_log = Some(&file) == s.files().iter().rfind(is_begun);
        // Logs are reserved in advance: zeros follow.
        for cut in 0..len.min(3_000) {
            let vfs = s.copy();
            vfs.truncate_raw(&file, cut).expect("cut");
            let what = format!("{} cut at {cut}", file.display());
            // Nothing but the last log itself says how far it reached.
            if is_last_log {
                match contents(&vfs.deep_copy()) {
                    Ok(_) | Err(Error::Corruption { .. }) => {}
                    Err(error) => panic!("{what}: {error}"),
                }
            } else {
                match contents(&vfs.deep_copy()) {
                    Ok(found) => assert_same(&found, &s.contents, &what),
                    Err(Error::Corruption { .. }) => {}
                    Err(error) => panic!("{what}: {error}"),
                }
                let found = check_repair_known(&s, &vfs, &what);
                if is_rebuildable(&file) {
                    for (name, pairs) in &s.contents {
                        // Its name may be gone, but not what it held.
                        assert!(found.values().any(|f| f == pairs), "{what}: {name}");
                    }
                }
            }
        }
    }
}

/// As `check_repair`, where a keyspace may have lost its name.
fn check_repair_known(s: &Specimen, vfs: &StrictVfs, what: &str) -> BTreeMap<String, Contents> {
    let report = run(vfs).unwrap_or_else(|error| panic!("{what}: repair: {error}"));
    let found = contents(vfs).unwrap_or_else(|error| panic!("{what}: after repair: {error}"));
    let all: BTreeSet<_> = s.written.values().flatten().cloned().collect();
    for (key, value) in found.values().flatten() {
        assert!(all.contains(&(key.clone(), value.clone())), "{what}: never written");
    }
    if report.is_complete() && report.notes.is_empty() {
        assert_same(&found, &s.contents, &format!("{what}: silent loss\n{report}"));
    }
    found
}

#[test]
fn several_files_may_be_damaged_at_random() {
    let specimens = [closed(), killed()];
    let mut state = 11u64;
    let mut random = |n: u64| {
        state = esker_base::checksum::mix64(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
        state % n
    };
    for round in 0..600 {
        let s = &specimens[random(2) as usize];
        let vfs = s.copy();
        let mut what = format!("round {round}");
        for file in s.files() {
            let len = vfs.read_file(&file).expect("file").len().min(3_000) as u64;
            if len == 0 {
                continue;
            }
            match random(6) {
                0 => remove(&vfs, &file),
                1 => vfs.truncate_raw(&file, random(len)).expect("cut"),
                2 => {
                    for _ in 0..=random(4) {
                        vfs.flip_bit(&file, random(len * 8)).expect("flip");
                    }
                }
                _ => continue,
            }
            what.push_str(&format!(", {}", file.display()));
        }
        match contents(&vfs.deep_copy()) {
            Ok(_) | Err(Error::Corruption { .. } | Error::Incompatible { .. }) => {}
            Err(error) => panic!("{what}: {error}"),
        }
        let files = s.files();
        if files.iter().all(|file| !vfs.exists(file).expect("stat")) {
            continue;
        }
        check_repair_known(s, &vfs, &what);
    }
}
