"""The prefill batches of all ranks side by side: extend tokens and queue depths.

Batches are aligned by their order in each log and not by time: stages run the same batch at different times.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from isoradix.doctor.evidence import Batch
from isoradix.journal.decisions import minority


@dataclass(frozen=True)
class Unequal:
    """The first batch that is another one on some rank; None where a rank never had it."""

    number: int
    by_rank: Mapping[int, Batch | None]

    @property
    def culprits(self) -> tuple[int, ...]:
        """Those whom more than half contradict."""
        return minority({rank: None if batch is None else batch.shape for rank, batch in self.by_rank.items()})

    @property
    def is_missing(self) -> bool:
        """Whether it is not another one, but was never run by some ranks."""
        return None in self.by_rank.values()

    def __str__(self) -> str:
        """`batch 117: 3072 new tokens on ranks 0,1, none on ranks 2,3`."""
        groups: dict[str, list[int]] = {}
        for rank, batch in sorted(self.by_rank.items()):
            shown = "never run" if batch is None else f"{batch.extend_tokens} new tokens"
            if batch is not None and self._tokens_are_equal:
                shown += f", {batch.cached_tokens} cached, {batch.sequences} sequences"
            groups.setdefault(shown, []).append(rank)
        return f"batch {self.number}: " + "; ".join(f"{shown} on {_ranks(ranks)}" for shown, ranks in groups.items())

    @property
    def _tokens_are_equal(self) -> bool:
        return len({batch.extend_tokens for batch in self.by_rank.values() if batch is not None}) == 1


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {','.join(map(str, ranks))}"


def compare_batches(by_rank: Mapping[int, Sequence[Batch]]) -> Unequal | None:
    """The first batch that differs; None if all are equal as far as they go, or the logs do not begin alike.

    Args:
        by_rank: the batches of each rank, from its first on.
    """
    if len(by_rank) < 2:
        return None
    first = [batches[0].shape for batches in by_rank.values()]
    if len(set(first)) > 1 and min(map(len, by_rank.values())) > 1:
        return None
    longest = max(map(len, by_rank.values()))
    for at in range(longest):
        there = {rank: batches[at] if at < len(batches) else None for rank, batches in by_rank.items()}
        if len({None if batch is None else batch.shape for batch in there.values()}) > 1:
            return Unequal(at + 1, there)
    return None
