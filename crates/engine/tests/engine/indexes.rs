//! Indexes hold what the records hold, at every moment that can be seen.

use super::support::{DIR, Random, setup, setup_on};
use esker::base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker::base::vfs::strict::{StrictVfs, Survival};
use esker::base::{Env, Error, Vfs};
use esker::fields::{FieldRef, FieldValue, Record, RecordView};
use esker::repair::repair;
use esker::{
    Batch, Compaction, Comparator, Compression, Db, FindOptions, IndexState, KeyOrder, Keyspace,
    KeyspaceOptions, Options, Setup, Snapshot, WriteOptions,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const FIELDS: [&str; 3] = ["name", "price", "note"];

/// Small files; values of 100 bytes and more stand apart.
fn options(compaction: Compaction) -> Options {
    let default_keyspace = KeyspaceOptions {
        memtable_bytes: 64 << 10,
        block_bytes: 1 << 10,
        table_bytes_max: 16 << 10,
        level_base_bytes: 64 << 10,
        level_fanout: 3,
        level0_runs_compact: 2,
        value_log_bytes_min: Some(100),
        compaction,
        ..KeyspaceOptions::default()
    };
    Options {
        memory_budget_bytes: 8 << 20,
        memtables_bytes_max: 1 << 20,
        wal_bytes_max: 1 << 20,
        value_log_file_bytes: 16 << 10,
        default_keyspace,
        ..Options::default()
    }
}

fn open(disk: &StrictVfs) -> Db {
    Db::open_with(DIR, options(Compaction::Leveled), setup(disk)).expect("open")
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:04}").into_bytes()
}

/// A record of some of the fields, with values of all types; now and then bytes that are none.
fn value(random: &mut Random) -> Vec<u8> {
    let field = |random: &mut Random| match random.below(7) {
        0 => FieldValue::Null,
        1 => (random.below(2) == 0).into(),
        2 | 3 => (random.below(6) as i64 - 3).into(),
        4 => (random.below(4) as f64 / 2.0 - 1.0).into(),
        5 => ["", "a", "a\0", "a\0\u{1}", "b"][random.below(5) as usize].into(),
        _ => [&b""[..], b"\0", b"\0\xff", b"x"][random.below(4) as usize].into(),
    };
    let mut record = Record::new();
    for name in FIELDS {
        if random.below(4) > 0 {
            record.set(name, field(random));
        }
    }
    if random.below(4) == 0 {
        record.set("padding", "p".repeat(300));
    }
    let mut bytes = record.encode().expect("encodes");
    match random.below(12) {
        0 => bytes.push(0),
        1 => bytes = b"no record".to_vec(),
        _ => {}
    }
    bytes
}

/// What an index of this field should give.
fn expected(model: &Model, field: &str) -> Vec<(FieldValue, Vec<u8>)> {
    let mut rows: Vec<(FieldValue, Vec<u8>)> = model
        .iter()
        .filter_map(|(key, value)| {
            let value = RecordView::parse(value).ok()?.get(field)?.to_value();
            Some((value, key.clone()))
        })
        .collect();
    rows.sort();
    rows
}

fn at(snapshot: Option<&Snapshot>) -> FindOptions<'_> {
    FindOptions { snapshot, ..FindOptions::default() }
}

fn all(
    keyspace: &Keyspace,
    field: &str,
    snapshot: Option<&Snapshot>,
) -> Vec<(FieldValue, Vec<u8>)> {
    let mut found = keyspace.find_range(field, .., &at(snapshot)).expect("find");
    let mut rows = Vec::new();
    while found.advance().expect("advance") {
        rows.push((found.value().expect("value").to_value(), found.key().to_vec()));
    }
    assert!(!found.advance().expect("advance"));
    rows
}

