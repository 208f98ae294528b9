"""A Mooncake cluster on loopback: a master, and one process that gives memory. What happens, happens to the latter."""

import importlib.util
import os
import re
import signal
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.ports import free_port

from .servers import Opens, Process, answers, flipped, needed

CLIENT_TTL_S = 10
"""After how long without a word a master forgets a client, and the memory that it gave."""
_OWNER = Path(__file__).with_name("mooncake_owner.py")


class MooncakeServer(Opens):
    """mooncake://, with 64 MiB."""

    def __init__(self, folder: Path, memory: int = 64 << 20) -> None:
        if importlib.util.find_spec("mooncake") is None:
            if os.environ.get("CI") == "true":
                pytest.fail("Mooncake is not installed, and its tests are mandatory here: make test installs it")
            pytest.skip("Mooncake is not installed; docs/mooncake.md says how it is")
        self._folder, self._memory = folder, memory
        self.port = free_port()
        self.url = f"mooncake://127.0.0.1:{self.port}"
        self.master: Process
        self.owner: Process
        self._owners = 0
        self._client: Any = None
        self._start_master()
        try:
            self._start_owner()
        except BaseException:
            self.master.end()
            raise

    def _start_master(self) -> None:
        self._metrics_port = free_port()
        options = [f"--rpc_port={self.port}", "--rpc_address=127.0.0.1", f"--metrics_port={self._metrics_port}"]
        self.master = Process([needed("mooncake_master"), *options], self._folder / "master.log")
        self.master.wait_for(lambda: answers(self.port))

    def _start_owner(self) -> None:
        self._owners += 1
        ready = self._folder / f"owner{self._owners}"
        command = [sys.executable, str(_OWNER), f"127.0.0.1:{self.port}", str(self._memory), str(ready)]
        self.owner = Process(command, self._folder / "owner.log")
        self.owner.wait_for(ready.exists)

    def pages(self) -> int:
        """How many pages the master knows."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics_port}/metrics", timeout=5) as answer:
            known = re.search(r"^master_key_count (\d+)$", answer.read().decode(), re.MULTILINE)
        assert known is not None
        return int(known[1])

    def client(self) -> Any:
        """A client of the tests' own, that changes what is stored."""
        from mooncake.store import MooncakeDistributedStore

        if self._client is None:
            self._client = MooncakeDistributedStore()
            master = f"127.0.0.1:{self.port}"
            assert self._client.setup("127.0.0.1", "P2PHANDSHAKE", 0, 16 << 20, "tcp", "", master) == 0
        return self._client

    def flip(self, key: bytes, bit: int) -> None:
        client = self.client()
        name = f"isoradix/{key.hex()}"
        changed = flipped(client.get(name), bit)
        assert client.remove(name, True) == 0
        assert client.put(name, changed) == 0

    def lose(self, key: bytes) -> None:
        assert self.client().remove(f"isoradix/{key.hex()}", True) == 0

    def kill(self) -> None:
        self.owner.end()

    def restart_master(self) -> None:
        """Killed, and started anew where it was; it knows no page then."""
        self.master.end()
        self._start_master()

    def stop(self) -> None:
        self.owner.signal(signal.SIGSTOP)
        self.master.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.master.signal(signal.SIGCONT)
        self.owner.signal(signal.SIGCONT)

    def restart(self) -> None:
        self.owner.end()
        self._start_owner()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self.owner.end()
        self.master.end()
