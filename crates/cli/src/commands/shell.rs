//! `esker shell`: many commands on one open store.

use crate::bytes::Encoding;
use crate::failure::Result;
use crate::interrupt::Interrupt;
use crate::shell;
use crate::store::StoreArgs;

/// Work with a store line by line, from the keyboard or from a pipe
///
/// The store is held open for writing until the end; --read-only opens it for reading. `help` lists
/// what can be typed. Words are split at blanks; 'single quotes' keep everything as it stands; in
/// \"double quotes\" and outside of them a backslash begins \\n, \\t, \\r, \\0, \\xNN, or stands
/// for the backslash, quote or blank after it. A line that begins with # is a comment.
///
/// At the keyboard a mistake is told and the next line read. From a pipe the first failure ends the
/// shell with its exit code; lines before it have taken effect. Ctrl-C during a command, and
/// SIGTERM, end the shell in the same way. History is kept in memory only.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:
  esker shell --db store
  printf 'put a 1\\nscan\\n' | esker shell --db store")]
pub(crate) struct Args {
    /// Open the store for reading only
    #[arg(long)]
    read_only: bool,

    /// How keys and values are written
    #[arg(long, value_enum, default_value_t)]
    encoding: Encoding,

    #[command(flatten)]
    store: StoreArgs,
}

/// Reads lines until the end.
pub(crate) fn run(args: &Args) -> Result<()> {
    let interrupt =
        Interrupt::guard("interrupted: what came before lasts; go on in another shell")?;
    let store = if args.read_only { args.store.read()? } else { args.store.write()? };
    interrupt.closes(&store.db);
    let result = shell::run(&store, args.encoding, args.store.json, &interrupt);
    // Lines before a failure must last.
    let closed = store.close();
    if result.is_err() && interrupt.asked() {
        return Err(interrupt.ended());
    }
    closed.and(result)
}
