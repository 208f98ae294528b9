"""redis://[user:password@]host[:port][/database] and rediss:// (TLS): pages as values, in pipelines.

Options: `prefix` (of all keys, `isoradix:` unless given), `ttl` (seconds that a page stays; for ever unless given),
`batch` (bytes of a pipeline, 32Mi unless given).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from isoradix.storage.call import Call, Status
from isoradix.storage.engine import Capabilities
from isoradix.storage.engines.sealed import SEAL_BYTES, deliver, sealed
from isoradix.storage.errors import PermanentStorageError, StorageError, TemporaryStorageError, first_line
from isoradix.storage.url import StorageURL
from isoradix.storage.views import PageViews

_VALUE_BYTES_MAX: Final = 512 << 20
_KEYS_A_PIPELINE: Final = 1024
_WAIT_S_MIN: Final = 0.01


class RedisEngine:
    """Pages in a Redis server, or in what speaks its protocol.

    Args:
        client: a connection pool.
        prefix: of all keys.
        ttl_s: seconds that a page stays; for ever if None.
        batch_bytes: bytes of a pipeline.
    """

    def __init__(self, client: "redis.Redis", prefix: bytes, ttl_s: int | None, batch_bytes: int) -> None:
        self._client, self._prefix, self._ttl_s, self._batch_bytes = client, prefix, ttl_s, batch_bytes
        self.capabilities = Capabilities(
            zero_copy=False,
            checked=True,
            durable=False,
            shared=True,
            key_bytes_max=1024,
            page_bytes_max=_VALUE_BYTES_MAX - SEAL_BYTES,
        )

    def register(self, memory: Any) -> None:
        """Pages are copied."""

    def exists(self, keys: Sequence[bytes], call: Call) -> list[bool]:
        """Whether the server knows the keys."""
        flags: list[bool] = []
        for places in _portions(len(keys), _KEYS_A_PIPELINE):
            pipeline = self._client.pipeline(transaction=False)
            for place in places:
                pipeline.exists(self._name(keys[place]))
            flags += [bool(found) for found in self._execute(pipeline)]
            call.check()
        return flags

    def get(self, keys: Sequence[bytes], views: PageViews, call: Call) -> None:
        """Reads values, checks them, and copies those that are right."""
        for places in self._portions_of(views):
            if call.cancelled:
                return
            pipeline = self._client.pipeline(transaction=False)
            for place in places:
                pipeline.get(self._name(keys[place]))
            for place, stored in zip(places, self._execute(pipeline), strict=True):
                if isinstance(stored, Exception):
                    call.fail([place], _meaning(stored))
                else:
                    deliver(call, place, keys[place], views, stored)

    def put(self, keys: Sequence[bytes], views: PageViews, call: Call) -> None:
        """Copies pages, and stores each with its seal."""
        for places in self._portions_of(views):
            pipeline = self._client.pipeline(transaction=False)
            for place in places:
                page = call.collect(views, place)
                if page is None:
                    return
                pipeline.set(self._name(keys[place]), sealed(keys[place], page), ex=self._ttl_s)
            for place, answer in zip(places, self._execute(pipeline), strict=True):
                if isinstance(answer, Exception):
                    full = isinstance(answer, redis.exceptions.OutOfMemoryError)
                    call.fail([place], _meaning(answer), Status.FULL if full else Status.FAILED)
                else:
                    call.finish(place, Status.DONE)

    def remove(self, keys: Sequence[bytes], call: Call) -> None:
        """Removes keys."""
        for places in _portions(len(keys), _KEYS_A_PIPELINE):
            self._ask(lambda places=places: self._client.unlink(*(self._name(keys[place]) for place in places)))

    def clear(self, call: Call) -> None:
        """Removes all keys with the prefix."""
        found: list[bytes] = []
        for name in self._names():
            found.append(name)
            if len(found) == _KEYS_A_PIPELINE:
                self._ask(lambda: self._client.unlink(*found))
                call.check()
                found.clear()
        if found:
            self._ask(lambda: self._client.unlink(*found))

    def usage(self, call: Call) -> Mapping[str, int | float | str]:
        """Keys with the prefix, and the server's memory."""
        memory = self._ask(lambda: self._client.info("memory"))
        about: dict[str, int | float | str] = {"engine": "redis", "pages": sum(1 for _ in self._names())}
        about["server_bytes"] = int(memory["used_memory"])
        about["server_limit_bytes"] = int(memory["maxmemory"])
        about["server_policy"] = str(memory["maxmemory_policy"])
        return about

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    def _name(self, key: bytes) -> bytes:
        return self._prefix + key

    def _names(self) -> Iterator[bytes]:
        special = rb"\*?[]"
        pattern = b"".join(b"\\" + bytes([byte]) if byte in special else bytes([byte]) for byte in self._prefix) + b"*"
        return iter(self._ask(lambda: list(self._client.scan_iter(pattern, count=_KEYS_A_PIPELINE))))

    def _portions_of(self, views: PageViews) -> Iterator[range]:
        pages = max(1, self._batch_bytes // (views.page_bytes + SEAL_BYTES))
        return _portions(len(views), min(pages, _KEYS_A_PIPELINE))

    def _execute(self, pipeline: Any) -> list[Any]:
        answers: list[Any] = self._ask(lambda: pipeline.execute(raise_on_error=False))
        return answers

    @staticmethod
    def _ask(ask: Any) -> Any:
        try:
            return ask()
        except (redis.RedisError, OSError) as error:
            raise _meaning(error) from error


def open_engine(url: StorageURL) -> RedisEngine:
    """The engine of a redis:// or rediss:// URL, once the server has answered.

    Raises:
        PermanentStorageError, TemporaryStorageError: the URL is refused; the server does not answer.
    """
    database = url.path.strip("/") or "0"
    if not database.isdecimal():
        raise PermanentStorageError(f"{url.text} names the database {database!r}\nhint: a number, as in redis://host/0")
    prefix = url.string("prefix", "isoradix:") or ""
    ttl_s = url.number("ttl", 0, 1, 10**9) or None
    batch = url.size("batch", 32 << 20) or 0
    url.finish()
    client = redis.Redis(
        host=url.host or "localhost",
        port=url.port or 6379,
        db=int(database),
        username=url.user,
        password=url.password,
        ssl=url.scheme == "rediss",
        socket_timeout=60.0,  # a thread that nobody waits for ends some time
        socket_connect_timeout=5.0,
        retry=Retry(NoBackoff(), 0),
        health_check_interval=30,
    )
    engine = RedisEngine(client, prefix.encode(), ttl_s, batch)
    engine._ask(client.ping)
    return engine


def _portions(total: int, size: int) -> Iterator[range]:
    return (range(start, min(start + size, total)) for start in range(0, total, size))


def _meaning(error: BaseException) -> StorageError:
    message = f"redis: {first_line(error)}"
    if isinstance(error, redis.exceptions.AuthenticationError | redis.exceptions.NoPermissionError):
        return PermanentStorageError(f"{message}\nhint: redis://user:password@host names who asks")
    if isinstance(error, redis.exceptions.OutOfMemoryError):
        return TemporaryStorageError(f"{message}\nhint: maxmemory-policy allkeys-lru makes room by itself")
    return TemporaryStorageError(f"{message}\nhint: see whether the server runs and can be reached")
