"""`isoradix sweep`."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from isoradix import PrefixCache, __version__
from isoradix.cli.errors import OK
from isoradix.cli.output import (
    Tracker,
    command_line,
    save_report,
    show_facts,
    show_json,
    show_table,
    tracking,
)
from isoradix.cli.sources import LIMIT, PAGE_SIZE, REQUESTS, SEED, TRACE, WORKLOAD, choose_source
from isoradix.cli.values import LARGEST_PAGE, capacities, count, policies, report_path
from isoradix.replay.blocks import Tokens
from isoradix.replay.source import Source
from isoradix.replay.sweep import Sweep, SweepPoint
from isoradix.replay.units import page_units
from isoradix.report.sweep import METHOD, rate_table, sweep_page

EXAMPLES = """Examples:

  isoradix sweep trace.jsonl --capacity 1M..64M
  isoradix sweep trace.jsonl --capacity 1M,4M,16M --policy lru,slru:2,tlru:4096,512 --report out/sweep.html
  isoradix sweep --workload chat --requests 5000 --capacity 64k..4M --page-size 16 --json
"""


def sweep(
    context: typer.Context,
    trace: Annotated[Path | None, TRACE] = None,
    workload: Annotated[str | None, WORKLOAD] = None,
    requests: Annotated[str, REQUESTS] = "2000",
    seed: Annotated[str, SEED] = "0",
    limit: Annotated[str | None, LIMIT] = None,
    page_size: Annotated[str, PAGE_SIZE] = "64",
    capacity: Annotated[
        str, typer.Option(metavar="TOKENS", help="Tokens: a range that doubles, 1M..64M, or a list, 1M,4M.")
    ] = "1M..64M",
    policy: Annotated[str, typer.Option(metavar="NAMES", help="Policies between commas.")] = "lru,lfu,slru,fifo",
    optimal: Annotated[bool, typer.Option(help="Compute the offline-optimal line, which knows the future.")] = True,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one self-contained HTML page with the plot.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> int:
    """Hit rate against capacity for each policy, beside the offline optimum.

    Every point is a whole replay. The offline-optimal line is MIN over pages, which no policy here can pass: it is
    exact for a cache that drops page by page and holds each request in full while it runs.
    """
    source = choose_source(context, trace, workload, requests, seed, limit)
    page = count("--page-size", page_size, 1, LARGEST_PAGE)
    sizes, names = capacities("--capacity", capacity, page), policies(policy)
    for name in names:
        PrefixCache(page_size=page, policy=name)  # an unknown policy is refused before anything is read
    report_path(report)
    points = _run(source, page, sizes, names, optimal)
    if json:
        show_json(_document(source.name, page, points))
    else:
        show_facts([("source", source.name), ("pages of", f"{page} tokens")])
        show_table("\nhit rate", *rate_table(points))
    if report is not None:
        save_report(report, sweep_page(points, source.name, page, command_line(), __version__))
    return OK


def _run(source: Source, page: int, sizes: list[int], names: list[str], optimal: bool) -> list[SweepPoint]:
    with tracking(f"read {source.name}", source.total) as tracker:
        units: Iterable[Tokens] = source
        if page > 1:
            units = page_units(_counted(source, tracker), page)
        elif not source.repeatable:
            units = list(_counted(source, tracker))
    plan = Sweep(units, page, sizes, names, optimal)
    points: list[SweepPoint] = []
    with tracking("sweep", plan.runs) as tracker:
        points.extend(plan.points(tracker.doing))
    return points


def _counted(source: Source, tracker: Tracker) -> Iterator[Tokens]:
    for read, prompt in enumerate(source):
        tracker.reached(read)
        yield prompt


def _document(source: str, page: int, points: list[SweepPoint]) -> dict[str, object]:
    return {
        "command": "sweep",
        "version": __version__,
        "source": source,
        "page_size": page,
        "optimal": METHOD,
        "points": [
            {
                "policy": point.policy,
                "capacity": point.capacity,
                "hit_rate": round(point.hit_rate, 4),
                "hit_tokens": point.hit_tokens,
                "tokens": point.tokens,
                "evicted_tokens": point.evicted_tokens,
                "uncached": point.uncached,
            }
            for point in points
        ],
    }
