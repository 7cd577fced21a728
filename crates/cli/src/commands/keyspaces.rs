//! `esker keyspaces`: lists, creates and drops keyspaces.

use crate::failure::Result;
use crate::output::Output;
use crate::store::{StoreArgs, find_keyspace, refused};
use crate::units;
use clap::Subcommand;
use serde_json::json;

/// List, create or drop keyspaces
///
/// A keyspace has its own keys, tables and options; a batch may write to several. Every store has
/// the keyspace `default`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:
  esker keyspaces list --db store
  esker keyspaces create --db store people
  esker keyspaces drop --db store people")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the keyspaces
    #[command(mut_arg("keyspace", refused))]
    List {
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Create a keyspace in an existing store
    #[command(mut_arg("keyspace", refused))]
    Create {
        /// Its name
        name: String,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Remove a keyspace with everything in it
    #[command(mut_arg("keyspace", refused))]
    Drop {
        /// Its name
        name: String,
        #[command(flatten)]
        store: StoreArgs,
    },
}

/// Does it.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.action {
        Action::List { store } => list(store),
        Action::Create { name, store: args } => {
            args.write_new(name)?.close()?;
            done(args.json)
        }
        Action::Drop { name, store: args } => {
            let store = args.write()?;
            // Looked up for the exit code of a name that is not there.
            find_keyspace(&store.db, &store.dir, name)?;
            store.db.drop_keyspace(name)?;
            store.close()?;
            done(args.json)
        }
    }
}

fn done(json: bool) -> Result<()> {
    let mut out = Output::new();
    if json {
        out.json(&json!({ "ok": true }))?;
    }
    out.finish()
}

fn list(args: &StoreArgs) -> Result<()> {
    let store = args.read()?;
    let mut out = Output::new();
    for keyspace in &store.db.stats().keyspaces {
        let tables: u64 = keyspace.levels.iter().map(|level| level.tables).sum();
        if args.json {
            out.json(&json!({
                "name": keyspace.name,
                "tables": tables,
                "table_bytes": keyspace.table_bytes(),
            }))?;
        } else {
            let name = crate::bytes::printable(keyspace.name.as_bytes());
            let size = units::bytes(keyspace.table_bytes());
            let tables = units::plural(tables, "table", "tables");
            out.line(&format!("{name:24} {size:>10} in {tables}"))?;
        }
    }
    out.finish()?;
    store.close()
}