/// Compares all ways of finding with a model.
fn assert_finds(keyspace: &Keyspace, model: &Model, field: &str, snapshot: Option<&Snapshot>) {
    let rows = expected(model, field);
    assert!(all(keyspace, field, snapshot) == rows, "{field}");
    let values: BTreeSet<&FieldValue> = rows.iter().map(|(value, _)| value).collect();
    for value in values {
        let keys: Vec<&Vec<u8>> =
            rows.iter().filter(|row| row.0 == *value).map(|row| &row.1).collect();
        let mut found = keyspace.find(field, value, &at(snapshot)).expect("find");
        for key in &keys {
            assert!(found.advance().expect("advance"));
            assert_eq!(found.key(), &key[..]);
        }
        assert!(!found.advance().expect("advance"));
        let read = keyspace.get_keys_by_field(field, value, snapshot, |_| true).expect("read");
        assert!(read.iter().eq(keys), "{field} without the index");
        let value = value.as_ref();
        for (range, count) in [
            (
                (std::ops::Bound::Excluded(value), std::ops::Bound::Unbounded),
                rows.iter().filter(|row| row.0.as_ref() > value).count(),
            ),
            (
                (std::ops::Bound::Unbounded, std::ops::Bound::Excluded(value)),
                rows.iter().filter(|row| row.0.as_ref() < value).count(),
            ),
            (
                (std::ops::Bound::Unbounded, std::ops::Bound::Included(value)),
                rows.iter().filter(|row| row.0.as_ref() <= value).count(),
            ),
            (
                (std::ops::Bound::Included(value), std::ops::Bound::Unbounded),
                rows.iter().filter(|row| row.0.as_ref() >= value).count(),
            ),
        ] {
            let mut found = keyspace.find_range(field, range, &at(snapshot)).expect("find");
            let mut n = 0;
            while found.advance().expect("advance") {
                n += 1;
            }
            assert_eq!(n, count, "{field} {range:?}");
        }
    }
}

fn assert_sound(db: &Db, indexes: usize) {
    let report = db.verify(|_| true).expect("verify");
    assert!(report.damage.is_empty(), "{:?} {:?}", report.damage, report.indexes);
    assert_eq!(report.indexes.len(), indexes);
}

/// Writes a batch of some operations, of which several may be on one key.
fn change(db: &Db, keyspace: &Keyspace, model: &mut Model, random: &mut Random) {
    const KEYS: u64 = 120;
    let mut batch = Batch::new();
    let near = random.below(KEYS);
    for _ in 0..=random.below(5) {
        let number = if random.below(2) == 0 { near } else { random.below(KEYS) };
        match random.below(25) {
            0..=17 => {
                let value = value(random);
                batch.put_in(keyspace, &key(number), &value);
                model.insert(key(number), value);
            }
            18..=23 => {
                batch.delete_in(keyspace, &key(number));
                model.remove(&key(number));
            }
            _ => {
                let end = number + random.below(20);
                batch.delete_range_in(keyspace, &key(number), &key(end));
                model.retain(|k, _| *k < key(number) || *k >= key(end));
            }
        }
    }
    db.write(batch, WriteOptions::default()).expect("write");
}

#[test]
fn indexes_agree_with_a_model_whatever_happens() {
    for (nth, compaction) in [Compaction::Leveled, Compaction::Tiered].into_iter().enumerate() {
        let mut disk = StrictVfs::new();
        let (mut model, mut random) = (Model::new(), Random(1 + nth as u64));
        // "name" is indexed before there is data, "price" later, "note" comes and goes.
        for round in 0..9u64 {
            let db = Db::open_with(DIR, options(compaction), setup(&disk)).expect("open");
            let keyspace = db.default_keyspace();
            if round == 0 {
                keyspace.create_index("name").expect("create");
            }
            if round > 0 {
                db.wait_indexes().expect("built");
                assert_finds(keyspace, &model, "name", None);
            }
            for step in 0..120 {
                change(&db, keyspace, &mut model, &mut random);
                if step == 40 && round == 2 {
                    keyspace.create_index("price").expect("create");
                }
                if step == 50 && round % 3 == 1 {
                    keyspace.create_index("note").expect("create");
                }
                if step == 20 && round % 3 == 0 && round > 0 {
                    keyspace.drop_index("note").expect("drop");
                }
            }
            db.wait_indexes().expect("built");
            let (snapshot, then) = (db.snapshot(), model.clone());
            for _ in 0..60 {
                change(&db, keyspace, &mut model, &mut random);
            }
            for info in keyspace.indexes().expect("indexes") {
                assert_eq!(info.state, IndexState::Ready);
                assert_finds(keyspace, &model, &info.field, None);
                assert_finds(keyspace, &then, &info.field, Some(&snapshot));
            }
            db.flush().expect("flush");
            keyspace.compact_range(None, None).expect("compact");
            db.collect_values(0.0, |_| true).expect("collect");
            let indexes = keyspace.indexes().expect("indexes").len();
            assert_eq!(indexes, 1 + usize::from(round >= 2) + usize::from(round % 3 != 0));
            assert_sound(&db, indexes);
            assert_eq!(db.keyspace_names(), ["default"]);
            drop(snapshot);
            if round % 2 == 0 {
                db.close().expect("close");
            } else {
                disk = disk.crash(Survival::ProcessDeath, round);
            }
        }
    }
}

