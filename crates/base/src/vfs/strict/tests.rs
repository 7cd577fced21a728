//! Crash semantics of the strict file system.

use super::*;
use crate::vfs::write_atomic;

const SURVIVALS: [Survival; 5] = [
    Survival::None,
    Survival::Some { percent: 10 },
    Survival::Some { percent: 50 },
    Survival::Some { percent: 90 },
    Survival::All,
];

fn path(text: &str) -> &Path {
    Path::new(text)
}

/// A disk with a durable directory `/d`.
fn disk() -> StrictVfs {
    disk_with(StrictOptions::default())
}

fn disk_with(options: StrictOptions) -> StrictVfs {
    let vfs = StrictVfs::with_options(options);
    vfs.create_dir_all(path("/d")).unwrap();
    vfs.sync_dir(path("/")).unwrap();
    vfs
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8 + 1).collect()
}

/// How many seeds of 200 give an outcome of which `holds` is true.
fn count(vfs: &StrictVfs, percent: u8, holds: impl Fn(&StrictVfs) -> bool) -> usize {
    (0..200).filter(|&seed| holds(&vfs.crash(Survival::Some { percent }, seed))).count()
}

#[test]
fn synced_data_survives_everything() {
    for preallocated_logs in [true, false] {
        for block_bytes in [512, 4096] {
            let options = StrictOptions { block_bytes, preallocated_logs, seed: 1 };
            let vfs = disk_with(options);
            let (mut table, mut log) =
                (vfs.create(path("/d/t")).unwrap(), vfs.create_log(path("/d/l"), 0).unwrap());
            vfs.sync_dir(path("/d")).unwrap();
            let bytes = pattern(70_000);
            for file in [&mut table, &mut log] {
                file.append(&bytes[..66_001]).unwrap();
                file.sync().unwrap();
                file.append(&bytes[66_001..]).unwrap();
            }
            for survival in SURVIVALS.into_iter().chain([Survival::ProcessDeath]) {
                for seed in 0..20 {
                    let after = vfs.crash(survival, seed);
                    for name in ["/d/t", "/d/l"] {
                        let left = after.read_file(path(name)).unwrap();
                        assert_eq!(left[..66_001], bytes[..66_001], "{survival:?} {seed} {name}");
                        if matches!(survival, Survival::All | Survival::ProcessDeath) {
                            assert_eq!(left[..70_000], bytes);
                        }
                    }
                }
            }
            let left = vfs.crash(Survival::None, 0).read_file(path("/d/t")).unwrap();
            assert_eq!(left.len(), 66_001);
        }
    }
}

#[test]
fn unsynced_blocks_survive_one_by_one() {
    let vfs = disk();
    let mut file = vfs.create(path("/d/f")).unwrap();
    vfs.sync_dir(path("/d")).unwrap();
    let bytes = pattern(4 * 512);
    file.append(&bytes).unwrap();
    let state = |after: &StrictVfs| after.read_file(path("/d/f")).unwrap();
    assert!(count(&vfs, 50, |v| state(v).is_empty()) > 0, "the length was never lost");
    assert!(count(&vfs, 50, |v| state(v) == bytes) > 0, "all blocks never survived");
    let full = |v: &StrictVfs| state(v).len() == bytes.len();
    assert!(count(&vfs, 50, |v| (1..bytes.len()).contains(&state(v).len())) > 0, "never shorter");
    for block in 0..4 {
        let range = block * 512..(block + 1) * 512;
        let lost = |v: &StrictVfs| full(v) && state(v)[range.clone()] == [0; 512];
        let kept = |v: &StrictVfs| full(v) && state(v)[range.clone()] == bytes[range.clone()];
        assert!(count(&vfs, 50, lost) > 0, "block {block} was never lost");
        assert!(count(&vfs, 50, kept) > 0, "block {block} was never kept");
    }
    assert_eq!(count(&vfs, 100, |v| state(v) == bytes), 200);
    assert_eq!(count(&vfs, 0, |v| state(v).is_empty()), 200);
    // Whatever survives is what was written, or zeros.
    for seed in 0..200 {
        let left = state(&vfs.crash(Survival::Some { percent: 50 }, seed));
        assert!(left.iter().zip(&bytes).all(|(&l, &b)| l == b || l == 0));
    }
}

