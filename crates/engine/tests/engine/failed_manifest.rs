//! While the manifest cannot be written, flushes are tried again and again; none of them leaves a
//! table behind that fills the disk.

use crate::support::{DIR, setup_on};
use esker::base::Vfs;
use esker::base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker::base::vfs::strict::{StrictVfs, Survival};
use esker::{Db, KeyspaceOptions, Options};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn names(vfs: &StrictVfs, ending: &str) -> Vec<String> {
    let names = vfs.file_names(Path::new(DIR));
    names.into_iter().filter(|name| name.ends_with(ending)).collect()
}

fn tables(vfs: &StrictVfs) -> Vec<String> {
    names(vfs, ".tbl")
}

#[test]
fn tables_of_failed_flushes_go() {
    let (strict, tries) = (StrictVfs::new(), 5);
    let vfs = FaultyVfs::new(Arc::new(strict.clone()));
    let setup = setup_on(Arc::new(vfs.clone()), 7);
    let db = Db::open_with(DIR, Options::default(), setup).expect("open");
    db.put(b"key", &vec![1; 100 << 10]).expect("put");
    // From the first table on.
    let (disk, begun) = (strict.clone(), AtomicBool::new(false));
    let fails = move |path: &Path| {
        if !tables(&disk).is_empty() {
            begun.store(true, Ordering::Relaxed);
        }
        path.to_string_lossy().contains("MANIFEST") && begun.load(Ordering::Relaxed)
    };
    let ops = [Op::Create, Op::CreateLog, Op::Append];
    vfs.inject(FaultRule::nth(1, &ops, Fault::NoSpace).from_then_on().on(fails));
    for nth in 0..tries {
        db.flush().expect_err("no manifest");
        // The first one's goes before another is made.
        assert_eq!(tables(&strict).len(), usize::from(nth == 0));
    }
    vfs.heal();
    db.flush().expect("flush");
    assert_eq!(tables(&strict).len(), 1, "{:?}", tables(&strict));
    assert!(db.get(b"key").expect("get").is_some());
    db.close().expect("close");
}

/// What an edit that found no space was to name makes room for the manifest that follows.
#[test]
fn the_table_of_a_failed_flush_makes_room_for_a_manifest() {
    let strict = StrictVfs::new();
    let vfs = FaultyVfs::new(Arc::new(strict.clone()));
    let setup = setup_on(Arc::new(vfs.clone()), 7);
    let db = Db::open_with(DIR, Options::default(), setup).expect("open");
    db.put(b"key", &vec![1; 100 << 10]).expect("put");
    // As if the first table took all there is.
    let disk = strict.clone();
    let fails =
        move |path: &Path| path.to_string_lossy().contains("MANIFEST") && !tables(&disk).is_empty();
    let ops = [Op::Create, Op::CreateLog, Op::Append];
    vfs.inject(FaultRule::nth(1, &ops, Fault::NoSpace).from_then_on().on(fails));
    db.flush().expect_err("no manifest");
    assert_eq!(tables(&strict).len(), 1);
    let _ = db.flush();
    assert!(tables(&strict).len() <= 1 && names(&strict, "").len() < 8, "one at a time");
    let made = names(&strict, "").iter().filter(|name| name.contains("MANIFEST-")).count();
    assert_eq!(made, 1, "the new one is in force, and the old one gone");
    assert!(names(&strict, "").iter().all(|name| name != "MANIFEST-000001"));
    vfs.heal();
    db.close().expect("close");
}

