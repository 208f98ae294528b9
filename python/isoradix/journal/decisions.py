"""Decisions of several ranks side by side: the first that differs, in words, and who is at fault."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np

from isoradix import Record, read_records

RECORD_BYTES: Final = 64
DIFF_HINT: Final = "where ranks keep journals, isoradix diff DIR names the input that differs"
V = TypeVar("V", bound=Hashable)

# what `a`, `b` and `content` are, by the kind of a record: docs/journal.md
_FIELDS: Final[Mapping[str, tuple[str, str, str]]] = {
    "start": ("page_size", "bigram", "policy"),
    "match": ("hit", "key", "namespace"),
    "insert": ("cached", "key", "content"),
    "evict": ("tokens", "", "content"),
    "evicted": ("asked", "freed", ""),
    "remove_namespace": ("tokens", "", "namespace"),
    "reset": ("tokens", "", ""),
    "demote": ("tokens", "", "content"),
    "evict_host": ("tokens", "", "content"),
    "issue": ("operation", "pages", "content"),
    "decline": ("pages", "", "kind"),
    "commit": ("operation", "pages", "content"),
    "deliver": ("operation", "pages", "content"),
    "settle": ("operation", "pages", ""),
    "cancel": ("operation", "kept", ""),
    "return": ("operation", "first_page", ""),
    "over": ("operation", "", ""),
    "backed": ("tokens", "", "content"),
    "load_back": ("loaded", "above", ""),
    "prefetch": ("tokens", "above", "content"),
    "ledger": ("occupied", "capacity", "operations"),
    "stored": ("tokens", "", ""),
    "give_up": ("tokens", "", "content"),
    "tiers": ("top", "before", ""),
    "breaker": ("state", "before", ""),
    "attachment": ("what", "", ""),
}
_HASHES: Final = ("content", "namespace", "policy", "kind", "operations")


def groups(values: Mapping[int, V]) -> list[tuple[V, tuple[int, ...]]]:
    """Equal values with their ranks: the largest group first, of equal ones that of the lowest rank."""
    ranks: dict[V, list[int]] = {}
    for rank in sorted(values):
        ranks.setdefault(values[rank], []).append(rank)
    return [(value, tuple(of)) for value, of in sorted(ranks.items(), key=lambda one: (-len(one[1]), one[1]))]


def minority(values: Mapping[int, V]) -> tuple[int, ...]:
    """The ranks that more than half of them contradict; none where there is no such half."""
    first = groups(values)[0][1]
    return tuple(sorted(values.keys() - set(first))) if 2 * len(first) > len(values) else ()


def ranks_named(ranks: Sequence[int]) -> str:
    """`rank 3`, `ranks 0,1,2`."""
    return ("rank " if len(ranks) == 1 else "ranks ") + ",".join(map(str, ranks))


def described(record: Record) -> str:
    """A decision in one line: `insert node=912 cached=64 key=1024 content=0x1f...`."""
    names = _FIELDS.get(record.kind, ("", "", ""))
    parts = [record.kind, *([f"node={record.node}"] if record.node else [])]
    for name, value in zip(names, (record.a, record.b, record.content), strict=True):
        if name:
            parts.append(f"{name}={value:#018x}" if name in _HASHES else f"{name}={value}")
    return " ".join(parts)


def apart(records: Sequence[Record]) -> list[str]:
    """Different decisions in words, with as much of each as it takes to tell them apart."""
    texts = [described(record) for record in records]
    if len(set(texts)) < len(texts):
        texts = [f"{text} at step {one.step} seq {one.seq}" for text, one in zip(texts, records, strict=True)]
    if len(set(texts)) < len(texts):
        texts = [f"{text} with digest {one.digest:#018x}" for text, one in zip(texts, records, strict=True)]
    return texts


def as_json(record: Record) -> dict[str, Any]:
    """All fields of a decision; hashes as hexadecimal text."""
    plain = {name: getattr(record, name) for name in ("step", "seq", "kind", "resumed", "node", "a", "b")}
    return {**plain, "content": f"{record.content:016x}", "digest": f"{record.digest:016x}", "text": described(record)}


@dataclass(frozen=True)
class Decided:
    """The first decision that differs: what each rank decided at that place."""

    by_rank: Mapping[int, Record]

    @property
    def step(self) -> int:
        return min(record.step for record in self.by_rank.values())

    @property
    def seq(self) -> int:
        return min(record.seq for record in self.by_rank.values())

    @property
    def culprits(self) -> tuple[int, ...]:
        """Those whom more than half contradict."""
        return minority(self.by_rank)

    def groups(self) -> list[tuple[Record, tuple[int, ...]]]:
        """The smallest group first: it is the likelier culprit."""
        return groups(self.by_rank)[::-1]

    def __str__(self) -> str:
        """`divergence at step 200 seq 4711: rank 3 decided ..., ranks 0,1,2 decided ...; last common step 199`."""
        groups = self.groups()
        texts = apart([record for record, _ in groups])
        parts = (f"{ranks_named(ranks)} decided {text}" for text, (_, ranks) in zip(texts, groups, strict=True))
        return f"divergence at step {self.step} seq {self.seq}: {', '.join(parts)}; last common step {self.step - 1}"


def first_unequal(records: Mapping[int, bytes]) -> Decided | None:
    """Where the records of several ranks are not equal any more; None if they are as far as they go.

    A rank that has none left there is left out: it has not come so far, or has ended.
    """
    for at in range(0, max(map(len, records.values()), default=0), RECORD_BYTES):
        values = {rank: data[at : at + RECORD_BYTES] for rank, data in records.items() if at < len(data)}
        if len(set(values.values())) > 1:
            return Decided({rank: read_records(value)[0] for rank, value in values.items()})
    return None


def of_step(records: bytes, step: int) -> bytes:
    """Those of one step."""
    words = np.frombuffer(records, dtype="<u8").reshape(-1, RECORD_BYTES // 8)
    return bytes(words[words[:, 0] == step].tobytes())


def closes_step(records: bytes) -> bool:
    """Whether the last of them is the one with which a step is closed."""
    last = read_records(records[-RECORD_BYTES:])
    return bool(last) and last[0].kind == "ledger"
