//! A run index changes what a read costs, and nothing of what it finds.

use super::support::{DIR, Model, Random, assert_sound, put_or_delete, setup};
use esker::base::checksum::mix64;
use esker::base::vfs::strict::StrictVfs;
use esker::event::{Event, EventListener};
use esker::{
    Compaction, Compression, Db, GroupPrefix, KeyspaceOptions, Options, ScanOptions, Setup,
    Snapshot,
};
use std::sync::{Arc, Mutex};

const KEYS: u64 = 2_000;

/// Trees with many small runs, which the index speaks for as soon as there are two.
fn options(runs: u32) -> Options {
    let default_keyspace = KeyspaceOptions {
        compaction: Compaction::Tiered,
        run_index: true,
        run_index_runs_min: 2,
        tiered_runs: runs.min(32),
        level0_runs_compact: runs,
        level0_runs_slow: 2 * runs,
        level0_runs_max: 3 * runs,
        memtable_bytes: 64 << 10,
        block_bytes: 512,
        compression: vec![Compression::None],
        table_bytes_max: 16 << 10,
        ..KeyspaceOptions::default()
    };
    Options { default_keyspace, ..Options::default() }
}

/// Keys of which some begin like others, and some are the beginning of others.
fn key(number: u64) -> Vec<u8> {
    match number % 3 {
        0 => format!("key{number:05}").into_bytes(),
        1 => mix64(number).to_be_bytes()[..5].to_vec(),
        _ => vec![b'x'; (number % 300) as usize],
    }
}

fn walk(db: &Db, at: Option<&Snapshot>, forward: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut options = ScanOptions::default();
    if let Some(snapshot) = at {
        options = options.at(snapshot);
    }
    let mut cursor = db.default_keyspace().scan(&options).expect("cursor");
    let mut found = Vec::new();
    if forward { cursor.seek_to_first() } else { cursor.seek_to_last() }.expect("seek");
    while cursor.valid() {
        found.push((cursor.key().to_vec(), cursor.value().to_vec()));
        if forward { cursor.next() } else { cursor.prev() }.expect("step");
    }
    found
}

fn assert_holds(db: &Db, model: &Model, at: Option<&Snapshot>, random: &mut Random) {
    let mut expected: Vec<_> = model.clone().into_iter().collect();
    assert!(walk(db, at, true) == expected, "forward");
    expected.reverse();
    assert!(walk(db, at, false) == expected, "backward");
    let mut options = ScanOptions::default();
    if let Some(snapshot) = at {
        options = options.at(snapshot);
    }
    let mut cursor = db.default_keyspace().scan(&options).expect("cursor");
    for _ in 0..200 {
        let key = key(random.below(KEYS + KEYS / 4));
        let found = match at {
            Some(snapshot) => db.default_keyspace().get_at(&key, snapshot),
            None => db.get(&key),
        };
        let found = found.expect("get").map(|value| value.to_vec());
        assert_eq!(found.as_ref(), model.get(&key), "{}", String::from_utf8_lossy(&key));
        // A few steps to and fro from anywhere.
        cursor.seek(&key).expect("seek");
        let mut place = key.clone();
        for _ in 0..random.below(6) {
            let next = model.range(place.clone()..).next();
            assert_eq!(cursor.valid().then(|| cursor.key()), next.map(|(key, _)| &key[..]));
            let Some((here, _)) = next else { break };
            if random.below(2) == 0 {
                cursor.next().expect("next");
                place = [here.as_slice(), &[0]].concat();
            } else {
                cursor.prev().expect("prev");
                match model.range(..here.clone()).next_back() {
                    Some((before, _)) => place = before.clone(),
                    None => {
                        assert!(!cursor.valid());
                        break;
                    }
                }
            }
        }
    }
}

fn change(db: &Db, model: &mut Model, random: &mut Random, ranges: bool) {
    let at = random.below(KEYS);
    if !ranges || random.below(400) > 0 {
        return put_or_delete(db, model, random, key(at));
    }
    let (start, end) = (key(at), key(random.below(KEYS)));
    if start < end {
        db.delete_range(&start, &end).expect("delete a range");
        model.retain(|key, _| *key < start || *key >= end);
    }
}

