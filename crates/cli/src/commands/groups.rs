//! `esker groups`: the groups of a store below a log, how far each was applied, and what it has of
//! the tables.

use crate::bytes::{printable, to_hex};
use crate::failure::Result;
use crate::output::Output;
use crate::store::{StoreArgs, refused};
use crate::units;
use serde_json::json;

/// List the groups of a store below a log: how far the log of each was applied, and its tables
///
/// A store that is opened with durability = external has groups once requests were applied to it.
/// What is listed is persistent. With --json a group is `group`, or `group_hex` where its name is
/// no UTF-8.
#[derive(clap::Args, Debug)]
#[command(mut_arg("keyspace", refused))]
#[command(after_long_help = "Examples:
  esker groups --db store
  esker groups --db store --json | jq -s 'max_by(.table_bytes)'")]
pub(crate) struct Args {
    #[command(flatten)]
    store: StoreArgs,
}

/// Prints them.
pub(crate) fn run(args: &Args) -> Result<()> {
    let store = args.store.read()?;
    let mut out = Output::new();
    for group in store.db.group_stats() {
        if args.store.json {
            let mut object = json!({
                "applied": group.applied,
                "persisted": group.persisted,
                "tables": group.tables,
                "table_bytes": group.table_bytes,
                "entries": group.entries,
                "value_bytes": group.value_bytes,
                "shared_tables": group.shared_tables,
            });
            match std::str::from_utf8(&group.group) {
                Ok(text) => object["group"] = text.into(),
                Err(_) => object["group_hex"] = to_hex(&group.group).into(),
            }
            out.json(&object)?;
            continue;
        }
        let name = printable(&group.group);
        let size = units::bytes(group.table_bytes);
        let tables = units::plural(group.tables, "table", "tables");
        let mut line = format!("{name:24} at {:>12} {size:>10} in {tables}", group.applied);
        if group.value_bytes > 0 {
            line.push_str(&format!(", {} of values apart", units::bytes(group.value_bytes)));
        }
        if group.shared_tables > 0 {
            line.push_str(&format!(", some in {} shared", group.shared_tables));
        }
        out.line(&line)?;
    }
    out.finish()?;
    store.close()
}