#[test]
fn a_crash_repeats_from_its_seed_and_leaves_a_synced_disk() {
    let vfs = disk();
    for name in ["/d/a", "/d/b", "/d/c"] {
        vfs.create(path(name)).unwrap().append(&pattern(5_000)).unwrap();
    }
    let dump = |v: &StrictVfs| -> Vec<(PathBuf, Vec<u8>)> {
        v.all_files().into_iter().map(|p| (p.clone(), v.read_file(&p).unwrap())).collect()
    };
    for seed in 0..50 {
        let survival = Survival::Some { percent: 50 };
        let after = vfs.crash(survival, seed);
        assert_eq!(dump(&after), dump(&vfs.crash(survival, seed)));
        assert_eq!(dump(&after), dump(&after.crash(Survival::None, 0)));
        assert_eq!(after.mutating_calls(), 0);
    }
}

#[test]
fn a_name_never_synced_may_vanish_with_its_synced_data() {
    let vfs = disk();
    let mut file = vfs.create(path("/d/f")).unwrap();
    file.append(b"data").unwrap();
    file.sync().unwrap();
    let there = |v: &StrictVfs| v.exists(path("/d/f")).unwrap();
    assert!(!there(&vfs.crash(Survival::None, 0)));
    assert!(there(&vfs.crash(Survival::All, 0)));
    let kept = count(&vfs, 50, there);
    assert!((50..150).contains(&kept), "{kept} of 200");
    assert!(count(&vfs, 50, |v| there(v) && v.read_file(path("/d/f")).unwrap() != b"data") == 0);
    // A new directory that was not synced takes its content along.
    vfs.create_dir_all(path("/new")).unwrap();
    vfs.create(path("/new/f")).unwrap();
    vfs.sync_dir(path("/new")).unwrap();
    assert!(!vfs.crash(Survival::None, 0).exists(path("/new")).unwrap());
    vfs.sync_dir(path("/")).unwrap();
    assert!(vfs.crash(Survival::None, 0).exists(path("/new/f")).unwrap());
}

#[test]
fn removed_and_replaced_names_may_come_back() {
    let vfs = disk();
    vfs.write_file(path("/d/gone"), b"old").unwrap();
    vfs.write_file(path("/d/over"), b"old").unwrap();
    vfs.write_file(path("/d/new"), b"new").unwrap();
    vfs.remove(path("/d/gone")).unwrap();
    vfs.rename(path("/d/new"), path("/d/over")).unwrap();
    let back = count(&vfs, 50, |v| v.exists(path("/d/gone")).unwrap());
    assert!((50..150).contains(&back), "{back} of 200");
    let old = count(&vfs, 50, |v| v.read_file(path("/d/over")).unwrap() == b"old");
    assert!((50..150).contains(&old), "{old} of 200");
    vfs.sync_dir(path("/d")).unwrap();
    let after = vfs.crash(Survival::None, 0);
    assert_eq!(after.file_names(path("/d")), ["over"]);
    assert_eq!(after.read_file(path("/d/over")).unwrap(), b"new");
}

