//! What is in a hurry, what scans have paid for, and what is left of tables that are gone.

use super::manual::{Reserved, Step, choose_manual};
use super::{Chosen, Gone, choose, urgency};
use crate::compaction::scheduler::toll::Paid;
use crate::db::core::KeyspaceCore;
use crate::db::turns::Turn;
use crate::db::workers::compact_next;
use crate::db::{Cursor, Db, Keyspace, Pair, ScanOptions, Setup};
use crate::event::{CompactionReason, Event};
use crate::options::{Compaction, Compression, GroupPrefix, KeyspaceOptions, Options};
use crate::trace::{Step as TraceStep, What};
use crate::version::{CompactionSpec, KeyRange, TableMeta, Version};
use esker_base::Vfs;
use esker_base::checksum::mix64;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker_base::vfs::strict::{StrictVfs, Survival};
use esker_base::{Env, KeyOrder, Result, Seq};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Whose work in the background is done by those who write and wait.
fn open() -> (Db, Arc<KeyspaceCore>) {
    let groups = Some(GroupPrefix::Delimiter { byte: b'/' });
    let default_keyspace = KeyspaceOptions { groups, ..KeyspaceOptions::default() };
    // Nothing is pinned: indexes and filters are in the cache.
    let options = Options {
        default_keyspace,
        pinned_bytes_max: Some(0),
        run_index_bytes_max: Some(1 << 20),
        ..Options::default()
    };
    let env = Env::with_vfs(Arc::new(StrictVfs::new()), 1);
    let setup = Setup { env, inline_background: true, ..Setup::default() };
    let db = Db::open_with("/db", options, setup).expect("open");
    let keyspace = db.core().keyspaces.load().by_id.values().next().expect("one").clone();
    (db, keyspace)
}

/// A run of level 0 with keys of two groups.
fn add_run(db: &Db, byte: u8) {
    for group in ["a/", "b/"] {
        (0..100u8).for_each(|key| {
            db.put(&[group.as_bytes(), &[key]].concat(), &[byte; 100]).expect("put");
        });
    }
    db.flush().expect("flush");
}

/// As if scans had made so many seeks in one more run, without loading a block.
fn pay(keyspace: &KeyspaceCore, seeks: u64) {
    keyspace.toll.pay(&Paid { runs: 1, seeks, ..Paid::default() });
}

/// Marks what is below level 0 as if others compacted it.
fn take_below_level0(keyspace: &KeyspaceCore, taken: bool) {
    let version = keyspace.view.load().version.clone();
    for (_, run) in version.runs().filter(|(level, _)| *level > 0) {
        run.tables.iter().for_each(|table| table.compacting.store(taken, Ordering::Relaxed));
    }
}

fn runs_of_level0(keyspace: &KeyspaceCore) -> usize {
    keyspace.view.load().version.runs().filter(|(level, _)| *level == 0).count()
}

#[test]
fn what_scans_have_paid_for_is_urgent_also_while_its_tables_are_taken() {
    let (db, keyspace) = open();
    add_run(&db, 1);
    db.default_keyspace().compact_range(None, None).expect("compact");
    (2..4).for_each(|byte| add_run(&db, byte));
    assert_eq!(runs_of_level0(&keyspace), 2);
    for taken in [false, true] {
        take_below_level0(&keyspace, taken);
        assert!(!keyspace.is_urgent(), "nobody has paid; taken: {taken}");
    }
    pay(&keyspace, 2_000_000);
    for taken in [true, false] {
        take_below_level0(&keyspace, taken);
        assert!(keyspace.is_urgent(), "taken: {taken}");
    }
    db.wait_idle().expect("idle");
    assert_eq!(runs_of_level0(&keyspace), 0);
    assert!(!keyspace.is_urgent(), "they have it");
    db.close().expect("close");
}

#[test]
fn indexes_and_filters_of_tables_that_are_gone_leave_the_cache() {
    let (db, keyspace) = open();
    (1..4).for_each(|byte| add_run(&db, byte));
    let read = || {
        let found = db.get(b"a/\x07").expect("get").expect("there");
        // Absent, so that each table is asked.
        assert!(db.get(b"a/\x07\x07").expect("get").is_none() && found[..] == [3; 100]);
    };
    let parts = || db.core().store.cache.parts();
    read();
    let before = parts();
    assert!((4..=6).contains(&before), "{before} of three tables");
    let held = keyspace.view.load_full();
    db.default_keyspace().compact_range(None, None).expect("compact");
    read();
    assert!(parts() > before, "somebody holds the old tables");
    drop(held);
    db.wait_idle().expect("idle");
    assert_eq!(parts(), 2, "of one table");
    db.close().expect("close");
}

#[test]
fn a_keyspace_that_is_dropped_slows_nobody_any_more() {
    let (db, _) = open();
    db.create_keyspace("full", KeyspaceOptions::default()).expect("create");
    let core = db.core();
    let slowed = || core.stall.slowed_to(0, core.memtables_limit_bytes).is_some();
    // As if its level 0 were as full as it may be.
    core.stall.measure_level0(|| (1.0, true));
    assert!(slowed());
    db.drop_keyspace("full").expect("drop");
    assert!(!slowed());
    db.close().expect("close");
}

