//! Lookups of several keys are shared among threads where reads are slow, and nobody notices.

use super::support::DIR;
use esker::base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker::base::vfs::strict::StrictVfs;
use esker::base::{Env, sync::Mutex};
use esker::{Db, Error, KeyspaceOptions, Options, Setup, Value};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const KEYS: u64 = 3_000;

fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

fn value(number: u64) -> Vec<u8> {
    let mut bytes = vec![b'a' + (number % 26) as u8; 300];
    bytes.extend(number.to_le_bytes());
    bytes
}

/// Every key but each third.
fn expected(number: u64) -> Option<Vec<u8>> {
    (number < KEYS && !number.is_multiple_of(3)).then(|| value(number))
}

/// A store on a disk whose reads are slow, opened anew. Some values stand apart.
fn slow() -> (FaultyVfs, Db) {
    let disk = FaultyVfs::new(Arc::new(StrictVfs::new()));
    let open = || {
        let options = Options {
            memory_budget_bytes: 16 << 20,
            default_keyspace: KeyspaceOptions {
                value_log_bytes_min: Some(308),
                block_bytes: 1 << 10,
                ..KeyspaceOptions::default()
            },
            ..Options::default()
        };
        let setup = Setup {
            env: Env::with_vfs(Arc::new(disk.clone()), 7),
            listener: None,
            inline_background: false,
            ..Setup::default()
        };
        Db::open_with(DIR, options, setup).expect("open")
    };
    let db = open();
    for number in 0..KEYS {
        db.put(&key(number), &value(number)[usize::from(number % 2 == 0)..]).expect("put");
    }
    for number in (0..KEYS).step_by(3) {
        db.delete(&key(number)).expect("delete");
    }
    db.flush().expect("flush");
    db.wait_idle().expect("idle");
    db.close().expect("close");
    (disk.clone(), open())
}

#[expect(clippy::disallowed_methods, reason = "a slow disk takes its time")]
fn take_time() {
    thread::sleep(Duration::from_micros(60));
}

/// Makes reads slow; which threads have read since.
fn slow_down(disk: &FaultyVfs) -> Arc<Mutex<BTreeSet<String>>> {
    let names = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = names.clone();
    let note = move |_: &std::path::Path| {
        seen.lock().insert(thread::current().name().unwrap_or_default().to_owned());
        take_time();
        false
    };
    disk.inject(FaultRule::nth(1, &[Op::Read], Fault::Eio).on(note));
    names
}

#[track_caller]
fn assert_found(numbers: &[u64], found: &[Option<Value>]) {
    assert_eq!(numbers.len(), found.len());
    for (&number, found) in numbers.iter().zip(found) {
        let expected = expected(number).map(|value| value[usize::from(number % 2 == 0)..].to_vec());
        assert!(found.as_deref() == expected.as_deref(), "key {number}");
    }
}

fn keys(numbers: &[u64]) -> Vec<Vec<u8>> {
    numbers.iter().map(|&number| key(number)).collect()
}

#[test]
fn several_threads_look_up_what_is_slow() {
    let (disk, db) = slow();
    let names = slow_down(&disk);
    // In no order, some twice, some absent.
    let numbers: Vec<u64> = (0..400).map(|nth| nth * 7_919 % (KEYS + 100)).collect();
    let found = db.default_keyspace().multi_get(&keys(&numbers), None).expect("found");
    assert_found(&numbers, &found);
    let names = names.lock().clone();
    assert!(names.iter().any(|name| name.starts_with("esker-read-")), "{names:?}");
    // Of one moment, even if writers go on.
    let snapshot = db.snapshot();
    thread::scope(|scope| {
        scope.spawn(|| {
            for &number in &numbers {
                db.put(&key(number), b"new").expect("put");
            }
        });
        let found = db.default_keyspace().multi_get(&keys(&numbers), Some(&snapshot));
        assert_found(&numbers, &found.expect("found"));
    });
    drop(snapshot);
    db.close().expect("close");
}

#[test]
fn a_read_that_fails_fails_the_lookup_and_no_other() {
    for nth in [1, 2, 3, 5, 9, 30, 80] {
        let (disk, db) = slow();
        slow_down(&disk);
        disk.inject(FaultRule::nth(nth, &[Op::Read], Fault::Eio));
        let numbers: Vec<u64> = (0..150).map(|nth| nth * 20 + 1).collect();
        let keyspace = db.default_keyspace();
        let failed = keyspace.multi_get(&keys(&numbers), None);
        assert_eq!(disk.faults_fired(), 1, "read {nth}");
        assert!(matches!(failed, Err(Error::Io { .. })), "read {nth}: {failed:?}");
        assert_found(&numbers, &keyspace.multi_get(&keys(&numbers), None).expect("found"));
    }
}

#[test]
fn a_store_is_closed_while_keys_are_looked_up() {
    let (disk, db) = slow();
    let names = slow_down(&disk);
    let numbers: Vec<u64> = (0..2_000).map(|nth| nth * 7_919 % KEYS).collect();
    thread::scope(|scope| {
        let keyspace = db.default_keyspace();
        let numbers = &numbers;
        let lookup = scope.spawn(move || keyspace.multi_get(&keys(numbers), None));
        while names.lock().len() < 2 && !lookup.is_finished() {
            thread::yield_now();
        }
        db.clone().close().expect("close");
        let found = lookup.join().expect("no panic").expect("the view outlives the store");
        assert_found(numbers, &found);
    });
    drop(db);
}
