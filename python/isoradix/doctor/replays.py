"""What `isoradix replay --json` says of ranks that ended early."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isoradix import InvalidInputError
from isoradix.consensus.topology import RANKS_MAX
from isoradix.doctor.evidence import Evidence, Sign, Source
from isoradix.doctor.logs import LogReader
from isoradix.doctor.text import shortened


def take(evidence: Evidence, path: Path, document: Mapping[str, Any]) -> None:
    """Its ranks, and why those that ended early did.

    Raises:
        InvalidInputError: it is something else.
    """
    try:
        topology = document["topology"]
        if not 1 <= int(topology["ranks"]) <= RANKS_MAX:
            raise ValueError(f"{topology['ranks']} ranks, limits 1 to {RANKS_MAX}")
        lanes = topology["tp"] * topology["cp"] * topology["dp"]
        failures = [(int(one["rank"]), str(one["error"]), str(one["message"])) for one in document["failures"]]
        killed = [int(rank) for rank in document["killed"]]
        if topology["dp"] == 1:
            evidence.roster.see_domain(range(int(topology["ranks"])), lanes)
    except (KeyError, TypeError, ValueError) as error:
        what = f"{str(path)!r} is no output of isoradix replay --json with ranks: {type(error).__name__} {error}"
        raise InvalidInputError(f"{what}\nhint: keep all of what it printed") from error
    for rank, error_name, message in failures:
        first = message.partition("\n")[0]
        LogReader(evidence, path, str(rank)).take(None, first, str(rank))
        source = Source(path, None, shortened(f"rank {rank}: {error_name}: {first}"))
        kind = "hung" if rank in killed else "ended"
        evidence.signs.append(Sign(kind, str(rank), {"type": error_name, "text": first}, source))
