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
    before: Mapping[int, Batch]
    """The batch before it, which was equal; empty if there is none."""

    @property
    def culprits(self) -> tuple[int, ...]:
        """Those whom more than half contradict. A batch that some never ran contradicts nobody: they may be late."""
        shapes = {rank: batch.shape for rank, batch in self.by_rank.items() if batch is not None}
        return () if self.is_missing else minority(shapes)

    @property
    def is_missing(self) -> bool:
        """Whether it is not another one, but was never run by some ranks."""
        return None in self.by_rank.values()

    def __str__(self) -> str:
        """`batch 117: 3072 new tokens on ranks 0,1, never run on ranks 2,3`."""
        groups: dict[str, list[int]] = {}
        for rank, batch in sorted(self.by_rank.items()):
            shown = "never run" if batch is None else f"{batch.extend_tokens} new tokens"
            if batch is not None and self._tokens_are_equal:
                shown += f", {batch.cached_tokens} cached, {batch.sequences} sequences"
            groups.setdefault(shown, []).append(rank)
        return f"batch {self.number}: " + ", ".join(f"{shown} on {_ranks(ranks)}" for shown, ranks in groups.items())

    @property
    def queued_before(self) -> Mapping[int, int]:
        """Waiting requests of each rank at the batch before, if they were unequal by then: then the schedulers had
        parted already, and not by a message that was late."""
        queued = {rank: batch.queued for rank, batch in self.before.items() if batch.queued is not None}
        return queued if len(set(queued.values())) > 1 else {}

    @property
    def _tokens_are_equal(self) -> bool:
        return (
            not self.is_missing
            and len({batch.extend_tokens for batch in self.by_rank.values() if batch is not None}) == 1
        )


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {','.join(map(str, ranks))}"


def queues_shown(by_rank: Mapping[int, int]) -> str:
    """`4 waiting requests on rank 0, 3 on ranks 1,2`."""
    groups: dict[int, list[int]] = {}
    for rank, queued in sorted(by_rank.items()):
        groups.setdefault(queued, []).append(rank)
    first, *others = (f"{queued} on {_ranks(ranks)}" for queued, ranks in groups.items())
    return ", ".join([first.replace(" on ", " waiting requests on ", 1), *others])


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
            before = {rank: batches[at - 1] for rank, batches in by_rank.items()} if at else {}
            return Unequal(at + 1, there, before)
    return None
