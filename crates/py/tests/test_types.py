"""The stubs say what the module does."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("mypy", reason="mypy is not installed: pip install mypy")


def test_stubs_agree_with_the_module(tmp_path):
    command = [sys.executable, "-m", "mypy.stubtest", "esker"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_program_is_checked_by_them(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        """
import esker
import esker.plyvel as plyvel

with esker.open("store", preset="edge", block_bytes=8192) as db:
    db.put(b"k", bytearray(b"v"))
    value: bytes | None = db.get(b"k")
    other: bytes | int = db.get(b"k", 7)
    for key, value in db.scan(prefix=b"k"):
        print(key + value)
    for key in db.scan(keys_only=True):
        print(key + b"")
    with db.batch() as batch:
        batch.put(b"k", b"v", keyspace=db)
with plyvel.DB("store", create_if_missing=True) as old:
    old.put(b"k", b"v")
    sizes: list[int] = old.approximate_sizes((b"a", b"b"))
db.get("text")  # wrong
"""
    )
    environment = {**os.environ, "MYPY_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "mypy", "--strict", str(program)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path, env=environment)
    assert "program.py:18: error:" in ended.stdout, ended.stdout + ended.stderr
    assert ended.stdout.count("error:") == 1, ended.stdout
