"""All ranks of a deployment, as processes of this machine."""

import multiprocessing
import queue
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import randrange
from typing import Any

from isoradix import IsoradixError
from minillm.rank import Beat, Rank, Report
from minillm.requests import Request, Workload
from minillm.settings import Settings

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["torch", "isoradix.driver"])  # torch is loaded once


@dataclass(frozen=True)
class Outcome:
    """What a run came to: what its ranks report, and the requests in the order in which they ended."""

    reports: list[Report]
    requests: list[Request]
    distributions: dict[tuple[int, int], list[Any]]

    @classmethod
    def of(cls, reports: list[Report]) -> "Outcome":
        assert len({report.digest for report in reports}) == 1, "the ranks have parted"
        chosen = next((report.distributions for report in reports if report.distributions), {})
        return cls(reports, reports[0].requests, chosen)

    @property
    def answers(self) -> dict[tuple[int, int], list[int]]:
        return {(each.user, each.turn): each.tokens[each.prompt :] for each in self.requests}

    def hit_rates(self) -> list[float]:
        """Share of the prompts' tokens that was found in some tier, round by round."""
        rounds = range(1 + max(request.turn for request in self.requests))
        turns = [[request for request in self.requests if request.turn == turn] for turn in rounds]
        return [sum(sum(each.hits) for each in turn) / sum(each.prompt for each in turn) for turn in turns]


def run(settings: Settings, workload: Workload, tell: Callable[[Beat], None] = lambda beat: None) -> Outcome:
    """Serves a workload on as many processes as the topology has ranks."""
    given = free_address(), free_address(), workload
    return Outcome.of(serve([partial(Rank, settings, rank, *given) for rank in range(settings.topology.ranks)], tell))


def serve(ranks: Sequence[Callable[[], Rank]], tell: Callable[[Beat], None]) -> list[Report]:
    """What ranks report, each made in a process of its own. The first that fails ends all."""
    answers: Any = processes.Queue()
    started = [processes.Process(target=_main, args=(*each, answers), daemon=True) for each in enumerate(ranks)]
    reports: dict[int, Report] = {}
    for process in started:
        process.start()
    try:
        while len(reports) < len(ranks):
            match _next(answers, started):
                case (int(rank), Report() as report):
                    reports[rank] = report
                case Beat() as beat:
                    tell(beat)
                case (int(rank), error):
                    raise IsoradixError(f"rank {rank} failed: {error}") from error
    finally:
        for process in started:
            process.kill()
    return [reports[rank] for rank in range(len(ranks))]


def _next(answers: Any, started: list[Any]) -> Any:
    """What some rank says next. One that was killed says nothing."""
    while True:
        with suppress(queue.Empty):
            return answers.get(timeout=1)
        if dead := [rank for rank, process in enumerate(started) if process.exitcode]:
            raise IsoradixError(f"rank {dead[0]} ended without a word, with {started[dead[0]].exitcode}")


def _main(rank: int, make: Callable[[], Rank], answers: Any) -> None:
    """A rank's process: beats while it serves, and its report, or the error that ended it, go to a queue."""
    try:
        answers.put((rank, make().serve(answers.put)))
    except Exception as error:
        answers.put((rank, error))
        raise


def free_address() -> str:
    with suppress(OSError), socket.create_server(("127.0.0.1", randrange(16_384, 32_768))) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"
    return free_address()  # those above are taken by connections, which may come before a rank listens