#[test]
fn building_goes_on_where_it_was_after_a_reopen() {
    let disk = StrictVfs::new();
    let mut model = Model::new();
    let env = || Env::with_vfs(Arc::new(disk.clone()), 3);
    let threads =
        || Setup { env: env(), listener: None, inline_background: false, ..Setup::default() };
    {
        let db = open(&disk);
        for number in 0..3_000 {
            let value = Record::new().with("price", number % 10).encode().expect("encodes");
            db.put(&key(number as u64), &value).expect("put");
            model.insert(key(number as u64), value);
        }
        db.default_keyspace().create_index("price").expect("create");
        let info = &db.default_keyspace().indexes().expect("indexes")[0];
        assert_eq!((info.state, info.keys_done), (IndexState::Building, 0));
        assert_eq!(db.stats().indexes.len(), 1);
        assert_eq!(db.stats().keyspaces.len(), 1);
        db.close().expect("close");
    }
    let mut reopened = 0;
    loop {
        let db = Db::open_with(DIR, options(Compaction::Leveled), threads()).expect("open");
        reopened += 1;
        let info = db.default_keyspace().indexes().expect("indexes").remove(0);
        if info.state == IndexState::Ready || reopened > 20 {
            db.wait_idle().expect("idle");
            let info = db.default_keyspace().indexes().expect("indexes").remove(0);
            assert_eq!((info.state, info.keys_done), (IndexState::Ready, 3_000));
            assert!(all(db.default_keyspace(), "price", None) == expected(&model, "price"));
            assert_sound(&db, 1);
            break;
        }
        db.close().expect("close");
    }
}

#[test]
fn a_snapshot_sees_the_index_as_it_was_and_not_before_it_was_ready() {
    let disk = StrictVfs::new();
    let db = open(&disk);
    let keyspace = db.default_keyspace();
    keyspace.put_record(b"a", &Record::new().with("price", 1)).expect("put");
    let before = db.snapshot();
    keyspace.create_index("price").expect("create");
    let error = keyspace.find("price", 1, &FindOptions::default()).expect_err("building");
    assert!(error.to_string().contains("wait_indexes"), "{error}");
    db.wait_indexes().expect("built");
    let error = keyspace.find("price", 1, &FindOptions::at(&before)).expect_err("too old");
    assert!(error.to_string().contains("take a new one"), "{error}");
    let then = db.snapshot();
    keyspace.put_record(b"a", &Record::new().with("price", 2)).expect("put");
    for (price, at, finds) in [(1, &then, true), (2, &then, false)] {
        let mut found = keyspace.find("price", price, &FindOptions::at(at)).expect("find");
        assert_eq!(found.advance().expect("advance"), finds, "{price}");
    }
    let mut found = keyspace.find("price", 2, &FindOptions::default()).expect("find");
    assert!(found.advance().expect("advance"));
    assert_eq!((found.key(), found.value().expect("value")), (&b"a"[..], FieldRef::Int(2)));
    let record = keyspace.get_record(b"a").expect("get").expect("there");
    assert_eq!(record.get("price"), Some(&FieldValue::Int(2)));
    assert!(keyspace.get_record(b"b").expect("get").is_none());
}

#[test]
fn what_is_loaded_in_bulk_is_indexed() {
    let disk = StrictVfs::new();
    let db = open(&disk);
    let keyspace = db.create_keyspace("goods", options(Compaction::Leveled).default_keyspace);
    let keyspace = keyspace.expect("create");
    keyspace.create_index("price").expect("create");
    let (mut model, mut random) = (Model::new(), Random(9));
    for _ in 0..100 {
        change(&db, &keyspace, &mut model, &mut random);
    }
    db.wait_indexes().expect("built");
    let (snapshot, then) = (db.snapshot(), model.clone());
    let mut ingest = keyspace.ingest().expect("ingest");
    for number in (0..200).step_by(3) {
        let value = value(&mut random);
        ingest.put(&key(number), &value).expect("put");
        model.insert(key(number), value);
    }
    ingest.finish().expect("finish");
    let error = keyspace.find("price", 1, &FindOptions::default()).expect_err("built anew");
    assert!(error.to_string().contains("0 keys are done"), "{error}");
    assert_finds(&keyspace, &then, "price", Some(&snapshot));
    for _ in 0..20 {
        change(&db, &keyspace, &mut model, &mut random);
    }
    db.wait_idle().expect("idle");
    assert_finds(&keyspace, &model, "price", None);
    assert_finds(&keyspace, &then, "price", Some(&snapshot));
    assert_sound(&db, 1);
}

