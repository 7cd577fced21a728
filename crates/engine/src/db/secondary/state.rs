//! How far an index is, as the index itself says: under a key that no entry has.
//!
//! ```text
//! value: 0x02, varint keys done, last key done       being built, and so far
//!        0x03, varint keys done                      ready
//! ```
//!
//! Where it is absent, or says that nothing was done, no entry stands in the index but those that
//! writes have put there.

use super::catalogue::Index;
use crate::db::core::Core;
use crate::db::snapshot::Snapshot;
use esker_base::coding::{put_varint, take_u8, take_varint};
use esker_base::{Batch, Error, Result};

/// Its key. Entries begin with the type of a value, which is never 0.
pub(super) const KEY: &[u8] = &[0];

/// All entries are from here on.
pub(super) const ENTRIES: &[u8] = &[1];

/// And before this.
pub(super) const ENTRIES_END: &[u8] = &[0xff];

const BUILDING: u8 = 2;
const READY: u8 = 3;

/// How far an index is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) is_ready: bool,
    /// Keys that were read to build it.
    pub(super) keys_done: u64,
    /// The last of them.
    pub(super) last_key: Option<Vec<u8>>,
}

impl State {
    /// As a snapshot sees it, or now; `None` if the index was dropped.
    pub(super) fn read(core: &Core, index: &Index, at: Option<&Snapshot>) -> Result<Option<State>> {
        let Some(keyspace) = core.keyspace(index.id) else { return Ok(None) };
        let found = core.get(&keyspace, KEY, at);
        if keyspace.check_live().is_err() {
            return Ok(None);
        }
        let Some(value) = found? else { return Ok(Some(State::default())) };
        let what = "the state of an index does not decode: drop the index and create it again";
        State::decode(&value).ok_or_else(|| Error::corruption(&*core.dir, 0, what)).map(Some)
    }

    pub(super) fn put(&self, batch: &mut Batch, index: &Index) {
        let mut value = vec![if self.is_ready { READY } else { BUILDING }];
        put_varint(&mut value, self.keys_done);
        if let Some(last) = self.last_key.as_deref().filter(|_| !self.is_ready) {
            value.extend_from_slice(last);
        }
        batch.put_in(index.id, KEY, &value);
    }

    fn decode(mut value: &[u8]) -> Option<State> {
        let is_ready = match take_u8(&mut value)? {
            BUILDING => false,
            READY => true,
            _ => return None,
        };
        let keys_done = take_varint(&mut value)?;
        let last_key = (!is_ready).then(|| value.to_vec());
        Some(State { is_ready, keys_done, last_key })
    }
}

/// Forgets all that an index holds, so that it is built from the start.
pub(super) fn put_reset(batch: &mut Batch, index: &Index) {
    batch.delete_range_in(index.id, ENTRIES, ENTRIES_END).delete_in(index.id, KEY);
}
