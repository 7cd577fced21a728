//! Which keys belong together.

use serde::{Deserialize, Serialize};

/// The group of a key: its beginning, up to some byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupPrefix {
    /// So many bytes. Keys that are shorter are in no group.
    Fixed {
        /// 1 to 1 024.
        bytes: u32,
    },
    /// Up to the first byte of this value, that one included. Keys without it are in no group.
    Delimiter {
        /// The byte.
        byte: u8,
    },
}

impl GroupPrefix {
    /// The group of a key, if it is in one.
    #[inline]
    pub fn group_of<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        match *self {
            GroupPrefix::Fixed { bytes } => key.get(..bytes as usize),
            GroupPrefix::Delimiter { byte } => {
                let at = key.iter().position(|&other| other == byte)?;
                Some(&key[..=at])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_beginnings_of_keys() {
        let fixed = GroupPrefix::Fixed { bytes: 3 };
        assert_eq!(fixed.group_of(b"abcd"), Some(&b"abc"[..]));
        assert_eq!(fixed.group_of(b"abc"), Some(&b"abc"[..]));
        assert_eq!(fixed.group_of(b"ab"), None);
        let delimited = GroupPrefix::Delimiter { byte: b'/' };
        assert_eq!(delimited.group_of(b"12/a/b"), Some(&b"12/"[..]));
        assert_eq!(delimited.group_of(b"12"), None);
        assert_eq!(delimited.group_of(b"/"), Some(&b"/"[..]));
    }
}
