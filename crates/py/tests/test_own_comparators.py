"""Orders of keys that are functions."""

import gc
import os
import signal
import subprocess
import sys
import threading
import weakref

import pytest

import esker
import esker.plyvel


def test_an_interrupt_while_keys_are_compared_ends_what_reports_its_progress(tmp_path):
    interrupted = []

    def compare(a, b):
        if interrupted == ["now"]:
            interrupted.append("done")
            raise KeyboardInterrupt
        return (a > b) - (a < b)

    order = dict(comparator=compare, comparator_name=b"plain")
    with esker.open(tmp_path / "store", table_bytes_max=16 << 10, **order) as db:
        for i in range(3000):
            db.put(b"%04d" % i, os.urandom(50))
        db.compact()
        told = []
        db.verify(progress=told.append)
        interrupted, files = ["now"], len(told)
        told.clear()
        with pytest.raises(KeyboardInterrupt):
            db.verify(progress=told.append)
        assert interrupted == ["now", "done"]
        assert len(told) < files
        assert db.verify()["entries"] >= 3000


def test_a_comparator_that_fails_raises_and_stops_writes_alone(tmp_path, monkeypatch):
    fails, printed, told = False, [], []

    def compare(a, b):
        if fails:
            raise LookupError("compare")
        return (a > b) - (a < b)

    def hook(said):
        printed.append(said.exc_type)
        for call in (lambda: db.get(b"25"), db.close):
            try:
                call()
            except BaseException as error:
                told.append(error)

    order = dict(comparator=compare, comparator_name=b"plain")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "unraisablehook", hook)
        db = esker.open(tmp_path / "store", **order)
        for i in range(50):
            db.put(b"%02d" % i, b"v")
        db.flush()
        fails = True
        for call in (lambda: db.get(b"25"), lambda: list(db.scan(b"10", b"20"))):
            with pytest.raises(LookupError, match="compare"):
                call()
        # Nothing was changed by that.
        fails = False
        for i in range(50, 60):
            db.put(b"%02d" % i, b"v")
        fails = True
        # Where work in the background fails, nothing more is written until the store is opened again.
        with pytest.raises(esker.PoisonedError, match="the comparator failed"):
            db.flush()
        fails = False
        assert printed == [LookupError]
        # Whoever is told of it is not to use the store there: its own thread tells.
        assert len(told) == 2 and all(type(error) is RuntimeError for error in told)
        assert all("do it elsewhere" in str(error) for error in told)
        with pytest.raises(esker.PoisonedError, match="open it again"):
            db.put(b"99", b"w")
        assert db.get(b"25") == b"v"
        with pytest.raises(esker.PoisonedError):
            db.close()
    with esker.open(tmp_path / "store", **order) as db:
        assert list(db) == [(b"%02d" % i, b"v") for i in range(60)]


def test_bounds_outlive_a_comparator_that_raises_over_what_was_not_flushed(tmp_path):
    fails = False

    def compare(a, b):
        if fails:
            raise LookupError("compare")
        return (a > b) - (a < b)

    order = dict(comparator=compare, comparator_name=b"plain")
    with esker.plyvel.DB(str(tmp_path / "store"), create_if_missing=True, **order) as db:
        for i in range(50):
            db.put(b"%02d" % i, b"v")
        for bounds, reverse in [(dict(start=b"10", stop=b"20"), way) for way in (False, True)]:
            it = db.iterator(include_value=False, reverse=reverse, **bounds)
            fails = True
            with pytest.raises(LookupError, match="compare"):
                next(it)
            fails = False
            it.seek_to_stop() if reverse else it.seek_to_start()
            keys = [b"%02d" % i for i in range(10, 20)]
            assert list(it) == (keys[::-1] if reverse else keys)


def test_what_a_comparator_fails_in_the_middle_of_gives_nothing_more(tmp_path):
    fails_in = None

    def compare(a, b):
        nonlocal fails_in
        if fails_in is not None and threading.current_thread() is threading.main_thread():
            fails_in -= 1
            if fails_in < 0:
                raise LookupError("compare")
        return (a > b) - (a < b)

    order = dict(comparator=compare, comparator_name=b"plain")
    path = str(tmp_path / "store")
    # Runs that overlap: every step compares.
    with esker.open(path, level0_runs_compact=20, **order) as db:
        for run in range(4):
            for i in range(run, 400, 4):
                db.put(b"%03d" % i, b"v")
            db.flush()
    keys = [b"%03d" % i for i in range(400)]
    raised = 0
    for allowed in range(0, 300, 7):
        with esker.plyvel.DB(path, **order) as db, db.raw_iterator() as it:
            it.seek_to_first()
            fails_in, seen = allowed, []
            try:
                while it.valid():
                    seen.append(it.key())
                    it.next()
            except LookupError:
                raised += 1
                # What it had read before, and then nothing.
                fails_in = None
                while it.valid():
                    seen.append(it.key())
                    it.next()
            fails_in = None
            assert seen == keys[: len(seen)]
            it.seek(b"200")
            assert it.key() == b"200"
        with esker.open(path, **order) as db:
            results, seen = iter(db.scan_unordered()), []
            fails_in = allowed
            for _ in range(2):
                try:
                    seen.extend(key for key, _ in results)
                except LookupError:
                    raised += 1
                fails_in = None
            assert seen == keys[: len(seen)]
    assert raised > 20