#[test]
fn a_checkpoint_has_its_indexes() {
    let disk = StrictVfs::new();
    let db = open(&disk);
    let keyspace = db.default_keyspace();
    let (mut model, mut random) = (Model::new(), Random(10));
    keyspace.create_index("name").expect("create");
    db.wait_indexes().expect("built");
    for _ in 0..200 {
        change(&db, keyspace, &mut model, &mut random);
    }
    keyspace.create_index("price").expect("create");
    db.checkpoint("/copy").expect("checkpoint");
    change(&db, keyspace, &mut Model::new(), &mut random);
    let copy = Db::open_with("/copy", options(Compaction::Leveled), setup(&disk)).expect("open");
    assert_finds(copy.default_keyspace(), &model, "name", None);
    copy.wait_indexes().expect("built");
    assert_finds(copy.default_keyspace(), &model, "price", None);
    assert_sound(&copy, 2);
}

#[test]
fn a_repaired_store_builds_its_indexes_anew() {
    for damage in ["", "CURRENT", "MANIFEST", "tbl"] {
        let disk = StrictVfs::new();
        let (mut model, mut random) = (Model::new(), Random(11));
        {
            let db = open(&disk);
            let keyspace = db.default_keyspace();
            keyspace.create_index("name").expect("create");
            for _ in 0..200 {
                change(&db, keyspace, &mut model, &mut random);
            }
            db.flush().expect("flush");
            for _ in 0..50 {
                change(&db, keyspace, &mut model, &mut random);
            }
            db.wait_idle().expect("idle");
            db.close().expect("close");
        }
        let names = disk.file_names(Path::new(DIR));
        if !damage.is_empty() {
            let name = names.iter().find(|name| name.contains(damage)).expect("such a file");
            let path = Path::new(DIR).join(name);
            let mut bytes = disk.read_file(&path).expect("read");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x55;
            disk.write_file(&path, &bytes).expect("write");
        }
        let options = options(Compaction::Leveled);
        let report = repair(Path::new(DIR), &options, setup(&disk), |_| true).expect("repair");
        assert_eq!(report.keyspaces.len(), 1, "{damage}: {report}");
        let db = open(&disk);
        let keyspace = db.default_keyspace();
        assert_eq!(keyspace.indexes().expect("indexes")[0].state, IndexState::Building);
        db.wait_idle().expect("idle");
        let there: Model = db
            .iter()
            .expect("iter")
            .map(|pair| pair.expect("pair"))
            .map(|(k, v)| (k.to_vec(), v.to_vec()))
            .collect();
        assert!(damage == "tbl" || there == model, "{damage}");
        assert_finds(keyspace, &there, "name", None);
        assert_sound(&db, 1);
    }
}

#[test]
fn a_repair_leaves_no_index_of_a_keyspace_that_nothing_tells_of() {
    let disk = StrictVfs::new();
    let db = open(&disk);
    let empty = options(Compaction::Leveled).default_keyspace;
    let goods = db.create_keyspace("goods", empty).expect("create");
    goods.create_index("name").expect("create");
    db.wait_indexes().expect("built");
    // The index has a table now, which says what it is of, and its keyspace has none.
    db.flush().expect("flush");
    drop(goods);
    db.close().expect("close");
    for name in disk.file_names(Path::new(DIR)) {
        if name == "CURRENT" || name.starts_with("MANIFEST") || name.ends_with(".wal") {
            disk.remove(&Path::new(DIR).join(name)).expect("remove");
        }
    }
    let options = options(Compaction::Leveled);
    repair(Path::new(DIR), &options, setup(&disk), |_| true).expect("repair");
    let db = open(&disk);
    assert_eq!(db.keyspace_names(), ["default"]);
    db.delete_group(b"group").expect("no field is indexed");
    db.close().expect("close");
}

#[test]
fn a_dropped_keyspace_takes_its_indexes_along() {
    let disk = StrictVfs::new();
    let db = open(&disk);
    let create = || db.create_keyspace("goods", options(Compaction::Leveled).default_keyspace);
    let goods = create().expect("create");
    for field in FIELDS {
        goods.create_index(field).expect("create");
    }
    goods.put_record(b"a", &Record::new().with("name", 1)).expect("put");
    db.wait_indexes().expect("built");
    db.flush().expect("flush");
    db.drop_keyspace("goods").expect("drop");
    assert!(goods.find("name", 1, &FindOptions::default()).is_err());
    assert!(db.stats().indexes.is_empty());
    let again = create().expect("create");
    assert!(again.indexes().expect("indexes").is_empty());
    db.wait_idle().expect("idle");
    let tables = disk.file_names(Path::new(DIR)).into_iter().filter(|n| n.ends_with(".tbl"));
    assert_eq!(tables.count(), 0);
    db.put(b"k", b"v").expect("put");
    drop((goods, again));
    db.close().expect("close");
    let db = open(&disk);
    assert_eq!(db.keyspace_names(), ["default", "goods"]);
    assert!(db.stats().indexes.is_empty());
}

