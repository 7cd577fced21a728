//! What the fuzz gate feeds: one target for each parser.

use crate::mutate::{Target, mutate};
use crate::random::Random;
use crate::script::{DIR, World};
use crate::specimen;
use esker::base::batch;
use esker::base::checksum::{bind, crc32c, hash64, mix64};
use esker::base::coding::{put_slice, put_varint};
use esker::base::heap::SharedBytes;
use esker::base::vfs::ReadableFile;
use esker::base::vfs::strict::StrictVfs;
use esker::base::{KeyOrder, Kind, Seq, Trailer};
use esker::block::{Block, BlockBuilder, BlockCursor, Damage, Payload};
use esker::cursor::Cursor;
use esker::fields::index::{put_index_value, split_index_key};
use esker::fields::{FieldRef, FieldValue, Record, RecordView, find_coded, looks_like_record};
use esker::inspect::{DumpOptions, dump_log};
use esker::stats::TableCounters;
use esker::table::{
    BlockCache, CursorOptions, TableContext, TableFile, TableReader, read_identity,
};
use esker::{Batch, Db, KeyspaceId, KeyspaceOptions, Options};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LOG_HEAD_BYTES: usize = 40;
const RECORD_HEAD_BYTES: usize = 9;
const BLOCK_TRAILER_BYTES: usize = 5;
const FOOTER_BYTES: usize = 64;

/// All targets, with a corpus made from this seed.
pub fn targets(seed: u64) -> Result<Vec<Box<dyn Target>>, String> {
    let specimens = specimen::all(seed).map_err(|e| format!("making a corpus: {e}"))?;
    let specimen = &specimens[1];
    let file = |wanted: &dyn Fn(&str) -> bool| -> Vec<PathBuf> {
        let files = specimen.files().into_iter();
        files.filter(|path| wanted(&path.to_string_lossy())).collect()
    };
    let in_store = |name: &'static str, path: &Path| -> Box<dyn Target> {
        let disk = specimen.disk.deep_copy();
        Box::new(InStore {
            name,
            path: path.to_path_buf(),
            disk,
            options: specimen.options.clone(),
        })
    };
    let tables = file(&|name| name.ends_with(".tbl"));
    let tables: Vec<Vec<u8>> =
        tables.iter().filter_map(|path| specimen.disk.read_file(path).ok()).collect();
    let logs = file(&|name| name.ends_with(".wal"));
    let manifests = file(&|name| name.contains("MANIFEST"));
    let values = file(&|name| name.ends_with(".val"));
    let (Some(log), Some(values), Some(manifest)) =
        (logs.first(), values.first(), manifests.first())
    else {
        return Err("the corpus lacks files".to_owned());
    };
    let (disk, options) = specimen::below_a_log().map_err(|e| format!("making groups: {e}"))?;
    let of_groups = disk.file_names(Path::new(DIR)).into_iter().find(|name| name.contains("MANI"));
    let path = Path::new(DIR).join(of_groups.ok_or("groups have no manifest")?);
    Ok(vec![
        Box::new(OptionsText),
        Box::new(BatchBytes),
        Box::new(RecordBytes),
        Box::new(BlockBytes),
        Box::new(TableBytes { tables }),
        in_store("log", log),
        in_store("values", values),
        in_store("manifest", manifest),
        Box::new(InStore { name: "groups", path, disk, options }),
        in_store("current", &Path::new(DIR).join("CURRENT")),
    ])
}

struct OptionsText;

impl Target for OptionsText {
    fn name(&self) -> &'static str {
        "options"
    }

    fn corpus(&self) -> Vec<Vec<u8>> {
        let presets = ["default", "edge", "write_heavy", "read_mostly", "large_values"];
        let options = presets.iter().filter_map(|name| Options::preset(name).ok());
        options.filter_map(|options| serde_json::to_vec(&options).ok()).collect()
    }

    fn run(&self, input: &[u8]) -> String {
        match serde_json::from_slice::<Options>(input) {
            Err(error) => format!("{:?}", error.classify()),
            Ok(options) => {
                options.validate().map_or_else(|e| e.to_string(), |()| "valid".to_owned())
            }
        }
    }
}

