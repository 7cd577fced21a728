//! Dumps of sound files say everything; dumps of damaged ones neither panic nor stop at the damage.

use super::{DumpOptions, LogEvent, TableEvent, dump_current, dump_log, dump_table};
use crate::db::{Db, Setup};
use crate::options::{Compression, KeyspaceOptions, Options};
use esker_base::vfs::faulty::{FaultyVfs, Op};
use esker_base::vfs::strict::StrictVfs;
use esker_base::{Env, KeyOrder};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ALL: DumpOptions = DumpOptions { records: true, value_bytes_max: 4, salt: None };

fn specimen() -> (StrictVfs, Vec<PathBuf>) {
    let vfs = StrictVfs::new();
    let env = Env::with_vfs(Arc::new(vfs.clone()), 9);
    let setup = Setup { env, ..Setup::default() };
    let keyspace = KeyspaceOptions { block_bytes: 512, ..KeyspaceOptions::default() };
    let options = Options { default_keyspace: keyspace, ..Options::default() };
    let db = Db::open_with("/db", options, setup).expect("create");
    for i in 0..40 {
        db.put(format!("key{i:02}").as_bytes(), b"some value").expect("put");
    }
    db.delete_range(b"key05", b"key07").expect("delete");
    db.flush().expect("flush");
    db.put(b"late", b"in the log").expect("put");
    db.sync().expect("sync");
    db.delete(b"key01").expect("delete");
    db.close().expect("close");
    let dir = Path::new("/db");
    let files = vfs.file_names(dir).iter().map(|name| dir.join(name)).collect();
    (vfs, files)
}

fn find(files: &[PathBuf], part: &str) -> PathBuf {
    files.iter().find(|f| f.to_string_lossy().contains(part)).expect(part).clone()
}

fn log_lines(vfs: &StrictVfs, path: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    dump_log(vfs, path, &ALL, |event| lines.push(event.to_string())).expect("dump");
    lines
}

fn table_events(vfs: &StrictVfs, path: &Path) -> Vec<TableEvent> {
    let mut events = Vec::new();
    dump_table(vfs, path, &KeyOrder::Bytewise, &ALL, |event| events.push(event.clone()))
        .expect("dump");
    events
}

fn records(events: &[TableEvent]) -> usize {
    events.iter().filter(|event| matches!(event, TableEvent::Record(_))).count()
}

#[test]
fn sound_files_are_told_in_full() {
    let (vfs, files) = specimen();
    let current = dump_current(&vfs, &find(&files, "CURRENT")).expect("dump");
    assert!(current.sound && current.manifest.is_some());
    let long = vfs.deep_copy();
    long.write_file(&find(&files, "CURRENT"), &vec![b'x'; 70_000]).expect("write");
    let current = dump_current(&long, &find(&files, "CURRENT")).expect("damage is told");
    assert!(!current.sound && current.text.len() == 64 << 10);
    let wal = log_lines(&vfs, &find(&files, ".wal")).join("\n");
    assert!(wal.contains("put \"late\" = \"in t…\" (10 bytes)"), "{wal}");
    assert!(wal.contains("delete \"key01\"") && wal.contains("synced up to"), "{wal}");
    let manifest = log_lines(&vfs, &find(&files, "MANIFEST")).join("\n");
    assert!(manifest.contains("keyspace 0 is \"default\""), "{manifest}");
    assert!(manifest.contains("closed at #43") && !manifest.contains("DAMAGED"), "{manifest}");
    let events = table_events(&vfs, &find(&files, ".tbl"));
    assert_eq!(records(&events), 38, "two keys were covered when the table was written");
    let text: Vec<String> = events.iter().map(ToString::to_string).collect();
    let text = text.join("\n");
    for part in ["keyspace: 0 \"default\"", "partition 0", "entry up to", "delete range \"key05\""]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn damage_is_told_and_passed_over() {
    let (vfs, files) = specimen();
    let wal = find(&files, ".wal");
    let lines = log_lines(&vfs, &wal);
    let at: u64 = lines
        .iter()
        .find(|l| l.contains("late"))
        .and_then(|l| l.split(':').next())
        .expect("record")
        .parse()
        .expect("offset");
    vfs.flip_bit(&wal, (at + 12) * 8).expect("flip");
    let damaged = log_lines(&vfs, &wal).join("\n");
    assert!(damaged.contains(&format!("{at}: DAMAGED")), "{damaged}");
    assert!(damaged.contains("delete \"key01\""), "what follows is told: {damaged}");
}

/// A page that cannot be read hides what stands in it, and no other.
#[test]
fn what_lies_beside_a_lost_page_is_told() {
    let vfs = StrictVfs::new();
    let setup = Setup { env: Env::with_vfs(Arc::new(vfs.clone()), 9), ..Setup::default() };
    let keyspace =
        KeyspaceOptions { compression: vec![Compression::None], ..KeyspaceOptions::default() };
    let options = Options { default_keyspace: keyspace, ..Options::default() };
    let db = Db::open_with("/db", options, setup).expect("create");
    for i in 0..1_000u32 {
        db.put(&i.to_be_bytes(), &[i as u8; 100]).expect("put");
    }
    db.flush().expect("flush");
    db.close().expect("close");
    let names = vfs.file_names(Path::new("/db"));
    let table = names.iter().find(|name| name.ends_with(".tbl")).expect("a table");
    let table = Path::new("/db").join(table);
    let salt = match &table_events(&vfs, &table)[..] {
        [TableEvent::File { salt, .. }, ..] => *salt,
        other => panic!("{other:?}"),
    };
    let len = vfs.read_file(&table).expect("table").len() as u64;
    // The footer; then one of the middle too.
    let faulty = FaultyVfs::new(Arc::new(vfs));
    for (lost, least) in [(len - 1, 900), (len / 2, 800)] {
        faulty.lose_page(&table, lost);
        let before = faulty.calls(Op::Read);
        let mut told = 0;
        let options = DumpOptions { salt, ..ALL };
        dump_table(&faulty, &table, &KeyOrder::Bytewise, &options, |event| {
            told += usize::from(matches!(event, TableEvent::Record(_)));
        })
        .expect("dump");
        let reads = faulty.calls(Op::Read) - before;
        assert!(told >= least, "{told} records");
        assert!(reads < 300, "{reads} reads");
    }
}

#[test]
fn no_flip_and_no_cut_makes_a_dump_panic() {
    let (vfs, files) = specimen();
    for file in files.iter().filter(|file| !file.ends_with("LOCK")) {
        let len = vfs.read_file(file).expect("file").len() as u64;
        let name = file.to_string_lossy().into_owned();
        let dump = |vfs: &StrictVfs| {
            if name.ends_with(".tbl") {
                let events = table_events(vfs, file);
                return records(&events);
            }
            if name.ends_with("CURRENT") {
                return usize::from(dump_current(vfs, file).expect("dump").sound);
            }
            let mut batches = 0;
            let count = |event: &LogEvent| {
                batches += usize::from(matches!(event, LogEvent::Batch { .. }));
            };
            dump_log(vfs, file, &ALL, count).expect("dump");
            batches
        };
        let whole = dump(&vfs);
        for bit in (0..len * 8).step_by(5) {
            let damaged = vfs.deep_copy();
            damaged.flip_bit(file, bit).expect("flip");
            assert!(dump(&damaged) <= whole, "{name}: bit {bit}");
        }
        for cut in 0..len {
            let damaged = vfs.deep_copy();
            damaged.truncate_raw(file, cut).expect("cut");
            assert!(dump(&damaged) <= whole, "{name}: cut at {cut}");
        }
    }
}
