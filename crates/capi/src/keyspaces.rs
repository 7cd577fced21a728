//! Options of keyspaces that are not there.

use esker::Db;

/// What to say if one of these keyspaces is not there: options that were given to it would do nothing.
pub(crate) fn missing<'a>(mut named: impl Iterator<Item = &'a String>, db: &Db) -> Option<String> {
    let there = db.keyspace_names();
    let name = named.find(|name| !there.contains(name))?;
    let there = there.join(", ");
    Some(format!(
        "options of the keyspace {name:?}, which is not there; there are {there}: mend the name, or leave it out and give \
         its options when it is created"
    ))
}
