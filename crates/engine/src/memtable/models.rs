//! Loom models of the memtable: the real one, with tiny chunks and a hash index of eight slots.
//!
//! Loom does not see plain memory, so the arena's witness tells it who touches which granule: a
//! record read before it is ordered after its writing fails the model, whatever the bytes say by
//! luck. Run by `cargo xtask loom`. Each model says which planted faults it was seen to find.

use super::Memtable;
use crate::cursor::Cursor;
use crate::models::explore;
use esker_base::checksum::hash64;
use esker_base::sync::thread;
use esker_base::{KeyOrder, Kind, Seq, Trailer};
use std::sync::Arc;

const SEQ_MAX: Seq = Seq::MAX >> 8;

/// A value that tells of itself whether it is whole.
fn value(seq: Seq) -> [u8; 8] {
    (seq | seq << 32).to_le_bytes()
}

fn put(mem: &Memtable, seq: Seq, key: &[u8]) {
    mem.writer().insert(key, hash64(key), Trailer::new(seq, Kind::Put), &value(seq));
}

/// The sequence number of the record found; 0 if there is none.
fn found(mem: &Memtable, key: &[u8], at: Seq) -> Seq {
    mem.get(key, hash64(key), at).map_or(0, |(trailer, bytes)| {
        assert_eq!(bytes, value(trailer.seq()), "a record is read whole");
        trailer.seq()
    })
}

fn empty() -> Arc<Memtable> {
    Arc::new(Memtable::new(KeyOrder::Bytewise))
}

/// One thread inserts two records of a key, one after the other has two looks at it.
///
/// At most three preemptions.
/// Seen to find: the slot's store in `HashIndex::set` Relaxed; the slot's load in `probe` Relaxed.
#[test]
fn a_record_found_is_whole_and_time_does_not_go_back() {
    explore("insert beside get", 3, || {
        let mem = empty();
        let writer = {
            let mem = mem.clone();
            thread::spawn(move || (1..=2).for_each(|seq| put(&mem, seq, b"k")))
        };
        let first = found(&mem, b"k", SEQ_MAX);
        let second = found(&mem, b"k", SEQ_MAX);
        assert!(first <= second, "{first} became {second}");
        assert!(found(&mem, b"k", 1) <= 1, "an older read sees no newer record");
        writer.join().expect("the writer ends");
        assert_eq!((found(&mem, b"k", SEQ_MAX), found(&mem, b"k", 1)), (2, 1));
    });
}

/// The seventh key makes the index grow while another thread looks for the first and the last one.
///
/// At most three preemptions. Seen to find: the store of `current` in `install` Relaxed; `install`
/// before the slots are copied.
#[test]
fn nothing_is_lost_while_the_index_grows() {
    explore("index growth beside get", 3, || {
        let mem = empty();
        (1..=6u8).for_each(|k| put(&mem, u64::from(k), &[k]));
        let writer = {
            let mem = mem.clone();
            thread::spawn(move || (7..=8u8).for_each(|k| put(&mem, u64::from(k), &[k])))
        };
        let last = found(&mem, &[8], SEQ_MAX);
        assert!(last == 0 || found(&mem, &[7], SEQ_MAX) == 7, "the eighth came before the seventh");
        assert_eq!(found(&mem, &[1], SEQ_MAX), 1, "it was there before");
        writer.join().expect("the writer ends");
        (1..=8u8).for_each(|k| assert_eq!(found(&mem, &[k], SEQ_MAX), u64::from(k)));
    });
}

/// Two threads insert, a third one reads. The first of their records makes the index grow.
///
/// At most three preemptions. Seen to find: `writer()` that does not take the lock; the store of
/// `current` in `install` Relaxed.
#[test]
fn writers_take_turns() {
    explore("two writers beside get", 3, || {
        let mem = empty();
        (1..=6u8).for_each(|k| put(&mem, u64::from(k), &[k]));
        let writers: Vec<_> = [7u8, 8]
            .into_iter()
            .map(|k| {
                let mem = mem.clone();
                thread::spawn(move || put(&mem, u64::from(k), &[k]))
            })
            .collect();
        let seen = [7u8, 8].map(|k| found(&mem, &[k], SEQ_MAX));
        assert!(seen[0] == 0 || seen[0] == 7);
        assert!(seen[1] == 0 || seen[1] == 8);
        writers.into_iter().for_each(|writer| writer.join().expect("a writer ends"));
        (1..=8u8).for_each(|k| assert_eq!(found(&mem, &[k], SEQ_MAX), u64::from(k)));
        assert_eq!(mem.entries(), 8);
    });
}

/// A scan sorts what there is while records come in, the last one into a new chunk.
///
/// At most two preemptions. Seen to find: the store of `used` in `append` Relaxed, or before the
/// bytes are written; the store of `chunk_count` Relaxed; the store of `entries` Relaxed.
#[test]
fn a_scan_sees_whole_records_and_a_prefix_of_them() {
    explore("insert beside scan", 2, || {
        let mem = empty();
        (1..=3u8).for_each(|k| put(&mem, u64::from(k), &[k]));
        let writer = {
            let mem = mem.clone();
            thread::spawn(move || (4..=5u8).for_each(|k| put(&mem, u64::from(k), &[k])))
        };
        let count = |least: u64| {
            let entries = mem.entries();
            let mut seen: Vec<Seq> = Vec::new();
            for mut cursor in mem.cursors() {
                cursor.seek_to_first().expect("seek");
                while cursor.valid() {
                    let seq = cursor.trailer().seq();
                    assert_eq!(cursor.value(), value(seq), "a record is read whole");
                    assert_eq!(cursor.key(), [seq as u8]);
                    seen.push(seq);
                    cursor.next().expect("next");
                }
            }
            seen.sort_unstable();
            assert!(seen.len() as u64 >= entries.max(least), "a counted record is there");
            assert_eq!(seen, (1..=seen.len() as u64).collect::<Vec<_>>(), "no gap, none twice");
            seen.len() as u64
        };
        let first = count(3);
        count(first);
        writer.join().expect("the writer ends");
        count(5);
    });
}

/// A range tombstone that was counted is seen, by gets and in the sets.
///
/// At most three preemptions. Seen to find: `sets` that leave out what is in no set yet.
/// A `count` that is stored too early does no harm and is not noticed: readers ask for records that
/// were counted in `entries`.
#[test]
fn a_range_tombstone_is_seen_once_it_is_counted() {
    explore("range tombstone beside get", 3, || {
        let mem = empty();
        mem.writer().insert_range(b"a", b"c", 1);
        let writer = {
            let mem = mem.clone();
            thread::spawn(move || mem.writer().insert_range(b"b", b"d", 2))
        };
        let before = mem.entries();
        let newest = mem.covering(b"b", SEQ_MAX).expect("the first is there");
        assert!(newest >= before);
        let sets = mem.range_tombstones();
        let found = sets.iter().filter_map(|set| set.covering(&KeyOrder::Bytewise, b"b", SEQ_MAX));
        assert!(found.max() >= Some(newest));
        writer.join().expect("the writer ends");
        assert_eq!(mem.covering(b"b", SEQ_MAX), Some(2));
        assert_eq!(mem.covering(b"b", 1), Some(1));
    });
}
