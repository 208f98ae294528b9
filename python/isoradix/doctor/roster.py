"""Which rank a label means: servers write `PP1 TP0`, this package numbers all ranks of a deployment."""

import re
from collections.abc import Sequence
from typing import Final

_LABELS_MAX: Final = 8_192
"""More than ranks that there can be, each under two names."""
_PART: Final = re.compile(r"(ATTN_[A-Z]+|[A-Z]+?)[_ ]?(\d+)")
_NUMBER: Final = re.compile(r"\d{1,6}")
_IN_NAME: Final = re.compile(r"(?<![a-z])rank[-_ .]?(\d{1,6})(?!\d)", re.IGNORECASE)
_LABELS_IN_NAME: Final = re.compile(
    r"(?<![A-Za-z])((?:DP|PP|TP)\d{1,4}(?:[-_ ](?:DP|PP|TP|EP)\d{1,4})*)(?!\d)", re.IGNORECASE
)


def label_in(name: str) -> str:
    """The label in the name of a file or a process: `rank-0003.log`, `pp1_tp0.txt`, `sglang::scheduler_PP1_TP0`.

    Returns:
        `3`, `PP1 TP0`; empty if there is none.
    """
    name = name.replace("scheduler_", "scheduler ")
    if found := _LABELS_IN_NAME.search(name):
        return re.sub(r"[-_ ]", " ", found[1].upper())
    found = _IN_NAME.search(name)
    return str(int(found[1])) if found else ""


class Roster:
    """All labels that were seen. The number of a rank follows from its stage and its place in it."""

    def __init__(self) -> None:
        self._parts: dict[str, dict[str, int]] = {}
        self._lanes = 0
        self._widest = 1
        self._domains: list[tuple[int, ...]] = []

    def see(self, label: str) -> None:
        """Notes a label."""
        if label and label not in self._parts and len(self._parts) < _LABELS_MAX:
            number = _NUMBER.fullmatch(label)
            found = {"RANK": int(label)} if number else {name: int(value) for name, value in _PART.findall(label)}
            self._parts[label] = found
            self._widest = max(self._widest, 1 + found.get("TP", 0))

    def see_domain(self, members: Sequence[int], lanes: int) -> None:
        """Notes which ranks decide together, in the order of their members, and how many ranks a stage has."""
        if tuple(members) not in self._domains:
            self._domains.append(tuple(members))
        self._lanes = lanes
        for rank in members:
            self.see(str(rank))

    def rank(self, label: str) -> int | None:
        """The rank that a label means; None if it says nothing of a rank."""
        parts = self._parts.get(label, {})
        if "RANK" in parts:
            return parts["RANK"]
        if not parts.keys() & {"PP", "TP", "DP"}:
            return None
        lanes = self._lanes or self._widest
        place = parts.get("TP", 0 if "PP" in parts else parts.get("DP", 0))
        return parts.get("PP", 0) * lanes + place

    @property
    def ranks(self) -> list[int]:
        """All that were seen."""
        return sorted({rank for label in self._parts if (rank := self.rank(label)) is not None})

    def of_member(self, rank: int | None, member: int) -> int:
        """The rank that is a member of the domain of another one. Without a journal of it, members are ranks."""
        domains = [one for one in self._domains if rank is None or rank in one]
        if len(domains) == 1 and member < len(domains[0]):
            return domains[0][member]
        return member

    def name(self, rank: int) -> str:
        """For people: `rank 2 (PP1 TP0)`, or `rank 2` if no label says more."""
        told = [label for label, parts in self._parts.items() if "RANK" not in parts and self.rank(label) == rank]
        return f"rank {rank} ({told[0]})" if told else f"rank {rank}"

    def names(self, ranks: Sequence[int]) -> str:
        """`rank 3`, `ranks 0,1,2`."""
        if len(ranks) == 1:
            return self.name(ranks[0])
        return f"ranks {','.join(map(str, ranks))}"
