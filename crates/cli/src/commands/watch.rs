//! `esker watch`: a tree at work, from the trace that is being written of it.

use crate::bytes::printable;
use crate::clock::Stopwatch;
use crate::failure::{Code, Failure, Result};
use crate::interrupt::Interrupt;
use crate::output::{Output, to_terminal};
use crate::paint::Paint;
use crate::patient;
use crate::view;
use esker::trace::Step;
use esker_lab::{Entry, Live, Reader};
use rustix::event::Timespec;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Time between two drawings.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// As long as is waited for a pipe: what it has not is drawn with the next tick.
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// Has a terminal cut off what does not fit into a line, and go on in the next one again.
const NO_WRAP: &[u8] = b"\x1b[?7l";
const WRAP: &[u8] = b"\x1b[?7h";
/// Time between two lines where there is no terminal.
const LINE_SECONDS: f64 = 1.0;
/// Bytes of a trace that are read at once.
const READ_BYTES: usize = 1 << 20;
/// So much of a trace tells it from any other: its first steps with their times.
const BEGINS_BYTES: usize = 512;

/// Watch a tree at work: levels, whose turn it is, compactions under way, write rate and stops
///
/// Follows a trace while `load`, `compact`, `gc`, or any program with a recorder for its listener,
/// writes it, and ends when the store is closed, or with Ctrl-C. What an older trace holds in the
/// same file goes when the store is open: until then that is what is shown. With --speed a trace is
/// played from its beginning, a real store's or a simulated one's. Draws on a terminal, with
/// colours unless NO_COLOR is set; writes a line a second elsewhere, and the drawing at the end.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:
  esker load --db store --trace load.trace csv:people.csv &
  esker watch load.trace

  esker simulate --size 5GiB --trace simulated.trace
  esker watch simulated.trace --speed 20")]
pub(crate) struct Args {
    /// File with a trace
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Play it from the beginning, so many times as fast as it happened
    #[arg(long, value_name = "TIMES", value_parser = speed)]
    speed: Option<f64>,

    /// Show only the run with this name, such as `keyspace 0`
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

fn speed(text: &str) -> std::result::Result<f64, String> {
    let speed = text.parse().ok().filter(|&speed: &f64| speed.is_finite() && speed > 0.0);
    speed.ok_or_else(|| "write a number above 0, such as 10 or 0.5".to_owned())
}

/// Shows it.
pub(crate) fn run(args: &Args) -> Result<()> {
    let interrupt = Interrupt::watch()?;
    let mut source = Source::open(&args.file)?;
    let mut runs = Runs { only: args.only.clone(), ..Runs::default() };
    let mut screen = Screen::new();
    runs.read(&mut source)?;
    let watch = Stopwatch::start();
    if args.speed.is_none() {
        runs.play(u64::MAX);
    }
    // When the newest step came.
    let mut news = (0, watch.seconds());
    while !interrupt.asked() {
        let seconds = watch.seconds();
        runs.read(&mut source)?;
        let now_us = match args.speed {
            Some(speed) => {
                let now_us = (seconds * speed * 1e6) as u64;
                runs.play(now_us);
                now_us
            }
            None => {
                runs.play(u64::MAX);
                if runs.at_us() != news.0 {
                    news = (runs.at_us(), seconds);
                }
                news.0 + ((seconds - news.1) * 1e6) as u64
            }
        };
        if runs.ended() {
            break;
        }
        runs.check(&args.file)?;
        screen.show(&runs, now_us, seconds)?;
        interrupt.pause(TICK);
    }
    screen.last(&runs)
}

/// The file of a trace, as far as it was read.
struct Source {
    path: PathBuf,
    file: File,
    /// It has no length, and nothing to go back to.
    is_pipe: bool,
    reader: Reader,
    read: u64,
    /// What it begins with, as far as that was read: a file that was begun anew begins with another
    /// time.
    begins: Vec<u8>,
    /// It was begun anew since somebody asked.
    is_new: bool,
}

impl Source {
    fn open(path: &Path) -> Result<Source> {
        let failed = |error| Failure::io("read", path, &error);
        let file = patient::open(path).map_err(failed)?;
        let is_pipe = !file.metadata().map_err(failed)?.is_file();
        let (path, reader, begins) = (path.to_owned(), Reader::default(), Vec::new());
        Ok(Source { path, file, is_pipe, reader, read: 0, begins, is_new: false })
    }

