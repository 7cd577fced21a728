//! What is read past damage, and that it takes no longer than it should.

use super::super::format::MARK_MAGIC;
use super::*;
use crate::log::{LogKind, Writer};
use crate::random::Random;
use esker_base::vfs::faulty::{FaultyVfs, Op};
use esker_base::vfs::strict::StrictVfs;
use std::sync::Arc;

const PATH: &str = "/000007.wal";

fn header() -> LogHeader {
    LogHeader { kind: LogKind::Wal, number: 7, salt: 0x0102_0304_0506_0708, first_seq: 1 }
}

/// A log of these records, and where each begins.
fn written(records: &[Vec<u8>]) -> (Vec<u8>, Vec<u64>) {
    let vfs = StrictVfs::new();
    let mut writer = Writer::create(&vfs, Path::new(PATH), header(), 0).expect("create");
    let mut starts = Vec::new();
    for record in records {
        starts.push(writer.len_bytes());
        writer.append(record).expect("append");
    }
    let bytes = read_file(&vfs);
    (bytes, starts)
}

fn read_file(vfs: &StrictVfs) -> Vec<u8> {
    esker_base::vfs::read_all(vfs, Path::new(PATH), 1 << 30).expect("read")
}

fn holding(bytes: &[u8]) -> StrictVfs {
    let vfs = StrictVfs::new();
    let mut file = vfs.create(Path::new(PATH)).expect("create");
    file.append(bytes).expect("append");
    file.finish().expect("finish");
    vfs
}

/// The records that can be read of these bytes.
fn salvaged(bytes: &[u8]) -> Vec<Vec<u8>> {
    let vfs = holding(bytes);
    let mut log = Salvager::open(&vfs, Path::new(PATH), None).expect("open");
    let mut records = Vec::new();
    while let Some(piece) = log.next().expect("a readable file") {
        if let Piece::Record { payload, .. } = piece {
            records.push(payload.to_vec());
        }
    }
    records
}

fn noise(random: &mut Random, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|_| random.next() as u8).collect()
}

#[test]
fn of_large_records_only_the_damaged_ones_are_lost() {
    let mut random = Random(1);
    let lens = [100, 4 << 20, 200, 4 << 20, 300, 4 << 20, 400];
    let mut records: Vec<_> = lens.iter().map(|&bytes| noise(&mut random, bytes)).collect();
    let (whole, starts) = written(&records);
    for damaged in [5, 3, 1] {
        records.remove(damaged);
    }
    // Some byte, or all that says how long they are.
    for (at, len) in [(1_000, 1), (0, RECORD_HEADER_BYTES), (0, 4_096)] {
        let mut bytes = whole.clone();
        for damaged in [1, 3, 5] {
            let start = starts[damaged] as usize + at;
            bytes[start..start + len].iter_mut().for_each(|byte| *byte ^= 0x55);
        }
        assert_eq!(salvaged(&bytes).len(), records.len(), "{len} bytes at {at}");
        assert_eq!(salvaged(&bytes), records, "{len} bytes at {at}");
    }
}

#[test]
fn a_wrong_length_hides_no_record_behind_it() {
    let records: Vec<Vec<u8>> = (0..64u8).map(|n| vec![n; 32 - RECORD_HEADER_BYTES]).collect();
    let (whole, starts) = written(&records);
    for bit in 5..11 {
        // With the others this long, it claims to end where another one does.
        let mut bytes = whole.clone();
        bytes[starts[0] as usize + 4 + bit / 8] ^= 1 << (bit % 8);
        assert_eq!(salvaged(&bytes), records[1..], "bit {bit}");
    }
}

#[test]
fn what_looks_like_marks_costs_little() {
    // Each claims to be as long as the rest of the file.
    let mut claim = vec![0; RECORD_HEADER_BYTES];
    claim[4..8].copy_from_slice(&(1u32 << 20).to_le_bytes());
    claim.extend(MARK_MAGIC);
    let claims = claim.repeat((2 << 20) / claim.len());
    let (mut bytes, starts) = written(&[claims]);
    bytes[starts[0] as usize] ^= 1;
    let vfs = FaultyVfs::new(Arc::new(holding(&bytes)));
    let mut reader = Reader::open(&vfs, Path::new(PATH), LogKind::Wal, 7, 0).expect("open");
    assert!(reader.next().expect("nothing durable is lost").is_none());
    assert!(reader.torn_tail().is_some());
    let reads = vfs.calls(Op::Read);
    assert!(reads < 200, "{reads} reads");
}

/// What is summed to know whether a record is where another one ends counts as search.
#[test]
fn a_record_that_a_damaged_one_leads_to_is_paid_for() {
    let long = noise(&mut Random(2), 4 << 20);
    let (mut bytes, starts) = written(&[vec![1; 64], vec![2; 64], long.clone()]);
    let lead = (starts[2] - starts[0]) as u32 - RECORD_HEADER_BYTES as u32;
    bytes[starts[0] as usize + 4..][..4].copy_from_slice(&lead.to_le_bytes());
    let vfs = holding(&bytes);
    let mut log = Salvager::open(&vfs, Path::new(PATH), None).expect("open");
    let before = log.search_bytes;
    assert!(matches!(log.next().expect("readable"), Some(Piece::Gap(_))));
    assert!(before - log.search_bytes >= long.len() as u64);
    assert!(matches!(log.next().expect("readable"), Some(Piece::Record { payload: [2, ..], .. })));
}