struct BatchBytes;

impl Target for BatchBytes {
    fn name(&self) -> &'static str {
        "batch"
    }

    fn corpus(&self) -> Vec<Vec<u8>> {
        let mut batch = Batch::new();
        batch.put(b"key", b"value").delete(b"other").delete_range(b"a", b"b");
        batch.put_in(KeyspaceId(300), &[7; 200], &[8; 300]);
        vec![batch.seal(9).to_vec(), Batch::new().seal(1 << 50).to_vec()]
    }

    fn run(&self, input: &[u8]) -> String {
        match batch::decode(input) {
            Err(what) => what.to_owned(),
            Ok((_, count, ops)) => {
                let mut good = 0;
                for op in ops {
                    match op {
                        Ok(op) => good += u32::from(op.key.len() + op.value.len() <= input.len()),
                        Err(what) => return what.to_owned(),
                    }
                }
                format!("{} of {count}", good.min(9))
            }
        }
    }
}

struct RecordBytes;

impl RecordBytes {
    const NAMES: [&str; 5] = ["", "a", "born", "name", "\u{10ffff}"];

    /// What must hold of bytes that were taken for a record.
    fn check(view: RecordView<'_>, bytes: &[u8]) -> String {
        let record: Record = view.iter().collect();
        assert_eq!(record.encode().ok().as_deref(), Some(bytes), "a record has one encoding");
        assert!(looks_like_record(bytes));
        let mut kinds = BTreeSet::new();
        for (name, value) in view.iter() {
            let coded = value.coded();
            assert_eq!(find_coded(bytes, name), Some(&coded[..]));
            let mut key = Vec::new();
            put_index_value(&mut key, &coded);
            key.extend_from_slice(name.as_bytes());
            let split = split_index_key(&key);
            assert!(split.is_some_and(|(value, rest)| *value == coded && rest == name.as_bytes()));
            kinds.insert(coded[0]);
        }
        for name in RecordBytes::NAMES {
            assert_eq!(find_coded(bytes, name), view.coded(name));
            let mut changed = record.clone();
            changed.remove(name);
            assert_eq!(changed.encode().ok(), Some(view.without_field(name)));
            changed.set(name, 7);
            assert_eq!(changed.encode().ok(), view.with_field(name, 7).ok());
        }
        format!("{} fields, {kinds:?}", record.len().min(9))
    }
}

impl Target for RecordBytes {
    fn name(&self) -> &'static str {
        "record"
    }

    fn corpus(&self) -> Vec<Vec<u8>> {
        let one = Record::new().with("a", 1);
        let all = Record::new()
            .with("born", i64::MIN)
            .with("big", vec![0; 300])
            .with("dead", FieldValue::Null)
            .with("high", f64::NAN)
            .with("name", "größer")
            .with("tall", true)
            .with("n".repeat(200), -0.5);
        let many: Record = (0..130).map(|nth| (format!("{nth:03}"), nth)).collect();
        [Record::new(), one, all, many].iter().filter_map(|record| record.encode().ok()).collect()
    }

    /// Mutates one name or one value, mostly, and mends what stands around it.
    fn mutate(&self, input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
        let mut parts = Vec::new();
        if let Ok(view) = RecordView::parse(input) {
            for (name, value) in view.iter() {
                parts.extend([name.as_bytes().to_vec(), value.coded()]);
            }
        }
        if parts.is_empty() || random.one_in(4) {
            return mutate(input, other, random);
        }
        let at = random.below(parts.len() as u64) as usize;
        mutate(&mut parts[at], other, random);
        input.truncate(1);
        put_varint(input, parts.len() as u64 / 2);
        for part in &parts {
            put_slice(input, part);
        }
    }

    fn run(&self, input: &[u8]) -> String {
        for name in RecordBytes::NAMES {
            if let Some(coded) = find_coded(input, name) {
                let inside = input.as_ptr_range();
                assert!(coded.as_ptr_range().end <= inside.end && coded.as_ptr() >= inside.start);
                let value = FieldRef::from_coded(coded);
                assert!(value.is_err() || value.is_ok_and(|value| value.coded() == coded));
            }
        }
        if let Some((coded, rest)) = split_index_key(input) {
            let mut key = Vec::new();
            put_index_value(&mut key, &coded);
            assert_eq!([&key[..], rest].concat(), input, "a key has one form");
        }
        match RecordView::parse(input) {
            Ok(view) => RecordBytes::check(view, input),
            Err(error) => what(&error),
        }
    }
}

