//! A get asks the filters of all tables that may hold its key, and believes only those that say no.

use super::support::{DIR, setup};
use esker::base::vfs::strict::StrictVfs;
use esker::report::Stats;
use esker::{Db, Filter, KeyspaceOptions, Options};

/// Bits a key of the filters of one run each: tables stand side by side whose keys set one bit in
/// their filters, or eight, or another number.
const DENSITIES: [u32; 11] = [10, 4, 10, 1, 20, 20, 3, 10, 7, 1, 10];
const KEYS: u64 = 400;

fn key(run: usize, number: u64) -> Vec<u8> {
    format!("key{number:05}-{run:02}").into_bytes()
}

/// Begins with the same randomness each time, so that the tables of all runs have the same salt.
fn open(disk: &StrictVfs, bits_per_key: u32) -> Db {
    let default_keyspace = KeyspaceOptions {
        filter: Filter::Bloom { bits_per_key },
        level0_runs_compact: 100,
        level0_runs_slow: 200,
        level0_runs_max: 300,
        ..KeyspaceOptions::default()
    };
    let options = Options { default_keyspace, ..Options::default() };
    Db::open_with(DIR, options, setup(disk)).expect("open")
}

/// What `reads` counted since `before`: filters asked, those that said no, those that were wrong to
/// say yes.
fn since(db: &Db, before: &Stats) -> (u64, u64, u64) {
    let now = db.stats().reads;
    let before = before.reads;
    (
        now.filter_checks - before.filter_checks,
        now.filter_negatives - before.filter_negatives,
        now.filter_false_positives - before.filter_false_positives,
    )
}

#[test]
fn filters_of_all_densities_are_asked_for_one_key() {
    let disk = StrictVfs::new();
    for (run, bits_per_key) in DENSITIES.into_iter().enumerate() {
        let db = open(&disk, bits_per_key);
        for number in 0..KEYS {
            db.put(&key(run, number), &key(run, number)).expect("put");
        }
        db.flush().expect("flush");
        db.close().expect("close");
    }
    let db = open(&disk, 10);
    let runs = DENSITIES.len() as u64;
    assert_eq!(db.stats().keyspaces[0].levels[0].runs, runs);
    // The second time every filter is at hand.
    for _ in 0..2 {
        for (run, _) in DENSITIES.iter().enumerate() {
            let before = db.stats();
            for number in 1..KEYS - 1 {
                let key = key(run, number);
                assert_eq!(db.get(&key).expect("get").as_deref(), Some(&key[..]));
            }
            let (asked, denied, wrong) = since(&db, &before);
            let newer = runs - 1 - run as u64;
            assert_eq!(asked, (KEYS - 2) * (newer + 1), "the newer runs and the one that has it");
            assert_eq!(denied + wrong, (KEYS - 2) * newer, "none of the newer ones has it");
        }
        let before = db.stats();
        for number in 1..KEYS - 1 {
            assert!(db.get(&key(99, number)).expect("get").is_none());
        }
        let (asked, denied, wrong) = since(&db, &before);
        assert_eq!((asked, denied + wrong), ((KEYS - 2) * runs, (KEYS - 2) * runs));
        assert!(denied > asked * 7 / 10, "{denied} of {asked}");
    }
}
