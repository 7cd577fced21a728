//! Tables whose large records were copied, block by block, beside those that were written record by
//! record.

use super::tests::{Entry, MemFile, SALT, build, open, random_entries, random_options, sorted};
use super::{CursorOptions, Keep, TableBuilder, TableReader};
use crate::cursor::Cursor;
use crate::options::{Compression, KeyspaceOptions};
use crate::random::Random;
use esker_base::{Kind, Trailer};
use std::path::Path;
use std::sync::Arc;

const OTHER_SALT: u64 = 0x07e5;

fn keep_for(options: &KeyspaceOptions) -> CursorOptions {
    let keep = Keep {
        compression: options.compression_at(0),
        payload_bytes_min: options.block_bytes as usize,
    };
    CursorOptions { keep: Some(keep), ..CursorOptions::compaction(64 << 10) }
}

/// Writes what the cursor comes to as another table, and says how many records were kept as they
/// stand.
fn rewrite(
    table: &Arc<TableReader>,
    cursor_options: CursorOptions,
    options: &KeyspaceOptions,
    salt: u64,
) -> (Vec<u8>, usize) {
    let file = MemFile::default();
    let path = Path::new("other.sst");
    let mut builder = TableBuilder::new(Box::new(file.clone()), path, options, 0, salt);
    let mut cursor = table.cursor(cursor_options);
    let mut kept = 0;
    cursor.seek_to_first().expect("seek");
    while cursor.valid() {
        let (key, trailer, value) = (cursor.key(), cursor.trailer(), cursor.value());
        match cursor.stored_block() {
            Some(stored) => {
                kept += 1;
                builder.add_stored(key, trailer, value, stored).expect("add");
            }
            None => builder.add(key, trailer, value).expect("add"),
        }
        cursor.next().expect("next");
    }
    builder.finish().expect("finish");
    (file.bytes(), kept)
}

/// About a third of the values are near the length of a block, or longer than that.
fn entries_near_a_block(random: &mut Random, options: &KeyspaceOptions) -> Vec<Entry> {
    let mut entries = random_entries(random, &options.order, 60);
    for (_, trailer, value) in &mut entries {
        if trailer.kind() == Some(Kind::Put) && random.below(3) == 0 {
            let len = options.block_bytes as usize - 60 + random.below(600) as usize;
            let noise = random.below(2) == 0;
            let byte = |i: usize| if noise { random.next() as u8 } else { i as u8 / 5 };
            *value = (0..len).map(byte).collect();
        }
    }
    sorted(&options.order, entries)
}

#[test]
fn a_table_with_copies_is_the_one_that_would_be_written() {
    let mut random = Random(41);
    let (mut kept, mut records) = (0, 0);
    for _ in 0..400 {
        let mut options = random_options(&mut random);
        // What LZ4 makes of a block is another thing once it has seen one of 64 KiB.
        options.block_bytes = options.block_bytes.min(4_096);
        // Of the other table, whose blocks are shorter or longer.
        let other = KeyspaceOptions {
            block_bytes: [options.block_bytes, 512, 2_048][random.below(3) as usize],
            ..options.clone()
        };
        let entries = entries_near_a_block(&mut random, &other);
        let (bytes, _) = build(&options, &entries, &[]);
        let table = open(bytes, &options).expect("open");
        let (with_copies, of_this) = rewrite(&table, keep_for(&other), &other, OTHER_SALT);
        let (anew, none) = rewrite(&table, CursorOptions::compaction(64 << 10), &other, OTHER_SALT);
        assert_eq!(none, 0, "nothing is kept unless it is asked for");
        assert!(with_copies == anew, "{options:?}: {of_this} of {} records", entries.len());
        kept += of_this;
        records += entries.len();
    }
    assert!(kept > records / 10, "{kept} of {records}");
}

#[test]
fn what_would_not_be_written_so_is_not_kept() {
    let plain = KeyspaceOptions {
        block_bytes: 512,
        compression: vec![Compression::Lz4],
        ..KeyspaceOptions::default()
    };
    let entries: Vec<Entry> =
        (0..20u8).map(|k| (vec![k], Trailer::new(7, Kind::Put), vec![k; 600])).collect();
    let (bytes, _) = build(&plain, &entries, &[]);
    let table = open(bytes, &plain).expect("open");
    let kept = |options: CursorOptions| rewrite(&table, options, &plain, OTHER_SALT).1;
    let keep = keep_for(&plain);
    assert_eq!(kept(keep), 20);
    let compressed_by = |compression| {
        let other = KeyspaceOptions { compression: vec![compression], ..plain.clone() };
        kept(keep_for(&other))
    };
    assert_eq!(compressed_by(Compression::None), 0);
    assert_eq!(compressed_by(Compression::Zstd { level: 1 }), 0);
    let longer = KeyspaceOptions { block_bytes: 700, ..plain.clone() };
    assert_eq!(kept(keep_for(&longer)), 0, "two would stand in a block");
    assert_eq!(kept(CursorOptions { seq_override: Some(9), ..keep }), 0, "they read otherwise");
    assert_eq!(kept(CursorOptions { use_cache: true, ..keep }), 0);
    let (min, max) = (0, 0);
    let alone = CursorOptions { readahead_bytes_min: min, readahead_bytes_max: max, ..keep };
    assert_eq!(kept(alone), 0, "a block that is read alone is gone when it is open");
}

#[test]
fn a_record_that_begins_no_block_is_added() {
    let options = KeyspaceOptions {
        block_bytes: 512,
        compression: vec![Compression::None],
        ..KeyspaceOptions::default()
    };
    let value_bytes = |k: u8| if k.is_multiple_of(2) { 100 } else { 520 };
    let entries: Vec<Entry> =
        (0..9u8).map(|k| (vec![k], Trailer::new(7, Kind::Put), vec![k; value_bytes(k)])).collect();
    let (bytes, _) = build(&options, &entries, &[]);
    let table = open(bytes, &options).expect("open");
    // Here a block takes several, so that what is given as it stood comes when one is begun.
    let longer = KeyspaceOptions { block_bytes: 4_096, ..options.clone() };
    let (copied, kept) = rewrite(&table, keep_for(&options), &longer, SALT);
    assert_eq!(kept, 4);
    let copy = open(copied, &longer).expect("open");
    let mut cursor = copy.cursor(CursorOptions::default());
    cursor.seek_to_first().expect("seek");
    for (key, trailer, value) in &entries {
        assert_eq!((cursor.key(), cursor.trailer()), (&key[..], *trailer));
        assert!(cursor.value() == value);
        cursor.next().expect("next");
    }
    assert!(!cursor.valid());
}