/// Whatever it is that finds no space, from whichever call on: trying again takes no more of it.
#[test]
fn on_a_full_disk_nothing_piles_up() {
    for nth in 1..60 {
        let strict = StrictVfs::new();
        let vfs = FaultyVfs::new(Arc::new(strict.clone()));
        let setup = || setup_on(Arc::new(vfs.clone()), 7);
        let mut options = Options::default();
        options.default_keyspace.memtable_bytes = 64 << 10;
        let db = Db::open_with(DIR, options.clone(), setup()).expect("open");
        let mut rounds = Vec::new();
        let mut written = 0;
        for round in 0..8 {
            // What was found free before is so again.
            vfs.heal();
            vfs.inject(FaultRule::nth(nth, &Op::GROWS, Fault::NoSpace).from_then_on());
            for i in 0..20u64 {
                written += u64::from(db.put(&(20 * round + i).to_be_bytes(), &[1; 9_000]).is_ok());
            }
            let _ = db.flush();
            let _ = db.default_keyspace().compact_range(None, None);
            let (all, logs) = (names(&strict, "").len(), names(&strict, ".wal").len());
            // One that takes no record is used no more.
            assert!(logs <= 4 + 2 * round as usize, "{nth}: {logs} logs after round {round}");
            rounds.push((all - logs, written));
        }
        // In a round that takes no write, no file stays; but for what an edit may have named.
        let piled = rounds.windows(3).find(|round| {
            round.iter().all(|(_, written)| *written == round[0].1) && round[2].0 > round[1].0
        });
        assert!(piled.is_none(), "{nth}: files and writes after each round: {rounds:?}");
        let closed = db.close();
        vfs.heal();
        let db = Db::open_with(DIR, options, setup())
            .unwrap_or_else(|e| panic!("{nth}: {e}, {closed:?}"));
        let found = db.iter().expect("a cursor").count() as u64;
        assert!(found >= written, "{nth}: {found} of {written}");
        db.close().expect("close");
    }
}

/// An open that finds no space, at whichever call, leaves no more behind when it is tried again:
/// where records become tables, and where they are few and copied into the next log.
#[test]
fn opens_that_fail_leave_no_files() {
    for records in [300, 100] {
        failing_opens(records);
    }
}

fn failing_opens(records: u64) {
    let mut nth = 1;
    loop {
        let strict = StrictVfs::new();
        let vfs = FaultyVfs::new(Arc::new(strict.clone()));
        let open_on = |vfs: &FaultyVfs, memtable_bytes| {
            let mut options = Options::default();
            options.default_keyspace.memtable_bytes = memtable_bytes;
            Db::open_with(DIR, options, setup_on(Arc::new(vfs.clone()), 7))
        };
        let db = open_on(&vfs, 64 << 20).expect("open");
        for i in 0..records {
            db.put(&i.to_be_bytes(), &[1; 9_000]).expect("put");
        }
        // As if the process had ended.
        let strict = strict.deep_copy();
        drop(db);
        let vfs = FaultyVfs::new(Arc::new(strict.clone()));
        let names = || strict.file_names(Path::new(DIR));
        let mut left = Vec::new();
        let mut opened = None;
        for _ in 0..5 {
            // What was found free before is so again.
            vfs.heal();
            vfs.inject(FaultRule::nth(nth, &Op::GROWS, Fault::NoSpace).from_then_on());
            match open_on(&vfs, 1 << 20) {
                Ok(db) => {
                    opened = Some(db);
                    break;
                }
                Err(_) => left.push(names().len()),
            }
            let tables = if opened.is_none() { tables(&strict) } else { Vec::new() };
            assert!(tables.is_empty(), "{records}, {nth}: {tables:?}");
        }
        // The first may leave a log that is named, which stays until the next one is.
        let same = left.iter().skip(1).all(|&files| files == left[1] && files <= left[0] + 1);
        assert!(same, "{records}, {nth}: {left:?}: {:?}", names());
        vfs.heal();
        let is_through = opened.is_some();
        let db = opened.map_or_else(|| open_on(&vfs, 1 << 20), Ok).expect("open");
        assert_eq!(db.iter().expect("a cursor").count() as u64, records);
        let _ = db.close();
        if is_through {
            break;
        }
        nth += 1;
    }
    assert!(nth > 10, "{nth}");
}

