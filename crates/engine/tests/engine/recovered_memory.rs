//! What an open takes from logs keeps to the memory of memtables: what has no room becomes tables.

use super::support::{DIR, setup};
use esker::base::vfs::strict::StrictVfs;
use esker::{Db, KeyspaceOptions, Options};

/// With so much memory for memtables, and nothing that merges what they become.
fn open(disk: &StrictVfs, memtables_bytes_max: u64) -> Db {
    let default_keyspace = KeyspaceOptions {
        level0_runs_compact: 100,
        level0_runs_slow: 200,
        level0_runs_max: 300,
        ..KeyspaceOptions::default()
    };
    let memory_budget_bytes = 4 * memtables_bytes_max;
    let options = Options {
        memory_budget_bytes,
        memtables_bytes_max,
        default_keyspace,
        ..Options::default()
    };
    Db::open_with(DIR, options, setup(disk)).expect("open")
}

/// A store that has put so much of each of these keyspaces into its log, in turns, and is opened
/// again with 2 MiB for memtables.
fn reopened(names: &[String], records: u64) -> Db {
    let disk = StrictVfs::new();
    let db = open(&disk, 64 << 20);
    for name in names {
        if name != "default" {
            db.create_keyspace(name, KeyspaceOptions::default()).expect("create");
        }
    }
    let key = |number: u64| number.to_be_bytes();
    for number in 0..records {
        for name in names {
            let keyspace = db.keyspace(name).expect("keyspace");
            keyspace.put(&key(number), &[number as u8; 1_000]).expect("put");
        }
    }
    db.close().expect("close");
    let db = open(&disk, 2 << 20);
    for name in names {
        let keyspace = db.keyspace(name).expect("keyspace");
        for number in 0..records {
            let value = keyspace.get(&key(number)).expect("get");
            assert_eq!(value.as_deref(), Some(&[number as u8; 1_000][..]), "{name} {number}");
        }
    }
    db
}

fn runs(db: &Db, name: &str) -> usize {
    db.keyspace(name).expect("keyspace").tables().expect("tables").len()
}

#[test]
fn one_keyspace_takes_a_quarter_at_the_most() {
    let names = ["default".to_owned()];
    let db = reopened(&names, 4_000);
    assert!(runs(&db, "default") >= 7, "{} runs of half a MiB", runs(&db, "default"));
}

#[test]
fn many_keyspaces_take_what_there_is_together() {
    let names: Vec<String> = (0..16).map(|number| format!("k{number}")).collect();
    let db = reopened(&names, 200);
    let runs: usize = names.iter().map(|name| runs(&db, name)).sum();
    assert!(runs > names.len(), "none has a quarter, and together they have more than there is");
}
