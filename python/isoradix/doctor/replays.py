"""What `isoradix replay --json` says of ranks that ended early."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isoradix import InvalidInputError
from isoradix.consensus.topology import RANKS_MAX
from isoradix.doctor.evidence import Evidence
from isoradix.doctor.logs import LogReader


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
        failures = [(int(one["rank"]), str(one["message"])) for one in document["failures"]]
        if topology["dp"] == 1:
            evidence.roster.see_domain(range(int(topology["ranks"])), lanes)
    except (KeyError, TypeError, ValueError) as error:
        what = f"{str(path)!r} is no output of isoradix replay --json with ranks: {type(error).__name__} {error}"
        raise InvalidInputError(f"{what}\nhint: keep all of what it printed") from error
    for rank, message in failures:
        evidence.roster.see(str(rank))
        LogReader(evidence, path, str(rank)).take(None, message.partition("\n")[0], str(rank))
