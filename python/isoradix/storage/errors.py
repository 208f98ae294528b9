"""What storage cannot do: for now, or ever."""

from isoradix import IsoradixError


class StorageError(IsoradixError):
    """Base class of what a storage engine cannot do. Pages that were not done are not there: compute them again."""


class TemporaryStorageError(StorageError):
    """The engine is away, full or too slow. The same call may succeed later."""


class StorageTimeoutError(TemporaryStorageError, TimeoutError):
    """The deadline has passed. The engine may still be at work; nobody waits for it."""


class PermanentStorageError(StorageError):
    """The engine will never do this: it is not installed, refuses the credentials, or does not know the option."""


def first_line(error: BaseException) -> str:
    """What an error says, or what it is."""
    return (str(error).splitlines() or [""])[0] or type(error).__name__