struct BlockBytes;

impl Target for BlockBytes {
    fn name(&self) -> &'static str {
        "block"
    }

    fn corpus(&self) -> Vec<Vec<u8>> {
        let build = |restart: u32, count: u64, key_bytes: usize| {
            let mut builder = BlockBuilder::new(restart);
            for i in 0..count {
                let mut key = format!("key{i:05}").into_bytes();
                key.resize(key_bytes.max(8), b'x');
                let kind = if i % 3 == 0 { Kind::Delete } else { Kind::Put };
                let value =
                    if i % 3 == 0 { Vec::new() } else { vec![b'v'; (i * 7 % 400) as usize] };
                builder.add(&key, Trailer::new(i << (i % 40), kind), &value);
            }
            let mut bytes = Vec::new();
            builder.finish(&mut bytes);
            bytes
        };
        vec![build(1, 5, 8), build(4, 30, 8), build(16, 20, 300), build(2, 1, 8)]
    }

    fn run(&self, input: &[u8]) -> String {
        let data = SharedBytes::from(input);
        let end = data.len();
        let block = match Block::new(Payload { data, start: 0, end }) {
            Ok(block) => block,
            Err(damage) => return damage.0.to_owned(),
        };
        let order = KeyOrder::Bytewise;
        let mut cursor = BlockCursor::new();
        cursor.set_block(block);
        let mut walk = || -> Result<u64, Damage> {
            let mut rows = 0;
            let mut sum = 0;
            cursor.seek_to_first()?;
            // A walk that does not end is a hang; the watchdog ends it.
            while cursor.valid() {
                rows += 1;
                sum +=
                    cursor.key().len() + cursor.value().len() + cursor.trailer().seq() as usize % 2;
                cursor.next()?;
            }
            cursor.seek_to_last()?;
            while cursor.valid() && rows > 0 {
                rows -= 1;
                cursor.prev()?;
            }
            for key in [&b""[..], b"key00003", b"key00017x", b"z"] {
                for seq in [0, 5, Seq::MAX >> 8] {
                    cursor.seek(&order, key, Trailer::seek(seq))?;
                    cursor.seek_before(&order, key, Trailer::seek(seq))?;
                }
            }
            Ok(sum as u64)
        };
        walk().map_or_else(
            |damage| damage.0.to_owned(),
            |sum| format!("sum of {:?}", sum.checked_ilog2()),
        )
    }
}

#[derive(Debug)]
struct Bytes(Vec<u8>);

impl ReadableFile for Bytes {
    fn read_at(&self, offset_bytes: u64, buf: &mut [u8]) -> esker::Result<usize> {
        let rest = usize::try_from(offset_bytes).ok().and_then(|at| self.0.get(at..));
        let rest = rest.unwrap_or_default();
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn len_bytes(&self) -> esker::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

struct TableBytes {
    tables: Vec<Vec<u8>>,
}

impl TableBytes {
    /// Where blocks begin and end, trailer included: found by their checksums, since each begins
    /// where the one before ends.
    fn blocks(bytes: &[u8], salt: u64) -> Vec<(usize, usize)> {
        let end_max = bytes.len().saturating_sub(FOOTER_BYTES);
        let mut blocks = Vec::new();
        let mut start = 0;
        'next: while start < end_max {
            for end in start + BLOCK_TRAILER_BYTES..=end_max {
                let crc = bind(crc32c(&bytes[start..end - 4]), salt, start as u64);
                if crc.to_le_bytes() == bytes[end - 4..end] {
                    blocks.push((start, end));
                    start = end;
                    continue 'next;
                }
            }
            break;
        }
        blocks
    }

    fn salt(bytes: &[u8]) -> u64 {
        let at = bytes.len().saturating_sub(24);
        let field = bytes.get(at..at + 8).unwrap_or(&[0; 8]);
        field.iter().rev().fold(0, |salt, &byte| salt << 8 | u64::from(byte))
    }
}

impl Target for TableBytes {
    fn name(&self) -> &'static str {
        "table"
    }