#[test]
fn writes_stop_for_a_while_where_level_0_is_over_what_it_may_be() {
    let env = Env::with_vfs(Arc::new(StrictVfs::new()), 1);
    let stopped_us = Arc::new(AtomicU64::new(0));
    let told = stopped_us.clone();
    let listener = move |event: &Event| {
        if let Event::Step { step: TraceStep { what: What::Stopped { duration_us }, .. }, .. } =
            event
        {
            told.fetch_max(*duration_us, Ordering::Relaxed);
        }
    };
    let setup = Setup { env, listener: Some(Arc::new(listener)), ..Setup::default() };
    let db = Db::open_with("/db", Options::default(), setup).expect("open");
    let slowed_us = || db.stats().writes.slowed_us_max;
    db.put(b"a", b"1").expect("put");
    assert!(slowed_us() < 900_000);
    // As if there were so many runs, which nobody can compact.
    db.core().stall.measure_level0(|| (1.0, true));
    db.put(b"a", b"2").expect("it is written in the end");
    assert!(slowed_us() >= 900_000, "{}", slowed_us());
    assert!(stopped_us.load(Ordering::Relaxed) >= 900_000, "whoever listens is told");
    db.close().expect("close");
}

#[test]
fn so_do_bulk_loads() {
    let env = Env::with_vfs(Arc::new(StrictVfs::new()), 1);
    let db = Db::open_with("/db", Options::default(), Setup { env, ..Setup::default() });
    let db = db.expect("open");
    let load = |key: &[u8]| {
        let mut load = db.default_keyspace().ingest().expect("begin");
        load.put(key, b"1").expect("put");
        load.finish().expect("it is loaded in the end")
    };
    load(b"a");
    assert_eq!(db.stats().writes.slowed_us_max, 0);
    db.core().stall.measure_level0(|| (1.0, true));
    load(b"b");
    assert!(db.stats().writes.slowed_us_max >= 900_000, "{:?}", db.stats().writes);
    db.close().expect("close");
}

/// A store with groups, compacted by whoever says so, in which tables of at least so many bytes
/// hold one group alone.
fn open_groups(disk: &StrictVfs, group_table_bytes_min: u64) -> Result<Db> {
    open_groups_on(Arc::new(disk.clone()), group_table_bytes_min)
}

fn open_groups_on(vfs: Arc<dyn Vfs>, group_table_bytes_min: u64) -> Result<Db> {
    open_changed(vfs, |options| options.group_table_bytes_min = group_table_bytes_min)
}

fn open_changed(vfs: Arc<dyn Vfs>, change: impl FnOnce(&mut KeyspaceOptions)) -> Result<Db> {
    let groups = Some(GroupPrefix::Delimiter { byte: b'/' });
    let mut default_keyspace = KeyspaceOptions {
        groups,
        value_log_bytes_min: Some(64),
        compression: vec![Compression::None],
        level0_runs_compact: 19,
        ..KeyspaceOptions::default()
    };
    change(&mut default_keyspace);
    let options = Options { default_keyspace, ..Options::default() };
    let env = Env::with_vfs(vfs, 1);
    let setup = Setup { env, inline_background: true, ..Setup::default() };
    Db::open_with("/db", options, setup)
}

/// A run of level 0 with a hundred keys of each of these groups.
fn add_groups(db: &Db, groups: &[&str], byte: u8) {
    // Nothing is compacted for the sake of values.
    let keyspace = db.default_keyspace().core.clone();
    keyspace.reshaping.store(true, Ordering::Relaxed);
    for group in groups {
        (0..100u8).for_each(|key| {
            let key = [group.as_bytes(), &[byte, key], &[key; 60]].concat();
            db.put(&key, &[byte; 100]).expect("put");
        });
    }
    db.flush().expect("flush");
    keyspace.reshaping.store(false, Ordering::Relaxed);
}

/// A compaction by hand of level 0, about to begin.
fn about_to_compact(db: &Db) -> Chosen {
    let keyspace = db.default_keyspace().core.clone();
    let options = keyspace.compacted_by.load_full();
    let everything = KeyRange { start: None, end: None, end_inclusive: false };
    let step = choose_manual(db.core(), &keyspace, &options, (0, 1, u64::MAX), &everything);
    match step.expect("choose") {
        Step::Run(chosen) => *chosen,
        Step::Wait => panic!("somebody else has them"),
        Step::Done | Step::Changed => panic!("there are runs in level 0: {:?}", view_of(db)),
    }
}

/// How many keys there are, and of what bytes their values are.
fn keys_and_bytes(db: &Db) -> (usize, BTreeSet<u8>) {
    let pairs: Vec<Pair> = db.iter().expect("iter").collect::<Result<_>>().expect("walk");
    (pairs.len(), pairs.iter().flat_map(|(_, value)| value.iter().copied()).collect())
}

