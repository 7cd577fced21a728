//! Verification: reads every byte of every live file and checks what can be checked.

use super::core::{Core, View, value_files};
use super::secondary::catalogue::Index;
use super::secondary::check;
use crate::log::{LogKind, Reader};
use crate::names;
use crate::value_log::{Place, ValueFile};
use crate::version::{NamedWal, Table, TableStore};
use esker_base::vfs::Access;
use esker_base::{Error, Result};
use std::path::PathBuf;
use std::sync::Arc;

/// How far a verification is.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct VerifyProgress {
    /// Files read so far.
    pub files: u64,
    /// Files there are.
    pub files_total: u64,
    /// Bytes read so far.
    pub bytes: u64,
    /// Bytes there are.
    pub bytes_total: u64,
}

/// What a verification found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Files read.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Records in tables.
    pub entries: u64,
    /// Values kept apart that records in tables point to.
    pub values: u64,
    /// Indexes that were ready, and were compared with the records that they are of.
    pub indexes: Vec<IndexReport>,
    /// What is damaged; empty if all is well.
    pub damage: Vec<(PathBuf, Error)>,
}

/// An index compared with the records that it is of.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct IndexReport {
    /// The keyspace that is indexed.
    pub keyspace: String,
    /// The field.
    pub field: String,
    /// Entries there are.
    pub entries: u64,
    /// Records that have the field and no entry of its value.
    pub missing: u64,
    /// Entries of no record, or of a value that the record has not.
    pub stray: u64,
    /// The key of one of either, if there is any: then the index stands under `damage` too.
    pub example: Option<Vec<u8>>,
}

/// Reads all tables, values and logs, but for the log that is being written, and checks how they
/// fit together.
pub(super) fn verify(
    core: &Core,
    progress: impl FnMut(&VerifyProgress) -> bool,
) -> Result<VerifyReport> {
    verify_views(core, &views_of_one_moment(core), progress)
}

/// The views of all keyspaces. They hold the tables, so that no file goes away meanwhile.
///
/// Keyspaces share files with values: when one is collected between two looks, the older view has
/// tables that point to what the newer one's files have not, since nobody needs it any more.
fn views_of_one_moment(core: &Core) -> Vec<Arc<View>> {
    // Of a database that is only read, nothing changes.
    let _versions = core.lock_versions().ok();
    core.keyspaces.load().by_id.values().map(|keyspace| keyspace.view.load_full()).collect()
}

fn verify_views(
    core: &Core,
    views: &[Arc<View>],
    mut progress: impl FnMut(&VerifyProgress) -> bool,
) -> Result<VerifyReport> {
    let tables: Vec<Arc<Table>> =
        views.iter().flat_map(|view| view.version.tables()).map(|(_, t)| t.clone()).collect();
    let logs = logs_of(core);
    let values = values_of(core, views);
    let mut at = VerifyProgress {
        files_total: (tables.len() + logs.len() + values.len()) as u64,
        bytes_total: tables.iter().map(|t| t.meta.file_bytes).sum::<u64>()
            + values.iter().map(|(_, bytes)| bytes).sum::<u64>()
            + logs.iter().map(|log| log.bytes).sum::<u64>(),
        ..VerifyProgress::default()
    };
    let mut report = VerifyReport::default();
    for table in &tables {
        match check_table(&core.store, table) {
            Ok(()) => report.entries += table.meta.entries,
            Err(error) => {
                report.damage.push((names::table(&core.dir, table.meta.number), error));
            }
        }
        at.files += 1;
        at.bytes += table.meta.file_bytes;
        if !progress(&at) {
            return Err(Error::Cancelled);
        }
    }
    for (file, bytes) in &values {
        match check_values(core, file, &tables) {
            Ok(values) => report.values += values,
            Err(error) => {
                // A table that points to them may be what is damaged, and is known to be.
                let path = error.path().unwrap_or(file.path()).to_path_buf();
                if path == file.path() || report.damage.iter().all(|(known, _)| *known != path) {
                    report.damage.push((path, error));
                }
            }
        }
        at.bytes += bytes;
        at.files += 1;
        if !progress(&at) {
            return Err(Error::Cancelled);
        }
    }
    for log in &logs {
        match check_log(core, log) {
            Ok(()) => {}
            // Flushed and removed while we were reading.
            Err(Error::NotFound { .. }) if log.named.is_none() => {}
            Err(error) => report.damage.push((names::wal(&core.dir, log.number), error)),
        }
        at.bytes += log.bytes;
        at.files += 1;
        if !progress(&at) {
            return Err(Error::Cancelled);
        }
    }
    for index in core.indexes.list().all() {
        check_index(core, index, &mut report, || progress(&at))?;
        if !progress(&at) {
            return Err(Error::Cancelled);
        }
    }
    report.files = at.files;
    report.bytes = at.bytes;
    Ok(report)
}