/// A log that could not be named is in nobody's way: few records were to be copied into it.
#[test]
fn a_log_for_copies_that_got_no_name_goes() {
    let strict = StrictVfs::new();
    let open = |vfs: Arc<dyn Vfs>| Db::open_with(DIR, Options::default(), setup_on(vfs, 7));
    let db = open(Arc::new(strict.clone())).expect("open");
    db.put(b"key", b"value").expect("put");
    let strict = strict.deep_copy();
    drop(db);
    let vfs = FaultyVfs::new(Arc::new(strict.clone()));
    let (disk, before) = (strict.clone(), names(&strict, ".wal"));
    let logs = before.len();
    let is_next = move |path: &Path| {
        path.to_string_lossy().contains("MANIFEST") && names(&disk, ".wal").len() > logs
    };
    vfs.inject(FaultRule::nth(1, &[Op::Append], Fault::NoSpace).from_then_on().on(is_next));
    open(Arc::new(vfs.clone())).expect_err("the manifest takes no edit");
    assert_eq!(names(&strict, ".wal"), before);
    vfs.heal();
    let db = open(Arc::new(vfs)).expect("open");
    assert!(db.get(b"key").expect("get").is_some());
    db.close().expect("close");
}

/// A manifest that was written anew and cannot be gone on with is no panic, at whichever append
/// that shows.
#[test]
fn a_new_manifest_may_fail_at_each_append() {
    let mut nth = 1;
    loop {
        let vfs = FaultyVfs::new(Arc::new(StrictVfs::new()));
        let open = || Db::open_with(DIR, Options::default(), setup_on(Arc::new(vfs.clone()), 7));
        let db = open().expect("open");
        let create = |name| db.create_keyspace(name, KeyspaceOptions::default());
        let fail = |nth| {
            let rule = FaultRule::nth(nth, &[Op::Append], Fault::NoSpace);
            vfs.inject(rule.on(|path: &Path| path.to_string_lossy().contains("MANIFEST")));
        };
        fail(1);
        create("a").expect_err("the manifest is broken");
        vfs.heal();
        let before = vfs.faults_fired();
        fail(nth);
        if create("a").is_err() {
            vfs.heal();
            create("a").expect("another new manifest");
        }
        vfs.heal();
        create("b").expect("create");
        let is_through = vfs.faults_fired() == before;
        db.close().expect("close");
        assert_eq!(open().expect("open").keyspace_names(), ["default", "a", "b"]);
        if is_through {
            break;
        }
        nth += 1;
    }
    assert!(nth > 3, "{nth}");
}

/// A manifest that is long is written anew before the next edit: that it cannot be, for another
/// reason than want of room, is found out before files are made.
#[test]
fn tables_do_not_pile_up_while_a_long_manifest_cannot_be_written_anew() {
    let strict = StrictVfs::new();
    let vfs = FaultyVfs::new(Arc::new(strict.clone()));
    let options = Options { manifest_bytes_max: 4 << 10, ..Options::default() };
    let db = Db::open_with(DIR, options, setup_on(Arc::new(vfs.clone()), 7)).expect("open");
    let is_manifest = |path: &Path| path.to_string_lossy().contains("MANIFEST");
    vfs.inject(FaultRule::nth(1, &[Op::CreateLog], Fault::Eio).from_then_on().on(is_manifest));
    let mut left = Vec::new();
    for number in 0..400u64 {
        let put = db.put(&number.to_be_bytes(), b"v");
        if put.is_err() || db.flush().is_err() {
            left.push(names(&strict, "").len());
        }
        if left.len() == 6 {
            break;
        }
    }
    assert!(left.len() == 6 && left.iter().all(|&files| files <= left[0]), "{left:?}");
    vfs.heal();
    db.flush().expect("flush");
    db.close().expect("close");
}

