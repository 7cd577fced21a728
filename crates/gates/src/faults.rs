//! Gate: every call of every kind fails, once or from then on, and then the disk heals.
//!
//! ```text
//! for script, operation, fault, once or from then on, k = 1, 2, ...:
//!     play the script; the k-th such call fails      -> errors are of the right variant, name a file
//!     poisoned? reads answer, writes are refused      : heal, and writes, flushes, reads work again
//!     crash here in three ways, and close; reopen     -> everything acknowledged (durable) is there
//! until a run has no k-th call
//! ```
//!
//! Poisoned is right only after a failed sync, or when read bytes are wrong (a flipped bit).

use crate::gate::{Config, Outcome, Watchdog, case_seed, for_cases, guarded, pause};
use crate::history::Trouble;
use crate::random::Random;
use crate::script::{Player, Step, World, random_options, random_steps};
use esker::Error;
use esker::base::Vfs;
use esker::base::sync::Mutex;
use esker::base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker::base::vfs::strict::{StrictOptions, StrictVfs, Survival};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Longest time without a sign of life.
const HANG: Duration = Duration::from_secs(30);

/// What fails, and how.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    op: Op,
    fault: Fault,
    from_then_on: bool,
}

impl Plan {
    /// What fails if it is the `nth` call of its kind that does.
    pub fn rule(self, nth: u64) -> FaultRule {
        let rule = FaultRule::nth(nth, &[self.op], self.fault);
        if self.from_then_on { rule.from_then_on() } else { rule }
    }

    /// A poisoned store is right if syncs fail or bytes that are read are wrong, and wrong whatever
    /// fails if a thread of its panicked. `why` is what the store says.
    pub fn check_poisoned(self, why: &str) -> Result<(), String> {
        let by_sync = matches!(self.op, Op::Sync | Op::TruncateSync | Op::SyncDir);
        let may_be = by_sync || matches!(self.fault, Fault::FlipBit(_));
        match may_be && !why.contains("panicked") {
            true => Ok(()),
            false => Err(format!("poisoned by what poisons no store: {why}")),
        }
    }
}

/// Plans in which calls fail, and none lies.
fn disturbing_plans() -> Vec<Plan> {
    let fails = |plan: &Plan| !matches!(plan.fault, Fault::FlipBit(_));
    plans().into_iter().filter(fails).collect()
}

/// Has calls fail by each plan in which none lies, the first, the second and so on of a run that is
/// given a seed, until a run says that there was none; in the short form not each of many. Returns
/// how many runs there were.
pub fn fail_everywhere(
    config: &Config,
    run: impl Fn(u64, Plan, u64) -> Result<bool, String> + Sync,
) -> Result<u64, String> {
    let plans = disturbing_plans();
    let (runs, rounds) = (AtomicU64::new(0), config.choose(1, 40));
    for_cases(config, rounds * plans.len() as u64, |case| {
        let plan = plans[case as usize % plans.len()];
        let seed = case_seed(config.seed ^ 0xfa17, case);
        let mut k = 1;
        loop {
            runs.fetch_add(1, Ordering::Relaxed);
            let fired =
                run(seed, plan, k).map_err(|e| format!("{plan:?}, call {k}, seed {seed}: {e}"))?;
            if !fired {
                return Ok(());
            }
            k += 1 + config.choose(k / 2, 0);
        }
    })?;
    Ok(runs.into_inner())
}

/// All plans: each fault with each operation that can have it.
fn plans() -> Vec<Plan> {
    let reads = [Op::Open, Op::Read, Op::Len, Op::List, Op::Exists, Op::Lock];
    let failing = Op::CHANGES.iter().chain(&reads).map(|&op| (op, Fault::Eio));
    let full = Op::GROWS.iter().map(|&op| (op, Fault::NoSpace));
    let others = [
        (Op::Append, Fault::ShortWrite),
        (Op::Append, Fault::Late),
        (Op::Rename, Fault::Late),
        (Op::Read, Fault::FlipBit(0)),
    ];
    let all: Vec<(Op, Fault)> = failing.chain(full).chain(others).collect();
    let plan = |&(op, fault): &(Op, Fault)| {
        let lasting = Plan { op, fault, from_then_on: true };
        // What was appended and failed is void with the next log or manifest, which there must be.
        let can_last = (op, fault) != (Op::Append, Fault::Late);
        [Some(Plan { from_then_on: false, ..lasting }), can_last.then_some(lasting)]
    };
    all.iter().flat_map(plan).flatten().collect()
}

/// A script, and the disk it runs on.
struct Scene {
    name: String,
    steps: Vec<Step>,
    seed: u64,
    plain_logs: bool,
}

