//! Logs: round trips, torn tails, damage at every bit, the golden example.

use super::format::{HEADER_BYTES, MARK_PAYLOAD_BYTES, RECORD_HEADER_BYTES};
use super::reader::READ_BYTES;
use super::{LogHeader, LogKind, Reader, Writer};
use esker_base::checksum::crc32c;
use esker_base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker_base::vfs::posix::PosixVfs;
use esker_base::{Error, Result, Vfs};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn header() -> LogHeader {
    LogHeader { kind: LogKind::Wal, number: 7, salt: 0x0102_0304_0506_0708, first_seq: 1 }
}

/// A log in a directory of its own, which goes with it.
struct Temp(PathBuf);

impl Deref for Temp {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = self.0.parent().map(std::fs::remove_dir_all);
    }
}

fn temp(name: &str) -> Temp {
    let dir = std::env::temp_dir().join(format!("esker-log-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("temporary directory");
    Temp(dir.join("000007.wal"))
}

fn read(vfs: &dyn Vfs, path: &Path) -> Result<(Vec<Vec<u8>>, bool)> {
    let mut reader = Reader::open(vfs, path, LogKind::Wal, 7, 0)?;
    let mut records = Vec::new();
    while let Some((_, payload)) = reader.next()? {
        records.push(payload.to_vec());
    }
    Ok((records, reader.torn_tail().is_some()))
}

#[test]
fn records_come_back_from_plain_and_mapped_files() {
    for vfs in [PosixVfs::new(), PosixVfs::with_plain_logs()] {
        let path = temp("round");
        let sizes = [1usize, 0, 100, 70_000, 300_000, 1 << 20];
        let records: Vec<Vec<u8>> =
            sizes.iter().map(|&n| (0..n).map(|i| (i * 31 + n) as u8).collect()).collect();
        let mut writer = Writer::create(&vfs, &path, header(), 64 << 10).expect("create");
        for (i, record) in records.iter().enumerate() {
            writer.append(record).expect("append");
            if i % 2 == 0 {
                writer.sync().expect("sync");
            }
            // However short a record is: the one of no bytes is shorter than the mark before it.
            assert_eq!(writer.is_durable(), i % 2 == 0, "record {i}");
        }
        // Unfinished, as after the death of the process, and then finished.
        assert_eq!(read(&vfs, &path).expect("read"), (records.clone(), false));
        writer.finish().expect("finish");
        assert_eq!(read(&vfs, &path).expect("read"), (records, false));
    }
}

#[test]
fn a_log_is_not_mapped_when_it_is_synced_for_the_last_time() {
    let vfs = PosixVfs::new();
    let path = temp("last");
    let mapped = || {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("it tells what is mapped");
        maps.contains(path.to_str().expect("a name of letters"))
    };
    let mut writer = Writer::create(&vfs, &path, header(), 64 << 10).expect("create");
    writer.append(b"first").expect("append");
    writer.sync().expect("sync");
    writer.sync_last().expect("nothing to do");
    let marked = writer.len_bytes();
    writer.sync_last().expect("nothing to do");
    writer.sync().expect("all of it again, and no mark");
    assert_eq!((writer.len_bytes(), mapped()), (marked, true), "all of it was durable");
    writer.append(b"second").expect("append");
    writer.sync_last().expect("sync");
    assert!(writer.is_durable() && writer.len_bytes() > writer.durable_bytes(), "with a mark");
    assert!(!mapped());
    let records = vec![b"first".to_vec(), b"second".to_vec()];
    assert_eq!(read(&vfs, &path).expect("read"), (records.clone(), false));
    writer.finish().expect("finish");
    assert_eq!(read(&vfs, &path).expect("read"), (records, false));
}

#[test]
fn a_log_that_could_not_be_synced_is_not_believed_later() {
    let vfs = FaultyVfs::new(Arc::new(PosixVfs::with_plain_logs()));
    let path = temp("unsynced");
    let mut writer = Writer::create(&vfs, &path, header(), 64 << 10).expect("create");
    writer.append(b"first").expect("append");
    vfs.inject(FaultRule::nth(1, &[Op::Sync], Fault::Eio));
    let first = writer.sync().expect_err("the disk fails").to_string();
    assert_eq!(vfs.faults_fired(), 1);
    vfs.heal();
    let end = writer.len_bytes();
    // The file itself would say that all is well.
    let later = [writer.sync(), writer.sync_and_go_on(), writer.sync_last(), writer.sync_header()];
    for again in later {
        let again = again.expect_err("it failed before");
        assert!(again.is_sync_failure());
        assert_eq!(again.to_string(), first);
    }
    assert!(!writer.is_durable());
    assert_eq!(writer.len_bytes(), end, "no mark vouches for it");
}

#[test]
fn every_flip_is_found_and_every_cut_is_a_prefix() {
    let vfs = PosixVfs::with_plain_logs();
    let path = temp("damage");
    let mut writer = Writer::create(&vfs, &path, header(), 0).expect("create");
    let records: Vec<Vec<u8>> = (0..6u8).map(|i| vec![i ^ 0x5a; 10 + i as usize * 7]).collect();
    for record in &records[..4] {
        writer.append(record).expect("append");
    }
    writer.sync().expect("sync");
    let durable = writer.len_bytes();
    for record in &records[4..] {
        writer.append(record).expect("append");
    }
    writer.finish().expect("finish");
    let whole = std::fs::read(&*path).expect("bytes");

    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&*path, &bytes).expect("write");
        match read(&vfs, &path) {
            Err(e) => assert!(e.is_corruption(), "bit {bit}: {e}"),
            Ok((got, torn)) => {
                assert!(records.starts_with(&got), "bit {bit}: a record changed");
                assert!(got.len() >= 4, "bit {bit}: a durable record vanished silently");
                assert!(torn, "bit {bit}: nothing was noticed");
            }
        }
    }
    for cut in 0..whole.len() {
        std::fs::write(&*path, &whole[..cut]).expect("write");
        match read(&vfs, &path) {
            // Only a header cut short with content behind it can be told; a cut leaves none.
            Err(e) => panic!("cut {cut}: {e}"),
            Ok((got, _)) => {
                assert!(records.starts_with(&got), "cut {cut}");
                assert!(cut < durable as usize || got.len() >= 4, "cut {cut}");
            }
        }
    }
    assert!(whole.len() > HEADER_BYTES);
}

