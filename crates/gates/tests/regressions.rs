//! Mistakes the gates have found, each by its symptom, in the smallest form that shows it.

use esker::base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker::base::vfs::strict::{StrictOptions, StrictVfs};
use esker::base::{Env, Vfs};
use esker::{Db, Error, Options, Setup, WriteOptions};
use esker_gates::history::small_options;
use std::path::Path;
use std::sync::Arc;

fn disk() -> (StrictVfs, FaultyVfs) {
    let options = StrictOptions { preallocated_logs: false, ..StrictOptions::default() };
    let strict = StrictVfs::with_options(options);
    (strict.clone(), FaultyVfs::new(Arc::new(strict)))
}

fn setup(vfs: &FaultyVfs) -> Setup {
    let env = Env::with_vfs(Arc::new(vfs.clone()), 7);
    Setup { env, listener: None, inline_background: true, ..Setup::default() }
}

fn open(vfs: &FaultyVfs, options: &Options) -> Db {
    Db::open_with("/db", options.clone(), setup(vfs)).expect("opens")
}

/// A failed append left half a record; syncing that log later wrote a mark that vouched for it, and
/// the store did not open any more.
#[test]
fn a_store_opens_after_an_append_that_failed() {
    for k in 1..=2 {
        let (_, vfs) = disk();
        let db = open(&vfs, &small_options());
        db.put(b"a", b"1").expect("put");
        let wal = |path: &Path| path.extension().is_some_and(|e| e == "wal");
        vfs.inject(FaultRule::nth(k, &[Op::Append], Fault::ShortWrite).on(wal));
        assert!(matches!(db.put(b"b", b"2"), Err(Error::Io { .. })));
        vfs.heal();
        db.put(b"c", b"3").expect("writes resume");
        db.close().expect("close");
        let db = open(&vfs, &small_options());
        assert_eq!(db.get(b"a").expect("get").as_deref(), Some(&b"1"[..]));
        assert_eq!(db.get(b"b").expect("get"), None);
        assert_eq!(db.get(b"c").expect("get").as_deref(), Some(&b"3"[..]));
    }
}

/// The log was durable, only the mark behind it could not be written; the write was reported as
/// failed, was there after reopening, and the store took no more writes.
#[test]
fn a_mark_that_cannot_be_written_is_no_failed_write() {
    let (_, vfs) = disk();
    let db = open(&vfs, &small_options());
    db.put(b"a", b"1").expect("put");
    let wal = |path: &Path| path.extension().is_some_and(|e| e == "wal");
    vfs.inject(FaultRule::nth(1, &[Op::Append], Fault::NoSpace).on(wal));
    db.sync().expect("the records are durable");
    db.put(b"b", b"2").expect("a new log is started");
    db.close().expect("close");
    let db = open(&vfs, &small_options());
    assert_eq!(db.iter().expect("iter").count(), 2);
}

/// A log that could not be cut to its length when it was done made a batch fail that was in the
/// log: invisible now, back after reopening.
#[test]
fn a_log_that_cannot_be_cut_fails_no_write() {
    let (_, vfs) = disk();
    let db = open(&vfs, &small_options());
    db.create_keyspace("other", small_options().default_keyspace).expect("create");
    vfs.inject(
        FaultRule::nth(1, &[Op::Finish], Fault::Eio)
            .from_then_on()
            .on(|path| path.extension().is_some_and(|e| e == "wal")),
    );
    for _ in 0..20 {
        let mut batch = esker::Batch::new();
        batch.put(b"a", &[1; 30_000]);
        db.write(batch, WriteOptions::SYNC).expect("write");
    }
    db.flush().expect("flush");
}

/// Compaction set the age of a record to 0 although a tombstone over it went on for the sake of
/// other keys: the record was gone.
#[test]
fn a_record_newer_than_a_tombstone_that_goes_on_survives_compaction() {
    let (_, vfs) = disk();
    let mut options = small_options();
    options.default_keyspace.level_base_bytes = 64 << 10;
    options.default_keyspace.level_fanout = 2;
    let db = open(&vfs, &options);
    for round in 0..6u8 {
        for i in 0..40 {
            db.put(format!("m{i:02}").as_bytes(), &[round.wrapping_mul(37) ^ i; 8_000])
                .expect("put");
        }
    }
    db.flush().expect("flush");
    db.wait_idle().expect("idle");
    db.delete_range(b"k", b"m05").expect("delete");
    db.put(b"l", b"newer").expect("put");
    for i in 0..6 {
        db.put(b"lz", &[i; 10]).expect("put");
        db.flush().expect("flush");
        db.wait_idle().expect("idle");
        assert_eq!(db.get(b"l").expect("get").as_deref(), Some(&b"newer"[..]), "flush {i}");
    }
}

/// An edit that only moved a table failed; the next manifest removed the table as void.
#[test]
fn a_move_that_failed_takes_no_table_away() {
    for k in 1.. {
        let (strict, vfs) = disk();
        let mut options = small_options();
        options.default_keyspace.level_base_bytes = 64 << 10;
        let db = open(&vfs, &options);
        let manifest = |path: &Path| path.to_string_lossy().contains("MANIFEST");
        vfs.inject(FaultRule::nth(k, &[Op::Append], Fault::Eio).on(manifest));
        let mut written = 0;
        for i in 0..60u32 {
            written += u32::from(db.put(format!("{i:04}").as_bytes(), &[i as u8; 9_000]).is_ok());
        }
        if vfs.faults_fired() == 0 {
            break;
        }
        vfs.heal();
        db.flush().expect("flush");
        assert_eq!(db.iter().expect("iter").filter(Result::is_ok).count() as u32, written);
        db.close().expect("close");
        drop(strict);
        let db = open(&vfs, &options);
        assert_eq!(db.iter().expect("iter").filter(Result::is_ok).count() as u32, written);
    }
}

/// An older log was cut back to its header; the records of an idle keyspace in it were gone without
/// a word.
#[test]
fn an_older_log_that_lost_its_records_is_corruption() {
    let (strict, vfs) = disk();
    let db = open(&vfs, &small_options());
    let idle = db.create_keyspace("idle", small_options().default_keyspace).expect("create");
    idle.put(b"a", b"1").expect("put");
    db.put(b"b", b"2").expect("put");
    db.default_keyspace().flush().expect("flush");
    db.put(b"c", b"3").expect("put");
    db.sync().expect("sync");
    let left = strict.deep_copy();
    let logs: Vec<String> =
        left.file_names(Path::new("/db")).into_iter().filter(|n| n.ends_with(".wal")).collect();
    assert_eq!(logs.len(), 2, "the idle keyspace needs the older log");
    let older = Path::new("/db").join(&logs[0]);
    left.truncate_raw(&older, 40).expect("cut");
    let vfs = FaultyVfs::new(Arc::new(left.clone()));
    for opened in [
        Db::open_read_only_with("/db", small_options(), setup(&vfs)),
        Db::open_with("/db", small_options(), setup(&vfs)),
    ] {
        assert!(matches!(opened, Err(Error::Corruption { path, .. }) if path == older));
    }
}

/// Read-only, a directory with data and no CURRENT was "not there".
#[test]
fn data_without_current_is_corruption_read_only_too() {
    let (strict, vfs) = disk();
    let db = open(&vfs, &small_options());
    db.put(b"a", b"1").expect("put");
    db.close().expect("close");
    strict.remove(Path::new("/db/CURRENT")).expect("remove");
    let opened = Db::open_read_only_with("/db", small_options(), setup(&vfs));
    assert!(matches!(opened, Err(Error::Corruption { .. })));
}
