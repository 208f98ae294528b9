"""All ranks of a deployment, as processes of this machine."""

import multiprocessing
import queue
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import randrange
from time import monotonic
from typing import Any

from isoradix import DivergenceError, IsoradixError
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
        if len({report.digest for report in reports}) > 1:
            raise DivergenceError("the ranks have parted: their digests differ at the end")
        return cls(reports, reports[0].requests, next((one.distributions for one in reports if one.distributions), {}))

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
    ranks = range(settings.topology.ranks)
    return Outcome.of(serve({f"rank {rank}": partial(Rank, settings, rank, *given) for rank in ranks}, tell))


def serve(ranks: Mapping[str, Callable[[], Rank]], tell: Callable[[Beat], None]) -> list[Report]:
    """What ranks report, each made in a process of its own. The first that fails ends all."""
    answers: Any = processes.Queue()
    started = {name: processes.Process(target=_main, args=(name, ranks[name], answers), daemon=True) for name in ranks}
    reports, last_words = dict[str, Report](), float("inf")
    for process in started.values():
        process.start()
    try:
        while len(reports) < len(ranks):
            if dead := [name for name in ranks if started[name].exitcode]:
                last_words = min(last_words, monotonic() + 1)
                if monotonic() > last_words:
                    raise IsoradixError(f"{dead[0]} ended without a word, with {started[dead[0]].exitcode}")
            with suppress(queue.Empty):
                match answers.get(timeout=1):
                    case (name, Report() as report):
                        reports[name] = report
                    case Beat() as beat:
                        tell(beat)
                    case (name, error):
                        raise IsoradixError(f"{name} failed: {error}") from error
    finally:
        for process in started.values():
            process.kill()
    return [reports[name] for name in ranks]


def _main(name: str, make: Callable[[], Rank], answers: Any) -> None:
    """A rank's process: beats while it serves, and its report, or the error that ended it, go to a queue."""
    try:
        answers.put((name, make().serve(answers.put)))
    except Exception as error:
        answers.put((name, error))
        raise


def free_address() -> str:
    with suppress(OSError), socket.create_server(("127.0.0.1", randrange(16_384, 32_768))) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"
    return free_address()  # those above are taken by connections, which may come before a rank listens
