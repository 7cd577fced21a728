//! Threads remember which groups they applied to: whatever happens between two requests, the next
//! one is noted where it belongs.

use super::support::{DIR, Random, below_log, setup};
use esker::base::vfs::strict::StrictVfs;
use esker::{Applied, Batch, Db, Error, GroupIndex};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Stores that the same threads apply to, to groups of the same names.
const STORES: usize = 2;
const GROUPS: u64 = 3;
const STEPS: u64 = 6_000;

/// A store, and what should be known of its groups.
struct Store {
    disk: StrictVfs,
    db: Db,
    groups: BTreeMap<Vec<u8>, GroupIndex>,
}

type Errand = Box<dyn FnOnce() + Send>;

/// A thread that does one errand after the other while it is waited for.
struct Worker(Sender<Errand>);

impl Worker {
    fn new() -> Worker {
        let (errands, next): (Sender<Errand>, Receiver<Errand>) = channel();
        std::thread::spawn(move || next.into_iter().for_each(|errand| errand()));
        Worker(errands)
    }

    fn apply(&self, db: &Db, group: &[u8], index: u64, note: &'static [u8]) -> Result<(), Error> {
        let (answer, answered) = channel();
        let (db, group) = (db.clone(), group.to_vec());
        let errand = move || {
            let mut batch = Batch::new();
            batch.put(&[&group[..], b"key"].concat(), &index.to_le_bytes());
            let done = db.apply(Applied { group: &group, index, note }, batch);
            drop(db);
            answer.send(done).expect("somebody waits");
        };
        self.0.send(Box::new(errand)).expect("the thread is there");
        answered.recv().expect("an answer")
    }
}

impl Store {
    fn new() -> Store {
        let disk = StrictVfs::new();
        let db = Db::open_with(DIR, below_log(), setup(&disk)).expect("open");
        Store { disk, db, groups: BTreeMap::new() }
    }

    fn step(&mut self, random: &mut Random, worker: &Worker) {
        let group = format!("g{}/", random.below(GROUPS)).into_bytes();
        match random.below(40) {
            0 => {
                self.db.flush_group(&group).expect("flush");
                // All of an epoch become persistent together; no other is there.
                if self.groups.get(&group).is_some_and(|known| known.persisted < known.applied) {
                    self.all_persistent();
                }
            }
            1 => {
                self.db.delete_group(&group).expect("delete");
                self.groups.remove(&group);
            }
            2 => {
                self.db.clone().close().expect("close");
                self.db = Db::open_with(DIR, below_log(), setup(&self.disk)).expect("open");
                self.all_persistent();
            }
            3 => {
                // Once more what was applied, or something older.
                let Some(known) = self.groups.get(&group) else { return };
                let index = known.applied - random.below(known.applied);
                let again = worker.apply(&self.db, &group, index, b"again");
                assert!(matches!(again, Err(Error::InvalidArgument { .. })), "{again:?}");
            }
            _ => {
                let note: &[u8] = if random.below(5) == 0 { b"term 2" } else { b"" };
                let known = self.groups.entry(group.clone());
                let known = known.or_insert(GroupIndex {
                    group,
                    applied: 0,
                    persisted: 0,
                    note: Vec::new(),
                });
                known.applied += 1 + random.below(3);
                known.note = note.to_vec();
                worker.apply(&self.db, &known.group, known.applied, note).expect("apply");
            }
        }
    }

    fn all_persistent(&mut self) {
        self.groups.values_mut().for_each(|known| known.persisted = known.applied);
    }
}

#[test]
fn each_request_is_noted_where_it_belongs() {
    let mut random = Random(1);
    let workers: Vec<Worker> = (0..3).map(|_| Worker::new()).collect();
    let mut stores: Vec<Store> = (0..STORES).map(|_| Store::new()).collect();
    for step in 0..STEPS {
        let worker = &workers[random.below(workers.len() as u64) as usize];
        let store = &mut stores[random.below(STORES as u64) as usize];
        store.step(&mut random, worker);
        let known: Vec<GroupIndex> = store.groups.values().cloned().collect();
        assert_eq!(store.db.groups(), known, "step {step}");
    }
}

/// More than a thread remembers.
#[test]
fn a_thread_may_apply_to_many_groups() {
    const MANY: u64 = 40_000;
    let disk = StrictVfs::new();
    let db = Db::open_with(DIR, below_log(), setup(&disk)).expect("open");
    for index in 1..=3 {
        for number in 0..MANY {
            let group = number.to_be_bytes();
            db.apply(Applied { group: &group, index, note: b"" }, Batch::new()).expect("apply");
            let again = db.apply(Applied { group: &group, index, note: b"" }, Batch::new());
            assert!(again.is_err(), "request {index} of group {number} was applied twice");
        }
    }
    assert!(db.groups().iter().all(|group| group.applied == 3));
    assert_eq!(db.groups().len() as u64, MANY);
}

/// Who is told that a request was applied finds what it has written.
#[test]
fn what_was_applied_can_be_read() {
    const REQUESTS: u64 = 20_000;
    let disk = StrictVfs::new();
    let db = Db::open_with(DIR, below_log(), setup(&disk)).expect("open");
    let apply = |group: &[u8]| {
        for index in 1..=REQUESTS {
            let mut batch = Batch::new();
            for key in 0..40_u8 {
                batch.put(&[group, &[key]].concat(), &index.to_le_bytes());
            }
            db.apply(Applied { group, index, note: b"" }, batch).expect("apply");
        }
    };
    let follow = |group: &[u8]| {
        let mut told = 0;
        while told < REQUESTS {
            told = match told % 2 {
                0 => db.group(group).map_or(0, |group| group.applied),
                _ => db.groups().iter().find(|one| one.group == group).map_or(0, |g| g.applied),
            };
            let last = db.get(&[group, &[39]].concat()).expect("get");
            let found =
                last.map_or(0, |value| u64::from_le_bytes(value[..].try_into().expect("8")));
            assert!(found >= told, "request {told} was told, and {found} is found");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| apply(b"a/"));
        scope.spawn(|| apply(b"b/"));
        scope.spawn(|| follow(b"a/"));
    });
}
