//! Dumps of write-ahead logs and manifests.

use super::events::{DumpedKind, DumpedOp, LogEvent};
use super::{DumpOptions, shown};
use crate::block::codec_name;
use crate::log::{HEADER_BYTES, LogKind, Piece, Salvager, ValuePointer};
use crate::names::{self, FileKind};
use crate::value_log::{Directory, Place, ValueFileMeta};
use crate::version::{Change, TableMeta, VersionEdit};
use esker_base::{Kind, Result, Vfs, batch};
use std::path::Path;

/// Tells all that is readable of a log, in order; which kind it is, its header says, or else its
/// name.
///
/// # Errors
/// Of the file system only; damage is told as events.
pub fn dump_log(
    vfs: &dyn Vfs,
    path: &Path,
    options: &DumpOptions,
    mut sink: impl FnMut(&LogEvent),
) -> Result<()> {
    let mut log = Salvager::open(vfs, path, options.salt)?;
    let named = path.file_name().and_then(|name| name.to_str()).and_then(names::parse);
    let kind = match log.header() {
        Ok(header) => {
            sink(&LogEvent::Header {
                kind: match header.kind {
                    LogKind::Wal => "write-ahead log",
                    LogKind::Manifest => "manifest",
                    LogKind::Values => "values",
                },
                number: header.number,
                salt: header.salt,
                first_seq: header.first_seq,
            });
            header.kind
        }
        Err(fault) => {
            sink(&LogEvent::HeaderDamage { what: fault.what() });
            match named {
                Some(FileKind::Manifest(_)) => LogKind::Manifest,
                Some(FileKind::Values(_)) => LogKind::Values,
                _ => LogKind::Wal,
            }
        }
    };
    let (mut records, mut durable) = (0, 0);
    while let Some(piece) = log.next()? {
        let event = match piece {
            Piece::Mark { offset_bytes, durable_bytes, .. } => {
                durable = durable.max(durable_bytes);
                LogEvent::Mark { offset_bytes, durable_bytes }
            }
            Piece::Gap(gap) => {
                let (offset_bytes, bytes) = (gap.offset_bytes, gap.bytes);
                match gap.is_tail && durable <= offset_bytes {
                    true => LogEvent::TornTail { offset_bytes, bytes },
                    false => LogEvent::Damage { offset_bytes, bytes },
                }
            }
            Piece::Value { offset_bytes, codec, stored, .. } => {
                records += 1;
                let (codec, stored_bytes) = (codec_name(codec), stored.len() as u64);
                LogEvent::Value { offset_bytes, codec, stored_bytes }
            }
            Piece::Record { offset_bytes, payload, .. } => {
                records += 1;
                let event = match kind {
                    LogKind::Wal => batch_event(offset_bytes, payload, options),
                    LogKind::Manifest => edit_event(offset_bytes, payload),
                    LogKind::Values => directory_event(offset_bytes, payload),
                };
                let bytes = payload.len() as u64;
                event.unwrap_or_else(|what| LogEvent::Malformed { offset_bytes, bytes, what })
            }
        };
        sink(&event);
    }
    sink(&LogEvent::End { records, durable_bytes: durable });
    Ok(())
}

fn batch_event(
    offset_bytes: u64,
    payload: &[u8],
    options: &DumpOptions,
) -> Result<LogEvent, &'static str> {
    let (first_seq, _, ops) = batch::decode(payload)?;
    let mut dumped = Vec::new();
    for (i, op) in ops.enumerate() {
        let op = op?;
        dumped.push(DumpedOp {
            seq: first_seq.saturating_add(i as u64),
            keyspace: Some(op.keyspace.0),
            kind: kind_of(op.kind),
            key: op.key.escape_ascii().to_string(),
            value: value_of(op.kind, op.value, options),
            value_bytes: op.value.len() as u64,
        });
    }
    let bytes = payload.len() as u64;
    Ok(LogEvent::Batch { offset_bytes, bytes, first_seq, ops: dumped })
}

/// The value of a record, or where it stands, for people.
pub(super) fn value_of(kind: Kind, value: &[u8], options: &DumpOptions) -> String {
    match ValuePointer::decode(value).filter(|_| kind == Kind::PutPointer) {
        Some(to) => format!("{} bytes at {} of log {}", to.stored_bytes, to.offset_bytes, to.log),
        None => shown(value, options.value_bytes_max),
    }
}

