//! Rows about groups, and stores below a log of somebody else's.

use super::World;
use super::table::{Case, row};
use esker::{Applied, Batch, Db, Durability, KeyspaceOptions, Options, Result};

/// The database, without a log of its own.
fn below_log(world: &World) -> Result<Db> {
    world.open_with(Options { durability: Durability::External, ..Options::default() })
}

fn apply(db: &Db, group: &[u8], index: u64, note: &[u8]) -> Result<()> {
    db.apply(Applied { group, index, note }, Batch::new())
}

/// A group `g/` is written to `export`, from another store than the one of the row.
fn export(world: &World, keyspace: Option<&str>) -> Result<()> {
    let options = Options { durability: Durability::External, ..Options::default() };
    let db = Db::open_with("source", options, world.setup())?;
    let mut batch = Batch::new();
    batch.put(b"g/a", b"1");
    if let Some(name) = keyspace {
        batch.put_in(&db.create_keyspace(name, KeyspaceOptions::default())?, b"g/a", b"1");
    }
    db.apply(Applied { group: b"g/", index: 1, note: b"" }, batch)?;
    db.flush_group(b"g/")?;
    db.export_group(b"g/", "export").map(drop)
}

pub(super) fn rows() -> Vec<Case> {
    let invalid = "InvalidArgument";
    vec![
        row("apply", "the store has a log of its own", invalid, |world| {
            apply(&world.open(), b"g/", 1, b"")
        }),
        row("apply", "the group has no name", invalid, |world| {
            apply(&below_log(world)?, b"", 1, b"")
        }),
        row("apply", "the note is longer than 64 KiB", invalid, |world| {
            apply(&below_log(world)?, b"g/", 1, &[0; (64 << 10) + 1])
        }),
        row("apply", "the request was applied before", invalid, |world| {
            let db = below_log(world)?;
            apply(&db, b"g/", 7, b"")?;
            apply(&db, b"g/", 7, b"")
        }),
        row("apply", "the first request is 0", invalid, |world| {
            apply(&below_log(world)?, b"g/", 0, b"")
        }),
        row("flush_group", "the store has a log of its own", invalid, |world| {
            world.open().flush_group(b"g/").map(drop)
        }),
        row("persisted_snapshot", "the store has a log of its own", invalid, |world| {
            world.open().persisted_snapshot().map(drop)
        }),
        row("delete_group", "the group has no name", invalid, |world| {
            world.open().delete_group(b"").map(drop)
        }),
        row("delete_group", "its name is nothing but 0xff", invalid, |world| {
            world.open().delete_group(b"\xff\xff").map(drop)
        }),
        row("delete_group", "its name and that of another group begin alike", invalid, |world| {
            let db = below_log(world)?;
            apply(&db, b"g/", 1, b"")?;
            db.delete_group(b"g").map(drop)
        }),
        row("delete_group", "a field is indexed", invalid, |world| {
            let db = world.open();
            db.default_keyspace().create_index("name")?;
            let result = db.delete_group(b"g/").map(drop);
            db.default_keyspace().drop_index("name")?;
            result
        }),
        row("delete_group", "open for reading only", "ReadOnly", |world| {
            world.read_only()?.delete_group(b"g/").map(drop)
        }),
        row("export_group", "nothing of the group is persistent", invalid, |world| {
            let db = below_log(world)?;
            apply(&db, b"g/", 1, b"")?;
            db.export_group(b"g/", "export").map(drop)
        }),
        row("export_group", "the directory is inside of the store", invalid, |world| {
            let db = below_log(world)?;
            apply(&db, b"g/", 1, b"")?;
            db.flush_group(b"g/")?;
            db.export_group(b"g/", "store/export").map(drop)
        }),
        row("ingest_group", "the store has a log of its own", invalid, |world| {
            export(world, None)?;
            world.open().ingest_group(b"g/", "export").map(drop)
        }),
        row("ingest_group", "there is no such directory", "NotFound", |world| {
            below_log(world)?.ingest_group(b"g/", "gone").map(drop)
        }),
        row("ingest_group", "it holds another group", invalid, |world| {
            export(world, None)?;
            below_log(world)?.ingest_group(b"h/", "export").map(drop)
        }),
        row("ingest_group", "it has keys in a keyspace that is not there", invalid, |world| {
            export(world, Some("pets"))?;
            below_log(world)?.ingest_group(b"g/", "export").map(drop)
        }),
    ]
}
