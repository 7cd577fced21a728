//! Ctrl-C: the first one asks for an orderly end, the second one ends at once.
//!
//! Commands that look at the flag between two records end by themselves. Those that may be deep in
//! the engine or blocked in a read or write are *guarded*: the open store is closed under them,
//! which ends its jobs, and if they have not ended soon after, the process does. The store takes
//! that as it takes a crash: nothing acknowledged is lost. What is made outside of the store does
//! not: a command that makes something there is waited for until it is gone again.

use crate::failure::{Code, Failure, Result};
use crate::output::note;
use esker::Db;
use esker::base::sync::Mutex;
use rustix::event::{Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{self, IsTerminal, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How long a guarded command may take to end by itself.
const GRACE: Duration = Duration::from_millis(600);

/// Tells whether the user wants the command to end. The default one never does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
    guard: Arc<Guard>,
}

/// What the guard needs to know.
#[derive(Debug, Default)]
struct Guard {
    /// To be closed when the user asks.
    open: Mutex<Option<Db>>,
    /// What is said when the command ends early.
    what: &'static str,
    /// It has been said.
    said: AtomicBool,
    ends: Mutex<Ends>,
    /// To be put back where somebody reads keys from it when the process ends.
    terminal: Mutex<Option<Termios>>,
}

/// How a guarded command ends once the user asks.
#[derive(Debug, Default)]
enum Ends {
    /// By itself if it is quick enough.
    #[default]
    Soon,
    /// By itself, when it has taken this away.
    Without(PathBuf),
    /// By itself: it has done what it was asked for.
    Done,
}

impl Interrupt {
    /// Takes over SIGINT and SIGTERM for the rest of the process.
    pub(crate) fn watch() -> Result<Interrupt> {
        Interrupt::default().registered()
    }

    /// The same, for a command that may not see the flag in time: it has ended within a second in
    /// any case. `what` is then said: what happened, and what to do.
    pub(crate) fn guard(what: &'static str) -> Result<Interrupt> {
        let guard = Arc::new(Guard { what, ..Guard::default() });
        let interrupt = Interrupt { guard, ..Interrupt::default() }.registered()?;
        let cannot = |error| Failure::other(format!("cannot watch for signals: {error}"));
        let (bell, ringer) = UnixStream::pair().map_err(cannot)?;
        for signal in [SIGINT, SIGTERM] {
            let ringer = ringer.try_clone().map_err(cannot)?;
            signal_hook::low_level::pipe::register(signal, ringer).map_err(cannot)?;
        }
        let watched = interrupt.clone();
        let guard = thread::Builder::new().name("esker-guard".to_owned());
        guard.spawn(move || watched.end_when_asked(bell)).map_err(cannot)?;
        Ok(interrupt)
    }

    fn registered(self) -> Result<Interrupt> {
        for signal in [SIGINT, SIGTERM] {
            // In this order: what a second signal does depends on the flag the first one set.
            let exit = i32::from(Code::Interrupted as u8);
            signal_hook::flag::register_conditional_shutdown(signal, exit, self.asked.clone())
                .and_then(|_| signal_hook::flag::register(signal, self.asked.clone()))
                .map_err(|error| Failure::other(format!("cannot watch for signals: {error}")))?;
        }
        Ok(self)
    }

    /// As if the user had asked.
    #[cfg(test)]
    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// True once the user has asked.
    pub(crate) fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Waits for so long, or less if a signal comes.
    pub(crate) fn pause(&self, time: Timespec) {
        if !self.asked() {
            // An error is that signal.
            let _ = poll(&mut [], Some(&time));
        }
    }

    /// Closes this store once the user asks, which ends what it is doing.
    pub(crate) fn closes(&self, db: &Db) {
        *self.guard.open.lock() = Some(db.clone());
    }

    /// Standard input is a terminal from which keys are read from now on, in a mode of their own:
    /// when the process ends, it is as it is now.
    pub(crate) fn puts_back_terminal(&self) {
        *self.guard.terminal.lock() = tcgetattr(io::stdin()).ok();
    }

    /// From now on this is being made, by the store that is to be closed.
    ///
    /// # Errors
    /// The user has asked already: nothing must be begun.
    pub(crate) fn makes(&self, path: &Path) -> Result<()> {
        *self.guard.ends.lock() = Ends::Without(path.to_owned());
        if self.asked() { Err(self.ended()) } else { Ok(()) }
    }

    /// It is made, and stays.
    pub(crate) fn has_made(&self) {
        *self.guard.ends.lock() = Ends::Done;
    }

    /// The result of a call of the engine that may have been ended by the guard.
    pub(crate) fn outcome<T>(&self, result: esker::Result<T>) -> Result<T> {
        match result {
            Err(_) if self.asked() => Err(self.ended()),
            result => Ok(result?),
        }
    }

    /// Ends a guarded command early: says so, once.
    pub(crate) fn ended(&self) -> Failure {
        if !self.guard.said.swap(true, Ordering::Relaxed) {
            note(self.guard.what);
        }
        Failure::interrupted("")
    }

    /// Waits for the first signal, and then for as long as the command may take.
    fn end_when_asked(&self, mut bell: UnixStream) {
        if bell.read_exact(&mut [0]).is_err() {
            return;
        }
        if let Some(db) = self.guard.open.lock().take() {
            // Its failure would be told by the command. It may take longer than there is time.
            thread::spawn(move || db.close());
        }
        match &*self.guard.ends.lock() {
            Ends::Soon => {}
            // Said at once: a second signal may come before it is gone.
            Ends::Without(path) => {
                let path = path.display();
                if !self.guard.said.swap(true, Ordering::Relaxed) {
                    note(&format!(
                        "interrupted: taking {path} away, which is half made; a second Ctrl-C leaves it so"
                    ));
                }
                return;
            }
            Ends::Done => return,
        }
        // Nothing more comes: a second signal ends the process.
        let _ = bell.set_read_timeout(Some(GRACE));
        let _ = bell.read_exact(&mut [0]);
        if let Some(terminal) = &*self.guard.terminal.lock() {
            // What cannot be put back is left as it is.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, terminal);
            if io::stdout().is_terminal() {
                // Pasted text is marked while keys are read.
                let _ = rustix::io::write(io::stdout(), b"\x1b[?2004l\r\n");
            }
        }
        process::exit(i32::from(self.ended().code as u8));
    }
}
