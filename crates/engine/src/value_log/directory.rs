//! Where values stand that were moved into a file: from the log and the place that pointers name to
//! the place in the file.
//!
//! Format: docs/format/value-log.md. The whole is one record, which stands twice at the end of the
//! file.
//! Invariants: (1) entries are in the order of where values stood, and values stand in that order;
//! (2) no bytes make decoding panic or take more memory than a small multiple of their number.

use crate::log::RECORD_HEADER_BYTES;
use esker_base::coding::{put_varint, take_varint};
use esker_base::key::SEQ_MAX;
use std::ops::Range;

/// Between the two directories of a file that is not small stands a value of so many zeros that
/// nothing points to: what disks lose at once does not take both.
pub(super) const BETWEEN_BYTES: usize = 4096;

/// A file is not small if its values end here or later.
pub(super) const SMALL_BYTES: u64 = 64 << 10;

/// Entries after which a lookup may begin.
const STRIDE: usize = 128;

/// Where the directories of a file stand, and how long the record of each is, if the first begins
/// at `first` and the second ends at `end`.
pub(super) fn directories(first: u64, end: u64) -> Option<([u64; 2], usize)> {
    let between = if first < SMALL_BYTES { 0 } else { RECORD_HEADER_BYTES + BETWEEN_BYTES } as u64;
    let both = end.checked_sub(first)?.checked_sub(between).filter(|both| both % 2 == 0)?;
    let bytes = usize::try_from(both / 2).ok().filter(|&bytes| bytes > RECORD_HEADER_BYTES)?;
    Some(([first, first + bytes as u64 + between], bytes))
}

/// Where the first directory of a file begins, one of whose two stands here, if the second ends at
/// `end`.
pub(crate) fn first_directory(here: Range<u64>, end: u64) -> u64 {
    let bytes = here.end - here.start;
    let may_begin = [0, RECORD_HEADER_BYTES + BETWEEN_BYTES].map(|between| {
        let first = here.start.checked_sub(bytes + between as u64)?;
        let (places, len) = directories(first, end)?;
        (places == [first, here.start] && len as u64 == bytes).then_some(first)
    });
    may_begin.into_iter().flatten().next().unwrap_or(here.start)
}

/// Gathers the directory of a file that is being written.
#[derive(Debug, Default)]
pub(crate) struct DirectoryBuilder {
    groups: u64,
    bytes: Vec<u8>,
    /// Of the log at hand: its number, how many entries it has, and these.
    log: u64,
    count: u64,
    entries: Vec<u8>,
    from: u64,
    to: u64,
}

impl DirectoryBuilder {
    /// Adds a value after all before it: it stood at `from` in `log`, and stands at `to` now.
    pub(crate) fn add(&mut self, log: u64, from: u64, to: u64) {
        assert!(
            self.count == 0 || (self.log, self.from) < (log, from),
            "values are moved in the order in which they stood"
        );
        if self.count > 0 && log != self.log {
            self.end_group();
        }
        let (from_before, to_before) = if self.count == 0 { (0, 0) } else { (self.from, self.to) };
        put_varint(&mut self.entries, from - from_before);
        put_varint(&mut self.entries, to - to_before);
        self.count += 1;
        (self.log, self.from, self.to) = (log, from, to);
    }

    fn end_group(&mut self) {
        put_varint(&mut self.bytes, self.log);
        put_varint(&mut self.bytes, self.count);
        self.bytes.append(&mut self.entries);
        self.groups += 1;
        self.count = 0;
    }

    /// The encoded directory.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.end_group();
        }
        let mut out = Vec::with_capacity(self.bytes.len() + 10);
        put_varint(&mut out, self.groups);
        out.append(&mut self.bytes);
        out
    }
}

/// A place from which entries can be decoded.
#[derive(Clone, Copy, Debug)]
struct Head {
    log: u64,
    from: u64,
    to: u64,
    /// Where the entries after this one stand, and how many they are.
    at: u32,
    count: u32,
}

