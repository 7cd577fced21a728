//! An indexed cursor against the sorted list of all records.

use super::{IndexedCursor, Lend, MergeCursor, Ranked};
use crate::block::BlockCursor;
use crate::cursor::{Advance, Cursor, Step};
use crate::random::Random;
use crate::run_index::tests::index_of;
use crate::run_index::{EntryCursor, Slots, single_slot};
use esker_base::{KeyOrder, Kind, Result, Trailer};
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BTreeSet;

std::thread_local! {
    /// How often this thread compared what two sources stand on.
    pub(super) static COMPARISONS: Cell<u64> = const { Cell::new(0) };
}

type Record = (Vec<u8>, Trailer);

/// As records are ordered: newest first within a key.
fn order(record: &Record) -> (&[u8], Reverse<Trailer>) {
    (&record.0, Reverse(record.1))
}

/// A run in memory.
struct List {
    records: Vec<Record>,
    at: Option<usize>,
}

impl List {
    fn new(mut records: Vec<Record>) -> List {
        records.sort_by(|a, b| order(a).cmp(&order(b)));
        List { records, at: None }
    }

    fn go(&mut self, at: Option<usize>) -> Result<()> {
        self.at = at.filter(|&at| at < self.records.len());
        Ok(())
    }

    fn place(&self, key: &[u8], trailer: Trailer) -> usize {
        self.records.partition_point(|record| order(record) < (key, Reverse(trailer)))
    }

    fn here(&self) -> &Record {
        &self.records[self.at.expect("valid")]
    }
}

impl Cursor for List {
    fn valid(&self) -> bool {
        self.at.is_some()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.go(Some(0))
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.go(self.records.len().checked_sub(1))
    }

    fn seek(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        self.go(Some(self.place(key, trailer)))
    }

    fn seek_before(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        self.go(self.place(key, trailer).checked_sub(1))
    }

    fn next(&mut self) -> Result<()> {
        self.go(self.at.map(|at| at + 1))
    }

    fn prev(&mut self) -> Result<()> {
        self.go(self.at.and_then(|at| at.checked_sub(1)))
    }

    fn key(&self) -> &[u8] {
        &self.here().0
    }

    fn trailer(&self) -> Trailer {
        self.here().1
    }

    fn value(&self) -> &[u8] {
        &self.here().0
    }
}

impl Advance for List {
    fn advance(&mut self) -> Result<Option<Step<'_>>> {
        let before = self.at;
        self.next()?;
        Ok(self.at.map(|at| Step {
            key: &self.records[at].0,
            trailer: self.records[at].1,
            repeats: before.is_some_and(|before| self.records[before].0 == self.records[at].0),
        }))
    }
}

impl Lend for List {
    fn exchange_leaf(&mut self, _: &mut BlockCursor) -> bool {
        false
    }
}

/// Few enough to come again, of all lengths, many the beginning of others.
fn random_key(random: &mut Random) -> Vec<u8> {
    let len = random.below(4);
    let mut key: Vec<u8> = (0..len).map(|_| b"ab\xff"[random.below(3) as usize]).collect();
    if random.below(2) == 0 {
        key.extend_from_slice(format!("long{:02}", random.below(30)).as_bytes());
    }
    key
}

