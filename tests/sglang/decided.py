"""What the ranks of a server have decided, as they wrote it down: `ISORADIX_JOURNAL`."""

from dataclasses import dataclass, field
from pathlib import Path

from isoradix import Control, Record, read_frame, read_records
from isoradix.journal.folder import find
from isoradix.journal.reader import Decisions, Frame

STATES = ("closed", "open", "trial")


@dataclass
class Decided:
    """Of one rank, and so of each."""

    records: list[Record] = field(default_factory=list)
    controls: list[Control] = field(default_factory=list)

    def told(self, kind: str, last: int) -> list[tuple[int, int, int]]:
        """Records of a kind, with their steps, up to a step."""
        return [(each.step, each.a, each.b) for each in self.records if each.kind == kind and each.step <= last]

    @property
    def breaker(self) -> list[str]:
        """The states of the breaker, one after another."""
        return [STATES[record.a] for record in self.records if record.kind == "breaker"]

    @property
    def given_up(self) -> set[int]:
        """Operations that were ended before they were done."""
        return {record.a for record in self.records if record.kind == "cancel"}

    @property
    def aborted(self) -> set[int]:
        """Those of them that the leader has aborted: prefetches, for a request that left."""
        return self.given_up & {one.operation for one in self.controls if one.kind == "abort" and one.operation}


def decided(folder: Path, ranks: int) -> Decided:
    """What all ranks of the one run in a folder have decided alike, step by step."""
    (group,) = find(folder)
    assert group.ranks == list(range(ranks))
    of_ranks = []
    for journal in group.journals:
        of_rank = Decided()
        for entry in journal.entries():
            if isinstance(entry, Decisions):
                of_rank.records += read_records(entry.data)
            elif isinstance(entry, Frame):
                of_rank.controls += read_frame(entry.data).controls
        of_ranks.append(of_rank)
    one, *others = of_ranks
    last = min(of_rank.records[-1].step for of_rank in of_ranks)  # a server ends its ranks within a few idle steps
    for other in others:
        for kind in ("breaker", "cancel"):
            of = [rank.told(kind, last) for rank in (one, other)]
            assert of[0] == of[1], kind
        assert other.aborted == one.aborted
    return one
