"""The journals in a folder, by the run, epoch and domain in which their ranks were to agree."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isoradix import InvalidInputError
from isoradix.journal import layout
from isoradix.journal.reader import Journal, read_head


@dataclass(frozen=True)
class Group:
    """Ranks that were to agree, as far as they left journals."""

    run: str
    epoch: int
    domain: int
    journals: tuple[Journal, ...]
    missing: tuple[int, ...]
    """Ranks that left none."""

    @property
    def name(self) -> str:
        """For people."""
        return f"run {self.run}, epoch {self.epoch}, domain {self.domain}"

    @property
    def ranks(self) -> list[int]:
        return [journal.rank for journal in self.journals]


def find(folder: Path) -> list[Group]:
    """The groups in a folder and in its folders, oldest run first. Files that are no journals are left alone; one whose
    head was never written is as good as missing.

    Raises:
        InvalidInputError: there is no such folder, no journal in it, or a journal that cannot be read.
    """
    if not folder.is_dir():
        what = f"{str(folder)!r} is {'a file' if folder.exists() else 'not there'}, and no folder of journals"
        raise InvalidInputError(f"{what}\nhint: pass the folder that --journal or ISORADIX_JOURNAL named")
    suffix = f"*{layout.SUFFIX}"
    found = grouped(sorted({*folder.glob(suffix), *folder.glob(f"*/{suffix}")}))
    if not found:
        what = f"{str(folder)!r} has no journals"
        raise InvalidInputError(
            f"{what}\nhint: isoradix replay --journal DIR writes some, and so does ISORADIX_JOURNAL"
        )
    return found


def grouped(paths: Iterable[Path]) -> list[Group]:
    """The groups of segments, oldest run first; a segment whose head was never written is as good as missing.

    Raises:
        InvalidInputError: a file is no journal, or cannot be read.
    """
    found: dict[tuple[str, int, int], dict[int, list[tuple[Path, dict[str, Any]]]]] = defaultdict(dict)
    for path in paths:
        if path.stat().st_size <= layout.EMPTY_BYTES:
            continue
        head = read_head(path)
        ranks = found[head["run"], head["epoch"], head["domain"]]
        ranks.setdefault(head["rank"], []).append((path, head))
    return [_group(key, ranks) for key, ranks in sorted(found.items())]


def _group(key: tuple[str, int, int], ranks: dict[int, list[tuple[Path, dict[str, Any]]]]) -> Group:
    journals = tuple(Journal([path for path, _ in ranks[rank]]) for rank in sorted(ranks))
    members = set(journals[0].head.get("members") or ranks)
    return Group(*key, journals, tuple(sorted(members - ranks.keys())))
