"""Starts the ranks of a run as processes of their own, hears what they say, and ends what does not end by itself."""

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

import msgspec

from isoradix.cluster.job import Job, Task
from isoradix.cluster.keep import Keeper
from isoradix.cluster.result import Message, MessageReader, Progress, RankFailure, RankResult, Ready
from isoradix.consensus.waits import default_folder

# beside the fatal threshold: what a rank takes to notice, to close its threads, and to say so; and then to exit
_START_S: Final = 120.0
"""Within which all ranks have loaded what they need, beside the fatal threshold."""
_GRACE_S: Final = 8.0
# where all that have ended hold what is left at fault: time to say why, if it still can
_BLAMED_GRACE_S: Final = 3.0
_ANSWER_S: Final = 0.5
_LOOK_S: Final = 0.2
# a process whose pipe is closed is as good as gone
_REAP_S: Final = 0.01
_READ_BYTES: Final = 1 << 20
_LAST_WORDS: Final = 4000


@dataclass
class Outcome:
    """What became of a run."""

    job: Job
    results: dict[int, RankResult] = field(default_factory=dict)
    failures: dict[int, RankFailure] = field(default_factory=dict)
    killed: list[int] = field(default_factory=list)
    """Ranks that the launcher ended, because they did not end by themselves."""
    started_ns: int = 0
    wall_s: float = 0.0