def test_an_interrupt_inside_of_a_comparator_waits_for_the_end_of_the_call(tmp_path):
    interrupts = 0

    def compare(a, b):
        nonlocal interrupts
        if interrupts:
            interrupts -= 1
            raise KeyboardInterrupt
        return (a > b) - (a < b)

    with esker.open(tmp_path / "store", comparator=compare, comparator_name=b"plain") as db:
        for i in range(50):
            db.put(b"%02d" % i, b"v")
        db.flush()
        interrupts = 2
        with pytest.raises(KeyboardInterrupt):
            db.get(b"25")
        assert interrupts == 0
        assert db.get(b"25") == b"v"
        db.put(b"26", b"w")
        assert db.get(b"26") == b"w"


def test_an_entry_whose_step_is_interrupted_is_given_by_the_next(tmp_path):
    countdown = -1

    def compare(a, b):
        nonlocal countdown
        countdown -= 1
        if countdown == 0:
            raise KeyboardInterrupt
        return (a > b) - (a < b)

    order = dict(comparator=compare, comparator_name=b"plain")
    with esker.plyvel.DB(str(tmp_path / "store"), create_if_missing=True, **order) as db:
        for i in range(40):
            db.put(b"%02d" % i, b"v")
    keys = [b"%02d" % i for i in range(40)]

    def walked(make):
        nonlocal countdown
        interrupts = 0
        for begin in range(1, 60):
            countdown, steps, given = -1, make(), []
            countdown = begin
            while True:
                try:
                    given.append(next(steps))
                except KeyboardInterrupt:
                    interrupts += 1
                except StopIteration:
                    break
            countdown = -1
            steps.close()
            yield given
        assert interrupts > 5

    def each_is(make, expected):
        for given in walked(make):
            assert given == expected

    with esker.open(tmp_path / "store", **order) as db:
        each_is(lambda: db.scan(keys_only=True), keys)
        each_is(lambda: db.scan(keys_only=True, reverse=True), keys[::-1])
        each_is(lambda: db.scan_unordered(keys_only=True), keys)
    with esker.plyvel.DB(str(tmp_path / "store"), **order) as db:
        each_is(lambda: db.iterator(include_value=False), keys)


def test_repair_knows_the_order_of_all_keyspaces(tmp_path):
    order = dict(comparator=lambda a, b: (a < b) - (a > b), comparator_name=b"backwards")
    with esker.open(tmp_path / "store", **order) as db:
        other = db.create_keyspace("other")
        for i in range(1000):
            other.put(b"%04d" % i, b"v")
        db.flush()
    (tmp_path / "store" / "CURRENT").unlink()
    keyspaces = {"other": {"memtable_bytes": 1 << 20}}
    assert esker.repair(tmp_path / "store", keyspaces=keyspaces, **order)["is_complete"]
    with esker.open(tmp_path / "store", keyspaces=keyspaces, **order) as db:
        assert list(db.keyspace("other")) == [(b"%04d" % i, b"v") for i in reversed(range(1000))]


