//! The log format: blocks of 32 KiB with fragments of records, for write-ahead logs and manifests.

use super::{checks, damaged};
use crate::failure::{Failure, Result};
use std::path::Path;

const BLOCK_BYTES: usize = 32 << 10;
/// Checksum (4), length (2), kind (1).
const HEADER_BYTES: usize = 7;

const FULL: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;

/// What stands in a log.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Offset and bytes of each record.
    pub(super) records: Vec<(u64, Vec<u8>)>,
    /// Bytes at the end that belong to no whole record.
    pub(super) torn_bytes: u64,
}

/// Why a fragment cannot be read.
enum Fault {
    /// The file ends in the middle of it.
    Torn,
    Damaged(&'static str),
}

/// Reads a log.
///
/// # Errors
/// `Corruption`: damage that is not at the end.
pub(super) fn read(path: &Path) -> Result<Log> {
    let bytes = std::fs::read(path).map_err(|error| Failure::io("read", path, &error))?;
    parse(&bytes).map_err(|(offset, what)| damaged(path, offset, what))
}

fn parse(bytes: &[u8]) -> Result<Log, (u64, &'static str)> {
    let mut log = Log::default();
    // Offset and bytes so far of a record in several fragments.
    let mut open: Option<(usize, Vec<u8>)> = None;
    let mut at = 0;
    while at < bytes.len() {
        let block_left = BLOCK_BYTES - at % BLOCK_BYTES;
        if block_left < HEADER_BYTES {
            at += block_left;
            continue;
        }
        let (kind, payload) = match fragment(bytes, at, block_left) {
            Ok(Some(fragment)) => fragment,
            // The rest of the block was reserved and never written.
            Ok(None) => {
                at += block_left;
                continue;
            }
            Err(Fault::Torn) => {
                let start = open.as_ref().map_or(at, |(start, _)| *start);
                log.torn_bytes = (bytes.len() - start) as u64;
                return Ok(log);
            }
            Err(Fault::Damaged(what)) => return Err((at as u64, what)),
        };
        match (kind, open.take()) {
            (FULL, None) => log.records.push((at as u64, payload.to_vec())),
            (FIRST, None) => open = Some((at, payload.to_vec())),
            (MIDDLE | LAST, Some((start, mut record))) => {
                record.extend_from_slice(payload);
                match kind {
                    LAST => log.records.push((start as u64, record)),
                    _ => open = Some((start, record)),
                }
            }
            (FULL | FIRST, Some((start, _))) => {
                return Err((start as u64, "a record in several parts has no end"));
            }
            (MIDDLE | LAST, None) => {
                return Err((at as u64, "a record in several parts has no beginning"));
            }
            _ => return Err((at as u64, "unknown kind of log record")),
        }
        at += HEADER_BYTES + payload.len();
    }
    if let Some((start, _)) = open {
        log.torn_bytes = (bytes.len() - start) as u64;
    }
    Ok(log)
}

/// The fragment at `at`: its kind and its bytes. `None` if the block holds no more.
fn fragment(bytes: &[u8], at: usize, block_left: usize) -> Result<Option<(u8, &[u8])>, Fault> {
    let block_end = (at + block_left).min(bytes.len());
    let block = &bytes[at..block_end];
    if block.iter().all(|&b| b == 0) {
        return Ok(None);
    }
    let last_block = at + block_left >= bytes.len();
    let Some((header, rest)) = block.split_first_chunk::<HEADER_BYTES>() else {
        return Err(Fault::Torn);
    };
    let [c0, c1, c2, c3, l0, l1, kind] = *header;
    let length = usize::from(u16::from_le_bytes([l0, l1]));
    if length > rest.len() {
        return Err(match last_block {
            true => Fault::Torn,
            false => Fault::Damaged("a log record is longer than its block"),
        });
    }
    // The checksum is of the kind and the bytes.
    let covered = &block[HEADER_BYTES - 1..HEADER_BYTES + length];
    if !checks(u32::from_le_bytes([c0, c1, c2, c3]), covered) {
        let after = &bytes[at + HEADER_BYTES + length..];
        return Err(match after.iter().all(|&b| b == 0) {
            true => Fault::Torn,
            false => Fault::Damaged("the checksum of a log record is wrong"),
        });
    }
    Ok(Some((kind, &rest[..length])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::base::checksum::crc32c;

    fn put(log: &mut Vec<u8>, kind: u8, payload: &[u8]) {
        let covered = [&[kind], payload].concat();
        let crc = crc32c(&covered).rotate_right(15).wrapping_add(0xa282_ead8);
        log.extend_from_slice(&crc.to_le_bytes());
        log.extend_from_slice(&(payload.len() as u16).to_le_bytes());
        log.extend_from_slice(&covered);
    }

    fn three() -> Vec<u8> {
        let mut log = Vec::new();
        put(&mut log, FULL, b"one");
        put(&mut log, FIRST, b"t");
        put(&mut log, MIDDLE, b"w");
        put(&mut log, LAST, b"o");
        put(&mut log, FULL, b"three");
        log
    }

    fn records(log: &Log) -> Vec<&[u8]> {
        log.records.iter().map(|(_, record)| record.as_slice()).collect()
    }

    #[test]
    fn records_are_put_together() {
        let log = parse(&three()).expect("whole");
        assert_eq!(records(&log), [&b"one"[..], b"two", b"three"]);
        assert_eq!(log.torn_bytes, 0);
    }

    #[test]
    fn every_cut_leaves_a_prefix_and_is_reported() {
        let whole = three();
        let ends = [10, 34, 46];
        for cut in 0..whole.len() {
            let log = parse(&whole[..cut]).expect("a cut is no damage");
            let complete = ends.iter().filter(|end| **end <= cut).count();
            assert_eq!(log.records.len(), complete, "cut at {cut}");
            let end = ends[..complete].last().copied().unwrap_or(0);
            assert_eq!(log.torn_bytes as usize, cut - end, "cut at {cut}");
        }
    }

    #[test]
    fn no_flipped_bit_passes() {
        let whole = three();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            match parse(&bytes) {
                Err(_) => {}
                // The last record may count as torn, never as another record.
                Ok(log) => {
                    assert!(log.torn_bytes > 0, "byte {at}");
                    assert!(records(&log).len() <= 2, "byte {at}");
                }
            }
        }
    }

    #[test]
    fn reserved_zeros_are_no_records() {
        let mut bytes = three();
        bytes.resize(3 * BLOCK_BYTES, 0);
        let log = parse(&bytes).expect("zeros at the end");
        assert_eq!((log.records.len(), log.torn_bytes), (3, 0));
    }
}
