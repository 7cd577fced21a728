//! Traces in files: JSON, a line for each step, written as it happens and readable whenever it
//! ends.
//!
//! ```text
//! {"run":{"number":0,"name":"default","about":{}}}
//! {"step":{"run":0,"step":{...}}}
//! {"loaded":{"run":0,"at_us":1000000}}
//! ```
//!
//! Numbers of runs need not be in order, and runs may alternate.

use esker::event::{Event, EventListener};
use esker::trace::{Step, Trace, What};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Trees have no more levels.
const LEVELS_MAX: usize = 7;

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Entry {
    /// Begins a trace.
    Run {
        /// Its number, by which the others name it.
        number: u32,
        /// What it is of.
        name: String,
        /// See [`Trace::about`].
        about: BTreeMap<String, String>,
    },
    /// Goes on with one.
    Step {
        /// Its number.
        run: u32,
        /// What happened.
        step: Step,
    },
    /// When its load was written; nothing follows. Without it, that is when the last step ended.
    Loaded {
        /// Its number.
        run: u32,
        /// See [`Trace::loaded_us`].
        at_us: u64,
    },
}

/// Reads a file piece by piece, perhaps while it is being written.
#[derive(Debug, Default)]
pub struct Reader {
    /// What was begun of the next line.
    rest: Vec<u8>,
    lines: usize,
}

impl Reader {
    /// The entries of the lines that end in `bytes`, which come after those given before.
    ///
    /// # Errors
    /// Which line is none of a trace.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Vec<Entry>, String> {
        let mut entries = Vec::new();
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.rest.extend_from_slice(line);
            if line.ends_with(b"\n") {
                self.lines += 1;
                let entry = self.rest_as_entry();
                entries.push(entry.map_err(|error| format!("line {}: {error}", self.lines))?);
                self.rest.clear();
            }
        }
        // What cannot become a line of one is not waited for.
        match self.rest.first() {
            None | Some(b'{') => Ok(entries),
            Some(_) => Err(format!("line {}: no step of a trace", self.lines + 1)),
        }
    }

    fn rest_as_entry(&self) -> Result<Entry, String> {
        let entry = serde_json::from_slice(&self.rest);
        let entry = entry.map_err(|error| format!("no step of a trace: {error}"))?;
        match &entry {
            Entry::Step { step, .. } if depth(step) > LEVELS_MAX => {
                Err(format!("no step of a trace: a tree has at most {LEVELS_MAX} levels"))
            }
            _ => Ok(entry),
        }
    }
}

/// How many levels a step speaks of.
fn depth(step: &Step) -> usize {
    let deepest = match step.what {
        What::Compacted { level, output_level, .. } | What::Moved { level, output_level, .. } => {
            level.max(output_level)
        }
        What::Flushed { .. } | What::Started | What::Stopped { .. } => 0,
    };
    let running = step.running.iter().map(|job| job.level.max(job.output_level));
    let deepest = running.chain(step.turn).fold(deepest, usize::max);
    step.levels.len().max(deepest.saturating_add(1))
}

/// What the run of a keyspace is called.
fn name_of(run: u32) -> String {
    format!("keyspace {run}")
}

fn write_entry(out: &mut impl Write, entry: &Entry) -> io::Result<()> {
    serde_json::to_writer(&mut *out, entry)?;
    out.write_all(b"\n")
}

/// Writes traces into a file.
///
/// # Errors
/// Of the file system.
pub fn write(path: &Path, traces: &[(String, Trace)]) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    for (run, (name, trace)) in (0..).zip(traces) {
        let (name, about) = (name.clone(), trace.about.clone());
        write_entry(&mut out, &Entry::Run { number: run, name, about })?;
        for step in &trace.steps {
            write_entry(&mut out, &Entry::Step { run, step: step.clone() })?;
        }
        write_entry(&mut out, &Entry::Loaded { run, at_us: trace.loaded_us })?;
    }
    out.flush()
}

/// The traces that stand in the text of a file, with their names. What a process that was killed
/// has left of its last line is passed over.
///
/// # Errors
/// Which line is none of a trace, or that there is no trace.
pub fn parse(text: &[u8]) -> Result<Vec<(String, Trace)>, String> {
    let mut reader = Reader::default();
    let mut entries = reader.read(text)?;
    // A whole line, but for its end.
    entries.extend(reader.rest_as_entry());
    let mut traces: BTreeMap<u32, (String, Trace)> = BTreeMap::new();
    for (at, entry) in entries.into_iter().enumerate() {
        let unknown = || format!("line {}: a step of a run that was not begun", at + 1);
        match entry {
            Entry::Run { number, name, about } => {
                traces.insert(number, (name, Trace { about, ..Trace::default() }));
            }
            Entry::Step { run, step } => {
                traces.get_mut(&run).ok_or_else(unknown)?.1.steps.push(step);
            }
            Entry::Loaded { run, at_us } => {
                traces.get_mut(&run).ok_or_else(unknown)?.1.loaded_us = at_us;
            }
        }
    }
    if traces.is_empty() {
        return Err("there is no trace in it".to_owned());
    }
    let mut traces: Vec<(String, Trace)> = traces.into_values().collect();
    for (_, trace) in &mut traces {
        if trace.loaded_us == 0 {
            trace.loaded_us = trace.steps.iter().map(|step| step.at_us).max().unwrap_or(0);
        }
    }
    Ok(traces)
}

