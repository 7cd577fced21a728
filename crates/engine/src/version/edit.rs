//! Version edits: what one step changes. Format: docs/format/manifest.md.

use crate::range_tombstone::RangeTombstone;
use crate::table::LogShare;
use crate::value_log::{Place, ValueFileMeta};
use esker_base::coding::{
    put_slice, put_varint, take_slice, take_u8, take_varint, take_varint_u32,
};
use esker_base::key::{KEY_BYTES_MAX, SEQ_MAX};
use esker_base::{KeyOrder, KeyspaceId, Seq};
use std::sync::Arc;

/// Deepest level of a tree.
pub(crate) const DEEPEST_LEVEL: usize = 6;

/// The longest name of a group.
pub(crate) const GROUP_BYTES_MAX: usize = 1 << 10;

/// The longest note of a group.
pub(crate) const NOTE_BYTES_MAX: usize = 64 << 10;

/// How far a group's log was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupState {
    /// Index of the newest request in its log.
    pub(crate) index: u64,
    /// What the user has said with it.
    pub(crate) note: Arc<[u8]>,
}

/// What the manifest knows of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableMeta {
    /// File number.
    pub(crate) number: u64,
    /// Random id of the file; the table carries it too.
    pub(crate) salt: u64,
    /// Length of the file.
    pub(crate) file_bytes: u64,
    /// Smallest user key, of records and range tombstones.
    pub(crate) smallest: Box<[u8]>,
    /// Largest user key, of records and range tombstones.
    pub(crate) largest: Box<[u8]>,
    /// True if `largest` is the end of a range tombstone and no key of the table itself.
    pub(crate) largest_exclusive: bool,
    /// Point records.
    pub(crate) entries: u64,
    /// Point records that are tombstones.
    pub(crate) tombstones: u64,
    /// Range tombstones.
    pub(crate) range_tombstones: u64,
    /// Bytes of keys and values before compression.
    pub(crate) raw_bytes: u64,
    /// Oldest sequence number in it.
    pub(crate) min_seq: Seq,
    /// Newest sequence number in it.
    pub(crate) max_seq: Seq,
    /// Ingested tables: every record counts as having this sequence number.
    pub(crate) seq_override: Option<Seq>,
    /// What the keyspace had erased up to this sequence number is not in it.
    pub(crate) erased_seq: Seq,
    /// The logs that it points into, ascending, and how many bytes of them.
    pub(crate) references: Arc<[LogShare]>,
}

impl TableMeta {
    /// True if it may hold something that was erased.
    pub(crate) fn may_hold(&self, order: &KeyOrder, erased: &RangeTombstone) -> bool {
        let ends_before = match order.compare(&self.largest, &erased.start) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => self.largest_exclusive,
            std::cmp::Ordering::Greater => false,
        };
        self.erased_seq < erased.seq
            && self.min_seq <= erased.seq
            && !ends_before
            && order.less(&self.smallest, &erased.end)
    }

    /// The same table, bulk-written, whose records all count as written at this moment.
    pub(crate) fn dated(self, seq: Seq) -> TableMeta {
        TableMeta { seq_override: Some(seq), min_seq: seq, max_seq: seq, ..self }
    }

    /// Bytes of the values that it points to.
    pub(crate) fn value_bytes(&self) -> u64 {
        self.references.iter().map(|share| share.bytes).sum()
    }
}

/// One change of the state that the manifest holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// File numbers below this one may be in use.
    NextNumber(u64),
    /// The database was closed with this as its newest sequence number, all of it durable.
    Closed(Seq),
    /// A write-ahead log exists.
    WalCreated { number: u64, salt: u64 },
    /// The first sequence number that a write-ahead log may hold; none was known when it was
    /// created.
    WalBegun { number: u64, first_seq: Seq },
    /// Write-ahead logs below this number are not needed any more.
    WalMin(u64),
    /// A keyspace exists.
    KeyspaceCreated { id: KeyspaceId, name: String, order: String },
    /// A keyspace and all its tables are gone.
    KeyspaceDropped(KeyspaceId),
    /// Records of the keyspace up to this sequence number are in tables.
    Flushed { id: KeyspaceId, seq: Seq },
    /// A table joins a run. Within a level, runs are ordered by id, the newest being the largest.
    TableAdded { id: KeyspaceId, level: u32, run: u64, meta: TableMeta },
    /// A table leaves.
    TableRemoved { id: KeyspaceId, level: u32, number: u64 },
    /// Values of some logs are in this file.
    ValuesAdded(ValueFileMeta),
    /// No values are in the file with this number any more.
    ValuesRemoved(u64),
    /// Tables hold the requests of this group up to that of the state.
    Applied { group: Arc<[u8]>, state: GroupState },
    /// Records of the keyspace from `start` up to before `end` that are not newer than `seq` are
    /// gone, whoever reads.
    Erased { id: KeyspaceId, start: Box<[u8]>, end: Box<[u8]>, seq: Seq },
    /// Nothing is known of this group any more.
    GroupForgotten(Arc<[u8]>),
}

