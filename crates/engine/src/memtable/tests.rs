//! Memtable against a plain ordered map; readers beside a writer.

use super::{MemCursor, Memtable};
use crate::cursor::Cursor;
use esker_base::checksum::{hash64, mix64};
use esker_base::{Comparator, KeyOrder, Kind, Seq, Trailer};
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

/// Records in internal-key order of the bytewise order.
type Model = BTreeMap<(Vec<u8>, Reverse<u64>), Vec<u8>>;

fn put(mem: &Memtable, model: &mut Model, seq: Seq, key: &[u8], value: &[u8]) {
    let kind = if seq.is_multiple_of(7) { Kind::Delete } else { Kind::Put };
    let trailer = Trailer::new(seq, kind);
    mem.writer().insert(key, hash64(key), trailer, value);
    model.insert((key.to_vec(), Reverse(trailer.0)), value.to_vec());
}

fn all(cursor: &mut impl Cursor) -> Vec<(Vec<u8>, u64, Vec<u8>)> {
    let mut records = Vec::new();
    cursor.seek_to_first().expect("seek");
    while cursor.valid() {
        records.push((cursor.key().to_vec(), cursor.trailer().0, cursor.value().to_vec()));
        cursor.next().expect("next");
    }
    records
}

#[test]
fn gets_and_scans_agree_with_a_map() {
    for order in [KeyOrder::Bytewise, KeyOrder::Custom(Arc::new(Backwards))] {
        let mem = Arc::new(Memtable::new(order.clone()));
        let mut model = Model::new();
        for seq in 1..6_000u64 {
            let r = mix64(seq);
            let key = format!("user{:0width$}", r % 900, width = 1 + (r % 3) as usize * 5);
            let value = vec![r as u8; (r % 50) as usize];
            put(&mem, &mut model, seq, key.as_bytes(), &value);
            // Ask for order at odd moments, so that pieces of many sizes arise and merge.
            if r.is_multiple_of(97) {
                assert_eq!(
                    mem.cursors().iter_mut().map(|c| all(c).len()).sum::<usize>(),
                    model.len()
                );
            }
            let (wanted, at) = (format!("user{:05}", mix64(r) % 900), mix64(r + 1) % (seq + 2));
            let newest = model
                .range((wanted.clone().into_bytes(), Reverse(Trailer::seek(at).0))..)
                .next()
                .filter(|((key, _), _)| *key == wanted.as_bytes())
                .map(|((_, trailer), value)| (Trailer(trailer.0), value.as_slice()));
            assert_eq!(mem.get(wanted.as_bytes(), hash64(wanted.as_bytes()), at), newest);
        }
        let mut expected: Vec<_> =
            model.iter().map(|((k, t), v)| (k.clone(), t.0, v.clone())).collect();
        expected.sort_by(|a, b| order.compare_internal((&a.0, Trailer(a.1)), (&b.0, Trailer(b.1))));
        let mut cursor = mem.sealed_cursor();
        assert_eq!(all(&mut cursor), expected);
        check_seeks(&order, &mut cursor, &expected);
        assert_eq!(mem.entries(), 5_999);
    }
}

fn check_seeks(order: &KeyOrder, cursor: &mut impl Cursor, expected: &[(Vec<u8>, u64, Vec<u8>)]) {
    for probe in ["", "user", "user5", "user00450", "user0000000123", "v", "user899\0"] {
        for seq in [0, 17, 3_000, 9_999] {
            let target = (probe.as_bytes(), Trailer::seek(seq));
            let at = expected
                .partition_point(|e| order.compare_internal((&e.0, Trailer(e.1)), target).is_lt());
            cursor.seek(target.0, target.1).expect("seek");
            let stands = cursor.valid().then(|| (cursor.key().to_vec(), cursor.trailer().0));
            assert_eq!(stands, expected.get(at).map(|e| (e.0.clone(), e.1)), "{probe} {seq}");
            cursor.seek_before(target.0, target.1).expect("seek");
            let stands = cursor.valid().then(|| (cursor.key().to_vec(), cursor.trailer().0));
            let before = at.checked_sub(1).map(|i| (expected[i].0.clone(), expected[i].1));
            assert_eq!(stands, before, "{probe} {seq}");
        }
    }
    cursor.seek_to_last().expect("seek");
    for e in expected.iter().rev() {
        assert_eq!((cursor.key(), cursor.trailer().0), (&e.0[..], e.1));
        cursor.prev().expect("prev");
    }
    assert!(!cursor.valid());
}

