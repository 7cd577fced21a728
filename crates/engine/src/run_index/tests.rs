//! Indexes made of digests, against lists of keys.

use super::entry::Prefix;
use super::*;
use esker_base::env::{Entropy, SeededEntropy};
use esker_base::{Error, Result};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Blocks of a digest, in memory.
struct Blocks(std::vec::IntoIter<Vec<u8>>);

impl DigestSource for Blocks {
    fn next_block(&mut self, block: &mut Vec<u8>) -> Result<bool> {
        let next = self.0.next();
        if let Some(bytes) = &next {
            block.extend_from_slice(bytes);
        }
        Ok(next.is_some())
    }

    fn damaged(&self, what: &'static str) -> Error {
        Error::corruption("digest", 0, what)
    }
}

fn digest_blocks(keys: &BTreeSet<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut builder = DigestBuilder::default();
    keys.iter().for_each(|key| builder.add(key));
    builder.finish().map(<[u8]>::to_vec).collect()
}

fn digest(keys: &BTreeSet<Vec<u8>>, slot: usize) -> Box<dyn Entries> {
    let blocks = Blocks(digest_blocks(keys).into_iter());
    Box::new(DigestCursor::new(blocks, single_slot(slot)))
}

fn united(sources: Vec<Box<dyn Entries>>) -> Arc<RunIndex> {
    Arc::new(unite(sources, u64::MAX, &|| false).expect("reads").expect("has room"))
}

/// An index of runs with these keys, each with its slot.
pub(crate) fn index_of(runs: &[(BTreeSet<Vec<u8>>, usize)]) -> Arc<RunIndex> {
    united(runs.iter().map(|(keys, slot)| digest(keys, *slot)).collect())
}

/// Checks what an index promises of runs with these keys, and of all of `probes`.
fn check(index: &Arc<RunIndex>, runs: &[BTreeSet<Vec<u8>>], probes: &[Vec<u8>]) {
    let mut cursor = EntryCursor::new(index.clone());
    let mut entries: Vec<(Vec<u8>, bool, Slots)> = Vec::new();
    cursor.seek_to_first();
    while cursor.valid() {
        let Prefix { bytes, exact } = cursor.prefix();
        if let Some((before, before_exact, _)) = entries.last() {
            let before = Prefix { bytes: before, exact: *before_exact };
            assert!(before.compare(cursor.prefix()).is_lt(), "{before:?} {:?}", cursor.prefix());
            assert!(!before.contains(cursor.prefix()), "{before:?} {:?}", cursor.prefix());
        }
        entries.push((bytes.to_vec(), exact, cursor.slots()));
        cursor.next();
    }
    assert_eq!(entries.len() as u64, index.entries());
    let names: u32 = entries.iter().map(|(_, _, slots)| slots.count_ones()).sum();
    assert_eq!(u64::from(names), index.names());
    let all = runs.iter().flatten().chain(probes);
    for key in all {
        let covers = |entry: &&(Vec<u8>, bool, Slots)| {
            Prefix { bytes: &entry.0, exact: entry.1 }.covers(key)
        };
        let covering = entries.iter().find(covers);
        assert_eq!(index.slots(key), covering.map_or(0, |entry| entry.2), "{key:?}");
        let holders = runs.iter().enumerate().filter(|(_, keys)| keys.contains(key));
        for (slot, _) in holders {
            assert!(index.slots(key) & single_slot(slot) != 0, "run {slot} has {key:?}");
        }
        let first = |entry: &(Vec<u8>, bool, Slots)| {
            let prefix = Prefix { bytes: &entry.0, exact: entry.1 };
            prefix.covers(key) || entry.0.as_slice() > key.as_slice()
        };
        cursor.seek(key);
        let expected = entries.iter().position(first);
        let found = cursor.valid().then(|| cursor.prefix().bytes.to_vec());
        assert_eq!(found, expected.map(|at| entries[at].0.clone()), "seek {key:?}");
        cursor.seek_at_or_before(key);
        let before = entries.iter().rposition(|entry| entry.0.as_slice() <= key.as_slice());
        let found = cursor.valid().then(|| cursor.prefix().bytes.to_vec());
        assert_eq!(found, before.map(|at| entries[at].0.clone()), "before {key:?}");
    }
    let mut back = Vec::new();
    cursor.seek_to_last();
    while cursor.valid() {
        let Prefix { bytes, exact } = cursor.prefix();
        back.push((bytes.to_vec(), exact, cursor.slots()));
        cursor.prev();
    }
    back.reverse();
    assert_eq!(back, entries);
}

/// Keys that are beginnings of each other, share long beginnings, or differ at once.
struct Keys(SeededEntropy);

impl Keys {
    fn below(&self, n: u64) -> u64 {
        self.0.next_u64() % n
    }

    fn bytes(&self, len: u64, alphabet: &[u8]) -> Vec<u8> {
        (0..len).map(|_| alphabet[self.below(alphabet.len() as u64) as usize]).collect()
    }

