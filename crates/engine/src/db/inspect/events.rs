//! The events of a dump, as data and as text. Keys and values are escaped as in Rust byte strings.

use serde::Serialize;
use std::fmt;

/// What CURRENT says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CurrentDump {
    /// The file as it is, escaped.
    pub text: String,
    /// True if it says what it should and its checksum holds.
    pub sound: bool,
    /// Number of the manifest it names.
    pub manifest: Option<u64>,
    /// Salt of that manifest.
    pub salt: Option<u64>,
    /// Length up to which that manifest is durable.
    pub durable_bytes: Option<u64>,
}

/// What a record does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DumpedKind {
    /// Sets a key.
    Put,
    /// Sets a key to a value that stands elsewhere.
    PutPointer,
    /// Removes a key.
    Delete,
    /// Removes a range.
    DeleteRange,
    /// No kind that this version writes.
    Other(u8),
}

/// An operation of a batch, or a record of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DumpedOp {
    /// Its sequence number.
    pub seq: u64,
    /// Id of its keyspace; `None` in tables, which belong to one.
    pub keyspace: Option<u32>,
    /// What it does.
    pub kind: DumpedKind,
    /// The key, or the start of a range, escaped.
    pub key: String,
    /// The beginning of the value, or the end of the range, escaped.
    pub value: String,
    /// Length of the value.
    pub value_bytes: u64,
}

/// Something that stands in a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LogEvent {
    /// The file header.
    Header {
        /// "write-ahead log", "manifest" or "values".
        kind: &'static str,
        /// Number of the file.
        number: u64,
        /// What its records are bound to.
        salt: u64,
        /// Records of earlier logs from here on are void.
        first_seq: u64,
    },
    /// The header cannot be read.
    HeaderDamage {
        /// What is wrong with it.
        what: &'static str,
    },
    /// A batch.
    Batch {
        /// Where its record stands.
        offset_bytes: u64,
        /// Length of the batch.
        bytes: u64,
        /// Sequence number of its first operation.
        first_seq: u64,
        /// Its operations.
        ops: Vec<DumpedOp>,
    },
    /// A value, to which a batch or a table points.
    Value {
        /// Where its record stands.
        offset_bytes: u64,
        /// How it is compressed.
        codec: &'static str,
        /// Its length as it is stored.
        stored_bytes: u64,
    },
    /// Where the values of a file stood before they were moved.
    Directory {
        /// Where its record stands.
        offset_bytes: u64,
        /// Values that were moved.
        values: u64,
        /// The logs that they were written to.
        logs: Vec<u64>,
    },
    /// A version edit.
    Edit {
        /// Where its record stands.
        offset_bytes: u64,
        /// Length of the edit.
        bytes: u64,
        /// Its changes, in words.
        changes: Vec<String>,
    },
    /// Everything before `durable_bytes` was synced when this was written.
    Mark {
        /// Where it stands.
        offset_bytes: u64,
        /// What it vouches for.
        durable_bytes: u64,
    },
    /// A record whose checksum holds but whose content does not decode.
    Malformed {
        /// Where it stands.
        offset_bytes: u64,
        /// Length of its payload.
        bytes: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Bytes that hold no readable record, with readable ones behind them.
    Damage {
        /// Where they begin.
        offset_bytes: u64,
        /// How many there are.
        bytes: u64,
    },
    /// Bytes at the end that hold no readable record. No mark says that they were ever durable.
    TornTail {
        /// Where they begin.
        offset_bytes: u64,
        /// How many there are.
        bytes: u64,
    },
    /// The end.
    End {
        /// Records that were readable, marks not counted.
        records: u64,
        /// The furthest offset that a mark vouches for.
        durable_bytes: u64,
    },
}

/// Something that stands in a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TableEvent {
    /// The file.
    File {
        /// Its length.
        file_bytes: u64,
        /// What its checksums are bound to, if the footer can be read or the caller knows.
        salt: Option<u64>,
    },
    /// What the table says about itself: name and value of each property.
    Properties {
        /// In the order of their tags.
        pairs: Vec<(&'static str, String)>,
    },
    /// A partition.
    Partition {
        /// Counted from 0.
        partition: u64,
        /// Where its index stands.
        index_offset_bytes: u64,
        /// Stored bytes of its index.
        index_bytes: u64,
        /// Stored bytes of its filter; 0 if there is none.
        filter_bytes: u64,
        /// No record of it comes after this key.
        separator: String,
    },
    /// An entry of a partition's index.
    IndexEntry {
        /// Where the data block stands that it leads to.
        offset_bytes: u64,
        /// Stored bytes of that block.
        stored_bytes: u64,
        /// No record of it comes after this key.
        separator: String,
    },
    /// A data block.
    Block {
        /// Where it stands.
        offset_bytes: u64,
        /// Bytes as stored, without the envelope.
        stored_bytes: u64,
        /// Bytes uncompressed.
        raw_bytes: u64,
        /// How it is compressed; empty if that is not known.
        compression: &'static str,
        /// Records in it.
        records: u64,
        /// Its first key.
        first_key: String,
    },
    /// A record; only if asked for.
    Record(DumpedOp),
    /// A range tombstone.
    RangeTombstone {
        /// When the range was deleted.
        seq: u64,
        /// First key covered.
        start: String,
        /// First key not covered any more.
        end: String,
    },
    /// Bytes that cannot be read.
    Damage {
        /// Where they begin.
        offset_bytes: u64,
        /// How many there are; 0 if that is not known.
        bytes: u64,
        /// What is wrong.
        what: String,
    },
}

