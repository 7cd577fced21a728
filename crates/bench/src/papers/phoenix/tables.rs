//! How many tables there are, with groups in tables of their own and without: figure 12 of the
//! paper.

use super::groups::{Owner, PAIR_BYTES, options, values, write_key};
use super::lab::{Each, Lab};
use crate::keys::Shuffled;
use crate::machine::disk_bytes;
use esker::{Batch, Db, Durability};
use esker_draw::units::bytes;
use esker_draw::{Group, Outcome, Palette, bars};
use serde::Serialize;
use std::fmt::Write as _;

/// What the paper counted with 10 million and with 1 000 million pairs: without and with tables for
/// each group.
const THERE: [(u64, [u64; 2]); 2] = [(10_000_000, [20, 210]), (1_000_000_000, [2_161, 2_176])];

const NAMES: [&str; 2] = ["groups share tables", "groups have tables of their own"];

/// Writes between two looks at whether one was interrupted.
const LOOK: u64 = 4_096;

/// A store, once it was filled and had no more work.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Filled {
    pairs: u64,
    grouped: bool,
    /// Tables and their bytes in each level, from level 0 on.
    levels: Vec<(u64, u64)>,
    disk_bytes: u64,
}

impl Filled {
    fn tables(&self) -> u64 {
        self.levels.iter().map(|(tables, _)| tables).sum()
    }

    /// What is in each level that holds something.
    fn by_level(&self) -> String {
        let level = |(level, &(tables, held)): (usize, &(u64, u64))| {
            (tables > 0).then(|| format!("level {level}: {tables} ({})", bytes(held)))
        };
        let all: Vec<String> = self.levels.iter().enumerate().filter_map(level).collect();
        all.join(", ")
    }
}

impl Lab<'_> {
    /// Counts tables at every size.
    pub(super) fn tables(&mut self, each: Each<'_, Filled>) -> Outcome<()> {
        for pairs in self.choice.pairs() {
            for grouped in [false, true] {
                let name = format!("tables-{pairs}-{}", if grouped { "own" } else { "shared" });
                let place = self.place;
                let filled = place.within(&name, |dir| {
                    let db = Db::open(dir, options(Durability::External, grouped))?;
                    if !self.fill(&db, pairs)? {
                        return Ok(None);
                    }
                    db.flush()?;
                    db.wait_idle()?;
                    let levels = db.stats().keyspaces[0].levels.clone();
                    let levels = levels.iter().map(|level| (level.tables, level.bytes)).collect();
                    let disk_bytes = disk_bytes(dir);
                    db.close()?;
                    Ok(Some(Filled { pairs, grouped, levels, disk_bytes }))
                })?;
                let Some(filled) = filled else { return Ok(()) };
                each(filled)?;
            }
        }
        Ok(())
    }

    /// Puts so many pairs into all groups alike, in an order that looks random; false if that was
    /// interrupted.
    fn fill(&mut self, db: &Db, pairs: u64) -> Outcome<bool> {
        let (order, groups) = (Shuffled::new(pairs), self.choice.groups);
        let (mut owner, mut values) = (Owner::new(groups), values(pairs));
        let mut key = Vec::new();
        for at in 0..pairs {
            if at % LOOK == 0 {
                self.progress.at("pairs", at, pairs);
                if self.is_stopped() {
                    return Ok(false);
                }
            }
            let number = order.at(at);
            let group = number % groups;
            write_key(group, number / groups, &mut key);
            let mut batch = Batch::new();
            batch.put(&key, values.give());
            owner.apply(db, group, batch)?;
        }
        Ok(true)
    }
}

/// The table of all sizes.
pub(super) fn page(groups: u64, all: &[Filled]) -> String {
    let mut text = format!(
        "## Tables\n\n{groups} groups, {PAIR_BYTES} bytes a pair before compression, put in random order; counted when the store had \
         no more work.\n\n| pairs | | tables | bytes of disk | by level |\n|---|---|---|---|---|\n"
    );
    for filled in all {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            filled.pairs,
            NAMES[usize::from(filled.grouped)],
            filled.tables(),
            bytes(filled.disk_bytes),
            filled.by_level(),
        );
    }
    for (pairs, tables) in THERE {
        for (name, tables) in NAMES.into_iter().zip(tables) {
            let _ = writeln!(text, "| {pairs}, in the paper | {name} | {tables} | | |");
        }
    }
    text.push('\n');
    text
}

/// Tables by size.
pub(super) fn drawing(all: &[Filled]) -> Outcome<String> {
    let mut groups: Vec<Group> = Vec::new();
    for same in all.chunk_by(|a, b| a.pairs == b.pairs) {
        let bar = |filled: &Filled| {
            let tables = filled.tables();
            (NAMES[usize::from(filled.grouped)], (tables as f64, tables.to_string()))
        };
        groups.push(Group::new(format!("{} pairs", same[0].pairs), same.iter().map(bar)));
    }
    bars("Tables, by the number of pairs", &groups, &Palette::of(NAMES.map(str::to_owned)))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A store with tables in two levels.
    pub(in super::super) fn filled(pairs: u64, grouped: bool) -> Filled {
        let below = if grouped { 40 } else { 4 };
        let levels = vec![(2, 1 << 20), (0, 0), (below, 5 << 20)];
        Filled { pairs, grouped, levels, disk_bytes: 7 << 20 }
    }

    #[test]
    fn every_size_has_both_rows_beside_those_of_the_paper() {
        let all = [filled(1_000, false), filled(1_000, true), filled(5_000, false)];
        let text = page(256, &all);
        let by_level = "level 0: 2 (1.00 MiB), level 2: 40 (5.00 MiB)";
        for line in [
            "\n| 1000 | groups share tables | 6 | 7.00 MiB | level 0: 2 (1.00 MiB), level 2: 4 (5.00 MiB) |",
            &format!("\n| 1000 | groups have tables of their own | 42 | 7.00 MiB | {by_level} |"),
            "\n| 10000000, in the paper | groups have tables of their own | 210 | | |",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let drawn = drawing(&all).expect("a drawing");
        for part in ["1000 pairs", "5000 pairs", ">\n42\n<"] {
            assert!(drawn.contains(part), "{part} in {drawn}");
        }
    }
}