struct Backward;

impl Comparator for Backward {
    fn name(&self) -> &'static str {
        "test.backward"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        b.cmp(a)
    }
}

fn assert_refused<T: std::fmt::Debug>(result: esker::Result<T>, words: &[&str]) {
    let error = result.expect_err("refused");
    assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
}

#[test]
fn errors_say_what_to_do() {
    let disk = StrictVfs::new();
    let db = open(&disk);
    let keyspace = db.default_keyspace();
    let order = KeyOrder::Custom(Arc::new(Backward));
    let backward = KeyspaceOptions { order, ..KeyspaceOptions::default() };
    let other = db.create_keyspace("backward", backward).expect("create");
    assert_refused(other.create_index("price"), &["backward", "price", "test.backward"]);
    assert_refused(keyspace.create_index(""), &["empty"]);
    assert_refused(keyspace.create_index(&"n".repeat(256)), &["256 bytes"]);
    keyspace.create_index(&"n".repeat(255)).expect("the longest name");
    keyspace.create_index("price").expect("create");
    assert_refused(keyspace.create_index("price"), &["already", "price"]);
    assert_refused(keyspace.drop_index("name"), &["create_index"]);
    let now = FindOptions::default();
    assert_refused(keyspace.find("name", 1, &now), &["create_index", "get_keys_by_field"]);
    db.wait_indexes().expect("built");
    let backwards = FieldRef::Int(2)..FieldRef::Int(1);
    assert_refused(keyspace.find_range("price", backwards, &now), &["ends before"]);

    // The keyspaces that hold indexes are nobody's.
    let name = format!("\u{1f}index\u{1f}{}\u{1f}price", keyspace.id().0);
    assert_refused(db.keyspace(&name), &["kept for indexes"]);
    assert_refused(db.drop_keyspace(&name), &["kept for indexes"]);
    assert_refused(db.create_keyspace(&name, KeyspaceOptions::default()), &["kept for indexes"]);
    assert_eq!(db.keyspace_names(), ["default", "backward"]);
    for id in 0..50 {
        let mut batch = Batch::new();
        batch.put_in(esker::KeyspaceId(id), b"\x01\x00\x01k", b"");
        let result = db.write(batch, WriteOptions::default());
        let known = [keyspace.id().0, other.id().0].contains(&id);
        assert_eq!(result.is_ok(), known, "{id}: {result:?}");
    }
    keyspace.delete(b"\x01\x00\x01k").expect("delete");

    // A value that no entry can hold.
    let long = Record::new().with("price", vec![0; 600 << 10]);
    assert_refused(keyspace.put_record(b"long", &long), &["price", "1 MiB"]);
    assert!(keyspace.get(b"long").expect("get").is_none());
    keyspace.drop_index("price").expect("drop");
    keyspace.put_record(b"long", &long).expect("put");
    keyspace.create_index("price").expect("create");
    assert_refused(db.wait_indexes(), &["price", "1 MiB"]);
    assert_refused(db.wait_idle(), &["price", "1 MiB"]);
    keyspace.delete(b"long").expect("delete");
    db.wait_indexes().expect("built");

    let cancelled = keyspace.get_keys_by_field("price", 1, None, |_| false);
    assert!(cancelled.expect("too few to be asked").is_empty());
    for number in 0..2_000 {
        keyspace.put(&key(number), b"no record").expect("put");
    }
    let cancelled = keyspace.get_keys_by_field("price", 1, None, |_| false);
    assert!(matches!(cancelled, Err(Error::Cancelled)));
    assert_refused(keyspace.get_record(&key(0)), &["not a record"]);
    db.close().expect("close");

    let read = Db::open_read_only_with(DIR, options(Compaction::Leveled), setup(&disk));
    assert!(read.is_err(), "the comparator is missing");
}

