"""All ranks of a deployment, as processes of this machine."""

import multiprocessing
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from minillm.rank import Beat, Rank, Report
from minillm.requests import Request, Workload
from minillm.settings import Settings

_LONGEST_S = 600.0
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["minillm.rank"])  # torch is loaded once


@dataclass(frozen=True)
class Outcome:
    """What a run came to: what its ranks report, and the requests in the order in which they ended."""

    reports: list[Report]
    requests: list[Request]

    @property
    def answers(self) -> dict[tuple[int, int], list[int]]:
        return {(each.user, each.turn): each.tokens[each.prompt :] for each in self.requests}

    @property
    def distributions(self) -> dict[tuple[int, int], list[Any]]:
        """Of the rank that chooses."""
        return next(report.distributions for report in reversed(self.reports) if report.distributions)

    def hit_rates(self) -> list[float]:
        """Share of the prompts' tokens that was found in some tier, round by round."""
        rounds = range(1 + max(request.turn for request in self.requests))
        turns = [[request for request in self.requests if request.turn == turn] for turn in rounds]
        return [sum(sum(each.hits) for each in turn) / sum(each.prompt for each in turn) for turn in turns]


def run(settings: Settings, workload: Workload, tell: Callable[[Beat], None] = lambda beat: None) -> Outcome:
    """Serves a workload on as many processes as the topology has ranks."""
    answers: Any = _processes.Queue()
    addresses = tuple(f"127.0.0.1:{_free_port()}" for _ in range(2))
    ranks = [
        _processes.Process(target=_main, args=(rank, settings, addresses, workload, answers), daemon=True)
        for rank in range(settings.topology.ranks)
    ]
    reports: list[Report] = []
    for process in ranks:
        process.start()
    try:
        while len(reports) < len(ranks):
            match answers.get(timeout=_LONGEST_S):
                case Report() as report:
                    reports.append(report)
                case Beat() as beat:
                    tell(beat)
                case (int(rank), error):
                    raise RuntimeError(f"rank {rank} failed: {error}") from error
        for process in ranks:
            process.join()
    finally:
        for process in ranks:
            process.kill()
    reports.sort(key=lambda report: report.rank)
    assert len({report.digest for report in reports}) == 1, "the ranks have parted"
    return Outcome(reports, reports[0].requests)


def _main(rank: int, settings: Settings, addresses: tuple[str, str], workload: Workload, answers: Any) -> None:
    """A rank's process: beats while it serves, and its report, or the error that ended it, go to a queue."""
    try:
        answers.put(Rank(settings, rank, *addresses, workload).serve(answers.put))
    except Exception as error:
        answers.put((rank, error))
        raise


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])
