"""The own face: stores below somebody else's log."""

import os
import random
import signal
import threading

import pytest

import esker

PAD = random.Random(1).randbytes(16 << 10)


def opened(path):
    return esker.open(path, durability="external", groups="delimiter:/", group_table_bytes_min=4096)


@pytest.fixture
def below(tmp_path):
    """An empty store without a log of its own."""
    with opened(tmp_path / "below") as db:
        yield db


def apply(db, group, index, value, note=b""):
    """A request of two writes, of which one is long enough for a table of the group's own."""
    batch = db.batch()
    batch.put(group + b"key", value)
    batch.put(group + b"pad", PAD)
    db.apply(batch, group, index, note)
    assert len(batch) == 0


def at(db, group):
    state = db.group(group)
    return state["applied"], state["persisted"], state["note"]


def test_what_is_applied_is_seen_and_what_was_flushed_is_persistent(below):
    assert below.groups() == [] and below.group(b"1/") is None and below.flush_group(b"1/") is None
    apply(below, b"1/", 4, b"a", b"term 4")
    assert below.flush_group(bytearray(b"1/")) == 4
    apply(below, b"1/", 5, b"b", note=b"term 5")
    apply(below, b"2/", 9, b"c")
    assert at(below, b"1/") == (5, 4, b"term 5") and at(below, b"2/") == (9, 0, b"")
    assert (below.get(b"1/key"), below.get_persisted(b"1/key")) == (b"b", b"a")
    assert below.get_persisted(b"2/key") is None and below.get_persisted(b"2/key", 7) == 7
    for scan in (below.scan, below.scan_unordered):
        assert sorted(scan(keys_only=True)) == [b"1/key", b"1/pad", b"2/key", b"2/pad"]
        assert sorted(scan(keys_only=True, persisted=True)) == [b"1/key", b"1/pad"]
        assert dict(scan(persisted=True))[b"1/key"] == b"a"
    with below.persisted_snapshot() as before:
        below.flush_oldest()
        assert below.get(b"1/key", snapshot=before) == b"a" and below.get(b"2/key", snapshot=before) is None
    assert below.groups() == [
        {"group": b"1/", "applied": 5, "persisted": 5, "note": b"term 5"},
        {"group": b"2/", "applied": 9, "persisted": 9, "note": b""},
    ]
    # A request without writes.
    below.apply(below.batch(), b"2/", 10, memoryview(b"nothing"))
    assert at(below, b"2/") == (10, 9, b"nothing")
    one, two = below.group_stats()
    assert (one["group"], one["applied"], one["tables"], one["entries"]) == (b"1/", 5, 2, 4)
    assert (two["group"], two["persisted"], two["tables"], two["entries"]) == (b"2/", 9, 1, 2)
    assert one["table_bytes"] > 2 * len(PAD) and one["shared_tables"] == one["value_bytes"] == 0


def test_what_was_closed_is_persistent(tmp_path):
    with opened(tmp_path / "store") as db:
        apply(db, b"1/", 7, b"a", b"term")
        batch = db.batch()
    with pytest.raises(esker.ClosedError):
        db.apply(batch, b"1/", 8)
    for call in (db.groups, db.group_stats, db.flush_oldest, db.persisted_snapshot):
        with pytest.raises(esker.ClosedError):
            call()
    with opened(tmp_path / "store") as db:
        assert at(db, b"1/") == (7, 7, b"term")
        snapshot = db.persisted_snapshot()
    with pytest.raises(esker.ClosedError):
        snapshot.seq


def test_a_group_goes_from_store_to_store(below, tmp_path):
    export = tmp_path / "export"
    apply(below, b"1/", 5, b"b", b"term 5")
    with pytest.raises(esker.InvalidArgumentError, match="1/ is persistent"):
        below.export_group(b"1/", export)
    below.flush_group(b"1/")
    apply(below, b"1/", 6, b"later")
    written = below.export_group(b"1/", export)
    assert (written["index"], written["note"], written["tables"], written["value_files"]) == (5, b"term 5", 1, 0)
    assert written["file_bytes"] > len(PAD)
    with pytest.raises(esker.InvalidArgumentError, match="export"):
        below.export_group(b"1/", export)
    with opened(tmp_path / "other") as other:
        apply(other, b"1/", 2, b"old")
        apply(other, b"3/", 1, b"mine")
        with pytest.raises(esker.NotFoundError):
            other.ingest_group(b"1/", tmp_path / "nowhere")
        with pytest.raises(esker.InvalidArgumentError, match="does not hold the group 3/"):
            other.ingest_group(b"3/", export)
        assert at(other, b"1/") == (2, 0, b"")
        came = other.ingest_group(b"1/", str(export))
        assert (came["index"], came["note"], came["tables"]) == (5, b"term 5", 1)
        assert at(other, b"1/") == (5, 5, b"term 5")
        assert other.get_persisted(b"1/key") == b"b" and other.get(b"3/key") == b"mine"
        apply(other, b"1/", 6, b"on")
        assert other.get(b"1/key") == b"on"
    assert below.get(b"1/key") == b"later"


