"""What a journal costs: `isoradix replay` of a trace on TP 2 x PP 2, with `--journal` beside without.

    python -m benches.journals TRACE
    python -m benches.journals TRACE --limit 1500 --pairs 9 --json

Both runs of a pair are there at once and take turns of a tenth of a second, all processes of the other one stopped: a
machine that shares its processors with others is faster in one second than in the next, and so it is for both. What
counts is processor time, without start-up: four ranks have work for more than two cores, so there it is the time of the
steps, too. `journal` is what the schedulers' threads take more, and the writing threads take, in parts of all processor
time of the run without: no other thread has to do with a journal. `cpu` is the ratio of the processor time of all
threads; those of the plane take a tenth more or less from run to run. Medians count. Linux only.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

TURN_S: Final = 0.1


class Times(NamedTuple):
    """Milliseconds of processor time."""

    cpu_ms: float
    scheduler_ms: float
    journal_ms: float


class Pair(NamedTuple):
    without: Times
    with_journal: Times
    journal_bytes: int

    @property
    def journal(self) -> float:
        """What a journal takes, in parts of a run without."""
        more = self.with_journal.scheduler_ms - self.without.scheduler_ms
        return (more + self.with_journal.journal_ms) / self.without.cpu_ms

    @property
    def cpu(self) -> float:
        return self.with_journal.cpu_ms / self.without.cpu_ms


class Run:
    """A replay, stopped between its turns."""

    def __init__(self, given: argparse.Namespace, out: Path, journal: Path | None) -> None:
        command = [
            *(sys.executable, "-m", "isoradix.cli", "replay", str(given.trace), "--limit", str(given.limit)),
            *("--tp", "2", "--pp", "2", "--capacity", given.capacity, "--host-capacity", given.host_capacity),
            *("--json", *(() if journal is None else ("--journal", str(journal)))),
        ]
        self._out = out
        with out.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output)
        self._signal(signal.SIGSTOP)

    def turn(self) -> bool:
        """Goes on for a while, if it has not ended."""
        if self._process.poll() is not None:
            return False
        self._signal(signal.SIGCONT)
        try:
            self._process.wait(TURN_S)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGSTOP)
            return True
        return False

    def _signal(self, number: int) -> None:
        """To the launcher and its ranks, which have sessions of their own."""
        pid = self._process.pid
        with suppress(FileNotFoundError):
            ranks = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            for one in (pid, *map(int, ranks)):
                with suppress(ProcessLookupError):
                    os.kill(one, number)

    def times(self) -> Times:
        """Of all its ranks."""
        if self._process.returncode:
            sys.exit(f"a replay ended with {self._process.returncode}")
        ranks = json.loads(self._out.read_text())["ranks"]
        return Times(*(sum(rank[name] for rank in ranks) for name in Times._fields))

    def kill(self) -> None:
        if self._process.poll() is None:
            self._signal(signal.SIGKILL)
        self._process.wait()


def pair(given: argparse.Namespace) -> Pair:
    with tempfile.TemporaryDirectory(dir=given.folder) as made:
        folder = Path(made)
        runs = []
        try:
            runs.append(Run(given, folder / "without", None))
            runs.append(Run(given, folder / "with", folder / "journals"))
            while [run for run in runs if run.turn()]:
                pass
        finally:
            for run in runs:
                run.kill()
        written = sum(path.stat().st_size for path in folder.glob("journals/*/*.journal"))
        without, with_journal = (run.times() for run in runs)
        return Pair(without, with_journal, written)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path, help="a Mooncake trace")
    parser.add_argument("--limit", type=int, default=1500, help="requests of each run")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs")
    parser.add_argument("--capacity", default="4M", help="tokens on the device")
    parser.add_argument("--host-capacity", default="4M", help="tokens in host memory")
    parser.add_argument("--folder", default=None, help="where the journals are written, for a while")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    pairs = []
    for number in range(given.pairs):
        pairs.append(found := pair(given))
        print(f"pair {number + 1}: journal {found.journal:.3f}, cpu {found.cpu:.3f}", file=sys.stderr, flush=True)
    figures = {name: [getattr(found, name) for found in pairs] for name in ("journal", "cpu")}
    if given.json:
        print(json.dumps({"pairs": [found._asdict() for found in pairs], **figures}, indent=2, default=list))
        return
    print(f"{given.pairs} pairs of {given.limit} requests, journals of {pairs[-1].journal_bytes / 2**20:.0f} MiB")
    sides = [found.without for found in pairs], [found.with_journal for found in pairs]
    for name in Times._fields:
        before, after = (statistics.median(getattr(run, name) for run in runs) for runs in sides)
        print(f"{name:12} {before:7.0f} ms without, {after:7.0f} ms with a journal")
    for name, values in figures.items():
        print(f"{name:12} {statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})")


if __name__ == "__main__":
    main()
