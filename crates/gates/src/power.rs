//! Gate: the power fails at random calls of random scripts, twice.
//!
//! Where the crash gate is exhaustive on chosen scenarios, this one wanders: scripts mix writes,
//! syncs, flushes, compactions, checkpoints, ingests, keyspaces that come and go, and reopening,
//! also with other options. Each is cut at a random call with a random share of unsynced blocks and
//! names kept; the recovery is cut too. Some of what is kept is repaired, which changes nothing;
//! and what an undisturbed script leaves is put together without its manifests.

use crate::gate::{Config, Outcome, case_seed, for_cases};
use crate::history::Trouble;
use crate::random::Random;
use crate::script::{DIR, Player, Step, World, random_options, random_steps};
use esker::base::vfs::strict::{StrictOptions, StrictVfs, Survival};
use std::sync::atomic::{AtomicU64, Ordering};

/// Cuts made of each script.
const CUTS_PER_SCRIPT: u64 = 20;

/// One in so many of the disks that can be is repaired too.
const REPAIRED: u64 = 4;

/// Runs the gate: 20 thousand cuts, or a million.
pub fn gate(config: &Config) -> Outcome {
    let scripts = config.choose(20_000, 1_000_000) / CUTS_PER_SCRIPT;
    let (cuts, reopens) = (AtomicU64::new(0), AtomicU64::new(0));
    for_cases(config, scripts, |case| {
        let script = Script::new(case_seed(config.seed, case));
        let calls = script.calls()?;
        for cut in 0..CUTS_PER_SCRIPT {
            let checked = script.cut(calls, cut).map_err(|e| format!("cut {cut}: {e}"))?;
            cuts.fetch_add(1, Ordering::Relaxed);
            reopens.fetch_add(checked, Ordering::Relaxed);
        }
        Ok(())
    })?;
    let (cuts, reopens) = (cuts.into_inner(), reopens.into_inner());
    let scripts = cuts / CUTS_PER_SCRIPT;
    Ok(format!("{cuts} cuts of {scripts} scripts, {reopens} stores checked"))
}

struct Script {
    seed: u64,
    steps: Vec<Step>,
    disk: StrictOptions,
}

impl Script {
    fn new(seed: u64) -> Script {
        let mut random = Random::new(seed);
        let disk = StrictOptions {
            preallocated_logs: random.one_in(2),
            block_bytes: if random.one_in(2) { 512 } else { 4096 },
            seed,
        };
        let count = 4 + random.below(36);
        Script { seed, steps: random_steps(&mut random, count), disk }
    }

    fn player(&self) -> Player {
        let strict = StrictVfs::with_options(self.disk.clone());
        let options = random_options(&mut Random::new(self.seed ^ 1));
        Player::new(World::plain(&strict), options, self.seed)
    }

    /// Plays everything undisturbed. Returns the number of mutating calls.
    fn calls(&self) -> Result<u64, String> {
        let mut player = self.player();
        for &step in self.steps.iter().chain([&Step::Read, &Step::Reopen, &Step::Read]) {
            player
                .play(step)
                .map_err(|e| format!("undisturbed, {step:?}: {e}; {:?}", self.steps))?;
        }
        let calls = player.world.strict.mutating_calls();
        player.check_copies(&player.world)?;
        drop(player.take_db());
        let count = player.history.acknowledged;
        player.check_kept(&player.world.strict.deep_copy(), count)?;
        player.check_rebuilt(&player.world.strict.deep_copy(), count)?;
        Ok(calls)
    }

    /// Cuts at a random call, then in recovery. Returns how many stores were checked.
    fn cut(&self, calls: u64, cut: u64) -> Result<u64, String> {
        let mut random = Random::new(self.seed ^ mixed(cut));
        let k = 1 + random.below(calls);
        let mut player = self.player();
        let disk = player.world.strict.clone();
        disk.set_trace(12);
        disk.set_crash_at(k);
        for &step in &self.steps {
            match player.play(step) {
                Ok(()) => {}
                Err(_) if disk.is_off() => break,
                Err(Trouble::Failed(e)) => return Err(format!("{step:?} before the cut: {e}")),
                Err(Trouble::Wrong(e)) => return Err(format!("{step:?} before the cut: {e}")),
            }
        }
        disk.power_off();
        drop(player.take_db());
        let survival = random_survival(&mut random);
        let kept = disk.crash(survival, random.next_u64());
        let least = match survival {
            Survival::ProcessDeath | Survival::All => player.history.acknowledged,
            _ => player.history.durable,
        };
        let tell = |e: String| {
            let trace = disk.trace().join("\n  ");
            format!("power cut at call {k}, {survival:?}: {e}\nlast calls:\n  {trace}")
        };
        let again = kept.deep_copy();
        // Behind a gap of a log, repair finds more than opening does.
        let has_gaps = matches!(survival, Survival::Some { .. });
        let repaired = (!has_gaps && random.one_in(REPAIRED)).then(|| kept.deep_copy());
        let count = player.check_kept(&kept, least).map_err(tell)?;
        if let Some(repaired) = repaired.filter(|_| count > 0) {
            player.check_repaired(&repaired, count).map_err(tell)?;
        }
        // Recovery, and what is written right behind it, is cut as well.
        again.set_trace(12);
        again.set_crash_at(again.mutating_calls() + 1 + random.below(30));
        let world = World::plain(&again);
        let recovered = world.open(DIR, &player.options);
        let noted = recovered.is_ok();
        if let Ok(db) = &recovered {
            // Cut or not, it may come to light.
            let _ = db.put(b"~after", b"0");
        }
        let least = match (survival, &recovered) {
            // What a process leaves behind unsynced is durable only once it is recovered.
            (Survival::ProcessDeath, Err(_)) => player.history.durable,
            _ => least,
        };
        drop(recovered);
        again.power_off();
        let second = random_survival(&mut random);
        let kept = again.crash(second, random.next_u64());
        let world = World::plain(&kept);
        if noted && let Ok(db) = world.open(DIR, &player.options) {
            // Whether it survived is open; it is not in the history.
            db.delete(b"~after").map_err(|e| tell(format!("deleting after two cuts: {e}")))?;
        }
        player.check_kept(&kept, least).map_err(|e| {
            tell(format!(
                "cut again in recovery, {second:?}: {e}\n  {}",
                again.trace().join("\n  ")
            ))
        })?;
        Ok(2)
    }
}

fn mixed(cut: u64) -> u64 {
    esker::base::checksum::mix64(cut + 77)
}

fn random_survival(random: &mut Random) -> Survival {
    match random.below(8) {
        0 => Survival::None,
        1 => Survival::All,
        2 => Survival::ProcessDeath,
        _ => Survival::Some { percent: random.below(101) as u8 },
    }
}
