"""Replays over external storage, as processes of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Final, Self

from isoradix.consensus import all_waits

COMMAND: Final = [sys.executable, "-m", "isoradix.cli", "replay", "--workload", "agent", "--json"]
MEMORY: Final = ["--capacity", "50k", "--host-capacity", "100k"]
LIMIT_S: Final = 170


class Replay:
    """One run, from its start to its end; ended with the block if it has not."""

    def __init__(self, url: str, ranks: list[str], *options: str, requests: int = 120) -> None:
        command = [*COMMAND, "--requests", str(requests), *MEMORY, *ranks, "--storage", url, *options]
        self._temporary = TemporaryDirectory(prefix="isoradix-")
        self._child = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": self._temporary.name},
        )

    def is_running(self) -> bool:
        return self._child.poll() is None

    def step(self) -> int:
        """The step that its leader has entered; no rank is ahead of it."""
        boards = all_waits(Path(self._temporary.name) / f"isoradix-{os.getuid()}")
        return max((board.step for board in boards), default=-1)

    def document(self) -> dict[str, Any]:
        """What it says at its end, which has to be a good one: equal decisions, right bytes."""
        out, errors = self._child.communicate(timeout=LIMIT_S)
        assert self._child.returncode == 0, errors
        document: dict[str, Any] = json.loads(out)
        assert document["verdict"] == "ok"
        assert len({rank["decision_digest"] for rank in document["ranks"]}) == 1
        return document

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.terminate()  # its ranks end with it
        self._child.communicate()
        self._temporary.cleanup()


def replay(url: str, ranks: list[str], *options: str, requests: int = 120) -> dict[str, Any]:
    """A run that nothing happens to from outside."""
    with Replay(url, ranks, *options, requests=requests) as run:
        return run.document()


def cached(document: dict[str, Any]) -> int:
    """Tokens that were found, on whichever tier."""
    hits: int = document["device_hit_tokens"] + document["host_hit_tokens"] + document["storage_hit_tokens"]
    return hits