/// Compares an index with its records, if it is ready.
///
/// # Errors
/// `Cancelled` once `go_on` says no.
fn check_index(
    core: &Core,
    index: &Index,
    report: &mut VerifyReport,
    go_on: impl FnMut() -> bool,
) -> Result<()> {
    let checked = match check::check(core, index, go_on) {
        Ok(Some(checked)) => checked,
        Ok(None) => return Ok(()),
        Err(Error::Cancelled) => return Err(Error::Cancelled),
        Err(error) => {
            report.damage.push((core.dir.to_path_buf(), error));
            return Ok(());
        }
    };
    if checked.example.is_some() {
        let what =
            "an index and the records that it is of do not agree: drop it and create it again";
        report.damage.push((core.dir.to_path_buf(), Error::corruption(&*core.dir, 0, what)));
    }
    report.indexes.push(IndexReport {
        keyspace: core.keyspace(index.of).map_or_else(String::new, |k| k.name.clone()),
        field: index.field.clone(),
        entries: checked.entries,
        missing: checked.missing,
        stray: checked.stray,
        example: checked.example,
    });
    Ok(())
}

pub(super) fn check_table(store: &TableStore, table: &Arc<Table>) -> Result<()> {
    // What memory has of it says nothing about the disk.
    let reader = table.read_anew(0)?;
    reader.verify()?;
    let (order, meta) = (table.order(), &table.meta);
    let properties = reader.properties();
    let outside = "the table holds keys outside the range that the manifest gives it";
    let fits = properties.entries == 0
        || (!order.less(&properties.smallest_key, &meta.smallest)
            && !order.less(&meta.largest, &properties.largest_key));
    if fits {
        Ok(())
    } else {
        Err(Error::corruption(names::table(&store.dir, meta.number), 0, outside))
    }
}

/// The files with values that tables of these views point into, each once, with their lengths.
fn values_of(core: &Core, views: &[Arc<View>]) -> Vec<(Arc<ValueFile>, u64)> {
    let bytes = |file: &ValueFile| -> Result<u64> {
        core.env.vfs.open(file.path(), Access::Sequential)?.len_bytes()
    };
    value_files(views).map(|file| (file.clone(), bytes(file).unwrap_or(0))).collect()
}

/// Reads a file with values, and checks that whatever tables point to in it is there. Returns how
/// much that is.
fn check_values(core: &Core, file: &Arc<ValueFile>, tables: &[Arc<Table>]) -> Result<u64> {
    let meta = &file.meta;
    let kind = match meta.place {
        Place::Wal => LogKind::Wal,
        Place::Moved { .. } => LogKind::Values,
    };
    let vfs = core.env.vfs.as_ref();
    let mut reader = Reader::open(vfs, file.path(), kind, meta.number, 0)?;
    let damaged = |at, what| Error::corruption(file.path(), at, what);
    if reader.header().is_none_or(|header| header.salt != meta.salt) {
        return Err(damaged(0, "the file with values is not the one the manifest names"));
    }
    let mut places = Vec::new();
    while let Some(entry) = reader.next_of_all()? {
        if entry.codec.is_some() {
            places.push(entry.offset_bytes);
        }
    }
    let end = reader.position_bytes();
    if meta.file_bytes != u64::MAX && end < meta.file_bytes {
        return Err(damaged(end, "a record of the file with values cannot be read"));
    }
    let (Some(&first), Some(&last)) = (meta.logs.first(), meta.logs.last()) else { return Ok(0) };
    let (mut pointed_to, mut missing) = (0, None);
    for table in tables {
        if !table.meta.references.iter().any(|share| meta.logs.contains(&share.log)) {
            continue;
        }
        table.shared_reader()?.references(first, last, |log, from| {
            if meta.logs.binary_search(&log).is_err() {
                return;
            }
            pointed_to += 1;
            match file.place(log, from) {
                Ok(at) if places.binary_search(&at).is_ok() => {}
                Ok(at) => {
                    missing = Some(damaged(at, "a table points to a value that is not there"));
                }
                Err(error) => missing = Some(error),
            }
        })?;
    }
    missing.map_or(Ok(pointed_to), Err)
}

/// A log that is to be checked.
struct Log {
    number: u64,
    /// What the manifest says of it, in a database that is only read.
    named: Option<NamedWal>,
    bytes: u64,
}

fn logs_of(core: &Core) -> Vec<Log> {
    let retired: Vec<u64> = core.retired.lock().iter().map(|wal| wal.number).collect();
    let read = core.read_wals.0.iter().map(|(&number, &wal)| (number, Some(wal)));
    let all = read.chain(retired.into_iter().map(|number| (number, None)));
    let bytes = |number| -> Result<u64> {
        core.env.vfs.open(&names::wal(&core.dir, number), Access::Sequential)?.len_bytes()
    };
    // One that cannot be opened is told of when it is checked.
    all.map(|(number, named)| Log { number, named, bytes: bytes(number).unwrap_or(0) }).collect()
}