#[test]
fn reads_find_the_same_with_an_index() {
    let disk = StrictVfs::new();
    let (mut model, mut random) = (Model::new(), Random(1));
    let (mut spoke, mut several) = (0, 0);
    for round in 0..20 {
        let db = Db::open_with(DIR, options(3 + round % 4 * 4), setup(&disk)).expect("open");
        assert_holds(&db, &model, None, &mut random);
        let mut old = None;
        for step in 0..3_000 {
            if step == 1_000 {
                old = Some((db.snapshot(), model.clone()));
            }
            change(&db, &mut model, &mut random, round % 5 == 4);
        }
        let (snapshot, then) = old.expect("taken");
        assert_holds(&db, &then, Some(&snapshot), &mut random);
        drop(snapshot);
        db.flush().expect("flush");
        db.wait_idle().expect("idle");
        assert_holds(&db, &model, None, &mut random);
        if let Some(index) = &db.stats().keyspaces[0].run_index {
            spoke += u32::from(index.runs >= 2);
            several += u32::from(index.made >= 2);
            assert!(index.runs <= index.runs_total && index.names >= index.entries, "{index:?}");
        }
        assert_sound(&db);
        db.close().expect("close");
    }
    assert!(spoke >= 10, "an index spoke in {spoke} rounds");
    assert!(several >= 10, "an index was made anew in {several} rounds");
}

#[test]
fn a_get_looks_into_one_table_however_many_runs_there_are() {
    let disk = StrictVfs::new();
    let db = Db::open_with(DIR, options(64), setup(&disk)).expect("open");
    for number in 0..12_000u64 {
        db.put(&mix64(number % 9_000).to_be_bytes(), &[1; 100]).expect("put");
    }
    db.flush().expect("flush");
    db.wait_idle().expect("idle");
    // What has come since the index was made pays for the next one.
    let mut cursor = db.default_keyspace().scan(&ScanOptions::default()).expect("cursor");
    for number in 0..2_000u64 {
        cursor.seek(&mix64(number).to_be_bytes()).expect("seek");
    }
    drop(cursor);
    let _ = db.default_keyspace().scan(&ScanOptions::default()).expect("cursor");
    db.wait_idle().expect("idle");
    let stats = db.stats();
    let index = stats.keyspaces[0].run_index.as_ref().expect("an index");
    assert!(index.runs >= 20 && index.runs == index.runs_total, "{index:?}");
    assert!(index.bytes < 10 * 9_000, "{} bytes for 9 000 keys", index.bytes);
    let checks = |first: u64| {
        let before = db.stats().reads.filter_checks;
        for number in first..first + 9_000 {
            let found = db.get(&mix64(number).to_be_bytes()).expect("get");
            assert_eq!(found.is_some(), number < 9_000);
        }
        db.stats().reads.filter_checks - before
    };
    let (present, absent) = (checks(0), checks(9_000));
    // Two keys that begin alike have one entry: then both runs are named.
    assert!(present <= 9_000 + 90, "{present} tables for 9 000 keys");
    assert!(absent <= 9_000 / 2, "{absent} tables for 9 000 keys that are not there");
}

#[test]
fn a_snapshot_sees_what_newer_runs_hide() {
    let disk = StrictVfs::new();
    let db = Db::open_with(DIR, options(64), setup(&disk)).expect("open");
    let put = |value: &[u8]| {
        for number in 0..200u64 {
            db.put(&mix64(number).to_be_bytes(), value).expect("put");
        }
        db.flush().expect("flush");
        db.wait_idle().expect("idle");
    };
    put(b"first");
    let first = db.snapshot();
    put(b"second");
    let second = db.snapshot();
    for number in 0..200u64 {
        db.delete(&mix64(number).to_be_bytes()).expect("delete");
    }
    db.flush().expect("flush");
    db.wait_idle().expect("idle");
    let stats = db.stats();
    let index = stats.keyspaces[0].run_index.as_ref().expect("an index");
    assert_eq!((index.runs, index.runs_total), (3, 3), "the index speaks for all");
    for number in 0..200u64 {
        let key = mix64(number).to_be_bytes();
        let at = |snapshot| db.default_keyspace().get_at(&key, snapshot).expect("get");
        assert_eq!(at(&first).as_deref(), Some(&b"first"[..]));
        assert_eq!(at(&second).as_deref(), Some(&b"second"[..]));
        assert_eq!(db.get(&key).expect("get"), None);
    }
    let values = |snapshot| walk(&db, snapshot, true).into_iter().map(|(_, value)| value);
    assert!(values(Some(&first)).eq(vec![b"first".to_vec(); 200]));
    assert!(values(Some(&second)).eq(vec![b"second".to_vec(); 200]));
    assert_eq!(values(None).count(), 0);
}

