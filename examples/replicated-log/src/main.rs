//! The cluster at work: requests, flushes, crashes, repair. See the library's head.

use esker::base::vfs::strict::Survival;
use esker_replicated_log::cluster::{Cluster, Failure, REPLICAS, Recovered};
use esker_replicated_log::log::{Log, Op};
use std::process::ExitCode;

/// Groups that are written to all the time, and one that is not.
const BUSY: [&[u8]; 2] = [b"orders/", b"stock/"];
const IDLE: &[u8] = b"audit/";

/// Entries of all logs from which on flushes are asked for.
const ENTRIES_MAX: usize = 2_000;

fn main() -> ExitCode {
    match demonstrate() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("esker-replicated-log: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn demonstrate() -> Result<(), Failure> {
    let mut cluster = Cluster::new(&[BUSY[0], BUSY[1], IDLE], ENTRIES_MAX, false)?;

    println!("Three replicas apply 4 000 requests to two groups, and one to a third:");
    cluster.propose(IDLE, vec![put(1)])?;
    write(&mut cluster, 0..4_000)?;
    show(&cluster);

    println!(
        "\nThe oldest of what is not persistent is flushed, so that it does not stay in the logs:"
    );
    cluster.propose(IDLE, vec![put(2)])?;
    show_log(&cluster, IDLE);
    cluster.flush_oldest()?;
    show_log(&cluster, IDLE);

    println!(
        "\nReplica 2 loses its power, and half of what it had not synced. The others go on for 100 requests:"
    );
    cluster.crash(2, Survival::Some { percent: 50 }, 1);
    write(&mut cluster, 4_000..4_100)?;
    restart(&mut cluster, 2)?;

    println!("\nIt loses its power again, for 9 000 requests. The logs do not wait for it:");
    cluster.crash(2, Survival::None, 2);
    write(&mut cluster, 4_100..13_100)?;
    show(&cluster);
    restart(&mut cluster, 2)?;

    println!(
        "\nAll three lose their power at the same moment. What they had applied is in their tables or in the logs:"
    );
    for at in 0..REPLICAS {
        cluster.crash(at, Survival::Some { percent: 50 }, 3 + at as u64);
    }
    for at in 0..REPLICAS {
        restart(&mut cluster, at)?;
    }

    for group in [BUSY[0], BUSY[1], IDLE] {
        let first = cluster.replica(0).pairs(group)?;
        for at in 1..REPLICAS {
            assert!(cluster.replica(at).pairs(group)? == first, "replicas are alike");
        }
        println!("\n{}: {} pairs, the same in all replicas", group.escape_ascii(), first.len());
    }
    Ok(())
}

fn put(number: u64) -> Op {
    let key = format!("{:05}", number % 3_000).into_bytes();
    Op { key, value: Some(format!("{number:0200}").into_bytes()) }
}

/// Requests of one to three puts, to the busy groups in turn.
fn write(cluster: &mut Cluster, numbers: std::ops::Range<u64>) -> Result<(), Failure> {
    for number in numbers {
        let ops = (0..1 + number % 3).map(|nth| put(7 * number + nth)).collect();
        cluster.propose(BUSY[(number % 2) as usize], ops)?;
    }
    Ok(())
}

fn restart(cluster: &mut Cluster, at: usize) -> Result<(), Failure> {
    cluster.start(at)?;
    for group in [BUSY[0], BUSY[1], IDLE] {
        let applied = cluster.replica(at).applied(group)?;
        let (cut, last) = cluster.log(group).map_or((0, 0), |log| (log.cut(), log.last()));
        println!(
            "  replica {at} finds {} as after request {applied}; the log begins behind {cut} and has {last}",
            group.escape_ascii()
        );
    }
    if let Some(Recovered { replayed, copied }) = cluster.recover(at)? {
        println!("  it is live again: {replayed} requests once more, {copied} groups copied");
    }
    Ok(())
}

fn show(cluster: &Cluster) {
    for group in [BUSY[0], BUSY[1], IDLE] {
        show_log(cluster, group);
    }
}

fn show_log(cluster: &Cluster, group: &[u8]) {
    let persisted: Vec<String> = (0..REPLICAS)
        .map(|at| match cluster.is_live(at) {
            true => cluster.replica(at).persisted(group).to_string(),
            false => "down".to_owned(),
        })
        .collect();
    let log = cluster.log(group);
    println!(
        "  {}: {} requests, {} of them still in the log; persistent in the replicas up to {}",
        group.escape_ascii(),
        log.map_or(0, Log::last),
        log.map_or(0, Log::len),
        persisted.join(", "),
    );
}