/// After any mix of renames among a few names, every durable file that was only ever renamed
/// (never replaced or removed) has a name; within one directory exactly one.
#[test]
fn a_renamed_file_never_loses_its_name() {
    let mut rng = Rng::new(11);
    let mut stayed = [0; 2];
    for round in 0..400 {
        let dirs = if round % 2 == 0 { ["d", "d"] } else { ["d", "e"] };
        let places: Vec<String> = (0..12).map(|i| format!("/{}/{i}", dirs[i % 2])).collect();
        let files: Vec<&Path> = places.iter().step_by(3).map(|p| path(p)).collect();
        let vfs = disk();
        for (i, place) in files.iter().enumerate() {
            vfs.write_file(place, &[i as u8]).unwrap();
        }
        vfs.create_dir_all(path("/e")).unwrap();
        vfs.sync_dir(path("/")).unwrap();
        for _ in 0..rng.below(12) {
            let from = path(&places[rng.below(12) as usize]);
            let to = path(&places[rng.below(12) as usize]);
            // Only moves to free names, so that no file is ever replaced.
            if vfs.exists(from).unwrap() && !vfs.exists(to).unwrap() {
                vfs.rename(from, to).unwrap();
            } else if rng.below(4) == 0 {
                vfs.sync_dir(from.parent().unwrap()).unwrap();
            }
        }
        for seed in 0..20 {
            let after = vfs.crash(Survival::Some { percent: 50 }, seed);
            let left: Vec<PathBuf> = after.all_files();
            for (i, place) in files.iter().enumerate() {
                let holds = |p: &&PathBuf| after.read_file(p).unwrap() == [i as u8];
                let names: Vec<&PathBuf> = left.iter().filter(holds).collect();
                assert!(!names.is_empty(), "round {round} seed {seed}: file {i} has no name");
                assert!(round % 2 == 1 || names.len() == 1, "round {round} seed {seed}: {names:?}");
                stayed[usize::from(names[0] == place)] += 1;
            }
        }
    }
    assert!(stayed.iter().all(|&n| n > 1_000), "{stayed:?}");
}

#[test]
fn an_atomic_write_is_old_or_new() {
    let vfs = disk();
    write_atomic(&vfs, path("/d/current"), b"old").unwrap();
    let calls = vfs.mutating_calls();
    write_atomic(&vfs.deep_copy(), path("/d/current"), b"new").unwrap();
    let mut seen = [false; 2];
    for k in calls + 1..=calls + 6 {
        for survival in SURVIVALS {
            for seed in 0..20 {
                let vfs = vfs.deep_copy();
                vfs.set_crash_at(k);
                assert!(write_atomic(&vfs, path("/d/current"), b"new").is_err(), "call {k}");
                assert!(vfs.is_off());
                let left = vfs.crash(survival, seed).read_file(path("/d/current")).unwrap();
                assert!(left == b"old" || left == b"new", "call {k} {survival:?} {seed}: {left:?}");
                seen[usize::from(left == b"new")] = true;
            }
        }
    }
    assert_eq!(seen, [true; 2]);
    write_atomic(&vfs, path("/d/current"), b"new").unwrap();
    assert_eq!(vfs.crash(Survival::None, 0).read_file(path("/d/current")).unwrap(), b"new");
}

#[test]
fn linking_and_unlinking_can_leave_both_names() {
    let vfs = disk();
    vfs.write_file(path("/d/a"), b"x").unwrap();
    vfs.link(path("/d/a"), path("/d/b")).unwrap();
    vfs.sync_dir(path("/d")).unwrap();
    vfs.remove(path("/d/a")).unwrap();
    let both = count(&vfs, 50, |v| v.file_names(path("/d")) == ["a", "b"]);
    let one = count(&vfs, 50, |v| v.file_names(path("/d")) == ["b"]);
    assert!(both > 50 && one > 50 && both + one == 200, "{both} {one}");
}

#[test]
fn a_replaced_file_is_old_or_begun_anew() {
    let vfs = disk();
    let old = pattern(2_000);
    vfs.write_file(path("/d/f"), &old).unwrap();
    let mut file = vfs.create(path("/d/f")).unwrap();
    file.append(&[255; 1_000]).unwrap();
    assert_eq!(vfs.crash(Survival::None, 0).read_file(path("/d/f")).unwrap(), old);
    let state = |v: &StrictVfs| v.read_file(path("/d/f")).unwrap();
    assert!(count(&vfs, 50, |v| state(v) == old) > 20);
    assert!(count(&vfs, 50, |v| state(v) != old) > 20);
    assert_eq!(
        count(&vfs, 50, |v| state(v) != old && state(v).iter().any(|&b| b != 0 && b != 255)),
        0,
        "old and new bytes are mixed"
    );
    file.sync().unwrap();
    assert_eq!(state(&vfs.crash(Survival::None, 0)), [255; 1_000]);
}

