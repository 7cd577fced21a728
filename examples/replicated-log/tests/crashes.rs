//! The power of replicas fails at any moment, again and again; what they hold is compared with a
//! model each time.
//!
//! The model is every request that was ever proposed. After a crash each group of a replica must be
//! exactly as after the request that its store tells of, and that must be no older than what it had
//! told before. In the end all replicas are the same, and as the model.

use esker::base::checksum::mix64;
use esker::base::vfs::strict::Survival;
use esker_replicated_log::cluster::{Cluster, Failure, REPLICAS};
use esker_replicated_log::log::{Entry, Op};
use esker_replicated_log::replica::{Copied, Pairs, Replica};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

const GROUPS: [&[u8]; 4] = [b"a/", b"b/", b"c/", b"idle/"];

/// Entries of all logs from which on flushes are asked for: few enough that logs are cut off before
/// replicas are back.
const ENTRIES_MAX: usize = 120;

/// The most keys that a request changes.
const OPS_MAX: u64 = 8;

/// Repeatable randomness.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix64(self.0) % limit
    }
}

/// What happened in all runs together.
#[derive(Debug, Default)]
struct Totals {
    crashes: u64,
    /// Groups that were behind the log by entries that had been lost.
    behind: u64,
    replayed: u64,
    copied: u64,
    /// Recoveries that the next crash cut off.
    cut_off: u64,
}

struct Run<'a> {
    cluster: Cluster,
    random: Random,
    /// Every request of each group.
    history: BTreeMap<Vec<u8>, Vec<Vec<Op>>>,
    /// What each had told to be persistent before it crashed.
    told: [BTreeMap<Vec<u8>, u64>; REPLICAS],
    /// It is the end: power is there.
    calm: bool,
    totals: &'a mut Totals,
}

/// A group after its first requests.
fn model(history: &[Vec<Op>], index: u64) -> Pairs {
    let mut pairs = Pairs::new();
    for Op { key, value } in history[..index as usize].iter().flatten() {
        match value {
            Some(value) => pairs.insert(key.clone(), value.clone()),
            None => pairs.remove(key),
        };
    }
    pairs
}

impl Run<'_> {
    fn request(&mut self) -> Vec<Op> {
        let random = &mut self.random;
        let ops = (0..random.below(OPS_MAX + 1)).map(|_| {
            let key = format!("{:03}", random.below(400)).into_bytes();
            let len = [10, 100, 1_500][random.below(3) as usize];
            let value = (random.below(5) > 0).then(|| vec![random.below(256) as u8; len]);
            Op { key, value }
        });
        ops.collect()
    }

    fn propose(&mut self) {
        // The last group gets one request in two hundred.
        let group = match self.random.below(200) {
            0 => GROUPS[3],
            draw => GROUPS[draw as usize % 3],
        };
        let ops = self.request();
        match self.cluster.propose(group, ops.clone()) {
            Ok(index) => {
                let requests = self.history.entry(group.to_vec()).or_default();
                requests.push(ops);
                assert_eq!(requests.len() as u64, index);
            }
            Err(Failure::NoMajority) => self.restart_some(),
            Err(failure) => panic!("{failure}"),
        }
    }

    fn crash(&mut self, at: usize) {
        for (group, log) in GROUPS.map(|group| (group, self.cluster.log(group))) {
            let cut = log.map_or(0, |log| log.cut());
            let persisted = self.cluster.replica(at).persisted(group);
            assert!(
                !self.cluster.is_live(at) || cut <= persisted,
                "cut off at {cut} behind {persisted}"
            );
        }
        let persisted = |group: &[u8]| (group.to_vec(), self.cluster.replica(at).persisted(group));
        self.told[at] = GROUPS.map(persisted).into();
        let percent = [0, 50, 100][self.random.below(3) as usize];
        self.cluster.crash(at, Survival::Some { percent }, self.random.below(1 << 40));
        self.totals.crashes += 1;
    }

    /// The power of a live replica will fail within its next calls to the disk, whatever it is
    /// doing then.
    fn plan_crash(&mut self, at: usize) {
        let disk = self.cluster.replica(at).disk();
        disk.set_crash_at(disk.mutating_calls() + 1 + self.random.below(60));
    }

    /// Compares a replica that was just started with the model.
    fn check(&mut self, at: usize) {
        let replica = self.cluster.replica(at);
        for group in GROUPS {
            let index = replica.applied(group).expect("it is up");
            let told = self.told[at].get(group).copied().unwrap_or(0);
            let history = self.history.get(group).map_or(&[][..], Vec::as_slice);
            assert!(index >= told, "replica {at} told of {told}, and is at {index}");
            assert!(index <= history.len() as u64, "{index} of {}", history.len());
            let found = replica.pairs(group).expect("all pairs");
            assert!(found == model(history, index), "replica {at} is not as after {index}");
            assert_eq!(replica.persisted(group), index, "what outlived a crash is persistent");
            self.totals.behind += u64::from(index < history.len() as u64);
        }
    }

    /// Starts a replica, and recovers it unless a crash interferes.
    fn restart(&mut self, at: usize) {
        if self.cluster.is_live(at) {
            return;
        }
        self.crash(at);
        self.cluster.start(at).expect("it starts");
        self.check(at);
        if !self.calm && self.random.below(3) == 0 {
            self.plan_crash(at);
        }
        match self.cluster.recover(at) {
            Ok(Some(recovered)) => {
                self.totals.replayed += recovered.replayed;
                self.totals.copied += recovered.copied;
            }
            Ok(None) => self.totals.cut_off += 1,
            Err(Failure::NoCopy) => {}
            Err(failure) => panic!("{failure}"),
        }
    }

    fn restart_some(&mut self) {
        let first = self.random.below(REPLICAS as u64) as usize;
        (0..REPLICAS).for_each(|nth| self.restart((first + nth) % REPLICAS));
    }

    fn step(&mut self) {
        let at = self.random.below(REPLICAS as u64) as usize;
        match self.random.below(250) {
            0..=1 => self.crash(at),
            2..=3 if self.cluster.is_live(at) => self.plan_crash(at),
            4..=5 => self.restart(at),
            6 => self.cluster.flush_oldest().expect("flushed"),
            7 if self.random.below(4) == 0 => (0..REPLICAS).for_each(|at| self.crash(at)),
            _ => self.propose(),
        }
    }

    fn end(&mut self) {
        // Crashes that are planned do not come any more.
        self.calm = true;
        (0..REPLICAS).for_each(|at| self.crash(at));
        while !(0..REPLICAS).all(|at| self.cluster.is_live(at)) {
            self.restart_some();
        }
        for (group, history) in &self.history {
            let last = history.len() as u64;
            let expected = model(history, last);
            for at in 0..REPLICAS {
                let replica = self.cluster.replica(at);
                assert_eq!(replica.applied(group).expect("it is up"), last);
                assert!(replica.pairs(group).expect("all pairs") == expected, "replica {at}");
                let term = self.cluster.log(group).and_then(|log| log.term(last));
                assert_eq!(replica.term(group).expect("it is up"), term, "replica {at}");
            }
        }
    }
}

