"""The own face: records of fields and their indexes."""

import ctypes
import math

import pytest

import esker


def test_a_record_is_a_dict(own):
    record = {
        "none": None,
        "yes": True,
        "int": -(2**63),
        "float": 2.5,
        "text": "größe",
        "bytes": b"\x00\xff",
        "inf": math.inf,
    }
    own.put_record(b"k", record)
    own.put_record(b"empty", {}, sync=True)
    assert own.get_record(b"k") == record
    assert {name: type(value) for name, value in own.get_record(b"k").items()} == {
        name: type(value) for name, value in record.items()
    }
    assert own.get_record(b"empty") == {}
    assert own.get_record(b"never") is None and own.get_record(b"never", 7) == 7
    own.put_record(b"k", {"bytes": bytearray(b"b")})
    with own.snapshot() as snapshot:
        own.delete(b"k")
        assert own.get_record(b"k", snapshot=snapshot) == {"bytes": b"b"}
    own.put(b"k", b"no record")
    with pytest.raises(esker.InvalidArgumentError):
        own.get_record(b"k")


@pytest.mark.parametrize(
    "fields, error, text",
    [
        ({"f": 2**63}, OverflowError, "field .f.: an integer has 64 bits"),
        ({"f": [1]}, TypeError, "field .f.: a field holds"),
        # As a number of another library, which gives its bytes to whoever asks.
        ({"f": ctypes.c_int64(1)}, TypeError, "field .f.: a field holds"),
        ({1: 1}, TypeError, "the name of a field is a str, not 'int'"),
        ({"": 1}, esker.InvalidArgumentError, "1 to 255"),
        ({"n" * 256: 1}, esker.InvalidArgumentError, "1 to 255"),
        ([("f", 1)], TypeError, "dict"),
    ],
)
def test_what_is_no_record_is_refused(own, fields, error, text):
    with pytest.raises(error, match=text):
        own.put_record(b"k", fields)
    with pytest.raises(error, match=text):
        own.batch().put_record(b"k", fields)
    assert own.get(b"k") is None


@pytest.fixture
def animals(own):
    for name, kind, legs in [
        (b"adder", "snake", 0),
        (b"bee", "insect", 6),
        (b"cat", "mammal", 4),
        (b"dog", "mammal", 4),
        (b"emu", "bird", 2),
    ]:
        own.put_record(name, {"kind": kind, "legs": legs})
    own.put_record(b"fog", {"legs": None})
    own.put_record(b"gas", {"legs": 1.5})
    own.put(b"hum", b"no record")
    return own


def test_finding_through_an_index(animals):
    animals.create_index("kind")
    animals.create_index("legs")
    told = []
    animals.wait_indexes("legs", progress=told.append)
    animals.wait_indexes()
    assert [(index["field"], index["is_ready"]) for index in animals.indexes()] == [("kind", True), ("legs", True)]
    assert list(animals.find("kind", "mammal")) == [b"cat", b"dog"]
    assert list(animals.find("kind", "fish")) == []
    assert list(animals.find("legs", None)) == [b"fog"]
    keys = lambda **bounds: list(animals.find_range("legs", **bounds))
    assert keys(ge=2, lt=6) == [b"emu", b"cat", b"dog"]
    assert keys(gt=2, le=6) == [b"cat", b"dog", b"bee"]
    assert keys(le=0) == [b"fog", b"adder"]
    assert keys(gt=6) == [b"gas"]
    assert keys() == [b"fog", b"adder", b"emu", b"cat", b"dog", b"bee", b"gas"]
    assert list(animals.find_range("legs", ge=4, le=4, values=True)) == [(b"cat", 4), (b"dog", 4)]
    with animals.snapshot() as snapshot:
        animals.delete(b"cat")
        assert list(animals.find("legs", 4)) == [b"dog"]
        assert list(animals.find("legs", 4, snapshot=snapshot)) == [b"cat", b"dog"]
    for i in range(1000):
        animals.put_record(b"ant %04d" % i, {"legs": 6})
    assert len(list(animals.find("legs", 6))) == 1001
    animals.drop_index("legs")
    with pytest.raises(esker.InvalidArgumentError, match="legs"):
        animals.find("legs", 4)
    assert animals.verify()["indexes"][0]["missing"] == 0


def test_finding_without_an_index(animals):
    assert animals.get_keys_by_field("legs", 4) == [b"cat", b"dog"]
    assert animals.get_keys_by_field("legs", 4.0) == []
    with animals.snapshot() as snapshot:
        animals.delete(b"cat")
        assert animals.get_keys_by_field("legs", 4, snapshot=snapshot) == [b"cat", b"dog"]


def test_wrong_finds(animals):
    animals.create_index("legs")
    animals.wait_indexes()
    for bounds, text in [
        (dict(eq=1), "no bound .eq.: use ge, gt, le or lt"),
        (dict(ge=1, gt=1), "one bound on either side"),
        (dict(le=1, lt=1), "one bound on either side"),
        (dict(ge=2, le=1), "ends before it starts"),
    ]:
        with pytest.raises(esker.InvalidArgumentError, match=text):
            animals.find_range("legs", **bounds)
    with pytest.raises(esker.InvalidArgumentError):
        animals.create_index("legs")
    with pytest.raises(esker.InvalidArgumentError):
        animals.drop_index("kind")
    with pytest.raises(esker.InvalidArgumentError):
        animals.wait_indexes("kind")
    with pytest.raises(TypeError):
        animals.find("legs", [4])


def test_what_progress_raises_ends_waiting(own):
    for i in range(20_000):
        own.put_record(b"%05d" % i, {"f": i})
    own.create_index("f")

    def stop(done):
        raise LookupError

    try:
        own.wait_indexes("f", progress=stop)
    except LookupError:
        pass
    own.wait_indexes()
    assert list(own.find("f", 7)) == [b"00007"]