/// A store in which a group stands between two others, a third of all that there is and in tables
/// of its own, and in which all is compacted together next.
fn open_with_a_group_between(disk: &StrictVfs, group_table_bytes_min: u64) -> Db {
    let db = open_groups(disk, group_table_bytes_min).expect("open");
    add_a_group_between(&db);
    db
}

fn add_a_group_between(db: &Db) {
    add_groups(db, &["a/", "c/"], 1);
    db.default_keyspace().compact_range(None, None).expect("compact");
    add_groups(db, &["a/", "c/"], 2);
    (3..5).for_each(|byte| add_groups(db, &["b/"], byte));
}

fn view_of(db: &Db) -> Arc<Version> {
    db.default_keyspace().core.view.load().version.clone()
}

/// Fails unless there are these records, with these bytes, and nothing is wrong.
fn check_holds(db: &Db, keys: usize, bytes: &[u8]) {
    assert_eq!(keys_and_bytes(db), (keys, bytes.iter().copied().collect()));
    let report = db.verify(|_| true).expect("verify");
    assert!(report.damage.is_empty(), "{:?}", report.damage);
}

#[test]
fn a_compaction_leaves_out_a_group_that_was_deleted_meanwhile() {
    for alone in [true, false] {
        let disk = StrictVfs::new();
        let group_table_bytes_min = if alone { 4 << 10 } else { 1 << 20 };
        let db = open_with_a_group_between(&disk, group_table_bytes_min);
        let chosen = about_to_compact(&db);
        let deleted = db.delete_group(b"b/").expect("delete");
        // With its values, to which what is merged points still.
        assert_eq!((deleted.tables, deleted.value_files), (2, 2));
        // New keys of it are none of what was deleted.
        db.put(b"b/new", &[9]).expect("put");
        assert!(chosen.run(db.core()).expect("run"), "it is not in vain");
        let version = view_of(&db);
        assert!(version.level(0).is_empty() && !version.has_partly_erased(&KeyOrder::Bytewise));
        db.flush().expect("flush");
        assert!(view_of(&db).erased.is_empty(), "it is in no table");
        check_holds(&db, 401, &[1, 2, 9]);
        let keyspace = db.default_keyspace().core.clone();
        assert!(keyspace.erasures.since(0).is_empty(), "nobody asks any more");
        db.close().expect("close");
        let db = open_groups(&disk, group_table_bytes_min).expect("open");
        check_holds(&db, 401, &[1, 2, 9]);
        db.close().expect("close");
    }
}

#[test]
fn a_compaction_of_nothing_but_what_was_deleted_is_in_vain_and_no_failure() {
    let disk = StrictVfs::new();
    let db = open_with_a_group_between(&disk, 4 << 10);
    let chosen = about_to_compact(&db);
    for group in [&b"a/"[..], b"b/", b"c/"] {
        db.delete_group(group).expect("delete");
    }
    assert!(!chosen.run(db.core()).expect("no failure"));
    db.wait_idle().expect("idle");
    check_holds(&db, 0, &[]);
    assert_eq!(view_of(&db).tables().count(), 0);
    db.close().expect("close");
}

#[test]
fn one_of_which_more_than_a_half_was_deleted_ends_before_it_has_read_the_rest() {
    let db = open_with_a_group_between(&StrictVfs::new(), 4 << 10);
    let chosen = about_to_compact(&db);
    let (gone, inputs) = (Gone::of(&chosen.spec), chosen.spec.tables().count());
    let look = || (0..inputs).filter(|_| gone.is_too_much()).count() > 0;
    db.delete_group(b"b/").expect("delete");
    assert!(!look() && gone.has_any(), "it is a third");
    db.delete_group(b"a/").expect("delete");
    assert!(look());
    chosen.mark(false);
    db.close().expect("close");
}

#[test]
fn a_compaction_in_whose_way_something_has_come_is_given_up() {
    let db = open_with_a_group_between(&StrictVfs::new(), 1 << 20);
    db.default_keyspace().compact_range(None, None).expect("compact");
    // In level 1 they share a table.
    (5..7).for_each(|byte| add_groups(&db, &["b/"], byte));
    let other = about_to_compact(&db);
    let mut way = other.spec.clone();
    assert_eq!(way.inputs.len(), 3);
    // As if all had been in level 0 alone.
    way.inputs.truncate(2);
    let (keyspace, version, options) =
        (other.keyspace.clone(), view_of(&db), other.options.clone());
    let among = Chosen { keyspace, version, options, spec: way, erasing_seq: Seq::MAX };
    other.mark(false);
    let version = view_of(&db);
    let run = version.level(1)[0].id;
    let metas: Vec<TableMeta> = among.spec.tables().map(|(_, t)| t.meta.clone()).collect();
    assert!(among.is_in_the_way(&version, Some(run), &metas), "a table of level 1 is no input");
    assert!(!among.is_in_the_way(&version, None, &metas), "a run of its own");
    assert!(!other.is_in_the_way(&version, Some(run), &metas), "it is an input");
    db.close().expect("close");
}