/// The same of what is loaded in bulk while a manifest in doubt cannot be written anew.
#[test]
fn loaded_tables_do_not_pile_up_while_a_manifest_in_doubt_cannot_be_written_anew() {
    let strict = StrictVfs::new();
    let vfs = FaultyVfs::new(Arc::new(strict.clone()));
    let setup = setup_on(Arc::new(vfs.clone()), 7);
    let db = Db::open_with(DIR, Options::default(), setup).expect("open");
    let is_manifest = |path: &Path| path.to_string_lossy().contains("MANIFEST");
    vfs.inject(FaultRule::nth(2, &[Op::Append], Fault::Late).on(is_manifest));
    db.create_keyspace("a", KeyspaceOptions::default()).expect_err("it may be there all the same");
    vfs.inject(FaultRule::nth(1, &[Op::CreateLog], Fault::Eio).from_then_on().on(is_manifest));
    let load = || {
        let mut ingest = db.default_keyspace().ingest()?;
        ingest.put(b"key", b"value")?;
        ingest.finish()
    };
    for _ in 0..5 {
        load().expect_err("no manifest");
        assert_eq!(tables(&strict), [""; 0]);
    }
    vfs.heal();
    load().expect("load");
    assert_eq!(db.get(b"key").expect("get").as_deref(), Some(&b"value"[..]));
    db.close().expect("close");
}

/// A log whose name could not be made durable goes at once: no edit has named it.
#[test]
fn a_log_without_a_durable_name_is_removed() {
    let strict = StrictVfs::new();
    let vfs = FaultyVfs::new(Arc::new(strict.clone()));
    let open = || Db::open_with(DIR, Options::default(), setup_on(Arc::new(vfs.clone()), 7));
    let db = open().expect("open");
    db.put(b"key", b"value").expect("put");
    vfs.inject(FaultRule::nth(1, &[Op::SyncDir], Fault::Eio));
    db.flush().expect_err("the next log has no name");
    assert_eq!(names(&strict, ".wal").len(), 1);
    assert!(db.close().is_err());
    let db = open().expect("open");
    assert!(db.get(b"key").expect("get").is_some());
    db.close().expect("close");
}

/// A rename that fails may happen all the same, later: what it would make CURRENT name stays.
#[test]
fn a_manifest_stays_whose_renaming_failed() {
    let strict = StrictVfs::new();
    let vfs = FaultyVfs::new(Arc::new(strict.clone()));
    let db = Db::open_with(DIR, Options::default(), setup_on(Arc::new(vfs.clone()), 7));
    let db = db.expect("open");
    let create = |name| db.create_keyspace(name, KeyspaceOptions::default());
    let is_manifest = |path: &Path| path.to_string_lossy().contains("MANIFEST");
    vfs.inject(FaultRule::nth(1, &[Op::Append], Fault::NoSpace).on(is_manifest));
    create("a").expect_err("the manifest is broken");
    vfs.inject(FaultRule::nth(1, &[Op::Rename], Fault::Eio));
    create("a").expect_err("another cannot be put in force");
    let manifests = || {
        let all = names(&strict, "");
        all.iter().filter(|name| name.starts_with("MANIFEST")).count()
    };
    assert_eq!(manifests(), 2);
    create("a").expect("create");
    db.close().expect("close");
}