fn directory_event(offset_bytes: u64, payload: &[u8]) -> Result<LogEvent, &'static str> {
    let directory = Directory::decode(payload, HEADER_BYTES as u64, offset_bytes)?;
    let (values, logs) = (directory.entries(), directory.logs().to_vec());
    Ok(LogEvent::Directory { offset_bytes, values, logs })
}

pub(super) fn kind_of(kind: Kind) -> DumpedKind {
    match kind {
        Kind::Put => DumpedKind::Put,
        Kind::PutPointer => DumpedKind::PutPointer,
        Kind::Delete => DumpedKind::Delete,
        Kind::DeleteRange => DumpedKind::DeleteRange,
        other => DumpedKind::Other(other as u8),
    }
}

fn edit_event(offset_bytes: u64, payload: &[u8]) -> Result<LogEvent, &'static str> {
    let edit = VersionEdit::decode(payload)?;
    let changes = edit.changes.iter().map(in_words).collect();
    Ok(LogEvent::Edit { offset_bytes, bytes: payload.len() as u64, changes })
}

fn in_words(change: &Change) -> String {
    match change {
        Change::NextNumber(number) => format!("file numbers from {number} on are free"),
        Change::Closed(seq) => format!("closed at #{seq}"),
        Change::WalBegun { number, first_seq } => {
            format!("log {number} begins with sequence number {first_seq}")
        }
        Change::WalCreated { number, salt } => format!("log {number} exists, salt {salt:016x}"),
        Change::Applied { group, state } => {
            let (group, index) = (group.escape_ascii(), state.index);
            format!("group {group} is applied up to {index}")
        }
        Change::Erased { id, start, end, seq } => {
            let (start, end) = (start.escape_ascii(), end.escape_ascii());
            format!("keyspace {} has nothing up to #{seq} from {start} to {end}", id.0)
        }
        Change::GroupForgotten(group) => format!("group {} is gone", group.escape_ascii()),
        Change::WalMin(number) => format!("logs below {number} are not needed"),
        Change::KeyspaceCreated { id, name, order } => {
            format!("keyspace {} is {name:?}, in key order {order:?}", id.0)
        }
        Change::KeyspaceDropped(id) => format!("keyspace {} is gone", id.0),
        Change::Flushed { id, seq } => format!("keyspace {} is in tables up to #{seq}", id.0),
        Change::TableAdded { id, level, run, meta } => {
            let place = format!("joins keyspace {}, level {level}, run {run}", id.0);
            format!("table {} {place}: {}", meta.number, table_in_words(meta))
        }
        Change::TableRemoved { id, level, number } => {
            format!("table {number} leaves keyspace {}, level {level}", id.0)
        }
        Change::ValuesAdded(meta) => values_in_words(meta),
        Change::ValuesRemoved(number) => format!("file {number} holds no values any more"),
    }
}

fn values_in_words(meta: &ValueFileMeta) -> String {
    let ValueFileMeta { number, salt, file_bytes, .. } = meta;
    let held = match meta.place {
        Place::Wal => "holds values where they were logged".to_owned(),
        Place::Moved { directory_at } => {
            let logs: Vec<String> = meta.logs.iter().map(u64::to_string).collect();
            format!("holds values of logs {}, directory at {directory_at}", logs.join(", "))
        }
    };
    format!("file {number} {held}: {file_bytes} bytes, salt {salt:016x}")
}

fn table_in_words(meta: &TableMeta) -> String {
    let end = if meta.largest_exclusive { " (not covered)" } else { "" };
    let mut words = format!(
        "{} bytes, salt {:016x}, {} records of which {} tombstones, {} range tombstones, keys \"{}\" to \
         \"{}\"{end}, sequence numbers {} to {}",
        meta.file_bytes,
        meta.salt,
        meta.entries,
        meta.tombstones,
        meta.range_tombstones,
        meta.smallest.escape_ascii(),
        meta.largest.escape_ascii(),
        meta.min_seq,
        meta.max_seq
    );
    if let Some(seq) = meta.seq_override {
        words.push_str(&format!(", all count as #{seq}"));
    }
    if !meta.references.is_empty() {
        let (bytes, logs) = (meta.value_bytes(), meta.references.len());
        words.push_str(&format!(", points to {bytes} bytes of values in {logs} logs"));
    }
    words
}