/// Keys of which many have the same eight bytes behind what all share.
fn crowded_keys() -> Vec<Vec<u8>> {
    let tenants = (0..40u64).flat_map(|tenant| {
        let name = format!("{}/table{:05}/", mix64(tenant) % 5, tenant % 7);
        (0..50).map(move |row| format!("{name}{:012}", mix64(row) % 30 * 1_000).into_bytes())
    });
    // One that ends has the integer of one that goes on with zeros.
    let zeros = (0..30).map(|n| [&b"ends"[..], &vec![0; n]].concat());
    let zeros_behind = (0..30).map(|n| [&b"behind eight"[..], &vec![0; n]].concat());
    // More rounds than there are.
    let steps = (0..60).map(|n| vec![b's'; 8 * n]);
    let longer = (0..60).map(|n| [&vec![b's'; 4 * n][..], b"\xff"].concat());
    let often = (0..40).map(|_| b"one key".to_vec());
    tenants.chain(zeros).chain(zeros_behind).chain(steps).chain(longer).chain(often).collect()
}

#[test]
fn keys_that_share_a_lot_are_in_order() {
    let keys = crowded_keys();
    for of_each in [1, 3] {
        let mem = Arc::new(Memtable::new(KeyOrder::Bytewise));
        let mut model = Model::new();
        let mut seq = 0;
        for at in (0..keys.len() * of_each).map(|i| i * 7919 % keys.len()) {
            seq += 1;
            put(&mem, &mut model, seq, &keys[at], &seq.to_le_bytes());
        }
        let expected: Vec<_> =
            model.iter().map(|((k, t), v)| (k.clone(), t.0, v.clone())).collect();
        let mut cursor = mem.sealed_cursor();
        assert_eq!(all(&mut cursor), expected);
        check_seeks(&KeyOrder::Bytewise, &mut cursor, &expected);
        for probe in ["ends\0\0", "behind eight\0", "ssssssssssssssss", "one key", "3/table00002/"]
        {
            let target = (probe.as_bytes(), Trailer::seek(seq));
            cursor.seek(target.0, target.1).expect("seek");
            let at = expected.partition_point(|e| {
                KeyOrder::Bytewise.compare_internal((&e.0, Trailer(e.1)), target).is_lt()
            });
            assert_eq!(cursor.key(), expected[at].0, "{probe}");
        }
    }
}

#[test]
fn all_records_are_sorted_however_many_were_expected() {
    for expected in [0, 1, 99, 100, 101, 5_000] {
        let mem = Arc::new(Memtable::new(KeyOrder::Bytewise));
        let mut model = Model::new();
        for seq in 1..=100 {
            put(&mem, &mut model, seq, &mix64(seq).to_be_bytes(), b"");
        }
        let piece = mem.sorted.whole(&mem.order, &mem.arena, expected);
        let found: Vec<_> = all(&mut MemCursor::new(mem, piece)).into_iter().map(|r| r.0).collect();
        assert!(found.iter().eq(model.keys().map(|(key, _)| key)), "{expected} expected");
    }
}

#[test]
fn range_tombstones_cover_old_and_recent_alike() {
    let mem = Memtable::new(KeyOrder::Bytewise);
    for seq in 1..=200u64 {
        let start = mix64(seq) % 100;
        mem.writer().insert_range(
            format!("{start:03}").as_bytes(),
            format!("{:03}", start + 5).as_bytes(),
            seq,
        );
        for key in 0..105u64 {
            for at in [seq, seq / 2] {
                let plain = (1..=at).filter(|s| (0..5).any(|d| mix64(*s) % 100 + d == key)).max();
                assert_eq!(mem.covering(format!("{key:03}").as_bytes(), at), plain);
            }
        }
    }
    assert!(mem.united_range_tombstones().fragments().len() > 20);
}

