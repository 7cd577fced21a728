//! A creation that a full disk cuts off leaves no database and nothing that frightens: with room,
//! the next open makes the database there.

use crate::support::{DIR, setup, setup_on};
use esker::base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker::base::vfs::strict::{StrictOptions, StrictVfs, Survival};
use esker::repair::repair;
use esker::{Db, Error, Options};
use std::path::Path;
use std::sync::Arc;

fn create(vfs: Arc<dyn esker::base::Vfs>) -> Result<(), Error> {
    Db::open_with(DIR, Options::default(), setup_on(vfs, 7)).and_then(Db::close)
}

/// What the tools say to a disk on which a creation failed, and then a creation with room.
fn check(disk: &StrictVfs, what: &str) {
    let current = Path::new(DIR).join("CURRENT");
    let exists = disk.all_files().contains(&current);
    let copy = setup(&disk.deep_copy());
    let repaired = repair(Path::new(DIR), &Options::default(), copy, |_| true);
    if exists {
        assert!(repaired.is_ok(), "{what}: {repaired:?}");
    } else {
        assert!(matches!(repaired, Err(Error::NotFound { .. })), "{what}: {repaired:?}");
        let read = Db::open_read_only_with(DIR, Options::default(), setup(disk));
        assert!(matches!(read, Err(Error::NotFound { .. })), "{what}: {read:?}");
        let options = Options { create_if_missing: false, ..Options::default() };
        let opened = Db::open_with(DIR, options, setup(disk));
        assert!(matches!(opened, Err(Error::NotFound { .. })), "{what}: {opened:?}");
    }
    let db = Db::open_with(DIR, Options::default(), setup(disk)).expect(what);
    db.put(b"a", b"1").expect("put");
    db.close().expect("close");
    let db = Db::open_with(DIR, Options::default(), setup(disk)).expect(what);
    assert_eq!(db.get(b"a").expect("get").as_deref(), Some(&b"1"[..]), "{what}");
    db.close().expect("close");
    // Nothing of the first attempt is left beside it.
    let names = disk.file_names(Path::new(DIR));
    let manifests = names.iter().filter(|name| name.starts_with("MANIFEST")).count();
    assert!(
        manifests == 1 && !names.iter().any(|name| name.ends_with(".tmp")),
        "{what}: {names:?}"
    );
}

/// What is left when the machine stays on, and when it goes off then.
fn check_all(disk: &StrictVfs, what: &str) {
    for survival in [Survival::None, Survival::All] {
        check(&disk.crash(survival, 1), &format!("{what}, {survival:?}"));
    }
    check(disk, what);
}

fn strict(preallocated_logs: bool) -> StrictVfs {
    StrictVfs::with_options(StrictOptions { preallocated_logs, ..StrictOptions::default() })
}

#[test]
fn whatever_a_full_disk_leaves_of_a_creation_is_no_damage() {
    for preallocated in [true, false] {
        let mut failed = 0;
        for capacity in (0..700).step_by(7) {
            let disk = strict(preallocated);
            disk.set_capacity_bytes(Some(capacity));
            let created = create(Arc::new(disk.clone()));
            disk.set_capacity_bytes(None);
            if let Err(error) = created {
                assert!(matches!(error, Error::NoSpace { .. }), "{capacity}: {error}");
                failed += 1;
            }
            check_all(&disk, &format!("{capacity} bytes"));
        }
        assert!(failed > 20, "{failed}");
    }
}

#[test]
fn a_creation_may_run_out_of_space_at_any_call() {
    for preallocated in [true, false] {
        for call in 1.. {
            let disk = strict(preallocated);
            let faults = Arc::new(FaultyVfs::new(Arc::new(disk.clone())));
            faults.inject(FaultRule::nth(call, &Op::GROWS, Fault::NoSpace).from_then_on());
            let created = create(faults.clone());
            if faults.faults_fired() == 0 {
                assert!(created.is_ok() && call > 5, "{call}: {created:?}");
                break;
            }
            check_all(&disk, &format!("call {call}"));
        }
    }
}

/// Opens in each way, which must fail and change nothing.
fn refuses(disk: &StrictVfs, what: &str) {
    let before: Vec<_> = disk.all_files().iter().map(|f| (f.clone(), disk.read_file(f))).collect();
    let vfs = || setup(disk);
    let opened = Db::open_with(DIR, Options::default(), vfs());
    assert!(matches!(opened, Err(Error::Corruption { .. })), "{what}: {opened:?}");
    let read = Db::open_read_only_with(DIR, Options::default(), vfs());
    assert!(matches!(read, Err(Error::Corruption { .. })), "{what}: {read:?}");
    for (file, bytes) in before {
        let now = disk.read_file(&file).expect(what);
        assert!(bytes.is_ok_and(|bytes| bytes == now), "{what}: {}", file.display());
    }
}

#[test]
fn a_manifest_that_tells_of_more_is_no_creation() {
    let disk = strict(true);
    let db = Db::open_with(DIR, Options::default(), setup(&disk)).expect("open");
    db.put(b"a", b"1").expect("put");
    db.flush().expect("flush");
    db.close().expect("close");
    for file in disk.all_files() {
        let name = file.file_name().expect("name").to_string_lossy().into_owned();
        if !name.starts_with("MANIFEST") && name != "LOCK" {
            esker::base::Vfs::remove(&disk, &file).expect("remove");
        }
    }
    refuses(&disk, "all but the manifest is gone");
}

#[test]
fn a_manifest_of_another_program_stays() {
    let disk = StrictVfs::new();
    esker::base::Vfs::create_dir_all(&disk, Path::new(DIR)).expect("directory");
    let theirs = Path::new(DIR).join("MANIFEST-000005");
    // Shorter than a header of ours, too.
    disk.write_file(&theirs, b"\x56\xf9\xb8\xf8\x1c\x00\x01\x01\x1aleveldb.BytewiseComparator")
        .expect("write");
    esker::base::Vfs::create(&disk, &Path::new(DIR).join("LOCK")).expect("lock file");
    refuses(&disk, "a manifest of another store");
}
