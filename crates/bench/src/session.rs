//! Runs the workloads of a configuration on one engine, each on the store it needs.

use crate::config::{Config, REOPEN};
use crate::drive;
use crate::keys::Known;
use crate::machine::use_processors;
use crate::progress::Progress;
use crate::result::Measured;
use crate::store::{Engine, Store};
use crate::table;
use crate::workload::{self, Start, Workload};
use esker_draw::Outcome;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Waits until the engine has no more work of its own, as each workload does when it is over.
const SETTLE: &str = "waitforcompaction";

/// Makes the keys of a warm-up others than those of what it is for.
const WARMUP_SEED: u64 = 1 << 63;

/// One thing of `--benchmarks`.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Run it.
    Run(&'static Workload),
    /// Close the store and open it.
    Reopen,
    /// Wait for background work.
    Settle,
}

/// What `--benchmarks` says.
///
/// # Errors
/// A name that means nothing, or a workload that finds no store to read.
pub fn steps(config: &Config) -> Outcome<Vec<Step>> {
    let mut filled = config.use_existing_db;
    let mut steps = Vec::new();
    for name in config.benchmarks.iter().map(|name| name.trim()) {
        let step = match name {
            REOPEN => Step::Reopen,
            SETTLE => Step::Settle,
            _ => Step::Run(workload::find(name)?),
        };
        let fills = matches!(step, Step::Run(Workload { start: Start::Empty, .. }));
        if !filled && !fills {
            return Err(format!(
                "{name} needs a filled store: put fillseq, fillrandom or ycsb-load before it, or name one \
                 with --db and --use_existing_db"
            )
            .into());
        }
        filled = true;
        steps.push(step);
    }
    Ok(steps)
}

/// A directory for stores, and what was in it before.
struct Place {
    dir: PathBuf,
    /// The store is the user's.
    existing: bool,
    /// Remove the directory at the end.
    temporary: bool,
}

/// Fails if the directory of `--db` is not what the flags say: the user's store, or a new one. To
/// be asked once, before the first round: each leaves its store to the next, which removes it.
///
/// # Errors
/// Says what to do.
pub fn check_place(config: &Config) -> Outcome<()> {
    let Some(dir) = &config.db else { return Ok(()) };
    let shown = dir.display();
    match (config.use_existing_db, fs::read_dir(dir).map(|entries| entries.count())) {
        (true, Err(error)) => Err(format!("--db {shown}: {error}").into()),
        (false, Ok(1..)) => Err(format!(
            "--db {shown}: the directory is not empty: name a new one, or add --use_existing_db"
        )
        .into()),
        _ => Ok(()),
    }
}

impl Place {
    fn new(config: &Config) -> Place {
        let Some(dir) = config.db.clone() else {
            let unique = format!("esker-bench-{}", std::process::id());
            let dir = std::env::temp_dir().join(unique);
            return Place { dir, existing: false, temporary: true };
        };
        Place { dir, existing: config.use_existing_db, temporary: false }
    }

    fn store(&self) -> PathBuf {
        if self.existing { self.dir.clone() } else { self.dir.join("store") }
    }

