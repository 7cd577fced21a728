//! The shell: reads lines, splits them into words, does what they say.

mod line;
mod words;

use crate::bytes::Encoding;
use crate::commands::{count, find, levels, scan, stats};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::output::{Output, note};
use crate::pair::{JsonPair, Style, show_value};
use crate::store::Store;
use clap::Parser;
use line::{Line, LineCommand};
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};
use serde_json::json;
use std::ffi::OsString;
use std::io::{self, BufRead, IsTerminal, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The longest line from a pipe, in bytes.
const LINE_BYTES_MAX: u64 = 256 << 20;

const PROMPT: &str = "esker> ";

/// What to do after a line.
#[derive(Debug, PartialEq, Eq)]
enum Then {
    GoOn,
    Quit,
}

/// Reads lines from the keyboard or from a pipe until the end.
///
/// # Errors
/// From a pipe, the first failure, with the number of its line.
pub(crate) fn run(
    store: &Store,
    encoding: Encoding,
    json: bool,
    interrupt: &Interrupt,
) -> Result<()> {
    let shell = Shell { store, encoding, json, interrupt };
    if io::stdin().is_terminal() { shell.keyboard() } else { shell.pipe() }
}

struct Shell<'a> {
    store: &'a Store,
    encoding: Encoding,
    json: bool,
    interrupt: &'a Interrupt,
}

impl Shell<'_> {
    fn keyboard(&self) -> Result<()> {
        let config = Config::builder().auto_add_history(true).build();
        let fail = |error: ReadlineError| Failure::other(format!("cannot read the line: {error}"));
        let mut editor = DefaultEditor::with_config(config).map_err(fail)?;
        note("`help` lists the commands, `quit` or Ctrl-D ends");
        self.interrupt.puts_back_terminal();
        loop {
            if self.interrupt.asked() {
                return Err(self.interrupt.ended());
            }
            let line = match editor.readline(PROMPT) {
                Ok(line) => line,
                // Ctrl-C forgets the line.
                Err(ReadlineError::Interrupted) => continue,
                Err(ReadlineError::Eof) => return Ok(()),
                Err(error) => return Err(fail(error)),
            };
            match self.line(line.as_bytes()) {
                Ok(Then::GoOn) => {}
                Ok(Then::Quit) => return Ok(()),
                Err(failure) if self.interrupt.asked() => return Err(failure),
                Err(failure) => note(&failure.message),
            }
        }
    }

    fn pipe(&self) -> Result<()> {
        let mut number = 0;
        let mut line = Vec::new();
        let mut input = io::stdin().lock();
        loop {
            line.clear();
            let read = input.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line);
            let read = read
                .map_err(|error| Failure::other(format!("cannot read standard input: {error}")))?;
            if read == 0 {
                return Ok(());
            }
            number += 1;
            if read as u64 > LINE_BYTES_MAX {
                let what = format!("line {number} is longer than 256 MiB: use `esker put --file`");
                return Err(Failure::other(what));
            }
            match self.line(&line) {
                Ok(Then::GoOn) => {}
                Ok(Then::Quit) => return Ok(()),
                Err(failure) if failure.reader_gone => return Err(failure),
                Err(failure) => return Err(failure.at(format_args!("line {number}"))),
            }
        }
    }

    fn line(&self, text: &[u8]) -> Result<Then> {
        let words = words::split(text)?;
        if words.is_empty() {
            return Ok(Then::GoOn);
        }
        let words = words.into_iter().map(OsString::from_vec);
        let mut out = Output::new();
        let then = match Line::try_parse_from(words) {
            Ok(line) => self.command(&line.command, &mut out)?,
            Err(error) if error.use_stderr() => {
                return Err(Failure::arguments(&error, "`help` lists the commands"));
            }
            // Help was asked for.
            Err(error) => {
                out.line(error.to_string().trim_end())?;
                Then::GoOn
            }
        };
        out.finish()?;
        Ok(then)
    }

    fn command(&self, command: &LineCommand, out: &mut Output) -> Result<Then> {
        let (store, encoding, interrupt) = (self.store, self.encoding, self.interrupt);
        let style = Style { encoding, json: self.json };
        let decode = |typed: &OsString| encoding.decode(typed.as_bytes());
        match command {
            LineCommand::Get { key } => {
                let key = decode(key)?;
                match store.keyspace.get(&key)? {
                    Some(value) if self.json => {
                        out.json(&JsonPair::new(encoding, Some(&key), Some(&value)))?;
                    }
                    Some(value) => out.line(&show_value(encoding, &value))?,
                    // Said, not failed: a shell is for asking.
                    None if self.json => out.line("null")?,
                    None => out.line("(not found)")?,
                }
            }
            LineCommand::Put { key, value } => {
                store.keyspace.put(&decode(key)?, &decode(value)?)?;
            }
            LineCommand::Delete(delete) => match delete.decode(encoding)? {
                line::Doomed::Key(key) => store.keyspace.delete(&key)?,
                line::Doomed::Range(from, to) => store.keyspace.delete_range(&from, &to)?,
            },
            LineCommand::Scan(args) => {
                scan::print(store, args, style, out, interrupt)?;
            }
            LineCommand::Find(args) => {
                find::print(store, args, (style, true), out, interrupt)?;
            }
            LineCommand::Count(range) => {
                let found = count::count(store, range, encoding, interrupt)?;
                match self.json {
                    true => out.json(&json!({ "count": found }))?,
                    false => out.line(&found.to_string())?,
                }
            }
            LineCommand::Stats => stats::print(store, None, self.json, out)?,
            LineCommand::Levels => {
                levels::print(store, Some(store.keyspace.name()), self.json, out)?;
            }
            LineCommand::Flush => store.db.flush()?,
            LineCommand::Sync => store.db.sync()?,
            LineCommand::Help => out.line(line::HELP)?,
            LineCommand::Quit => return Ok(Then::Quit),
        }
        Ok(Then::GoOn)
    }
}
