"""The figures of a run that its table, its JSON and its report show."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from isoradix.cluster.launcher import Outcome
from isoradix.cluster.result import RankResult
from isoradix.cluster.steps import PHASES, Column
from isoradix.cluster.verdict import findings
from isoradix.replay.stats import OperationStats


@dataclass(frozen=True)
class Summary:
    """Of a whole run: what is equal on all ranks of a domain is taken from one of them."""

    outcome: Outcome

    @cached_property
    def results(self) -> list[RankResult]:
        """Of the ranks that came to their end."""
        return [self.outcome.results[rank] for rank in sorted(self.outcome.results)]

    @cached_property
    def domains(self) -> list[RankResult]:
        """One rank of each domain, as far as one came to its end."""
        topology = self.outcome.job.topology
        first: dict[int, RankResult] = {}
        for one in self.results:
            first.setdefault(topology.place(one.rank).domain, one)
        return [first[domain] for domain in sorted(first)]

    @cached_property
    def findings(self) -> list[str]:
        return findings(self.outcome.job.topology, self.outcome.results, self.outcome.failures)

    @cached_property
    def served(self) -> dict[str, Column]:
        """Lengths, and hits by tier, of all requests; the domains take turns, as the requests did."""
        logs = [one.requests_log() for one in self.domains]
        turns = [np.arange(len(log["lengths"])) for log in logs]
        order = np.argsort(np.concatenate([*turns, np.zeros(0)]), kind="stable")
        names, empty = ("lengths", "device", "host", "storage"), np.zeros(0, dtype=np.int64)
        return {name: np.concatenate([*(log[name] for log in logs), empty])[order] for name in names}

    @property
    def requests(self) -> int:
        return sum(one.requests for one in self.domains)

    @property
    def tokens(self) -> int:
        return int(self.served["lengths"].sum())

    @property
    def device_hits(self) -> int:
        return int(self.served["device"].sum())

    @property
    def host_hits(self) -> int:
        return int(self.served["host"].sum())

    @property
    def storage_hits(self) -> int:
        return int(self.served["storage"].sum())

    @property
    def hit_rate(self) -> float:
        return (self.device_hits + self.host_hits + self.storage_hits) / self.tokens if self.tokens else 0.0

    @property
    def checked_tokens(self) -> int:
        """Tokens whose bytes were compared, over all ranks and layers."""
        return sum(one.checked_tokens for one in self.results)

    @property
    def hitseqs(self) -> list[str]:
        return [one.hitseq for one in self.domains]


def phases(result: RankResult, names: Sequence[str] = (*PHASES, "step")) -> dict[str, OperationStats]:
    """Where the time of a rank's steps went."""
    log = result.step_log()
    return {name: OperationStats.of(log[name]) for name in names}


def place_name(outcome: Outcome, rank: int) -> str:
    """For example "stage 1, tp 0", with what there is more than one of."""
    topology = outcome.job.topology
    place = topology.place(rank)
    parts = [("replica", topology.dp, place.domain), ("stage", topology.pp, place.stage)]
    parts += [("cp", topology.cp, place.cp), ("tp", topology.tp, place.tp)]
    return ", ".join(f"{name} {value}" for name, size, value in parts if size > 1) or "alone"