    /// What was written since the last time. A file that was begun anew is read anew.
    fn more(&mut self) -> Result<Vec<Entry>> {
        let failed = |error| Failure::io("read", &self.path, &error);
        if !self.is_pipe && self.is_another().map_err(failed)? {
            self.file.seek(SeekFrom::Start(0)).map_err(failed)?;
            (self.reader, self.read) = (Reader::default(), 0);
            self.begins.clear();
            self.is_new = true;
        }
        let mut entries = Vec::new();
        let mut piece = vec![0; READ_BYTES];
        loop {
            let is_ready = !self.is_pipe || patient::is_ready(&self.file, NOW).map_err(failed)?;
            let len = if is_ready { self.file.read(&mut piece).map_err(failed)? } else { 0 };
            if len == 0 {
                return Ok(entries);
            }
            self.read += len as u64;
            let begins = len.min(BEGINS_BYTES - self.begins.len());
            self.begins.extend_from_slice(&piece[..begins]);
            let more = self.reader.read(&piece[..len]);
            entries.extend(more.map_err(|what| self.wrong(&what))?);
        }
    }

    /// True if the file was begun anew since it was read, whether it is shorter or not.
    fn is_another(&self) -> io::Result<bool> {
        if self.file.metadata()?.len() < self.read {
            return Ok(true);
        }
        let mut begins = vec![0; self.begins.len()];
        match self.file.read_exact_at(&mut begins, 0) {
            // It was cut off just now.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(true),
            read => read.map(|()| begins != self.begins),
        }
    }

    fn wrong(&self, what: &str) -> Failure {
        let path = self.path.display();
        Failure::new(Code::Corruption, format!("{path}: {what}: name a file written with --trace"))
    }
}

/// One run of the file.
#[derive(Default)]
struct Run {
    name: String,
    live: Live,
    /// Steps that were not played yet.
    coming: VecDeque<Step>,
    /// Nothing will follow them.
    complete: bool,
}

#[derive(Default)]
struct Runs {
    by_number: BTreeMap<u32, Run>,
    only: Option<String>,
}

impl Runs {
    /// Takes what was written since the last time.
    fn read(&mut self, source: &mut Source) -> Result<()> {
        let entries = source.more()?;
        if std::mem::take(&mut source.is_new) {
            // Nothing follows of what stood there before.
            self.by_number.clear();
        }
        self.take(entries).map_err(|what| source.wrong(&what))
    }

    /// Takes what was read; it is played later.
    fn take(&mut self, entries: Vec<Entry>) -> std::result::Result<(), String> {
        for entry in entries {
            let number = match &entry {
                Entry::Run { number, .. } => *number,
                Entry::Step { run, .. } | Entry::Loaded { run, .. } => *run,
            };
            let unknown = || format!("a step of run {number}, which was not begun");
            match entry {
                Entry::Run { name, .. } => {
                    // One that is there already was begun anew.
                    self.by_number.insert(number, Run { name, ..Run::default() });
                }
                Entry::Step { step, .. } => {
                    let run = self.by_number.get_mut(&number).ok_or_else(unknown)?;
                    run.coming.push_back(step);
                }
                Entry::Loaded { .. } => {
                    self.by_number.get_mut(&number).ok_or_else(unknown)?.complete = true;
                }
            }
        }
        Ok(())
    }