    fn key(&self) -> Vec<u8> {
        match self.below(4) {
            0 => self.bytes(self.below(6), &[0, b'a', b'b', 0xff]),
            1 => self.0.next_u64().to_be_bytes()[..1 + self.below(3) as usize].to_vec(),
            2 => format!("a rather long beginning {:06}", self.below(2_000)).into_bytes(),
            _ => vec![b'x'; self.below(40) as usize],
        }
    }

    fn run(&self) -> BTreeSet<Vec<u8>> {
        (0..self.below(400)).map(|_| self.key()).collect()
    }
}

const SEEDS: u64 = 200;

#[test]
fn an_index_names_every_run_that_has_a_key() {
    for seed in 0..SEEDS {
        let keys = Keys(SeededEntropy::new(seed));
        let runs: Vec<_> = (0..1 + keys.below(5)).map(|_| keys.run()).collect();
        let probes: Vec<_> = (0..50).map(|_| keys.key()).collect();
        let digests = runs.iter().enumerate().map(|(slot, keys)| digest(keys, slot)).collect();
        check(&united(digests), &runs, &probes);
    }
}

#[test]
fn an_index_takes_up_what_came_later() {
    for seed in 0..SEEDS {
        let keys = Keys(SeededEntropy::new(seed));
        let runs: Vec<_> = (0..5).map(|_| keys.run()).collect();
        let probes: Vec<_> = (0..50).map(|_| keys.key()).collect();
        let gone = keys.below(3) as usize;
        let early = united((0..3).map(|slot| digest(&runs[slot], slot)).collect());
        // One of the first three is gone, the other two have become slot 0.
        let now = (0..3).map(|slot| if slot == gone { 0 } else { single_slot(0) }).collect();
        let mut sources: Vec<Box<dyn Entries>> = vec![Box::new(Renumbered::new(early, now))];
        let mut expected = vec![BTreeSet::new()];
        for (slot, keys) in runs.iter().enumerate() {
            if slot >= 3 {
                sources.push(digest(keys, slot - 2));
                expected.push(keys.clone());
            } else if slot != gone {
                expected[0].extend(keys.iter().cloned());
            }
        }
        check(&united(sources), &expected, &probes);
    }
}

#[test]
fn a_damaged_digest_never_panics() {
    for seed in 0..SEEDS {
        let keys = Keys(SeededEntropy::new(seed));
        let mut blocks = digest_blocks(&keys.run());
        for _ in 0..3 {
            let len = blocks[0].len() as u64;
            if len > 0 {
                blocks[0][keys.below(len) as usize] ^= 1 + keys.below(255) as u8;
            }
        }
        let mut cursor = DigestCursor::new(Blocks(blocks.into_iter()), 1);
        while let Ok(true) = cursor.advance() {}
    }
}

#[test]
fn random_keys_take_few_bytes_each_and_name_one_run() {
    let entropy = SeededEntropy::new(7);
    let key = || [entropy.next_u64().to_be_bytes(), entropy.next_u64().to_be_bytes()].concat();
    let run = || -> BTreeSet<Vec<u8>> { (0..50_000).map(|_| key()).collect() };
    let runs: Vec<BTreeSet<Vec<u8>>> = (0..4).map(|_| run()).collect();
    let index = united(runs.iter().enumerate().map(|(slot, keys)| digest(keys, slot)).collect());
    assert!(index.entries() >= 199_000, "{} entries for 200 000 keys", index.entries());
    assert!(index.names() == 200_000);
    let bytes = index.memory_bytes() as f64 / 200_000.0;
    assert!(bytes < 5.5, "{bytes} bytes a key");
    let named: u32 = (0..10_000).map(|_| index.slots(&key()).count_ones()).sum();
    assert!(named < 100, "{named} of 10 000 absent keys have a run to look into");
    // What was given up by shortening costs little when more runs come.
    let more = run();
    let now = (0..4).map(single_slot).collect();
    let sources: Vec<Box<dyn Entries>> =
        vec![Box::new(Renumbered::new(index, now)), digest(&more, 4)];
    let all = united(sources);
    assert!(all.entries() >= 249_000, "{} entries for 250 000 keys", all.entries());
}

#[test]
fn an_index_that_would_be_too_large_is_none() {
    let keys: BTreeSet<Vec<u8>> = (0..50_000u32).map(|n| n.to_be_bytes().to_vec()).collect();
    let refused = unite(vec![digest(&keys, 0)], 10_000, &|| false);
    assert!(refused.expect("reads").is_none());
    let stopped = unite(vec![digest(&keys, 0)], u64::MAX, &|| true);
    assert!(matches!(stopped, Err(Error::Cancelled)));
}

#[test]
fn a_digest_in_several_blocks_reads_as_one() {
    let keys: BTreeSet<Vec<u8>> =
        (0..60_000u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes().to_vec()).collect();
    assert!(digest_blocks(&keys).len() > 2);
    let index = united(vec![digest(&keys, 0)]);
    assert_eq!(index.entries(), 60_000);
    assert!(keys.iter().all(|key| index.slots(key) == 1));
}