/// A run of so many steps; panics with the seed that plays it again.
fn run(seed: u64, steps: u64, inline: bool, totals: &mut Totals) {
    println!("seed {seed}, inline: {inline}");
    let cluster = Cluster::new(&GROUPS, ENTRIES_MAX, inline).expect("a cluster");
    let (random, history) = (Random(mix64(seed)), BTreeMap::new());
    let told = Default::default();
    let mut run = Run { cluster, random, history, told, calm: false, totals };
    (0..steps).for_each(|_| run.step());
    run.end();
}

#[test]
fn replicas_are_as_the_model_whenever_their_power_fails() {
    let mut totals = Totals::default();
    for seed in 0..12 {
        run(seed, 1_500, seed % 2 == 0, &mut totals);
    }
    println!("{totals:?}");
    let Totals { crashes, behind, replayed, copied, cut_off } = totals;
    let seen = [crashes, behind, replayed, copied, cut_off];
    assert!(seen.iter().all(|&count| count > 0), "the runs do not show everything: {seen:?}");
}

#[test]
fn an_idle_group_does_not_stay_in_the_log() {
    let mut cluster = Cluster::new(&GROUPS, ENTRIES_MAX, true).expect("a cluster");
    let put = |number: usize| vec![Op { key: vec![number as u8], value: Some(vec![1; 10]) }];
    cluster.propose(GROUPS[3], put(0)).expect("proposed");
    // Too little to fill a memtable.
    for number in 0..ENTRIES_MAX - 1 {
        cluster.propose(GROUPS[number % 3], put(number)).expect("proposed");
    }
    let idle = |cluster: &Cluster| cluster.log(GROUPS[3]).map(|log| log.len());
    assert_eq!((idle(&cluster), cluster.entries()), (Some(1), ENTRIES_MAX));
    cluster.propose(GROUPS[0], put(1)).expect("proposed");
    assert_eq!((idle(&cluster), cluster.entries()), (Some(0), 0));
}

#[test]
fn without_a_majority_nothing_is_appended_or_cut_off() {
    let mut cluster = Cluster::new(&GROUPS, ENTRIES_MAX, true).expect("a cluster");
    let op = || vec![Op { key: b"k".to_vec(), value: None }];
    cluster.propose(GROUPS[0], op()).expect("proposed");
    cluster.crash(0, Survival::None, 0);
    cluster.crash(1, Survival::None, 0);
    assert!(matches!(cluster.propose(GROUPS[0], op()), Err(Failure::NoMajority)));
    cluster.flush_oldest().expect("flushed");
    assert_eq!(cluster.log(GROUPS[0]).map(|log| (log.cut(), log.last())), Some((0, 1)));
}