#[test]
fn what_was_written_while_a_group_was_being_deleted_is_known_to_be_newer() {
    let db = open_with_a_group_between(&StrictVfs::new(), 1 << 20);
    add_groups(&db, &["b/"], 7);
    // A deletion took its number before the last hundred, and has not got further.
    let core = db.core();
    let seq = db.snapshot().seq() - 100;
    core.erasing_seq.store(seq, Ordering::Release);
    let chosen = about_to_compact(&db);
    core.erasing_seq.store(Seq::MAX, Ordering::Release);
    assert!(chosen.run(core).expect("run"));
    let version = view_of(&db);
    let newest: Vec<Seq> = version.tables().map(|(_, table)| table.meta.max_seq).collect();
    let oldest: Vec<Seq> = version.tables().map(|(_, table)| table.meta.min_seq).collect();
    assert_eq!((newest, oldest), (vec![seq + 100], vec![0]), "others need no age");
    db.close().expect("close");
}

#[test]
fn a_compaction_that_was_overtaken_may_be_cut_off_anywhere() {
    let run = |crash_at: Option<u64>| {
        let disk = StrictVfs::new();
        let db = open_with_a_group_between(&disk, 1 << 20);
        let chosen = about_to_compact(&db);
        db.delete_group(b"b/").expect("delete");
        let from = disk.mutating_calls();
        crash_at.into_iter().for_each(|at| disk.set_crash_at(from + at));
        let done = chosen.run(db.core()).is_ok_and(|done| done);
        (disk.clone(), done, disk.mutating_calls() - from)
    };
    let (_, done, calls) = run(None);
    assert!(done && calls > 6, "{calls}");
    let mut cut_off = 0;
    for at in 1..=calls + 1 {
        let (disk, done, _) = run(Some(at));
        // The last calls remove files, and may fail.
        assert!(done || at <= calls, "crash at {at} of {calls}");
        cut_off += u32::from(!done);
        for survival in [Survival::None, Survival::Some { percent: 50 }, Survival::All] {
            let after = disk.crash(survival, at);
            let db = open_groups(&after, 1 << 20).expect("open");
            check_holds(&db, 400, &[1, 2]);
            db.default_keyspace().compact_range(None, None).expect("compact");
            check_holds(&db, 400, &[1, 2]);
            db.close().expect("close");
        }
    }
    assert!(cut_off > 6, "{cut_off}");
}

#[test]
fn level_0_written_anew_where_it_stands_is_not_what_scans_have_paid_for() {
    let (db, keyspace) = open();
    (1..3).for_each(|byte| add_run(&db, byte));
    let deleted = db.delete_group(b"a/").expect("delete");
    assert_eq!(deleted.shared_tables, 2, "{deleted:?}");
    pay(&keyspace, 2);
    let chosen = choose(db.core(), Turn::Usual).expect("choose").expect("what was erased");
    assert_eq!((chosen.spec.reason, chosen.spec.level), (CompactionReason::Erased, 0));
    assert!(keyspace.toll.covers(4_000), "they have not got what they paid for");
    chosen.run(db.core()).expect("run");
    db.core().background.end_compaction();
    assert!(keyspace.toll.covers(4_000));
    db.close().expect("close");
}

/// Levels small enough to have two with a hundred records, in tables of a few blocks.
fn open_small_levels() -> (Db, Arc<KeyspaceCore>) {
    let default_keyspace = KeyspaceOptions {
        compression: vec![Compression::None],
        table_bytes_max: 16 << 10,
        level_base_bytes: 64 << 10,
        ..KeyspaceOptions::default()
    };
    let options = Options { default_keyspace, ..Options::default() };
    let env = Env::with_vfs(Arc::new(StrictVfs::new()), 1);
    let setup = Setup { env, inline_background: true, ..Setup::default() };
    let db = Db::open_with("/db", options, setup).expect("open");
    let keyspace = db.core().keyspaces.load().by_id.values().next().expect("one").clone();
    put_every(&db, 1);
    for _ in 0..2 {
        // Level 1 hands on what is too much for it, and then all goes where that is.
        db.default_keyspace().compact_range(None, None).expect("compact");
        db.wait_idle().expect("idle");
    }
    assert_eq!(levels(&keyspace), [0, 0, 1]);
    (db, keyspace)
}

fn put_every(db: &Db, step: usize) {
    for number in (0..100u32).step_by(step) {
        db.put(&number.to_be_bytes(), &[7; 1_000]).expect("put");
    }
    db.flush().expect("flush");
}

/// How many runs each level has.
fn levels(keyspace: &KeyspaceCore) -> Vec<usize> {
    keyspace.view.load().version.levels.iter().map(Vec::len).collect()
}

