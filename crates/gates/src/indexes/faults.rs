//! Calls of the script fail, once or from then on; then the disk heals, and the store goes on;
//! indexes agree with records all the time.

use super::cuts::Run;
use super::records::{Checked, check, random_batch, text};
use crate::faults::Plan;
use crate::random::Random;
use esker::base::Error;
use esker::base::vfs::faulty::FaultyVfs;
use esker::base::vfs::strict::{StrictOptions, StrictVfs, Survival};
use esker::{Db, WriteOptions};
use std::sync::Arc;

/// One run, in which the `k`-th call fails. False if there was none.
pub(super) fn run(seed: u64, plan: Plan, k: u64) -> Result<bool, String> {
    let strict = StrictVfs::with_options(StrictOptions { seed, ..StrictOptions::default() });
    let faulty = FaultyVfs::new(Arc::new(strict.clone()));
    faulty.inject(plan.rule(k));
    let mut run = Run::new(Arc::new(faulty.clone()), strict.clone(), seed);
    let outcome = run.script();
    let fired = faulty.faults_fired() > 0;
    if let (Err(error), false) = (&outcome, fired) {
        return Err(format!("the script itself fails: {error}"));
    }
    faulty.heal();
    for (way, least) in [
        (Survival::ProcessDeath, run.acknowledged),
        (Survival::None, run.durable),
        (Survival::Some { percent: 50 }, run.durable),
    ] {
        let kept = strict.crash(way, k);
        run.check_store(&kept, least).map_err(|e| format!("{way:?}: {e}"))?;
    }
    if let Some(db) = run.db.take() {
        go_on(&db, plan).map_err(|e| format!("healed: {e}"))?;
        drop(db);
        run.check_indexes(&strict).map_err(|e| format!("closed: {e}"))?;
    }
    Ok(fired)
}

/// What the store should still be able to do, unless it was rightly poisoned.
fn go_on(db: &Db, plan: Plan) -> Checked {
    let batch = random_batch(&mut Random::new(1));
    for result in [db.wait_indexes(), db.write(batch, WriteOptions::default()), db.flush()] {
        match result {
            Err(Error::Poisoned { why }) => return plan.check_poisoned(&why),
            result => result.map_err(text)?,
        }
    }
    check(db).map(drop)
}
