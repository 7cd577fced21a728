//! What is in a hurry, what scans have paid for, and what is left of tables that are gone.

use super::choose;
use crate::db::core::KeyspaceCore;
use crate::db::{Db, Setup};
use crate::event::CompactionReason;
use crate::options::{GroupPrefix, KeyspaceOptions, Options};
use esker_base::Env;
use esker_base::sync::atomic::Ordering;
use esker_base::vfs::strict::StrictVfs;
use std::sync::Arc;

/// Whose work in the background is done by those who write and wait.
fn open() -> (Db, Arc<KeyspaceCore>) {
    let groups = Some(GroupPrefix::Delimiter { byte: b'/' });
    let default_keyspace = KeyspaceOptions { groups, ..KeyspaceOptions::default() };
    // Nothing is pinned: indexes and filters are in the cache.
    let options = Options { default_keyspace, pinned_bytes_max: Some(0), ..Options::default() };
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
    let take = |taken| {
        let version = keyspace.view.load().version.clone();
        for (_, run) in version.runs().filter(|(level, _)| *level > 0) {
            run.tables.iter().for_each(|table| table.compacting.store(taken, Ordering::Relaxed));
        }
    };
    for taken in [false, true] {
        take(taken);
        assert!(!keyspace.is_urgent(), "nobody has paid; taken: {taken}");
    }
    keyspace.toll.pay(2, 1_000_000, 0);
    for taken in [true, false] {
        take(taken);
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
    core.stall.set_level0(1.0, true);
    assert!(slowed());
    db.drop_keyspace("full").expect("drop");
    assert!(!slowed());
    db.close().expect("close");
}

#[test]
fn writes_stop_for_a_while_where_level_0_is_over_what_it_may_be() {
    let env = Env::with_vfs(Arc::new(StrictVfs::new()), 1);
    let db = Db::open_with("/db", Options::default(), Setup { env, ..Setup::default() });
    let db = db.expect("open");
    let slowed_us = || db.stats().writes.slowed_us_max;
    db.put(b"a", b"1").expect("put");
    assert!(slowed_us() < 900_000);
    // As if there were so many runs, which nobody can compact.
    db.core().stall.set_level0(1.0, true);
    db.put(b"a", b"2").expect("it is written in the end");
    assert!(slowed_us() >= 900_000, "{}", slowed_us());
    db.close().expect("close");
}

#[test]
fn level_0_written_anew_where_it_stands_is_not_what_scans_have_paid_for() {
    let (db, keyspace) = open();
    (1..3).for_each(|byte| add_run(&db, byte));
    let deleted = db.delete_group(b"a/").expect("delete");
    assert_eq!(deleted.shared_tables, 2, "{deleted:?}");
    keyspace.toll.pay(1, 2, 0);
    let chosen = choose(db.core()).expect("choose").expect("what was erased");
    assert_eq!((chosen.spec.reason, chosen.spec.level), (CompactionReason::Erased, 0));
    assert!(keyspace.toll.covers(4_000), "they have not got what they paid for");
    chosen.run(db.core()).expect("run");
    db.core().background.compactions_running.fetch_sub(1, Ordering::Release);
    assert!(keyspace.toll.covers(4_000));
    db.close().expect("close");
}