/// Writes down what happens to the trees of a store: to be given to it as its listener. Each
/// keyspace is a run of its own.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    out: BufWriter<File>,
    /// Nothing of what the file held before is left.
    is_empty: bool,
    /// When the last step of each run was over, of those that were written: several threads tell of
    /// theirs, not always in order.
    begun: BTreeMap<u32, u64>,
    failed: Option<io::Error>,
    ended: bool,
}

impl Recorder {
    /// Into a new file, or in the place of what an old one holds, which goes with the first step,
    /// or when it is said that the store is open ([`Recorder::begin`]): until then another process
    /// may be writing there.
    ///
    /// # Errors
    /// Of the file system.
    pub fn create(path: &Path) -> io::Result<Recorder> {
        let file = File::options().write(true).create(true).truncate(false).open(path)?;
        let out = BufWriter::new(file);
        let state =
            State { out, is_empty: false, begun: BTreeMap::new(), failed: None, ended: false };
        Ok(Recorder { path: path.to_owned(), state: Mutex::new(state) })
    }

    /// The store is open: what the file held before goes.
    ///
    /// # Errors
    /// Of the file system.
    pub fn begin(&self) -> io::Result<()> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).empty()
    }

    /// The store is closed: says so to those who read along, once. Nothing follows; [`Drop`] does
    /// it too.
    pub fn end(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).end();
    }

    /// The first failure to write, which ended the trace.
    pub fn failure(&self) -> Option<String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failed.as_ref().map(|error| format!("{}: {error}", self.path.display()))
    }
}

impl State {
    fn empty(&mut self) -> io::Result<()> {
        let file = self.out.get_ref();
        // Pipes and terminals hold nothing.
        if !self.is_empty && file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        self.is_empty = true;
        Ok(())
    }

    fn write(&mut self, run: u32, step: &Step) -> io::Result<()> {
        self.empty()?;
        let before = self.begun.get(&run).copied();
        self.begun.insert(run, before.unwrap_or(0).max(step.at_us));
        if before.is_none() {
            let (name, about) = (name_of(run), BTreeMap::new());
            write_entry(&mut self.out, &Entry::Run { number: run, name, about })?;
        }
        write_entry(&mut self.out, &Entry::Step { run, step: step.clone() })?;
        // What is written is there when the process dies.
        self.out.flush()
    }

    fn end(&mut self) {
        let had_ended = std::mem::replace(&mut self.ended, true);
        if !had_ended && self.failed.is_none() {
            // A store that was opened and had nothing to do has a trace too.
            if self.is_empty && self.begun.is_empty() {
                let entry = Entry::Run { number: 0, name: name_of(0), about: BTreeMap::new() };
                let _ = write_entry(&mut self.out, &entry);
                self.begun.insert(0, 0);
            }
            for (&run, &at_us) in &self.begun {
                // Without it the traces are as complete.
                let _ = write_entry(&mut self.out, &Entry::Loaded { run, at_us });
            }
            let _ = self.out.flush();
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner).end();
    }
}

