//! Destroying a database takes its files and nothing else, also when it is cut off and done again.

use super::support::{DIR, Random, open, setup, setup_on};
use esker::base::Vfs;
use esker::base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker::base::vfs::strict::StrictVfs;
use esker::{Db, Error, KeyspaceOptions, Options, Setup, destroy};
use std::path::Path;
use std::sync::Arc;

/// A closed database with files of all kinds, values that are kept apart included.
fn filled() -> StrictVfs {
    let disk = StrictVfs::new();
    let default_keyspace =
        KeyspaceOptions { value_log_bytes_min: Some(64), ..KeyspaceOptions::default() };
    let options = Options { default_keyspace, ..Options::default() };
    let db = Db::open_with(DIR, options, setup(&disk)).expect("open");
    let mut random = Random(5);
    for round in 0..3 {
        for _ in 0..300 {
            let key = random.below(500).to_be_bytes();
            db.put(&key, &[round; 100]).expect("put");
        }
        db.flush().expect("flush");
    }
    db.put(b"in the log", b"1").expect("put");
    db.close().expect("close");
    disk
}

fn write(disk: &StrictVfs, path: &str) {
    let mut file = disk.create(Path::new(path)).expect("create");
    file.append(b"not ours").expect("append");
    file.finish().expect("finish");
}

#[test]
fn everything_of_ours_goes_and_the_directory_if_it_is_empty() {
    let disk = filled();
    destroy(Path::new(DIR), &setup(&disk)).expect("destroy");
    assert!(!disk.exists(Path::new(DIR)).expect("exists"));
    let error = destroy(Path::new(DIR), &setup(&disk)).expect_err("it is gone");
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
}

#[test]
fn a_directory_that_cannot_go_is_left_empty() {
    let disk = filled();
    let vfs = FaultyVfs::new(Arc::new(disk.clone()));
    vfs.inject(FaultRule::nth(1, &[Op::RemoveDir], Fault::Eio));
    destroy(Path::new(DIR), &setup_on(Arc::new(vfs.clone()), 1)).expect("the store is gone");
    assert_eq!(vfs.faults_fired(), 1);
    assert!(disk.file_names(Path::new(DIR)).is_empty());
}

#[test]
fn what_is_not_ours_stays() {
    let disk = filled();
    for name in ["notes.txt", "draft.tmp", "000001.ldb", "lost/000007.tbl"] {
        disk.create_dir_all(&Path::new(DIR).join("lost")).expect("a directory");
        write(&disk, &format!("{DIR}/{name}"));
    }
    destroy(Path::new(DIR), &setup(&disk)).expect("destroy");
    let mut left = disk.file_names(Path::new(DIR));
    left.sort();
    assert_eq!(left, ["000001.ldb", "draft.tmp", "notes.txt"]);
    assert!(disk.exists(&Path::new(DIR).join("lost/000007.tbl")).expect("exists"));
    let error = destroy(Path::new(DIR), &setup(&disk)).expect_err("nothing of ours is there");
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    assert_eq!(disk.file_names(Path::new(DIR)).len(), 3, "not even a lock was made");
}

#[test]
fn an_open_database_is_not_destroyed() {
    let disk = filled();
    let db = open(&disk);
    let error = destroy(Path::new(DIR), &setup(&disk)).expect_err("held");
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    assert!(db.get(b"in the log").expect("get").is_some());
}

#[test]
fn it_can_be_cut_off_anywhere_and_done_again() {
    for call in 1.. {
        let disk = filled();
        let faults = Arc::new(FaultyVfs::new(Arc::new(disk.clone())));
        let ops = [Op::Remove, Op::SyncDir, Op::RemoveDir];
        faults.inject(FaultRule::nth(call, &ops, Fault::Eio).from_then_on());
        let env = esker::base::Env::with_vfs(faults.clone(), 7);
        let failing = Setup { env, ..setup(&disk) };
        if destroy(Path::new(DIR), &failing).is_ok() {
            assert!(call > 5, "there were several files");
            return;
        }
        match destroy(Path::new(DIR), &setup(&disk)) {
            Ok(()) => assert!(!disk.exists(Path::new(DIR)).expect("exists"), "call {call}"),
            // Only an empty directory was left.
            Err(Error::NotFound { .. }) => {
                assert_eq!(disk.file_names(Path::new(DIR)), [""; 0], "call {call}");
            }
            Err(error) => panic!("call {call}: {error}"),
        }
    }
}
