//! `esker checkpoint`: a second store that shares the tables of the first.

use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::output::{Output, note};
use crate::store::{StoreArgs, expect_store, refused};
use esker::base::vfs::is_inside;
use esker::base::vfs::posix::PosixVfs;
use serde_json::json;
use std::path::PathBuf;

/// Copy the store, as it is now, to a new directory
///
/// Tables are shared by hard links where the file system allows it, so that a copy on the same disk
/// costs almost nothing; elsewhere they are copied. May be interrupted at any time: what was made
/// of the copy is taken away first. What is left if it is killed is no store, and may be removed.
#[derive(clap::Args, Debug)]
#[command(mut_arg("keyspace", refused))]
#[command(after_long_help = "Example:
  esker checkpoint --db store backup/monday")]
pub(crate) struct Args {
    /// Directory of the copy, which must not exist; outside of the store
    dest: PathBuf,

    #[command(flatten)]
    store: StoreArgs,
}

/// Copies it.
pub(crate) fn run(args: &Args) -> Result<()> {
    expect_store(&args.store.db)?;
    // Before the store is opened, which would change its files.
    let dest = args.dest.display();
    if is_inside(&PosixVfs::new(), &args.dest, &args.store.db)? {
        return Err(Failure::usage(format!(
            "{dest} is the store itself or inside of it: give a new directory elsewhere"
        )));
    }
    if args.dest.exists() {
        return Err(Failure::usage(format!("{dest} exists already: give a new directory")));
    }
    let interrupt = Interrupt::guard("interrupted: there is no copy; run it again")?;
    let store = args.store.write()?;
    interrupt.closes(&store.db);
    interrupt.makes(&args.dest)?;
    let copied = interrupt.outcome(store.db.checkpoint(&args.dest));
    match &copied {
        Ok(()) => {
            interrupt.has_made();
            if interrupt.asked() {
                note(&format!("{dest} was complete by then, and stays"));
            }
        }
        Err(_) if interrupt.asked() && args.dest.exists() => {
            note(&format!("{dest} could not be removed: remove it"));
        }
        Err(_) => {}
    }
    copied.and(store.close())?;
    if args.store.json {
        let mut out = Output::new();
        out.json(&json!({ "ok": true, "dest": args.dest.display().to_string() }))?;
        out.finish()?;
    }
    Ok(())
}
