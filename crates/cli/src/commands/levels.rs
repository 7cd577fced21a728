//! `esker levels`: draws the tree.

use crate::failure::Result;
use crate::output::{Output, to_terminal};
use crate::paint::Paint;
use crate::store::{Store, StoreArgs, or_all};
use crate::tree;

/// Draw the shape of the tree
///
/// One row per level: a bar that shows how full the level is against its limit, its bytes, tables
/// and the share of tombstones; below it one cell per table. Level 0 fills up by sorted runs, all
/// others by bytes. Limits are those of the options given. Without --keyspace all keyspaces are
/// drawn. On a terminal with colours, unless NO_COLOR is set, and blocks; elsewhere plain ASCII.
#[derive(clap::Args, Debug)]
#[command(mut_arg("keyspace", or_all))]
#[command(after_long_help = "Example:
  esker levels --db store")]
pub(crate) struct Args {
    #[command(flatten)]
    store: StoreArgs,
}

/// Draws it.
pub(crate) fn run(args: &Args) -> Result<()> {
    let store = args.store.read()?;
    let mut out = Output::new();
    let only = args.store.keyspace.as_deref();
    print(&store, only, args.store.json, &mut out)?;
    out.finish()?;
    store.close()
}

/// Draws the keyspaces of an open store.
pub(crate) fn print(store: &Store, only: Option<&str>, json: bool, out: &mut Output) -> Result<()> {
    let paint = Paint::for_stdout(to_terminal());
    let stats = store.db.stats();
    let wanted = stats.keyspaces.iter().filter(|k| only.is_none_or(|name| k.name == name));
    for (i, keyspace) in wanted.enumerate() {
        if json {
            out.json(keyspace)?;
            continue;
        }
        if i > 0 {
            out.line("")?;
        }
        let options = store.options.keyspaces.get(&keyspace.name);
        let options = options.unwrap_or(&store.options.default_keyspace);
        for line in tree::draw(keyspace, options, &paint) {
            out.line(&line)?;
        }
    }
    Ok(())
}
