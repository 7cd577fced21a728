//! The collection gate: every interleaving of the steps of a small store that keeps its values
//! apart.
//!
//! A model, not the engine: a few writes of one user, a reader with a snapshot, flushes,
//! compactions, and collections of files with values in their steps, two of which may be under way
//! at once. All orders of these steps are gone through. The design of the engine must answer every
//! read right in all of them; four others, with faults that stores like this one had, must be
//! caught, or the model would show nothing.
//!
//! | design | what is wrong with it |
//! |---|---|
//! | maps | nothing: a value moves, and the map from logs to files changes; see docs/decisions/value-log.md |
//! | writes again | what is current is written once more, as a new write: over a newer value, or after a delete |
//! | writes old numbers | the same with the old sequence number, in the memtable, which is read before the tables |
//! | forgets readers | the old file goes although a snapshot reads it |
//! | forgets memtables | a file is collected into which a memtable still points |
//!
//! Checked after every step: each key has the value of its last write, whatever a snapshot sees is
//! as it was, and every pointer leads to a value.

use crate::gate::{Config, Outcome};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// How values are collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Design {
    Maps,
    WritesAgain,
    WritesOldNumbers,
    ForgetsReaders,
    ForgetsMemtables,
}

/// Faulty designs, what is written meanwhile, and what their fault looks like.
const FAULTY: [(Design, &[Write], &str); 6] = [
    (Design::WritesAgain, WRITES, "was set to Some"),
    (Design::WritesAgain, DELETES, "was set to None"),
    (Design::WritesOldNumbers, WRITES, "was set to Some"),
    (Design::WritesOldNumbers, DELETES, "was set to None"),
    (Design::ForgetsReaders, WRITES, "a snapshot: key 0 points to nothing"),
    (Design::ForgetsMemtables, WRITES, "now: key 0 points to nothing"),
];

/// A write of the user: a key, and whether it gets a value.
type Write = (u8, bool);

/// What the user writes.
const WRITES: &[Write] = &[(0, true), (1, true), (0, true), (0, false), (0, true)];
/// The same, with a delete as the last word.
const DELETES: &[Write] = &[(0, true), (1, true), (0, false)];
const FLUSHES: u8 = 2;
const COMPACTIONS: u8 = 2;
const COLLECTIONS: u8 = 2;
const COLLECTORS: usize = 2;

type Seq = u8;

