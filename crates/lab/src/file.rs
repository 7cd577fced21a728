//! Traces in files: JSON, a line for each step, written as it happens and readable whenever it ends.
//!
//! ```text
//! {"run":{"number":0,"name":"default","about":{}}}
//! {"step":{"run":0,"step":{...}}}
//! {"loaded":{"run":0,"at_us":1000000}}
//! ```

use esker::event::{Event, EventListener};
use esker::trace::{Step, Trace};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A line of a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Line {
    /// Begins a trace.
    Run { number: u32, name: String, about: BTreeMap<String, String> },
    /// Goes on with one.
    Step { run: u32, step: Step },
    /// When its load was written. Without it, that is when the last step ended.
    Loaded { run: u32, at_us: u64 },
}

fn write_line(out: &mut impl Write, line: &Line) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
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
        write_line(&mut out, &Line::Run { number: run, name, about })?;
        for step in &trace.steps {
            write_line(&mut out, &Line::Step { run, step: step.clone() })?;
        }
        write_line(&mut out, &Line::Loaded { run, at_us: trace.loaded_us })?;
    }
    out.flush()
}

/// The traces that stand in the text of a file, with their names. What a process that was killed has left of its last
/// line is passed over.
///
/// # Errors
/// Which line is none of a trace, or that there is no trace.
pub fn parse(text: &str) -> Result<Vec<(String, Trace)>, String> {
    let mut traces: BTreeMap<u32, (String, Trace)> = BTreeMap::new();
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let parsed = serde_json::from_str::<Line>(line);
        if parsed.is_err() && !line.ends_with('\n') {
            break;
        }
        let wrong = |what: &str| format!("line {}: {what}", number + 1);
        let line = parsed.map_err(|error| wrong(&format!("no step of a trace: {error}")))?;
        let unknown = || wrong("a step of a run that was not begun");
        match line {
            Line::Run { number, name, about } => {
                traces.insert(number, (name, Trace { about, ..Trace::default() }));
            }
            Line::Step { run, step } => {
                traces.get_mut(&run).ok_or_else(unknown)?.1.steps.push(step);
            }
            Line::Loaded { run, at_us } => {
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
            trace.loaded_us = trace.steps.last().map_or(0, |step| step.at_us);
        }
    }
    Ok(traces)
}

/// Writes down what happens to the trees of a store: to be given to it as its listener. Each keyspace is a run of
/// its own.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    out: BufWriter<File>,
    begun: BTreeSet<u32>,
    failed: Option<io::Error>,
}

impl Recorder {
    /// Into a new file, or in the place of an old one.
    ///
    /// # Errors
    /// Of the file system.
    pub fn create(path: &Path) -> io::Result<Recorder> {
        let out = BufWriter::new(File::create(path)?);
        let state = Mutex::new(State { out, begun: BTreeSet::new(), failed: None });
        Ok(Recorder { path: path.to_owned(), state })
    }

    /// The first failure to write, which ended the trace.
    pub fn failure(&self) -> Option<String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failed.as_ref().map(|error| format!("{}: {error}", self.path.display()))
    }
}

impl State {
    fn write(&mut self, run: u32, step: &Step) -> io::Result<()> {
        if self.begun.insert(run) {
            let name = format!("keyspace {run}");
            let about = BTreeMap::new();
            write_line(&mut self.out, &Line::Run { number: run, name, about })?;
        }
        write_line(&mut self.out, &Line::Step { run, step: step.clone() })?;
        // What is written is there when the process dies.
        self.out.flush()
    }
}

impl EventListener for Recorder {
    fn on_event(&self, event: &Event) {
        let Event::Step { keyspace, step } = event else { return };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.failed.is_none()
            && let Err(error) = state.write(keyspace.0, step)
        {
            state.failed = Some(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::trace::{Amount, Shape, What};
    use std::{fs, process};

    fn step(at_us: u64) -> Step {
        let shape = Shape { runs: 1, tables: 2, bytes: 3 };
        let what = What::Flushed { written: Amount { tables: 2, bytes: 3 }, duration_us: 7 };
        Step { at_us, what, user_bytes: 5, turn: Some(1), levels: vec![shape; 2] }
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
        let text = fs::read_to_string(&path).expect("text");
        fs::remove_file(&path).expect("removed");
        assert_eq!(parse(&text).expect("traces"), traces);

        let torn = parse(&text[..text.len() - 9]).expect("the last line is passed over");
        assert_eq!(torn[1].1.loaded_us, 4, "of its last step");

        let damaged = text.replacen("\"at_us\":10", "\"at_us\":-10", 1);
        let error = parse(&damaged).expect_err("damaged");
        assert!(error.contains("line 3"), "{error}");
        let damaged = text.replacen("\"number\":1", "\"number\":2", 1);
        let error = parse(&damaged).expect_err("no such run");
        assert!(error.contains("not begun"), "{error}");
        assert!(parse("").expect_err("empty").contains("no trace"));
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
        let text = fs::read_to_string(&path).expect("read, while it is open");
        let traces = parse(&text).expect("traces");
        assert_eq!(recorder.failure(), None);
        let seen: Vec<(&str, usize, u64)> =
            traces.iter().map(|(name, t)| (name.as_str(), t.steps.len(), t.loaded_us)).collect();
        assert_eq!(seen, [("keyspace 0", 2, 5), ("keyspace 3", 1, 2)]);
        fs::remove_file(&path).expect("removed");
    }
}