/// Keeps what it is told of run indexes.
#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl EventListener for Told {
    fn on_event(&self, event: &Event) {
        if matches!(event, Event::RunIndexTooLarge { .. } | Event::RunIndexFailed { .. }) {
            self.0.lock().expect("not poisoned").push(format!("{event:?}"));
        }
    }
}

#[test]
fn an_index_that_has_no_room_is_done_without() {
    let disk = StrictVfs::new();
    let options = Options { run_index_bytes_max: Some(1_000), ..options(64) };
    let told = Arc::new(Told::default());
    let setup = Setup { listener: Some(told.clone()), ..setup(&disk) };
    let db = Db::open_with(DIR, options, setup).expect("open");
    let (mut model, mut random) = (Model::new(), Random(1));
    for _ in 0..3_000 {
        change(&db, &mut model, &mut random, false);
    }
    db.flush().expect("flush");
    db.wait_idle().expect("idle");
    assert_holds(&db, &model, None, &mut random);
    assert!(db.stats().keyspaces[0].run_index.is_none());
    let told = told.0.lock().expect("not poisoned");
    assert!(told.iter().any(|told| told.contains("bytes_max: 1000")), "{told:?}");
}

/// As many records as before may be other keys, of which an index is small.
#[test]
fn an_index_that_had_no_room_is_made_when_merges_have_replaced_what_was_there() {
    let disk = StrictVfs::new();
    let mut options = options(8);
    options.run_index_bytes_max = Some(64 << 10);
    let told = Arc::new(Told::default());
    let setup = Setup { listener: Some(told.clone()), ..setup(&disk) };
    let db = Db::open_with(DIR, options, setup).expect("open");
    let flush = || {
        db.flush().expect("flush");
        db.wait_idle().expect("idle");
    };
    // Keys that share so much take a leaf each.
    let long = |number: u64| [&[b'x'; 250][..], &number.to_be_bytes()].concat();
    for number in 0..600 {
        db.put(&long(number), b"value").expect("put");
        if number % 300 == 299 {
            flush();
        }
    }
    let too_large = || told.0.lock().expect("not poisoned").len();
    assert_eq!(too_large(), 1);
    for number in 0..700 {
        db.put(&mix64(number).to_be_bytes(), b"value").expect("put");
    }
    (0..600).for_each(|number| db.delete(&long(number)).expect("delete"));
    flush();
    assert_eq!(too_large(), 1, "what was there is there still");
    db.default_keyspace().compact_range(None, None).expect("compact");
    db.put(b"another", b"value").expect("put");
    flush();
    let stats = db.stats();
    let index = stats.keyspaces[0].run_index.as_ref().expect("an index");
    assert_eq!((index.runs, too_large()), (2, 1), "{index:?}");
}

#[test]
fn runs_without_a_digest_are_read_as_ever_and_scans_still_pay() {
    let disk = StrictVfs::new();
    let (mut model, mut random) = (Model::new(), Random(1));
    let mut plain = options(32);
    plain.default_keyspace.run_index = false;
    let db = Db::open_with(DIR, plain, setup(&disk)).expect("open");
    let more = |db: &Db, model: &mut Model, random: &mut Random| {
        for _ in 0..3_000 {
            change(db, model, random, false);
        }
        db.flush().expect("flush");
    };
    more(&db, &mut model, &mut random);
    db.close().expect("close");

    let mut indexed = options(32);
    indexed.default_keyspace.run_index_runs_min = 4;
    let db = Db::open_with(DIR, indexed, setup(&disk)).expect("open");
    // Looks for digests, finds none, and from then on scans pay for compactions instead.
    db.wait_idle().expect("idle");
    assert!(db.stats().keyspaces[0].levels[0].runs >= 4);
    let mut cursor = db.default_keyspace().scan(&ScanOptions::default()).expect("cursor");
    for number in 0..5_000 {
        cursor.seek(&key(number)).expect("seek");
    }
    drop(cursor);
    assert_holds(&db, &model, None, &mut random);
    db.wait_idle().expect("idle");
    assert_eq!(db.stats().keyspaces[0].levels[0].runs, 0, "scans have paid for a compaction");
    for _ in 0..2 {
        more(&db, &mut model, &mut random);
        db.wait_idle().expect("idle");
        assert_holds(&db, &model, None, &mut random);
    }
    let stats = db.stats();
    let index = stats.keyspaces[0].run_index.as_ref().expect("an index");
    assert!(index.runs >= 4, "{index:?}");
}