/// Changes that happen together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VersionEdit {
    pub(crate) changes: Vec<Change>,
}

impl VersionEdit {
    pub(crate) fn new() -> VersionEdit {
        VersionEdit::default()
    }

    pub(crate) fn push(&mut self, change: Change) -> &mut VersionEdit {
        self.changes.push(change);
        self
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for change in &self.changes {
            encode_change(&mut out, change);
        }
        out
    }

    pub(crate) fn decode(mut bytes: &[u8]) -> Result<VersionEdit, &'static str> {
        let mut edit = VersionEdit::new();
        while !bytes.is_empty() {
            edit.push(take_change(&mut bytes).ok_or("malformed version edit")?);
        }
        Ok(edit)
    }
}

const NEXT_NUMBER: u8 = 1;
const CLOSED: u8 = 2;
const WAL_CREATED: u8 = 3;
const WAL_MIN: u8 = 4;
const KEYSPACE_CREATED: u8 = 5;
const KEYSPACE_DROPPED: u8 = 6;
const FLUSHED: u8 = 7;
const TABLE_ADDED: u8 = 8;
const TABLE_REMOVED: u8 = 9;
const WAL_BEGUN: u8 = 10;
const VALUES_ADDED: u8 = 11;
const VALUES_REMOVED: u8 = 12;
const APPLIED: u8 = 13;
const GROUP_FORGOTTEN: u8 = 14;
const ERASED: u8 = 15;

const FLAG_LARGEST_EXCLUSIVE: u8 = 1;
const FLAG_SEQ_OVERRIDE: u8 = 2;
const FLAG_REFERENCES: u8 = 4;
const FLAG_ERASED: u8 = 8;

const PLACE_WAL: u8 = 0;
const PLACE_MOVED: u8 = 1;

fn encode_change(out: &mut Vec<u8>, change: &Change) {
    let mut tagged = |tag: u8, numbers: &[u64]| {
        out.push(tag);
        for &number in numbers {
            put_varint(out, number);
        }
    };
    match change {
        Change::NextNumber(number) => tagged(NEXT_NUMBER, &[*number]),
        Change::Closed(seq) => tagged(CLOSED, &[*seq]),
        Change::WalCreated { number, salt } => tagged(WAL_CREATED, &[*number, *salt]),
        Change::WalBegun { number, first_seq } => tagged(WAL_BEGUN, &[*number, *first_seq]),
        Change::WalMin(number) => tagged(WAL_MIN, &[*number]),
        Change::KeyspaceDropped(id) => tagged(KEYSPACE_DROPPED, &[id.0.into()]),
        Change::Flushed { id, seq } => tagged(FLUSHED, &[id.0.into(), *seq]),
        Change::TableRemoved { id, level, number } => {
            tagged(TABLE_REMOVED, &[id.0.into(), (*level).into(), *number]);
        }
        Change::KeyspaceCreated { id, name, order } => {
            tagged(KEYSPACE_CREATED, &[id.0.into()]);
            put_slice(out, name.as_bytes());
            put_slice(out, order.as_bytes());
        }
        Change::TableAdded { id, level, run, meta } => {
            tagged(TABLE_ADDED, &[id.0.into(), (*level).into(), *run]);
            encode_meta(out, meta);
        }
        Change::ValuesRemoved(number) => tagged(VALUES_REMOVED, &[*number]),
        Change::Applied { group, state } => {
            tagged(APPLIED, &[state.index]);
            put_slice(out, group);
            put_slice(out, &state.note);
        }
        Change::Erased { id, start, end, seq } => {
            tagged(ERASED, &[id.0.into(), *seq]);
            put_slice(out, start);
            put_slice(out, end);
        }
        Change::GroupForgotten(group) => {
            tagged(GROUP_FORGOTTEN, &[]);
            put_slice(out, group);
        }
        Change::ValuesAdded(meta) => {
            tagged(VALUES_ADDED, &[meta.number, meta.salt, meta.file_bytes]);
            encode_place(out, meta);
        }
    }
}

