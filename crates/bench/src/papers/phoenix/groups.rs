//! Groups, their keys, and the owner of their logs.

use crate::values::Values;
use esker::base::key::prefix_end;
use esker::{Applied, Batch, Db, Durability, GroupPrefix, KeyspaceOptions, Options};
use esker_draw::Outcome;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus as Random;

/// The most groups there may be: their names have three digits.
pub(super) const GROUPS_MAX: u64 = 1_000;

/// Bytes of a key and of a value, as in the paper.
pub(super) const KEY_BYTES: usize = 128;
pub(super) const VALUE_BYTES: usize = 128;
pub(super) const PAIR_BYTES: u64 = (KEY_BYTES + VALUE_BYTES) as u64;

/// Share of a value that is left of it when it is compressed, as `db_bench` has it.
const COMPRESSION_RATIO: f64 = 0.5;

/// Bytes of the name of a group.
const NAME_BYTES: usize = 4;

/// The name of a group.
pub(super) fn name(group: u64) -> [u8; NAME_BYTES] {
    let digit = |unit: u64| b'0' + (group / unit % 10) as u8;
    [digit(100), digit(10), digit(1), b'/']
}

/// The first name behind those of all keys of a group.
pub(super) fn end_of(group: u64) -> Vec<u8> {
    prefix_end(&name(group)).unwrap_or_default()
}

/// Writes a key of a group over `key`: its name, 16 digits, then zeros. Keys stand in the order of
/// their numbers.
pub(super) fn write_key(group: u64, number: u64, key: &mut Vec<u8>) {
    const DIGITS: usize = 16;
    key.clear();
    key.extend_from_slice(&name(group));
    key.resize(KEY_BYTES, b'0');
    let mut rest = number;
    for digit in key[NAME_BYTES..NAME_BYTES + DIGITS].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

/// Values that compress to a half.
pub(super) fn values(seed: u64) -> Values {
    Values::new(&mut Random::seed_from_u64(seed), VALUE_BYTES, COMPRESSION_RATIO)
}

/// Options of a store: what makes its writes durable, and whether groups have tables of their own.
pub(super) fn options(durability: Durability, grouped: bool) -> Options {
    let groups = grouped.then_some(GroupPrefix::Fixed { bytes: NAME_BYTES as u32 });
    let default_keyspace = KeyspaceOptions { groups, ..KeyspaceOptions::default() };
    Options { durability, default_keyspace, ..Options::default() }
}

/// Whoever has the logs of the groups: knows the index of the newest request of each.
pub(super) struct Owner {
    indexes: Vec<u64>,
}

impl Owner {
    /// Nothing was applied to any group.
    pub(super) fn new(groups: u64) -> Owner {
        Owner { indexes: vec![0; groups as usize] }
    }

    /// Applies the next request of a group.
    pub(super) fn apply(&mut self, db: &Db, group: u64, batch: Batch) -> Outcome<()> {
        let index = &mut self.indexes[group as usize];
        *index += 1;
        Ok(db.apply(Applied { group: &name(group), index: *index, note: b"" }, batch)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_in_the_order_of_groups_and_numbers() {
        let key = |group, number| {
            let mut key = Vec::new();
            write_key(group, number, &mut key);
            key
        };
        assert_eq!(key(7, 0).len(), KEY_BYTES);
        assert!(key(7, 4_711).starts_with(b"007/0000000000004711000"));
        assert!(key(7, 9) < key(7, 10) && key(7, u64::MAX / 4_000) < key(8, 0));
        assert!(key(7, 9_999).as_slice() < &end_of(7)[..] && end_of(7)[..] < key(8, 0)[..]);
        assert_eq!(name(GROUPS_MAX - 1), *b"999/");
    }

    #[test]
    fn requests_of_a_group_have_ascending_indexes() {
        let dir = std::env::temp_dir().join(format!("esker-owner-test-{}", std::process::id()));
        let db = Db::open(&dir, options(Durability::External, true)).expect("a store");
        let mut owner = Owner::new(3);
        for group in [2, 0, 2] {
            owner.apply(&db, group, Batch::new()).expect("applied");
        }
        let applied = |group| db.group(&name(group)).map(|known| known.applied);
        assert_eq!([applied(0), applied(1), applied(2)], [Some(1), None, Some(2)]);
        db.close().expect("closed");
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