#[test]
fn scans_pay_for_the_blocks_that_they_load() {
    let (db, keyspace) = open_small_levels();
    put_every(&db, 5);
    assert_eq!(levels(&keyspace), [1, 0, 1]);
    let paid_by_scan = |end: Option<u32>| {
        let end = end.map(|end| end.to_be_bytes().to_vec());
        let options = ScanOptions { end, ..ScanOptions::default() };
        paid_by(&db, &keyspace, &options, Cursor::seek_to_first, Cursor::next)
    };
    let (found, half) = paid_by_scan(Some(50));
    // In a seek, loads, and going over ten times.
    assert_eq!((found, half), (50, 2_000 + 9_000 + 10 * 100));
    let (_, again) = paid_by_scan(Some(50));
    assert_eq!(again, 2_000 + 10 * 100, "all are in the cache");
    let (found, rest) = paid_by_scan(None);
    let loads = rest - 2_000 - 20 * 100;
    assert!(found == 100 && (3_600..5_400).contains(&loads), "half of them are: {loads}");
    assert_eq!(paid_by_scan(None).1, 2_000 + 20 * 100);
    // Who goes over into memtables would be spared nothing.
    for number in 0..100u32 {
        db.put(&[&number.to_be_bytes()[..], b"+"].concat(), b"more").expect("put");
    }
    assert_eq!(paid_by_scan(None), (200, 2_000 + 20 * 100));
    // One run there would be anyway.
    while let Some(chosen) = {
        pay(&keyspace, 1_000_000);
        choose(db.core(), Turn::Usual).expect("choose")
    } {
        chosen.run(db.core()).expect("run");
        db.core().background.end_compaction();
    }
    assert_eq!(levels(&keyspace), [0, 0, 1]);
    assert_eq!(paid_by_scan(None), (200, 0));
    db.close().expect("close");
}

/// How many keys a scan finds, and what it pays.
fn paid_by(
    db: &Db,
    keyspace: &KeyspaceCore,
    options: &ScanOptions<'_>,
    seek: fn(&mut Cursor) -> Result<()>,
    step: fn(&mut Cursor) -> Result<()>,
) -> (u64, u64) {
    keyspace.toll.settle();
    let mut cursor = db.default_keyspace().scan(options).expect("scan");
    seek(&mut cursor).expect("seek");
    let mut found = 0;
    while cursor.valid() {
        found += 1;
        step(&mut cursor).expect("step");
    }
    drop(cursor);
    let covers = |ns: &u64| keyspace.toll.covers(*ns);
    (found, (1..).take_while(covers).count() as u64)
}

#[test]
fn who_stays_in_a_run_pays_for_no_switch() {
    let (db, keyspace) = open_small_levels();
    let key = |nth: u8| [&20u32.to_be_bytes()[..], &[nth]].concat();
    (0..10).for_each(|nth| db.put(&key(nth), b"newer").expect("put"));
    db.flush().expect("flush");
    assert_eq!(levels(&keyspace), [1, 0, 1]);
    let (start, end) = (Some(key(0)), Some(21u32.to_be_bytes().to_vec()));
    let options = ScanOptions { start, end, ..ScanOptions::default() };
    let forward = || paid_by(&db, &keyspace, &options, Cursor::seek_to_first, Cursor::next);
    forward();
    // Behind the last there is only what the other run has.
    assert_eq!(forward(), (10, 2_000 + 100));
    let backward = || paid_by(&db, &keyspace, &options, Cursor::seek_to_last, Cursor::prev);
    backward();
    assert_eq!(backward(), (10, 2_000 + 100));
    db.close().expect("close");
}

#[test]
fn of_what_becomes_one_run_of_a_tier_scans_pay_for_all_but_one() {
    let default_keyspace =
        KeyspaceOptions { compaction: Compaction::Tiered, ..KeyspaceOptions::default() };
    let options = Options { default_keyspace, ..Options::default() };
    let env = Env::with_vfs(Arc::new(StrictVfs::new()), 1);
    let setup = Setup { env, inline_background: true, ..Setup::default() };
    let db = Db::open_with("/db", options, setup).expect("open");
    let keyspace = db.core().keyspaces.load().by_id.values().next().expect("one").clone();
    let all = || {
        let options = ScanOptions::default();
        paid_by(&db, &keyspace, &options, Cursor::seek_to_first, Cursor::next)
    };
    put_every(&db, 1);
    all();
    assert_eq!(all(), (100, 0), "nothing would be spared");
    put_every(&db, 5);
    assert_eq!(levels(&keyspace), [2]);
    all();
    assert_eq!(all(), (100, 2_000 + 20 * 100));
    db.close().expect("close");
}

