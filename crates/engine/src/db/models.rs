//! Loom models of the write queue, and of whole databases in memory without background threads.
//!
//! The queue's models use the real queue with a leader's few lines of their own, those of parts the
//! real seats with a helper's few lines. The others open a real database on the strict file system;
//! flushes and compactions run on the thread that asks for them. Loom sees every lock and atomic of
//! the engine and of the file system but for the counters of `stats`; `arc_swap` and the map of the
//! block cache are replaced by ones it sees into. Run by `cargo xtask loom`. Each model says which
//! planted faults it was seen to find.

use super::background::Background;
use super::queue::{Request, Turn, WriteQueue};
use super::{Db, Setup};
use crate::compaction::parts::{Part, work_on};
use crate::models::{explore, spawn};
use crate::options::{Compression, KeyspaceOptions, Options, WriteOptions};
use esker_base::sync::{Mutex, Witness, thread};
use esker_base::vfs::Vfs;
use esker_base::vfs::strict::StrictVfs;
use esker_base::{Batch, Env, Error, Result};
use std::path::Path;
use std::sync::Arc;

/// A queue, and what is written through it.
struct Writing {
    queue: WriteQueue,
    /// Plain memory that only the leader may touch.
    log: Witness,
    /// Keys in the order of writing.
    written: std::sync::Mutex<Vec<u8>>,
    fault: Fault,
    /// A key whose batch is larger than a group may become.
    large: Option<u8>,
}

/// What becomes of a group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// It is written.
    None,
    /// All of it fails.
    Error,
    /// Its leader panics, and unwinding drops the leader.
    Panic,
}

impl Writing {
    fn new(fault: Fault, lookers_max: u32, large: Option<u8>) -> Arc<Writing> {
        let (queue, log) = (WriteQueue::new(lookers_max), Witness::new(1));
        Arc::new(Writing { queue, log, written: std::sync::Mutex::default(), fault, large })
    }

    /// As `db::write` does, with a list in the log's place; what is of an odd key is synced, for
    /// another order of answers and lead.
    fn write(&self, key: u8) -> Result<()> {
        let mut batch = Batch::new();
        batch.put(&[key], if self.large == Some(key) { &[0; 200] } else { b"" });
        let answer = match self.queue.enter(Request::new(batch, key % 2 == 1)) {
            Turn::Done(answer) => answer,
            Turn::Lead(mut leader) => {
                let mut group = leader.gather();
                self.log.wrote(0..1);
                match self.fault {
                    Fault::None => self.note(group.requests()),
                    Fault::Error => {}
                    Fault::Panic => return Err(Error::Cancelled),
                }
                group.requests().iter_mut().for_each(|request| request.result = self.result());
                leader.finish(group)
            }
        };
        let returned = answer.batch.iter().next().map(|op| op.key.to_vec());
        assert!(returned.is_none_or(|returned| returned == [key]), "its own batch");
        answer.result
    }

    fn note(&self, group: &[Request]) {
        let keys = group.iter().flat_map(|r| r.batch.iter()).map(|op| op.key[0]);
        self.written.lock().expect("no panic inside").extend(keys);
    }

    fn result(&self) -> Result<()> {
        if self.fault == Fault::None { Ok(()) } else { Err(Error::Cancelled) }
    }
}

fn three_writers(fault: Fault, check: fn(Result<()>)) -> Arc<Writing> {
    let writing = Writing::new(fault, 0, None);
    write_from_three(&writing, check);
    writing
}

fn write_from_three(writing: &Arc<Writing>, check: fn(Result<()>)) {
    let others: Vec<_> = [10u8, 20]
        .into_iter()
        .map(|key| {
            let writing = writing.clone();
            thread::spawn(move || check(writing.write(key)))
        })
        .collect();
    check(writing.write(1));
    check(writing.write(2));
    others.into_iter().for_each(|other| other.join().expect("nobody waits for ever"));
}

fn assert_all_written_once(writing: &Writing) {
    let mut written = writing.written.lock().expect("no panic inside").clone();
    let place = |key| written.iter().position(|&k| k == key);
    assert!(place(1) < place(2), "a thread's batches keep their order");
    written.sort_unstable();
    assert_eq!(written, [1, 2, 10, 20]);
}