fn encode_place(out: &mut Vec<u8>, meta: &ValueFileMeta) {
    match meta.place {
        Place::Wal => out.push(PLACE_WAL),
        Place::Moved { directory_at } => {
            out.push(PLACE_MOVED);
            put_varint(out, directory_at);
            put_varint(out, meta.logs.len() as u64);
            put_ascending(out, meta.logs.iter().map(|&log| (log, None)));
        }
    }
}

fn take_values(input: &mut &[u8]) -> Option<ValueFileMeta> {
    let (number, salt) = (take_number(input)?, take_varint(input)?);
    let file_bytes = take_number(input)?;
    let (place, logs) = match take_u8(input)? {
        PLACE_WAL => (Place::Wal, vec![(number, ())]),
        PLACE_MOVED => {
            let directory_at = take_number(input).filter(|&at| at < file_bytes)?;
            let count = take_varint(input)?;
            (Place::Moved { directory_at }, take_ascending(input, count, |_| Some(()))?)
        }
        _ => return None,
    };
    let logs = logs.iter().map(|&(log, ())| log).collect();
    Some(ValueFileMeta { number, salt, file_bytes, place, logs })
}

/// Numbers of logs, which ascend, each with the number behind it if it has one.
fn put_ascending(out: &mut Vec<u8>, logs: impl Iterator<Item = (u64, Option<u64>)>) {
    let mut before = 0;
    for (log, behind) in logs {
        put_varint(out, log - before);
        behind.into_iter().for_each(|number| put_varint(out, number));
        before = log;
    }
}

/// So many numbers of logs, which ascend, each with something behind it.
fn take_ascending<T>(
    input: &mut &[u8],
    count: u64,
    mut behind: impl FnMut(&mut &[u8]) -> Option<T>,
) -> Option<Vec<(u64, T)>> {
    // Each takes at least a byte.
    if count > input.len() as u64 {
        return None;
    }
    let mut all: Vec<(u64, T)> = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let before = all.last().map(|(log, _)| *log);
        let step = take_number(input).filter(|&step| step > 0 || before.is_none())?;
        let log = before.unwrap_or(0).checked_add(step).filter(|&log| log <= SEQ_MAX)?;
        all.push((log, behind(input)?));
    }
    Some(all)
}

fn encode_meta(out: &mut Vec<u8>, meta: &TableMeta) {
    let mut flags = 0;
    if meta.largest_exclusive {
        flags |= FLAG_LARGEST_EXCLUSIVE;
    }
    if meta.seq_override.is_some() {
        flags |= FLAG_SEQ_OVERRIDE;
    }
    if !meta.references.is_empty() {
        flags |= FLAG_REFERENCES;
    }
    if meta.erased_seq > 0 {
        flags |= FLAG_ERASED;
    }
    out.push(flags);
    for number in [
        meta.number,
        meta.salt,
        meta.file_bytes,
        meta.entries,
        meta.tombstones,
        meta.range_tombstones,
        meta.raw_bytes,
        meta.min_seq,
        meta.max_seq,
    ] {
        put_varint(out, number);
    }
    if let Some(seq) = meta.seq_override {
        put_varint(out, seq);
    }
    if meta.erased_seq > 0 {
        put_varint(out, meta.erased_seq);
    }
    put_slice(out, &meta.smallest);
    put_slice(out, &meta.largest);
    if flags & FLAG_REFERENCES != 0 {
        put_varint(out, meta.references.len() as u64);
        put_ascending(out, meta.references.iter().map(|share| (share.log, Some(share.bytes))));
    }
}