#[test]
fn a_level_that_is_over_its_limit_is_not_what_scans_have_paid_for() {
    let (db, keyspace) = open_small_levels();
    let core = db.core();
    put_every(&db, 1);
    assert_eq!(levels(&keyspace), [1, 0, 1]);
    pay(&keyspace, 1_000_000);
    let mut bought = 0;
    while let Some(chosen) = choose(core, Turn::Usual).expect("choose") {
        let CompactionSpec { reason, level, is_move, .. } = chosen.spec;
        match reason {
            CompactionReason::Scans => assert_eq!((level, is_move), (bought.min(1), bought == 0)),
            _ => assert_eq!((reason, level, is_move), (CompactionReason::Size, 1, false)),
        }
        let paid = keyspace.toll.covers(1);
        assert_eq!(paid, reason != CompactionReason::Scans || is_move, "{reason:?} at {level}");
        if reason == CompactionReason::Scans {
            bought += 1;
            pay(&keyspace, 1_000_000);
        }
        chosen.run(core).expect("run");
        core.background.end_compaction();
    }
    assert_eq!(levels(&keyspace), [0, 0, 1]);
    db.close().expect("close");
}

/// What is done at leisure may take hours, and then more comes.
#[test]
fn what_is_made_later_may_be_urgent_too() {
    let (db, _) = open();
    let is_urgent = urgency(db.core());
    let create = |name: &str, options: KeyspaceOptions| {
        let keyspace = db.create_keyspace(name, options).expect("create");
        keyspace.core.reshaping.store(true, Ordering::Relaxed);
        keyspace
    };
    let add_run = |keyspace: &Keyspace| {
        keyspace.put(b"key", b"value").expect("put");
        db.flush().expect("flush");
    };
    let late = KeyspaceOptions { level0_runs_compact: 2, ..KeyspaceOptions::default() };
    let late = create("late", late);
    add_run(&late);
    assert!(!is_urgent());
    add_run(&late);
    assert!(is_urgent(), "level 0 has what it may have");
    db.drop_keyspace("late").expect("drop");
    assert!(!is_urgent());
    let indexed = create(
        "indexed",
        KeyspaceOptions {
            compaction: Compaction::Tiered,
            run_index: true,
            run_index_runs_min: 2,
            ..KeyspaceOptions::default()
        },
    );
    // As if it had failed: nobody makes one.
    indexed.core.indexing.lock().failed = true;
    (0..2).for_each(|_| add_run(&indexed));
    assert!(!is_urgent());
    indexed.core.indexing.lock().failed = false;
    assert!(is_urgent(), "an index is due");
    db.wait_idle().expect("idle");
    assert!(!is_urgent(), "it was made");
    db.close().expect("close");
}

/// Threads that take turns at the levels of tiers leave all of them to who compacts by hand.
#[test]
fn tiers_that_somebody_waits_for_are_left_alone() {
    let tiered = |options: &mut KeyspaceOptions| {
        options.compaction = Compaction::Tiered;
        options.tiered_runs = 2;
        options.level0_runs_compact = 1;
        options.value_log_bytes_min = None;
    };
    let db = open_changed(Arc::new(StrictVfs::new()), tiered).expect("open");
    let (core, keyspace) = (db.core(), db.default_keyspace().core.clone());
    let next = || choose(core, Turn::Usual).expect("choose");
    let run = |chosen: Chosen| {
        chosen.run(core).expect("run");
        core.background.end_compaction();
    };
    for byte in 1..3 {
        add_groups(&db, &["a/"], byte);
        run(next().expect("level 0 goes down"));
    }
    let levels = || -> Vec<usize> { view_of(&db).runs().map(|(level, _)| level).collect() };
    assert_eq!(levels(), [1, 1]);
    let reserved = Reserved::new(core, &keyspace);
    assert!(next().is_none(), "somebody waits for both");
    add_groups(&db, &["b/"], 3);
    let level0 = next().expect("level 0 goes on");
    assert_eq!((level0.spec.level, level0.spec.inputs.len()), (0, 1));
    run(level0);
    assert_eq!(levels(), [1, 1, 1]);
    // Who has the oldest may have them for hours.
    take_below_level0(&keyspace, true);
    for _ in 0..2 {
        add_groups(&db, &["b/"], 3);
        run(next().expect("level 0 goes on"));
    }
    let piled_up = next().expect("more than twice as many as there should be");
    assert_eq!((piled_up.spec.level, piled_up.spec.output_level), (1, 1));
    assert_eq!(piled_up.spec.inputs.len(), 2);
    run(piled_up);
    assert_eq!(levels(), [1, 1, 1, 1]);
    assert!(next().is_none());
    drop(reserved);
    // One who waits says so, and no more once it has them.
    take_below_level0(&keyspace, true);
    std::thread::scope(|scope| {
        let by_hand = scope.spawn(|| db.default_keyspace().compact_range(None, None));
        while !keyspace.is_reserved() && !by_hand.is_finished() {
            std::thread::yield_now();
        }
        take_below_level0(&keyspace, false);
        by_hand.join().expect("no panic").expect("compact");
    });
    assert!(!keyspace.is_reserved());
    assert_eq!(levels().len(), 1);
    assert_eq!(keys_and_bytes(&db), (300, BTreeSet::from([1, 2, 3])));
    db.close().expect("close");
}