#[test]
fn values_of_every_size_fit() {
    let mem = Arc::new(Memtable::new(KeyOrder::Bytewise));
    let sizes = [0, 1, 4 << 20, 3, (1 << 20) + 1, 100, 9 << 20, 2 << 20, 1 << 20, 5];
    for (i, &size) in sizes.iter().enumerate() {
        let key = [i as u8];
        let trailer = Trailer::new(i as u64 + 1, Kind::Put);
        mem.writer().insert(&key, hash64(&key), trailer, &vec![i as u8; size]);
    }
    for (i, &size) in sizes.iter().enumerate() {
        let (_, value) = mem.get(&[i as u8], hash64(&[i as u8]), 99).expect("present");
        assert!(value.len() == size && value.iter().all(|&b| b == i as u8));
    }
    assert_eq!(all(&mut mem.sealed_cursor()).len(), sizes.len());
}

#[test]
fn readers_see_whole_records_while_one_writes() {
    let mem = Arc::new(Memtable::new(KeyOrder::Bytewise));
    let writes = 40_000u64;
    std::thread::scope(|scope| {
        for reader in 0..2u64 {
            let mem = mem.clone();
            scope.spawn(move || {
                let mut floor = [0u64; 64];
                let mut round = reader;
                while floor.iter().sum::<u64>() < 64 * (writes - 64) {
                    round += 1;
                    let slot = (mix64(round) % 64) as usize;
                    let key = (slot as u64).to_be_bytes();
                    if let Some((trailer, value)) = mem.get(&key, hash64(&key), Seq::MAX >> 8) {
                        assert_eq!(value, trailer.seq().to_le_bytes().repeat(3));
                        assert!(trailer.seq() >= floor[slot], "time went back");
                        floor[slot] = trailer.seq();
                    }
                    if round.is_multiple_of(5_000) {
                        let mut cursors = mem.cursors();
                        let seen: usize = cursors.iter_mut().map(|c| all(c).len()).sum();
                        assert!(seen as u64 <= mem.entries());
                    }
                }
            });
        }
        for seq in 1..=writes {
            let key = (seq % 64).to_be_bytes();
            let value = seq.to_le_bytes().repeat(3);
            mem.writer().insert(&key, hash64(&key), Trailer::new(seq, Kind::Put), &value);
        }
    });
}

/// Bytewise, unless it is told to panic.
struct Fragile(AtomicBool);

impl Comparator for Fragile {
    fn name(&self) -> &str {
        "fragile"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        assert!(!self.0.load(Relaxed), "told to");
        a.cmp(b)
    }
}

#[test]
fn an_order_that_panics_once_loses_no_record() {
    let fragile = Arc::new(Fragile(AtomicBool::new(false)));
    let mem = Arc::new(Memtable::new(KeyOrder::Custom(fragile.clone())));
    let mut model = Model::new();
    let count = |mem: &Arc<Memtable>| mem.cursors().iter_mut().map(|c| all(c).len()).sum::<usize>();
    for seq in [1, 2] {
        put(&mem, &mut model, seq, &[seq as u8], b"");
    }
    assert_eq!(count(&mem), 2);
    put(&mem, &mut model, 3, &[3], b"");
    fragile.0.store(true, Relaxed);
    let panics = |run: &dyn Fn()| catch_unwind(AssertUnwindSafe(run)).is_err();
    assert!(panics(&|| drop(mem.cursors())) && panics(&|| drop(mem.sealed_cursor())));
    fragile.0.store(false, Relaxed);
    assert_eq!(all(&mut mem.sealed_cursor()).len(), 3);
    assert_eq!(count(&mem), 3);
}
