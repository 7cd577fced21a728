from . import (
    Batch as Batch,
    Db as Db,
    Keyspace as Keyspace,
    Results as Results,
    Scan as Scan,
    Snapshot as Snapshot,
    open as open,
    options as options,
    repair as repair,
)
from .plyvel import (
    DB as plyvel_DB,
    Iterator as plyvel_Iterator,
    PrefixedDB as plyvel_PrefixedDB,
    RawIterator as plyvel_RawIterator,
    Snapshot as plyvel_Snapshot,
    WriteBatch as plyvel_WriteBatch,
    destroy_db as plyvel_destroy_db,
    repair_db as plyvel_repair_db,
)

__version__: str

__all__ = [
    "Batch",
    "Db",
    "Keyspace",
    "Results",
    "Scan",
    "Snapshot",
    "__version__",
    "after_fork",
    "close_all",
    "open",
    "options",
    "plyvel_DB",
    "plyvel_Iterator",
    "plyvel_PrefixedDB",
    "plyvel_RawIterator",
    "plyvel_Snapshot",
    "plyvel_WriteBatch",
    "plyvel_destroy_db",
    "plyvel_repair_db",
    "repair",
]

def after_fork() -> None: ...
def close_all() -> None: ...
