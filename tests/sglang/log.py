"""What ranks write: which lines say that one failed, and which that a fault took place."""

import re
import time
from collections import Counter
from pathlib import Path
from typing import Final

FAILURE: Final = re.compile(
    r"(?:\w+\.)*(?:\w*Error|\w*Exception)(?::|$)"
    r"|hit an exception|enforce fail|leak detected|found rank divergence|watchdog timeout",
    re.IGNORECASE,
)
HARMLESS: Final = ("Ignore import error", "Failed to load NCCL library", "OpenAI Responses API")
CLIENT: Final = re.compile(r"[IWEF]\d{4} [\d:.]+ +\d+ \w+\.\w+:\d+\] ")  # Mooncake's: no rank has failed by it
INJECTED: Final = re.compile(r"\[fault ([a-z-]+)\]")
PREFIX: Final = re.compile(r"\[[\d-]+ [\d:]+((?: [A-Z]+\d+)*)\] *")  # [2026-11-30 00:19:12 TP1 PP0]
SHOWN: Final = 12  # different ones
LINE: Final = 200  # characters of each


class Log:
    """A growing log file. `failed_at` is when the first failure was seen, by the monotonic clock in seconds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._rest = b""
        self._failures: Counter[str] = Counter()
        self.injected: Counter[str] = Counter()
        self.failed_at: float | None = None

    def read(self) -> None:
        """Takes in what was written since the last call."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            fresh = file.read()
        self._read += len(fresh)
        *lines, self._rest = (self._rest + fresh).split(b"\n")
        for line in lines:
            self._take(line.decode(errors="replace").strip())

    def _take(self, line: str) -> None:
        if fault := INJECTED.search(line):
            self.injected[fault[1]] += 1
        elif CLIENT.match(line):
            return
        elif FAILURE.search(line) and not any(text in line for text in HARMLESS):
            self.failed_at = self.failed_at or time.monotonic()
            prefix = PREFIX.match(line)
            ranks, text = (prefix[1].strip(), line[prefix.end() :]) if prefix else ("", line)
            self._failures[f"{f'[{ranks}] ' if ranks else ''}{text[:LINE]}"] += 1

    def errors(self) -> list[str]:
        """The failures, each with how often it was reported."""
        return [f"{count}x {text}" for text, count in self._failures.items()][:SHOWN]
