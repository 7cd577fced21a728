//! The rows: the call, what is wrong, and which error it is.

use super::World;
use crate::support;
use esker::base::Vfs;
use esker::base::vfs::faulty::{Fault, FaultRule, Op};
use esker::fields::Record;
use esker::{
    Batch, Compaction, Db, FindOptions, KeyOrder, KeyspaceId, KeyspaceOptions, Options, Result,
    ScanOptions, Setup, WriteOptions,
};
use std::path::Path;

/// A row.
pub(super) struct Case {
    pub(super) call: &'static str,
    pub(super) wrong: String,
    pub(super) harm: Harm,
    /// Name of the variant; empty if it is no failure.
    pub(super) error: &'static str,
    pub(super) run: Run,
}

/// The call.
type Run = Box<dyn Fn(&World) -> Result<()>>;

/// What is done to the files of the closed database first. Files are named by the begin or end of
/// their names.
#[derive(Clone, Copy, Debug)]
pub(super) enum Harm {
    None,
    /// The first bit of the byte at this offset.
    Flip(&'static str, u64),
    /// So many bytes at the end.
    Cut(&'static str, u64),
    Remove(&'static str),
    /// Its header says that a newer version made it, and its checksum holds.
    Newer(&'static str),
}

type Section = (&'static str, fn() -> Vec<Case>);

/// All rows.
pub(super) const SECTIONS: &[Section] = &[
    ("Options out of range", ranges),
    ("Opening", opening),
    ("Opening a damaged database", damaged),
    ("Opening what a newer version made", newer),
    ("Writing", writing),
    ("Reading", reading),
    ("Keyspaces", keyspaces),
    ("Records and indexes of fields", indexes),
    ("Groups, and stores below a log", super::groups::rows),
    ("Upkeep", upkeep),
    ("Repair and inspection", tools),
];

pub(super) fn row(
    call: &'static str,
    wrong: impl Into<String>,
    error: &'static str,
    run: impl Fn(&World) -> Result<()> + 'static,
) -> Case {
    Case { call, wrong: wrong.into(), harm: Harm::None, error, run: Box::new(run) }
}

fn after(harm: Harm, case: Case) -> Case {
    Case { harm, ..case }
}

/// From the next call on, every one of these fails so.
fn inject(world: &World, ops: &[Op], fault: Fault) {
    world.faults.inject(FaultRule::nth(1, ops, fault).from_then_on());
}

/// No byte more fits on the disk.
fn fill(world: &World) {
    world.disk.set_capacity_bytes(Some(world.disk.total_bytes()));
}

fn backwards() -> Options {
    let order = support::backwards();
    let default_keyspace = KeyspaceOptions { order, ..KeyspaceOptions::default() };
    Options { default_keyspace, ..Options::default() }
}

/// A key that is one byte too long.
fn long_key() -> Vec<u8> {
    vec![b'k'; (1 << 20) + 1]
}

fn ranges() -> Vec<Case> {
    let of_database = [
        ("memory_budget_bytes", "4194303"),
        ("memtables_bytes_max", "1048575"),
        ("memtables_bytes_max", "536870913"),
        ("block_cache_bytes", "234881025"),
        ("pinned_bytes_max", "234881025"),
        ("run_index_bytes_max", "234881025"),
        ("wal_bytes_max", "1048575"),
        ("compaction_threads", "65"),
        ("open_files_max", "15"),
        ("manifest_bytes_max", "4095"),
    ];
    let of_keyspace = [
        ("memtable_bytes", "65535"),
        ("memtable_bytes", "4294967297"),
        ("block_bytes", "511"),
        ("block_bytes", "1048577"),
        ("restart_interval", "0"),
        ("restart_interval", "257"),
        ("index_partition_bytes", "1023"),
        ("index_partition_bytes", "16777217"),
        ("compression", "[{\"zstd\":{\"level\":0}}]"),
        ("compression", "[{\"zstd\":{\"level\":20}}]"),
        ("filter", "{\"bloom\":{\"bits_per_key\":0}}"),
        ("filter", "{\"bloom\":{\"bits_per_key\":65}}"),
        ("table_bytes_max", "16383"),
        ("table_bytes_max", "4294967297"),
        ("level_base_bytes", "65535"),
        ("level_fanout", "1"),
        ("level_fanout", "101"),
        ("tiered_runs", "1"),
        ("tiered_runs", "33"),
        ("run_index", "true"),
        ("run_index_runs_min", "1"),
        ("run_index_runs_min", "129"),
        ("scheduler", "{\"time-slice\":{\"slice_ms\":0}}"),
        ("scheduler", "{\"time-slice\":{\"slice_ms\":3600001}}"),
        ("scheduler", "{\"time-slice\":{\"release_share\":0.0}}"),
        ("scheduler", "{\"time-slice\":{\"release_share\":1.5}}"),
        ("level0_runs_compact", "0"),
        ("level0_runs_compact", "1001"),
        ("level0_runs_slow", "3"),
        ("level0_runs_max", "12"),
        ("tombstone_ratio_compact", "0.009"),
        ("tombstone_ratio_compact", "1.1"),
    ];
    let mut rows = Vec::new();
    for (inner, settings) in [(false, &of_database[..]), (true, &of_keyspace[..])] {
        for &(name, value) in settings {
            rows.push(row("Db::open", format!("`{name}` = `{value}`"), "InvalidArgument", {
                move |world| world.open_with(options(inner, name, value)).map(drop)
            }));
        }
    }
    rows.push(row("Db::create_keyspace", "`block_bytes` = `511`", "InvalidArgument", |world| {
        let options = options(true, "block_bytes", "511").default_keyspace;
        world.open().create_keyspace("more", options).map(drop)
    }));
    let indexed = || KeyspaceOptions {
        compaction: Compaction::Tiered,
        run_index: true,
        ..KeyspaceOptions::default()
    };
    rows.push(row("Db::open", "a run index of keys in another order", "InvalidArgument", {
        move |world| {
            let order = backwards().default_keyspace.order;
            let default_keyspace = KeyspaceOptions { order, ..indexed() };
            world.open_with(Options { default_keyspace, ..Options::default() }).map(drop)
        }
    }));
    rows.push(row(
        "Db::open",
        "a run index, and `run_index_bytes_max` = `0`",
        "InvalidArgument",
        {
            move |world| {
                let run_index_bytes_max = Some(0);
                let default_keyspace = indexed();
                let options =
                    Options { run_index_bytes_max, default_keyspace, ..Options::default() };
                world.open_with(options).map(drop)
            }
        },
    ));
    rows.push(row(
        "Db::open",
        "a run index, and `block_cache_bytes` = all that memtables and compactions leave",
        "InvalidArgument",
        move |world| {
            let block_cache_bytes = Some(224 << 20);
            let default_keyspace = indexed();
            let options = Options { block_cache_bytes, default_keyspace, ..Options::default() };
            world.open_with(options).map(drop)
        },
    ));
    rows.push(row(
        "Db::create_keyspace",
        "a run index, of which `Db::open` was not told",
        "InvalidArgument",
        move |world| world.open().create_keyspace("more", indexed()).map(drop),
    ));
    rows.push(row("Options::preset", "no such name", "InvalidArgument", |_| {
        Options::preset("fast").map(drop)
    }));
    rows
}

/// The defaults, but for one.
fn options(inner: bool, name: &str, value: &str) -> Options {
    let mut tree = serde_json::to_value(Options::default()).expect("options");
    let place = if inner { &mut tree["default_keyspace"][name] } else { &mut tree[name] };
    *place = serde_json::from_str(value).expect("value");
    serde_json::from_value(tree).expect("options")
}

/// Opens a database with options of a keyspace that it does not have, and that must be there.
fn open_strictly(world: &World, dir: &str) -> Result<()> {
    let keyspaces = [("people", 1 << 20), ("poeple", 1 << 20)].map(|(name, memtable_bytes)| {
        (name.to_owned(), KeyspaceOptions { memtable_bytes, ..KeyspaceOptions::default() })
    });
    let options = Options { keyspaces: keyspaces.into(), ..Options::default() };
    let setup = Setup { keyspaces_must_exist: true, ..world.setup() };
    Db::open_with(dir, options, setup).map(drop)
}

fn opening() -> Vec<Case> {
    vec![
        row("Db::open", "no database, and none to be created", "NotFound", |world| {
            let options = Options { create_if_missing: false, ..Options::default() };
            Db::open_with("gone", options, world.setup()).map(drop)
        }),
        row("Db::open", "a database that must not exist", "InvalidArgument", |world| {
            world.open_with(Options { error_if_exists: true, ..Options::default() }).map(drop)
        }),
        row("Db::open", "another handle has it open", "Busy", |world| {
            let _first = world.open();
            world.open_with(Options::default()).map(drop)
        }),
        row("Db::open", "another key order", "Incompatible", |world| {
            world.open_with(backwards()).map(drop)
        }),
        row("Db::open", "the disk is full", "NoSpace", |world| {
            fill(world);
            world.open_with(Options::default()).map(drop)
        }),
        row("Db::open", "the disk cannot be read", "Io", |world| {
            inject(world, &[Op::Read], Fault::Eio);
            world.open_with(Options::default()).map(drop)
        }),
        row("Db::open", "the disk cannot be written", "Io", |world| {
            inject(world, &[Op::Append], Fault::Eio);
            world.open_with(Options::default()).map(drop)
        }),
        row("Db::open", "nothing can be made durable", "Io", |world| {
            inject(world, &[Op::Sync], Fault::Eio);
            world.open_with(Options::default()).map(drop)
        }),
        row("Db::open", "options of a keyspace that must exist", "InvalidArgument", |world| {
            open_strictly(world, "store")
        }),
        row("Db::open", "the same, and no database: none is made", "InvalidArgument", |world| {
            let opened = open_strictly(world, "gone");
            assert!(!world.disk.exists(Path::new("gone"))?, "something was made");
            opened
        }),
        row("Db::open", "a directory without one, and none to be created", "NotFound", |world| {
            world.disk.create_dir_all(Path::new("empty"))?;
            let options = Options { create_if_missing: false, ..Options::default() };
            Db::open_with("empty", options, world.setup()).map(drop)
        }),
        row("Db::open_read_only", "no database", "NotFound", |world| {
            Db::open_read_only_with("gone", Options::default(), world.setup()).map(drop)
        }),
        row("Db::open_read_only", "another handle has it open", "Busy", |world| {
            let _first = world.open();
            world.read_only().map(drop)
        }),
        row("Db::open_read_only", "another key order", "Incompatible", |world| {
            Db::open_read_only_with("store", backwards(), world.setup()).map(drop)
        }),
    ]
}

fn damaged() -> Vec<Case> {
    let mut rows = Vec::new();
    for (wrong, harm) in [
        ("a bit of CURRENT is wrong", Harm::Flip("CURRENT", 12)),
        ("a bit of the manifest is wrong", Harm::Flip("MANIFEST", 80)),
        ("a bit of the log is wrong", Harm::Flip(".wal", 55)),
        ("CURRENT is missing", Harm::Remove("CURRENT")),
        ("the manifest is missing", Harm::Remove("MANIFEST")),
        ("the log is missing", Harm::Remove(".wal")),
        ("a table is missing", Harm::Remove(".tbl")),
        ("CURRENT is too short", Harm::Cut("CURRENT", 5)),
        ("the manifest is too short", Harm::Cut("MANIFEST", 60)),
        ("the log is too short", Harm::Cut(".wal", 40)),
        ("a table is too short", Harm::Cut(".tbl", 1)),
    ] {
        let open = row("Db::open", wrong, "Corruption", |world| {
            world.open_with(Options::default()).map(drop)
        });
        let read_only =
            row("Db::open_read_only", wrong, "Corruption", |world| world.read_only().map(drop));
        rows.push(after(harm, open));
        rows.push(after(harm, read_only));
    }
    rows
}

fn newer() -> Vec<Case> {
    let mut rows = Vec::new();
    for (wrong, file) in [
        ("a newer version made the manifest", "MANIFEST"),
        ("a newer version made the log", ".wal"),
    ] {
        let open = row("Db::open", wrong, "Incompatible", |world| {
            world.open_with(Options::default()).map(drop)
        });
        let read_only =
            row("Db::open_read_only", wrong, "Incompatible", |world| world.read_only().map(drop));
        let repair = row("repair", wrong, "Incompatible", |world| {
            let dir = Path::new("store");
            esker::repair::repair(dir, &Options::default(), world.setup(), |_| true).map(drop)
        });
        rows.extend([open, read_only, repair].map(|case| after(Harm::Newer(file), case)));
    }
    rows
}

fn writing() -> Vec<Case> {
    vec![
        row("put", "the key is longer than 1 MiB", "InvalidArgument", |world| {
            world.open().put(&long_key(), b"")
        }),
        row("put", "the value is longer than 1 GiB", "InvalidArgument", |world| {
            world.open().put(b"k5", &vec![0; (1 << 30) + 1])
        }),
        row("delete", "the key is longer than 1 MiB", "InvalidArgument", |world| {
            world.open().delete(&long_key())
        }),
        row("delete", "the key is not there: no failure", "", |world| world.open().delete(b"k9")),
        row("delete_range", "an end is longer than 1 MiB", "InvalidArgument", |world| {
            world.open().delete_range(b"a", &long_key())
        }),
        row("delete_range", "it ends before it starts: no failure, removes nothing", "", |world| {
            world.open().delete_range(b"z", b"a")
        }),
        row("write", "one of its keys is too long: none is written", "InvalidArgument", |world| {
            let mut batch = Batch::new();
            batch.put(b"k5", b"5").put(&long_key(), b"");
            world.open().write(batch, WriteOptions::SYNC)
        }),
        row("write", "the batch is longer than 2 GiB", "InvalidArgument", |world| {
            let value = vec![0; 1 << 30];
            let mut batch = Batch::new();
            batch.put(b"k5", &value).put(b"k6", &value);
            world.open().write(batch, WriteOptions::default())
        }),
        row("write", "it names a keyspace that is not there", "InvalidArgument", |world| {
            let mut batch = Batch::new();
            batch.put(b"k5", b"5").put_in(KeyspaceId(4_000), b"k6", b"6");
            world.open().write(batch, WriteOptions::default())
        }),
        row("put", "the database is open for reading only", "ReadOnly", |world| {
            world.read_only()?.put(b"k5", b"5")
        }),
        row("put", "another handle has closed the database", "Cancelled", |world| {
            let db = world.open();
            let other = db.clone();
            db.close()?;
            other.put(b"k5", b"5")
        }),
        row("write", "the disk is full", "NoSpace", |world| {
            let db = world.open();
            inject(world, &[Op::Append], Fault::NoSpace);
            let result = db.put(b"k5", b"5");
            world.faults.heal();
            // Writes resume by themselves.
            db.put(b"k5", b"5")?;
            db.delete(b"k5")?;
            result
        }),
        row("write", "the log cannot be written", "Io", |world| {
            let db = world.open();
            inject(world, &[Op::Append], Fault::Eio);
            db.put(b"k5", b"5")
        }),
        row("sync", "the log cannot be made durable", "Io", |world| {
            let db = world.open();
            db.put(b"k4", b"4")?;
            inject(world, &[Op::Sync], Fault::Eio);
            db.sync()
        }),
        row("put", "a sync has failed before", "Poisoned", |world| {
            let db = world.open();
            db.put(b"k4", b"4")?;
            inject(world, &[Op::Sync], Fault::Eio);
            let failed = db.sync();
            assert!(failed.is_err(), "the sync fails");
            world.faults.heal();
            assert_eq!(db.get(b"k1")?.as_deref(), Some(&b"1"[..]), "reads go on");
            db.put(b"k5", b"5")
        }),
        row("close", "a sync has failed before", "Poisoned", |world| {
            let db = world.open();
            db.put(b"k4", b"4")?;
            inject(world, &[Op::Sync], Fault::Eio);
            let failed = db.sync();
            assert!(failed.is_err(), "the sync fails");
            db.close()
        }),
    ]
}

fn reading() -> Vec<Case> {
    const BLOCK: Harm = Harm::Flip(".tbl", 10);
    vec![
        row("get", "the key is not there: `None`", "", |world| {
            let value = world.open().get(b"k9")?;
            assert!(value.is_none());
            Ok(())
        }),
        row("get", "the key is longer than any can be: `None`", "", |world| {
            let value = world.open().get(&long_key())?;
            assert!(value.is_none());
            Ok(())
        }),
        after(
            BLOCK,
            row("get", "the block is damaged", "Corruption", |world| {
                world.open().keyspace("people")?.get(b"ann").map(drop)
            }),
        ),
        row("get", "the disk cannot be read", "Io", |world| {
            let db = world.open();
            inject(world, &[Op::Read], Fault::Eio);
            db.get(b"k1").map(drop)
        }),
        row("get_at", "the snapshot is of another database", "InvalidArgument", |world| {
            let other = Db::open_with("other", Options::default(), world.setup())?;
            let db = world.open();
            db.default_keyspace().get_at(b"k1", &other.snapshot()).map(drop)
        }),
        row("multi_get", "the snapshot is of another database", "InvalidArgument", |world| {
            let other = Db::open_with("other", Options::default(), world.setup())?;
            let db = world.open();
            db.default_keyspace().multi_get(&[b"k1"], Some(&other.snapshot())).map(drop)
        }),
        row("scan", "the snapshot is of another database", "InvalidArgument", |world| {
            let other = Db::open_with("other", Options::default(), world.setup())?;
            let snapshot = other.snapshot();
            let db = world.open();
            db.default_keyspace().scan(&ScanOptions::default().at(&snapshot)).map(drop)
        }),
        row("scan", "it ends before it starts", "InvalidArgument", |world| {
            world.open().range("b".."a").map(drop)
        }),
        after(
            BLOCK,
            row("Cursor::seek_to_first", "the block is damaged", "Corruption", |world| {
                let db = world.open();
                let mut cursor = db.keyspace("people")?.scan(&ScanOptions::default())?;
                let moved = cursor.seek_to_first();
                assert!(!cursor.valid(), "it stands on nothing");
                moved
            }),
        ),
        after(
            BLOCK,
            row("Pairs::next", "the block is damaged; then it ends", "Corruption", |world| {
                let db = world.open();
                let mut pairs = db.keyspace("people")?.iter()?;
                let first = pairs.next().expect("an error");
                assert!(pairs.next().is_none());
                first.map(drop)
            }),
        ),
    ]
}

/// The database with an index that is ready.
fn indexed(world: &World) -> Result<Db> {
    let db = world.open();
    db.default_keyspace().create_index("price")?;
    db.wait_indexes()?;
    Ok(db)
}

fn indexes() -> Vec<Case> {
    vec![
        row("create_index", "there is one already", "InvalidArgument", |world| {
            indexed(world)?.default_keyspace().create_index("price")
        }),
        row("create_index", "no name", "InvalidArgument", |world| {
            world.open().default_keyspace().create_index("")
        }),
        row("create_index", "open for reading only", "ReadOnly", |world| {
            world.read_only()?.default_keyspace().create_index("price")
        }),
        row("create_index", "the disk is full", "NoSpace", |world| {
            let db = world.open();
            inject(world, &[Op::Append], Fault::NoSpace);
            db.default_keyspace().create_index("price")
        }),
        row("drop_index", "it is not there", "InvalidArgument", |world| {
            indexed(world)?.default_keyspace().drop_index("name")
        }),
        row("find", "there is no index", "InvalidArgument", |world| {
            let now = FindOptions::default();
            world.open().default_keyspace().find("price", 1, &now).map(drop)
        }),
        row("find", "the index is being built", "InvalidArgument", |world| {
            let db = world.open();
            db.default_keyspace().create_index("price")?;
            db.default_keyspace().find("price", 1, &FindOptions::default()).map(drop)
        }),
        row("find", "nobody builds it: open for reading", "InvalidArgument", |world| {
            let db = world.open();
            db.default_keyspace().create_index("price")?;
            db.close()?;
            let db = world.read_only()?;
            db.default_keyspace().find("price", 1, &FindOptions::default()).map(drop)
        }),
        row("find", "the snapshot is from before that", "InvalidArgument", |world| {
            let db = world.open();
            let snapshot = db.snapshot();
            db.default_keyspace().create_index("price")?;
            db.wait_indexes()?;
            db.default_keyspace().find("price", 1, &FindOptions::at(&snapshot)).map(drop)
        }),
        row("put_record", "the indexed value is too long", "InvalidArgument", |world| {
            let record = Record::new().with("price", "1".repeat(1 << 20));
            indexed(world)?.default_keyspace().put_record(b"k5", &record)
        }),
        row("wait_indexes", "such a record is there", "InvalidArgument", |world| {
            let people = world.open().keyspace("people")?;
            people.put_record(b"bob", &Record::new().with("price", "1".repeat(1 << 20)))?;
            people.create_index("price")?;
            let failed = people.wait_indexes();
            people.drop_index("price")?;
            people.delete(b"bob")?;
            failed
        }),
        row("wait_index", "it is not there", "InvalidArgument", |world| {
            indexed(world)?.default_keyspace().wait_index("name", |_| true)
        }),
        row("get_record", "the value is none", "InvalidArgument", |world| {
            world.open().default_keyspace().get_record(b"k1").map(drop)
        }),
        row("Db::keyspace", "the name of an index", "InvalidArgument", |world| {
            indexed(world)?.keyspace("\u{1f}index\u{1f}0\u{1f}price").map(drop)
        }),
    ]
}

fn keyspaces() -> Vec<Case> {
    let create = |name: String| {
        move |world: &World| {
            world.open().create_keyspace(&name, KeyspaceOptions::default()).map(drop)
        }
    };
    vec![
        row("Db::keyspace", "it is not there", "InvalidArgument", |world| {
            world.open().keyspace("gone").map(drop)
        }),
        row("Db::create_keyspace", "it is there", "InvalidArgument", create("people".to_owned())),
        row("Db::create_keyspace", "no name", "InvalidArgument", create(String::new())),
        row(
            "Db::create_keyspace",
            "a name of 256 bytes",
            "InvalidArgument",
            create("x".repeat(256)),
        ),
        row(
            "Db::create_keyspace",
            "a line break in it",
            "InvalidArgument",
            create("a\nb".to_owned()),
        ),
        row("Db::create_keyspace", "open for reading only", "ReadOnly", |world| {
            world.read_only()?.create_keyspace("more", KeyspaceOptions::default()).map(drop)
        }),
        row("Db::create_keyspace", "the disk is full", "NoSpace", |world| {
            let db = world.open();
            inject(world, &[Op::Append], Fault::NoSpace);
            db.create_keyspace("more", KeyspaceOptions::default()).map(drop)
        }),
        row("Db::drop_keyspace", "the default one", "InvalidArgument", |world| {
            world.open().drop_keyspace("default")
        }),
        row("Db::drop_keyspace", "it is not there", "InvalidArgument", |world| {
            world.open().drop_keyspace("gone")
        }),
        row("Db::drop_keyspace", "open for reading only", "ReadOnly", |world| {
            world.read_only()?.drop_keyspace("people")
        }),
        row("put", "the keyspace was dropped", "InvalidArgument", |world| {
            dropped(world)?.put(b"a", b"1")
        }),
        row("get", "the keyspace was dropped", "InvalidArgument", |world| {
            dropped(world)?.get(b"a").map(drop)
        }),
        row("scan", "the keyspace was dropped", "InvalidArgument", |world| {
            dropped(world)?.scan(&ScanOptions::default()).map(drop)
        }),
    ]
}

/// A handle to a keyspace that is not there any more.
fn dropped(world: &World) -> Result<esker::Keyspace> {
    let db = world.open();
    let keyspace = db.create_keyspace("short-lived", KeyspaceOptions::default())?;
    db.drop_keyspace("short-lived")?;
    Ok(keyspace)
}

fn upkeep() -> Vec<Case> {
    const TABLE: Harm = Harm::Flip(".tbl", 10);
    vec![
        row("flush", "open for reading only", "ReadOnly", |world| world.read_only()?.flush()),
        row("flush", "the disk is full", "NoSpace", |world| {
            let db = world.open();
            fill(world);
            db.flush()
        }),
        row("flush", "the table cannot be made durable", "Io", |world| {
            let db = world.open();
            let only_tables = |path: &Path| path.extension().is_some_and(|e| e == "tbl");
            let rule = FaultRule::nth(1, &[Op::Sync], Fault::Eio).from_then_on().on(only_tables);
            world.faults.inject(rule);
            db.flush()
        }),
        row("compact_range", "open for reading only", "ReadOnly", |world| {
            world.read_only()?.default_keyspace().compact_range(None, None)
        }),
        after(
            TABLE,
            row("compact_range", "a table is damaged", "Corruption", |world| {
                world.open().keyspace("people")?.compact_range(None, None)
            }),
        ),
        row("wait_idle", "open for reading only", "ReadOnly", |world| {
            world.read_only()?.wait_idle()
        }),
        row("checkpoint", "the directory is there", "InvalidArgument", |world| {
            let vfs: &dyn esker::base::Vfs = &world.disk;
            vfs.create_dir_all(Path::new("copy"))?;
            world.open().checkpoint("copy")
        }),
        row("checkpoint", "the directory is the database's own", "InvalidArgument", |world| {
            world.open().checkpoint("store")
        }),
        row("checkpoint", "the directory is inside of it", "InvalidArgument", |world| {
            let (db, before) = (world.open(), world.disk.all_files());
            let result = db.checkpoint("./store/copies/new");
            assert_eq!(world.disk.all_files(), before);
            result
        }),
        row("checkpoint", "open for reading only", "ReadOnly", |world| {
            world.read_only()?.checkpoint("copy")
        }),
        row("checkpoint", "the disk is full: nothing is left behind", "NoSpace", |world| {
            let db = world.open();
            let rule = FaultRule::nth(1, &[Op::Append], Fault::NoSpace).from_then_on();
            world.faults.inject(rule.on(|path| path.starts_with("copy")));
            let result = db.checkpoint("copy");
            assert!(world.disk.file_names(Path::new("copy")).is_empty());
            result
        }),
        row("Ingest::put", "keys out of order", "InvalidArgument", |world| {
            let mut ingest = world.open().default_keyspace().ingest()?;
            ingest.put(b"b", b"1")?;
            ingest.put(b"a", b"1")
        }),
        row("Ingest::put", "a key twice", "InvalidArgument", |world| {
            let mut ingest = world.open().default_keyspace().ingest()?;
            ingest.put(b"b", b"1")?;
            ingest.put(b"b", b"1")
        }),
        row("Ingest::put", "the key is longer than 1 MiB", "InvalidArgument", |world| {
            world.open().default_keyspace().ingest()?.put(&long_key(), b"")
        }),
        row("Ingest::finish", "the disk is full", "NoSpace", |world| {
            let db = world.open();
            let mut ingest = db.default_keyspace().ingest()?;
            ingest.put(b"k5", b"5")?;
            fill(world);
            ingest.finish().map(drop)
        }),
        row("ingest", "open for reading only", "ReadOnly", |world| {
            world.read_only()?.default_keyspace().ingest().map(drop)
        }),
        row("verify", "ended by the caller", "Cancelled", |world| {
            world.open().verify(|_| false).map(drop)
        }),
        after(
            TABLE,
            row("verify", "a table is damaged: it stands in the report", "", |world| {
                let report = world.open().verify(|_| true)?;
                assert_eq!(report.damage.len(), 1, "{report:?}");
                Ok(())
            }),
        ),
    ]
}

fn tools() -> Vec<Case> {
    use esker::destroy;
    use esker::inspect::{DumpOptions, dump_current, dump_log, dump_table};
    use esker::repair::repair;
    vec![
        row("repair", "no database", "NotFound", |world| {
            repair(Path::new("gone"), &Options::default(), world.setup(), |_| true).map(drop)
        }),
        row("repair", "another handle has it open", "Busy", |world| {
            let _open = world.open();
            repair(Path::new("store"), &Options::default(), world.setup(), |_| true).map(drop)
        }),
        row("repair", "another key order", "Incompatible", |world| {
            repair(Path::new("store"), &backwards(), world.setup(), |_| true).map(drop)
        }),
        row("repair", "ended by the caller", "Cancelled", |world| {
            repair(Path::new("store"), &Options::default(), world.setup(), |_| false).map(drop)
        }),
        row("repair", "the disk is full", "NoSpace", |world| {
            fill(world);
            repair(Path::new("store"), &Options::default(), world.setup(), |_| true).map(drop)
        }),
        row("destroy", "no database", "NotFound", |world| {
            destroy(Path::new("gone"), &world.setup())
        }),
        row("destroy", "another handle has it open", "Busy", |world| {
            let _open = world.open();
            destroy(Path::new("store"), &world.setup())
        }),
        row("destroy", "a file cannot be removed", "Io", |world| {
            inject(world, &[Op::Remove], Fault::Eio);
            destroy(Path::new("store"), &world.setup())
        }),
        row("dump_current", "no such file", "NotFound", |world| {
            dump_current(&world.disk, Path::new("gone/CURRENT")).map(drop)
        }),
        row("dump_log", "no such file", "NotFound", |world| {
            dump_log(&world.disk, Path::new("000001.wal"), &DumpOptions::default(), |_| {})
                .map(drop)
        }),
        row("dump_table", "no such file", "NotFound", |world| {
            let (path, order) = (Path::new("000001.tbl"), KeyOrder::Bytewise);
            dump_table(&world.disk, path, &order, &DumpOptions::default(), |_| {}).map(drop)
        }),
    ]
}
