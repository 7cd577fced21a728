"""The own face: keyspaces, batches, snapshots, scans, upkeep."""

import copy
import errno
import os
import pathlib
import pickle
import subprocess
import sys
import threading

import pytest

import esker
import esker.plyvel


def test_one_key(own):
    assert own.get(b"k") is None and own.get(b"k", 7) == 7
    own.put(b"k", b"v")
    own.put(bytearray(b"s"), memoryview(b"w"), sync=True)
    assert own.get(b"k") == b"v" and own.get(memoryview(b"s")) == b"w"
    own.delete(b"k")
    own.delete(b"s", sync=True)
    assert list(own) == []
    for wrong in ("text", 1, None, [1]):
        with pytest.raises(TypeError):
            own.put(wrong, b"v")
        with pytest.raises(TypeError):
            own.put(b"k", wrong)
    with pytest.raises(TypeError, match="encode text first"):
        own.get("k")


def test_a_range_is_deleted_and_many_keys_are_got(own):
    for i in range(100):
        own.put(b"%02d" % i, b"v%d" % i)
    own.delete_range(b"10", b"90")
    assert len(list(own)) == 20
    snapshot = own.snapshot()
    own.delete_range(b"", b"\xff", sync=True)
    assert own.multi_get([b"05", b"50"]) == [None, None]
    assert own.multi_get((key for key in (b"05", b"50", b"95")), snapshot=snapshot) == [b"v5", None, b"v95"]
    with pytest.raises(TypeError):
        own.multi_get([b"a", "b"])
    with pytest.raises(TypeError):
        own.multi_get(7)


def test_keyspaces_and_batches_across_them(own):
    prices = own.create_keyspace("prices", block_bytes=8192, compression="none")
    assert (own.name, prices.name) == ("default", "prices")
    assert own.keyspace_names() == ["default", "prices"]
    with own.batch(sync=True) as batch:
        batch.put(b"bread", b"2")
        batch.put(b"bread", b"0.89", keyspace=prices)
        batch.put(b"milk", b"1", keyspace=prices)
        batch.delete(b"milk", keyspace=prices)
        batch.put_record(b"oats", {"left": 3})
        assert len(batch) == 5 and batch.size_bytes > 20
    assert len(batch) == 0
    assert own.get(b"bread") == b"2"
    assert own.keyspace("prices").get(b"bread") == b"0.89"
    assert list(prices) == [(b"bread", b"0.89")]
    assert own.get_record(b"oats") == {"left": 3}
    with pytest.raises(KeyError):
        with own.batch() as batch:
            batch.put(b"never", b"")
            raise KeyError
    assert own.get(b"never") is None
    batch.delete_range(b"a", b"z", keyspace=prices)
    batch.write()
    assert list(prices) == [] and own.get(b"bread") == b"2"
    own.drop_keyspace("prices")
    with pytest.raises(esker.InvalidArgumentError, match="dropped"):
        prices.get(b"bread")
    with pytest.raises(esker.InvalidArgumentError, match="prices"):
        own.keyspace("prices")


def test_a_keyspace_of_another_database_is_refused(own, tmp_path):
    with esker.open(tmp_path / "other") as other:
        with pytest.raises(esker.InvalidArgumentError, match="another database"):
            own.batch().put(b"k", b"v", keyspace=other)
        with pytest.raises(esker.InvalidArgumentError, match="snapshot"):
            own.get(b"k", snapshot=other.snapshot())


def test_snapshots(own):
    own.put(b"a", b"1")
    with own.snapshot() as snapshot:
        own.put(b"a", b"2")
        own.put(b"b", b"2")
        assert own.get(b"a", snapshot=snapshot) == b"1"
        assert own.get(b"b", 7, snapshot=snapshot) == 7
        assert list(own.scan(snapshot=snapshot)) == [(b"a", b"1")]
        assert snapshot.seq == 1
    for call in (lambda: own.get(b"a", snapshot=snapshot), lambda: snapshot.seq):
        with pytest.raises(esker.ClosedError):
            call()


def test_a_key_is_in_a_store_or_not(own):
    own.put(b"a", b"1")
    people = own.create_keyspace("people")
    people.put(b"", b"nobody")
    assert b"a" in own and bytearray(b"a") in own and b"b" not in own
    assert b"" in people and b"a" not in people
    with pytest.raises(TypeError):
        "a" in own