#[test]
fn a_store_that_is_only_read_finds_and_makes_no_index() {
    let disk = StrictVfs::new();
    let db = open(&disk);
    db.default_keyspace().create_index("price").expect("create");
    db.default_keyspace().put_record(b"a", &Record::new().with("price", 1)).expect("put");
    db.wait_indexes().expect("built");
    db.close().expect("close");
    let options = options(Compaction::Leveled);
    let db = Db::open_read_only_with(DIR, options, setup(&disk)).expect("open");
    let mut found = db.default_keyspace().find("price", 1, &FindOptions::default()).expect("find");
    assert!(found.advance().expect("advance") && found.key() == b"a");
    let stats = db.stats();
    assert!(
        stats.indexes[0].is_ready,
        "it is, although nobody built it since the store was opened"
    );
    assert!(matches!(db.default_keyspace().wait_index("price", |_| true), Err(Error::ReadOnly)));
    assert!(matches!(db.default_keyspace().create_index("x"), Err(Error::ReadOnly)));
    assert!(matches!(db.default_keyspace().drop_index("price"), Err(Error::ReadOnly)));
    assert_sound(&db, 1);
}

/// The disk is full for as long as it takes to notice: whoever waits for an index hears of it, and
/// it is built later.
#[test]
fn who_waits_for_an_index_is_told_that_the_disk_fails() {
    for inline_background in [true, false] {
        let disk = FaultyVfs::new(Arc::new(StrictVfs::new()));
        let setup = Setup { inline_background, ..setup_on(Arc::new(disk.clone()), 7) };
        let db = Db::open_with(DIR, options(Compaction::Leveled), setup).expect("open");
        let keyspace = db.default_keyspace();
        for number in 0..2_000 {
            let record = Record::new().with("price", number % 7);
            keyspace.put_record(&key(number as u64), &record).expect("put");
        }
        let is_log = |path: &Path| path.extension().is_some_and(|extension| extension == "wal");
        let ops = [Op::Append, Op::CreateLog];
        disk.inject(FaultRule::nth(1, &ops, Fault::NoSpace).from_then_on().on(is_log));
        keyspace.create_index("price").expect("create");
        for _ in 0..2 {
            assert!(matches!(db.wait_indexes(), Err(Error::NoSpace { .. })));
        }
        disk.heal();
        let mut model = Model::new();
        for pair in db.iter().expect("iter") {
            let (key, value) = pair.expect("pair");
            model.insert(key.to_vec(), value.to_vec());
        }
        db.wait_indexes().expect("built");
        assert_finds(keyspace, &model, "price", None);
        assert_sound(&db, 1);
    }
}

