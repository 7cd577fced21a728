//! What a repair found and did, for people and for machines.

use esker_base::{KeyspaceId, Seq};
use serde::Serialize;
use std::fmt;

/// How far a repair is.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct RepairProgress {
    /// Tables, logs and files with values looked at so far.
    pub files: u64,
    /// Tables, logs and files with values there are.
    pub files_total: u64,
    /// Their bytes so far.
    pub bytes: u64,
    /// Their bytes in all.
    pub bytes_total: u64,
}

/// Where the shape of the repaired database comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Structure {
    /// No manifest could be relied on: all tables and logs were merged by their sequence numbers.
    #[default]
    Rebuilt,
    /// From the manifest of this number; tables keep their levels and runs.
    Kept {
        /// Number of the manifest.
        manifest: u64,
    },
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FileFate {
    /// Sound; it stays as it is.
    Kept,
    /// Sound; all it held is in other files now.
    Read,
    /// Damaged; what could be read is in other files now.
    Salvaged,
    /// Nothing in it could be used, or it is missing.
    Lost,
    /// It was missing; all it held is known from other files.
    Remade,
    /// No part of the database: left over from work that a crash cut off.
    Unneeded,
}

/// A file and what became of it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FileReport {
    /// Its name in the directory of the database.
    pub file: String,
    /// What became of it.
    pub fate: FileFate,
    /// Why.
    pub reason: String,
    /// Records taken from it.
    pub records: u64,
    /// Where it is now, relative to the directory, if it was moved.
    pub moved_to: Option<String>,
}

/// Bytes that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LostRange {
    /// The file.
    pub file: String,
    /// Where the unreadable bytes begin.
    pub offset_bytes: u64,
    /// How many there are.
    pub bytes: u64,
    /// What is wrong there.
    pub what: String,
}

/// Sequence numbers of writes that no log holds any more. Some of them may be in tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MissingWrites {
    /// The first one missing.
    pub first_seq: Seq,
    /// The last one missing.
    pub last_seq: Seq,
}

/// A keyspace after the repair.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct KeyspaceReport {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Name of the order of its keys.
    pub order: String,
    /// Why nothing was done for it; its options do not fit.
    pub skipped: Option<String>,
    /// Tables that stay as they are.
    pub tables_kept: u64,
    /// Tables written anew.
    pub tables_written: u64,
    /// Tables of which nothing could be used.
    pub tables_lost: u64,
    /// Operations taken from logs.
    pub log_operations: u64,
    /// Operations in logs that could not be used because the keyspace was skipped.
    pub log_operations_skipped: u64,
}

/// What a repair found and did.
///
/// Nothing is lost without a line in `files`, `lost` or `missing_writes`.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct RepairReport {
    /// Where the shape of the database comes from.
    pub structure: Structure,
    /// Number of the manifest that was written.
    pub manifest: u64,
    /// The keyspaces, by id.
    pub keyspaces: Vec<KeyspaceReport>,
    /// Every file that was there or should have been.
    pub files: Vec<FileReport>,
    /// Every stretch of bytes that could not be read.
    pub lost: Vec<LostRange>,
    /// Gaps between the writes that were found in logs.
    pub missing_writes: Vec<MissingWrites>,
    /// What one has to know about this repair's limits.
    pub notes: Vec<String>,
    /// Records that stand in files written by the repair.
    pub records_salvaged: u64,
    /// Sum of `lost`.
    pub bytes_lost: u64,
    /// The newest sequence number of the repaired database.
    pub last_seq: Seq,
}

impl RepairReport {
    /// Says that there are indexes, once.
    pub(super) fn note_index(&mut self) {
        let note = "indexes of fields are empty now: the next open builds them anew";
        if self.notes.iter().all(|said| said != note) {
            self.notes.push(note.to_owned());
        }
    }

    /// True if everything that was there could be used.
    pub fn is_complete(&self) -> bool {
        let whole = |fate| !matches!(fate, FileFate::Lost | FileFate::Salvaged);
        self.lost.is_empty()
            && self.missing_writes.is_empty()
            && self.files.iter().all(|file| whole(file.fate))
            && self.keyspaces.iter().all(|keyspace| keyspace.skipped.is_none())
    }

    pub(super) fn keyspace(&mut self, id: KeyspaceId) -> &mut KeyspaceReport {
        let at = match self.keyspaces.binary_search_by_key(&id.0, |k| k.id) {
            Ok(at) => at,
            Err(at) => {
                self.keyspaces.insert(at, KeyspaceReport { id: id.0, ..KeyspaceReport::default() });
                at
            }
        };
        &mut self.keyspaces[at]
    }

    pub(super) fn lose(&mut self, file: &str, offset_bytes: u64, bytes: u64, what: &str) {
        let (file, what) = (file.to_owned(), what.to_owned());
        self.lost.push(LostRange { file, offset_bytes, bytes, what });
        self.bytes_lost += bytes;
    }
}

impl fmt::Display for RepairReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.structure {
            Structure::Kept { manifest } => writeln!(f, "structure kept from manifest {manifest}")?,
            Structure::Rebuilt => writeln!(f, "structure rebuilt from tables and logs")?,
        }
        for keyspace in &self.keyspaces {
            write!(f, "keyspace {:?} ({})", keyspace.name, keyspace.id)?;
            match &keyspace.skipped {
                Some(why) => writeln!(f, ": SKIPPED: {why}")?,
                None => writeln!(
                    f,
                    ": tables {} kept, {} written, {} lost; {} operations from logs",
                    keyspace.tables_kept,
                    keyspace.tables_written,
                    keyspace.tables_lost,
                    keyspace.log_operations
                )?,
            }
        }
        for file in &self.files {
            let fate = match file.fate {
                FileFate::Kept => continue,
                FileFate::Read => "read",
                FileFate::Salvaged => "SALVAGED",
                FileFate::Lost => "LOST",
                FileFate::Remade => "made anew",
                FileFate::Unneeded => "unneeded",
            };
            write!(f, "{fate} {}: {}", file.file, file.reason)?;
            if file.records > 0 {
                write!(f, "; {} records taken", file.records)?;
            }
            if let Some(to) = &file.moved_to {
                write!(f, "; moved to {to}")?;
            }
            writeln!(f)?;
        }
        for lost in &self.lost {
            let LostRange { file, offset_bytes, bytes, what } = lost;
            writeln!(f, "lost {file} at {offset_bytes}, {bytes} bytes: {what}")?;
        }
        for missing in &self.missing_writes {
            writeln!(f, "missing writes {} to {}", missing.first_seq, missing.last_seq)?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        write!(
            f,
            "{} records salvaged, {} bytes lost, newest sequence number {}: {}",
            self.records_salvaged,
            self.bytes_lost,
            self.last_seq,
            if self.is_complete() { "complete" } else { "NOT complete" }
        )
    }
}
