//! Key ranges on the command line: `--from`, `--to`, `--prefix`.

use crate::bytes::Encoding;
use crate::failure::{Failure, Result};
use clap::Args;
use esker::ScanOptions;
use esker::base::key::prefix_end;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// A range of keys.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct RangeArgs {
    /// First key
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    pub(crate) from: Option<OsString>,

    /// End, exclusive
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    pub(crate) to: Option<OsString>,

    /// Only keys that start with this
    #[arg(long, value_name = "PREFIX", allow_negative_numbers = true)]
    pub(crate) prefix: Option<OsString>,
}

/// `start` to `end`, exclusive; `None` is open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: Option<Vec<u8>>,
    pub(crate) end: Option<Vec<u8>>,
}

impl RangeArgs {
    /// The keys that are in the range and start with the prefix.
    ///
    /// # Errors
    /// `Usage`: the range ends before it starts, or a key is malformed.
    pub(crate) fn range(&self, encoding: Encoding) -> Result<Range> {
        let decode = |typed: &Option<OsString>| {
            typed.as_ref().map(|typed| encoding.decode(typed.as_bytes())).transpose()
        };
        let (mut start, mut end) = (decode(&self.from)?, decode(&self.to)?);
        if let (Some(start), Some(end)) = (&start, &end)
            && end < start
        {
            return Err(Failure::usage("the range ends before it starts: swap --from and --to"));
        }
        if let Some(prefix) = decode(&self.prefix)? {
            let after = prefix_end(&prefix);
            start = start.max(Some(prefix));
            end = match (end, after) {
                (Some(end), Some(after)) => Some(end.min(after)),
                (end, after) => end.or(after),
            };
            if end.is_some() && end < start {
                end.clone_from(&start);
            }
        }
        Ok(Range { start, end })
    }
}

impl Range {
    /// A scan of the range that leaves the block cache alone.
    pub(crate) fn scan(self) -> ScanOptions<'static> {
        ScanOptions {
            start: self.start,
            end: self.end,
            fill_cache: false,
            ..ScanOptions::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: &str, to: &str, prefix: &str) -> Result<Range> {
        let some = |text: &str| (!text.is_empty()).then(|| OsString::from(text));
        RangeArgs { from: some(from), to: some(to), prefix: some(prefix) }.range(Encoding::Text)
    }

    #[test]
    fn prefix_and_range_meet() {
        let is = |range: Range, start: &str, end: &str| {
            let text = |key: Option<Vec<u8>>| String::from_utf8(key.unwrap_or_default()).expect("");
            assert_eq!((text(range.start).as_str(), text(range.end).as_str()), (start, end));
        };
        is(range("", "", "").expect("open"), "", "");
        is(range("a", "c", "").expect("range"), "a", "c");
        is(range("", "", "ab").expect("prefix"), "ab", "ac");
        is(range("abc", "", "ab").expect("both"), "abc", "ac");
        is(range("", "abx", "ab").expect("both"), "ab", "abx");
        is(range("x", "z", "ab").expect("nothing"), "x", "x");
        assert!(range("b", "a", "").is_err());
    }
}