/// A log of one record of `len` bytes and the mark behind it.
fn record_and_mark(path: &Path, len: usize) -> Vec<u8> {
    let mut writer =
        Writer::create(&PosixVfs::with_plain_logs(), path, header(), 0).expect("create");
    writer.append(&vec![0x5a; len]).expect("append");
    writer.sync().expect("sync");
    writer.finish().expect("finish");
    std::fs::read(path).expect("bytes")
}

#[test]
fn the_end_of_what_was_written_is_found_to_the_byte() {
    let vfs = PosixVfs::with_plain_logs();
    let path = temp("content");
    let whole = record_and_mark(&path, 10);
    let at = whole.len();
    assert_eq!(read(&vfs, &path).expect("read"), (vec![vec![0x5a; 10]], false));
    // Within a few lines, and around the end of the first read of what is left.
    for places in [0..200, READ_BYTES - 70..READ_BYTES + 70] {
        let mut bytes = whole.clone();
        bytes.resize(at + places.end, 0);
        for place in places {
            bytes[at + place] = 1;
            std::fs::write(&*path, &bytes).expect("write");
            bytes[at + place] = 0;
            let mut reader = Reader::open(&vfs, &path, LogKind::Wal, 7, 0).expect("open");
            while reader.next().expect("read").is_some() {}
            let torn = reader.torn_tail().expect("there is a byte");
            let found = (torn.offset_bytes, torn.dropped_bytes);
            assert_eq!(found, (at as u64, place as u64 + 1));
        }
    }
}