fn take_change(input: &mut &[u8]) -> Option<Change> {
    let tag = take_u8(input)?;
    Some(match tag {
        NEXT_NUMBER => Change::NextNumber(take_number(input)?),
        CLOSED => Change::Closed(take_number(input)?),
        WAL_CREATED => {
            Change::WalCreated { number: take_number(input)?, salt: take_varint(input)? }
        }
        WAL_BEGUN => {
            Change::WalBegun { number: take_number(input)?, first_seq: take_number(input)? }
        }
        WAL_MIN => Change::WalMin(take_number(input)?),
        KEYSPACE_CREATED => Change::KeyspaceCreated {
            id: take_id(input)?,
            name: take_string(input)?,
            order: take_string(input)?,
        },
        KEYSPACE_DROPPED => Change::KeyspaceDropped(take_id(input)?),
        FLUSHED => Change::Flushed { id: take_id(input)?, seq: take_number(input)? },
        TABLE_ADDED => Change::TableAdded {
            id: take_id(input)?,
            level: take_level(input)?,
            run: take_number(input)?,
            meta: take_meta(input)?,
        },
        TABLE_REMOVED => Change::TableRemoved {
            id: take_id(input)?,
            level: take_level(input)?,
            number: take_number(input)?,
        },
        VALUES_ADDED => Change::ValuesAdded(take_values(input)?),
        VALUES_REMOVED => Change::ValuesRemoved(take_number(input)?),
        APPLIED => {
            let index = take_varint(input)?;
            let group = take_group(input)?;
            let note = take_slice(input).filter(|note| note.len() <= NOTE_BYTES_MAX)?.into();
            Change::Applied { group, state: GroupState { index, note } }
        }
        ERASED => Change::Erased {
            id: take_id(input)?,
            seq: take_number(input)?,
            start: take_key(input)?,
            end: take_key(input)?,
        },
        GROUP_FORGOTTEN => Change::GroupForgotten(take_group(input)?),
        _ => return None,
    })
}

/// File numbers, sequence numbers, lengths and counts: sums of them do not overflow.
fn take_number(input: &mut &[u8]) -> Option<u64> {
    take_varint(input).filter(|&number| number <= SEQ_MAX)
}

fn take_id(input: &mut &[u8]) -> Option<KeyspaceId> {
    take_varint_u32(input).map(KeyspaceId)
}

fn take_level(input: &mut &[u8]) -> Option<u32> {
    take_varint_u32(input).filter(|&level| level as usize <= DEEPEST_LEVEL)
}

fn take_string(input: &mut &[u8]) -> Option<String> {
    std::str::from_utf8(take_slice(input)?).ok().map(str::to_owned)
}

fn take_group(input: &mut &[u8]) -> Option<Arc<[u8]>> {
    let group = take_slice(input)?;
    (1..=GROUP_BYTES_MAX).contains(&group.len()).then(|| group.into())
}

fn take_key(input: &mut &[u8]) -> Option<Box<[u8]>> {
    take_slice(input).filter(|key| key.len() <= KEY_BYTES_MAX).map(Box::from)
}