def test_scans(own):
    for i in range(1000):
        own.put(b"%03d" % i, b"v%d" % i)
    keys = lambda *bounds, **how: list(own.scan(*bounds, keys_only=True, **how))
    assert keys() == [b"%03d" % i for i in range(1000)]
    assert keys(reverse=True) == keys()[::-1]
    assert keys(b"990") == [b"%03d" % i for i in range(990, 1000)]
    assert keys(None, b"003") == keys(end=b"003") == [b"000", b"001", b"002"]
    assert keys(b"100", b"102", reverse=True) == [b"101", b"100"]
    assert keys(prefix=b"99") == keys(b"990", fill_cache=False)
    assert list(own.scan(b"005", b"006")) == [(b"005", b"v5")]
    scan = own.scan(keys_only=True)
    scan.seek(b"500")
    assert next(scan) == b"500"
    back = own.scan(keys_only=True, reverse=True)
    back.seek(b"500")
    assert next(back) == b"499"
    assert sorted(own.scan_unordered(prefix=b"99")) == list(own.scan(prefix=b"99"))
    assert sorted(own.scan_unordered(keys_only=True)) == keys()
    with pytest.raises(esker.InvalidArgumentError, match="ends before it starts"):
        own.scan(b"b", b"a")
    with pytest.raises(esker.InvalidArgumentError, match="prefix"):
        own.scan(b"a", prefix=b"b")
    with own.scan() as scan:
        next(scan)
    with pytest.raises(esker.ClosedError):
        next(scan)


def test_values_that_are_kept_apart_are_scanned_in_either_way(tmp_path):
    with esker.open(tmp_path / "store", preset="large_values", memtable_bytes=1 << 20) as db:
        values = {b"%04d" % i: os.urandom(3000) for i in range(1000)}
        for key, value in values.items():
            db.put(key, value)
        db.flush()
        assert dict(db.scan_unordered(memory_bytes=1 << 20)) == values
        assert dict(db) == values


def test_options_by_name(tmp_path):
    options = esker.options("edge")
    assert options["memory_budget_bytes"] == 16 << 20 and options["memtable_bytes"] == 2 << 20
    with esker.open(
        tmp_path / "store",
        preset="edge",
        compression=["none", "zstd:7"],
        filter="bloom:14",
        scheduler="time-slice:8000",
        compaction="tiered",
        value_log_bytes_min=None,
        tombstone_ratio_compact=0.25,
    ) as db:
        assert db.stats()["memory"]["budget"] == 16 << 20
        with pytest.raises(esker.InvalidArgumentError, match="block_bytes = 1 is outside"):
            db.create_keyspace("small", block_bytes=1)
        with pytest.raises(esker.InvalidArgumentError, match="use one of"):
            db.create_keyspace("small", memory_budget_bytes=1)
        db.create_keyspace("other").put(b"k", b"v")
    with esker.open(tmp_path / "store", keyspaces={"other": {"filter": "none"}}) as db:
        assert db.keyspace("other").get(b"k") == b"v"
    with pytest.raises(esker.InvalidArgumentError, match='"othre", which is not there; there are default, other'):
        esker.open(tmp_path / "store", keyspaces={"othre": {"filter": "none"}})
    esker.open(tmp_path / "store").close()
    with pytest.raises(esker.InvalidArgumentError, match="there are default:"):
        esker.open(tmp_path / "new", keyspaces={"other": {"filter": "none"}})
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "wrong, text",
    [
        (dict(speed=9), "no option 'speed': use one of .*block_cache_bytes.*memtable_bytes"),
        (dict(block_bytes=1), "block_bytes = 1 is outside 512 to 1048576"),
        (dict(block_bytes=-5), "option block_bytes = -5"),
        (dict(block_bytes="big"), "option block_bytes = 'big'"),
        (dict(compression="rar"), "option compression = 'rar'"),
        (dict(filter="bloom:many"), "option filter"),
        (dict(scheduler="time-slice:0"), "slice_ms = 0"),
        (dict(create_if_missing=7), "option create_if_missing"),
        (dict(preset="fast"), "no preset \"fast\": use default"),
        (dict(keyspaces=7), "option keyspaces"),
        (dict(keyspaces={"a": {"speed": 1}}), "no option 'speed'"),
        (dict(default_keyspace={}), "no option 'default_keyspace'"),
        (dict(block_cache_bytes=float("nan")), "option block_cache_bytes = nan: give a number"),
        (dict(value_log_bytes_min=float("inf")), "option value_log_bytes_min = inf: give a number"),
        (dict(block_bytes=object()), "option block_bytes cannot be a 'object'"),
        (dict(keyspaces={"a": {"block_bytes": [{"b": object()}]}}), "option block_bytes cannot be a 'object'"),
    ],
)
def test_a_wrong_option_is_named(tmp_path, wrong, text):
    with pytest.raises((esker.InvalidArgumentError, TypeError), match=text.replace("'", "[\"']")):
        esker.open(tmp_path / "store", **wrong)
    assert not (tmp_path / "store").exists()