def test_a_group_is_deleted(below):
    apply(below, b"1/", 5, b"a")
    apply(below, b"2/", 5, b"b")
    below.flush_oldest()
    before = below.snapshot()
    done = below.delete_group(b"1/")
    assert (done["tables"], done["value_files"], done["shared_tables"]) == (1, 0, 0)
    assert done["file_bytes"] > len(PAD)
    assert below.group(b"1/") is None and [key for key in below.scan(keys_only=True)] == [b"2/key", b"2/pad"]
    assert below.get(b"1/key", snapshot=before) is None
    apply(below, b"1/", 1, b"new")
    assert at(below, b"1/") == (1, 0, b"")
    assert below.delete_group(b"never/")["tables"] == 0


def test_wrong_calls_change_nothing(below, own, tmp_path):
    apply(below, b"1/", 5, b"a")
    for index in (4, 5):
        with pytest.raises(esker.InvalidArgumentError, match="the newest that was is 5"):
            apply(below, b"1/", index, b"again")
    assert below.get(b"1/key") == b"a"
    with pytest.raises(esker.InvalidArgumentError, match="name of a group is empty"):
        apply(below, b"", 1, b"x")
    with pytest.raises(esker.InvalidArgumentError, match="longer than 64 KiB"):
        apply(below, b"1/", 6, b"x", bytes((64 << 10) + 1))
    with pytest.raises(esker.InvalidArgumentError, match="0xff"):
        below.delete_group(b"\xff")
    with pytest.raises(OverflowError):
        apply(below, b"1/", -1, b"x")
    for wrong in ("text", None, 1):
        with pytest.raises(TypeError):
            apply(below, b"1/", 6, b"x", [wrong])
        with pytest.raises(TypeError):
            below.group(wrong)
        with pytest.raises(TypeError):
            below.apply(wrong, b"1/", 6)
    batch = below.batch(sync=True)
    batch.put(b"1/key", b"b")
    with pytest.raises(esker.InvalidArgumentError, match="without sync"):
        below.apply(batch, b"1/", 6)
    assert len(batch) == 1 and at(below, b"1/") == (5, 0, b"")
    with pytest.raises(esker.InvalidArgumentError, match="another database"):
        below.apply(own.batch(), b"1/", 6)
    # A store with a log of its own.
    for call in (
        lambda: apply(own, b"1/", 1, b"x"),
        lambda: own.flush_group(b"1/"),
        own.flush_oldest,
        own.persisted_snapshot,
        lambda: own.export_group(b"1/", tmp_path / "never"),
        lambda: own.ingest_group(b"1/", tmp_path / "never"),
    ):
        with pytest.raises(esker.InvalidArgumentError, match="the store has a log of its own"):
            call()
    assert list(own) == [] and own.groups() == []


@pytest.mark.parametrize(
    "groups, shown",
    [
        ("delimiter:/", {"delimiter": {"byte": 47}}),
        ("delimiter::", {"delimiter": {"byte": 58}}),
        ("fixed:4", {"fixed": {"bytes": 4}}),
        ({"delimiter": {"byte": 0}}, {"delimiter": {"byte": 0}}),
    ],
)
def test_groups_are_an_option(tmp_path, groups, shown):
    assert esker.options()["groups"] is None and esker.options()["durability"] == "wal"
    with esker.open(tmp_path / "store", groups=groups) as db:
        db.create_keyspace("more", groups=shown)
    for wrong in ("delimiter:", "delimiter:ab", "fixed:many", "fixed", 7):
        with pytest.raises(esker.InvalidArgumentError, match="option groups"):
            esker.open(tmp_path / "wrong", groups=wrong)
    with pytest.raises(esker.InvalidArgumentError, match="option durability"):
        esker.open(tmp_path / "wrong", durability="none")
    assert not (tmp_path / "wrong").exists()


def test_several_threads_apply_to_groups_of_their_own(below):
    def run(group):
        for index in range(1, 200):
            apply(below, group, index, b"%d" % index)

    threads = [threading.Thread(target=run, args=(b"%d/" % nth,)) for nth in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(state["group"], state["applied"]) for state in below.groups()] == [
        (b"%d/" % nth, 199) for nth in range(4)
    ]
    assert [below.get(b"%d/key" % nth) for nth in range(4)] == [b"199"] * 4


def test_a_child_has_none_of_it(below, tmp_path):
    apply(below, b"1/", 5, b"a")
    batch = below.batch()
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        refused = 0
        try:
            for call in (
                lambda: below.apply(batch, b"1/", 6),
                below.groups,
                lambda: below.group(b"1/"),
                below.group_stats,
                below.persisted_snapshot,
                lambda: below.get_persisted(b"1/key"),
                lambda: below.flush_group(b"1/"),
                below.flush_oldest,
                lambda: below.delete_group(b"1/"),
                lambda: below.export_group(b"1/", tmp_path / "export"),
                lambda: below.ingest_group(b"1/", tmp_path / "export"),
            ):
                try:
                    call()
                except esker.Error as error:
                    refused += "fork" in str(error)
        finally:
            # Whatever happens, the child does not go on as another run of the tests.
            os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 11
    assert at(below, b"1/") == (5, 0, b"")
