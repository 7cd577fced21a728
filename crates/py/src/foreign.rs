//! Stores of LevelDB, which somebody who changes over from plyvel may try to open.

use esker::base::vfs::read_all;
use esker::names;
use esker::{Db, Error, Result, Setup};
use std::path::Path;

/// The longest CURRENT of LevelDB: a name and the end of the line.
const CURRENT_BYTES_MAX: u64 = 64;

/// What opening `dir` came to; where it failed because LevelDB wrote what is there, the error says
/// how to load it.
pub(crate) fn explained(dir: &Path, opened: Result<Db>) -> Result<Db> {
    match opened {
        Err(Error::Corruption { .. }) if is_of_leveldb(dir) => Err(Error::Incompatible {
            path: dir.to_path_buf(),
            what: format!(
                "it is a store of LevelDB: load it with `esker load leveldb:{} --db NEW`, and open that",
                dir.display()
            ),
        }),
        opened => opened,
    }
}

/// True if CURRENT is as LevelDB writes it: the name of a manifest and nothing else.
fn is_of_leveldb(dir: &Path) -> bool {
    let vfs = Setup::default().env.vfs;
    let current = read_all(vfs.as_ref(), &names::current(dir), CURRENT_BYTES_MAX);
    let name = current.as_deref().unwrap_or_default().strip_suffix(b"\n");
    let digits = name.and_then(|name| name.strip_prefix(b"MANIFEST-"));
    digits.is_some_and(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
}
