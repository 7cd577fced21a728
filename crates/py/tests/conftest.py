"""What the tests share: the two modules that are held to the same assertions, and stores of their own."""

import pytest

import esker
import esker.plyvel


def _module(name):
    if name == "esker":
        return esker.plyvel
    return pytest.importorskip("plyvel", reason="plyvel is not installed: pip install plyvel")


@pytest.fixture(params=["esker", "plyvel"])
def plyvel(request):
    """Our module under plyvel's names, and plyvel itself where it is installed."""
    return _module(request.param)


@pytest.fixture
def is_ours(plyvel):
    """True for our module."""
    return plyvel is esker.plyvel


@pytest.fixture
def db(plyvel, tmp_path):
    """An empty database of either module."""
    db = plyvel.DB(str(tmp_path / "store"), create_if_missing=True, error_if_exists=True)
    yield db
    db.close()


@pytest.fixture
def own(tmp_path):
    """An empty database of our own face."""
    with esker.open(tmp_path / "own", memory_budget_bytes=64 << 20, memtable_bytes=4 << 20) as db:
        yield db
