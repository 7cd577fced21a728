//! Calls of the script fail, once or from then on; then the disk heals, and the store goes on; and
//! what it keeps is exact.

use super::cuts::{Run, check_store};
use super::log::{Log, random_options};
use crate::faults::Plan;
use crate::random::Random;
use esker::Db;
use esker::base::Error;
use esker::base::vfs::faulty::FaultyVfs;
use esker::base::vfs::strict::{StrictOptions, StrictVfs, Survival};
use std::sync::Arc;

/// How many groups there are.
const GROUPS: u64 = 5;

/// One run, in which the `k`-th call fails. False if there was none.
pub(super) fn run(seed: u64, plan: Plan, k: u64) -> Result<bool, String> {
    let options = random_options(&mut Random::new(seed));
    let strict = StrictVfs::with_options(StrictOptions { seed, ..StrictOptions::default() });
    let faulty = FaultyVfs::new(Arc::new(strict.clone()));
    faulty.inject(plan.rule(k));
    let mut run = Run::new(Arc::new(faulty.clone()), &options, seed, GROUPS);
    let outcome = run.script();
    run.expect_nothing_wrong()?;
    run.listen();
    let fired = faulty.faults_fired() > 0;
    if let (Err(error), false) = (&outcome, fired) {
        return Err(format!("the script itself fails: {error}"));
    }
    faulty.heal();
    for (nth, way) in
        [Survival::ProcessDeath, Survival::None, Survival::Some { percent: 50 }].iter().enumerate()
    {
        let kept = strict.crash(*way, k * 31 + nth as u64);
        check_store(&kept, &options, run.logs.clone(), true)
            .map_err(|e| format!("{way:?}: {e}"))?;
    }
    if let Some(db) = run.db.take() {
        go_on(&db, plan, &mut run.logs).map_err(|e| format!("healed: {e}"))?;
        drop(db);
        check_store(&strict, &options, run.logs, false).map_err(|e| format!("closed: {e}"))?;
    }
    Ok(fired)
}

/// What the store should still be able to do, unless it was rightly poisoned.
fn go_on(db: &Db, plan: Plan, logs: &mut [Log]) -> Result<(), String> {
    for log in logs.iter_mut().filter(|log| !log.is_uncertain()) {
        let applied = log.applied(db);
        for index in applied + 1..=log.last() {
            match log.apply(db, index) {
                Err(Error::Poisoned { why }) => return plan.check_poisoned(&why),
                applied => applied.map_err(|e| format!("apply: {e}"))?,
            }
        }
        log.compare(db, log.last())?;
    }
    match db.flush() {
        Err(Error::Poisoned { why }) => return plan.check_poisoned(&why),
        flushed => flushed.map_err(|e| format!("flush: {e}"))?,
    }
    for log in logs.iter_mut().filter(|log| !log.is_uncertain()) {
        log.all_persisted();
        log.compare(db, log.last())?;
    }
    Ok(())
}
