//! A database on a disk in memory.

use esker::base::vfs::strict::StrictVfs;
use esker::base::{Env, Vfs};
use esker::{Db, Options, Setup};
use std::sync::Arc;

/// Where the database is.
pub(crate) const DIR: &str = "/db";

/// On any disk, with randomness of its own, without threads in the background.
pub(crate) fn setup_on(vfs: Arc<dyn Vfs>, seed: u64) -> Setup {
    Setup { env: Env::with_vfs(vfs, seed), listener: None, inline_background: true }
}

/// The same on a disk in memory.
pub(crate) fn setup(disk: &StrictVfs) -> Setup {
    setup_on(Arc::new(disk.clone()), 7)
}

/// Opens or creates the database, with options as they are.
pub(crate) fn open(disk: &StrictVfs) -> Db {
    Db::open_with(DIR, Options::default(), setup(disk)).expect("open")
}