/// An index speaks for no run with range tombstones.
#[test]
fn scans_pay_for_compactions_where_an_index_would_speak_for_too_few() {
    let disk = StrictVfs::new();
    let mut indexed = options(32);
    indexed.default_keyspace.run_index_runs_min = 4;
    indexed.default_keyspace.tombstone_ratio_compact = 1.0;
    indexed.default_keyspace.memtable_bytes = 1 << 20;
    let db = Db::open_with(DIR, indexed, setup(&disk)).expect("open");
    let runs = || db.stats().keyspaces[0].levels[0].runs;
    for run in 0..5u64 {
        (0..1_000).for_each(|number| db.put(&key(number), &run.to_be_bytes()).expect("put"));
        db.delete_range(&key(run * 30), &key(run * 30 + 3)).expect("delete");
        db.flush().expect("flush");
    }
    db.wait_idle().expect("idle");
    assert_eq!(runs(), 5);
    assert!(db.stats().keyspaces[0].run_index.is_none(), "it would be of no use");
    let mut cursor = db.default_keyspace().scan(&ScanOptions::default()).expect("cursor");
    (0..5_000).for_each(|number| cursor.seek(&key(number)).expect("seek"));
    drop(cursor);
    db.wait_idle().expect("idle");
    assert_eq!(runs(), 0, "scans have paid for a compaction");
}

#[test]
fn what_compactions_have_dropped_is_passed_over() {
    let disk = StrictVfs::new();
    let db = Db::open_with(DIR, options(8), setup(&disk)).expect("open");
    let key = |number: u64| format!("key{number:05}").into_bytes();
    let mut model = Model::new();
    for number in 0..2_000 {
        db.put(&key(number), b"value").expect("put");
        model.insert(key(number), b"value".to_vec());
        if number % 500 == 499 {
            db.flush().expect("flush");
        }
    }
    db.wait_idle().expect("idle");
    for number in 300..900 {
        db.delete(&key(number)).expect("delete");
        model.remove(&key(number));
    }
    db.flush().expect("flush");
    db.wait_idle().expect("idle");
    db.default_keyspace().compact_range(None, None).expect("compact");
    // On both sides of the gap, more behind it.
    for number in (0..300).step_by(70).chain((1_900..4_000).step_by(3)) {
        db.put(&key(number), b"newer").expect("put");
        model.insert(key(number), b"newer".to_vec());
    }
    db.flush().expect("flush");
    db.wait_idle().expect("idle");
    let stats = db.stats();
    let index = stats.keyspaces[0].run_index.as_ref().expect("an index");
    assert_eq!((index.runs, index.runs_total), (2, 2));
    assert!(index.names >= index.records + 300, "names of dropped keys: {index:?}");
    let mut expected: Vec<_> = model.clone().into_iter().collect();
    assert!(walk(&db, None, true) == expected);
    expected.reverse();
    assert!(walk(&db, None, false) == expected);
    let mut cursor = db.default_keyspace().scan(&ScanOptions::default()).expect("cursor");
    for number in [299, 300, 450, 899, 900, 3_999, 5_000] {
        cursor.seek(&key(number)).expect("seek");
        let next = model.range(key(number)..).next();
        assert_eq!(cursor.valid().then(|| cursor.key()), next.map(|(key, _)| &key[..]), "{number}");
        cursor.seek_before(&key(number)).expect("seek");
        let before = model.range(..key(number)).next_back();
        assert_eq!(
            cursor.valid().then(|| cursor.key()),
            before.map(|(key, _)| &key[..]),
            "{number}"
        );
    }
}

/// A run that is merged where it stands keeps its id: that it had no digest before says nothing.
#[test]
fn runs_that_were_merged_where_they_stand_are_looked_at_again() {
    let disk = StrictVfs::new();
    let with = |run_index| {
        let mut options = options(8);
        options.default_keyspace.level0_runs_compact = 2;
        options.default_keyspace.run_index = run_index;
        options
    };
    let db = Db::open_with(DIR, with(false), setup(&disk)).expect("open");
    let put = |db: &Db, from: u64| {
        for number in 0..200 {
            db.put(&mix64(number).to_be_bytes(), &from.to_be_bytes()).expect("put");
        }
        db.flush().expect("flush");
        db.wait_idle().expect("idle");
    };
    (0..6).for_each(|from| put(&db, from));
    let runs = |db: &Db| -> Vec<u64> {
        db.stats().keyspaces[0].levels.iter().map(|level| level.runs).collect()
    };
    assert_eq!(runs(&db)[..2], [0, 3], "none of them has a digest");
    db.close().expect("close");

    let db = Db::open_with(DIR, with(true), setup(&disk)).expect("open");
    // Looks for digests, and finds none.
    db.wait_idle().expect("idle");
    db.default_keyspace().compact_range(None, None).expect("compact");
    put(&db, 6);
    assert_eq!(runs(&db)[..2], [1, 1]);
    let stats = db.stats();
    let index = stats.keyspaces[0].run_index.as_ref().expect("an index");
    assert_eq!((index.runs, index.runs_total), (2, 2), "{index:?}");
}

