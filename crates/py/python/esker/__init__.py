"""Esker: an embedded key-value store on a log-structured merge-tree.

``open`` opens a database. ``esker.plyvel`` has the names and habits of plyvel instead.

>>> import esker, tempfile
>>> with tempfile.TemporaryDirectory() as dir, esker.open(dir) as db:
...     db.put(b"bread", b"2")
...     db.get(b"bread"), db.get(b"milk")
(b'2', None)
"""

import atexit as _atexit
import os as _os

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
    after_fork as _after_fork,
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

# What is still open is closed while Python can still be asked to compare keys. Functions that are
# registered from here on are called before that, and may use stores.
_atexit.register(_close_all)

# A child has none of the threads of its parent, and must leave the parent's stores alone.
_os.register_at_fork(after_in_child=_after_fork)
