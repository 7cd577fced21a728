//! What cannot be read and nobody asks for harms nobody.

use super::support::{DIR, Random, setup_on};
use esker::base::vfs::faulty::FaultyVfs;
use esker::base::vfs::strict::StrictVfs;
use esker::{Compression, Db, Error, KeyspaceOptions, Options, ScanOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn disk() -> (StrictVfs, FaultyVfs) {
    let strict = StrictVfs::new();
    (strict.clone(), FaultyVfs::new(Arc::new(strict)))
}

fn open(vfs: &FaultyVfs, default_keyspace: KeyspaceOptions) -> Db {
    let options = Options { default_keyspace, ..Options::default() };
    Db::open_with(DIR, options, setup_on(Arc::new(vfs.clone()), 7)).expect("open")
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

/// A value of its own, which does not shrink.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random(seed << 32);
    (0..len).map(|_| random.below(256) as u8).collect()
}

/// The file that holds these bytes, and where.
fn place_of(disk: &StrictVfs, wanted: &[u8]) -> Option<(PathBuf, u64)> {
    disk.file_names(Path::new(DIR)).iter().find_map(|name| {
        let path = Path::new(DIR).join(name);
        let bytes = disk.read_file(&path).expect("read");
        let at = bytes.windows(wanted.len()).position(|window| window == wanted)?;
        Some((path, at as u64))
    })
}

#[test]
fn a_scan_reads_up_to_its_end_whatever_lies_behind() {
    let (strict, vfs) = disk();
    let plain = KeyspaceOptions { compression: vec![Compression::None], ..Default::default() };
    let db = open(&vfs, plain.clone());
    (0..600).for_each(|number| db.put(&key(number), &noise(number, 500)).expect("put"));
    db.flush().expect("flush");
    db.close().expect("close");
    let (table, at) = place_of(&strict, &noise(300, 500)).expect("in a table");
    vfs.lose_page(&table, at);
    let (bound, end) = (280, 600);
    for fill_cache in [true, false] {
        for backward in [false, true] {
            let db = open(&vfs, plain.clone());
            assert!(db.get(&key(300)).is_err(), "it cannot be read");
            let (start, stop) = if backward { (320, end) } else { (0, bound) };
            let options = ScanOptions {
                start: Some(key(start)),
                end: Some(key(stop)),
                fill_cache,
                ..ScanOptions::default()
            };
            let mut cursor = db.default_keyspace().scan(&options).expect("cursor");
            if backward { cursor.seek_to_last() } else { cursor.seek_to_first() }.expect("seek");
            let mut seen = 0;
            while cursor.valid() {
                let number = if backward { stop - 1 - seen } else { start + seen };
                assert_eq!(cursor.key(), key(number));
                seen += 1;
                let moved = if backward { cursor.prev() } else { cursor.next() };
                moved.expect("nothing of the range is lost");
            }
            assert_eq!(seen, stop - start);
        }
    }
    // Who comes to it is told.
    let db = open(&vfs, plain);
    let mut pairs = db.default_keyspace().iter().expect("iterator");
    let failed = pairs.find_map(Result::err).expect("an error");
    assert!(matches!(failed, Error::Io { .. }), "{failed}");
}

#[test]
fn a_dead_value_that_is_lost_keeps_no_other_from_being_read_and_moved() {
    let (strict, vfs) = disk();
    let apart = KeyspaceOptions { value_log_bytes_min: Some(1_000), ..KeyspaceOptions::default() };
    let db = open(&vfs, apart.clone());
    let mut expected: Vec<Vec<u8>> = (0..5).map(|number| noise(number, 20_000)).collect();
    for (number, value) in (0..).zip(&expected) {
        db.put(&key(number), value).expect("put");
    }
    db.flush().expect("flush");
    let (log, at) = place_of(&strict, &expected[2]).expect("in a file of values");
    expected[2] = noise(9, 20_000);
    db.put(&key(2), &expected[2]).expect("put");
    db.flush().expect("flush");
    db.default_keyspace().compact_range(None, None).expect("compact");
    db.close().expect("close");
    vfs.lose_page(&log, at + 8_192);

    let db = open(&vfs, apart);
    let scan = ScanOptions::default();
    let mut cursor = db.default_keyspace().scan_unordered(&scan, 1 << 20).expect("cursor");
    let mut found = Vec::new();
    while cursor.advance().expect("all of them can be read") {
        found.push((cursor.key().to_vec(), cursor.value().to_vec()));
    }
    drop(cursor);
    found.sort();
    let all = || (0..).zip(&expected).map(|(number, value)| (key(number), value.clone()));
    assert!(found.into_iter().eq(all()), "each with its value");
    db.collect_values(0.0, |_| true).expect("all of them can be moved");
    assert!(!strict.file_names(Path::new(DIR)).iter().any(|name| log.ends_with(name)), "{log:?}");
    assert!(all().all(|(key, value)| db.get(&key).expect("get").as_deref() == Some(&value)));
}