const TOUR: &[Step] = &[
    Step::Write(300),
    Step::WriteSynced(300),
    Step::Read,
    Step::Flush,
    Step::Write(300),
    Step::CreateGuest,
    Step::Write(300),
    Step::Flush,
    Step::Read,
    Step::Compact,
    Step::Write(100),
    Step::Sync,
    Step::Ingest,
    Step::Write(100),
    Step::Checkpoint,
    Step::WriteSynced(100),
    Step::DropGuest,
    Step::Read,
    Step::Reopen,
    Step::Read,
    Step::Write(100),
    Step::Flush,
    Step::DropAndReopen,
    Step::Write(100),
    Step::Reopen,
    Step::Read,
];

/// Values that fill memtables, so that logs are switched and flushes come by themselves.
fn filling() -> Vec<Step> {
    let mut steps = vec![Step::Write(40_000); 9];
    steps.push(Step::Read);
    steps.extend([Step::Write(40_000); 6]);
    steps.extend([Step::WriteSynced(2_000), Step::Compact, Step::Read, Step::Reopen, Step::Read]);
    steps
}

fn scenes(config: &Config) -> Vec<Scene> {
    let mut scenes = Vec::new();
    for plain_logs in [false, true] {
        let scene = |name: String, steps: Vec<Step>, seed: u64| {
            let name = format!("{name}, {} logs", if plain_logs { "plain" } else { "reserved" });
            Scene { name, steps, seed, plain_logs }
        };
        scenes.push(scene("tour".to_owned(), TOUR.to_vec(), config.seed));
        scenes.push(scene("filling".to_owned(), filling(), config.seed));
        for i in 0..config.choose(3, 200) {
            let seed = case_seed(config.seed, i);
            let mut random = Random::new(seed);
            let mut steps = random_steps(&mut random, 14);
            steps.insert(5, Step::Read);
            steps.extend([Step::Read, Step::Reopen, Step::Read]);
            scenes.push(scene(format!("random {i}"), steps, seed));
        }
    }
    scenes
}

/// Runs the gate.
pub fn gate(config: &Config) -> Outcome {
    let (scenes, plans) = (scenes(config), plans());
    let total = Mutex::new((0u64, 0u64));
    let watchdog = Watchdog::start(HANG);
    let cases = (scenes.len() * plans.len()) as u64;
    let half = config.share(0.5);
    for_cases(&half, cases, |case| {
        let scene = &scenes[case as usize / plans.len()];
        let plan = plans[case as usize % plans.len()];
        // The same violation at many calls is told once.
        let mut told = BTreeSet::new();
        let mut reports = Vec::new();
        for k in 1.. {
            watchdog.alive(format!("{}: {plan:?}, call {k}", scene.name));
            let mut trial = Trial::new(scene, plan, k, true);
            let result = guarded(|| trial.run());
            total.lock().0 += 1;
            if let Err(message) = result {
                let gist: String = message.chars().filter(|c| !c.is_ascii_digit()).collect();
                if told.insert(gist) {
                    reports.push(format!("{}: {plan:?}, call {k}: {message}", scene.name));
                }
            }
            if trial.faulty.faults_fired() == 0 {
                break;
            }
        }
        if reports.is_empty() { Ok(()) } else { Err(reports.join("\n  ")) }
    })?;
    // With real threads the k-th call is another one each time; a sample of all calls is tried.
    let with_threads = |case| {
        let mut random = Random::new(case_seed(config.seed ^ 0x7ead, case));
        let scene = &scenes[random.below(scenes.len() as u64) as usize];
        let plan = plans[random.below(plans.len() as u64) as usize];
        let calls_max = [3, 20, 200][random.below(3) as usize];
        let k = 1 + random.below(calls_max);
        watchdog.alive(format!("with threads: {}: {plan:?}, call {k}", scene.name));
        total.lock().1 += 1;
        Trial::new(scene, plan, k, false)
            .run()
            .map_err(|e| format!("with threads: {}: {plan:?}, call {k}: {e}", scene.name))
    };
    for_cases(&half.behind(cases), config.choose(400, 20_000), with_threads)?;
    let (inline, threads) = total.into_inner();
    Ok(format!("{inline} runs, each with one more call failing, and {threads} with threads"))
}

struct Trial<'a> {
    scene: &'a Scene,
    plan: Plan,
    faulty: FaultyVfs,
    player: Player,
    inline: bool,
}