#[test]
fn a_collection_that_writes_wait_for_goes_before_compactions() {
    let default_keyspace =
        KeyspaceOptions { value_log_bytes_min: Some(64), ..KeyspaceOptions::default() };
    let options = Options { default_keyspace, ..Options::default() };
    let disk = StrictVfs::new();
    let env = Env::with_vfs(Arc::new(disk.clone()), 1);
    let setup = Setup { env, inline_background: true, ..Setup::default() };
    let db = Db::open_with("/db", options, setup).expect("open");
    let core = db.core();
    let keyspace = core.keyspaces.load().by_id.values().next().expect("one").clone();
    add_run(&db, 1);
    // Nobody collects the first files before all is due at once.
    let all = || {
        let versions = core.lock_versions().expect("versions");
        versions.values().0.keys().map(|&number| (number, 0)).collect::<Vec<(u64, u64)>>()
    };
    let files = all();
    core.value_use.taken.lock().extend(files.iter().copied());
    add_run(&db, 2);
    db.default_keyspace().compact_range(None, None).expect("compact");
    take_below_level0(&keyspace, true);
    add_run(&db, 3);
    take_below_level0(&keyspace, false);
    assert_eq!((files.len(), runs_of_level0(&keyspace)), (1, 1));
    let before = db.stats().values.collected_files;
    pay(&keyspace, 1_000_000);
    core.value_use.taken.lock().clear();
    let due = |slow_from_bytes| {
        core.value_use.changed.store(true, Ordering::Release);
        core.value_use.slow_from_bytes.store(slow_from_bytes, Ordering::Relaxed);
    };
    let done = || (runs_of_level0(&keyspace), db.stats().values.collected_files - before);
    due(u64::MAX);
    assert!(core.values_fill() < 0.0 && !core.is_collection_urgent());
    due(0);
    assert!(core.values_fill() > 0.0, "writes wait for it, though nobody runs it yet");
    assert!(compact_next(core).expect("collect"));
    assert_eq!(done(), (1, 1));
    db.wait_idle().expect("idle");
    assert_eq!(done().0, 0, "what scans paid for came next");
    // One that fails does not keep others from being compacted, nor writers waiting.
    due(0);
    assert!(core.is_collection_urgent());
    core.value_use.failed.store(true, Ordering::Relaxed);
    assert!(core.values_fill() < 0.0 && !core.is_collection_urgent());
    core.value_use.failed.store(false, Ordering::Relaxed);
    // What is left of the file would have to be copied.
    db.delete(b"a/\x07").expect("delete");
    db.default_keyspace().compact_range(None, None).expect("compact");
    disk.set_capacity_bytes(Some(0));
    db.collect_values(0.0, |_| true).expect_err("there is no room");
    assert!(core.value_use.failed.load(Ordering::Relaxed));
    disk.set_capacity_bytes(None);
    db.collect_values(0.0, |_| true).expect("collect");
    assert!(!core.value_use.failed.load(Ordering::Relaxed));
    db.close().expect("close");
}

/// Another collection has ended, and has still to say so.
#[test]
fn what_a_collection_has_removed_does_not_count_for_the_next() {
    let default_keyspace =
        KeyspaceOptions { value_log_bytes_min: Some(64), ..KeyspaceOptions::default() };
    let options = Options {
        default_keyspace,
        value_log_space_amp_max: 1.2,
        value_log_file_bytes: 64 << 10,
        ..Options::default()
    };
    let files_after = |gone_bytes: u64| {
        let env = Env::with_vfs(Arc::new(StrictVfs::new()), 1);
        let setup = Setup { env, inline_background: true, ..Setup::default() };
        let db = Db::open_with("/db", options.clone(), setup).expect("open");
        // Of no file that is there.
        db.core().value_use.taken.lock().insert(u64::MAX, gone_bytes);
        // A half of the first file dies.
        for round in 0..2u8 {
            for key in (0..200u8).filter(|key| round == 0 || key % 2 == round % 2) {
                let value: Vec<u8> = (0..4_000u32).map(|at| mix64(u64::from(at)) as u8).collect();
                db.put(&[key], &value).expect("put");
            }
            db.default_keyspace().compact_range(None, None).expect("compact");
        }
        db.wait_idle().expect("idle");
        let collected = db.stats().values.collected_files;
        db.close().expect("close");
        collected
    };
    let collected = files_after(0);
    assert!(collected > 0);
    assert_eq!(files_after(1 << 40), collected);
}