/// CURRENT may name a manifest although putting it in force failed: the long one that was in force
/// before takes no more edits then, also where there is no room for a third.
#[test]
fn a_long_manifest_takes_no_edit_behind_one_that_may_be_in_force() {
    let strict = StrictVfs::new();
    let vfs = FaultyVfs::new(Arc::new(strict.clone()));
    let options = Options { manifest_bytes_max: 4 << 10, ..Options::default() };
    let open = |vfs: Arc<FaultyVfs>| Db::open_with(DIR, options.clone(), setup_on(vfs, 7));
    let db = open(Arc::new(vfs.clone())).expect("open");
    // CURRENT is renamed, which fails all the same; from then on it is not, and there is no room
    // for a manifest.
    let failed = Arc::new(AtomicBool::new(false));
    let (late, is_full) = (failed.clone(), failed.clone());
    let is_current = move |path: &Path| {
        let hit = path.to_string_lossy().contains("CURRENT");
        late.fetch_or(hit, Ordering::Relaxed);
        hit
    };
    vfs.inject(FaultRule::nth(1, &[Op::Rename], Fault::Late).on(is_current.clone()));
    vfs.inject(FaultRule::nth(2, &[Op::Rename], Fault::Eio).from_then_on().on(is_current));
    let is_manifest = move |path: &Path| {
        is_full.load(Ordering::Relaxed) && path.to_string_lossy().contains("MANIFEST")
    };
    let no_room = FaultRule::nth(1, &[Op::CreateLog], Fault::NoSpace).from_then_on();
    vfs.inject(no_room.on(is_manifest));
    let (mut written, mut after_it) = (0..400u64, 0);
    while after_it < 5 {
        let number = written.next().expect("a manifest gets long by so many flushes");
        db.put(&number.to_be_bytes(), b"v").expect("put");
        let flushed = db.flush();
        if failed.load(Ordering::Relaxed) {
            after_it += 1;
            assert!(after_it == 1 || flushed.is_err(), "in a manifest that is not in force");
        }
    }
    let after = strict.crash(Survival::ProcessDeath, 1);
    drop(db);
    let db = open(Arc::new(FaultyVfs::new(Arc::new(after.clone())))).expect("open again");
    for number in 0..written.start {
        assert!(db.get(&number.to_be_bytes()).expect("get").is_some(), "{number}");
    }
    db.close().expect("close");
}

/// Nor do manifests pile up that CURRENT certainly does not name.
#[test]
fn manifests_do_not_pile_up_while_current_cannot_be_written() {
    for op in [Op::Create, Op::Append, Op::Sync, Op::Finish, Op::Rename] {
        let strict = StrictVfs::new();
        let vfs = FaultyVfs::new(Arc::new(strict.clone()));
        let db = Db::open_with(DIR, Options::default(), setup_on(Arc::new(vfs.clone()), 7));
        let db = db.expect("open");
        db.put(b"key", b"value").expect("put");
        db.flush().expect("flush");
        let create = || db.create_keyspace("a", KeyspaceOptions::default());
        let is_manifest = |path: &Path| path.to_string_lossy().contains("MANIFEST");
        vfs.inject(FaultRule::nth(1, &[Op::Append], Fault::NoSpace).on(is_manifest));
        create().expect_err("the manifest is broken");
        let is_current = |path: &Path| path.to_string_lossy().contains("CURRENT");
        vfs.inject(FaultRule::nth(1, &[op], Fault::Eio).from_then_on().on(is_current));
        let manifests = || {
            let all = names(&strict, "");
            all.iter().filter(|name| name.starts_with("MANIFEST")).count()
        };
        for _ in 0..5 {
            create().expect_err("another cannot be put in force");
            for survival in [Survival::None, Survival::All] {
                let after = strict.crash(survival, 1);
                let db = Db::open_with(DIR, Options::default(), setup_on(Arc::new(after), 7));
                let db = db.expect("whichever is in force");
                assert!(db.get(b"key").expect("get").is_some(), "{op:?}, {survival:?}");
                assert_eq!(db.keyspace_names(), ["default"], "{op:?}, {survival:?}");
            }
        }
        // What may be in force when a renaming failed cannot go.
        let most = if op == Op::Rename { 2 } else { 1 };
        assert!(manifests() <= most, "{op:?}: {} manifests", manifests());
        vfs.heal();
        if op != Op::Sync {
            create().expect("create");
            assert_eq!(manifests(), 1, "{op:?}");
            db.close().expect("close");
        }
    }
}
