//! The metadata of a tree of files, in the order of their paths as bytes.
//!
//! Symbolic links are not followed, except for the directory itself. An entry is popped off a heap,
//! and if it is a directory, its children, which all come after it, are pushed: so entries come
//! sorted.

use super::source::{Record, Source, Step};
use super::{Paths, Values};
use crate::bytes::to_hex;
use crate::failure::{Code, Failure, Result, reason};
use crate::progress::At;
use esker::fields::{self, FieldValue};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::OsStr;
use std::fs::{self, FileType, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A value as JSON: what is known about a file system entry.
#[derive(Debug, Serialize)]
struct Entry {
    kind: &'static str,
    size: u64,
    /// Permission bits, octal.
    mode: String,
    uid: u32,
    gid: u32,
    /// Seconds since 1970, may be negative.
    mtime: i64,
    mtime_ns: i64,
    ino: u64,
    nlink: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// The target, if it is no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    target_hex: Option<String>,
}

/// Walks a tree of files.
pub(crate) struct FileTree {
    root: PathBuf,
    /// Goes before the relative path to make the key.
    key_prefix: Vec<u8>,
    device: u64,
    cross_devices: bool,
    values: Values,
    /// Relative paths that have been seen in a directory but not looked at.
    waiting: BinaryHeap<Reverse<Vec<u8>>>,
    /// Reasons to tell before going on.
    skipped: Vec<String>,
    current: Vec<u8>,
}

impl FileTree {
    /// Opens a tree.
    ///
    /// # Errors
    /// The directory itself cannot be read.
    pub(crate) fn open(
        root: &Path,
        paths: Paths,
        cross_devices: bool,
        values: Values,
    ) -> Result<FileTree> {
        let fail = |error: io::Error| Failure::io("read", root, &error);
        let metadata = fs::metadata(root).map_err(fail)?;
        if !metadata.is_dir() {
            let root = root.display();
            return Err(Failure::new(Code::Usage, format!("{root} is no directory: name one")));
        }
        let mut key_prefix = Vec::new();
        if paths == Paths::Full {
            key_prefix.extend_from_slice(root.as_os_str().as_bytes());
            if !key_prefix.ends_with(b"/") {
                key_prefix.push(b'/');
            }
        }
        let mut tree = FileTree {
            root: root.to_path_buf(),
            key_prefix,
            device: metadata.dev(),
            cross_devices,
            values,
            waiting: BinaryHeap::new(),
            skipped: Vec::new(),
            current: Vec::new(),
        };
        tree.enter(&[]).map_err(fail)?;
        Ok(tree)
    }

    /// Adds the names in a directory to those that wait.
    fn enter(&mut self, relative: &[u8]) -> io::Result<()> {
        for entry in fs::read_dir(self.root.join(OsStr::from_bytes(relative)))? {
            let name = entry?.file_name();
            let mut path = Vec::with_capacity(relative.len() + 1 + name.len());
            path.extend_from_slice(relative);
            if !relative.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name.as_bytes());
            self.waiting.push(Reverse(path));
        }
        Ok(())
    }

    fn skip(&mut self, path: &Path, error: &io::Error) {
        let path = crate::bytes::printable(path.as_os_str().as_bytes());
        self.skipped.push(format!("{path}: {}", reason(error)));
    }
}

impl Source for FileTree {
    fn next(&mut self, record: &mut Record) -> Result<Step> {
        loop {
            if let Some(why) = self.skipped.pop() {
                return Ok(Step::Skipped(why));
            }
            let Some(Reverse(relative)) = self.waiting.pop() else { return Ok(Step::End) };
            let path = self.root.join(OsStr::from_bytes(&relative));
            let found = fs::symlink_metadata(&path)
                .and_then(|metadata| Ok((describe(&path, &metadata, self.values)?, metadata)));
            let (value, metadata) = match found {
                Ok(found) => found,
                Err(error) => {
                    self.skip(&path, &error);
                    continue;
                }
            };
            if metadata.is_dir()
                && (self.cross_devices || metadata.dev() == self.device)
                && let Err(error) = self.enter(&relative)
            {
                self.skip(&path, &error);
            }
            record.key.clear();
            record.key.extend_from_slice(&self.key_prefix);
            record.key.extend_from_slice(&relative);
            record.value = value;
            self.current = relative;
            return Ok(Step::Record);
        }
    }

    fn place(&self) -> String {
        crate::bytes::printable(&self.current)
    }

    fn at(&self, records: u64) -> At {
        At { records, ..At::default() }
    }
}

/// The value for an entry.
pub(crate) fn describe(path: &Path, metadata: &Metadata, values: Values) -> io::Result<Vec<u8>> {
    let target = metadata.is_symlink().then(|| fs::read_link(path)).transpose()?;
    match values {
        Values::Fields => {
            let record = as_fields(path, metadata, target.as_deref());
            record.encode().map_err(io::Error::other)
        }
        Values::Json => Ok(serde_json::to_vec(&as_json(metadata, target.as_deref()))?),
    }
}

fn as_fields(path: &Path, metadata: &Metadata, target: Option<&Path>) -> fields::Record {
    let mut record = fields::Record::new()
        .with("kind", kind(metadata.file_type()))
        .with("size", integer(metadata.size()))
        .with("mode", mode(metadata))
        .with("uid", metadata.uid())
        .with("gid", metadata.gid())
        .with("mtime", metadata.mtime())
        .with("mtime_ns", metadata.mtime_nsec())
        .with("ino", integer(metadata.ino()))
        .with("nlink", integer(metadata.nlink()));
    if let Some(name) = path.file_name() {
        record.set("name", text_or_bytes(name));
    }
    // Of `.profile` there is none, of `end.` it would be empty.
    if let Some(extension) = path.extension().filter(|extension| !extension.is_empty()) {
        record.set("extension", text_or_bytes(extension));
    }
    if let Some(target) = target {
        record.set("target", text_or_bytes(target.as_os_str()));
    }
    record
}

/// An integer; one of more than 63 bits, as some file systems number their files, as text.
fn integer(n: u64) -> FieldValue {
    i64::try_from(n).map_or_else(|_| n.to_string().into(), FieldValue::Int)
}

fn text_or_bytes(name: &OsStr) -> FieldValue {
    match name.to_str() {
        Some(text) => text.into(),
        None => name.as_bytes().into(),
    }
}

fn as_json(metadata: &Metadata, target: Option<&Path>) -> Entry {
    let text = target.and_then(Path::to_str).map(str::to_owned);
    let target_hex = match text {
        Some(_) => None,
        None => target.map(|target| to_hex(target.as_os_str().as_bytes())),
    };
    Entry {
        kind: kind(metadata.file_type()),
        size: metadata.size(),
        mode: mode(metadata),
        uid: metadata.uid(),
        gid: metadata.gid(),
        mtime: metadata.mtime(),
        mtime_ns: metadata.mtime_nsec(),
        ino: metadata.ino(),
        nlink: metadata.nlink(),
        target: text,
        target_hex,
    }
}

fn mode(metadata: &Metadata) -> String {
    format!("{:04o}", metadata.mode() & 0o7777)
}

fn kind(file_type: FileType) -> &'static str {
    match file_type {
        t if t.is_file() => "file",
        t if t.is_dir() => "dir",
        t if t.is_symlink() => "symlink",
        t if t.is_fifo() => "fifo",
        t if t.is_socket() => "socket",
        t if t.is_block_device() => "block",
        t if t.is_char_device() => "char",
        _ => "other",
    }
}