/// Whoever guesses the id of a keyspace that is about to hold an index does not get to write to it.
#[test]
fn nobody_writes_to_an_index_while_it_is_declared() {
    let setup = Setup { inline_background: false, ..setup(&StrictVfs::new()) };
    let db = Db::open_with(DIR, options(Compaction::Leveled), setup).expect("open");
    let keyspace = db.default_keyspace();
    let (last_id, stop) = (AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // Numbers are given out one after the other.
                    let id = esker::KeyspaceId(last_id.load(Ordering::Relaxed) + 1);
                    let mut batch = Batch::new();
                    batch.put_in(id, b"\x01\x00\x01key", b"");
                    db.write(batch, WriteOptions::default()).expect_err("nobody's keyspace");
                }
            });
        }
        for _ in 0..100 {
            let other = db.create_keyspace("other", KeyspaceOptions::default()).expect("create");
            last_id.store(other.id().0, Ordering::Relaxed);
            keyspace.create_index("price").expect("create");
            keyspace.drop_index("price").expect("drop");
            db.drop_keyspace("other").expect("drop");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// A keyspace that could not be flushed is dropped: from then on that is nobody's trouble.
#[test]
fn a_failed_flush_of_what_was_dropped_is_forgotten() {
    let disk = FaultyVfs::new(Arc::new(StrictVfs::new()));
    let setup = Setup { inline_background: false, ..setup_on(Arc::new(disk.clone()), 7) };
    let db = Db::open_with(DIR, Options::default(), setup).expect("open");
    let keyspace = db.default_keyspace();
    // So many that building takes a while, and not so many that a flush is due.
    for number in 0..20_000 {
        keyspace.put_record(&key(number), &Record::new().with("price", 1)).expect("put");
    }
    let other = db.create_keyspace("other", KeyspaceOptions::default()).expect("create");
    other.put(b"key", b"value").expect("put");
    let is_table = |path: &Path| path.extension().is_some_and(|extension| extension == "tbl");
    disk.inject(FaultRule::nth(1, &[Op::Create], Fault::NoSpace).from_then_on().on(is_table));
    other.flush().expect_err("no space");
    db.drop_keyspace("other").expect("drop");
    disk.heal();
    // At first the thread that flushes may not have looked again; each attempt wakes it.
    for _ in 0..1_000 {
        keyspace.create_index("price").expect("create");
        if db.wait_indexes().is_ok() {
            return;
        }
        keyspace.drop_index("price").expect("drop");
    }
    panic!("the error stays");
}

#[test]
fn one_index_is_waited_for_whatever_becomes_of_others() {
    let disk = StrictVfs::new();
    let db = open(&disk);
    let keyspace = db.default_keyspace();
    for number in 0..1_000 {
        let record = Record::new().with("price", number as i64 % 10).with("name", "n");
        keyspace.put_record(&key(number), &record).expect("put");
    }
    let long = Record::new().with("note", vec![0; 600 << 10]);
    keyspace.put_record(b"long", &long).expect("put");
    keyspace.create_index("note").expect("create");
    keyspace.create_index("price").expect("create");
    assert!(!db.stats().indexes[1].is_ready);
    let ended = keyspace.wait_index("price", |_| false);
    assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
    let mut seen = Vec::new();
    keyspace
        .wait_index("price", |keys_done| {
            seen.push(keys_done);
            true
        })
        .expect("built");
    assert!(seen.is_sorted() && seen.len() > 10 && seen.last() < Some(&1_001), "{seen:?}");
    assert!(db.stats().indexes[1].is_ready);
    let found = keyspace.find("price", 7, &FindOptions::default());
    assert!(found.expect("find").advance().expect("advance"));
    // It is ready already, so that nobody is asked.
    keyspace.wait_index("price", |_| false).expect("ready");
    assert_refused(keyspace.wait_index("note", |_| true), &["note", "1 MiB"]);
    assert_refused(db.wait_indexes(), &["note", "1 MiB"]);
    assert_refused(keyspace.wait_index("name", |_| true), &["no index", "name"]);
    keyspace.delete(b"long").expect("delete");
    keyspace.wait_index("note", |_| true).expect("built");
}

/// Nobody waits for it, and what was in the way goes by a bulk load, or by a delete.
#[test]
fn an_index_is_built_once_what_was_in_the_way_is_gone() {
    for loads in [true, false] {
        let disk = StrictVfs::new();
        let setup = Setup { inline_background: false, ..setup(&disk) };
        let db = Db::open_with(DIR, options(Compaction::Leveled), setup).expect("open");
        let keyspace = db.default_keyspace();
        let long = Record::new().with("price", vec![0; 600 << 10]);
        keyspace.put_record(b"long", &long).expect("put");
        keyspace.create_index("price").expect("create");
        assert_refused(db.wait_indexes(), &["price", "1 MiB"]);
        if loads {
            let mut ingest = keyspace.ingest().expect("ingest");
            let short = Record::new().with("price", 7).encode().expect("encode");
            ingest.put(b"long", &short).expect("put");
            ingest.finish().expect("finish");
        } else {
            keyspace.delete(b"long").expect("delete");
        }
        let (_never, nothing) = mpsc::channel::<()>();
        let mut looks = 0;
        while !db.stats().indexes[0].is_ready {
            let _ = nothing.recv_timeout(Duration::from_millis(20));
            looks += 1;
            assert!(looks < 1_500, "half a minute, a bulk load: {loads}");
        }
        db.close().expect("close");
    }
}

/// Nothing is to be built: nobody reads the records.
#[test]
fn an_index_that_is_ready_stays_so_where_records_are_damaged() {
    let disk = StrictVfs::new();
    let open = || {
        let mut options = options(Compaction::Leveled);
        options.default_keyspace.compression = vec![Compression::None];
        Db::open_with(DIR, options, setup(&disk)).expect("open")
    };
    let db = open();
    let keyspace = db.default_keyspace();
    keyspace.create_index("price").expect("create");
    for number in 0..200 {
        let record = Record::new().with("price", number as i64).with("padding", "p".repeat(40));
        keyspace.put_record(&key(number), &record).expect("put");
    }
    keyspace.wait_indexes().expect("built");
    db.flush().expect("flush");
    db.close().expect("close");
    let mut tables: Vec<String> = disk.file_names(Path::new(DIR));
    tables.retain(|name| name.ends_with(".tbl"));
    let mut damaged = 0;
    for path in tables.iter().map(|name| Path::new(DIR).join(name)) {
        let bytes = disk.read_file(&path).expect("read");
        if let Some(at) = bytes.windows(40).position(|window| window == [b'p'; 40]) {
            disk.flip_bit(&path, 8 * at as u64).expect("flip");
            damaged += 1;
        }
    }
    assert!(damaged > 0, "records are in tables");

    let db = open();
    let keyspace = db.default_keyspace();
    assert!(keyspace.get(&key(0)).is_err(), "the first of them cannot be read");
    keyspace.wait_indexes().expect("it is ready");
    keyspace.wait_index("price", |_| true).expect("it is ready");
    let mut found = keyspace.find("price", 7, &FindOptions::default()).expect("find");
    assert!(found.advance().expect("advance"));
    assert_eq!(found.key(), &key(7)[..]);
}

/// What an index has of a record that cannot be read is not known. Without the index, nobody need
/// know.
#[test]
fn a_damaged_record_can_be_written_once_its_index_is_dropped() {
    let disk = StrictVfs::new();
    let record = |number: i64, length| {
        let mut record = Record::new();
        record.set("price", number);
        record.set("padding", "p".repeat(length));
        record.encode().expect("encodes")
    };
    let open = || {
        let mut options = options(Compaction::Leveled);
        options.default_keyspace.value_log_compression = Compression::None;
        Db::open_with(DIR, options, setup(&disk)).expect("open")
    };
    let db = open();
    let keyspace = db.default_keyspace();
    keyspace.create_index("price").expect("create");
    keyspace.wait_indexes().expect("built");
    for number in 0..20 {
        db.put(&key(number), &record(number as i64, 300)).expect("put");
    }
    db.flush().expect("flush");
    db.close().expect("close");
    let names = disk.file_names(Path::new(DIR));
    let holders = names.iter().filter(|name| name.ends_with(".wal") || name.ends_with(".val"));
    let in_value = |path: &Path| {
        let bytes = disk.read_file(path).expect("read");
        bytes.windows(100).position(|window| window == [b'p'; 100])
    };
    let found = holders.map(|name| Path::new(DIR).join(name)).find_map(|path| {
        let at = in_value(&path)?;
        Some((path, at))
    });
    let (path, at) = found.expect("a file with values");
    disk.flip_bit(&path, 8 * at as u64).expect("flip");

    let db = open();
    let damaged: Vec<u64> = (0..20).filter(|&number| db.get(&key(number)).is_err()).collect();
    let [damaged] = damaged[..] else { panic!("one value is damaged: {damaged:?}") };
    let (damaged, other) = (key(damaged), key((damaged + 1) % 20));
    db.put(&other, &record(7, 300)).expect("others are written as ever");
    let (from, to) = (damaged.clone(), [&damaged[..], b"\0"].concat());
    for refused in
        [db.put(&damaged, &record(7, 10)), db.delete(&damaged), db.delete_range(&from, &to)]
    {
        let error = refused.expect_err("its entries are not known");
        assert!(error.is_corruption() && error.is_about(&path), "{error}");
        assert!(error.to_string().contains("drop the indexes"), "{error}");
    }
    let keyspace = db.default_keyspace();
    keyspace.drop_index("price").expect("drop");
    db.put(&damaged, &record(7, 10)).expect("it is written");
    keyspace.create_index("price").expect("create");
    keyspace.wait_indexes().expect("built");
    assert_eq!(db.get(&damaged).expect("get").as_deref(), Some(&record(7, 10)[..]));
    db.delete(&damaged).expect("and deleted");
    db.flush().expect("flush");
    db.default_keyspace().compact_range(None, None).expect("compact");
    let report = db.verify(|_| true).expect("verify");
    let [index] = &report.indexes[..] else { panic!("one index: {report:?}") };
    assert_eq!(index.missing + index.stray, 0, "{report:?}");
}

/// Comparing a large index takes long: whoever waits for it may end that too.
#[test]
fn a_verify_can_be_ended_while_it_compares_an_index() {
    const RECORDS: u64 = 10_000;
    let disk = StrictVfs::new();
    let db = open(&disk);
    let keyspace = db.default_keyspace();
    keyspace.create_index("price").expect("create");
    for number in 0..RECORDS {
        let record = Record::new().with("price", number as i64 % 10);
        keyspace.put_record(&number.to_be_bytes(), &record).expect("put");
    }
    db.wait_indexes().expect("built");
    db.flush().expect("flush");
    // How often it asks once all files are read.
    let asked = |most: u64| {
        let mut asked = 0;
        let report = db.verify(|at| {
            asked += u64::from(at.files == at.files_total);
            asked < most
        });
        (asked, report)
    };
    let (all, report) = asked(u64::MAX);
    assert_eq!(report.expect("verify").indexes.len(), 1);
    // Once after the last file, once after the index, and while entries and records are read.
    assert!(all >= 2 + 2 * RECORDS / 4_096, "{all}");
    let (_, ended) = asked(3);
    assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
}
