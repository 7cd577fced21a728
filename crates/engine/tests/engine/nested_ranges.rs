//! Range deletes that nest, as of somebody who cuts off the front of a queue again and again.

use crate::support::open;
use esker::base::vfs::strict::{StrictVfs, Survival};

/// With a note for each pair of them it would be many gigabytes.
const CUTS: u32 = 20_000;

#[test]
fn they_cost_little_in_memory_in_a_flush_and_in_recovery() {
    let disk = StrictVfs::new();
    let db = open(&disk);
    let snapshots: Vec<_> = (0..CUTS)
        .filter_map(|cut| {
            db.put(&(cut + 10).to_be_bytes(), b"v").expect("put");
            let seen = (cut % 5_000 == 4_999).then(|| (cut, db.snapshot()));
            db.default_keyspace().delete_range(b"", &cut.to_be_bytes()).expect("deleted");
            seen
        })
        .collect();
    let holds = |db: &esker::Db| {
        let left: Vec<u32> = db
            .iter()
            .expect("scan")
            .map(|pair| u32::from_be_bytes(pair.expect("a pair").0[..].try_into().expect("a key")))
            .collect();
        assert_eq!(left, (CUTS - 1..CUTS + 10).collect::<Vec<_>>());
    };
    let saw = |when: &str| {
        for (cut, snapshot) in &snapshots {
            for (key, is_there) in [(cut - 2, false), (cut - 1, true), (cut + 10, true)] {
                let found = db.default_keyspace().get_at(&key.to_be_bytes(), snapshot);
                assert_eq!(found.expect("get").is_some(), is_there, "{key} at {cut}, {when}");
            }
        }
    };
    holds(&db);
    saw("in memory");
    let used = db.stats().memory.memtables;
    assert!(used < 1 << 24, "{used} bytes");
    // Recovered from the log.
    holds(&open(&disk.crash(Survival::ProcessDeath, 1)));
    db.flush().expect("flush");
    holds(&db);
    saw("in a table");
    let tombstones: u64 = db.stats().keyspaces[0].levels.iter().map(|level| level.bytes).sum();
    assert!(tombstones < 1 << 22, "{tombstones} bytes of tables");
}
