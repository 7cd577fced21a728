//! Tables against a sorted list, in many shapes, and on damaged files.

use super::block_cache::CachedPart;
use super::{
    BlockCache, CursorOptions, TableBuilder, TableContext, TableFile, TableReader, TableSummary,
    read_identity,
};
use crate::cache::{CacheKey, weight};
use crate::cursor::Cursor;
use crate::options::{Compression, Filter, FilterPolicy, KeyspaceOptions};
use crate::random::Random;
use crate::range_tombstone::RangeTombstone;
use crate::stats::{TableCounter, TableCounters};
use esker_base::checksum::{hash64, mix64};
use esker_base::key::SEQ_MAX;
use esker_base::vfs::{Access, ReadableFile, WritableFile};
use esker_base::{Comparator, Env, Error, KeyOrder, Kind, Result, Trailer};
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

pub(super) type Entry = (Vec<u8>, Trailer, Vec<u8>);

struct Reverse;

impl Comparator for Reverse {
    fn name(&self) -> &str {
        "test.reverse"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }

    fn equal_means_identical(&self) -> bool {
        true
    }
}

/// Letters of either case are the same.
struct CaseBlind;

impl Comparator for CaseBlind {
    fn name(&self) -> &str {
        "test.case-blind"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    }

    fn separator(&self, _: &[u8], b: &[u8]) -> Vec<u8> {
        // Breaks its promise: `b` is not below itself.
        b.to_vec()
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct MemFile(Arc<Mutex<Vec<u8>>>);

impl MemFile {
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.lock().expect("lock").clone()
    }
}

impl WritableFile for MemFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.lock().expect("lock").extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn len_bytes(&self) -> u64 {
        self.0.lock().expect("lock").len() as u64
    }