#[test]
fn overwritten_synced_bytes_come_back() {
    let vfs = disk();
    // Two writers of one file, each with a place of its own: the second overwrites the first.
    let mut first = vfs.create(path("/d/f")).unwrap();
    let mut second = vfs.create(path("/d/f")).unwrap();
    vfs.sync_dir(path("/d")).unwrap();
    first.append(&pattern(2_000)).unwrap();
    first.sync().unwrap();
    second.append(&[255; 700]).unwrap();
    let state = |v: &StrictVfs| v.read_file(path("/d/f")).unwrap();
    assert_eq!(state(&vfs.crash(Survival::None, 0)), pattern(2_000));
    assert_eq!(state(&vfs.crash(Survival::All, 0))[..700], [255; 700]);
    let first_block_only =
        |v: &StrictVfs| state(v)[..512] == [255; 512] && state(v)[512..] == pattern(2_000)[512..];
    assert!(count(&vfs, 50, first_block_only) > 0);
}

#[test]
fn a_hole_is_unsynced_until_the_file_is() {
    let vfs = disk();
    let mut file = vfs.create(path("/d/f")).unwrap();
    file.append(&pattern(12_288)).unwrap();
    file.sync().unwrap();
    vfs.sync_dir(path("/d")).unwrap();
    vfs.punch_hole(path("/d/f"), 4_096, 4_096).unwrap();
    assert_eq!(vfs.total_bytes(), 8_192);
    let lost = vfs.crash(Survival::None, 0);
    assert_eq!(
        (lost.read_file(path("/d/f")).unwrap(), lost.total_bytes()),
        (pattern(12_288), 12_288)
    );
    file.sync().unwrap();
    let kept = vfs.crash(Survival::None, 0);
    assert_eq!(kept.read_file(path("/d/f")).unwrap()[4_096..8_192], [0; 4_096]);
    assert_eq!(kept.total_bytes(), 8_192);
}

#[test]
fn a_log_is_reserved_ahead_until_finished() {
    let vfs = disk();
    let mut log = vfs.create_log(path("/d/l"), 1).unwrap();
    vfs.sync_dir(path("/d")).unwrap();
    log.append(&pattern(70_000)).unwrap();
    log.sync().unwrap();
    assert_eq!(vfs.read_file(path("/d/l")).unwrap().len(), 192 << 10);
    log.finish().unwrap();
    assert_eq!(vfs.read_file(path("/d/l")).unwrap(), pattern(70_000));
    // The cut was not synced.
    let uncut = vfs.crash(Survival::None, 0).read_file(path("/d/l")).unwrap();
    assert_eq!(uncut.len(), 192 << 10);
    assert!(uncut[..70_000] == pattern(70_000) && uncut[70_000..].iter().all(|&b| b == 0));
    let cut = count(&vfs, 50, |v| v.read_file(path("/d/l")).unwrap().len() == 70_000);
    assert!((50..150).contains(&cut), "{cut} of 200");
}

#[test]
fn process_death_makes_nothing_durable() {
    let vfs = disk();
    let _lock = vfs.lock(path("/d/LOCK")).unwrap();
    let mut log = vfs.create_log(path("/d/l"), 0).unwrap();
    log.append(b"unsynced").unwrap();
    let after = vfs.crash(Survival::ProcessDeath, 0);
    assert_eq!(after.read_file(path("/d/l")).unwrap()[..8], *b"unsynced");
    let _lock = after.lock(path("/d/LOCK")).unwrap();
    assert_eq!(after.crash(Survival::None, 0).file_names(path("/d")), [""; 0]);
}

