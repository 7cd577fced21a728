"""Esker: an embedded key-value store on a log-structured merge-tree.

``open`` opens a database. ``esker.plyvel`` has the names and habits of plyvel instead.

>>> import esker, tempfile
>>> with tempfile.TemporaryDirectory() as dir, esker.open(dir) as db:
...     db.put(b"bread", b"2")
...     db.get(b"bread"), db.get(b"milk")
(b'2', None)
"""

import atexit as _atexit

from ._errors import (
    BusyError,
    CancelledError,
    ClosedError,
    CorruptionError,
    Error,
    IncompatibleError,
    InvalidArgumentError,
    IoError,
    NoSpaceError,
    NotFoundError,
    PoisonedError,
    ReadOnlyError,
)
from ._native import (
    Batch,
    Db,
    Keyspace,
    Results,
    Scan,
    Snapshot,
    __version__,
    close_all as _close_all,
    open,
    options,
    repair,
)

__all__ = [
    "Batch",
    "BusyError",
    "CancelledError",
    "ClosedError",
    "CorruptionError",
    "Db",
    "Error",
    "IncompatibleError",
    "InvalidArgumentError",
    "IoError",
    "Keyspace",
    "NoSpaceError",
    "NotFoundError",
    "PoisonedError",
    "ReadOnlyError",
    "Results",
    "Scan",
    "Snapshot",
    "__version__",
    "open",
    "options",
    "repair",
]

# What is still open is closed while Python can still be asked to compare keys.
_atexit.register(_close_all)