@pytest.mark.parametrize("outer", ["get", "next", "seek", "delete_range"])
@pytest.mark.parametrize("inner", ["get", "put", "next", "close it", "compact", "close"])
@pytest.mark.parametrize("by_signal", [False, True])
def test_a_comparator_that_uses_its_store_is_refused(tmp_path, outer, inner, by_signal):
    used = False

    def compare(a, b):
        nonlocal used
        if used:
            # Once: a signal comes once.
            used = not by_signal
            if by_signal:
                signal.raise_signal(signal.SIGUSR1)
            else:
                calls[inner]()
        return (a > b) - (a < b)

    order = dict(comparator=compare, comparator_name=b"plain")
    db = esker.open(tmp_path / "store", **order)
    calls = {
        "get": lambda: db.get(b"20"),
        "put": lambda: db.put(b"20", b"w"),
        "next": lambda: next(it),
        "close it": lambda: it.close(),
        "seek": lambda: it.seek(b"30"),
        "delete_range": lambda: db.delete_range(b"x", b"z"),
        "compact": db.compact,
        "close": db.close,
    }
    before = signal.signal(signal.SIGUSR1, lambda *_: calls[inner]())
    try:
        for i in range(50):
            db.put(b"%02d" % i, b"v")
        it = db.scan(b"10", b"40")
        if outer == "delete_range":
            # With the next one there are so many that they are put in order.
            for _ in range(31):
                db.delete_range(b"w", b"y")
        used = True
        with pytest.raises(RuntimeError, match="a comparator, or what interrupts it"):
            calls["get" if outer == "get" else outer]()
        assert used != by_signal
        used = False
        # That failed as any comparator may; where it was a handler of a signal, the call was made to its end.
        assert db.get(b"25") == b"v"
        if by_signal:
            db.put(b"25", b"v")
        it = None
        if by_signal or outer != "delete_range":
            db.close()
        else:
            with pytest.raises(esker.PoisonedError):
                db.close()
    finally:
        signal.signal(signal.SIGUSR1, before)
    with esker.open(tmp_path / "store", **order) as db:
        assert list(db) == [(b"%02d" % i, b"v") for i in range(50)]


def test_a_store_that_is_collected_inside_of_its_comparator_is_closed(tmp_path):
    """On a thread of the store, which closing it waits for."""
    script = """
import esker, gc, sys, threading

class Loop:
    pass

def compare(a, b):
    if threading.current_thread() is not threading.main_thread() and loops:
        gone.wait()
        loops.clear()
        gc.collect()
        dropped.set()
    return (a > b) - (a < b)

gc.disable()
gone, dropped, loops = threading.Event(), threading.Event(), []
db = esker.open(sys.argv[1], comparator=compare, comparator_name=b"plain", memtable_bytes=64 << 10)
loop = Loop()
loop.db, loop.loop = db, loop
loops.append(loop)
# More than a memtable: the rest is flushed behind its back.
for i in range(2000):
    db.put(b"%04d" % i, b"v" * 40)
del db, loop
gone.set()
assert dropped.wait(60)
for _ in range(300):
    try:
        with esker.open(sys.argv[1], comparator=lambda a, b: (a > b) - (a < b), comparator_name=b"plain") as db:
            print(len(list(db)))
        break
    except esker.BusyError:
        dropped.clear()
        dropped.wait(0.1)
"""
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "store")], capture_output=True, text=True, timeout=120
    )
    assert (run.stdout.strip(), run.returncode) == ("2000", 0), run.stderr


def test_a_comparator_may_use_another_store(tmp_path):
    with esker.open(tmp_path / "weights") as weights:
        for i in range(10):
            weights.put(b"%d" % i, b"%d" % (i * 7 % 10))

        def compare(a, b):
            a, b = (int(weights.get(key)) for key in (a, b))
            return a - b

        with esker.open(tmp_path / "store", comparator=compare, comparator_name=b"by weight") as db:
            for i in range(10):
                db.put(b"%d" % i, b"v")
            keys = [key for key, _ in db]
            assert keys == sorted(keys, key=lambda key: int(key) * 7 % 10)


@pytest.mark.parametrize("prefix", [b"a", b"\xff"])
def test_a_prefix_that_is_no_range_in_the_order_raises(tmp_path, prefix):
    order = dict(comparator=lambda a, b: (a < b) - (a > b), comparator_name=b"backwards")
    no_range = "no range in the order of this comparator: give a start and an end"
    with esker.plyvel.DB(str(tmp_path / "store"), create_if_missing=True, **order) as db:
        below = db.prefixed_db(prefix)
        for key in (b"", b"1", b"2"):
            below.put(key, key)
        for key in (b"", b"Z", b"zz"):
            db.put(key, b"other")
        assert below.get(b"1") == b"1"
        for make in (below.iterator, below.raw_iterator, below.snapshot().iterator, lambda: db.iterator(prefix=prefix)):
            with pytest.raises(esker.plyvel.Error, match=no_range):
                make()
        for bounds in (dict(start=b"1"), dict(stop=b"1"), dict(prefix=b"1")):
            with pytest.raises(esker.plyvel.Error, match=no_range):
                below.iterator(**bounds)
        both = below.iterator(start=b"2", stop=b"", include_stop=True)
        assert list(both) == [(b"2", b"2"), (b"1", b"1"), (b"", b"")]
        assert len(list(db.iterator(prefix=b""))) == 6
    with esker.open(tmp_path / "store", **order) as db:
        for scan in (db.scan, db.scan_unordered):
            with pytest.raises(esker.InvalidArgumentError, match=no_range):
                scan(prefix=prefix)
            assert len(list(scan(prefix=b""))) == 6


