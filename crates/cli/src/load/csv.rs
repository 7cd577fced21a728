//! Rows of a CSV file: the value is a record with a field for each column, or the row as a JSON
//! object.

use super::rows::{Known, Rows, past_mark};
use super::source::{Record, Source, Step};
use super::text::{self, Counted, Meter};
use super::values::{ColumnType, Values, no_column, types_of};
use crate::failure::{Failure, Result};
use crate::fields::{Type, check_name};
use crate::interrupt::Interrupt;
use crate::output::to_json;
use crate::progress::At;
use csv::{ByteRecord, ErrorKind, Reader, ReaderBuilder};
use esker::fields::{self, FieldValue};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::io::{Chain, Cursor};
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

/// How a file is read.
pub(super) struct Plan<'a> {
    pub(super) delimiter: u8,
    pub(super) key: Key,
    pub(super) values: Values,
    pub(super) types: &'a [ColumnType],
    pub(super) skip_bad: bool,
}

/// Reads rows.
pub(super) struct Csv {
    reader: Reader<Rows<Chain<Cursor<Vec<u8>>, Counted>>>,
    known: Known,
    meter: Meter,
    columns: Vec<String>,
    /// Of the columns; `None` makes JSON.
    types: Option<Vec<Type>>,
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
    /// The file cannot be read; there is no column for the key or a type; a name stands twice, or
    /// no field can have it.
    pub(super) fn open(path: &Path, plan: &Plan<'_>, interrupt: &Interrupt) -> Result<Csv> {
        let (input, meter) = text::open(path, interrupt)?;
        let input = past_mark(input).map_err(|error| Failure::io("read", path, &error))?;
        let (rows, known) = Rows::new(input, plan.delimiter);
        let mut reader = ReaderBuilder::new().delimiter(plan.delimiter).from_reader(rows);
        let head = reader.byte_headers().map_err(|error| explain(&error, &known))?.clone();
        let line = known.next_line().unwrap_or(1);
        let mut columns: Vec<String> = Vec::new();
        for name in &head {
            let fail = |what: &str| Failure::other(format!("line {line}: {what}"));
            let name = String::from_utf8(name.to_vec())
                .map_err(|_| fail("a column's name is not UTF-8: rename it"))?;
            if columns.contains(&name) {
                return Err(fail(&format!("column {name:?} stands twice: rename one")));
            }
            if plan.values == Values::Fields {
                check_name(&name).map_err(|why| {
                    fail(&format!("{why}: rename the column, or use --values json"))
                })?;
            }
            columns.push(name);
        }
        let key_column = match &plan.key {
            Key::RowNumber => None,
            // An empty file has no columns and no rows.
            Key::First => Some(0),
            Key::Named(_) if columns.is_empty() => Some(0),
            Key::Named(name) => {
                let at = columns.iter().position(|column| column == name);
                Some(at.ok_or_else(|| no_column(name, &columns))?)
            }
        };
        let types = match plan.values {
            Values::Fields => Some(types_of(&columns, plan.types)?),
            Values::Json => None,
        };
        let (row, skip_bad) = (ByteRecord::new(), plan.skip_bad);
        let rows = 0;
        Ok(Csv { reader, known, meter, columns, types, key_column, skip_bad, row, rows, line })
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
        record.value = match &self.types {
            Some(types) => self.fields(types, &fields)?,
            None => {
                let row = Row { columns: &self.columns, fields: &fields };
                to_json(&row).map_err(|failure| failure.message)?
            }
        };
        record.check().map_err(|why| format!("{why}: shorten it"))
    }

    /// The row as a record of fields.
    fn fields(&self, types: &[Type], cells: &[&str]) -> Result<Vec<u8>, String> {
        let mut record = fields::Record::new();
        for ((column, &kind), cell) in self.columns.iter().zip(types).zip(cells) {
            let value = match kind {
                Type::Text => FieldValue::from(*cell),
                _ if cell.is_empty() => FieldValue::Null,
                _ => kind.read(cell.as_bytes()).ok_or_else(|| {
                    let shown: String = cell.chars().take(40).collect();
                    format!("column {column:?}: {shown:?} is no {}: mend it", kind.name())
                })?,
            };
            record.set(column.as_str(), value);
        }
        // Names were checked when the file was opened.
        record.encode().map_err(|error| error.to_string())
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
        let whole = match self.reader.read_byte_record(&mut self.row) {
            Ok(false) => return Ok(Step::End),
            Ok(true) => Ok(()),
            Err(error) => match error.kind() {
                ErrorKind::UnequalLengths { expected_len, len, .. } => {
                    Err(format!("{len} columns instead of {expected_len}: mend it"))
                }
                _ => return Err(explain(&error, &self.known)),
            },
        };
        self.rows += 1;
        self.line = self.known.next_line().unwrap_or(self.line);
        match whole.and_then(|()| self.fill(record)) {
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

fn explain(error: &csv::Error, known: &Known) -> Failure {
    let what = known.fault();
    Failure::other(what.unwrap_or_else(|| format!("cannot read the file: {error}")))
}