/// Runs with the slots that stand for them, an index that names each for every key it has and for
/// some that it has not, and all records.
fn build(random: &mut Random) -> (IndexedCursor<List>, Vec<Record>) {
    let (mut slot, mut seq) = (0, 0);
    let (mut sources, mut named, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..1 + random.below(6) {
        let mut records = Vec::new();
        for _ in 0..random.below(40) {
            seq += 1;
            let kind = if random.below(3) == 0 { Kind::Delete } else { Kind::Put };
            records.push((random_key(random), Trailer::new(seq, kind)));
        }
        // A run that compactions have united has several slots, and has lost keys.
        let mut slots: Slots = 0;
        let keys: Vec<Vec<u8>> = records.iter().map(|(key, _)| key.clone()).collect();
        let parts = 1 + random.below(3);
        for part in 0..parts {
            let mine = keys.iter().enumerate().filter(|(at, _)| *at as u64 % parts == part);
            let mut keys: BTreeSet<Vec<u8>> = mine.map(|(_, key)| key.clone()).collect();
            keys.extend((0..random.below(20)).map(|_| random_key(random)));
            named.push((keys, slot));
            slots |= single_slot(slot);
            slot += 1;
        }
        all.extend(records.iter().cloned());
        sources.push((slots, List::new(records)));
    }
    // A slot whose run is gone, and belongs to none of the sources.
    named.push(((0..10).map(|_| random_key(random)).collect(), slot));
    let index = index_of(&named);
    (IndexedCursor::new(EntryCursor::new(index), sources), List::new(all).records)
}

#[test]
fn random_walks_go_through_all_records_in_their_order() {
    let mut random = Random(3);
    for round in 0..3_000 {
        let (mut cursor, all) = build(&mut random);
        let mut at: Option<usize> = None;
        for step in 0..60 {
            let place = |key: &[u8], trailer: Trailer| {
                all.partition_point(|record| order(record) < (key, Reverse(trailer)))
            };
            let key = random_key(&mut random);
            let trailer = match random.below(3) {
                0 => Trailer(u64::MAX),
                _ => Trailer::seek(random.below(200)),
            };
            match random.below(14) {
                0 => {
                    cursor.seek_to_first().expect("first");
                    at = Some(0);
                }
                1 => {
                    cursor.seek_to_last().expect("last");
                    at = all.len().checked_sub(1);
                }
                2 => {
                    cursor.seek(&key, trailer).expect("seek");
                    at = Some(place(&key, trailer));
                }
                3 => {
                    cursor.seek_before(&key, trailer).expect("seek before");
                    at = place(&key, trailer).checked_sub(1);
                }
                4..=8 => {
                    if let Some(here) = at {
                        let repeats = all.get(here + 1).map(|next| next.0 == all[here].0);
                        let told = cursor.advance().expect("advance");
                        let told = told.map(|step| (step.key.to_vec(), step.trailer, step.repeats));
                        let next = all.get(here + 1).cloned();
                        let expected = next.zip(repeats).map(|((key, t), same)| (key, t, same));
                        assert_eq!(told, expected, "round {round} step {step}");
                        at = Some(here + 1);
                    }
                }
                _ => {
                    if at.is_some() {
                        cursor.prev().expect("prev");
                        at = at.and_then(|here| here.checked_sub(1));
                    }
                }
            }
            at = at.filter(|&here| here < all.len());
            let shown = cursor.valid().then(|| (cursor.key().to_vec(), cursor.trailer()));
            assert_eq!(shown, at.map(|here| all[here].clone()), "round {round} step {step}");
        }
    }
}

/// A scan of records that lie in `runs` runs by chance, `copies` of each key: comparisons for each
/// record, by a merge and by an index.
fn comparisons(runs: u64, copies: u64) -> (f64, f64) {
    const RECORDS: u64 = 20_000;
    let mut random = Random(9);
    let mut records = vec![Vec::new(); runs as usize];
    for seq in 1..=RECORDS {
        let key = format!("user{:012}", seq / copies * 7_919).into_bytes();
        records[random.below(runs) as usize].push((key, Trailer::new(seq, Kind::Put)));
    }
    let keys = |run: &Vec<Record>| run.iter().map(|(key, _)| key.clone()).collect();
    let named: Vec<(BTreeSet<Vec<u8>>, usize)> =
        records.iter().map(keys).enumerate().map(|(slot, keys)| (keys, slot)).collect();
    let lists = || records.iter().cloned().map(List::new).enumerate();
    let merged = lists().map(|(rank, cursor)| Ranked { rank, cursor }).collect();
    let led = lists().map(|(slot, list)| (single_slot(slot), list)).collect();
    let index = EntryCursor::new(index_of(&named));
    return (
        of_a_scan(&mut MergeCursor::new(KeyOrder::Bytewise, merged)),
        of_a_scan(&mut IndexedCursor::new(index, led)),
    );

    fn of_a_scan(cursor: &mut impl Cursor) -> f64 {
        cursor.seek_to_first().expect("first");
        let (before, mut passed) = (COMPARISONS.get(), 0);
        while cursor.valid() {
            passed += 1;
            cursor.next().expect("next");
        }
        assert_eq!(passed, RECORDS);
        (COMPARISONS.get() - before) as f64 / RECORDS as f64
    }
}

/// Runs are compared with each other by a merge for every record, with an index only where several
/// have a key.
#[test]
fn a_scan_led_by_an_index_compares_no_keys_of_runs() {
    for (runs, merged_min) in [(4, 2.0), (16, 4.0), (64, 6.0)] {
        let (merged, led) = comparisons(runs, 1);
        println!("{runs} runs: {merged:.2} comparisons a record merged, {led:.2} led by an index");
        assert!(merged > merged_min, "{runs} runs: {merged}");
        assert!(led == 0.0, "{runs} runs: {led}");
    }
    let (merged, led) = comparisons(16, 2);
    println!("two records of each key: {merged:.2} merged, {led:.2} led by an index");
    assert!(led <= 0.5, "one for two records: {led}");
}