/// The directory of an open file.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    bytes: Box<[u8]>,
    heads: Vec<Head>,
    logs: Vec<u64>,
    entries: u64,
}

impl Directory {
    /// Takes a directory for one after checking all of it. No value begins before `values_from` or
    /// at or after `values_end`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn decode(
        bytes: &[u8],
        values_from: u64,
        values_end: u64,
    ) -> Result<Directory, &'static str> {
        const BROKEN: &str = "the directory of moved values does not decode";
        let mut directory = Directory { bytes: bytes.into(), ..Directory::default() };
        let mut input = bytes;
        let groups = take_varint(&mut input).ok_or(BROKEN)?;
        let mut to = 0u64;
        for _ in 0..groups {
            let log = take_varint(&mut input).filter(|&log| log <= SEQ_MAX).ok_or(BROKEN)?;
            let count = take_varint(&mut input).ok_or(BROKEN)?;
            if directory.logs.last().is_some_and(|&last| last >= log) || count == 0 {
                return Err(BROKEN);
            }
            directory.logs.push(log);
            let mut from = 0u64;
            for nth in 0..count {
                let first = nth == 0;
                let (from_step, to_step) = take_entry(&mut input).ok_or(BROKEN)?;
                let next_to =
                    if first { to_step } else { to.checked_add(to_step).ok_or(BROKEN)? };
                let next_from = from_step.checked_add(from).ok_or(BROKEN)?;
                let grows = next_to > to && (first || next_from > from);
                if !grows || next_to < values_from || next_to >= values_end || next_from > SEQ_MAX {
                    return Err(BROKEN);
                }
                (from, to) = (next_from, next_to);
                if nth % STRIDE as u64 == 0 {
                    let at = u32::try_from(bytes.len() - input.len()).map_err(|_| BROKEN)?;
                    directory.heads.push(Head { log, from, to, at, count: 0 });
                } else if let Some(head) = directory.heads.last_mut() {
                    head.count += 1;
                }
                directory.entries += 1;
            }
        }
        if input.is_empty() { Ok(directory) } else { Err(BROKEN) }
    }

    /// Where the value stands that stood at `from` in `log`.
    pub(crate) fn find(&self, log: u64, from: u64) -> Option<u64> {
        let after = self.heads.partition_point(|head| (head.log, head.from) <= (log, from));
        let head = self.heads.get(after.checked_sub(1)?)?;
        if head.log != log {
            return None;
        }
        let (mut at_from, mut at_to) = (head.from, head.to);
        let mut input = &self.bytes[head.at as usize..];
        let mut left = head.count;
        while at_from < from && left > 0 {
            let (from_step, to_step) = take_entry(&mut input)?;
            at_from += from_step;
            at_to += to_step;
            left -= 1;
        }
        (at_from == from).then_some(at_to)
    }

    /// All entries: log, where a value stood in it, where it stands; in this order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.heads.iter().flat_map(|head| {
            let (mut from, mut to) = (head.from, head.to);
            let mut input = &self.bytes[head.at as usize..];
            let others = (0..head.count).map_while(move |_| {
                let (from_step, to_step) = take_entry(&mut input)?;
                (from, to) = (from + from_step, to + to_step);
                Some((head.log, from, to))
            });
            [(head.log, head.from, head.to)].into_iter().chain(others)
        })
    }

    /// The logs whose values were moved here, ascending.
    pub(crate) fn logs(&self) -> &[u64] {
        &self.logs
    }

    /// Values that were moved here.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Heap bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.heads.len() * size_of::<Head>() + self.logs.len() * 8
    }
}