def test_a_key_of_another_prefix_within_a_range_raises(tmp_path):
    def compare(a, b):
        # The empty key stands in the middle of those with "a".
        a, b = (key or b"ab" for key in (a, b))
        return (a > b) - (a < b)

    order = dict(comparator=compare, comparator_name=b"astray")
    with esker.plyvel.DB(str(tmp_path / "store"), create_if_missing=True, **order) as db:
        for key in (b"aa", b"", b"ac", b"b"):
            db.put(key, key)
        below = db.prefixed_db(b"a")
        for reverse, first in ((False, b"a"), (True, b"c")):
            it = below.iterator(include_value=False, reverse=reverse)
            assert next(it) == first
            with pytest.raises(esker.plyvel.Error, match="no range"):
                next(it)
        raw = below.raw_iterator()
        raw.seek_to_first()
        with pytest.raises(esker.plyvel.Error, match="no range"):
            raw.next()
        with pytest.raises(esker.plyvel.IteratorInvalidError):
            raw.key()
    with esker.open(tmp_path / "store", **order) as db:
        for make in (db.scan, db.scan_unordered):
            with pytest.raises(esker.InvalidArgumentError, match="no range"):
                list(make(prefix=b"a"))


def test_a_prefix_in_an_order_that_keeps_it_together(tmp_path):
    def compare(a, b):
        a, b = a.lower(), b.lower()
        return (a > b) - (a < b)

    order = dict(comparator=compare, comparator_name=b"without case")
    with esker.plyvel.DB(str(tmp_path / "store"), create_if_missing=True, **order) as db:
        for key in (b"k1", b"K2", b"l", b"j", b"k", b"\xff1"):
            db.put(key, key)
        assert list(db.prefixed_db(b"k").iterator(include_value=False)) == [b"", b"1", b"2"]
        assert list(db.iterator(prefix=b"K", include_value=False)) == [b"k", b"k1", b"K2"]
        assert list(db.prefixed_db(b"\xff").iterator(include_value=False)) == [b"1"]
    with esker.open(tmp_path / "store", **order) as db:
        assert list(db.scan_unordered(prefix=b"K", keys_only=True)) == [b"k", b"k1", b"K2"]


@pytest.mark.parametrize("face", ["own", "plyvel"])
def test_a_comparator_that_holds_its_store_goes_when_that_is_closed(tmp_path, face):
    class Order:
        def __call__(self, a, b):
            return (a > b) - (a < b)

    order = Order()
    named = dict(comparator=order, comparator_name=b"plain")
    if face == "own":
        order.db = esker.open(tmp_path / "store", **named)
        order.other = order.db.create_keyspace("other")
    else:
        order.db = esker.plyvel.DB(str(tmp_path / "store"), create_if_missing=True, **named)
    order.db.put(b"a", b"1")
    order.scan = iter(order.db)
    next(order.scan)
    order.db.close()
    gone = weakref.ref(order)
    del named, order
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("fails", [False, True])
def test_two_threads_close_a_store_at_once(tmp_path, monkeypatch, fails):
    armed, asked, go_on = False, threading.Event(), threading.Event()

    def compare(a, b):
        # A thread of the store, which closing it waits for.
        if armed and threading.current_thread() is not threading.main_thread():
            asked.set()
            go_on.wait(60)
            if fails:
                raise LookupError("compare")
        return (a > b) - (a < b)

    def close():
        try:
            db.close()
            outcomes.append(None)
        except esker.Error as error:
            outcomes.append(type(error))
        with opening:
            esker.open(tmp_path / "store", create_if_missing=False, **order).close()

    monkeypatch.setattr(sys, "unraisablehook", lambda said: None)
    order = dict(comparator=compare, comparator_name=b"plain")
    db = esker.open(tmp_path / "store", memtable_bytes=64 << 10, **order)
    armed, outcomes, opening = True, [], threading.Lock()
    for i in range(2000):
        db.put(b"%04d" % i, b"v" * 40)
    assert asked.wait(60)
    threads = [threading.Thread(target=close) for _ in range(2)]
    threads[0].start()
    while not db.closed:
        pass
    threads[1].start()
    threads[1].join(0.3)
    assert all(thread.is_alive() for thread in threads)
    armed = False
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert outcomes == [esker.PoisonedError if fails else None] * 2
    # Who comes later has nothing to do.
    db.close()