/// Three threads write four batches: each is written once, those of a thread in its order, and at
/// no time by two leaders.
///
/// At most three preemptions. Seen to find: a lead that is given up and not offered, or an offer or
/// an answer that wakes nobody; an offer that stays when it was taken; one who was woken and leads
/// without asking whether somebody was faster; a lead that is taken or given up without acquire or
/// release; one who joins although nobody leads, or leads although somebody does; a queue that is
/// said to be waited for when it is empty, or not when it is not.
#[test]
fn every_batch_is_written_once() {
    explore("three writers", 3, || {
        assert_all_written_once(&three_writers(Fault::None, |result| result.expect("written")));
    });
}

/// The same, while one of the batches is too large to be written along with others.
///
/// At most three preemptions.
/// Seen to find: a queue that is said to be empty when one group of two is left.
#[test]
fn a_large_batch_is_written_once() {
    explore("three writers, a large batch", 3, || {
        let writing = Writing::new(Fault::None, 0, Some(20));
        write_from_three(&writing, |result| result.expect("written"));
        assert_all_written_once(&writing);
    });
}

/// The same, while writers look on before they join.
///
/// At most three preemptions.
/// Seen to find: one who looks, sees nobody lead and leads without taking the lead.
#[test]
fn writers_that_look_on_take_turns() {
    explore("three writers that look on", 3, || {
        let writing = Writing::new(Fault::None, 4, None);
        write_from_three(&writing, |result| result.expect("written"));
        assert_all_written_once(&writing);
    });
}

/// A group that fails fails for all of it, and the next one is led by somebody.
///
/// At most three preemptions.
/// Seen to find: the same faults.
#[test]
fn an_error_wakes_all() {
    explore("three writers and errors", 3, || {
        three_writers(Fault::Error, |result| assert!(result.is_err()));
    });
}

/// A leader that panics leaves nobody waiting.
///
/// At most three preemptions. Seen to find: `Drop` of the leader that does not answer those it
/// took, or does not offer the lead.
#[test]
fn a_leader_that_panics_wakes_all() {
    explore("three writers and panics", 3, || {
        three_writers(Fault::Panic, |result| assert!(result.is_err()));
    });
}

/// Three parts, of which the middle one may fail, and two threads that may help.
fn three_parts(fails: bool) {
    let background = Arc::new(Background::new(false));
    let helpers: Vec<_> = (0..2)
        .map(|_| {
            let background = background.clone();
            thread::spawn(move || {
                loop {
                    let seen = background.seen();
                    if !background.help() && !background.wait_change(seen, None) {
                        return;
                    }
                }
            })
        })
        .collect();
    // A cell for each part.
    let memory = Arc::new(Witness::new(3));
    let parts = [0u8, 1, 2].map(|number| Part { start: Some([number].into()), end: None });
    let written = memory.clone();
    let result = work_on(parts.into(), &*background, move |part, stop| {
        let number = part.start.as_ref().map_or(0, |start| start[0]);
        let cell = usize::from(number);
        written.wrote(cell..cell + 1);
        if fails && number == 1 {
            return Err(Error::ReadOnly);
        }
        if stop() { Err(Error::Cancelled) } else { Ok(number) }
    });
    match result {
        Ok(numbers) => assert!(!fails && numbers == [0, 1, 2]),
        Err(error) => assert!(fails && matches!(error, Error::ReadOnly)),
    }
    memory.wrote(0..3);
    assert_eq!(Arc::strong_count(&memory), 1, "nobody holds the work any more");
    assert_eq!(background.idle_compactors(2), 2);
    background.stop();
    helpers.into_iter().for_each(|helper| helper.join().expect("it ends"));
}

/// Each part of a compaction is done once, and whoever helped has left when the work is said to be
/// done.
///
/// At most three preemptions. Seen to find: a leader that does not wait for those who help, or only
/// once; an offer that stays; a helper that leaves without a word, or lets go of the work after it
/// left; free or taken seats not counted; a part that is taken twice.
#[test]
fn helpers_have_left_when_the_work_is_done() {
    explore("three parts and two helpers", 3, || three_parts(false));
}

/// A part that fails ends the others, and its error is what is returned.
///
/// At most three preemptions.
/// Seen to find: an error of a later part that takes the place of the first.
#[test]
fn a_part_that_fails_ends_the_others() {
    explore("three parts and an error", 3, || three_parts(true));
}

const DIR: &str = "/model";

fn options() -> Options {
    let default_keyspace = KeyspaceOptions {
        memtable_bytes: 64 << 10,
        compression: vec![Compression::None],
        level0_runs_compact: 100,
        level0_runs_slow: 200,
        level0_runs_max: 300,
        ..KeyspaceOptions::default()
    };
    Options { default_keyspace, ..Options::default() }
}