    fn corpus(&self) -> Vec<Vec<u8>> {
        self.tables.clone()
    }

    /// Mutates inside one block and seals it, or the footer likewise, or anything.
    fn mutate(&self, input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
        let salt = TableBytes::salt(input);
        let blocks = TableBytes::blocks(input, salt);
        if blocks.is_empty() || random.one_in(10) {
            return mutate(input, other, random);
        }
        if random.one_in(6) {
            let at = input.len() - FOOTER_BYTES;
            let mut fields = input[at..at + 52].to_vec();
            mutate(&mut fields, other, random);
            fields.resize(52, 0);
            let salt = TableBytes::salt(&[&fields[..], &[0; 12]].concat());
            let crc = bind(crc32c(&fields), salt, at as u64);
            input[at..at + 52].copy_from_slice(&fields);
            input[at + 52..at + 56].copy_from_slice(&crc.to_le_bytes());
            return;
        }
        let (start, end) = blocks[random.below(blocks.len() as u64) as usize];
        // The codec byte is part of what is mutated; the length stays, so that handles stay right.
        let mut payload = input[start..end - 4].to_vec();
        let len = payload.len();
        mutate(&mut payload, other, random);
        payload.resize(len, 0);
        let crc = bind(crc32c(&payload), salt, start as u64);
        input[start..end - 4].copy_from_slice(&payload);
        input[end - 4..end].copy_from_slice(&crc.to_le_bytes());
    }

    fn run(&self, input: &[u8]) -> String {
        let path = Path::new("fuzzed.tbl");
        let file: Arc<dyn ReadableFile> = Arc::new(Bytes(input.to_vec()));
        let identity = match read_identity(file.as_ref(), path) {
            Ok(identity) => identity,
            Err(error) => return what(&error),
        };
        let context = TableContext {
            cache: Arc::new(BlockCache::new(1 << 20)),
            number: 1,
            counters: Arc::new(TableCounters::new()),
            pin_bytes_max: 1 << 20,
        };
        let options = KeyspaceOptions::default();
        let file = TableFile::new(file, path, input.len() as u64, identity.salt);
        let opened = TableReader::open(file, &options, &context);
        let reader = match opened {
            Ok(reader) => Arc::new(reader),
            Err(error) => return what(&error),
        };
        let mut answers = BTreeSet::new();
        let mut note = |result: esker::Result<()>| {
            if let Err(error) = result {
                answers.insert(what(&error));
            }
        };
        let mut cursor = reader.cursor(CursorOptions::default());
        note((|| {
            cursor.seek_to_first()?;
            while cursor.valid() {
                cursor.next()?;
            }
            cursor.seek_to_last()?;
            while cursor.valid() {
                cursor.prev()?;
            }
            Ok(())
        })());
        for key in [&b""[..], b"ingested07", b"k", b"pq", b"~"] {
            note(cursor.seek(key, Trailer::seek(7)));
            note(cursor.seek_before(key, Trailer::seek(7)));
            note(reader.get(key, hash64(key), Seq::MAX >> 8, None).map(drop));
            let _ = reader.approximate_offset(key);
        }
        note(reader.verify());
        answers.into_iter().collect::<Vec<_>>().join("; ")
    }
}

/// An error without its numbers.
fn what(error: &esker::Error) -> String {
    let text = error.to_string();
    text.chars().filter(|c| !c.is_ascii_digit()).take(120).collect()
}

/// A file of a store, which is opened with it.
struct InStore {
    name: &'static str,
    path: PathBuf,
    disk: StrictVfs,
    options: Options,
}

impl InStore {
    fn is_log(&self) -> bool {
        self.name != "current"
    }
}

