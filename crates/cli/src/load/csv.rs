//! Rows of a CSV file: the value is the row as a JSON object, in the order of the columns.

use super::source::{Record, Source, Step};
use super::text::{self, Counted, Meter};
use crate::failure::{Code, Failure, Result};
use crate::interrupt::Interrupt;
use crate::output::to_json;
use crate::progress::At;
use csv::{ByteRecord, ErrorKind, Position, Reader, ReaderBuilder};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::path::Path;

/// Which column is the key.
#[derive(Clone, Debug)]
pub(super) enum Key {
    First,
    Named(String),
    RowNumber,
}

impl Key {
    /// From `--key` and `--row-numbers`.
    pub(super) fn new(named: Option<&str>, row_numbers: bool) -> Key {
        match named {
            _ if row_numbers => Key::RowNumber,
            Some(name) => Key::Named(name.to_owned()),
            None => Key::First,
        }
    }
}

/// Reads rows.
pub(super) struct Csv {
    reader: Reader<Counted>,
    meter: Meter,
    columns: Vec<String>,
    /// `None` is the row number.
    key_column: Option<usize>,
    skip_bad: bool,
    row: ByteRecord,
    rows: u64,
    /// Line on which the row begins.
    line: u64,
}

/// A row under its columns.
struct Row<'a> {
    columns: &'a [String],
    fields: &'a [&'a str],
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.columns.len()))?;
        for (column, field) in self.columns.iter().zip(self.fields) {
            map.serialize_entry(column, field)?;
        }
        map.end()
    }
}

impl Csv {
    /// Opens a file and reads its first line, the names of the columns.
    ///
    /// # Errors
    /// The file cannot be read; there is no column for the key; a name stands twice.
    pub(super) fn open(
        path: &Path,
        delimiter: u8,
        key: Key,
        skip_bad: bool,
        interrupt: &Interrupt,
    ) -> Result<Csv> {
        let (input, meter) = text::open(path, interrupt)?;
        let mut reader = ReaderBuilder::new().delimiter(delimiter).from_reader(input);
        let head = reader.byte_headers().map_err(|error| explain(&error))?.clone();
        let mut columns: Vec<String> = Vec::new();
        for name in &head {
            let name = String::from_utf8(name.to_vec())
                .map_err(|_| Failure::other("line 1: a column's name is not UTF-8: rename it"))?;
            if columns.contains(&name) {
                let what = format!("line 1: column {name:?} stands twice: rename one");
                return Err(Failure::other(what));
            }
            columns.push(name);
        }
        let key_column = match key {
            Key::RowNumber => None,
            // An empty file has no columns and no rows.
            Key::First => Some(0),
            Key::Named(_) if columns.is_empty() => Some(0),
            Key::Named(name) => Some(columns.iter().position(|c| *c == name).ok_or_else(|| {
                Failure::new(
                    Code::Usage,
                    format!("no column {name:?}: there are {}", columns.join(", ")),
                )
            })?),
        };
        let row = ByteRecord::new();
        Ok(Csv { reader, meter, columns, key_column, skip_bad, row, rows: 0, line: 1 })
    }

    /// Fills a record from the row; `Err` says what is wrong with the row.
    fn fill(&self, record: &mut Record) -> Result<(), String> {
        let mut fields = Vec::with_capacity(self.columns.len());
        for (column, field) in self.columns.iter().zip(&self.row) {
            let field = std::str::from_utf8(field)
                .map_err(|_| format!("column {column:?} is not UTF-8: convert the file"))?;
            fields.push(field);
        }
        record.key = match self.key_column {
            None => text::row_key(self.rows),
            Some(column) => fields.get(column).map_or_else(Vec::new, |f| f.as_bytes().to_vec()),
        };
        let row = Row { columns: &self.columns, fields: &fields };
        record.value = to_json(&row).map_err(|failure| failure.message)?;
        record.check().map_err(|why| format!("{why}: shorten it"))
    }

    fn bad(&self, why: &str) -> Result<Step> {
        let what = format!("line {}: {why}", self.line);
        if self.skip_bad {
            return Ok(Step::Skipped(what));
        }
        Err(Failure::other(format!("{what}, or use --skip-bad")))
    }
}

impl Source for Csv {
    fn next(&mut self, record: &mut Record) -> Result<Step> {
        match self.reader.read_byte_record(&mut self.row) {
            Ok(false) => return Ok(Step::End),
            Ok(true) => {}
            Err(error) => {
                let ErrorKind::UnequalLengths { pos, expected_len, len } = error.kind() else {
                    return Err(explain(&error));
                };
                self.rows += 1;
                self.line = pos.as_ref().map_or(self.line, Position::line);
                return self.bad(&format!("{len} columns instead of {expected_len}: mend it"));
            }
        }
        self.rows += 1;
        self.line = self.row.position().map_or(self.line, Position::line);
        match self.fill(record) {
            Ok(()) => Ok(Step::Record),
            Err(why) => self.bad(&why),
        }
    }

    fn place(&self) -> String {
        format!("line {}", self.line)
    }

    fn at(&self, records: u64) -> At {
        self.meter.at(records)
    }
}

fn explain(error: &csv::Error) -> Failure {
    Failure::other(format!("cannot read the file: {error}"))
}