#[test]
fn a_copy_is_as_of_its_index_while_requests_are_applied() {
    let mut replica = Replica::new(false);
    replica.start().expect("it starts");
    let request = |index: u64| {
        let key = vec![(index % 200) as u8];
        vec![Op { key, value: Some([&index.to_le_bytes()[..], &[7; 500]].concat()) }]
    };
    let apply = |index: u64| {
        let entry = Entry { term: 1, ops: request(index) };
        replica.apply(GROUPS[0], index, &entry).expect("applied");
    };
    apply(1);
    let over = AtomicBool::new(false);
    let copies = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let running = || !over.load(Ordering::Relaxed);
            (2..).take_while(|_| running()).for_each(apply);
        });
        let mut copies: Vec<Copied> = Vec::new();
        // Until so many requests were applied that it was copied in the midst of them.
        while copies.last().is_none_or(|copied| copied.index < 2_000) && !writer.is_finished() {
            copies.push(replica.copy(GROUPS[0]).expect("a copy"));
        }
        over.store(true, Ordering::Relaxed);
        copies
    });
    let mut before = 0;
    for copied in copies {
        assert!(copied.index > 0 && copied.index >= before, "{} after {before}", copied.index);
        let requests: Vec<Vec<Op>> = (1..=copied.index).map(request).collect();
        let mut other = Replica::new(true);
        other.start().expect("it starts");
        other.install(GROUPS[0], &copied).expect("installed");
        assert_eq!(other.applied(GROUPS[0]).expect("it is up"), copied.index);
        let pairs = other.pairs(GROUPS[0]).expect("all pairs");
        assert!(pairs == model(&requests, copied.index), "not as after {}", copied.index);
        before = copied.index;
    }
}

#[test]
fn a_copy_arrives_as_a_whole_or_not_at_all() {
    let op = |key: u64, byte| Op { key: vec![key as u8], value: Some(vec![byte; 100]) };
    let replica_at = |last: u64, byte: u8| {
        let mut replica = Replica::new(true);
        replica.start().expect("it starts");
        for index in 1..=last {
            let entry = Entry { term: last, ops: vec![op(index, byte), op(100 + index, byte)] };
            replica.apply(GROUPS[0], index, &entry).expect("applied");
        }
        replica.flush_oldest().expect("flushed");
        replica
    };
    let copied = replica_at(9, 2).copy(GROUPS[0]).expect("a copy");
    let (mut old, mut new, mut calls) = (0, 0, 0);
    loop {
        calls += 1;
        let mut replica = replica_at(5, 1);
        replica.disk().set_crash_at(replica.disk().mutating_calls() + calls);
        let installed = replica.install(GROUPS[0], &copied);
        let told = replica.persisted(GROUPS[0]);
        replica.crash(Survival::Some { percent: 30 }, calls);
        replica.start().expect("it starts");
        let applied = replica.applied(GROUPS[0]).expect("it is up");
        assert!(applied >= told, "at call {calls}: told of {told}, and at {applied}");
        assert_eq!(replica.term(GROUPS[0]).expect("it is up"), Some(applied), "at call {calls}");
        let pairs = replica.pairs(GROUPS[0]).expect("all pairs");
        let byte = if applied == 5 { 1 } else { 2 };
        assert!(pairs.len() as u64 == 2 * applied, "at call {calls}");
        assert!(pairs.values().all(|value| *value == vec![byte; 100]), "at call {calls}");
        match applied {
            5 => old += 1,
            9 => new += 1,
            _ => panic!("at call {calls}: {applied}"),
        }
        if installed.is_ok() {
            assert_eq!((applied, told), (9, 9));
            break;
        }
    }
    assert!(old > 0 && new > 1, "{old} {new}");
}

/// What no store takes must not stand in a log: no replica could go on behind it.
#[test]
fn a_request_that_stores_refuse_is_not_in_the_log() {
    let mut cluster = Cluster::new(&GROUPS, ENTRIES_MAX, true).expect("a cluster");
    let op = |key: Vec<u8>| vec![Op { key, value: None }];
    cluster.propose(GROUPS[0], op(b"key".to_vec())).expect("propose");
    for (group, ops) in [
        (GROUPS[0], op(vec![0; 2 << 20])),
        (GROUPS[0], vec![Op { key: b"key".to_vec(), value: Some(vec![0; 17 << 20]) }]),
        (b"a/b/".as_slice(), op(b"key".to_vec())),
        (b"a", op(b"key".to_vec())),
        (b"", op(b"key".to_vec())),
    ] {
        let refused = cluster.propose(group, ops);
        assert!(matches!(refused, Err(Failure::Refused(_))), "{}", group.escape_ascii());
    }
    assert_eq!(cluster.log(GROUPS[0]).map(|log| log.len()), Some(1));
    (0..REPLICAS).for_each(|at| cluster.crash(at, Survival::None, 1));
    for at in 0..REPLICAS {
        cluster.start(at).expect("start");
    }
    for at in 0..REPLICAS {
        cluster.recover(at).expect("recover");
    }
    assert_eq!(cluster.propose(GROUPS[0], op(b"key".to_vec())).expect("propose"), 2);
}