fn check_log(core: &Core, log: &Log) -> Result<()> {
    let path = names::wal(&core.dir, log.number);
    let vfs = core.env.vfs.as_ref();
    let mut reader = match log.named {
        Some(wal) => Reader::open_named(vfs, &path, log.number, wal.salt)?,
        None => Reader::open(vfs, &path, LogKind::Wal, log.number, 0)?,
    };
    if reader.header().is_none() {
        // One that was never begun holds nothing.
        return match log.named {
            Some(_) => Ok(()),
            None => Err(Error::corruption(path, 0, "the log has lost its header")),
        };
    }
    while let Some((offset, payload)) = reader.next()? {
        let damaged = |what| Error::corruption(&path, offset, what);
        let (_, _, ops) = esker_base::batch::decode(payload).map_err(damaged)?;
        for op in ops {
            op.map_err(damaged)?;
        }
    }
    Ok(())
}

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests {
    use super::*;
    use crate::db::{Db, Keyspace, Setup};
    use crate::options::{KeyspaceOptions, Options};
    use esker_base::vfs::strict::StrictVfs;
    use esker_base::{Env, Vfs};
    use std::path::Path;
    use std::sync::mpsc;
    use std::time::Duration;

    /// A store with two keyspaces that have large values in the same log.
    fn store() -> (Db, [Keyspace; 2]) {
        let apart =
            KeyspaceOptions { value_log_bytes_min: Some(100), ..KeyspaceOptions::default() };
        let options = Options { default_keyspace: apart.clone(), ..Options::default() };
        let env = Env::with_vfs(Arc::new(StrictVfs::new()), 1);
        let setup = Setup { env, inline_background: true, ..Setup::default() };
        let db = Db::open_with("/db", options, setup).expect("open");
        let keyspaces = ["a", "b"].map(|name| db.create_keyspace(name, apart.clone()));
        let keyspaces = keyspaces.map(|keyspace| keyspace.expect("create"));
        for keyspace in &keyspaces {
            keyspace.put(b"key", &[7; 300]).expect("put");
        }
        db.flush().expect("flush");
        (db, keyspaces)
    }

    #[test]
    fn views_of_two_moments_would_tell_of_damage_that_is_not_there() {
        let (db, [a, b]) = store();
        let core = db.core();
        let before = a.core.view.load_full();
        a.put(b"key", b"short").expect("put");
        a.compact_range(None, None).expect("compact");
        db.collect_values(0.0, |_| true).expect("collect");
        let after = b.core.view.load_full();
        let damage = verify_views(core, &[before, after], |_| true).expect("verify").damage;
        assert_eq!(damage.len(), 1, "a value that was left out: {damage:?}");
        let damage = db.verify(|_| true).expect("verify").damage;
        assert!(damage.is_empty(), "{damage:?}");
    }

    /// A table that is open is in memory in part, and its file is open.
    #[test]
    fn of_open_tables_the_files_are_judged() {
        type Harm = fn(&StrictVfs, &Path, u64);
        let harms: [(&str, Harm); 3] = [
            ("a bit", |disk, table, len| disk.flip_bit(table, len * 8 - 100).expect("flip")),
            ("a cut", |disk, table, len| disk.truncate_raw(table, len - 64).expect("cut")),
            ("no file", |disk, table, _| disk.remove(table).expect("remove")),
        ];
        for (what, harm) in harms {
            let disk = StrictVfs::new();
            let env = Env::with_vfs(Arc::new(disk.clone()), 1);
            let setup = Setup { env, inline_background: true, ..Setup::default() };
            let db = Db::open_with("/db", Options::default(), setup).expect("open");
            db.put(b"key", b"value").expect("put");
            db.flush().expect("flush");
            assert!(db.get(b"key").expect("get").is_some());
            let files = disk.all_files();
            let is_table = |path: &&PathBuf| path.extension().is_some_and(|e| e == "tbl");
            let table = files.iter().find(is_table).expect("a table");
            let len = disk.read_file(table).expect("table").len() as u64;
            harm(&disk, table, len);
            let damage = db.verify(|_| true).expect("verify").damage;
            let [(path, _)] = &damage[..] else { panic!("{what}: {damage:?}") };
            assert_eq!(path, table, "{what}");
        }
    }

    #[test]
    fn views_are_taken_when_nobody_changes_them() {
        let (db, _) = store();
        let core = db.core();
        let (begin, begun) = mpsc::channel();
        std::thread::scope(|scope| {
            let versions = core.lock_versions().expect("open");
            let verified = scope.spawn(|| db.verify(|_| begin.send(()).is_ok()));
            let early = begun.recv_timeout(Duration::from_millis(100));
            assert!(early.is_err(), "somebody is about to change them");
            drop(versions);
            let report = verified.join().expect("no panic").expect("verify");
            assert!(report.damage.is_empty() && report.files > 0, "{report:?}");
        });
    }
}