def test_errors_say_what_to_do(tmp_path):
    store = tmp_path / "store"
    with pytest.raises(esker.NotFoundError, match="create_if_missing=True") as raised:
        esker.open(store, create_if_missing=False)
    assert isinstance(raised.value, FileNotFoundError)
    assert raised.value.errno == errno.ENOENT and raised.value.filename == store
    with esker.open(store) as db:
        db.put(b"k", b"v")
        with pytest.raises(esker.BusyError, match="close it there first"):
            esker.open(store)
        with pytest.raises(esker.InvalidArgumentError, match="longer than 1 MiB"):
            db.put(b"k" * ((1 << 20) + 1), b"")
    with pytest.raises(esker.ClosedError, match="closed: open it again") as raised:
        db.get(b"k")
    assert isinstance(raised.value, RuntimeError)
    with esker.open(store, read_only=True) as db:
        assert db.get(b"k") == b"v"
        with pytest.raises(esker.ReadOnlyError, match="open it for writing"):
            db.put(b"k", b"w")
    with pytest.raises(esker.IncompatibleError):
        esker.open(store, comparator=lambda a, b: (a > b) - (a < b), comparator_name=b"other")
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(esker.IoError) as raised:
        esker.open(tmp_path / "file" / "store")
    assert raised.value.errno == errno.ENOTDIR and isinstance(raised.value, OSError)
    assert "stat failed on" in str(raised.value) and str(tmp_path / "file") in str(raised.value)
    for name in ("CURRENT",):
        (store / name).write_bytes(b"damaged")
    with pytest.raises(esker.CorruptionError, match="repair"):
        esker.open(store)


@pytest.mark.parametrize("kind", [esker.IoError, esker.NoSpaceError, esker.NotFoundError, esker.CorruptionError])
def test_errors_are_the_same_in_another_process(kind):
    error = kind("what was done: mend it")
    if isinstance(error, OSError):
        error.errno, error.filename = errno.ENOSPC, "store/000007.tbl"
    for copied in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (type(copied), str(copied)) == (kind, str(error))
        if isinstance(error, OSError):
            assert (copied.errno, copied.filename) == (errno.ENOSPC, "store/000007.tbl")


def test_repair_says_what_it_did(tmp_path):
    store = tmp_path / "store"
    with esker.open(store) as db:
        for i in range(1000):
            db.put(b"%04d" % i, os.urandom(100))
        db.flush()
    (store / "CURRENT").unlink()
    told = []
    report = esker.repair(store, progress=told.append)
    assert report["is_complete"] and report["files"] and report["bytes_lost"] == 0
    assert told and told[-1]["files"] == told[-1]["files_total"]
    with esker.open(store) as db:
        assert len(list(db)) == 1000
    with pytest.raises(esker.NotFoundError):
        esker.repair(tmp_path / "nothing")


def test_what_progress_raises_ends_the_work(tmp_path):
    store = tmp_path / "store"
    with esker.open(store, memtable_bytes=64 << 10) as db:
        for i in range(2000):
            db.put(b"%04d" % i, os.urandom(100))
        db.flush()

        def stop(progress):
            raise LookupError(progress["files_total"])

        with pytest.raises(LookupError):
            db.verify(progress=stop)
        told = []
        report = db.verify(progress=told.append)
        assert report["damage"] == [] and report["entries"] >= 2000
        assert report["files"] == told[-1]["files"]
    with pytest.raises(LookupError):
        esker.repair(store, progress=stop)
    with esker.open(store) as db:
        assert len(list(db)) == 2000