impl<'a> Trial<'a> {
    fn new(scene: &'a Scene, plan: Plan, k: u64, inline: bool) -> Trial<'a> {
        let strict = StrictVfs::with_options(StrictOptions {
            preallocated_logs: !scene.plain_logs,
            seed: scene.seed,
            ..StrictOptions::default()
        });
        let faulty = FaultyVfs::new(Arc::new(strict.clone()));
        let fault = match plan.fault {
            Fault::FlipBit(_) => Fault::FlipBit(scene.seed.wrapping_mul(k)),
            other => other,
        };
        faulty.inject(Plan { fault, ..plan }.rule(k));
        let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
        let world = World { strict, vfs, inline, listener: None };
        let options = random_options(&mut Random::new(scene.seed ^ 1));
        let player = Player::new(world, options, scene.seed);
        Trial { scene, plan, faulty, player, inline }
    }

    fn run(&mut self) -> Result<(), String> {
        for &step in &self.scene.steps {
            match self.player.play(step) {
                Ok(()) => {}
                Err(Trouble::Failed(error)) => {
                    self.check_error(&error).map_err(|e| format!("{step:?}: {e}"))?;
                }
                Err(Trouble::Wrong(what)) => return Err(format!("{step:?}: {what}")),
            }
            if self.player.is_poisoned() {
                break;
            }
        }
        if self.player.is_poisoned() {
            self.check_poisoned()?;
        } else {
            self.faulty.heal();
            self.check_healed()?;
        }
        self.check_kept()
    }

    /// An error says what failed: the injected fault, or that the store is poisoned by it.
    fn check_error(&self, error: &Error) -> Result<(), String> {
        let right = match (error, self.plan.fault) {
            (Error::Poisoned { why }, _) => self.plan.check_poisoned(why).is_ok(),
            (Error::Io { source, .. }, Fault::Eio | Fault::ShortWrite | Fault::Late) => {
                source.raw_os_error() == Some(5)
            }
            (Error::NoSpace { .. }, Fault::NoSpace) => true,
            (Error::Corruption { .. } | Error::Incompatible { .. }, Fault::FlipBit(_)) => true,
            _ => false,
        };
        if !right {
            return Err(format!("the wrong error: {error:?}"));
        }
        let named = error.path().is_none_or(|path| path.starts_with("/"));
        if named { Ok(()) } else { Err(format!("the error names no file: {error:?}")) }
    }

    /// Reads answer, unless reading itself fails; writes are refused, also when the disk is well
    /// again.
    fn check_poisoned(&mut self) -> Result<(), String> {
        if matches!(self.plan.fault, Fault::FlipBit(_)) {
            self.faulty.heal();
        }
        let poisoned = "poisoned";
        self.player.play(Step::Read).map_err(|e| format!("{poisoned}, reading: {e}"))?;
        self.faulty.heal();
        self.player.play(Step::Read).map_err(|e| format!("{poisoned}, reading later: {e}"))?;
        let db = self.player.bare_db().map_err(|e| e.to_string())?;
        match db.put(b"refused", b"") {
            Err(Error::Poisoned { why }) => self.plan.check_poisoned(&why)?,
            other => return Err(format!("{poisoned}, writing: {other:?}")),
        }
        match db.flush() {
            Err(Error::Poisoned { .. }) => Ok(()),
            other => Err(format!("{poisoned}, flushing: {other:?}")),
        }
    }

    /// Everything works again without reopening.
    fn check_healed(&mut self) -> Result<(), String> {
        let again =
            [Step::WriteSynced(100), Step::Write(100), Step::Flush, Step::Compact, Step::Read];
        for step in again {
            let mut result = self.player.play(step);
            // A flush in the background that failed is tried again a quarter of a second later.
            for _ in 0..40 {
                if self.inline || result.is_ok() || self.player.is_poisoned() {
                    break;
                }
                pause(Duration::from_millis(50));
                result = self.player.play(step);
            }
            if !self.inline && self.player.is_poisoned() {
                return self.check_poisoned();
            }
            result.map_err(|e| format!("after healing, {step:?}: {e}"))?;
        }
        Ok(())
    }

    /// What is acknowledged is there after a crash now, and after closing.
    fn check_kept(&mut self) -> Result<(), String> {
        let history = &self.player.history;
        let (acknowledged, durable) = (history.acknowledged, history.durable);
        let disk = self.player.world.strict.clone();
        for (survival, least) in [
            (Survival::ProcessDeath, acknowledged),
            (Survival::None, durable),
            (Survival::Some { percent: 50 }, durable),
        ] {
            let kept = disk.crash(survival, self.scene.seed);
            self.player
                .check_kept(&kept, least)
                .map_err(|e| format!("crashed, {survival:?}, at least {least}: {e}"))?;
        }
        let poisoned = self.player.is_poisoned();
        let closed = self.player.take_db().map_or(Ok(()), esker::Db::close);
        if closed.is_err() && !poisoned {
            return Err(format!("closing: {closed:?}"));
        }
        let kept = self.player.check_kept(&disk, acknowledged);
        kept.map(drop).map_err(|e| format!("closed: {e}"))
    }
}