#[test]
fn the_machine_turns_off_at_call_k_and_stays_off() {
    for seed in 0..20 {
        let vfs = disk_with(StrictOptions { seed, ..StrictOptions::default() });
        vfs.set_trace(2);
        let mut file = vfs.create(path("/d/f")).unwrap();
        let calls = vfs.mutating_calls();
        vfs.set_crash_at(calls + 2);
        file.append(b"whole").unwrap();
        assert!(!vfs.is_off());
        let error = file.append(&pattern(1_000)).unwrap_err();
        assert!(error.to_string().contains("the machine is off"), "{error}");
        assert_eq!(vfs.mutating_calls(), calls + 2);
        assert_eq!(
            vfs.trace(),
            [format!("{} append /d/f", calls + 1), format!("{} append /d/f", calls + 2)]
        );
        let part = vfs.read_file(path("/d/f")).unwrap();
        assert!(part.starts_with(b"whole") && part.len() <= 1_005);
        assert!(part[5..] == pattern(1_000)[..part.len() - 5]);
        for refused in [file.append(b"x"), file.sync(), vfs.remove(path("/d/f"))] {
            assert!(matches!(refused, Err(Error::Io { .. })));
        }
        assert!(
            vfs.exists(path("/d/f")).is_err() && vfs.open(path("/d/f"), Access::Random).is_err()
        );
        assert_eq!(vfs.read_file(path("/d/f")).unwrap(), part, "applied once only");
        let after = vfs.crash(Survival::All, 0);
        assert!(after.exists(path("/d/f")).unwrap());
    }
}

#[test]
fn a_full_disk_refuses_and_recovers() {
    for preallocated_logs in [true, false] {
        let vfs = disk_with(StrictOptions { preallocated_logs, ..StrictOptions::default() });
        vfs.set_capacity_bytes(Some(300_000));
        let mut big = vfs.create(path("/d/big")).unwrap();
        big.append(&pattern(200_000)).unwrap();
        assert_eq!(vfs.free_bytes(path("/d")).unwrap(), 100_000);
        let mut log = vfs.create_log(path("/d/log"), 1).unwrap();
        let error = (0..200).find_map(|_| log.append(&pattern(1_000)).err()).unwrap();
        assert!(matches!(error, Error::NoSpace { .. }), "{error}");
        assert!(vfs.total_bytes() <= 300_000);
        assert!(matches!(big.append(&pattern(200_000)), Err(Error::NoSpace { .. })));
        assert_eq!(vfs.free_bytes(path("/d")).unwrap(), 0);
        // Space comes back when the last name and the last handle are gone.
        vfs.remove(path("/d/big")).unwrap();
        assert_eq!(vfs.free_bytes(path("/d")).unwrap(), 0);
        drop(big);
        let free = vfs.free_bytes(path("/d")).unwrap();
        assert!(free >= 200_000, "{free}");
        log.append(&pattern(1_000)).unwrap();
        let total: usize = vfs.all_files().iter().map(|f| vfs.read_file(f).unwrap().len()).sum();
        assert_eq!(total as u64, vfs.total_bytes());
        assert_eq!(vfs.deep_copy().total_bytes(), vfs.total_bytes());
    }
}

#[test]
fn damage_is_done_as_asked() {
    let vfs = disk();
    vfs.write_file(path("/d/f"), &[0; 10]).unwrap();
    vfs.flip_bit(path("/d/f"), 8 * 3 + 2).unwrap();
    vfs.truncate_raw(path("/d/f"), 5).unwrap();
    let copy = vfs.deep_copy();
    vfs.truncate_raw(path("/d/f"), 6).unwrap();
    assert_eq!(vfs.crash(Survival::None, 0).read_file(path("/d/f")).unwrap(), [0, 0, 0, 4, 0, 0]);
    assert_eq!(copy.read_file(path("/d/f")).unwrap(), [0, 0, 0, 4, 0]);
    // Also in what a crash would leave of a file that is being written.
    let mut log = vfs.create_log(path("/d/l"), 0).unwrap();
    log.append(&[0; 600]).unwrap();
    log.sync().unwrap();
    log.append(&[0; 600]).unwrap();
    vfs.sync_dir(path("/d")).unwrap();
    for bit in [0, 8 * 5_000] {
        vfs.flip_bit(path("/d/l"), bit).unwrap();
    }
    for survival in SURVIVALS {
        let left = vfs.crash(survival, 3).read_file(path("/d/l")).unwrap();
        assert_eq!(left[0], 1, "{survival:?}");
    }
}