class _Rank:
    """One worker's process and pipes."""

    def __init__(self, task: Task) -> None:
        self.rank = task.rank
        self.reader = MessageReader()
        self.requests = 0
        self.exit_due: float | None = None
        """Of one whose pipe is closed: when its process is to be gone."""
        self.ended = False
        self.log_path = Path(task.folder) / f"rank-{task.rank}.log"
        self.log: IO[bytes] = self.log_path.open("w+b")
        self.outbox, writing = os.pipe()
        command = [sys.executable, "-m", "isoradix.cluster.worker", str(writing)]
        # OpenMP's threads of several ranks would only get into each other's way
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=self.log,
                stderr=self.log,
                pass_fds=(writing,),
                env=environment,
                start_new_session=True,  # Ctrl-C of a terminal goes to the launcher alone
            )
        finally:
            os.close(writing)
        self.ready = False
        self.heard = time.monotonic()
        """When it told anything last: a leader does several times a second."""
        self.tell(msgspec.json.encode(task))

    def tell(self, line: bytes) -> None:
        """A line on its standard input; to a process that has ended there is nothing to tell."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line + b"\n")
            self.process.stdin.flush()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    def close(self) -> None:
        """After its end."""
        self.process.wait()
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        os.close(self.outbox)
        self.log.close()
        # a rank that was killed leaves its wait board
        with contextlib.suppress(OSError):
            (default_folder() / f"{self.process.pid}-rank{self.rank}.waits").unlink(missing_ok=True)

    def last_words(self) -> str:
        """The end of what it printed."""
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-_LAST_WORDS:].strip()


class Launcher:
    """One run.

    Args:
        job: what is asked for.
        progress: hears now and then how many requests have been admitted.
        evidence: a folder that keeps what the ranks leave; None for none.
    """

    def __init__(self, job: Job, progress: Callable[[int], None] | None = None, evidence: Path | None = None) -> None:
        self._job, self._progress = job, progress
        self._keeper = None if evidence is None else Keeper(evidence, job.report_ms)
        self._topology = job.topology
        self._outcome = Outcome(job)
        self._ranks: dict[int, _Rank] = {}
        self._deadlines: dict[int, float] = {}
        self._begun = False

    def run(self) -> Outcome:
        """Runs to the end of every rank. Whatever happens, no process is left.

        Raises:
            KeyboardInterrupt: interrupted.
        """
        started = time.monotonic()
        self._outcome.started_ns = time.monotonic_ns()
        with tempfile.TemporaryDirectory(prefix="isoradix-") as folder:
            try:
                port = _free_port()
                for rank in range(self._topology.ranks):
                    self._ranks[rank] = _Rank(Task(self._job, rank, port, folder))
                self._listen()
            finally:
                for one in self._ranks.values():
                    one.kill()
                for one in self._ranks.values():
                    one.close()
                if self._keeper is not None:
                    self._keeper.keep({rank: one.log_path for rank, one in self._ranks.items()})
        self._outcome.wall_s = time.monotonic() - started
        return self._outcome

    def _listen(self) -> None:
        with selectors.DefaultSelector() as selector:
            for one in self._ranks.values():
                selector.register(one.outbox, selectors.EVENT_READ, one)
            while left := [one for one in self._ranks.values() if not one.ended]:
                exiting = [one for one in left if one.exit_due is not None]
                for key, _ in selector.select(_REAP_S if exiting else _LOOK_S):
                    data = os.read(key.fd, _READ_BYTES)
                    for message in key.data.reader.feed(data):
                        self._hear(key.data, message)
                    if not data:
                        selector.unregister(key.fd)
                        self._close(key.data)
                for one in exiting:
                    if (code := one.process.poll()) is not None:
                        self._end(one, code)
                if self._keeper is not None:
                    self._keeper.look({one.rank: one.process.pid for one in left})
                self._end_what_hangs()

    def _hear(self, one: _Rank, message: Message) -> None:
        one.heard = time.monotonic()
        match message:
            case Ready():
                one.ready = True
                if all(each.ready for each in self._ranks.values()):
                    self._begin()
            case Progress(requests):
                one.requests = requests
            case RankResult():
                one.requests = message.requests if self._topology.place(one.rank).leads else 0
                self._outcome.results[one.rank] = message
            case RankFailure():
                self._outcome.failures[one.rank] = message
        if self._progress is not None:
            self._progress(sum(each.requests for each in self._ranks.values()))

    def _begin(self) -> None:
        self._begun = True
        for each in self._ranks.values():
            each.heard = time.monotonic()
            each.tell(b"begin")

    def _close(self, one: _Rank) -> None:
        """Its pipe is closed: the process has ended, or is about to."""
        one.exit_due = time.monotonic() + _GRACE_S
        if not all(each.ready for each in self._ranks.values()):
            self._begin()  # without this one: the others say what they miss

    def _end(self, one: _Rank, code: int) -> None:
        """Its process is gone."""
        one.ended = True
        if one.rank not in self._outcome.results and one.rank not in self._outcome.failures:
            self._outcome.failures[one.rank] = self._obituary(one, code)
        # whoever is left of its domain notices within the fatal threshold
        domain, now = self._topology.place(one.rank).domain, time.monotonic()
        due = self._deadlines.setdefault(domain, now + self._job.fatal_ms / 1e3 + _GRACE_S)
        if self._blamed(domain):
            self._deadlines[domain] = min(due, now + _BLAMED_GRACE_S)

    def _blamed(self, domain: int) -> bool:
        """Whether every rank that has ended in error names all that are left."""
        members = [self._topology.rank_of(domain, member) for member in range(self._topology.members)]
        left = {rank for rank in members if not self._ranks[rank].ended}
        ended = [self._outcome.failures.get(rank) for rank in members if rank not in left]
        return bool(left) and all(failure is not None and left <= set(failure.named) for failure in ended)

    def _obituary(self, one: _Rank, code: int) -> RankFailure:
        if one.rank in self._outcome.killed:
            what = "did not end by itself after the others had; killed by the launcher"
            error, message = "Hung", f"{what}\n{one.last_words()}"
        elif code < 0:
            known = {int(each): each.name for each in signal.Signals}
            error, message = "Died", f"killed by {known.get(-code, f'signal {-code}')}"
        else:
            words = one.last_words()
            error, message = "Died", f"ended with code {code}" + (f": {words.splitlines()[-1]}" if words else "")
        return RankFailure(rank=one.rank, error=error, message=message, at_ns=time.monotonic_ns())

    def _look_for_silence(self, now: float) -> None:
        """A domain whose leader tells nothing any more, or a start that takes too long, has nobody else to end it."""
        patience = self._job.fatal_ms / 1e3 + (_GRACE_S if self._begun else _START_S)
        for domain in range(self._topology.dp):
            leader = self._ranks[self._topology.rank_of(domain, 0)]
            quiet = min(each.heard for each in self._ranks.values()) if not self._begun else leader.heard
            if not leader.ended and now - quiet > patience:
                self._deadlines.setdefault(domain, now)

    def _end_what_hangs(self) -> None:
        now = time.monotonic()
        self._look_for_silence(now)
        for one in self._ranks.values():
            due = one.exit_due or self._deadlines.get(self._topology.place(one.rank).domain)
            if not one.ended and due is not None and now > due and one.rank not in self._outcome.killed:
                self._outcome.killed.append(one.rank)
                one.process.send_signal(signal.SIGUSR1)  # it writes down where its threads are
                time.sleep(_ANSWER_S)
                one.kill()


def _free_port() -> int:
    """A port for the ranks to meet at. If another process takes it first, the run ends with an error that says so."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