/// Keeps in which order compactions ended and an index was made.
#[derive(Default)]
struct Order(Mutex<Vec<&'static str>>);

impl EventListener for Order {
    fn on_event(&self, event: &Event) {
        let name = match event {
            Event::CompactionFinished { .. } => "compaction",
            Event::RunIndexMade { .. } => "index",
            _ => return,
        };
        self.0.lock().expect("not poisoned").push(name);
    }
}

#[test]
fn an_index_comes_in_time_though_there_is_always_something_to_compact() {
    const OTHERS: usize = 20;
    let disk = StrictVfs::new();
    let with = |runs: u32, runs_min: u32| {
        let mut all = options(32);
        all.default_keyspace.run_index_runs_min = runs_min;
        let other = KeyspaceOptions { run_index: false, ..options(runs).default_keyspace };
        let names = (0..OTHERS).map(|nth| format!("other{nth}"));
        all.keyspaces = names.map(|name| (name, other.clone())).collect();
        all
    };
    let before = with(32, 128);
    let db = Db::open_with(DIR, before.clone(), setup(&disk)).expect("open");
    let mut keyspaces = vec![db.default_keyspace().clone()];
    for (name, options) in &before.keyspaces {
        keyspaces.push(db.create_keyspace(name, options.clone()).expect("create"));
    }
    for _ in 0..4 {
        for keyspace in &keyspaces {
            (0..10u8).for_each(|key| keyspace.put(&[key], b"value").expect("put"));
            keyspace.flush().expect("flush");
        }
    }
    drop(keyspaces);
    db.close().expect("close");

    let told = Arc::new(Order::default());
    let setup = Setup { listener: Some(told.clone()), ..setup(&disk) };
    let db = Db::open_with(DIR, with(2, 2), setup).expect("open");
    db.wait_idle().expect("idle");
    let told = told.0.lock().expect("not poisoned");
    let before = told.iter().position(|name| *name == "index").expect("an index");
    assert!(told.len() > OTHERS && before < OTHERS / 2, "{before} of {}: {told:?}", told.len());
}

#[test]
fn what_is_left_of_a_run_when_a_group_is_deleted_is_known_as_before() {
    let mut options = options(6);
    options.default_keyspace.groups = Some(GroupPrefix::Delimiter { byte: b'/' });
    options.default_keyspace.group_table_bytes_min = 4 << 10;
    let disk = StrictVfs::new();
    let db = Db::open_with(DIR, options, setup(&disk)).expect("open");
    let key = |group: u64, nth: u64| format!("g{group}/{nth:03}").into_bytes();
    let mut model = Model::new();
    // A run with tables of their own for all groups, and newer ones above it.
    for round in 0..10u64 {
        for group in 0..6 {
            for nth in (0..100).filter(|nth| round == 0 || nth % 10 == round) {
                let value = vec![round as u8; 100];
                db.put(&key(group, nth), &value).expect("put");
                model.insert(key(group, nth), value);
            }
        }
        db.flush().expect("flush");
        if round == 0 {
            db.default_keyspace().compact_range(None, None).expect("compact");
        }
    }
    db.wait_idle().expect("idle");
    let index = || db.stats().keyspaces[0].run_index.clone().expect("an index");
    let (before, tables) = (index(), db.default_keyspace().tables().expect("tables").len());
    for group in [2, 4] {
        let name = format!("g{group}/");
        db.delete_group(name.as_bytes()).expect("delete");
        model.retain(|key, _| !key.starts_with(name.as_bytes()));
        // At once, and for good.
        assert_eq!(index().runs, before.runs, "{:?}", index());
        db.wait_idle().expect("idle");
        assert_eq!(index().made, before.made, "{:?}", index());
    }
    assert!(
        db.default_keyspace().tables().expect("tables").len() < tables,
        "tables of their own are gone"
    );
    assert_holds(&db, &model, None, &mut Random(5));
    db.close().expect("close");
}
