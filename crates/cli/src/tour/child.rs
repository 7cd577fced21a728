//! The process that the tour kills: writes numbered records until it dies.
//!
//! Each write that has returned is acknowledged by its number on standard output: 8 bytes,
//! little-endian, the highest bit set if everything up to it has been synced. Values and keys
//! follow from the number.

use crate::failure::{Failure, Result};
use crate::tuning::TuningArgs;
use esker::base::checksum::mix64;
use esker::{Batch, Db, Options, WriteOptions};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

/// Set in an acknowledgement of a synced write.
pub(super) const SYNCED: u64 = 1 << 63;
/// Every so many writes is synced.
const SYNC_EACH: u64 = 5_000;
/// Bytes of a value.
const VALUE_BYTES: usize = 96;

/// Arguments of the hidden command.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Directory of the store
    #[arg(long)]
    db: PathBuf,

    /// Number of the first record
    #[arg(long)]
    first: u64,

    #[command(flatten)]
    tuning: TuningArgs,
}

/// Writes until the end.
pub(crate) fn run(args: &Args) -> Result<()> {
    let options: Options = args.tuning.options_over(&super::state::small_tree())?;
    // What recovery drops after a kill is the parent's to tell.
    let db = Db::open(&args.db, options)?;
    let stdout = io::stdout().as_fd().try_clone_to_owned();
    // Not buffered: what is acknowledged must be on its way.
    let mut acks = File::from(stdout.map_err(|error| Failure::output(&error))?);
    for number in args.first.. {
        let sync = number % SYNC_EACH == SYNC_EACH - 1;
        let mut batch = Batch::with_capacity(VALUE_BYTES + 32);
        batch.put(&key(number), &value(number));
        db.write(batch, WriteOptions { sync })?;
        let ack = if sync { number | SYNCED } else { number };
        acks.write_all(&ack.to_le_bytes()).map_err(|error| Failure::output(&error))?;
    }
    Ok(())
}

/// The key of a record: scattered, so that every flush meets the whole tree.
pub(super) fn key(number: u64) -> [u8; 8] {
    mix64(number).to_be_bytes()
}

/// The value of a record: begins with its number; half of the rest cannot be compressed.
pub(super) fn value(number: u64) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    value[..8].copy_from_slice(&number.to_le_bytes());
    for (i, chunk) in value[8..VALUE_BYTES / 2].chunks_exact_mut(8).enumerate() {
        chunk.copy_from_slice(&mix64(number ^ ((i as u64 + 1) << 56)).to_le_bytes());
    }
    value
}