impl fmt::Display for CurrentDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.manifest, self.salt, self.durable_bytes) {
            (Some(manifest), Some(salt), Some(durable)) => {
                write!(f, "manifest {manifest}, salt {salt:016x}, durable up to {durable}")
            }
            _ => write!(f, "DAMAGED: \"{}\"", self.text),
        }
    }
}

impl fmt::Display for DumpedOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.seq)?;
        if let Some(keyspace) = self.keyspace {
            write!(f, " in {keyspace}")?;
        }
        let DumpedOp { key, value, value_bytes, .. } = self;
        match self.kind {
            DumpedKind::Put => write!(f, " put \"{key}\" = \"{value}\" ({value_bytes} bytes)"),
            DumpedKind::PutPointer => write!(f, " put \"{key}\" = {value}"),
            DumpedKind::Delete => write!(f, " delete \"{key}\""),
            DumpedKind::DeleteRange => write!(f, " delete range \"{key}\" to \"{value}\""),
            DumpedKind::Other(kind) => write!(f, " unknown kind {kind} \"{key}\""),
        }
    }
}

impl fmt::Display for LogEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogEvent::Header { kind, number, salt, first_seq } => {
                write!(f, "{kind} {number}, salt {salt:016x}, first sequence number {first_seq}")
            }
            LogEvent::HeaderDamage { what } => write!(f, "DAMAGED header: {what}"),
            LogEvent::Batch { offset_bytes, bytes, first_seq, ops } => {
                write!(f, "{offset_bytes}: batch at #{first_seq}, {bytes} bytes")?;
                ops.iter().try_for_each(|op| write!(f, "\n    {op}"))
            }
            LogEvent::Value { offset_bytes, codec, stored_bytes } => {
                write!(f, "{offset_bytes}: value, {stored_bytes} bytes, compression {codec}")
            }
            LogEvent::Directory { offset_bytes, values, logs } => {
                let logs: Vec<String> = logs.iter().map(u64::to_string).collect();
                let logs = logs.join(", ");
                write!(f, "{offset_bytes}: directory of {values} values, written to logs {logs}")
            }
            LogEvent::Edit { offset_bytes, bytes, changes } => {
                write!(f, "{offset_bytes}: version edit, {bytes} bytes")?;
                changes.iter().try_for_each(|change| write!(f, "\n    {change}"))
            }
            LogEvent::Mark { offset_bytes, durable_bytes } => {
                write!(f, "{offset_bytes}: synced up to {durable_bytes}")
            }
            LogEvent::Malformed { offset_bytes, bytes, what } => {
                write!(f, "{offset_bytes}: MALFORMED record of {bytes} bytes: {what}")
            }
            LogEvent::Damage { offset_bytes, bytes } => {
                write!(f, "{offset_bytes}: DAMAGED, {bytes} bytes hold no readable record")
            }
            LogEvent::TornTail { offset_bytes, bytes } => {
                write!(f, "{offset_bytes}: torn tail of {bytes} bytes, never known to be durable")
            }
            LogEvent::End { records, durable_bytes } => {
                write!(f, "end: {records} records, durable up to {durable_bytes}")
            }
        }
    }
}

impl fmt::Display for TableEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableEvent::File { file_bytes, salt: Some(salt) } => {
                write!(f, "table of {file_bytes} bytes, salt {salt:016x}")
            }
            TableEvent::File { file_bytes, salt: None } => {
                write!(f, "table of {file_bytes} bytes, salt unknown")
            }
            TableEvent::Properties { pairs } => {
                write!(f, "properties")?;
                pairs.iter().try_for_each(|(name, value)| write!(f, "\n    {name}: {value}"))
            }
            TableEvent::Partition {
                partition,
                index_offset_bytes: at,
                index_bytes,
                filter_bytes,
                separator,
            } => write!(
                f,
                "partition {partition} up to \"{separator}\": index at {at}, {index_bytes} bytes; \
                 filter {filter_bytes} bytes"
            ),
            TableEvent::IndexEntry { offset_bytes, stored_bytes, separator } => {
                write!(f, "  entry up to \"{separator}\": {stored_bytes} bytes at {offset_bytes}")
            }
            TableEvent::Block {
                offset_bytes: at,
                stored_bytes,
                raw_bytes,
                compression,
                records,
                first_key,
            } => write!(
                f,
                "  block at {at}: {stored_bytes} bytes, {raw_bytes} raw, compression {compression}, \
                 {records} records from \"{first_key}\""
            ),
            TableEvent::Record(op) => write!(f, "    {op}"),
            TableEvent::RangeTombstone { seq, start, end } => {
                write!(f, "#{seq} delete range \"{start}\" to \"{end}\"")
            }
            TableEvent::Damage { offset_bytes, bytes, what } => {
                write!(f, "{offset_bytes}: DAMAGED, {bytes} bytes: {what}")
            }
        }
    }
}