/// Steps from one entry to the next.
fn take_entry(input: &mut &[u8]) -> Option<(u64, u64)> {
    Some((take_varint(input)?, take_varint(input)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(per_log: u64) -> (Vec<u8>, Vec<(u64, u64, u64)>) {
        let mut builder = DirectoryBuilder::default();
        let mut all = Vec::new();
        let mut to = 40;
        for log in [3, 4, 900] {
            for nth in 0..per_log * (log % 3 + 1) {
                let from = 40 + nth * 5_009 + (nth % 7) * 11;
                builder.add(log, from, to);
                all.push((log, from, to));
                to += 1_000 + nth % 5;
            }
        }
        (builder.finish(), all)
    }

    /// The example of the format's page is what this code writes.
    #[test]
    fn either_directory_tells_where_the_first_is() {
        for first in [1_000, SMALL_BYTES - 1, SMALL_BYTES, 1 << 20] {
            for bytes in [RECORD_HEADER_BYTES as u64 + 1, 90, 70_000] {
                let between =
                    if first < SMALL_BYTES { 0 } else { RECORD_HEADER_BYTES + BETWEEN_BYTES };
                let second = first + bytes + between as u64;
                let end = second + bytes;
                assert_eq!(directories(first, end), Some(([first, second], bytes as usize)));
                assert_eq!(first_directory(first..first + bytes, end), first);
                assert_eq!(first_directory(second..end, end), first);
            }
        }
    }

    #[test]
    fn the_documented_example_is_what_is_written_and_read() {
        let page = include_str!("../../../../docs/format/value-log.md");
        let example = page.split("```hex directory\n").nth(1).and_then(|s| s.split("```").next());
        let bytes: Vec<u8> = example
            .expect("the page has an example")
            .lines()
            .flat_map(|line| line.split('|').next().unwrap_or("").split_whitespace())
            .map(|byte| u8::from_str_radix(byte, 16).expect("hexadecimal"))
            .collect();
        let mut builder = DirectoryBuilder::default();
        let moved = [(7, 40, 40), (7, 5_100, 3_049), (9, 64, 4_058)];
        moved.iter().for_each(|&(log, from, to)| builder.add(log, from, to));
        assert_eq!(builder.finish(), bytes);
        let directory = Directory::decode(&bytes, 40, 5_000).expect("decodes");
        for (log, from, to) in moved {
            assert_eq!(directory.find(log, from), Some(to));
        }
    }

    #[test]
    fn each_value_is_found_where_it_stands_and_no_other() {
        for per_log in [1, 127, 128, 129, 1_000] {
            let (bytes, all) = sample(per_log);
            let end = all.last().expect("some").2 + 1;
            let directory = Directory::decode(&bytes, 40, end).expect("decodes");
            assert_eq!(directory.logs(), [3, 4, 900]);
            assert_eq!(directory.entries(), all.len() as u64);
            assert!(directory.iter().eq(all.iter().copied()));
            for &(log, from, to) in &all {
                assert_eq!(directory.find(log, from), Some(to));
                assert_eq!(directory.find(log, from + 1), None);
                assert_eq!(directory.find(log, from - 1), None);
            }
            for log in [0, 2, 5, 901] {
                assert_eq!(directory.find(log, 40), None);
            }
        }
    }

    #[test]
    fn a_directory_that_was_cut_or_points_elsewhere_is_refused() {
        let (bytes, all) = sample(20);
        let end = all.last().expect("some").2 + 1;
        for cut in 0..bytes.len() {
            assert!(Directory::decode(&bytes[..cut], 40, end).is_err(), "cut at {cut}");
        }
        assert!(Directory::decode(&bytes, 41, end).is_err(), "before the values");
        assert!(Directory::decode(&bytes, 40, end - 1).is_err(), "behind the values");
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(Directory::decode(&longer, 40, end).is_err(), "a byte more");
        let empty =
            Directory::decode(&DirectoryBuilder::default().finish(), 40, 40).expect("empty");
        assert_eq!((empty.entries(), empty.find(3, 40)), (0, None));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let (bytes, _) = sample(3);
        for at in 0..bytes.len() {
            for flip in [1u8, 0x80, 0xff] {
                let mut bad = bytes.clone();
                bad[at] ^= flip;
                if let Ok(directory) = Directory::decode(&bad, 40, u64::MAX) {
                    let _ = directory.find(3, 40);
                }
            }
        }
    }
}
