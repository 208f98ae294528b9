"""The HTTP server as a user starts it, with what a CPU needs beside."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.ports import free_port

from .engine import engine_settings, import_settings
from .log import Log
from .scenario import Scenario
from .serve import engine_args

STARTUP_S: Final = 300
"""For each rank: all of them import SGLang at once, on however few cores there are."""


def command_line(scenario: Scenario, port: int) -> list[str]:
    """`python -m sglang.launch_server` with flags as a user types them."""
    words = [sys.executable, "-m", "sglang.launch_server", "--host", "127.0.0.1", "--port", str(port)]
    for name, value in engine_args(scenario).items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif value is not False:
            words += [flag, str(value)]
    return words


class Server:
    """A server of its own process group, killed at the end whatever happens."""

    def __init__(self, scenario: Scenario, log: Path) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._startup_s = STARTUP_S * scenario.ranks
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command_line(scenario, port),
                env={**os.environ, **import_settings(), **engine_settings(scenario)},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    async def ready(self, client: Any) -> None:
        """Waits until it serves.

        Raises:
            RuntimeError: it ended, or does not serve in time.
        """
        late = time.monotonic() + self._startup_s
        while time.monotonic() < late:
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended with {self._process.returncode}: {self.errors()}")
            try:
                async with client.get(f"{self.url}/health_generate") as answer:
                    if answer.status == 200:
                        return
            except OSError:  # nobody listens yet
                pass
            await asyncio.sleep(0.5)
        raise RuntimeError(f"the server does not serve after {self._startup_s} s: {self.errors()}")

    def errors(self) -> list[str]:
        """What ranks have reported so far."""
        reader = Log(self.log)
        reader.read()
        return reader.errors()

    def stop(self, within_s: float) -> int:
        """Asks it to end, as a service manager does, and returns its exit code.

        Raises:
            subprocess.TimeoutExpired: it does not.
        """
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(within_s)

    def survivors(self) -> list[int]:
        """Processes of its group that are still there."""
        alive = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, _, group = path.read_text().rpartition(")")[2].split()[:3]
            except OSError:  # it has just ended
                continue
            if int(group) == self._process.pid and state != "Z":
                alive.append(int(path.parent.name))
        return alive

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
