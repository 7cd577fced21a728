//! Ctrl-C: the first one ends the workload that runs and then the command, the second one ends it
//! at once.

use esker_draw::Outcome;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Exit code of a command that was interrupted, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// A flag that the first signal sets.
///
/// # Errors
/// If the system refuses.
pub fn watch() -> Outcome<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: what a second signal does depends on the flag that the first one set.
        register_conditional_shutdown(signal, INTERRUPTED.into(), asked.clone())?;
        register(signal, asked.clone())?;
    }
    Ok(asked)
}
