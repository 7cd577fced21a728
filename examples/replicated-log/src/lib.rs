//! A replicated log above three stores that have none of their own: how `durability = external` is
//! meant to be used.
//!
//! Everything is in one process. What a consensus protocol would do, such as electing a leader and
//! sending entries to majorities, is left out: the log is simply there and never lost. What is
//! shown is all that happens below it, as a real system must do it too:
//!
//! ```text
//! propose -> log -> apply, by each replica that is live          (cluster: propose;   replica: apply)
//!                   flushed in the background -> Persisted       (replica: Told)
//!            log <- cut off at the least persisted index         (cluster: cut)
//!            log too long for want of flushes -> flush_oldest    (cluster: keep_short)
//! crash   -> open -> how far is each group?                      (replica: start, applied)
//!                   behind, but in the log  -> the rest again    (cluster: recover)
//!                   the log begins later    -> copied as files   (cluster: repair; replica: copy, install)
//! ```
//!
//! Read it in this order: [`log`], [`replica`], [`cluster`], and `main.rs`, which shows it at work.
//! `tests/crashes.rs` cuts the power again and again and compares all replicas with a model. The
//! contract is docs/external-durability.md.

pub mod cluster;
pub mod log;
pub mod replica;