    /// Fails if there is something, but not what is to be shown, and nothing more comes.
    fn check(&self, file: &Path) -> Result<()> {
        let may_come =
            self.by_number.is_empty() || self.by_number.values().any(|run| !run.complete);
        if may_come || self.shown().next().is_some() {
            return Ok(());
        }
        let names: Vec<&str> = self.by_number.values().map(|run| run.name.as_str()).collect();
        let (file, names) = (file.display(), printable(names.join(", ").as_bytes()));
        Err(Failure::new(Code::NotFound, format!("{file} has no such run: it has {names}")))
    }

    /// Goes on to a time.
    fn play(&mut self, to_us: u64) {
        for run in self.by_number.values_mut() {
            while let Some(step) = run.coming.pop_front_if(|step| step.at_us <= to_us) {
                run.live.add(step);
            }
            if run.complete && run.coming.is_empty() {
                run.live.end();
            }
        }
    }

    fn shown(&self) -> impl Iterator<Item = &Run> {
        let only = self.only.as_deref();
        self.by_number.values().filter(move |run| only.is_none_or(|name| run.name == name))
    }

    fn at_us(&self) -> u64 {
        self.shown().map(|run| run.live.at_us()).max().unwrap_or(0)
    }

    /// True if there is something to be shown, and nothing more of it comes.
    fn ended(&self) -> bool {
        self.shown().next().is_some() && self.shown().all(|run| run.live.ended)
    }
}

/// Where it is shown.
struct Screen {
    out: Output,
    paint: Paint,
    is_terminal: bool,
    /// Lines of the last drawing.
    drawn: usize,
    /// When the last line was written, and of what time.
    line: (f64, u64),
}

impl Screen {
    fn new() -> Screen {
        let is_terminal = to_terminal();
        let paint = Paint::for_stdout(is_terminal);
        Screen { out: Output::new(), paint, is_terminal, drawn: 0, line: (0.0, 0) }
    }

    /// Shows the present.
    fn show(&mut self, runs: &Runs, now_us: u64, seconds: f64) -> Result<()> {
        if self.is_terminal {
            // Its size may change at any time.
            let height =
                terminal_size::terminal_size().map_or(usize::MAX, |(_, rows)| rows.0.into());
            let mut lines = picture(runs, now_us, &self.paint);
            // What has left the screen above could not be drawn over.
            lines.truncate(height.saturating_sub(1));
            return self.draw(&lines);
        }
        if seconds - self.line.0 >= LINE_SECONDS && runs.at_us() != self.line.1 {
            self.line = (seconds, runs.at_us());
            for run in runs.shown() {
                self.out.line(&view::line(&run.name, &run.live))?;
            }
            self.out.flush()?;
        }
        Ok(())
    }

    /// Shows how it ended.
    fn last(mut self, runs: &Runs) -> Result<()> {
        let lines = picture(runs, runs.at_us(), &self.paint);
        self.draw(&lines)?;
        self.out.finish()
    }

    /// Draws over the last drawing.
    fn draw(&mut self, lines: &[String]) -> Result<()> {
        if self.is_terminal {
            // What does not fit is cut off: of what goes on in another line too much would be left.
            self.out.raw(NO_WRAP)?;
        }
        if self.drawn > 0 {
            self.out.raw(format!("\x1b[{}A", self.drawn).as_bytes())?;
        }
        for line in lines {
            self.out.raw(line.as_bytes())?;
            // Nothing is left of what stood there.
            self.out.line(if self.is_terminal { "\x1b[K" } else { "" })?;
        }
        if self.is_terminal {
            self.out.raw(b"\x1b[J")?;
            self.out.raw(WRAP)?;
        }
        self.drawn = if self.is_terminal { lines.len() } else { 0 };
        self.out.flush()
    }
}

fn picture(runs: &Runs, now_us: u64, paint: &Paint) -> Vec<String> {
    let mut lines = Vec::new();
    for run in runs.shown() {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        // What is over stands still.
        let now_us = if run.live.ended { run.live.at_us() } else { now_us };
        lines.extend(view::draw(&run.name, &run.live, now_us, paint));
    }
    if lines.is_empty() {
        lines.push("nothing yet: no memtable was flushed, nothing was compacted".to_owned());
    }
    lines
}
