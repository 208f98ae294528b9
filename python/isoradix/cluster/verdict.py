"""Whether the ranks of a run agreed: what is compared, and what was found."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from isoradix.cluster.result import RankFailure, RankResult
from isoradix.consensus.topology import Topology


def findings(topology: Topology, results: Mapping[int, RankResult], failures: Mapping[int, RankFailure]) -> list[str]:
    """What is wrong, in plain words; nothing where every rank came to its end and all agree."""
    found = _early(failures)
    found += [f"rank {rank} sent no result" for rank in range(topology.ranks) if rank not in {*results, *failures}]
    for domain in range(topology.dp):
        ranks = [topology.rank_of(domain, member) for member in range(topology.members)]
        found += _domain([results[rank] for rank in ranks if rank in results])
    found += [f"rank {rank} observed: {_first_line(one.observed)}" for rank, one in results.items() if one.observed]
    return found + [f"rank {rank}: {one.finding}" for rank, one in results.items() if one.finding is not None]


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _early(failures: Mapping[int, RankFailure]) -> list[str]:
    """Who ended early, and whom they name."""
    if not failures:
        return []
    named = Counter(rank for one in failures.values() for rank in one.named)
    ended = ", ".join(f"{rank} by {failures[rank].error}" for rank in sorted(failures))
    blamed = [f"rank {rank} is named by {count}" for rank, count in sorted(named.items())]
    return [f"{'rank' if len(failures) == 1 else 'ranks'} ended early: {'; '.join([ended, *blamed])}"]


def _domain(results: Sequence[RankResult]) -> list[str]:
    """Ranks of one domain: everything here is equal on all of them."""
    if len(results) < 2:
        return []
    found = _digests(results)
    found += _unequal(results, "hitseq", [one.hitseq for one in results])
    found += _unequal(results, "tree digest", [f"{one.tree_digest:016x}" for one in results])
    found += _unequal(results, "requests", [one.requests for one in results])
    found += _unequal(results, "changes of the breaker", [str(one.breaker) for one in results])
    found += _unequal(results, "attachments", [str([each[:2] for each in one.attachments]) for one in results])
    found += _unequal(results, "votes", [int(one.counts["votes"]) for one in results])
    return found + _unequal(results, "frames", [int(one.counts["frames"]) for one in results])


def _unequal(results: Sequence[RankResult], what: str, values: Sequence[object]) -> list[str]:
    if all(value == values[0] for value in values):
        return []
    shown = ", ".join(f"rank {one.rank} {value}" for one, value in zip(results, values, strict=True))
    return [f"{what} differ: {shown}"]


def _digests(results: Sequence[RankResult]) -> list[str]:
    """The decision digests at every step; of steps that differ the first is named."""
    series = [np.frombuffer(one.digests, dtype="<u8") for one in results]
    found = _unequal(results, "steps", [len(one) for one in series])
    common = min(len(one) for one in series)
    table = np.stack([one[:common] for one in series])
    parted = np.flatnonzero((table != table[0]).any(axis=0))
    if not len(parted):
        return found
    first = int(parted[0])
    shown = ", ".join(
        f"rank {one.rank} {int(digest):016x}" for one, digest in zip(results, table[:, first], strict=True)
    )
    return [*found, f"decision digests differ from step {first + 1} on: {shown}"]
