//! Opening with options of keyspaces, which may not be there.

use esker::{Db, Error, Options, Result, Setup, names};
use std::path::Path;

/// Opens a database.
///
/// # Errors
/// As the engine's; if there are options of keyspaces that are not there, since they would do nothing. A database that is not
/// there either is not made then.
pub(crate) fn open(dir: &Path, options: Options, read_only: bool) -> Result<Db> {
    let named: Vec<String> = options.keyspaces.keys().cloned().collect();
    let is_made = || Setup::default().env.vfs.exists(&names::current(dir));
    if let Some(name) = named.first()
        && options.create_if_missing
        && !read_only
        && !is_made()?
    {
        return Err(missing(name, "none yet"));
    }
    let db = if read_only { Db::open_read_only(dir, options)? } else { Db::open(dir, options)? };
    let there = db.keyspace_names();
    match named.iter().find(|name| !there.contains(name)) {
        Some(name) => Err(missing(name, &there.join(", "))),
        None => Ok(db),
    }
}

fn missing(name: &str, there: &str) -> Error {
    Error::invalid(format!(
        "options of the keyspace {name:?}, which is not there; there are {there}: mend the name, or leave it out and give \
         its options when it is created"
    ))
}