    /// Removes a store that is not the user's.
    fn clear(&self) -> Outcome<()> {
        match fs::remove_dir_all(self.store()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(fs::create_dir_all(&self.dir)?),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.temporary {
            // What stays behind is in the directory for what is temporary.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// The open store of a session.
struct Open {
    store: Box<dyn Store>,
    known: Known,
    /// Whether its keys are scattered, once some workload has said so.
    scattered: Option<bool>,
}

/// Runs all workloads once. `each` is shown every result as it comes.
///
/// # Errors
/// Of the engine or the file system; a store left behind by it is removed unless it is the user's.
pub fn run(
    engine: &dyn Engine,
    config: &Config,
    stop: &AtomicBool,
    progress: &mut Progress,
    each: &mut dyn FnMut(Measured),
) -> Outcome<()> {
    let steps = steps(config)?;
    if let Some(processors) = config.processors {
        use_processors(processors)?;
    }
    let place = Place::new(config);
    let mut open = None;
    for (at_step, step) in steps.into_iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        match step {
            Step::Run(workload) => {
                let at = prepare(engine, config, &place, open.take(), workload)?;
                let at = open.insert(at);
                let may_be_warm = workload.repeats() && !config.is_cold(at_step);
                if config.warmup > 0.0 && workload.start == Start::Filled && may_be_warm {
                    let mut plan = config.plan(workload, at_step)?;
                    // Not the keys that are then measured, which the cache would have, one and all.
                    plan.seed ^= WARMUP_SEED;
                    plan.seconds_max = Some(config.warmup);
                    plan.operations = u64::MAX;
                    measure(engine, &place, at, workload, &plan, stop, progress)?;
                }
                let plan = config.plan(workload, at_step)?;
                let measured = measure(engine, &place, at, workload, &plan, stop, progress)?;
                // It ended before it began, and says nothing of the engine.
                if measured.operations == 0 && stop.load(Ordering::Relaxed) {
                    break;
                }
                progress.tell(&table::line(&measured));
                each(measured);
            }
            Step::Reopen => {
                let at = match open.take() {
                    None => reopened(engine, config, &place, None)?,
                    Some(Open { store, known, scattered }) => {
                        store.close()?;
                        reopened(engine, config, &place, Some((known, scattered)))?
                    }
                };
                open = Some(at);
            }
            Step::Settle => {
                let at = match open.take() {
                    Some(at) => at,
                    None => reopened(engine, config, &place, None)?,
                };
                at.store.settle()?;
                open = Some(at);
            }
        }
    }
    if let Some(Open { store, .. }) = open {
        store.close()?;
    }
    Ok(())
}

/// The store that a workload needs.
fn prepare(
    engine: &dyn Engine,
    config: &Config,
    place: &Place,
    open: Option<Open>,
    workload: &Workload,
) -> Outcome<Open> {
    match (workload.start, open) {
        (Start::Filled, Some(open)) if workload.any_keys() => Ok(open),
        (Start::Filled, Some(open)) if open.scattered.is_none_or(|are| are == workload.scattered) => {
            Ok(Open { scattered: Some(workload.scattered), ..open })
        }
        (Start::Filled, Some(_)) => Err(format!(
            "{} does not find the keys of the store: YCSB's keys are scattered, those of the others are not",
            workload.name
        )
        .into()),
        (Start::Filled, None) => {
            let scattered = Some(workload.scattered).filter(|_| !workload.any_keys());
            reopened(engine, config, place, Some((Known::new(config.num), scattered)))
        }
        (Start::Empty, _) if place.existing => Err(format!(
            "{} makes a new store, and --use_existing_db keeps the one there: leave one of them out",
            workload.name
        )
        .into()),
        (Start::Empty, open) => {
            if let Some(Open { store, .. }) = open {
                store.close()?;
            }
            place.clear()?;
            let store = engine.open(&place.store(), &config.settings(false))?;
            let known = Known::new(config.num);
            Ok(Open { store, known, scattered: Some(workload.scattered) })
        }
    }
}

fn reopened(
    engine: &dyn Engine,
    config: &Config,
    place: &Place,
    known: Option<(Known, Option<bool>)>,
) -> Outcome<Open> {
    let store = engine.open(&place.store(), &config.settings(true))?;
    // What it left when it was closed is not to be done beside the workload that comes next.
    store.settle()?;
    let (known, scattered) = known.unwrap_or_else(|| (Known::new(config.num), None));
    Ok(Open { store, known, scattered })
}

fn measure(
    engine: &dyn Engine,
    place: &Place,
    at: &Open,
    workload: &Workload,
    plan: &drive::Plan,
    stop: &AtomicBool,
    progress: &mut Progress,
) -> Outcome<Measured> {
    let dir: &Path = &place.store();
    drive::run((&engine.name(), &*at.store), dir, workload, plan, &at.known, stop, progress)
        .map_err(|error| format!("{}: {}: {error}", engine.name(), workload.name).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::tests::Slow;
    use crate::store::Settings;
    use std::sync::Arc;

    /// An engine that keeps nothing; the user asks for the end while it gets something.
    #[derive(Default)]
    struct Asked(Arc<AtomicBool>);

    impl Engine for Asked {
        fn name(&self) -> String {
            "asked".to_owned()
        }

        fn setup(&self, _: &Settings) -> String {
            String::new()
        }

        fn open(&self, _: &Path, _: &Settings) -> Outcome<Box<dyn Store>> {
            Ok(Box::new(Slow::asking(self.0.clone())))
        }
    }

    #[test]
    fn what_is_interrupted_while_it_warms_up_is_not_measured() {
        let dir = std::env::temp_dir().join(format!("esker-session-{}", std::process::id()));
        let db = dir.to_string_lossy().into_owned();
        let flags =
            ["--num", "100", "--warmup", "1", "--db", &db, "--benchmarks", "fillrandom,readrandom"];
        let config = Config::of(&flags).expect("flags");
        let (engine, mut seen) = (Asked::default(), Vec::new());
        let mut each = |run: Measured| seen.push(run.workload);
        let mut progress = Progress::start(true);
        run(&engine, &config, &engine.0, &mut progress, &mut each).expect("a run");
        assert_eq!(seen, ["fillrandom"]);
        let _ = fs::remove_dir_all(dir);
    }
}