/// Explores a model of an open database.
fn explore_db(name: &str, preemptions: usize, model: fn(&Db, &StrictVfs)) {
    explore(name, preemptions, move || {
        let body = move || {
            let vfs = StrictVfs::new();
            let env = Env::with_vfs(Arc::new(vfs.clone()), 1);
            let setup = Setup { env, listener: None, inline_background: true, ..Setup::default() };
            let db = Db::open_with(DIR, options(), setup).expect("open");
            model(&db, &vfs);
            db.close().expect("close");
        };
        spawn(body).join().expect("the model ends");
    });
}

fn with(db: &Db, run: impl FnOnce(&Db) + Send + 'static) -> thread::JoinHandle<()> {
    let db = db.clone();
    spawn(move || run(&db))
}

fn table_files(vfs: &StrictVfs) -> usize {
    let entries = vfs.list(Path::new(DIR)).expect("list");
    entries.iter().filter(|e| e.name.ends_with(".tbl")).count()
}

/// A batch is seen whole or not at all, by one who reads its keys under a snapshot.
///
/// At most three preemptions. Seen to find: the visible sequence number stored before the memtable
/// is filled, or Relaxed; the store of the memtable's slot Relaxed.
#[test]
fn a_batch_is_seen_whole_or_not_at_all() {
    explore_db("a batch beside a snapshot", 3, |db, _| {
        let writer = with(db, |db| {
            let mut batch = Batch::new();
            batch.put(b"a", b"1").put(b"b", b"1");
            db.write(batch, WriteOptions::default()).expect("write");
        });
        let snapshot = db.snapshot();
        let keyspace = db.default_keyspace();
        let seen = [b"b", b"a"].map(|key| keyspace.get_at(key, &snapshot).expect("get").is_some());
        assert_eq!(seen[0], seen[1]);
        assert!(!seen[0] || db.get(b"a").expect("get").is_some());
        writer.join().expect("the writer ends");
        assert!(db.get(b"b").expect("get").is_some());
    });
}

/// Two threads write through queue, log and memtable.
///
/// At most two preemptions.
/// Seen to find: an offer of the lead or an answer that wakes nobody.
#[test]
fn what_is_acknowledged_is_seen() {
    explore_db("two writers of a database", 2, |db, _| {
        let writer = with(db, |db| {
            db.put(b"a", b"1").expect("put");
            assert!(db.get(b"a").expect("get").is_some());
        });
        db.put(b"b", b"1").expect("put");
        assert!(db.get(b"b").expect("get").is_some());
        writer.join().expect("the writer ends");
        assert_eq!(db.iter().expect("scan").count(), 2);
    });
}

/// A key that is there is found at any moment of its overwriting and of a flush.
///
/// At most two preemptions. Seen to find: `get` that takes the sequence number before the view; a
/// flush that drops the memtable from the view before the table joins it.
#[test]
fn a_flush_hides_nothing() {
    explore_db("a flush beside a get", 2, |db, _| {
        db.put(b"k", b"1").expect("put");
        let reader = with(db, |db| {
            let value = db.get(b"k").expect("get").expect("it is there");
            assert!(*value == *b"1" || *value == *b"2");
        });
        db.put(b"k", b"2").expect("put");
        db.flush().expect("flush");
        reader.join().expect("the reader ends");
    });
}

/// Tables that a compaction replaced stay until the last reader has left, and then go.
///
/// At most two preemptions. Seen to find: files given up when they are replaced instead of when
/// they are let go; files never given up.
#[test]
fn files_go_with_their_last_reader() {
    explore_db("a compaction beside a get", 2, |db, vfs| {
        for value in [b"1", b"2"] {
            db.put(b"k", value).expect("put");
            db.flush().expect("flush");
        }
        assert_eq!(table_files(vfs), 2);
        let reader = with(db, |db| {
            let value = db.get(b"k").expect("the table is there").expect("the key too");
            assert_eq!(*value, *b"2");
        });
        db.default_keyspace().compact_range(None, None).expect("compact");
        reader.join().expect("the reader ends");
        db.wait_idle().expect("idle");
        assert_eq!(table_files(vfs), 1);
    });
}

/// Models can fail: two threads that write the same plain memory are noticed, whatever the lock
/// between.
#[test]
#[should_panic(expected = "Causality violation")]
fn a_race_is_noticed() {
    explore("a planted race", 2, || {
        let shared = Arc::new((Witness::new(1), Mutex::new(())));
        let other = {
            let shared = shared.clone();
            thread::spawn(move || shared.0.wrote(0..1))
        };
        drop(shared.1.lock());
        shared.0.wrote(0..1);
        other.join().expect("it ends");
    });
}