fn take_meta(input: &mut &[u8]) -> Option<TableMeta> {
    let flags = take_u8(input)?;
    const FLAGS: u8 = FLAG_LARGEST_EXCLUSIVE | FLAG_SEQ_OVERRIDE | FLAG_REFERENCES | FLAG_ERASED;
    if flags & !FLAGS != 0 {
        return None;
    }
    Some(TableMeta {
        largest_exclusive: flags & FLAG_LARGEST_EXCLUSIVE != 0,
        number: take_number(input)?,
        salt: take_varint(input)?,
        file_bytes: take_number(input)?,
        entries: take_number(input)?,
        tombstones: take_number(input)?,
        range_tombstones: take_number(input)?,
        raw_bytes: take_number(input)?,
        min_seq: take_number(input)?,
        max_seq: take_number(input)?,
        seq_override: match flags & FLAG_SEQ_OVERRIDE {
            0 => None,
            _ => Some(take_number(input)?),
        },
        erased_seq: match flags & FLAG_ERASED {
            0 => 0,
            _ => take_number(input)?,
        },
        smallest: take_key(input)?,
        largest: take_key(input)?,
        references: match flags & FLAG_REFERENCES {
            0 => Arc::default(),
            _ => {
                let count = take_varint(input)?;
                let shares = take_ascending(input, count, take_number)?;
                shares.into_iter().map(|(log, bytes)| LogShare { log, bytes }).collect()
            }
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn sample() -> VersionEdit {
        let id = KeyspaceId(3);
        let meta = TableMeta {
            number: 12,
            salt: 0xfeed_f00d_dead_beef,
            file_bytes: 4096,
            smallest: b"apple".as_slice().into(),
            largest: b"pear".as_slice().into(),
            largest_exclusive: true,
            entries: 100,
            tombstones: 3,
            range_tombstones: 1,
            raw_bytes: 9_000,
            min_seq: 5,
            max_seq: 700,
            seq_override: Some(900),
            erased_seq: 650,
            references: [LogShare { log: 19, bytes: 8_000 }, LogShare { log: 22, bytes: 500 }]
                .into(),
        };
        let moved = ValueFileMeta {
            number: 23,
            salt: 9,
            file_bytes: 9_000,
            place: Place::Moved { directory_at: 8_990 },
            logs: [14, 16, 300].into(),
        };
        let mut edit = VersionEdit::new();
        edit.push(Change::NextNumber(20))
            .push(Change::Closed(99))
            .push(Change::WalCreated { number: 19, salt: 7 })
            .push(Change::WalMin(18))
            .push(Change::KeyspaceCreated { id, name: "fruit".into(), order: "o".into() })
            .push(Change::KeyspaceDropped(KeyspaceId(2)))
            .push(Change::Flushed { id, seq: 700 })
            .push(Change::TableAdded { id, level: 0, run: 4, meta })
            .push(Change::TableRemoved { id, level: 1, number: 11 })
            .push(Change::WalBegun { number: 19, first_seq: 100 })
            .push(Change::ValuesAdded(ValueFileMeta::of_log(19, 7, 10_000)))
            .push(Change::ValuesAdded(moved))
            .push(Change::ValuesRemoved(17))
            .push(Change::Applied {
                group: b"g7".as_slice().into(),
                state: GroupState { index: 300, note: b"term 2".as_slice().into() },
            })
            .push(Change::GroupForgotten(b"g8".as_slice().into()))
            .push(Change::Erased {
                id,
                start: b"a".as_slice().into(),
                end: b"b".as_slice().into(),
                seq: 660,
            });
        edit
    }

    #[test]
    fn edits_round_trip_and_cuts_are_refused_or_whole_changes() {
        let edit = sample();
        let bytes = edit.encode();
        assert_eq!(VersionEdit::decode(&bytes), Ok(edit.clone()));
        for cut in 0..bytes.len() {
            if let Ok(shorter) = VersionEdit::decode(&bytes[..cut]) {
                assert!(edit.changes.starts_with(&shorter.changes), "cut at {cut}");
            }
        }
    }

    /// The bytes of the fenced block `hex NAME` of a format page, without the remarks behind bars.
    fn golden(page: &str, name: &str) -> Vec<u8> {
        let example = page.split(&format!("```hex {name}\n")).nth(1).expect("example");
        example
            .lines()
            .take_while(|line| *line != "```")
            .flat_map(|line| line.split('|').next().unwrap_or("").split_whitespace())
            .map(|byte| u8::from_str_radix(byte, 16).expect("hexadecimal"))
            .collect()
    }

    #[test]
    fn the_documented_example_is_what_is_written_and_read() {
        let page = include_str!("../../../../docs/format/manifest.md");
        let bytes = golden(page, "edit");
        assert_eq!(VersionEdit::decode(&bytes), Ok(sample()));
        let shown: Vec<String> = sample().encode().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(sample().encode(), bytes, "the page should say: {}", shown.join(" "));
    }

    #[test]
    fn unknown_tags_flags_and_levels_are_refused() {
        assert!(VersionEdit::decode(&[77]).is_err());
        assert!(VersionEdit::decode(&[TABLE_REMOVED, 0, DEEPEST_LEVEL as u8 + 1, 1]).is_err());
        assert!(VersionEdit::decode(&[TABLE_ADDED, 0, 0, 0, 0x80]).is_err());
    }
}