#[test]
fn a_mark_far_behind_a_lost_record_says_that_it_was_durable() {
    let vfs = PosixVfs::with_plain_logs();
    let path = temp("far");
    let mark_bytes = RECORD_HEADER_BYTES + MARK_PAYLOAD_BYTES;
    // The last place that the first search looks at, and those around it.
    for mark_at in READ_BYTES - 2 * mark_bytes..READ_BYTES + mark_bytes {
        let mut bytes = record_and_mark(&path, mark_at - RECORD_HEADER_BYTES);
        assert_eq!(bytes.len(), HEADER_BYTES + mark_at + mark_bytes);
        bytes[HEADER_BYTES + RECORD_HEADER_BYTES] ^= 1;
        for zeros in [0, 4096] {
            bytes.resize(HEADER_BYTES + mark_at + mark_bytes + zeros, 0);
            std::fs::write(&*path, &bytes).expect("write");
            let error = read(&vfs, &path).expect_err("a durable record is lost");
            assert!(error.is_corruption(), "{mark_at}, {zeros}: {error}");
        }
    }
}

/// Sets the version in a header, with a checksum that holds.
fn set_version(bytes: &mut [u8], version: u8) {
    bytes[8] = version;
    let sum = crc32c(&bytes[..HEADER_BYTES - 4]);
    bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn a_log_of_a_newer_version_is_no_damage() {
    let vfs = PosixVfs::with_plain_logs();
    let path = temp("newer");
    let mut writer = Writer::create(&vfs, &path, header(), 0).expect("create");
    writer.append(b"hello").expect("append");
    writer.finish().expect("finish");
    let whole = std::fs::read(&*path).expect("bytes");
    // With records and without any; with a checksum that holds and one that does not.
    for len in [whole.len(), HEADER_BYTES] {
        let mut bytes = whole[..len].to_vec();
        set_version(&mut bytes, 2);
        std::fs::write(&*path, &bytes).expect("write");
        let newer = |error: &Error| matches!(error, Error::Incompatible { what, .. } if what.contains("newer version"));
        let error = read(&vfs, &path).expect_err("newer");
        assert!(newer(&error), "{error}");
        let error = Reader::open_named(&vfs, &path, 7, header().salt).expect_err("newer");
        assert!(newer(&error), "{error}");
    }
    for version in [0, 2] {
        let mut bytes = whole.clone();
        set_version(&mut bytes, version);
        bytes[20] ^= u8::from(version == 2);
        std::fs::write(&*path, &bytes).expect("write");
        assert!(read(&vfs, &path).is_err_and(|error| error.is_corruption()), "{version}");
    }
}

#[test]
fn a_record_moved_to_another_place_is_not_read() {
    let vfs = PosixVfs::with_plain_logs();
    let path = temp("moved");
    let mut writer = Writer::create(&vfs, &path, header(), 0).expect("create");
    writer.append(&[1; 50]).expect("append");
    writer.append(&[2; 50]).expect("append");
    writer.finish().expect("finish");
    let mut bytes = std::fs::read(&*path).expect("bytes");
    let (a, b) = (HEADER_BYTES, HEADER_BYTES + 59);
    let first = bytes[a..a + 59].to_vec();
    bytes.copy_within(b..b + 59, a);
    bytes[b..b + 59].copy_from_slice(&first);
    std::fs::write(&*path, &bytes).expect("write");
    let (records, torn) = read(&vfs, &path).expect("read");
    assert!(records.is_empty() && torn);
}

/// The bytes of the fenced block `hex NAME` of a format page.
fn golden_hex(page: &str, name: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format").join(page);
    let text = std::fs::read_to_string(root).expect("format page");
    let start = text.find(&format!("```hex {name}\n")).expect("example") + 8 + name.len();
    let end = start + text[start..].find("```").expect("end of example");
    text[start..end]
        .split_whitespace()
        .map(|byte| u8::from_str_radix(byte, 16).expect("hex byte"))
        .collect()
}

#[test]
fn the_documented_example_is_what_is_written_and_read() {
    let vfs = PosixVfs::with_plain_logs();
    let path = temp("golden");
    let mut writer = Writer::create(&vfs, &path, header(), 0).expect("create");
    writer.append(b"hello").expect("append");
    writer.sync().expect("sync");
    writer.finish().expect("finish");
    let written = std::fs::read(&*path).expect("bytes");
    let shown: Vec<String> = written.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(golden_hex("log.md", "log"), written, "the page should say: {}", shown.join(" "));
    assert_eq!(read(&vfs, &path).expect("read").0, vec![b"hello".to_vec()]);
}