impl Target for InStore {
    fn name(&self) -> &'static str {
        self.name
    }

    fn corpus(&self) -> Vec<Vec<u8>> {
        self.disk.read_file(&self.path).into_iter().collect()
    }

    /// Logs: the payload of a record is mutated, and every record behind it moves along.
    fn mutate(&self, input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
        if !self.is_log() || random.one_in(4) {
            return mutate(input, other, random);
        }
        let mut records = records(input);
        if records.is_empty() {
            return mutate(input, other, random);
        }
        let at = random.below(records.len() as u64) as usize;
        match random.below(6) {
            0 => {
                records.remove(at);
            }
            1 => {
                let copy = records[at].clone();
                records.insert(random.below(records.len() as u64) as usize, copy);
            }
            // Data, a mark, values of each codec.
            2 => records[at].0 = [1, 2, 16, 17, 18][random.below(5) as usize],
            _ => mutate(&mut records[at].1, other, random),
        }
        let salt = log_salt(input);
        input.truncate(LOG_HEAD_BYTES);
        for (kind, payload) in records {
            let at = input.len() as u64;
            let shape = mix64((payload.len() as u64) << 8 | u64::from(kind));
            let crc = bind(crc32c(&payload), salt ^ shape, at);
            input.extend(crc.to_le_bytes());
            input.extend((payload.len() as u32).to_le_bytes());
            input.push(kind);
            input.extend(payload);
        }
    }

    fn mend(&self, input: &mut Vec<u8>, random: &mut Random) {
        if self.is_log() || random.one_in(3) {
            return;
        }
        let text = String::from_utf8_lossy(input).into_owned();
        let line = text.trim_end().rsplit_once(' ').map_or("", |(line, _)| line);
        *input = format!("{line} {:08x}\n", crc32c(line.as_bytes())).into_bytes();
    }

    fn run(&self, input: &[u8]) -> String {
        let disk = self.disk.deep_copy();
        if disk.write_file(&self.path, input).is_err() {
            return "cannot write".to_owned();
        }
        let world = World::plain(&disk);
        let mut answers = Vec::new();
        if self.is_log() {
            let (mut events, options) = (0, DumpOptions::default());
            // Opening refuses a file of another length; a dump reads it all the same.
            let dumped = dump_log(&disk, &self.path, &options, |_| events += 1);
            answers.push(dumped.map_or_else(|error| what(&error), |()| format!("{events} events")));
        }
        let mut look = |opened: esker::Result<Db>| match opened {
            Err(error) => {
                answers.push(what(&error));
                false
            }
            Ok(db) => {
                let rows = db.iter().map_or(0, |rows| rows.take(10_000).count());
                let groups = db.group_stats().len();
                assert!(groups >= db.groups().len(), "those that were applied to, and others");
                let keyspaces = db.keyspace_names().len();
                answers.push(format!("{keyspaces} keyspaces, {groups} groups, {rows} rows"));
                true
            }
        };
        look(world.open_read_only(DIR, &self.options));
        let was_opened = look(world.open(DIR, &self.options));
        let is_opened_again = look(world.open(DIR, &self.options));
        let answers = answers.join("; ");
        assert!(is_opened_again || !was_opened, "what was opened must open again: {answers}");
        answers
    }
}

fn log_salt(input: &[u8]) -> u64 {
    let field = input.get(20..28).unwrap_or(&[0; 8]);
    field.iter().rev().fold(0, |salt, &byte| salt << 8 | u64::from(byte))
}

/// The records of a log: type and payload of each.
fn records(input: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut records = Vec::new();
    let mut rest = input.get(LOG_HEAD_BYTES..).unwrap_or_default();
    while rest.len() > RECORD_HEAD_BYTES && rest[8] != 0 {
        let len = u32::from_le_bytes([rest[4], rest[5], rest[6], rest[7]]) as usize;
        let Some(payload) = rest[RECORD_HEAD_BYTES..].get(..len) else { break };
        records.push((rest[8], payload.to_vec()));
        rest = &rest[RECORD_HEAD_BYTES + len..];
    }
    records
}