/// Where a value was written: the log, and the write.
type Place = (u8, Seq);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Record {
    key: u8,
    seq: Seq,
    /// `None` deletes.
    place: Option<Place>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct View {
    memtable: Vec<Record>,
    tables: Vec<Record>,
    /// Which file holds the values of a log that tables point into.
    map: BTreeMap<u8, u8>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Reader {
    #[default]
    Waits,
    Reads {
        seq: Seq,
        view: View,
    },
    Ended,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Collector {
    #[default]
    Idle,
    /// What is alive of a file is known.
    Chosen { file: u8, live: Vec<Record> },
    /// It is in a new file.
    Copied { file: u8, copy: u8, logs: BTreeSet<u8> },
    /// Of designs that write: the next record was found to be current.
    Checked { file: u8, live: Vec<Record> },
}

impl Collector {
    /// The file that is being collected.
    fn file(&self) -> Option<u8> {
        match self {
            Collector::Idle => None,
            Collector::Chosen { file, .. }
            | Collector::Copied { file, .. }
            | Collector::Checked { file, .. } => Some(*file),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct World {
    seq: Seq,
    /// The log that takes records.
    log: u8,
    next_file: u8,
    view: View,
    /// Values by where they were written, in each file that is there.
    files: BTreeMap<u8, BTreeMap<Place, u8>>,
    /// The last value of each key, as the user wrote it, and since when.
    history: Vec<(Seq, u8, Option<u8>)>,
    reader: Reader,
    collectors: [Collector; COLLECTORS],
    writes: usize,
    flushes: u8,
    compactions: u8,
    collections: u8,
    script: &'static [Write],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Write,
    Flush,
    Compact,
    OpenSnapshot,
    CloseSnapshot,
    Collect(usize),
}

const STEPS: [Step; 7] = [
    Step::Write,
    Step::Flush,
    Step::Compact,
    Step::OpenSnapshot,
    Step::CloseSnapshot,
    Step::Collect(0),
    Step::Collect(1),
];

impl View {
    /// The newest record of a key: of the memtable if that has one.
    fn find(&self, key: u8, seq: Seq) -> Option<Record> {
        let newest = |records: &[Record]| {
            let seen = records.iter().filter(|r| r.key == key && r.seq <= seq);
            seen.copied().max_by_key(|record| record.seq)
        };
        newest(&self.memtable).or_else(|| newest(&self.tables))
    }

    fn records(&self) -> impl Iterator<Item = &Record> {
        self.memtable.iter().chain(&self.tables)
    }
}

impl World {
    fn new(script: &'static [Write]) -> World {
        let files = BTreeMap::from([(0, BTreeMap::new())]);
        World { next_file: 100, files, script, ..World::default() }
    }

    /// The value that stands at a place, for whoever reads by this map.
    fn value(&self, map: &BTreeMap<u8, u8>, place: Place) -> Option<u8> {
        let file = map.get(&place.0).copied().unwrap_or(place.0);
        self.files.get(&file)?.get(&place).copied()
    }

    /// The value that the user gave a key last, as of `seq`.
    fn truth(&self, key: u8, seq: Seq) -> Option<u8> {
        let written = self.history.iter().rfind(|(at, k, _)| *k == key && *at <= seq);
        written.and_then(|(_, _, value)| *value)
    }

    /// What is wrong, if something is.
    fn fault(&self) -> Option<String> {
        let check = |view: &View, seq: Seq, who: &str| {
            for key in [0, 1] {
                let found = match view.find(key, seq).and_then(|record| record.place) {
                    None => None,
                    Some(place) => match self.value(&view.map, place) {
                        Some(value) => Some(value),
                        None => return Some(format!("{who}: key {key} points to nothing")),
                    },
                };
                let truth = self.truth(key, seq);
                if found != truth {
                    return Some(format!("{who}: key {key} is {found:?} and was set to {truth:?}"));
                }
            }
            None
        };
        let now = check(&self.view, self.seq, "now");
        now.or_else(|| match &self.reader {
            Reader::Reads { seq, view } => check(view, *seq, "a snapshot"),
            Reader::Waits | Reader::Ended => None,
        })
    }

    /// Removes files that nobody reads by any map.
    fn sweep(&mut self, design: Design) {
        let mut used: BTreeSet<u8> = BTreeSet::from([self.log]);
        let mut use_all = |view: &View| {
            used.extend(view.map.values());
            used.extend(view.memtable.iter().filter_map(|record| Some(record.place?.0)));
        };
        use_all(&self.view);
        if let (Reader::Reads { view, .. }, true) = (&self.reader, design != Design::ForgetsReaders)
        {
            use_all(view);
        }
        for collector in &self.collectors {
            used.extend(collector.file());
            if let Collector::Copied { copy, .. } = collector {
                used.insert(*copy);
            }
        }
        self.files.retain(|file, _| used.contains(file));
    }

    fn put(&mut self, key: u8, seq: Seq, value: Option<u8>) {
        let place = value.map(|value| {
            let place = (self.log, seq);
            self.files.entry(self.log).or_default().insert(place, value);
            place
        });
        self.view.memtable.push(Record { key, seq, place });
    }

    /// Leaves out of tables what nobody sees.
    fn retain(&mut self) {
        let snapshot = match &self.reader {
            Reader::Reads { seq, .. } => Some(*seq),
            Reader::Waits | Reader::Ended => None,
        };
        let tables = std::mem::take(&mut self.view.tables);
        let newest = |key: u8, seq: Seq| {
            tables.iter().filter(|r| r.key == key && r.seq <= seq).map(|r| r.seq).max()
        };
        let seen = |record: &Record| {
            newest(record.key, Seq::MAX) == Some(record.seq)
                || snapshot.is_some_and(|seq| newest(record.key, seq) == Some(record.seq))
        };
        let mut kept: Vec<Record> = tables.iter().filter(|record| seen(record)).copied().collect();
        // A tombstone that hides nothing any more.
        let alone: Vec<u8> = [0, 1]
            .into_iter()
            .filter(|key| kept.iter().filter(|record| record.key == *key).count() == 1)
            .collect();
        kept.retain(|record| record.place.is_some() || !alone.contains(&record.key));
        kept.sort_unstable();
        self.view.tables = kept;
    }

    /// Does a step; false if it cannot be done now.
    fn step(&mut self, step: Step, design: Design) -> bool {
        match step {
            Step::Write => {
                let Some(&(key, sets)) = self.script.get(self.writes) else { return false };
                self.writes += 1;
                self.seq += 1;
                let value = sets.then_some(self.writes as u8);
                self.put(key, self.seq, value);
                self.history.push((self.seq, key, value));
            }
            Step::Flush => {
                if self.flushes == FLUSHES || self.view.memtable.is_empty() {
                    return false;
                }
                self.flushes += 1;
                let records = std::mem::take(&mut self.view.memtable);
                self.view.tables.extend(records);
                self.retain();
                self.view.map.entry(self.log).or_insert(self.log);
                self.log += 1;
                self.files.insert(self.log, BTreeMap::new());
            }
            Step::Compact => {
                if self.compactions == COMPACTIONS || self.view.tables.is_empty() {
                    return false;
                }
                self.compactions += 1;
                self.retain();
            }
            Step::OpenSnapshot => {
                if self.reader != Reader::Waits {
                    return false;
                }
                self.reader = Reader::Reads { seq: self.seq, view: self.view.clone() };
            }
            Step::CloseSnapshot => {
                if !matches!(self.reader, Reader::Reads { .. }) {
                    return false;
                }
                self.reader = Reader::Ended;
            }
            Step::Collect(nth) => return self.collect(nth, design),
        }
        self.sweep(design);
        true
    }

    /// A file that may be collected: the first that no memtable points into and nobody collects.
    fn victim(&self, design: Design) -> Option<u8> {
        let of_log = |file: &u8| -> BTreeSet<u8> {
            self.view.map.iter().filter(|(_, f)| *f == file).map(|(log, _)| *log).collect()
        };
        let taken = |file: &u8| self.collectors.iter().any(|other| other.file() == Some(*file));
        if design == Design::ForgetsMemtables {
            let holds = |file: &u8| !self.files[file].is_empty();
            return self.files.keys().copied().find(|file| holds(file) && !taken(file));
        }
        self.view.map.values().copied().find(|file| {
            let logs = of_log(file);
            let points = |r: &Record| r.place.is_some_and(|(log, _)| logs.contains(&log));
            !taken(file) && !logs.contains(&self.log) && !self.view.memtable.iter().any(points)
        })
    }

    /// Of designs that write: looks whether the next record is current; after the last one the file
    /// goes.
    fn check_next(&mut self, file: u8, mut live: Vec<Record>) -> Collector {
        let Some(record) = live.last() else {
            self.view.map.retain(|_, held| *held != file);
            self.files.remove(&file);
            return Collector::Idle;
        };
        let newest = self.view.records().filter(|other| other.key == record.key);
        if newest.map(|other| other.seq).max() == Some(record.seq) {
            return Collector::Checked { file, live };
        }
        live.pop();
        Collector::Chosen { file, live }
    }

    /// The next step of a collection.
    fn collect(&mut self, nth: usize, design: Design) -> bool {
        self.collectors[nth] = match std::mem::take(&mut self.collectors[nth]) {
            Collector::Idle => {
                let Some(file) = self.victim(design) else { return false };
                if self.collections == COLLECTIONS {
                    return false;
                }
                self.collections += 1;
                let stands_in = |r: &&Record| {
                    r.place.is_some_and(|p| self.view.map.get(&p.0).copied().unwrap_or(p.0) == file)
                };
                let live = self.view.tables.iter().filter(stands_in).copied().collect();
                Collector::Chosen { file, live }
            }
            Collector::Chosen { file, live }
                if matches!(design, Design::WritesAgain | Design::WritesOldNumbers) =>
            {
                self.check_next(file, live)
            }
            Collector::Checked { file, mut live } => {
                if let Some(record) = live.pop() {
                    let value = record.place.and_then(|place| self.value(&self.view.map, place));
                    let seq = match design {
                        Design::WritesOldNumbers => record.seq,
                        _ => {
                            self.seq += 1;
                            self.seq
                        }
                    };
                    self.put(record.key, seq, value);
                }
                Collector::Chosen { file, live }
            }
            Collector::Chosen { file, live } => {
                let copy = self.next_file;
                self.next_file += 1;
                let old = self.files.get(&file).cloned().unwrap_or_default();
                let places: BTreeSet<Place> = live.iter().filter_map(|r| r.place).collect();
                let kept = old.into_iter().filter(|(place, _)| places.contains(place)).collect();
                self.files.insert(copy, kept);
                let logs = self.view.map.iter().filter(|(_, f)| **f == file).map(|(log, _)| *log);
                let mut logs: BTreeSet<u8> = logs.collect();
                if design == Design::ForgetsMemtables {
                    logs.insert(file);
                }
                Collector::Copied { file, copy, logs }
            }
            Collector::Copied { copy, logs, .. } => {
                for log in logs {
                    self.view.map.insert(log, copy);
                }
                Collector::Idle
            }
        };
        self.sweep(design);
        true
    }
}

/// What going through all interleavings came to.
struct Explored {
    states: usize,
    steps: u64,
    fault: Option<(String, Vec<Step>)>,
}

/// Goes through all interleavings, up to the first fault.
fn explore(design: Design, script: &'static [Write]) -> Explored {
    let start = World::new(script);
    let mut seen: HashSet<World> = HashSet::from([start.clone()]);
    let mut open: Vec<(World, Vec<Step>)> = vec![(start, Vec::new())];
    let mut steps = 0;
    while let Some((world, path)) = open.pop() {
        for step in STEPS {
            let mut next = world.clone();
            if !next.step(step, design) {
                continue;
            }
            steps += 1;
            let path: Vec<Step> = path.iter().copied().chain([step]).collect();
            if let Some(fault) = next.fault() {
                return Explored { states: seen.len(), steps, fault: Some((fault, path)) };
            }
            if seen.insert(next.clone()) {
                open.push((next, path));
            }
        }
    }
    Explored { states: seen.len(), steps, fault: None }
}

/// Runs the gate. Its long form is its short one: nothing is left out.
pub fn gate(_: &Config) -> Outcome {
    let (mut states, mut steps) = (0, 0);
    for script in [WRITES, DELETES] {
        let ours = explore(Design::Maps, script);
        if let Some((fault, path)) = ours.fault {
            return Err(format!("{fault}, after {path:?}"));
        }
        states += ours.states;
        steps += ours.steps;
    }
    let mut found = Vec::new();
    for (design, script, expected) in FAULTY {
        match explore(design, script).fault {
            Some((fault, path)) if fault.contains(expected) => {
                found.push(format!("{design:?}, {fault}, after {} steps", path.len()));
            }
            other => {
                return Err(format!(
                    "{design:?} should come to {expected:?} and came to {other:?}"
                ));
            }
        }
    }
    Ok(format!("{states} states, {steps} steps; planted and found: {}", found.join("; ")))
}
