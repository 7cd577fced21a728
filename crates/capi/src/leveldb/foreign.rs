//! Directories that hold a database of somebody else's, which must not be touched.

use super::status::{Outcome, Status};
use std::fs;
use std::path::Path;

/// No CURRENT is longer.
const CURRENT_BYTES_MAX: u64 = 4096;

/// Fails if the directory holds a database of LevelDB, or of a store that has its files from there.
pub(super) fn refuse(dir: &Path) -> Outcome<()> {
    if is_foreign(dir) {
        let dir = dir.display();
        return Err(Status::invalid(&format!(
            "{dir}: holds a database of LevelDB, which Esker does not open: load it into a new directory with \
             `esker load leveldb:{dir} --db NEW`, and open that"
        )));
    }
    Ok(())
}

/// Whoever cannot tell because the directory cannot be read is told so by the open.
fn is_foreign(dir: &Path) -> bool {
    let current = dir.join("CURRENT");
    let short = fs::metadata(&current).is_ok_and(|meta| meta.len() <= CURRENT_BYTES_MAX);
    if short && let Ok(text) = fs::read_to_string(&current) {
        // Ours says more than the name of the manifest. One that a power cut has left empty, or
        // full of something else, tells nothing.
        if let Some(number) = text.trim_end_matches('\n').strip_prefix("MANIFEST-") {
            return !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit());
        }
    }
    let Ok(entries) = fs::read_dir(dir) else { return false };
    let mut names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.any(|name| {
        let numbered = name.strip_suffix(".ldb").or_else(|| name.strip_suffix(".sst"));
        numbered.is_some_and(|n| !n.is_empty() && n.bytes().all(|c| c.is_ascii_digit()))
    })
}
