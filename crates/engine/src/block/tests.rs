//! Blocks against a sorted list, at many restart intervals, in two orders, and on any bytes.

use super::{Block, BlockBuilder, BlockCursor, Damage, Payload};
use crate::random::Random;
use esker_base::{Comparator, KeyOrder, Kind, Trailer};
use std::cmp::Ordering;
use std::sync::Arc;

type Entry = (Vec<u8>, Trailer, Vec<u8>);

struct Reverse;

impl Comparator for Reverse {
    fn name(&self) -> &str {
        "test.reverse"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

fn entries(random: &mut Random, order: &KeyOrder, count: usize) -> Vec<Entry> {
    let long = random.below(4) == 0;
    let mut all: Vec<Entry> = (0..count)
        .map(|_| {
            let len = random.below(if long { 400 } else { 9 }) as usize;
            let alphabet = 1 + random.below(3);
            let mut key: Vec<u8> = (0..len).map(|_| b'a' + random.below(alphabet) as u8).collect();
            if random.below(3) == 0 {
                key.extend_from_slice(&random.next().to_be_bytes());
            }
            let seq = match random.below(4) {
                0 => 0,
                1 => random.below(300),
                2 => random.below(1 << 24),
                _ => random.next() >> 8,
            };
            let kind = if random.below(4) == 0 { Kind::Delete } else { Kind::Put };
            let value =
                vec![random.next() as u8; random.below(if long { 700 } else { 20 }) as usize];
            (key, Trailer::new(seq, kind), value)
        })
        .collect();
    all.sort_by(|a, b| order.compare_internal((&a.0, a.1), (&b.0, b.1)));
    all.dedup_by(|a, b| a.0 == b.0 && a.1 == b.1);
    all
}

fn build(entries: &[Entry], restart_interval: u32) -> Block {
    let mut builder = BlockBuilder::new(restart_interval);
    for (key, trailer, value) in entries {
        builder.add(key, *trailer, value);
    }
    let mut out = b"??".to_vec();
    let expected = builder.payload_bytes();
    builder.finish(&mut out);
    assert_eq!(out.len(), 2 + expected);
    out.extend_from_slice(b"?");
    let end = out.len() - 1;
    Block::new(Payload { data: out[..].into(), start: 2, end }).expect("a block")
}

fn check(cursor: &BlockCursor, expected: Option<&Entry>, what: &str) {
    assert_eq!(cursor.valid(), expected.is_some(), "{what}");
    if let Some((key, trailer, value)) = expected {
        assert_eq!((cursor.key(), cursor.trailer()), (&key[..], *trailer), "{what}");
        assert_eq!(cursor.value(), value, "{what}");
        assert_eq!(cursor.shared_value().expect("valid"), value, "{what}");
    }
}

#[test]
fn blocks_agree_with_a_sorted_list() {
    let mut random = Random(1);
    for round in 0..300 {
        let order = match round % 3 {
            0 => KeyOrder::Custom(Arc::new(Reverse)),
            _ => KeyOrder::Bytewise,
        };
        let count = 1 + random.below(60) as usize;
        let all = entries(&mut random, &order, count);
        let block = build(&all, [1, 2, 3, 16, 256][random.below(5) as usize]);
        let mut cursor = BlockCursor::new();
        cursor.set_block(block.clone());

        cursor.seek_to_first().expect("first");
        for entry in &all {
            check(&cursor, Some(entry), "forward");
            cursor.next().expect("next");
        }
        check(&cursor, None, "behind the last");
        cursor.seek_to_last().expect("last");
        for entry in all.iter().rev() {
            check(&cursor, Some(entry), "backward");
            cursor.prev().expect("prev");
        }
        check(&cursor, None, "before the first");

        for _ in 0..80 {
            let (mut key, mut trailer, _) = all[random.below(all.len() as u64) as usize].clone();
            match random.below(5) {
                0 => key.push(b'a'),
                1 => drop(key.pop()),
                2 => trailer = Trailer(trailer.0.wrapping_add(random.below(3)).wrapping_sub(1)),
                3 => trailer = Trailer(random.next()),
                _ => {}
            }
            let at = all
                .partition_point(|e| order.compare_internal((&e.0, e.1), (&key, trailer)).is_lt());
            cursor.seek(&order, &key, trailer).expect("seek");
            check(&cursor, all.get(at), "seek");
            let got = block.clone().get(&order, &key, trailer).expect("get");
            let want = all.get(at).filter(|e| e.0 == key);
            assert_eq!(
                got.map(|(t, v)| (t, v.to_vec())),
                want.map(|e| (e.1, e.2.clone())),
                "get {key:?} {trailer:?}"
            );
            cursor.seek_before(&order, &key, trailer).expect("seek before");
            check(&cursor, at.checked_sub(1).map(|i| &all[i]), "seek before");
            if cursor.valid() {
                let mut here = at - 1;
                for _ in 0..random.below(40) {
                    let forward = random.below(2) == 0;
                    let moved = if forward { cursor.next() } else { cursor.prev() };
                    moved.expect("moves");
                    here = if forward { here + 1 } else { here.wrapping_sub(1) };
                    check(&cursor, all.get(here), "zigzag");
                    if !cursor.valid() {
                        break;
                    }
                }
            }
        }
    }
}

#[test]
fn long_keys_walk_backward_within_bounded_memory() {
    let all: Vec<Entry> = (0..60u32)
        .map(|i| {
            let mut key = vec![b'k'; 5_000];
            key.extend_from_slice(&i.to_be_bytes());
            (key, Trailer::new(1, Kind::Put), vec![1])
        })
        .collect();
    let mut cursor = BlockCursor::new();
    cursor.set_block(build(&all, 256));
    cursor.seek_to_last().expect("last");
    for entry in all.iter().rev() {
        check(&cursor, Some(entry), "backward");
        cursor.prev().expect("prev");
    }
}

#[test]
fn any_bytes_are_refused_or_walked_without_a_panic() {
    let mut random = Random(9);
    let order = KeyOrder::Bytewise;
    let reverse = KeyOrder::Custom(Arc::new(Reverse));
    for _ in 0..3_000 {
        let all = entries(&mut random, &order, 12);
        let block = build(&all, 1 + random.below(5) as u32);
        let mut bytes = block.bytes().to_vec();
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len().min(120) as u64) as usize;
            bytes[at] = match random.below(3) {
                0 => bytes[at] ^ 1 << random.below(8),
                1 => 0xff,
                _ => random.next() as u8,
            };
        }
        if random.below(4) == 0 {
            bytes.truncate(random.below(bytes.len() as u64 + 1) as usize);
        }
        let end = bytes.len();
        let Ok(block) = Block::new(Payload { data: bytes[..].into(), start: 0, end }) else {
            continue;
        };
        let walk = |forward: bool| -> Result<(), Damage> {
            let mut cursor = BlockCursor::new();
            cursor.set_block(block.clone());
            if forward {
                cursor.seek_to_first()?;
            } else {
                cursor.seek_to_last()?;
            }
            for _ in 0..300 {
                if !cursor.valid() {
                    break;
                }
                let _ = (cursor.key().len(), cursor.value().len(), cursor.trailer().kind());
                if forward { cursor.next()? } else { cursor.prev()? }
            }
            Ok(())
        };
        let _ = (walk(true), walk(false));
        for (key, trailer, _) in &all {
            let mut cursor = BlockCursor::new();
            cursor.set_block(block.clone());
            for order in [&order, &reverse] {
                let _ = block.clone().get(order, key, *trailer);
                let _ = cursor.seek(order, key, *trailer);
                let _ = cursor.seek_before(order, key, *trailer);
            }
        }
    }
}
