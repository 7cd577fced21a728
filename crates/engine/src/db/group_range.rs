//! The keys of a group, as a range.

use crate::version::{GROUP_BYTES_MAX, KeyRange, TableMeta};
use esker_base::key::prefix_end;
use esker_base::{Error, Result};
use std::sync::Arc;

/// # Errors
/// `InvalidArgument` if a group cannot be called so.
pub(super) fn check_name(group: &[u8]) -> Result<()> {
    if group.is_empty() || group.len() > GROUP_BYTES_MAX {
        return Err(Error::invalid("the name of a group is empty or longer than 1 KiB"));
    }
    Ok(())
}

/// The keys of a group.
#[derive(Debug)]
pub(super) struct GroupRange {
    pub(super) group: Arc<[u8]>,
    /// The first key behind them.
    pub(super) end: Vec<u8>,
}

impl GroupRange {
    pub(super) fn of(group: &[u8]) -> Result<GroupRange> {
        check_name(group)?;
        match prefix_end(group) {
            Some(end) => Ok(GroupRange { group: group.into(), end }),
            None => Err(Error::invalid(
                "a group whose name is nothing but bytes of 0xff can be neither deleted nor carried: delete its range",
            )),
        }
    }

    pub(super) fn range(&self) -> KeyRange<'_> {
        KeyRange { start: Some(&self.group), end: Some(&self.end), end_inclusive: false }
    }

    /// True if a table holds nothing else.
    pub(super) fn holds_all_of(&self, meta: &TableMeta) -> bool {
        let ends_inside = match meta.largest_exclusive {
            true => *meta.largest <= *self.end,
            false => *meta.largest < *self.end,
        };
        *meta.smallest >= *self.group && ends_inside
    }
}