impl EventListener for Recorder {
    fn on_event(&self, event: &Event) {
        let Event::Step { keyspace, step } = event else { return };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.failed.is_none()
            && !state.ended
            && let Err(error) = state.write(keyspace.0, step)
        {
            state.failed = Some(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::trace::{Amount, Running, Shape, What};
    use std::{fs, process};

    fn step(at_us: u64) -> Step {
        let shape = Shape { runs: 1, tables: 2, bytes: 3, ..Shape::default() };
        let what = What::Flushed { written: Amount { tables: 2, bytes: 3 }, duration_us: 7 };
        let input = Amount { tables: 4, bytes: 6 };
        let running = vec![Running { level: 0, output_level: 1, input, since_us: 1 }];
        let levels = vec![shape; 2];
        let (turn, slowed_to) = (Some(1), Some(9));
        Step { at_us, what, user_bytes: 5, memtable_bytes: 8, slowed_to, turn, levels, running }
    }

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("esker-lab-{name}-{}", process::id()))
    }

    #[test]
    fn what_is_written_is_read() {
        let path = path("round");
        let about = BTreeMap::from([("machine".to_owned(), "disk".to_owned())]);
        let first = Trace { about, loaded_us: 9, steps: vec![step(1), step(10)] };
        let second = Trace { loaded_us: 4, steps: vec![step(4)], ..Trace::default() };
        let traces = [("one".to_owned(), first), ("two".to_owned(), second)];
        write(&path, &traces).expect("written");
        let text = fs::read(&path).expect("text");
        fs::remove_file(&path).expect("removed");
        assert_eq!(parse(&text).expect("traces"), traces);

        let torn = parse(&text[..text.len() - 9]).expect("the last line is passed over");
        assert_eq!(torn[1].1.loaded_us, 4, "of its last step");

        // Threads tell of their steps one behind the other, not always in order.
        let late = Trace { steps: vec![step(5), step(4)], ..Trace::default() };
        write(&path, &[("late".to_owned(), late)]).expect("written");
        let late = fs::read(&path).expect("text");
        fs::remove_file(&path).expect("removed");
        assert_eq!(parse(&late).expect("a trace")[0].1.loaded_us, 5);

        let text = String::from_utf8(text).expect("JSON");
        let damaged = text.replacen("\"at_us\":10", "\"at_us\":-10", 1);
        let error = parse(damaged.as_bytes()).expect_err("damaged");
        assert!(error.contains("line 3"), "{error}");
        let damaged = text.replacen("\"number\":1", "\"number\":2", 1);
        let error = parse(damaged.as_bytes()).expect_err("no such run");
        assert!(error.contains("not begun"), "{error}");
        for deep in ["7", "18446744073709551615"] {
            let damaged = text.replacen("\"level\":0", &format!("\"level\":{deep}"), 1);
            let error = parse(damaged.as_bytes()).expect_err("no tree is so deep");
            assert!(error.contains("at most 7 levels"), "{error}");
        }
        assert!(parse(b"").expect_err("empty").contains("no trace"));
    }

    #[test]
    fn a_file_may_come_in_pieces() {
        let mut text = Vec::new();
        let run = Entry::Run { number: 7, name: "seven".to_owned(), about: BTreeMap::new() };
        let entries =
            [run, Entry::Step { run: 7, step: step(3) }, Entry::Loaded { run: 7, at_us: 3 }];
        entries.iter().for_each(|entry| write_entry(&mut text, entry).expect("written"));
        for piece in [1, 7, 100, text.len()] {
            let mut reader = Reader::default();
            let read = |piece| reader.read(piece).expect("whole lines");
            let seen: Vec<Entry> = text.chunks(piece).flat_map(read).collect();
            assert_eq!(seen, entries, "pieces of {piece}");
        }
        let mut reader = Reader::default();
        assert_eq!(reader.read(&text[..text.len() - 1]).expect("two lines").len(), 2);
        let error = reader.read(b"?\n").expect_err("not JSON any more");
        assert!(error.starts_with("line 3: "), "{error}");
        let error = Reader::default().read(b"CURRENT").expect_err("no line of a trace");
        assert_eq!(error, "line 1: no step of a trace");
    }

    #[test]
    fn a_recorder_writes_what_a_store_tells() {
        use esker::base::KeyspaceId;
        let path = path("recorder");
        let recorder = Recorder::create(&path).expect("created");
        for (keyspace, at_us) in [(0, 1), (3, 2), (0, 5)] {
            let keyspace = KeyspaceId(keyspace);
            recorder.on_event(&Event::Step { keyspace, step: step(at_us) });
        }
        let text = fs::read(&path).expect("read, while it is open");
        let traces = parse(&text).expect("traces");
        assert_eq!(recorder.failure(), None);
        let seen: Vec<(&str, usize, u64)> =
            traces.iter().map(|(name, t)| (name.as_str(), t.steps.len(), t.loaded_us)).collect();
        assert_eq!(seen, [("keyspace 0", 2, 5), ("keyspace 3", 1, 2)]);
        recorder.end();
        recorder.on_event(&Event::Step { keyspace: KeyspaceId(0), step: step(6) });
        drop(recorder);
        let closed = fs::read(&path).expect("read, when it is closed");
        let ends = Reader::default().read(&closed[text.len()..]).expect("lines");
        let end = |run, at_us| Entry::Loaded { run, at_us };
        assert_eq!(ends, [end(0, 5), end(3, 2)]);
        assert_eq!(parse(&closed).expect("traces"), traces);
        // Another recorder, whose store does not open; then one whose does, and nothing happens to
        // it.
        drop(Recorder::create(&path).expect("created"));
        assert_eq!(fs::read(&path).expect("read"), closed);
        Recorder::create(&path).expect("created").begin().expect("emptied");
        let nothing = parse(&fs::read(&path).expect("read")).expect("traces");
        assert_eq!(nothing, [("keyspace 0".to_owned(), Trace::default())]);
        fs::remove_file(&path).expect("removed");
    }
}
