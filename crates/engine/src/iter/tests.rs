//! Merged, visible scans against a plain model with snapshots and range tombstones.

use super::{Bounds, Lend, MergeCursor, Ranked, Tombstones, VisibleCursor};
use crate::block::BlockCursor;
use crate::memtable::{MemCursor, Memtable};
use crate::random::Random;
use esker_base::checksum::hash64;
use esker_base::{KeyOrder, Kind, Seq, Trailer};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Every state of the store by sequence number.
type States = Vec<BTreeMap<Vec<u8>, Vec<u8>>>;

impl Lend for MemCursor {
    fn exchange_leaf(&mut self, _: &mut BlockCursor) -> bool {
        false
    }
}

fn random_key(random: &mut Random) -> Vec<u8> {
    format!("k{:02}", random.below(40)).into_bytes()
}

/// Memtables, oldest first, that together went through `states`.
fn build(random: &mut Random) -> (Vec<Arc<Memtable>>, States) {
    let mut states: States = vec![BTreeMap::new()];
    let mut tables = Vec::new();
    let mut seq: Seq = 0;
    for _ in 0..1 + random.below(5) {
        let mem = Arc::new(Memtable::new(KeyOrder::Bytewise));
        for _ in 0..random.below(60) {
            seq += 1;
            let mut state = states.last().expect("a first state").clone();
            let key = random_key(random);
            match random.below(10) {
                0..=5 => {
                    let value = seq.to_string().into_bytes();
                    mem.writer().insert(&key, hash64(&key), Trailer::new(seq, Kind::Put), &value);
                    state.insert(key, value);
                }
                6..=7 => {
                    mem.writer().insert(&key, hash64(&key), Trailer::new(seq, Kind::Delete), b"");
                    state.remove(&key);
                }
                _ => {
                    let end = random_key(random);
                    mem.writer().insert_range(&key, &end, seq);
                    state.retain(|k, _| !(*k >= key && *k < end));
                }
            }
            states.push(state);
        }
        tables.push(mem);
    }
    (tables, states)
}

fn open(mems: &[Arc<Memtable>], seq: Seq, bounds: Bounds) -> VisibleCursor<MemCursor> {
    let mut sources = Vec::new();
    let mut tombstones: Vec<(usize, Tombstones)> = Vec::new();
    for (rank, mem) in mems.iter().rev().enumerate() {
        sources.extend(mem.cursors().into_iter().map(|cursor| Ranked { rank, cursor }));
        let sets = mem.range_tombstones().into_iter().map(Tombstones::AtHand);
        tombstones.extend(sets.map(|set| (rank, set)));
    }
    let merge = MergeCursor::new(KeyOrder::Bytewise, sources);
    VisibleCursor::new(KeyOrder::Bytewise, merge, tombstones, seq, bounds, Path::new("").into())
}

#[test]
fn random_walks_agree_with_the_model() {
    let mut random = Random(42);
    for round in 0..3_000 {
        let (mems, states) = build(&mut random);
        let seq = random.below(states.len() as u64);
        let mut start = (random.below(2) == 0).then(|| random_key(&mut random));
        let mut end = (random.below(2) == 0).then(|| random_key(&mut random));
        if let (Some(a), Some(b)) = (&start, &end)
            && a > b
        {
            std::mem::swap(&mut start, &mut end);
        }
        let model: Vec<(Vec<u8>, Vec<u8>)> = states[seq as usize]
            .iter()
            .filter(|(k, _)| start.as_ref().is_none_or(|s| *k >= s))
            .filter(|(k, _)| end.as_ref().is_none_or(|e| *k < e))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let mut cursor = open(&mems, seq, Bounds { start, end });
        // The index in the model, or none.
        let mut at: Option<usize> = None;
        for step in 0..60 {
            let key = random_key(&mut random);
            let here = model.partition_point(|(k, _)| *k < key);
            match random.below(12) {
                0 => {
                    cursor.seek_to_first().expect("first");
                    at = Some(0);
                }
                1 => {
                    cursor.seek_to_last().expect("last");
                    at = model.len().checked_sub(1);
                }
                2 => {
                    cursor.seek(&key).expect("seek");
                    at = Some(here);
                }
                3 => {
                    cursor.seek_before(&key).expect("seek before");
                    at = here.checked_sub(1);
                }
                4..=7 if at.is_some() => {
                    cursor.next().expect("next");
                    at = at.map(|i| i + 1);
                }
                _ if at.is_some() => {
                    cursor.prev().expect("prev");
                    at = at.and_then(|i| i.checked_sub(1));
                }
                _ => {}
            }
            at = at.filter(|&i| i < model.len());
            let shown = cursor.valid().then(|| (cursor.key().to_vec(), cursor.value().to_vec()));
            assert_eq!(shown, at.map(|i| model[i].clone()), "round {round} step {step}");
        }
    }
}
