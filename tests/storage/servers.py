"""Real servers on loopback, each with what can happen to it."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.ports import free_port

from isoradix.storage import Backend, TemporaryStorageError, open_storage

_PATIENCE_S = 30.0
GRACE_S = 0.5
"""How much later than its deadline a call may return, where two cores run several servers."""
_WEED_PARTS = ("master", "volume", "filer", "admin")


class Server(Protocol):
    """A store, and the process that its pages are in, if there is one."""

    url: str

    def open(self, **options: Any) -> Backend:
        """A backend of its own, with options of the URL."""

    def flip(self, key: bytes, bit: int) -> None:
        """Changes one bit of what is stored under a key."""

    def lose(self, key: bytes) -> None:
        """What was stored under a key is gone, as after an eviction."""

    def kill(self) -> None:
        """The process is gone."""

    def stop(self) -> None:
        """The process stands still."""

    def go_on(self) -> None:
        """It moves again."""

    def restart(self) -> None:
        """A new process, at the same place, with or without the pages."""

    def close(self) -> None:
        """Ends it for good."""


class Opens:
    """A URL with options."""

    url: str

    def open(self, **options: Any) -> Backend:
        joined = "&".join(f"{name}={value}" for name, value in options.items())
        join = "&" if "?" in self.url else "?"
        return open_storage(f"{self.url}{join}{joined}" if joined else self.url)


class Process:
    """A child process that is ended with its signals."""

    def __init__(self, command: list[str], log: Path, environment: dict[str, str] | None = None) -> None:
        self.log = log
        with log.open("ab") as out:
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={**os.environ, **(environment or {})}
            )

    def wait_for(self, ready: Callable[[], bool]) -> None:
        """Until it is ready; skips nothing: a server that is installed and does not start is a failure."""
        end = time.monotonic() + _PATIENCE_S
        while not ready():
            code = self._child.poll()
            if code is not None or time.monotonic() > end:
                self.end()
                pytest.fail(f"{self._child.args!r} is not ready (code {code}): {self.log.read_text()[-2000:]}")
            time.sleep(0.05)

    def signal(self, number: int) -> None:
        self._child.send_signal(number)
        if number == signal.SIGSTOP:  # its threads stop one after another
            os.waitid(os.P_PID, self._child.pid, os.WSTOPPED | os.WNOWAIT)

    def end(self) -> None:
        """Also one that stands still."""
        with suppress(ProcessLookupError):
            self._child.kill()
        self._child.wait(_PATIENCE_S)


class ProcessServer(Opens, ABC):
    """A store in one process."""

    process: Process

    @abstractmethod
    def start(self) -> None:
        """A new process, at the place of the one before."""

    def kill(self) -> None:
        self.process.end()

    def stop(self) -> None:
        self.process.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.signal(signal.SIGCONT)

    def restart(self) -> None:
        self.process.end()
        self.start()

    def close(self) -> None:
        self.process.end()


class Folder(Opens):
    """file://: no process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "kv"
        self.url = f"file://{self.folder}"

    def path(self, key: bytes) -> Path:
        return self.folder / "pages" / key[:1].hex() / f"{key.hex()}.page"

    def flip(self, key: bytes, bit: int) -> None:
        self.path(key).write_bytes(flipped(self.path(key).read_bytes(), bit))

    def lose(self, key: bytes) -> None:
        self.path(key).unlink()

    def kill(self) -> None: ...

    def stop(self) -> None: ...

    def go_on(self) -> None: ...

    def restart(self) -> None: ...

    def close(self) -> None: ...


class RedisServer(ProcessServer):
    """redis://, in memory alone, with 64 MiB at most."""

    def __init__(self, folder: Path, policy: str = "allkeys-lru", memory: str = "64mb", value: str = "512mb") -> None:
        self._folder, self._policy, self._memory, self._value = folder, policy, memory, value
        pytest.importorskip("redis")
        self._program = needed("redis-server")
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        options += ["--proto-max-bulk-len", self._value]
        options += ["--dir", str(self._folder), "--maxmemory", self._memory, "--maxmemory-policy", self._policy]
        self.process = Process([self._program, *options], self._folder / "redis.log")
        self.process.wait_for(lambda: answers(self.port))

    def client(self) -> Any:
        redis = pytest.importorskip("redis")
        return redis.Redis(port=self.port)

    def flip(self, key: bytes, bit: int) -> None:
        with self.client() as client:
            client.set(b"isoradix:" + key, flipped(client.get(b"isoradix:" + key), bit))

    def lose(self, key: bytes) -> None:
        with self.client() as client:
            client.delete(b"isoradix:" + key)


class S3Server(ProcessServer):
    """s3://, SeaweedFS in one process."""

    def __init__(self, folder: Path) -> None:
        pytest.importorskip("obstore")
        self._folder = folder
        self._program = needed("weed")
        self.port = free_port()
        self.url = f"s3://key:secret@bucket/tests?endpoint=http://127.0.0.1:{self.port}"
        self._ports = [f"-{part}.port{kind}={free_port()}" for part in _WEED_PARTS for kind in ("", ".grpc")]
        self._ports += [f"-s3.port.{part}={free_port()}" for part in ("grpc", "iceberg", "lance")]
        self.start()

    def start(self) -> None:
        data = self._folder / "weed"
        data.mkdir(exist_ok=True)
        options = [f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-bucket=bucket", f"-s3.port={self.port}"]
        options += ["-webdav=false", "-admin.ui=false", *self._ports]
        secrets = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
        self.process = Process([self._program, "mini", *options], self._folder / "weed.log", secrets)
        self.process.wait_for(self._takes_objects)

    def _takes_objects(self) -> bool:
        import obstore

        if not answers(self.port):
            return False
        try:
            obstore.put(self._store, "ready", b"")
        except Exception:  # it listens before it has a bucket
            return False
        return True

    @cached_property
    def _store(self) -> Any:
        from obstore.store import S3Store

        return S3Store(
            "bucket",
            prefix="tests",
            endpoint=f"http://127.0.0.1:{self.port}",
            access_key_id="key",
            secret_access_key="secret",
            region="us-east-1",
            client_options={"allow_http": True, "timeout": "5s"},
            retry_config={"max_retries": 0},
        )

    def flip(self, key: bytes, bit: int) -> None:
        import obstore

        path = f"{key[:1].hex()}/{key.hex()}.page"
        obstore.put(self._store, path, flipped(bytes(obstore.get(self._store, path).bytes()), bit))

    def lose(self, key: bytes) -> None:
        import obstore

        obstore.delete(self._store, f"{key[:1].hex()}/{key.hex()}.page")


def flipped(data: bytes, bit: int) -> bytes:
    """A copy with one other bit; bits beyond the end are counted from the beginning again."""
    changed = bytearray(data)
    changed[bit // 8 % len(data)] ^= 1 << bit % 8
    return bytes(changed)


def answers(port: int) -> bool:
    """Whether somebody listens at it."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def needed(program: str) -> str:
    """The path of a server's program, of this environment or of the machine; skips where there is none."""
    found = shutil.which(program, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        pytest.skip(f"{program} is not installed; docs/storage.md says how it is")
    return found


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system with so much room; skips where none can be mounted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no file system of a test's own can be mounted: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@contextmanager
def running(make: Callable[[], Server]) -> Iterator[Server]:
    """A server that ends with the block."""
    server = make()
    try:
        yield server
    finally:
        server.close()


def opened(server: Server, **options: Any) -> Backend:
    """A backend as soon as the server takes one: it may be about to start."""
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return server.open(**options)
        except TemporaryStorageError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