    fn reserved_bytes(&self) -> u64 {
        0
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct Bytes(Vec<u8>);

impl ReadableFile for Bytes {
    fn read_at(&self, offset_bytes: u64, buf: &mut [u8]) -> Result<usize> {
        let rest = self.0.get(offset_bytes as usize..).unwrap_or_default();
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn len_bytes(&self) -> Result<u64> {
        Ok(self.0.len() as u64)
    }
}

pub(super) const SALT: u64 = 0x5eed_5a17;

fn path() -> PathBuf {
    PathBuf::from("test.sst")
}

pub(super) fn build(
    options: &KeyspaceOptions,
    entries: &[Entry],
    tombstones: &[RangeTombstone],
) -> (Vec<u8>, TableSummary) {
    let file = MemFile::default();
    let mut builder = TableBuilder::new(Box::new(file.clone()), &path(), options, 0, SALT);
    for (i, (key, trailer, value)) in entries.iter().enumerate() {
        builder.add(key, *trailer, value).expect("add");
        if let Some(tombstone) = tombstones.get(i) {
            builder.add_range_tombstone(tombstone);
        }
    }
    tombstones.iter().skip(entries.len()).for_each(|t| builder.add_range_tombstone(t));
    let summary = builder.finish().expect("finish");
    let bytes = file.bytes();
    assert_eq!(bytes.len() as u64, summary.file_bytes);
    (bytes, summary)
}

pub(super) fn context(cache_bytes: u64, pin_bytes_max: u64) -> TableContext {
    TableContext {
        cache: Arc::new(BlockCache::new(cache_bytes)),
        number: 1,
        counters: Arc::new(TableCounters::new()),
        pin_bytes_max,
    }
}

pub(super) fn open_in(
    bytes: Vec<u8>,
    expected_bytes: u64,
    options: &KeyspaceOptions,
    context: &TableContext,
) -> Result<Arc<TableReader>> {
    let file = TableFile::new(Arc::new(Bytes(bytes)), &path(), expected_bytes, SALT);
    TableReader::open(file, options, context).map(Arc::new)
}

pub(super) fn open(bytes: Vec<u8>, options: &KeyspaceOptions) -> Result<Arc<TableReader>> {
    let len = bytes.len() as u64;
    open_in(bytes, len, options, &context(1 << 20, u64::MAX))
}

pub(super) fn sorted(order: &KeyOrder, mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by(|a, b| order.compare_internal((&a.0, a.1), (&b.0, b.1)));
    entries.dedup_by(|a, b| order.compare_internal((&a.0, a.1), (&b.0, b.1)).is_eq());
    entries
}

pub(super) fn random_entries(random: &mut Random, order: &KeyOrder, count: u64) -> Vec<Entry> {
    let distinct = 1 + count / (1 + random.below(4));
    let style = random.below(4);
    let entries = (0..count)
        .map(|_| {
            let number = mix64(random.below(distinct)) % (10 * distinct);
            let mut key = match style {
                0 => format!("{number:016}").into_bytes(),
                1 => format!("{number:x}").into_bytes(),
                2 => number.to_be_bytes()[8 - (1 + number as usize % 8)..].to_vec(),
                _ => format!("a-long-prefix-that-all-keys-share/{number}").into_bytes(),
            };
            if random.below(2) == 0 {
                key.make_ascii_uppercase();
            }
            let seq = if style == 0 { random.below(20) } else { random.below(1 << 40) };
            let kind = if random.below(5) == 0 { Kind::Delete } else { Kind::Put };
            let longest = if random.below(50) == 0 { 3_000 } else { 40 };
            let len = random.below(longest) as usize;
            let value = (0..len).map(|i| (number as usize + i / 4) as u8).collect();
            (key, Trailer::new(seq, kind), value)
        })
        .collect();
    sorted(order, entries)
}

pub(super) fn random_options(random: &mut Random) -> KeyspaceOptions {
    let mut pick = |n: u64| random.below(n) as usize;
    KeyspaceOptions {
        block_bytes: [512, 600, 1_024, 4_096, 65_536][pick(5)],
        restart_interval: [1, 2, 8, 16, 256][pick(5)],
        index_partition_bytes: [1, 30, 200, 65_536][pick(4)],
        compression: vec![
            [Compression::None, Compression::Lz4, Compression::Zstd { level: 1 }][pick(3)],
        ],
        filter: match pick(17) as u32 {
            0..5 => Filter::None,
            bits_per_key => Filter::Bloom { bits_per_key },
        },
        order: match pick(4) {
            0 => KeyOrder::Custom(Arc::new(Reverse)),
            1 => KeyOrder::Custom(Arc::new(CaseBlind)),
            _ => KeyOrder::Bytewise,
        },
        run_index: pick(2) == 0,
        ..KeyspaceOptions::default()
    }
}

fn check(cursor: &impl Cursor, expected: Option<&Entry>, what: &str) {
    assert_eq!(cursor.valid(), expected.is_some(), "{what}: valid");
    if let Some((key, trailer, value)) = expected {
        assert_eq!((cursor.key(), cursor.trailer()), (&key[..], *trailer), "{what}: key");
        assert!(cursor.value() == value, "{what}: value");
    }
}

/// A target near the entries, or anywhere.
fn target(random: &mut Random, entries: &[Entry]) -> (Vec<u8>, Trailer) {
    let (mut key, mut trailer, _) = entries[random.below(entries.len() as u64) as usize].clone();
    match random.below(6) {
        0 => key.push(random.next() as u8),
        1 => drop(key.pop()),
        2 => key = random.next().to_le_bytes()[..random.below(8) as usize].to_vec(),
        3 => trailer = Trailer(random.next()),
        4 => trailer = Trailer(trailer.0.wrapping_add(random.below(3)).wrapping_sub(1)),
        _ => {}
    }
    (key, trailer)
}

fn compare_with_model(
    random: &mut Random,
    table: &Arc<TableReader>,
    options: &KeyspaceOptions,
    entries: &[Entry],
) {
    let order = &options.order;
    let cursor_options = match random.below(4) {
        0 => CursorOptions::compaction(512 << 10),
        1 => CursorOptions { fill_cache: false, readahead_bytes_min: 700, ..Default::default() },
        2 => CursorOptions { readahead_bytes_max: 0, ..Default::default() },
        _ => CursorOptions::default(),
    };
    let mut cursor = table.cursor(cursor_options);
    cursor.seek_to_first().expect("first");
    for entry in entries {
        check(&cursor, Some(entry), "forward");
        cursor.next().expect("next");
    }
    check(&cursor, None, "behind the last");
    cursor.seek_to_last().expect("last");
    for entry in entries.iter().rev() {
        check(&cursor, Some(entry), "backward");
        cursor.prev().expect("prev");
    }
    check(&cursor, None, "before the first");
    let mut last_offset = (Vec::new(), table.approximate_offset(b""));
    for _ in 0..60 {
        let (key, trailer) = target(random, entries);
        let at = entries
            .partition_point(|e| order.compare_internal((&e.0, e.1), (&key, trailer)).is_lt());
        cursor.seek(&key, trailer).expect("seek");
        check(&cursor, entries.get(at), "seek");
        let seq = trailer.seq();
        let want = entries
            .iter()
            .filter(|e| order.same(&e.0, &key) && e.1.seq() <= seq)
            .max_by_key(|e| e.1);
        let got = table.get(&key, hash64(&key), seq, None).expect("get");
        assert_eq!(
            got.map(|(t, v)| (t, v.to_vec())),
            want.map(|e| (e.1, e.2.clone())),
            "get {:?} at {seq}",
            key.escape_ascii().to_string()
        );
        cursor.seek_before(&key, trailer).expect("seek before");
        check(&cursor, at.checked_sub(1).map(|i| &entries[i]), "seek before");
        let mut here = at.wrapping_sub(1);
        for _ in 0..random.below(60) {
            if !cursor.valid() {
                break;
            }
            let forward = random.below(2) == 0;
            let moved = if forward { cursor.next() } else { cursor.prev() };
            moved.expect("moves");
            here = if forward { here + 1 } else { here.wrapping_sub(1) };
            check(&cursor, entries.get(here), "zigzag");
        }
        let offset = table.approximate_offset(&key);
        match order.compare(&last_offset.0, &key) {
            Ordering::Less => assert!(last_offset.1 <= offset),
            Ordering::Greater => assert!(last_offset.1 >= offset),
            Ordering::Equal => {}
        }
        last_offset = (key, offset);
    }
}

#[test]
fn tables_agree_with_a_sorted_list() {
    let mut random = Random(2026);
    for round in 0..250 {
        let options = random_options(&mut random);
        let count = 1 + random.below(if round % 10 == 0 { 6_000 } else { 300 });
        let entries = random_entries(&mut random, &options.order, count);
        let (bytes, summary) = build(&options, &entries, &[]);
        let context = match random.below(3) {
            0 => context(1 << 20, u64::MAX),
            1 => context(1 << 20, 0),
            _ => context(10_000, 0),
        };
        let len = summary.file_bytes;
        let table = open_in(bytes, len, &options, &context).expect("open");
        table.verify().expect("verify");
        compare_with_model(&mut random, &table, &options, &entries);
        assert_eq!(summary.entries, entries.len() as u64);
        assert_eq!(summary.smallest_key, entries[0].0);
        assert_eq!(summary.largest_key, entries[entries.len() - 1].0);
        assert!(!summary.largest_exclusive);
        let seqs = || entries.iter().map(|e| e.1.seq());
        assert_eq!((Some(summary.seq_min), Some(summary.seq_max)), (seqs().min(), seqs().max()));
        let dumped: u64 = table
            .data_blocks()
            .map(|block| {
                let mut records = block.records().expect("readable");
                records.seek_to_first().expect("first");
                let mut count = 0;
                while records.valid() {
                    count += 1;
                    records.next().expect("next");
                }
                count
            })
            .sum();
        assert_eq!(dumped, summary.entries);
        assert!(context.cache.usage_bytes() <= context.cache.capacity_bytes());
    }
}

#[test]
fn versions_of_one_key_over_many_blocks_and_partitions() {
    let options = KeyspaceOptions {
        block_bytes: 512,
        index_partition_bytes: 40,
        ..KeyspaceOptions::default()
    };
    let versions = 500u64;
    let mut entries: Vec<Entry> = Vec::new();
    for key in [&b"hot"[..], b"hotter", b"warm"] {
        for seq in (1..=versions).rev() {
            let value = [key, &seq.to_be_bytes()].concat();
            entries.push((key.to_vec(), Trailer::new(seq * 2, Kind::Put), value));
        }
    }
    let (bytes, _) = build(&options, &entries, &[]);
    let table = open(bytes, &options).expect("open");
    assert!(table.properties().partitions > 3 && table.properties().data_blocks > 30);
    table.verify().expect("verify");
    for seq in 0..=2 * versions + 1 {
        for key in [&b"hot"[..], b"hotter", b"warm"] {
            let got = table.get(key, hash64(key), seq, None).expect("get");
            let want = (seq >= 2).then_some(seq / 2 * 2);
            assert_eq!(got.as_ref().map(|(t, _)| t.seq()), want, "{seq}");
            if let Some((_, value)) = got {
                assert_eq!(value, [key, &(seq / 2).to_be_bytes()].concat());
            }
        }
    }
    compare_with_model(&mut Random(3), &table, &options, &entries);
}

#[test]
fn an_overridden_sequence_number_is_read_everywhere() {
    let options = KeyspaceOptions { block_bytes: 512, ..KeyspaceOptions::default() };
    let stored: Vec<Entry> = (0..300u64)
        .map(|i| (format!("{i:05}").into_bytes(), Trailer::new(0, Kind::Put), vec![i as u8; 9]))
        .collect();
    let tombstone = RangeTombstone { start: (*b"00100").into(), end: (*b"00200").into(), seq: 0 };
    let (bytes, _) = build(&options, &stored, &[tombstone]);
    let table = open(bytes, &options).expect("open");
    let seen: Vec<Entry> =
        stored.iter().map(|e| (e.0.clone(), Trailer::new(70, Kind::Put), e.2.clone())).collect();
    let options = CursorOptions { seq_override: Some(70), ..CursorOptions::default() };
    let mut cursor = table.cursor(options);
    for (i, entry) in seen.iter().enumerate() {
        let get = |seq| table.get(&entry.0, hash64(&entry.0), seq, Some(70)).expect("get");
        assert_eq!(get(70).map(|(t, v)| (t, v.to_vec())), Some((entry.1, entry.2.clone())));
        assert!(get(69).is_none());
        for (seq, at) in [(71, i), (70, i), (69, i + 1)] {
            cursor.seek(&entry.0, Trailer::seek(seq)).expect("seek");
            check(&cursor, seen.get(at), "seek");
            cursor.seek_before(&entry.0, Trailer::seek(seq)).expect("seek before");
            check(&cursor, at.checked_sub(1).map(|i| &seen[i]), "seek before");
        }
    }
    let order = KeyOrder::Bytewise;
    assert_eq!(table.range_tombstones().covering(&order, b"00150", 99), Some(0));
    assert_eq!(table.range_tombstones_at(70).covering(&order, b"00150", 99), Some(70));
}

#[test]
fn range_tombstones_widen_the_bounds() {
    let options = KeyspaceOptions::default();
    let range = |a: &str, b: &str, seq| RangeTombstone {
        start: a.as_bytes().into(),
        end: b.as_bytes().into(),
        seq,
    };
    let point = |key: &str, seq| (key.into(), Trailer::new(seq, Kind::Put), b"v".to_vec());
    let cases = [
        (vec![], vec![range("c", "f", 5), range("b", "d", 9)], "b", "f", true, (5, 9)),
        (vec![point("e", 3)], vec![range("c", "f", 5)], "c", "f", true, (3, 5)),
        (vec![point("f", 7)], vec![range("c", "f", 5)], "c", "f", false, (5, 7)),
        (vec![point("a", 7), point("z", 1)], vec![range("c", "f", 5)], "a", "z", false, (1, 7)),
        (
            vec![point("a", 7)],
            vec![range("f", "f", 1), range("g", "f", 1)],
            "a",
            "a",
            false,
            (7, 7),
        ),
    ];
    for (points, ranges, smallest, largest, exclusive, seqs) in cases {
        let (bytes, summary) = build(&options, &points, &ranges);
        assert_eq!(summary.smallest_key, smallest.as_bytes());
        assert_eq!(summary.largest_key, largest.as_bytes());
        assert_eq!(summary.largest_exclusive, exclusive);
        assert_eq!((summary.seq_min, summary.seq_max), seqs);
        let table = open(bytes, &options).expect("open");
        table.verify().expect("verify");
        let live = ranges.iter().filter(|r| r.start < r.end).count() as u64;
        assert_eq!(table.properties().range_tombstones, live);
        assert_eq!(table.range_tombstones().is_empty(), live == 0);
        let mut cursor = table.cursor(CursorOptions::default());
        cursor.seek_to_first().expect("first");
        assert_eq!(cursor.valid(), !points.is_empty());
    }
}

fn specimen() -> (KeyspaceOptions, Vec<Entry>, Vec<u8>) {
    let options = KeyspaceOptions {
        block_bytes: 512,
        restart_interval: 4,
        index_partition_bytes: 20,
        compression: vec![Compression::Lz4],
        run_index: true,
        ..KeyspaceOptions::default()
    };
    let mut random = Random(5);
    let entries: Vec<Entry> = (0..90u64)
        .map(|i| {
            let kind = if i % 7 == 0 { Kind::Delete } else { Kind::Put };
            let value = match i % 3 {
                0 => vec![i as u8; 20],
                _ => (0..20).map(|_| random.next() as u8).collect(),
            };
            (format!("key-{:03}", i / 2).into_bytes(), Trailer::new(200 - i, kind), value)
        })
        .collect();
    let tombstone = RangeTombstone { start: (*b"a").into(), end: (*b"b").into(), seq: 3 };
    let (bytes, _) = build(&options, &entries, &[tombstone]);
    assert!(bytes.len() <= 16 << 10, "{}", bytes.len());
    (options, entries, bytes)
}

/// Opens damaged bytes: every answer is right or an error that says corruption, and something
/// notices.
fn expect_noticed(
    damaged: Vec<u8>,
    expected_bytes: u64,
    options: &KeyspaceOptions,
    entries: &[Entry],
    what: &str,
) {
    let corrupt = |error: &Error| {
        assert!(error.is_corruption(), "{what}: {error}");
        assert!(error.to_string().contains("test.sst"), "{what}: {error}");
    };
    let context = context(1 << 20, u64::MAX);
    let table = match open_in(damaged, expected_bytes, options, &context) {
        Ok(table) => table,
        Err(error) => return corrupt(&error),
    };
    match table.verify() {
        Ok(()) => panic!("{what}: nothing noticed"),
        Err(error) => corrupt(&error),
    }
    for entry in entries.iter().step_by(5) {
        let got = table.get(&entry.0, hash64(&entry.0), entry.1.seq(), None);
        match got {
            Ok(got) => {
                let (trailer, value) = got.expect("the key is there");
                assert_eq!((trailer, &value[..]), (entry.1, &entry.2[..]), "{what}");
            }
            Err(error) => corrupt(&error),
        }
    }
    let mut cursor = table.cursor(CursorOptions::compaction(512 << 10));
    let mut moved = cursor.seek_to_first();
    for entry in entries {
        if let Err(error) = &moved {
            return corrupt(error);
        }
        check(&cursor, Some(entry), what);
        moved = cursor.next();
    }
}

#[test]
fn every_bit_flip_is_noticed() {
    let (options, entries, bytes) = specimen();
    let len = bytes.len() as u64;
    expect_noticed(bytes[1..].to_vec(), len - 1, &options, &entries, "no first byte");
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        expect_noticed(damaged, len, &options, &entries, &format!("bit {bit}"));
    }
}

#[test]
fn every_truncation_is_noticed() {
    let (options, entries, bytes) = specimen();
    let len = bytes.len() as u64;
    for cut in 0..bytes.len() {
        let what = format!("cut at {cut}");
        // As the manifest would see it, and as if the manifest agreed.
        expect_noticed(bytes[..cut].to_vec(), len, &options, &entries, &what);
        expect_noticed(bytes[..cut].to_vec(), cut as u64, &options, &entries, &what);
    }
    let mut longer = bytes.clone();
    longer.push(0);
    expect_noticed(longer, len, &options, &entries, "one byte more");
}

#[test]
fn zeroed_pieces_are_noticed() {
    let (options, entries, bytes) = specimen();
    for start in (0..bytes.len()).step_by(64) {
        let mut damaged = bytes.clone();
        let end = (start + 512).min(damaged.len());
        damaged[start..end].fill(0);
        expect_noticed(damaged, bytes.len() as u64, &options, &entries, &format!("zero {start}"));
    }
}

#[test]
fn blocks_in_the_wrong_place_are_noticed() {
    // All blocks have the same length, so that swapping two leaves everything else intact.
    let options = KeyspaceOptions {
        block_bytes: 512,
        restart_interval: 1,
        compression: vec![Compression::None],
        ..KeyspaceOptions::default()
    };
    let entries: Vec<Entry> = (0..200u64)
        .map(|i| (format!("{i:08}").into_bytes(), Trailer::new(1, Kind::Put), vec![i as u8; 50]))
        .collect();
    let (bytes, _) = build(&options, &entries, &[]);
    let table = open(bytes.clone(), &options).expect("open");
    let handles: Vec<_> = table.data_blocks().map(|b| b.handle).collect();
    let whole = |i: usize| {
        let start = handles[i].offset_bytes as usize;
        start..start + handles[i].whole_bytes()
    };
    assert_eq!(whole(3).len(), whole(5).len());
    let mut swapped = bytes.clone();
    swapped[whole(3)].copy_from_slice(&bytes[whole(5)]);
    swapped[whole(5)].copy_from_slice(&bytes[whole(3)]);
    let len = bytes.len() as u64;
    expect_noticed(swapped.clone(), len, &options, &entries, "swapped");

    let table = open(swapped, &options).expect("open");
    let salvaged: Vec<_> = table.data_blocks().collect();
    assert_eq!(salvaged.len(), handles.len());
    for (i, block) in salvaged.iter().enumerate() {
        assert_eq!(block.handle, handles[i]);
        assert_eq!(block.block.is_err(), i == 3 || i == 5, "block {i}");
        if let Err(Error::Corruption { offset_bytes, .. }) = &block.block {
            assert_eq!(*offset_bytes, handles[i].offset_bytes);
        }
    }

    // The same block of another file.
    let file = MemFile::default();
    let mut other = TableBuilder::new(Box::new(file.clone()), &path(), &options, 0, SALT + 1);
    entries.iter().for_each(|e| other.add(&e.0, e.1, &e.2).expect("add"));
    other.finish().expect("finish");
    let mut mixed = bytes.clone();
    mixed[whole(2)].copy_from_slice(&file.bytes()[whole(2)]);
    expect_noticed(mixed, len, &options, &entries, "a block of another file");
    let stale = open(file.bytes(), &options).expect_err("another file");
    assert!(stale.is_corruption() && stale.to_string().contains("another file"), "{stale}");
    let identity = read_identity(&Bytes(file.bytes()), &path()).expect("identity");
    assert_eq!((identity.file_bytes, identity.salt), (len, SALT + 1));
}

#[test]
fn another_order_is_refused() {
    let (options, _, bytes) = specimen();
    let reversed =
        KeyspaceOptions { order: KeyOrder::Custom(Arc::new(Reverse)), ..options.clone() };
    let error = open(bytes, &reversed).expect_err("another order");
    assert!(matches!(error, Error::Incompatible { .. }), "{error}");
}

#[test]
#[should_panic(expected = "strictly increasing order")]
fn records_out_of_order_are_a_bug_of_ours() {
    let entry = |key: &str| (key.into(), Trailer::new(1, Kind::Put), Vec::new());
    build(&KeyspaceOptions::default(), &[entry("b"), entry("a")], &[]);
}

struct LastByte;

impl FilterPolicy for LastByte {
    fn name(&self) -> &str {
        "test.last-byte"
    }

    fn build(&self, keys: &[&[u8]]) -> Vec<u8> {
        assert!(keys.windows(2).all(|w| w[0] < w[1]), "sorted, without repetition");
        keys.iter().filter_map(|k| k.last().copied()).collect()
    }

    fn may_contain(&self, filter: &[u8], key: &[u8]) -> bool {
        key.last().is_none_or(|b| filter.contains(b))
    }
}

#[test]
fn filters_spare_blocks_and_may_be_of_ones_own() {
    let own = KeyspaceOptions {
        filter: Filter::Custom(Arc::new(LastByte)),
        ..KeyspaceOptions::default()
    };
    let entries: Vec<Entry> = (0..1_000u64)
        .map(|i| (format!("{:06}", i * 2).into_bytes(), Trailer::new(5, Kind::Put), vec![1]))
        .collect();
    for options in [own, KeyspaceOptions::default()] {
        let (bytes, summary) = build(&options, &entries, &[]);
        let context = context(1 << 20, u64::MAX);
        let table = open_in(bytes, summary.file_bytes, &options, &context).expect("open");
        for i in 0..1_000u64 {
            let key = format!("{:06}", i * 2 + 1).into_bytes();
            assert!(table.get(&key, hash64(&key), SEQ_MAX, None).expect("get").is_none());
            let key = format!("{:06}", i * 2).into_bytes();
            assert!(table.get(&key, hash64(&key), SEQ_MAX, None).expect("get").is_some());
        }
        // Keys after the last are not in any partition.
        let total = |which| context.counters.total(which);
        assert!(total(TableCounter::FilterChecks) >= 1_999);
        assert!(total(TableCounter::FilterNegatives) > 950);
        assert_eq!(
            total(TableCounter::FilterNegatives) + total(TableCounter::FilterFalsePositives),
            total(TableCounter::FilterChecks) - 1_000
        );
    }
}

/// Knows the last letter of each key, whatever its case.
struct LastLetter;

impl FilterPolicy for LastLetter {
    fn name(&self) -> &str {
        "test.last-letter"
    }

    fn build(&self, keys: &[&[u8]]) -> Vec<u8> {
        keys.iter().filter_map(|k| k.last().map(u8::to_ascii_lowercase)).collect()
    }

    fn may_contain(&self, filter: &[u8], key: &[u8]) -> bool {
        key.last().is_none_or(|b| filter.contains(&b.to_ascii_lowercase()))
    }
}

#[test]
fn a_filter_of_ones_own_is_asked_in_an_order_of_ones_own_and_a_bloom_filter_is_not() {
    let order = KeyOrder::Custom(Arc::new(CaseBlind));
    let with = |filter| KeyspaceOptions { filter, order: order.clone(), ..Default::default() };
    let own = with(Filter::Custom(Arc::new(LastLetter)));
    let bloom = with(Filter::Bloom { bits_per_key: 10 });
    let entries: Vec<Entry> = ["Apple", "pear", "PLUM"]
        .map(|key| (key.into(), Trailer::new(5, Kind::Put), vec![1]))
        .to_vec();
    for (options, named, asked) in [(&own, "test.last-letter", 4), (&bloom, "none", 0)] {
        let (bytes, summary) = build(options, &entries, &[]);
        let context = context(1 << 20, u64::MAX);
        let table = open_in(bytes, summary.file_bytes, options, &context).expect("open");
        assert_eq!(table.properties().filter, named);
        for (key, there) in [("aPPLe", true), ("plum", true), ("melon", false), ("o", false)] {
            let found = table.get(key.as_bytes(), 0, SEQ_MAX, None).expect("get");
            assert_eq!(found.is_some(), there, "{key}");
        }
        table.verify().expect("verify");
        assert_eq!(context.counters.total(TableCounter::FilterChecks), asked);
        assert_eq!(context.counters.total(TableCounter::FilterNegatives), asked / 2);
    }
    // Under another name, or none, the table is read without a filter.
    let (bytes, _) = build(&own, &entries, &[]);
    for options in [&bloom, &with(Filter::Custom(Arc::new(LastByte)))] {
        let table = open(bytes.clone(), options).expect("open");
        assert!(table.get(b"PEAR", 0, SEQ_MAX, None).expect("get").is_some());
        // Who has the policy again must find it whole.
        let filter = table.top.partitions[0].filter.expect("a filter");
        let mut damaged = bytes.clone();
        damaged[filter.offset_bytes as usize + 3] ^= 1;
        let verified = open(damaged, options).expect("open").verify();
        assert!(matches!(verified, Err(Error::Corruption { .. })), "{verified:?}");
    }
}

#[test]
fn a_partition_ends_where_its_filter_is_long() {
    let options = KeyspaceOptions {
        filter: Filter::Bloom { bits_per_key: 64 },
        index_partition_bytes: 16 << 20,
        ..KeyspaceOptions::default()
    };
    let entry = |number: u32| (number.to_be_bytes().to_vec(), Trailer::new(7, Kind::Put), vec![]);
    let entries: Vec<Entry> = (0..100_000).map(entry).collect();
    let (bytes, _) = build(&options, &entries, &[]);
    let table = open(bytes, &options).expect("open");
    table.verify().expect("verify");
    let filters = table.top.partitions.iter().map(|p| p.filter.expect("a filter").stored_bytes);
    let filters: Vec<u32> = filters.collect();
    assert_eq!(filters.len(), 4, "{filters:?}");
    assert!(filters.iter().all(|&bytes| bytes < 270 << 10), "{filters:?}");
}

/// Blocks at least as long as what is read ahead at first are not read one by one to the end.
#[test]
fn reading_ahead_grows_over_long_blocks() {
    let options =
        KeyspaceOptions { compression: vec![Compression::None], ..KeyspaceOptions::default() };
    let entry = |number: u8| (vec![number], Trailer::new(7, Kind::Put), vec![number; 20_000]);
    let entries: Vec<Entry> = (0..64).map(entry).collect();
    let (bytes, summary) = build(&options, &entries, &[]);
    let context = context(0, 0);
    let table = open_in(bytes, summary.file_bytes, &options, &context).expect("open");
    let walk = |back: bool| {
        let before = context.counters.total(TableCounter::Reads);
        let mut cursor = table.cursor(CursorOptions::default());
        if back { cursor.seek_to_last() } else { cursor.seek_to_first() }.expect("seek");
        let mut walked = 0;
        while cursor.valid() {
            walked += 1;
            if back { cursor.prev() } else { cursor.next() }.expect("step");
        }
        assert_eq!(walked, 64);
        context.counters.total(TableCounter::Reads) - before
    };
    for back in [false, true] {
        let reads = walk(back);
        assert!(reads < 20, "{reads} reads, {back}");
    }
}

#[test]
fn long_keys_and_values_and_an_index_that_cannot_blow_up() {
    let options = KeyspaceOptions { filter: Filter::None, ..KeyspaceOptions::default() };
    let entries: Vec<Entry> = (0..150u32)
        .map(|i| {
            let mut key = vec![b'p'; 40_000];
            key.extend_from_slice(&i.to_be_bytes());
            (key, Trailer::new(u64::from(i), Kind::Put), vec![i as u8; 5_000])
        })
        .chain((0..3u32).map(|i| {
            (vec![b'q', i as u8], Trailer::new(SEQ_MAX, Kind::Put), vec![i as u8; 3 << 20])
        }))
        .collect();
    for compression in [Compression::None, Compression::Zstd { level: 3 }] {
        let options = KeyspaceOptions { compression: vec![compression], ..options.clone() };
        let (bytes, _) = build(&options, &entries, &[]);
        let table = open(bytes, &options).expect("open");
        table.verify().expect("verify");
        compare_with_model(&mut Random(8), &table, &options, &entries);
        let key = &entries[151].0;
        let (_, value) = table.get(key, hash64(key), SEQ_MAX, None).expect("get").expect("there");
        assert!(value == entries[151].2);
    }
}

#[test]
fn many_threads_read_through_a_cache_that_is_too_small() {
    let options = KeyspaceOptions { block_bytes: 512, ..KeyspaceOptions::default() };
    let entries: Vec<Entry> = (0..20_000u64)
        .map(|i| (format!("{i:08}").into_bytes(), Trailer::new(i, Kind::Put), vec![i as u8; 60]))
        .collect();
    let (bytes, summary) = build(&options, &entries, &[]);
    for pin in [0, u64::MAX] {
        let context = context(300_000, pin);
        let table = open_in(bytes.clone(), summary.file_bytes, &options, &context).expect("open");
        std::thread::scope(|scope| {
            for t in 0..4 {
                let (table, entries, context) = (&table, &entries, &context);
                scope.spawn(move || {
                    let mut random = Random(t);
                    for _ in 0..10_000 {
                        // Half of the gets go to a few keys.
                        let span = if random.below(2) == 0 { 300 } else { entries.len() as u64 };
                        let entry = &entries[random.below(span) as usize];
                        let hash = hash64(&entry.0);
                        let got = table.get(&entry.0, hash, SEQ_MAX, None).expect("get");
                        let (trailer, value) = got.expect("there");
                        assert_eq!((trailer, &value[..]), (entry.1, &entry.2[..]));
                        assert!(context.cache.usage_bytes() <= context.cache.capacity_bytes());
                    }
                });
            }
        });
        if pin > 0 {
            // No slot keeps a block that the cache has dropped.
            let full: usize = (0..table.properties().partitions as usize)
                .map(|p| {
                    let index = table.index(p).expect("index");
                    (0..index.len()).filter(|&i| index.slot(i).is_full()).count()
                })
                .sum();
            assert!(full > 0 && full <= context.cache.entries(), "{full} slots are full");
            context.cache.set_capacity_bytes(0);
            let index = table.index(0).expect("index");
            assert!((0..index.len()).all(|i| !index.slot(i).is_full()));
            // What there is no room for is read, and stays nowhere.
            table.get(&entries[0].0, hash64(&entries[0].0), SEQ_MAX, None).expect("get");
            assert!((0..index.len()).all(|i| !index.slot(i).is_full()));
        }
    }
}

/// What is pinned once all was read, the most that was promised, and what all of it takes.
fn pinned(entries: &[Entry], options: &KeyspaceOptions) -> (u64, u64, u64) {
    let (bytes, summary) = build(options, entries, &[]);
    let context = context(64 << 20, u64::MAX);
    let table = open_in(bytes, summary.file_bytes, options, &context).expect("open");
    let before = table.memory_bytes();
    for _ in 0..2 {
        for (key, trailer, value) in entries {
            let got =
                table.get(key, hash64(key), trailer.seq(), None).expect("get").expect("there");
            assert_eq!((got.0, &got.1[..]), (*trailer, &value[..]));
        }
    }
    let pinned = table.memory_bytes() - before;
    let partitions = 0..table.properties().partitions as usize;
    let whole = partitions.map(|p| {
        let filter = table.top.partitions[p].filter.map(|f| table.read_filter(f).expect("filter"));
        let filter_bytes = filter.map_or(0, |filter| filter.memory_bytes());
        table.index(p).expect("index").memory_bytes() + filter_bytes
    });
    (pinned, table.pin_limit_bytes(), whole.sum::<usize>() as u64)
}

#[test]
fn all_of_a_table_is_pinned_and_no_more_was_promised_than_it_takes() {
    // Keys as long as most are, and such of 300 bytes that differ in the last ten: whole, they take
    // many times what they take in the file.
    for (prefix, number) in [(6, 16_000), (290, 20_000), (6, 400)] {
        for filter in [Filter::None, KeyspaceOptions::default().filter] {
            let key = |i: u64| [&vec![b'k'; prefix][..], format!("{i:010}").as_bytes()].concat();
            let put = Trailer::new(5, Kind::Put);
            let entries: Vec<Entry> = (0..number).map(|i| (key(i), put, vec![1; 900])).collect();
            let compression = vec![Compression::None];
            let options = KeyspaceOptions { compression, filter, ..KeyspaceOptions::default() };
            let (pinned, most, whole) = pinned(&entries, &options);
            assert_eq!(pinned, whole, "{prefix}: of {most} bytes that were promised");
            assert!(most <= pinned + pinned / 100 + 64, "{prefix}: {pinned} of {most} bytes");
        }
    }
}

#[test]
fn no_more_is_pinned_than_was_promised() {
    // One key in all its versions: each separator has a trailer, which no promise was made for.
    let entries: Vec<Entry> = (0..20_000u64)
        .map(|i| (b"key".to_vec(), Trailer::new(20_000 - i, Kind::Put), vec![1; 900]))
        .collect();
    let (pinned, most, whole) = pinned(&entries, &KeyspaceOptions::default());
    assert!(most / 2 < pinned && pinned <= most && most < whole, "{pinned}, {most}, {whole}");
}

#[test]
fn a_block_that_two_readers_put_in_counts_once() {
    let entries: Vec<Entry> = (0..100u64)
        .map(|i| (format!("{i:04}").into_bytes(), Trailer::new(5, Kind::Put), vec![1; 100]))
        .collect();
    let options = KeyspaceOptions::default();
    let (bytes, summary) = build(&options, &entries, &[]);
    let context = context(24 << 20, u64::MAX);
    let table = open_in(bytes, summary.file_bytes, &options, &context).expect("open");
    let index = table.index(0).expect("index");
    let block = table.load_data(index.handle(0)).expect("a block");
    let before = context.cache.entries();
    table.cache_data(&index, 0, &block);
    let (entries, bytes) = (context.cache.entries(), context.cache.usage_bytes());
    assert!(entries == before + 1 && bytes > block.heap_bytes() as u64);
    table.cache_data(&index, 0, &table.load_data(index.handle(0)).expect("again"));
    assert_eq!((context.cache.entries(), context.cache.usage_bytes()), (entries, bytes));
    assert!(table.cached_data(&index, 0).is_some());
    context.cache.set_capacity_bytes(0);
    assert!(!index.slot(0).is_full());
}

#[test]
fn what_is_cached_stays_when_its_table_is_closed_and_leaves_with_its_index() {
    let entries: Vec<Entry> = (0..20_000u64)
        .map(|i| (format!("{i:08}").into_bytes(), Trailer::new(i, Kind::Put), vec![i as u8; 60]))
        .collect();
    let (bytes, summary) = build(&KeyspaceOptions::default(), &entries, &[]);
    // Nothing is pinned, so that indexes are in the cache.
    let context = context(24 << 20, 0);
    let open = || open_in(bytes.clone(), summary.file_bytes, &KeyspaceOptions::default(), &context);
    let get_all = || {
        let before = context.counters.total(TableCounter::BlockCacheMisses);
        let table = open().expect("open");
        for (key, _, value) in &entries {
            let got = table.get(key, hash64(key), SEQ_MAX, None).expect("get").expect("there");
            assert_eq!(got.1[..], value[..]);
        }
        context.counters.total(TableCounter::BlockCacheMisses) - before
    };
    let blocks = get_all();
    assert!(blocks > 200);
    let (cached, usage) = (context.cache.entries() as u64, context.cache.usage_bytes());
    assert!(cached > blocks && usage > 1_000_000, "{cached} entries of {usage} bytes");
    assert_eq!(get_all(), 0, "another reader of the same table");
    // As if there were so many other tables that the indexes had to leave.
    context.cache.set_capacity_bytes(0);
    context.cache.set_capacity_bytes(24 << 20);
    assert_eq!(context.cache.usage_bytes(), 0);
    assert_eq!(get_all(), blocks);
}

#[test]
fn what_indexes_and_filters_no_longer_take_is_for_blocks_again() {
    let entries: Vec<Entry> = (0..100_000u64)
        .map(|i| (format!("{i:08}").into_bytes(), Trailer::new(i, Kind::Put), vec![i as u8; 60]))
        .collect();
    let whole = KeyspaceOptions { index_partition_bytes: 16 << 20, ..KeyspaceOptions::default() };
    // All of it in one index, which is heavier than a shard of what parts may have; and in several,
    // which are not.
    for (options, are_kept) in [(whole, false), (KeyspaceOptions::default(), true)] {
        let options = KeyspaceOptions { block_bytes: 512, ..options };
        let (bytes, summary) = build(&options, &entries, &[]);
        let context = context(1 << 20, 0);
        let table = open_in(bytes, summary.file_bytes, &options, &context).expect("open");
        let cache = &context.cache;
        let parts_bytes = || cache.capacity_bytes() - cache.blocks_capacity_bytes();
        assert_eq!(parts_bytes(), 0);
        for (key, _, value) in entries.iter().step_by(100) {
            let got = table.get(key, hash64(key), SEQ_MAX, None).expect("get").expect("there");
            assert_eq!(got.1[..], value[..]);
            assert!(cache.usage_bytes() <= cache.capacity_bytes());
        }
        let taken = parts_bytes();
        // A filter takes 125 kB.
        assert_eq!(taken > 200 << 10, are_kept, "{taken}");
        cache.forget_files(&[context.number + 1]);
        assert!((taken / 2..=taken).contains(&parts_bytes()), "another file");
        cache.forget_files(&[context.number]);
        assert_eq!((parts_bytes(), cache.entries()), (0, cache.blocks()));
        // Two readers have decoded the same part: it counts once.
        let index = table.index_in_passing(0).expect("index");
        let key = CacheKey { file: context.number, offset_bytes: 0 };
        (0..2).for_each(|_| cache.insert_part(key, CachedPart::Index(index.clone())));
        let weight = if are_kept { weight(&CachedPart::Index(index)) } else { 0 };
        assert!((weight..weight + 64).contains(&parts_bytes()), "{weight}, {}", parts_bytes());
    }
}

#[test]
fn indexes_and_filters_have_three_quarters_of_the_cache_at_the_most() {
    let options = KeyspaceOptions { block_bytes: 512, ..KeyspaceOptions::default() };
    let entries: Vec<Entry> = (0..200_000u64)
        .map(|i| (format!("{i:030}").into_bytes(), Trailer::new(i, Kind::Put), vec![i as u8; 60]))
        .collect();
    let (bytes, summary) = build(&options, &entries, &[]);
    let context = context(1 << 20, 0);
    let table = open_in(bytes, summary.file_bytes, &options, &context).expect("open");
    let partitions = 0..table.properties().partitions as usize;
    let of_index = |p| table.index_in_passing(p).expect("index").memory_bytes();
    let wanted: usize = partitions.map(of_index).sum();
    assert!(wanted > 2 << 20, "{wanted} bytes of indexes");
    for entry in &entries {
        let got = table.get(&entry.0, hash64(&entry.0), SEQ_MAX, None).expect("get");
        assert!(got.is_some_and(|(trailer, value)| trailer == entry.1 && value[..] == entry.2[..]));
        assert!(context.cache.usage_bytes() <= context.cache.capacity_bytes());
    }
    let blocks = context.cache.blocks();
    assert!(blocks > 256, "a quarter of the cache is 512 blocks of 512 bytes: {blocks}");
}

#[test]
fn a_block_is_not_kept_while_memory_for_it_is_promised() {
    const COUNT: u64 = 80;
    let options =
        KeyspaceOptions { compression: vec![Compression::None], ..KeyspaceOptions::default() };
    let entries: Vec<Entry> = (0..COUNT)
        .map(|i| {
            (format!("{i:04}").into_bytes(), Trailer::new(5, Kind::Put), vec![i as u8; 100 << 10])
        })
        .collect();
    let (bytes, summary) = build(&options, &entries, &[]);
    let context = context(24 << 20, u64::MAX);
    let table = open_in(bytes, summary.file_bytes, &options, &context).expect("open");
    context.cache.heap().listen(|| true);
    let hits_of = |read: &dyn Fn()| {
        let before = context.counters.total(TableCounter::BlockCacheHits);
        read();
        context.counters.total(TableCounter::BlockCacheHits) - before
    };
    let get_all = || {
        for (key, trailer, value) in &entries {
            let got = table.get(key, hash64(key), SEQ_MAX, None).expect("get").expect("there");
            assert_eq!((got.0, &got.1[..]), (*trailer, &value[..]));
        }
    };
    let scan = || {
        let mut cursor = table.cursor(CursorOptions::default());
        cursor.seek_to_first().expect("first");
        for entry in &entries {
            check(&cursor, Some(entry), "scan");
            cursor.next().expect("next");
        }
    };
    assert_eq!(hits_of(&get_all), 0);
    if context.cache.heap().taken_bytes() == 0 {
        return;
    }
    // Those that found room in the first chunk.
    let kept = hits_of(&get_all);
    assert!((10..30).contains(&kept), "{kept}");
    assert_eq!((hits_of(&scan), hits_of(&get_all)), (kept, kept));
    context.cache.heap().forget_promise();
    // Each chunk is promised anew.
    scan();
    let more = hits_of(&get_all);
    assert!((kept + 10..2 * kept + 10).contains(&more), "{kept}, then {more}");
    for _ in 0..10 {
        context.cache.heap().forget_promise();
        get_all();
    }
    assert_eq!(hits_of(&get_all), COUNT);
}

#[test]
fn a_table_on_the_real_file_system() {
    let env = Env::posix();
    let dir = std::env::temp_dir().join(format!("table-test-{:x}", env.entropy.next_u64()));
    env.vfs.create_dir_all(&dir).expect("directory");
    let path = dir.join("1.sst");
    let options = KeyspaceOptions::default();
    let entries = random_entries(&mut Random(4), &options.order, 20_000);
    let file = env.vfs.create(&path).expect("create");
    let mut builder = TableBuilder::new(file, &path, &options, 3, 99);
    entries.iter().for_each(|e| builder.add(&e.0, e.1, &e.2).expect("add"));
    let estimated = builder.estimated_bytes();
    let summary = builder.finish().expect("finish");
    assert!(summary.file_bytes.abs_diff(estimated) < 8_192, "{estimated} {summary:?}");
    let context = context(1 << 20, u64::MAX);
    let file = env.vfs.open(&path, Access::Random).expect("open");
    let file = TableFile::new(file, &path, summary.file_bytes, 99);
    let table = TableReader::open(file, &options, &context);
    let table = Arc::new(table.expect("open"));
    table.verify().expect("verify");
    compare_with_model(&mut Random(6), &table, &options, &entries);

    let before = context.counters.total(TableCounter::Reads);
    let mut cursor = table.cursor(CursorOptions::compaction(512 << 10));
    cursor.seek_to_first().expect("first");
    while cursor.valid() {
        cursor.next().expect("next");
    }
    let reads = context.counters.total(TableCounter::Reads) - before;
    assert!(reads <= 3 + summary.file_bytes / (400 << 10), "{reads} reads");
    drop((table, cursor));
    let abandoned =
        TableBuilder::new(env.vfs.create(&path).expect("create"), &path, &options, 0, 1);
    abandoned.abandon();
    env.vfs.remove(&path).expect("remove");
    env.vfs.remove_dir(Path::new(&dir)).expect("remove directory");
}

/// A file of which no read succeeds that takes in some of these bytes.
#[derive(Debug)]
struct Holed(Bytes, std::ops::Range<u64>);

impl ReadableFile for Holed {
    fn read_at(&self, offset_bytes: u64, buf: &mut [u8]) -> Result<usize> {
        if offset_bytes < self.1.end && offset_bytes + buf.len() as u64 > self.1.start {
            return Err(Error::io("read", &path(), std::io::Error::other("a hole")));
        }
        self.0.read_at(offset_bytes, buf)
    }

    fn len_bytes(&self) -> Result<u64> {
        self.0.len_bytes()
    }
}

/// Reading ahead, or past what is no record at all, may come upon what nobody asks for.
#[test]
fn what_cannot_be_read_is_told_where_it_is_asked_for() {
    let options = KeyspaceOptions {
        compression: vec![Compression::None],
        index_partition_bytes: 200,
        ..KeyspaceOptions::default()
    };
    let mut random = Random(11);
    let entries: Vec<Entry> = (0..2_000u32)
        .map(|number| {
            let value = (0..200).map(|_| random.next() as u8).collect();
            (number.to_be_bytes().to_vec(), Trailer::new(7, Kind::Put), value)
        })
        .collect();
    let (bytes, _) = build(&options, &entries, &[]);
    let open = |hole: std::ops::Range<u64>| {
        let len = bytes.len() as u64;
        let file = TableFile::new(Arc::new(Holed(Bytes(bytes.clone()), hole)), &path(), len, SALT);
        // Nothing is kept, so that everything is read.
        TableReader::open(file, &options, &context(0, 0)).map(Arc::new).expect("opens")
    };
    let whole = open(0..0);
    let filter = whole.top.partitions[1].filter.expect("a filter");
    let of_key = |key: &[u8]| whole.approximate_offset(key);
    let in_block = of_key(&entries[1_000].0) + 10;
    let ways = [CursorOptions::compaction(64 << 10), CursorOptions::default()];
    // Filters stand between blocks, and a walk needs none.
    let table = open(filter.offset_bytes..filter.offset_bytes + 1);
    for way in ways {
        let mut cursor = table.cursor(way);
        cursor.seek_to_first().expect("first");
        for entry in &entries {
            check(&cursor, Some(entry), "past a filter");
            cursor.next().expect("next");
        }
        check(&cursor, None, "behind the last");
    }
    let table = open(in_block..in_block + 1);
    for way in ways {
        let mut cursor = table.cursor(way);
        cursor.seek_to_first().expect("first");
        let mut passed = 0;
        let failed = loop {
            check(&cursor, Some(&entries[passed]), "before the hole");
            passed += 1;
            match cursor.next() {
                Ok(()) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(failed, Error::Io { .. }), "{failed}");
        assert_eq!(of_key(&entries[passed].0), of_key(&entries[1_000].0), "up to its block");
        let mut cursor = table.cursor(way);
        cursor.seek_to_last().expect("last");
        let mut left = entries.len();
        while of_key(&entries[left - 1].0) > in_block {
            left -= 1;
            check(&cursor, Some(&entries[left]), "behind the hole");
            let moved = cursor.prev();
            assert!(moved.is_ok() || of_key(&entries[left - 1].0) < in_block, "{moved:?}");
        }
        assert!(entries.len() - left > 900, "{left}");
    }
}