#[test]
fn a_compaction_that_was_overtaken_may_fail_anywhere() {
    // What it has written is one table that is written anew, or several with two of these.
    for (table_bytes_max, fault) in
        [(1 << 20, Fault::Eio), (1 << 20, Fault::NoSpace), (16 << 10, Fault::NoSpace)]
    {
        let open = |vfs: Arc<dyn Vfs>| {
            open_changed(vfs, |options| options.table_bytes_max = table_bytes_max).expect("open")
        };
        let (mut failed, mut nth) = (0, 0);
        loop {
            nth += 1;
            let disk = StrictVfs::new();
            let vfs = FaultyVfs::new(Arc::new(disk.clone()));
            let db = open(Arc::new(vfs.clone()));
            add_a_group_between(&db);
            let chosen = about_to_compact(&db);
            db.delete_group(b"b/").expect("delete");
            let before = vfs.faults_fired();
            vfs.inject(FaultRule::nth(nth, &Op::ALL, fault));
            failed += u32::from(chosen.run(db.core()).is_err());
            let fired = vfs.faults_fired() > before;
            vfs.heal();
            assert_eq!(keys_and_bytes(&db), (400, BTreeSet::from([1, 2])), "{fault:?}, {nth}");
            // A store whose sync failed takes nothing more; in others the next edit voids what
            // failed.
            let takes_more = db.put(b"d", b"").and_then(|()| db.flush()).is_ok();
            if takes_more {
                db.core().store.sweep();
                let dir = disk.list(Path::new("/db")).expect("list");
                let tables = dir.iter().filter(|file| file.name.ends_with(".tbl")).count();
                assert_eq!(tables, view_of(&db).tables().count(), "{fault:?}, {nth}");
            }
            let _ = db.close();
            let db = open(Arc::new(disk.clone()));
            check_holds(&db, 400 + usize::from(takes_more), &[1, 2]);
            db.close().expect("close");
            if !fired {
                break;
            }
        }
        assert!(failed > 6, "{failed} of {nth}");
    }
}

/// The oldest run of a level is gone, and so newer ones of it go down, past the compaction that had
/// it among its inputs.
#[test]
fn what_passes_a_compaction_of_tiers_whose_input_was_deleted_is_newer() {
    let disk = StrictVfs::new();
    let tiered = |options: &mut KeyspaceOptions| {
        options.compaction = Compaction::Tiered;
        options.tiered_runs = 2;
        options.level0_runs_compact = 1;
        options.value_log_bytes_min = None;
        options.group_table_bytes_min = 4 << 10;
    };
    let open = || open_changed(Arc::new(disk.clone()), tiered).expect("open");
    let write = |db: &Db, group: &str, byte: u8| {
        for key in 0..50u8 {
            db.put(&[group.as_bytes(), &[key]].concat(), &[byte; 200]).expect("put");
        }
        db.flush().expect("flush");
    };
    let levels = |db: &Db| -> Vec<usize> { view_of(db).runs().map(|(level, _)| level).collect() };
    let db = open();
    (1..3).for_each(|byte| write(&db, "h/", byte));
    db.put(b"g/key", b"1").expect("put");
    db.flush().expect("flush");
    assert_eq!(levels(&db), [1, 2]);
    let chosen = about_to_compact(&db);
    assert_eq!((chosen.spec.level, chosen.spec.output_level), (1, 2));
    db.delete_group(b"g/").expect("delete");
    (3..5).for_each(|byte| write(&db, "h/", byte));
    assert_eq!(levels(&db), [2, 2], "they have passed it");
    assert!(chosen.run(db.core()).expect("run"), "the other input is there");
    assert_eq!(levels(&db), [2, 2]);
    let holds_the_newest = |db: &Db| {
        for key in 0..50u8 {
            let found = db.get(&[&b"h/"[..], &[key]].concat()).expect("get");
            assert_eq!(found.as_deref(), Some(&[4; 200][..]), "{key}");
        }
    };
    holds_the_newest(&db);
    db.close().expect("close");
    let db = open();
    holds_the_newest(&db);
    db.default_keyspace().compact_range(None, None).expect("compact");
    holds_the_newest(&db);
    db.close().expect("close");
}

/// Where its table is gone, newer records of the group may have passed the compaction.
#[test]
fn range_tombstones_in_what_was_deleted_meanwhile_are_left_out() {
    for (group_table_bytes_min, within) in
        [(4 << 10, None), (1 << 20, None), (1 << 20, Some(b"b/\x03\x05"))]
    {
        let db = open_with_a_group_between(&StrictVfs::new(), group_table_bytes_min);
        let snapshot = db.snapshot();
        // Nothing is compacted for their sake.
        let keyspace = db.default_keyspace().core.clone();
        keyspace.reshaping.store(true, Ordering::Relaxed);
        db.delete_range(b"b/\x03", b"b/\x04").expect("delete");
        db.delete_range(b"a/\x01", b"a/\x02").expect("delete");
        db.flush().expect("flush");
        keyspace.reshaping.store(false, Ordering::Relaxed);
        let tombstones =
            || -> u64 { view_of(&db).tables().map(|(_, table)| table.meta.range_tombstones).sum() };
        assert_eq!(tombstones(), 2);
        let chosen = about_to_compact(&db);
        if let Some(within) = within {
            // What is erased has a cut in the midst of the range then.
            db.delete_group(within).expect("delete");
        }
        db.delete_group(b"b/").expect("delete");
        assert!(chosen.run(db.core()).expect("run"));
        assert_eq!(tombstones(), 1, "the snapshot needs the other");
        drop(snapshot);
        assert_eq!(keys_and_bytes(&db).0, 300);
        db.close().expect("close");
    }
}
