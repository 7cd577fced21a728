use esker::base::vfs::strict::*;
use esker_gates::{gate::case_seed, history::*, random::Random, script::*};
fn main() {
    let seed = case_seed(1, 832);
    let mut random = Random::new(seed);
    let disk = StrictOptions {
        preallocated_logs: random.one_in(2),
        block_bytes: if random.one_in(2) { 512 } else { 4096 },
        seed,
        ..StrictOptions::default()
    };
    let count = 4 + random.below(36);
    let steps = random_steps(&mut random, count);
    let strict = StrictVfs::with_options(disk);
    let options = random_options(&mut Random::new(seed ^ 1));
    let mut p = Player::new(World::plain(&strict), options, seed);
    for (i, s) in steps.iter().enumerate() {
        p.play(*s).map_err(|e| e.to_string()).unwrap();
        let r = p.play(Step::Read);
        let st: Vec<String> = p
            .bare_db()
            .unwrap()
            .stats()
            .keyspaces
            .iter()
            .map(|k| {
                format!(
                    "{}:{} mem {}",
                    k.name,
                    k.levels
                        .iter()
                        .map(|l| format!(
                            "[{}r {}t {}e {}d {}rt]",
                            l.runs, l.tables, l.entries, l.tombstones, l.range_tombstones
                        ))
                        .collect::<String>(),
                    k.memtable_entries
                )
            })
            .collect();
        let last = p.history.batches().last().map(|b| {
            b.iter()
                .map(|o| match o {
                    Op::Put(k, a, _) => format!("put {k} {}", a.escape_ascii()),
                    Op::Delete(k, a) => format!("del {k} {}", a.escape_ascii()),
                    Op::DeleteRange(k, a, b) => {
                        format!("range {k} {}..{}", a.escape_ascii(), b.escape_ascii())
                    }
                })
                .collect::<Vec<_>>()
        });
        println!(
            "{i} {s:?} {st:?} {last:?} -> {}",
            match r {
                Ok(()) => "ok".into(),
                Err(e) => e.to_string(),
            }
        );
    }
}
