"""Which requests a command runs on: a trace file, or a built-in workload."""

from pathlib import Path
from typing import Any, Final

import typer

from isoradix.cli.errors import UsageError
from isoradix.cli.values import LARGEST_PAGE, count, given
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
PAGE_SIZE: Final[Any] = typer.Option(metavar="N", help=f"Tokens a page, 1 to {LARGEST_PAGE}.")
LIMIT: Final[Any] = typer.Option(metavar="N", help="Stop after that many requests.", show_default=False)


def choose_source(
    context: typer.Context, trace: Path | None, workload: str | None, requests: str, seed: str, limit: str | None
) -> Source:
    """Exactly one of trace and workload; `limit` cuts either, `requests` and `seed` are a workload's."""
    command = context.info_name
    most = None if limit is None else count("--limit", limit, 1, _MOST_REQUESTS)
    if (trace is None) == (workload is None):
        found = "a trace and --workload are both given" if trace else "neither a trace nor --workload is given"
        hint = f"isoradix {command} trace.jsonl, or isoradix {command} --workload chat"
        raise UsageError(f"{found}; one of them is needed", hint)
    if trace is not None:
        if idle := given(context, "requests", "seed"):
            what = f"{' and '.join(idle)} {'is' if len(idle) == 1 else 'are'} given with a trace; a workload takes them"
            raise UsageError(what, f"isoradix {command} trace.jsonl --limit N stops a trace early")
        return TraceSource(trace, most)
    if workload not in WORKLOADS:
        what = f"--workload is {workload!r}; the built-in ones are {', '.join(WORKLOADS)}"
        raise UsageError(what, "for example --workload chat")
    total = count("--requests", requests, 1, _MOST_REQUESTS)
    return WorkloadSource(workload, total if most is None else min(total, most), seed_number(seed))


def seed_number(seed: str) -> int:
    return count("--seed", seed, 0, _LARGEST_SEED)
