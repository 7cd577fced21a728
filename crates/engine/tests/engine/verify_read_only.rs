//! A database that is only read is verified with its logs.

use crate::support::{DIR, setup};
use esker::base::vfs::strict::StrictVfs;
use esker::{Db, Error, Options};
use std::path::{Path, PathBuf};

/// The log with records.
fn log(disk: &StrictVfs) -> PathBuf {
    let logs = disk.file_names(Path::new(DIR)).into_iter().filter(|name| name.ends_with(".wal"));
    let used = |name: &PathBuf| {
        disk.read_file(name).expect("log").iter().filter(|&&byte| byte != 0).count()
    };
    logs.map(|name| Path::new(DIR).join(name)).max_by_key(used).expect("a log")
}

#[test]
fn logs_are_read_again() {
    for closed in [true, false] {
        let disk = StrictVfs::new();
        let db = Db::open_with(DIR, Options::default(), setup(&disk)).expect("open");
        db.put(b"table", b"1").expect("put");
        db.flush().expect("flush");
        db.put(b"log", b"1").expect("put");
        db.sync().expect("sync");
        let disk = if closed {
            db.close().expect("close");
            disk
        } else {
            disk.deep_copy()
        };
        let db = Db::open_read_only_with(DIR, Options::default(), setup(&disk)).expect("open");
        let mut told = None;
        let report = db.verify(|at| {
            told = Some(*at);
            true
        });
        let (report, told) = (report.expect("verify"), told.expect("progress"));
        assert!(report.damage.is_empty(), "{report:?}");
        assert!(report.files >= 2, "a table and a log: {report:?}");
        assert_eq!((told.files, told.bytes), (told.files_total, told.bytes_total));
        let log = log(&disk);
        assert!(report.bytes > disk.read_file(&log).expect("log").len() as u64, "{report:?}");
        // It goes bad while the database is open.
        disk.flip_bit(&log, 8 * 50).expect("flip");
        let report = db.verify(|_| true).expect("verify");
        assert!(
            matches!(&report.damage[..], [(path, Error::Corruption { .. })] if *path == log),
            "{report:?}"
        );
        assert!(matches!(db.verify(|_| false), Err(Error::Cancelled)));
    }
}
