//! Failures of the command: one line for a person, one number for a script.
//!
//! The line says what happened and what to do: `esker: what: what to do`.

use esker::Error;
use std::fmt;
use std::io;
use std::path::Path;

/// Exit codes, as printed by `esker --help` and described in docs/command.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Code {
    /// Any failure without a number of its own.
    Other = 1,
    /// The command line is wrong.
    Usage = 2,
    /// Stored bytes are damaged.
    Corruption = 3,
    /// The key, keyspace, store or source is not there.
    NotFound = 4,
    /// Another process holds the store.
    Busy = 5,
    /// The disk is full.
    NoSpace = 6,
    /// Ended by Ctrl-C.
    Interrupted = 130,
}

/// The table of exit codes for `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    any other failure
  2    the command line is wrong
  3    stored data is damaged
  4    not found: the key, the keyspace, the index, the store or the source
  5    the store is held by another process
  6    no space left on the disk
  130  interrupted";

/// Why the command ends without success.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What the process exits with.
    pub(crate) code: Code,
    /// What happened and what to do. Empty: everything has been said already.
    pub(crate) message: String,
    /// Nobody reads our output any more (`esker scan | head`): no failure at all.
    pub(crate) reader_gone: bool,
}

/// Shorthand for results of this crate.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// A failure with this code and message.
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), reader_gone: false }
    }

    /// A failure without a number of its own.
    pub(crate) fn other(message: impl Into<String>) -> Failure {
        Failure::new(Code::Other, message)
    }

    /// The user's call is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Code::Usage, message)
    }

    /// What clap found wrong, in one line. `hint`: what to do if clap has no better idea.
    pub(crate) fn arguments(error: &clap::Error, hint: &str) -> Failure {
        let text = error.to_string();
        let words = |paragraph: &str| paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut paragraphs = text.split("\n\n").map(words);
        let what = paragraphs.next().unwrap_or_default();
        let what = what.strip_prefix("error: ").unwrap_or(&what).trim_end_matches('.');
        let tip =
            paragraphs.find_map(|paragraph| paragraph.strip_prefix("tip: ").map(str::to_owned));
        Failure::usage(format!("{what}: {}", tip.as_deref().unwrap_or(hint)))
    }

    /// Ended by Ctrl-C.
    pub(crate) fn interrupted(message: impl Into<String>) -> Failure {
        Failure::new(Code::Interrupted, message)
    }

    /// The system refused to read a source or write somewhere outside the store.
    pub(crate) fn io(op: &str, path: &Path, error: &io::Error) -> Failure {
        let (code, remedy) = refusal(error);
        Failure::new(code, format!("cannot {op} {}: {}: {remedy}", path.display(), reason(error)))
    }

    /// Writing to standard output failed.
    pub(crate) fn output(error: &io::Error) -> Failure {
        let (code, remedy) = refusal(error);
        let message = format!("cannot write the output: {}: {remedy}", reason(error));
        Failure { code, message, reader_gone: error.kind() == io::ErrorKind::BrokenPipe }
    }

    /// The same failure, told from a place.
    pub(crate) fn at(self, place: impl fmt::Display) -> Failure {
        Failure { message: format!("{place}: {}", self.message), ..self }
    }
}

/// The exit code for what the system refused, and what to do about it.
fn refusal(error: &io::Error) -> (Code, &'static str) {
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::NotFound => (Code::NotFound, "check the path"),
        Kind::NotADirectory => (Code::NotFound, "a part of the path is a file; check the path"),
        Kind::IsADirectory => (Code::Usage, "name a file"),
        Kind::PermissionDenied => (Code::Other, "check the owner and mode of the files"),
        Kind::ReadOnlyFilesystem => (Code::Other, "mount it for writing, or use another place"),
        Kind::StorageFull | Kind::QuotaExceeded => (Code::NoSpace, "free some, then try again"),
        _ => (Code::Other, "check the disk, then try again"),
    }
}

/// The system's reason without its number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_lowercase(),
        None => text,
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let (code, remedy) = match &error {
            // Most say what would be right.
            Error::InvalidArgument { what } if what.contains(": ") => {
                return Failure::usage(what.clone());
            }
            Error::InvalidArgument { what } => {
                return Failure::usage(format!("{what}: change the argument"));
            }
            Error::Corruption { what, .. } => {
                let text = error.to_string();
                let (text, remedy) = match what.strip_suffix("; run repair") {
                    // It does not open, so `verify` would tell no more.
                    Some(_) => (
                        text.trim_end_matches("; run repair"),
                        "run `esker repair`, or restore a backup",
                    ),
                    None => (
                        text.as_str(),
                        "run `esker verify` for all of it, then repair or restore a backup",
                    ),
                };
                return Failure::new(Code::Corruption, format!("{text}: {remedy}"));
            }
            // The message says what to do already.
            Error::Incompatible { what, .. } if what.contains(": ") => {
                return Failure::other(error.to_string());
            }
            Error::Incompatible { .. } => (Code::Other, "use the version that wrote it"),
            Error::Io { op, path, source } => {
                let (code, remedy) = refusal(source);
                // What is to be read was found before: this path was to be made.
                let code = if code == Code::NotFound { Code::Usage } else { code };
                let reason = reason(source);
                let what = format!("{op} failed on {}: {reason}: {remedy}", path.display());
                return Failure::new(code, what);
            }
            Error::NoSpace { .. } => return Failure::new(Code::NoSpace, error.to_string()),
            Error::Busy { .. } => (Code::Busy, "close it there, or try again later"),
            Error::NotFound { .. } => (Code::NotFound, "check the path"),
            Error::ReadOnly => (Code::Other, "open it for writing"),
            Error::Poisoned { .. } => (Code::Other, "run the command again"),
            Error::Cancelled => (Code::Interrupted, "run the command again"),
            _ => (Code::Other, "try again"),
        };
        Failure::new(code, format!("{error}: {remedy}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_code() {
        let path = || std::path::PathBuf::from("d");
        for (error, code) in [
            (Error::invalid("no"), Code::Usage),
            (Error::corruption("d", 7, "bad"), Code::Corruption),
            (Error::Busy { path: path() }, Code::Busy),
            (Error::NoSpace { path: path() }, Code::NoSpace),
            (Error::NotFound { path: path() }, Code::NotFound),
            (Error::Poisoned { why: String::new() }, Code::Other),
            (Error::Cancelled, Code::Interrupted),
        ] {
            assert_eq!(Failure::from(error.clone()).code, code, "{error}");
        }
    }

    #[test]
    fn the_number_of_a_system_error_is_left_out() {
        assert_eq!(reason(&io::Error::from_raw_os_error(2)), "no such file or directory");
    }
}
