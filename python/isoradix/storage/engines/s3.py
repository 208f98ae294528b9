"""s3://bucket[/prefix]: pages as objects of an S3 store, or of what speaks its protocol.

Options: `endpoint` (of a server other than Amazon's), `region`, `requests` (at a time, 8 unless given). Who asks is
taken from the usual places: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, the instance; `anonymous=yes` asks
as nobody.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, Final

import obstore
from obstore.exceptions import (
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import S3Store

from isoradix.storage.call import Call, Status
from isoradix.storage.engine import Capabilities
from isoradix.storage.engines.sealed import SEAL_BYTES, deliver, sealed
from isoradix.storage.errors import PermanentStorageError, StorageError, TemporaryStorageError, first_line
from isoradix.storage.url import StorageURL
from isoradix.storage.views import PageViews

_OBJECT_BYTES_MAX: Final = 5 << 30
_KEYS_A_REQUEST: Final = 1000
_ANSWER_S: Final = 60
"""After how long a request ends by itself, also one that nobody waits for."""


class S3Engine:
    """Pages in a bucket.

    Args:
        store: the bucket, below a prefix.
        requests: at a time.
    """

    def __init__(self, store: S3Store, requests: int) -> None:
        self._store = store
        self._requests = ThreadPoolExecutor(requests, "isoradix-s3")
        self.capabilities = Capabilities(
            zero_copy=False,
            checked=True,
            durable=True,
            shared=True,
            key_bytes_max=120,  # in hexadecimal a name that every file system takes
            page_bytes_max=_OBJECT_BYTES_MAX - SEAL_BYTES,
        )

    def register(self, memory: Any) -> None:
        """Pages are copied."""

    def exists(self, keys: Sequence[bytes], call: Call) -> list[bool]:
        """Whether there are objects."""
        return list(self._requests.map(lambda key: self._exists(key, call), keys))

    def get(self, keys: Sequence[bytes], views: PageViews, call: Call) -> None:
        """Reads objects, checks them, and copies those that are right."""

        def one(place: int) -> None:
            if not call.cancelled:
                deliver(call, place, keys[place], views, self._read(keys[place], views.page_bytes + SEAL_BYTES))

        self._each(one, call, len(keys))

    def put(self, keys: Sequence[bytes], views: PageViews, call: Call) -> None:
        """Copies pages, and stores each with its seal."""

        def one(place: int) -> None:
            page = call.collect(views, place)
            if page is not None:
                obstore.put(self._store, _path(keys[place]), sealed(keys[place], page), use_multipart=False)
                call.finish(place, Status.DONE)

        self._each(one, call, len(keys))

    def remove(self, keys: Sequence[bytes], call: Call) -> None:
        """Removes objects."""
        for start in range(0, len(keys), _KEYS_A_REQUEST):
            self._delete([_path(key) for key in keys[start : start + _KEYS_A_REQUEST]])

    def clear(self, call: Call) -> None:
        """Removes all objects below the prefix that are named as pages are."""
        for found in self._list():
            self._delete([about["path"] for about in found])
            call.check()

    def usage(self, call: Call) -> Mapping[str, int | float | str]:
        """Objects and their bytes."""
        pages = size = 0
        for found in self._list():
            call.check()
            pages += len(found)
            size += sum(about["size"] for about in found)
        return {"engine": "s3", "pages": pages, "bytes": size}

    def close(self) -> None:
        """Waits for no request."""
        self._requests.shutdown(wait=False, cancel_futures=True)

    def _each(self, one: Callable[[int], None], call: Call, pages: int) -> None:
        def guarded(place: int) -> None:
            try:
                one(place)
            except Exception as error:  # obstore's own, and those of the runtime below it
                call.fail([place], _meaning(error))

        for _ in self._requests.map(guarded, range(pages)):
            pass

    def _exists(self, key: bytes, call: Call) -> bool:
        call.check()
        try:
            obstore.head(self._store, _path(key))
        except (NotFoundError, FileNotFoundError):
            return False
        except Exception as error:
            raise _meaning(error) from error
        return True

    def _read(self, key: bytes, size: int) -> memoryview | None:
        try:
            found = obstore.get(self._store, _path(key))
            if found.meta["size"] != size:
                return memoryview(b"")  # of another size, which need not be read
            return memoryview(found.bytes())
        except (NotFoundError, FileNotFoundError):
            return None

    def _list(self) -> Any:
        try:
            for found in obstore.list(self._store, chunk_size=_KEYS_A_REQUEST):
                yield [about for about in found if about["path"].endswith(_ENDING)]
        except Exception as error:
            raise _meaning(error) from error

    def _delete(self, paths: list[str]) -> None:
        try:
            if paths:
                obstore.delete(self._store, paths)
        except (NotFoundError, FileNotFoundError):
            pass
        except Exception as error:
            raise _meaning(error) from error


_ENDING: Final = ".page"


def open_engine(url: StorageURL) -> S3Engine:
    """The engine of an s3:// URL.

    Raises:
        PermanentStorageError: the URL is refused.
    """
    if not url.host:
        raise PermanentStorageError(f"{url.text} names no bucket\nhint: as in s3://bucket/prefix")
    endpoint, region = url.string("endpoint"), url.string("region", "us-east-1")
    requests = url.number("requests", 8, 1, 256)
    options: dict[str, Any] = {"skip_signature": True} if url.flag("anonymous") else {}
    url.finish()
    if endpoint is not None:
        options["endpoint"] = endpoint
    if url.user is not None:
        options |= {"access_key_id": url.user, "secret_access_key": url.password or ""}
    store = S3Store(
        url.host,
        prefix=url.path.strip("/") or None,
        region=region,
        client_options={
            "timeout": timedelta(seconds=_ANSWER_S),
            "connect_timeout": timedelta(seconds=5),
            "allow_http": (endpoint or "").startswith("http://"),
        },
        retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=_ANSWER_S)},
        **options,
    )
    return S3Engine(store, requests)


def _path(key: bytes) -> str:
    name = key.hex()
    return f"{name[:2]}/{name}{_ENDING}"


def _meaning(error: BaseException) -> StorageError:
    if isinstance(error, StorageError):
        return error
    message = f"s3: {first_line(error)}"
    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
        return PermanentStorageError(f"{message}\nhint: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY name who asks")
    return TemporaryStorageError(f"{message}\nhint: see whether the server runs, and the bucket is there")
