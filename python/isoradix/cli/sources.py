"""Which requests a command runs on: a trace file, or a built-in workload."""

from pathlib import Path
from typing import Any, Final

import typer

from isoradix.cli.errors import UsageError
from isoradix.cli.values import count
from isoradix.replay.source import Source, TraceSource, WorkloadSource
from isoradix.replay.workloads import WORKLOADS

_MOST_REQUESTS: Final = 10**9
_LARGEST_SEED: Final = 2**20 - 1

# shared by the commands that replay
TRACE: Final[Any] = typer.Argument(
    metavar="[TRACE]", help="A Mooncake trace: JSON lines with input_length and hash_ids.", show_default=False
)
WORKLOAD: Final[Any] = typer.Option(
    metavar="NAME", help=f"Instead of a trace: {', '.join(WORKLOADS)}.", show_default=False
)
REQUESTS: Final[Any] = typer.Option(metavar="N", help="Requests of a workload.")
SEED: Final[Any] = typer.Option(metavar="N", help="Seed of a workload; equal seeds give equal requests everywhere.")
LIMIT: Final[Any] = typer.Option(metavar="N", help="Stop after that many requests.", show_default=False)


def choose_source(
    command: str, trace: Path | None, workload: str | None, requests: str, seed: str, limit: str | None
) -> Source:
    """Exactly one of trace and workload; `limit` cuts either."""
    most = None if limit is None else count("--limit", limit, 1, _MOST_REQUESTS)
    if (trace is None) == (workload is None):
        given = "a trace and --workload are both given" if trace else "neither a trace nor --workload is given"
        hint = f"isoradix {command} trace.jsonl, or isoradix {command} --workload chat"
        raise UsageError(f"{given}; one of them is needed", hint)
    if trace is not None:
        return TraceSource(trace, most)
    if workload not in WORKLOADS:
        what = f"--workload is {workload!r}; the built-in ones are {', '.join(WORKLOADS)}"
        raise UsageError(what, "for example --workload chat")
    total = count("--requests", requests, 1, _MOST_REQUESTS)
    return WorkloadSource(workload, total if most is None else min(total, most), seed_number(seed))


def seed_number(seed: str) -> int:
    return count("--seed", seed, 0, _LARGEST_SEED)