def test_damage_is_listed(tmp_path):
    store = tmp_path / "store"
    with esker.open(store) as db:
        for i in range(1000):
            db.put(b"%04d" % i, os.urandom(100))
        db.flush()
        table = next(store.glob("*.tbl"))
        bytes = bytearray(table.read_bytes())
        bytes[len(bytes) // 2] ^= 1
        table.write_bytes(bytes)
        (damage,) = db.verify()["damage"]
        assert damage["path"].endswith(table.name) and "corruption" in damage["error"]


def test_upkeep(own, tmp_path):
    for i in range(2000):
        own.put(b"%04d" % i, os.urandom(100))
    own.sync()
    assert own.levels() == [] or own.levels()[0]["tables"] == 0
    own.flush()
    own.compact()
    own.compact(b"0", b"1")
    own.wait_idle()
    assert sum(level["tables"] for level in own.levels()) > 0
    assert own.approximate_size() > 200_000 > own.approximate_size(b"0000", b"0100") > 0
    stats = own.stats()
    assert stats["writes"]["operations"] == 2000 and stats["keyspaces"][0]["name"] == "default"
    assert stats["keyspaces"][0]["levels"] == own.levels()
    own.checkpoint(tmp_path / "copy")
    with pytest.raises(esker.InvalidArgumentError):
        own.checkpoint(tmp_path / "copy")
    with esker.open(os.fsencode(tmp_path / "copy")) as copy:
        assert list(copy) == list(own)
        assert copy.path == os.fsencode(tmp_path / "copy")


def test_everything_is_closed_with_the_database(own):
    own.put_record(b"k", {"f": 1})
    own.create_index("f")
    own.wait_indexes()
    other = own.create_keyspace("other")
    scan, results, found = own.scan(), own.scan_unordered(), own.find("f", 1)
    batch, snapshot = own.batch(), own.snapshot()
    own.close()
    own.close()
    assert own.closed
    calls = [
        lambda: own.get(b"k"),
        lambda: own.put(b"k", b"v"),
        lambda: own.create_keyspace("more"),
        lambda: other.get(b"k"),
        lambda: other.name,
        lambda: next(scan),
        lambda: scan.seek(b"k"),
        lambda: next(results),
        lambda: next(found),
        lambda: batch.put(b"k", b"v"),
        lambda: snapshot.seq,
        batch.write,
        own.snapshot,
        own.batch,
        own.flush,
        own.compact,
        own.verify,
        own.stats,
        own.levels,
        own.indexes,
        own.scan,
        own.sync,
    ]
    for call in calls:
        with pytest.raises(esker.ClosedError):
            call()
    assert "closed" in repr(own) and "closed" in repr(other)


def test_a_store_is_closed_under_threads_that_use_it(tmp_path):
    db = esker.open(tmp_path / "store")
    for i in range(1000):
        db.put(b"%04d" % i, b"x" * 100)
    ends = []

    def work():
        try:
            while True:
                db.put(b"k", b"v")
                db.get(b"0500")
                list(db.scan(b"0100", b"0200"))
        except esker.Error as error:
            ends.append(type(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    while db.stats()["writes"]["operations"] < 3000:
        pass
    db.close()
    for thread in threads:
        thread.join()
    assert len(ends) == 4 and set(ends) <= {esker.ClosedError, esker.CancelledError}


def test_a_store_is_closed_while_garbage_is_collected(tmp_path):
    script = """
import esker, gc, sys

class Owner:
    def __init__(self, path):
        self.me = self
        self.db = esker.open(path)

    def __del__(self):
        self.db.close()

owner = Owner(sys.argv[1])
for i in range(5000):
    owner.db.put(b"%04d" % i, b"v")
scan, kept = owner.db.scan(), []
gc.set_threshold(5)
del owner
try:
    for pair in scan:
        kept.append(pair)
except esker.ClosedError:
    print("closed")
"""
    ended = run(script, tmp_path / "store")
    assert (ended.returncode, ended.stdout.strip()) == (0, "closed"), ended.stderr


def test_one_scan_under_many_threads_gives_no_nonsense(own):
    expected = {(b"%05d" % i, b"v%d" % i) for i in range(5000)}
    for key, value in expected:
        own.put(key, value)
    scan, seen = own.scan(), []

    def take():
        seen.extend(scan)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) <= expected


def run(script, *arguments):
    """Runs a script in a process of its own."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_functions_that_end_the_process_may_use_stores_if_they_were_registered_after_the_import(tmp_path):
    script = """
import atexit, sys

def before():
    try:
        db.put(b"too late", b"")
    except RuntimeError as error:
        print("closed" if "closed" in str(error) else error)

def after():
    db.put(b"last", b"%d" % len(list(db)))

atexit.register(before)
import esker
atexit.register(after)
db = esker.open(sys.argv[1])
db.put(b"first", b"")
"""
    ended = run(script, tmp_path / "store")
    assert (ended.returncode, ended.stdout.strip(), ended.stderr) == (0, "closed", "")
    with esker.open(tmp_path / "store") as db:
        assert list(db) == [(b"first", b""), (b"last", b"1")]


FORKS = """
import os, signal, sys, threading, esker, esker.plyvel

OTHER = "opened by another process"

def refused(call):
    try:
        call()
    except RuntimeError as error:
        assert OTHER in str(error), error
    else:
        raise AssertionError("not refused")

def child(how):
    \"\"\"A child that does this with what it has inherited, and ends as programs end.\"\"\"
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        how()
        sys.exit(0)
    return pid

def ended(pid):
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0 if hasattr(os, "waitstatus_to_exitcode") else not os.waitpid(pid, 0)[1]

own = esker.open(sys.argv[1] + "/own", memtable_bytes=64 << 10)
old = esker.plyvel.DB(sys.argv[1] + "/old", create_if_missing=True)
other = own.create_keyspace("other")
written = 0

def write(count):
    global written
    for i in range(written, written + count):
        for place in (own, other, old):
            place.put(b"%06d" % i, b"v" * 100)
    written += count

write(1000)
scan, snapshot, batch, results = own.scan(), own.snapshot(), own.batch(), own.scan_unordered()
iterator, raw, moment = old.iterator(), old.raw_iterator(), old.snapshot()
next(scan), next(iterator), raw.seek_to_first()
batch.put(b"child", b"")

def uses():
    for place in (own, other, old):
        refused(lambda: place.put(b"child", b""))
        refused(lambda: place.get(b"000000"))
        refused(lambda: iter(place))
    for call in (own.sync, own.stats, own.flush, batch.write, own.snapshot, raw.next, raw.valid, raw.key):
        refused(call)
    for walk in (scan, results, iterator):
        refused(lambda: next(walk))
    refused(lambda: snapshot.seq)
    refused(lambda: moment.get(b"000000"))

def closes():
    refused(own.close)
    refused(old.close)
    for place in (scan, snapshot, results, iterator, raw, moment):
        place.close()

def drops():
    global own, old, other, scan, snapshot, batch, results, iterator, raw, moment
    del own, old, other, scan, snapshot, batch, results, iterator, raw, moment

def opens():
    try:
        esker.open(sys.argv[1] + "/own")
    except esker.BusyError:
        pass
    with esker.open(sys.argv[1] + "/of the child") as mine:
        mine.put(b"k", b"v")
        assert list(mine) == [(b"k", b"v")]

for how in (lambda: None, uses, closes, drops, opens, lambda: (uses(), opens(), drops())):
    ended(child(how))
    write(50)

# Whatever another thread is in the middle of.
stop = []
def busy():
    while not stop:
        write(10)
thread = threading.Thread(target=busy)
thread.start()
for _ in range(20):
    ended(child(lambda: (uses(), closes(), drops())))
stop.append(True)
thread.join()

# A child that lives on keeps no store from its parent.
reader, writer = os.pipe()
def waits():
    os.close(writer)
    os.read(reader, 1)
living = child(waits)
for place in (scan, snapshot, results, iterator, raw, moment, own, old):
    place.close()
own, old = esker.open(sys.argv[1] + "/own"), esker.plyvel.DB(sys.argv[1] + "/old")
os.close(writer)
ended(living)
expected = [b"%06d" % i for i in range(written)]
for place in (own, own.keyspace("other"), old):
    assert [key for key, _ in place] == expected
assert own.verify()["damage"] == []
print("whole")
"""


def test_children_leave_the_stores_of_their_parent_alone(tmp_path):
    ended = run(FORKS, tmp_path)
    assert (ended.returncode, ended.stdout.strip()) == (0, "whole"), ended.stderr


def test_the_process_ends_with_stores_left_open(tmp_path):
    script = """
import esker, sys
db = esker.open(sys.argv[1], comparator=lambda a, b: (a > b) - (a < b), comparator_name=b"plain", memtable_bytes=64 << 10)
for i in range(3000):
    db.put(b"%05d" % (i * 7919 % 3000), b"x" * 100)
it = db.scan()
next(it)
"""
    ended = run(script, tmp_path / "store")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_a_store_of_which_a_keyspace_is_left_is_closed_with_the_process(tmp_path):
    script = """
import esker, gc, sys
gc.disable()

class Ring:
    pass

ring = Ring()
ring.itself = ring
db = esker.open(sys.argv[1], durability="external", groups="delimiter:/")
batch = db.batch()
batch.put(b"1/key", b"value")
db.apply(batch, b"1/", 7)
ring.people = db.create_keyspace("people")
del batch, db, ring
"""
    ended = run(script, tmp_path / "store")
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
    with esker.open(tmp_path / "store", durability="external", groups="delimiter:/") as db:
        assert db.group(b"1/")["persisted"] == 7


@pytest.mark.parametrize("call", ["compact", "verify"])
def test_a_long_call_ends_early_when_it_is_interrupted(tmp_path, call):
    script = f"""
import _thread, ctypes, esker, signal, sys, threading, time
# A shell may have started this in the background, where interrupts are ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Compares keys slowly, and without the interpreter, which would see the interrupt by itself.
strcmp = ctypes.CDLL(None).strcmp
strcmp.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
order = dict(comparator=strcmp, comparator_name=b"strcmp") if "{call}" == "verify" else {{}}
db = esker.open(sys.argv[1], compression="zstd:12", table_bytes_max=16 << 10, **order)

def started():
    with db.batch() as batch:
        for i in range(150_000):
            batch.put_record(b"%06d" % i, {{"f": i % 7}})
    db.compact() if order else None
    return time.monotonic()

start = started()
db.{call}()
whole = time.monotonic() - start
start = started()
threading.Timer(whole / 8, _thread.interrupt_main).start()
try:
    db.{call}()
    print("not interrupted")
except KeyboardInterrupt:
    took = time.monotonic() - start
    print("early" if took < 0.75 * whole else f"late: {{took}} of {{whole}}", len(db.get(b"000001")) > 0)
"""
    ended = run(script, tmp_path / "store")
    assert (ended.returncode, ended.stdout.strip()) == (0, "early True"), ended.stderr


def test_a_scan_that_c_code_consumes_ends_when_it_is_interrupted(tmp_path):
    script = """
import _thread, collections, esker, itertools, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)
db = esker.open(sys.argv[1])
with db.batch() as batch:
    for i in range(100_000):
        batch.put(b"%06d" % i, b"value")

def consume():
    start = time.monotonic()
    # Nothing of it is Python's own code, which would look at signals.
    scans = [db.scan() for _ in range(20)]
    try:
        collections.deque(itertools.chain.from_iterable(scans), 0)
        return False, time.monotonic() - start
    except KeyboardInterrupt:
        return True, time.monotonic() - start

_, whole = consume()
threading.Timer(whole / 8, _thread.interrupt_main).start()
interrupted, took = consume()
print(interrupted, "early" if took < 0.75 * whole else f"late: {took} of {whole}")
"""
    ended = run(script, tmp_path / "store")
    assert (ended.returncode, ended.stdout.strip()) == (0, "True early"), ended.stderr


def test_names_have_docstrings():
    for place in (esker, esker.plyvel):
        for name in place.__all__:
            value = getattr(place, name)
            if not name.startswith("__"):
                assert value.__doc__, name
            if isinstance(value, type):
                for method in vars(value):
                    if not method.startswith("_"):
                        assert getattr(value, method).__doc__, f"{name}.{method}"


def test_the_package_stands_where_it_was_installed():
    assert (pathlib.Path(esker.__file__).parent / "py.typed").exists()
    assert esker.Scan[bytes] == esker.Scan[bytes] != esker.Results[bytes]
