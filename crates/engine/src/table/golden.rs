//! The hex examples of docs/format/block.md and docs/format/table.md, decoded and encoded again.

use super::filter::FilterBuilder;
use super::tests::{MemFile, open};
use super::{CursorOptions, FilterBlock, Probes, TableBuilder};
use crate::block::{Block, BlockBuilder, BlockCursor, Sealer, TRAILER_BYTES, open_payload};
use crate::cursor::Cursor;
use crate::options::{Compression, Filter, FilterPolicy, KeyspaceOptions};
use crate::range_tombstone::RangeTombstone;
use crate::run_index::DigestBuilder;
use esker_base::heap::{Heap, SharedBytes};
use esker_base::{KeyOrder, Kind, Trailer};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

const BLOCK_PAGE: &str = include_str!("../../../../docs/format/block.md");
const TABLE_PAGE: &str = include_str!("../../../../docs/format/table.md");

type Entry = (&'static [u8], Trailer, &'static [u8]);

const ENTRIES: [Entry; 4] = [
    (b"apple", Trailer::new(9, Kind::Put), b"red"),
    (b"apple", Trailer::new(4, Kind::Delete), b""),
    (b"apricot", Trailer::new(0, Kind::Put), b"orange"),
    (b"banana", Trailer::new(300, Kind::Put), b"yellow"),
];

/// The bytes of the first fenced block marked `hex`; what follows `;` on a line is a remark.
fn example(page: &str) -> Vec<u8> {
    nth_example(page, 1)
}

fn nth_example(page: &str, nth: usize) -> Vec<u8> {
    let from = page.split("```hex\n").nth(nth).expect("the page has a hex example");
    let text = from.split("```").next().expect("the example ends");
    text.lines()
        .flat_map(|line| line.split(';').next().unwrap_or_default().split_whitespace())
        .map(|byte| u8::from_str_radix(byte, 16).expect("two hex digits"))
        .collect()
}

fn expect_same(bytes: &[u8], example: &[u8]) {
    let mut text = String::new();
    for line in bytes.chunks(16) {
        for byte in line {
            write!(text, "{byte:02x} ").expect("a string takes all");
        }
        text.push('\n');
    }
    assert!(bytes == example, "the example should be:\n{text}");
}

#[test]
fn the_block_example_holds() {
    let mut builder = BlockBuilder::new(2);
    ENTRIES.iter().for_each(|(key, trailer, value)| builder.add(key, *trailer, value));
    let mut bytes = Vec::new();
    builder.finish(&mut bytes);
    let stored = Sealer::new().seal(&mut bytes, 0, Compression::None, 7, 0) as usize;
    expect_same(&bytes, &example(BLOCK_PAGE));

    let data: SharedBytes = example(BLOCK_PAGE)[..].into();
    assert_eq!(data.len(), stored + TRAILER_BYTES);
    let payload = open_payload(&Heap::global(), &data, 0, stored, 7, 0).expect("opens");
    let mut cursor = BlockCursor::new();
    cursor.set_block(Block::new(payload).expect("a block"));
    cursor.seek_to_first().expect("first");
    for (key, trailer, value) in ENTRIES {
        assert_eq!((cursor.key(), cursor.trailer(), cursor.value()), (key, trailer, value));
        cursor.next().expect("next");
    }
    assert!(!cursor.valid());
}

#[test]
fn the_table_example_holds() {
    let options = KeyspaceOptions {
        restart_interval: 2,
        filter: Filter::Bloom { bits_per_key: 10 },
        compression: vec![Compression::None],
        ..KeyspaceOptions::default()
    };
    let tombstone = RangeTombstone { start: (*b"c").into(), end: (*b"d").into(), seq: 301 };
    let file = MemFile::default();
    let path = Path::new("example.sst");
    // The salt that the other table tests open with.
    let salt = super::tests::SALT;
    let mut builder = TableBuilder::new(Box::new(file.clone()), path, &options, 0, salt);
    ENTRIES.iter().for_each(|(k, t, v)| builder.add(k, *t, v).expect("add"));
    builder.add_range_tombstone(&tombstone);
    builder.finish().expect("finish");
    expect_same(&file.bytes(), &example(TABLE_PAGE));

    let table = open(example(TABLE_PAGE), &options).expect("open");
    table.verify().expect("verify");
    let mut cursor = table.cursor(CursorOptions::default());
    cursor.seek_to_first().expect("first");
    for (key, trailer, value) in ENTRIES {
        assert_eq!((cursor.key(), cursor.trailer(), cursor.value()), (key, trailer, value));
        cursor.next().expect("next");
    }
    assert!(!cursor.valid());
    assert_eq!(table.range_tombstones().covering(&KeyOrder::Bytewise, b"ca", 400), Some(301));
}

#[test]
fn the_digest_example_holds() {
    let mut builder = DigestBuilder::default();
    for key in ["apple", "apricot jam", "banana", "banana split with cream", "cherry"] {
        builder.add(key.as_bytes());
    }
    let bytes: Vec<u8> = builder.finish().flatten().copied().collect();
    expect_same(&bytes, &nth_example(TABLE_PAGE, 2));
}

/// Keeps the last byte of each key.
struct LastLetter;

impl FilterPolicy for LastLetter {
    fn name(&self) -> &str {
        "last.letter"
    }

    fn build(&self, keys: &[&[u8]]) -> Vec<u8> {
        keys.iter().filter_map(|key| key.last().copied()).collect()
    }

    fn may_contain(&self, filter: &[u8], key: &[u8]) -> bool {
        key.last().is_none_or(|last| filter.contains(last))
    }
}

#[test]
fn the_example_of_a_filter_of_ones_own_holds() {
    let policy: Arc<dyn FilterPolicy> = Arc::new(LastLetter);
    let mut builder = FilterBuilder::new(Filter::Custom(policy.clone()));
    for key in ["apple", "pear", "plum"] {
        builder.add(key.as_bytes());
    }
    let mut bytes = Vec::new();
    assert!(builder.finish(&mut bytes));
    let example = nth_example(TABLE_PAGE, 3);
    expect_same(&bytes, &example);

    let filter = |policy| {
        FilterBlock::decode(&Heap::global(), &example, true, policy).expect("the example decodes")
    };
    let mut probes = Probes::new(0);
    let (asked, ignored) = (filter(Some(&policy)), filter(None));
    assert!(asked.may_contain(&mut probes, b"lime"));
    assert!(!asked.may_contain(&mut probes, b"fig"));
    assert!(ignored.may_contain(&mut probes, b"fig"));
}
