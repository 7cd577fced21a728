"""The names and habits of plyvel 1.5, on the store of Esker.

``import esker.plyvel as plyvel`` is all that a program has to change. Directories of LevelDB are
loaded with ``esker load`` first; what differs otherwise is in ``docs/python.md``.
"""

import builtins as _builtins

# The package itself closes what is open when the process ends.
from . import __version__ as _engine_version
from ._native import (
    plyvel_DB as DB,
    plyvel_Iterator as Iterator,
    plyvel_PrefixedDB as PrefixedDB,
    plyvel_RawIterator as RawIterator,
    plyvel_Snapshot as Snapshot,
    plyvel_WriteBatch as WriteBatch,
    plyvel_destroy_db as destroy_db,
    plyvel_repair_db as repair_db,
)

__all__ = [
    "DB",
    "CorruptionError",
    "Error",
    "IOError",
    "Iterator",
    "IteratorInvalidError",
    "PrefixedDB",
    "RawIterator",
    "Snapshot",
    "WriteBatch",
    "__leveldb_version__",
    "__version__",
    "destroy_db",
    "repair_db",
]

__version__ = _engine_version

# The version of LevelDB whose interface this is; there is no LevelDB inside.
__leveldb_version__ = "1.23"


class Error(Exception):
    """What every error of the database is."""


class IOError(Error, _builtins.IOError):
    """The system refused, another process holds the database, or it takes no writes."""


class CorruptionError(Error):
    """Stored bytes are not what was written."""


class IteratorInvalidError(Error):
    """A raw iterator stands on no key."""
