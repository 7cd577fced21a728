"""Nanoseconds per call of esker.plyvel beside plyvel, which stands on LevelDB: the same calls on the same data.

    python crates/py/benches/beside_plyvel.py [--keys 200000] [--value-bytes 100] [--rounds 9]

Needs both modules. Rounds of both alternate; the median of the rounds is shown, with the least and the most. The cost
of the loop around the calls is in all of them: what an empty one takes is measured and told in the first line. Data is
compacted, so that gets and iteration read tables in memory.
"""

import argparse
import random
import shutil
import statistics
import tempfile
import time

import plyvel

import esker
import esker.plyvel


def timed(calls, run):
    """Nanoseconds for each of so many calls."""
    start = time.perf_counter_ns()
    run()
    return (time.perf_counter_ns() - start) / calls


class Bench:
    """One module with a store of its own."""

    def __init__(self, name, module, pairs, chosen, directory):
        self.name, self.pairs, self.chosen = name, pairs, chosen
        self.absent = [key + b"-" for key in chosen]
        options = dict(create_if_missing=True, lru_cache_size=256 << 20, write_buffer_size=16 << 20)
        self.db = module.DB(f"{directory}/{name}", bloom_filter_bits=10, **options)
        self.fresh = module.DB(f"{directory}/{name}-puts", **options)
        with self.db.write_batch() as batch:
            for key, value in pairs:
                batch.put(key, value)
        self.db.compact_range()
        for _ in self.db:
            pass

    def get(self):
        get = self.db.get
        for key in self.chosen:
            get(key)

    def get_absent(self):
        get = self.db.get
        for key in self.absent:
            get(key)

    def put(self):
        put = self.fresh.put
        for key, value in self.pairs:
            put(key, value)

    def batch(self):
        with self.fresh.write_batch() as batch:
            put = batch.put
            for key, value in self.pairs:
                put(key, value)

    def iterate(self):
        for _ in self.db:
            pass

    def iterate_keys(self):
        for _ in self.db.iterator(include_value=False):
            pass

    def iterate_reverse(self):
        for _ in self.db.iterator(reverse=True):
            pass

    def short_scan(self):
        iterator = self.db.iterator
        for key in self.chosen[: len(self.chosen) // 10]:
            for _ in zip(range(10), iterator(start=key)):
                pass


WORK = [
    ("get", "a get of a key that is there"),
    ("get_absent", "a get of a key that is not"),
    ("put", "a put"),
    ("batch", "a put in a batch, with its writing"),
    ("iterate", "an entry, forward"),
    ("iterate_keys", "a key alone, forward"),
    ("iterate_reverse", "an entry, in reverse"),
    ("short_scan", "an entry of a scan of ten"),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", help="one row, such as get")
    arguments = parser.parse_args()
    chance = random.Random(1)
    pairs = [(b"%016d" % i, chance.randbytes(arguments.value_bytes)) for i in range(arguments.keys)]
    chance.shuffle(pairs)
    chosen = [key for key, _ in chance.sample(pairs, arguments.keys)]
    directory = tempfile.mkdtemp()
    modules = [("plyvel", plyvel), ("esker", esker.plyvel)]
    try:
        benches = [Bench(name, module, pairs, chosen, directory) for name, module in modules]
        empty = statistics.median(timed(len(chosen), lambda: [None for _ in chosen]) for _ in range(9))
        print(f"{arguments.keys} keys of 16 bytes, values of {arguments.value_bytes}; ns, median of "
              f"{arguments.rounds} rounds (least to most), the loop's {empty:.0f} included")
        print(f"{'':38}{'plyvel':>24}{'esker.plyvel':>24}{'times as fast':>15}")
        for row, what in WORK:
            if arguments.only not in (None, row):
                continue
            taken = {bench.name: [] for bench in benches}
            for round in range(arguments.rounds):
                # Who goes first changes.
                for bench in benches if round % 2 else benches[::-1]:
                    taken[bench.name].append(timed(arguments.keys, getattr(bench, row)))
            medians = {name: statistics.median(times) for name, times in taken.items()}
            cells = [f"{medians[name]:.0f} ({min(taken[name]):.0f} to {max(taken[name]):.0f})" for name in taken]
            print(f"{what:38}{cells[0]:>24}{cells[1]:>24}{medians['plyvel'] / medians['esker']:>15.2f}", flush=True)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
