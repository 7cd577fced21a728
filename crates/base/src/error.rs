//! The one error type: each variant tells the caller what to do next.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Shorthand for results of this project.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The operation of making a file durable, as named in [`Error::Io`].
pub const SYNC: &str = "sync";

/// The operation of making a directory durable, as named in [`Error::Io`].
pub const SYNC_DIR: &str = "sync directory";

/// Why an operation failed, sorted by what the caller can do about it.
///
/// An absent key is not an error: reads return `Ok(None)`. The type is cheap to clone because
/// one failed group commit has to be reported to every writer of the group.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The call itself was wrong; nothing changed. Fix the call.
    InvalidArgument {
        /// What was wrong and what would be right.
        what: String,
    },
    /// Stored bytes are not what was written. Restore or repair; retrying cannot help.
    Corruption {
        /// The damaged file.
        path: PathBuf,
        /// Where in the file the damage was noticed.
        offset_bytes: u64,
        /// What did not hold.
        what: &'static str,
    },
    /// The store was written with a format or options that this call cannot work with.
    Incompatible {
        /// The file or directory concerned.
        path: PathBuf,
        /// What differs and what to do about it.
        what: String,
    },
    /// The operating system refused. Whether a retry helps depends on `source`.
    Io {
        /// The operation, in the file system's terms.
        op: &'static str,
        /// The file it was done on.
        path: PathBuf,
        /// The system's reason.
        source: Arc<io::Error>,
    },
    /// The disk is full. Reads go on; writes work again by themselves once there is space.
    NoSpace {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// Another process or handle holds the store. Close it there first.
    Busy {
        /// The lock file.
        path: PathBuf,
    },
    /// The store does not exist, and the options did not ask to create it; or a directory or file
    /// that a call names does not.
    NotFound {
        /// The directory or file that is missing.
        path: PathBuf,
    },
    /// The store was opened for reading only.
    ReadOnly,
    /// An earlier failure (a failed sync, a panicking thread, damage met in the background) left
    /// the state on disk unknown. Reads go on; reopen the store to write again.
    Poisoned {
        /// The earlier failure.
        why: String,
    },
    /// The operation was cancelled by its caller or by the store closing; it may be tried again.
    Cancelled,
}

impl Error {
    /// An [`Error::InvalidArgument`] with this message.
    pub fn invalid(what: impl Into<String>) -> Error {
        Error::InvalidArgument { what: what.into() }
    }

    /// An [`Error::Corruption`] at this place.
    pub fn corruption(path: impl Into<PathBuf>, offset_bytes: u64, what: &'static str) -> Error {
        Error::Corruption { path: path.into(), offset_bytes, what }
    }

    /// Turns a system error into [`Error::Io`], [`Error::NoSpace`] or [`Error::NotFound`].
    pub fn io(op: &'static str, path: &Path, source: io::Error) -> Error {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::NotFound => Error::NotFound { path },
            // Whatever makes a sync fail, the bytes are in doubt: that is never just a full disk.
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
                if !matches!(op, SYNC | SYNC_DIR) =>
            {
                Error::NoSpace { path }
            }
            _ => Error::Io { op, path, source: Arc::new(source) },
        }
    }

    /// True for [`Error::Corruption`].
    pub fn is_corruption(&self) -> bool {
        matches!(self, Error::Corruption { .. })
    }

    /// True if the system failed to make something durable. What is on the disk is then unknown,
    /// and syncing again cannot tell.
    pub fn is_sync_failure(&self) -> bool {
        matches!(self, Error::Io { op: SYNC | SYNC_DIR, .. })
    }

    /// True if the disk could not give what stands in a file, or the file system found what it says
    /// of it to be damaged: other parts of the file may well be readable.
    pub fn is_unreadable(&self) -> bool {
        const OF_THE_DISK: [i32; 3] = [libc::EIO, libc::EBADMSG, libc::ENODATA];
        /// `EUCLEAN` and `EREMOTEIO`, which other systems do not have.
        const OF_LINUX: [i32; 2] = [117, 121];
        let Error::Io { source, .. } = self else { return false };
        source.raw_os_error().is_some_and(|number| {
            OF_THE_DISK.contains(&number) || cfg!(target_os = "linux") && OF_LINUX.contains(&number)
        })
    }

    /// True for [`Error::NotFound`].
    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::NotFound { .. })
    }

    /// The file or directory that it is about.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Error::Corruption { path, .. }
            | Error::Incompatible { path, .. }
            | Error::Io { path, .. }
            | Error::NoSpace { path }
            | Error::Busy { path }
            | Error::NotFound { path } => Some(path),
            _ => None,
        }
    }

    /// True if it is about this file or directory, given as it was to the call that failed: an open
    /// store names its files by paths from the root.
    pub fn is_about(&self, place: &Path) -> bool {
        let from_root = std::path::absolute(place);
        self.path().is_some_and(|path| path == place || from_root.is_ok_and(|place| path == place))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::InvalidArgument { what } => write!(f, "invalid argument: {what}"),
            Error::Corruption { path, offset_bytes, what } => {
                write!(f, "corruption in {} at offset {offset_bytes}: {what}", path.display())
            }
            Error::Incompatible { path, what } => {
                write!(f, "cannot use {}: {what}", path.display())
            }
            Error::Io { op, path, source } => {
                write!(f, "{op} failed on {}: {source}", path.display())
            }
            Error::NoSpace { path } => {
                write!(
                    f,
                    "no space left for {}: free some, writes then resume by themselves",
                    path.display()
                )
            }
            Error::Busy { path } => {
                write!(f, "{} is held by another process or handle", path.display())
            }
            Error::NotFound { path } => write!(f, "{} does not exist", path.display()),
            Error::ReadOnly => write!(f, "the store is open for reading only"),
            Error::Poisoned { why } => {
                write!(f, "the store takes no writes until it is reopened: {why}")
            }
            Error::Cancelled => write!(f, "cancelled by the caller, or the store was closed"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}
