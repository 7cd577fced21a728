//! Ctrl-C: the first one asks for an orderly end, the second one ends at once.

use crate::failure::{Code, Failure, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells whether the user wants the command to end.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
}

impl Interrupt {
    /// Takes over SIGINT and SIGTERM for the rest of the process.
    pub(crate) fn watch() -> Result<Interrupt> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: what a second signal does depends on the flag the first one set.
            let exit = i32::from(Code::Interrupted as u8);
            signal_hook::flag::register_conditional_shutdown(signal, exit, asked.clone())
                .and_then(|_| signal_hook::flag::register(signal, asked.clone()))
                .map_err(|error| Failure::other(format!("cannot watch for signals: {error}")))?;
        }
        Ok(Interrupt { asked })
    }

    /// True once the user has asked.
    pub(crate) fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}
