"""Exceptions of the store, sorted by what the caller can do about them."""


class Error(Exception):
    """What every error of the store is."""


class _OfSystem(Error):
    """What is an OSError too, whose text is the store's: what was done, to which file, and what to do."""

    def __str__(self):
        return str(self.args[0]) if self.args else ""

    def __reduce__(self):
        # What the system said is not among the arguments, and would be lost on the way to another
        # process.
        return _restored, (type(self), self.args, self.errno, self.filename)


def _restored(kind, args, errno, filename):
    error = kind(*args)
    error.errno = errno
    error.filename = filename
    return error


class InvalidArgumentError(Error, ValueError):
    """The call was wrong and changed nothing: mend the call."""


class ClosedError(Error, RuntimeError):
    """What is used was closed, or the database that it was made from was: open it again."""


class CorruptionError(Error):
    """Stored bytes are not what was written: repair, or restore a backup."""


class IncompatibleError(Error):
    """The store was written in a format, or with an order of keys, that this call cannot work with."""


class IoError(_OfSystem, OSError):
    """The operating system refused; ``errno`` and ``filename`` are its own."""


class NoSpaceError(IoError):
    """The disk is full: reads go on, and writes work again by themselves once there is space."""


class BusyError(Error):
    """Another process or handle holds the store: close it there first."""


class NotFoundError(_OfSystem, FileNotFoundError):
    """The store does not exist, and was not to be created."""


class ReadOnlyError(Error):
    """The store was opened for reading only."""


class PoisonedError(Error):
    """An earlier failure left the state on disk unknown: reads go on; open the store again to write."""


class CancelledError(Error):
    """The call was ended by its caller, or by the store being closed."""
