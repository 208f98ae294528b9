"""`isoradix bench`."""

from pathlib import Path
from typing import Annotated

import typer

from isoradix import PrefixCache, __version__
from isoradix.bench.catalogue import BENCHES
from isoradix.bench.grid import Grid, Measurement
from isoradix.cli.errors import OK, UsageError
from isoradix.cli.output import command_line, save_report, show_json, show_table, tracking
from isoradix.cli.sources import seed_number
from isoradix.cli.values import (
    LARGEST_PAGE,
    MOST_TOKENS,
    count,
    counts,
    fractions,
    given,
    page_sizes,
    policies,
    report_path,
)
from isoradix.report.bench import bench_page, measurement_table

EXAMPLES = """Examples:

  isoradix bench
  isoradix bench match --page-size 1,16,64 --length 1k,32k --report out/match.html
  isoradix bench evict --policy lru,slru --page-size 1,64 --leaves 10k,100k,1M --locked-fraction 0,0.5
  isoradix bench memory --page-size 64 --leaves 100k,1M --json
"""

_NAMES = ", ".join(BENCHES)
# leaves of a page of any size still have slots that the core takes
_MOST_LEAVES = MOST_TOKENS // LARGEST_PAGE
# options of a grid by their parameters, and what they are called there
_AXES = {
    "policy": "policies",
    "page_size": "page_sizes",
    "leaves": "leaves",
    "locked_fraction": "locked_fractions",
    "length": "lengths",
    "repeat": "repeat",
    "requests": "requests",
    "seed": "seed",
}


def bench(
    context: typer.Context,
    what: Annotated[
        str | None,
        typer.Argument(metavar="[BENCHMARK]", help=f"One of {_NAMES}; all of them if left out.", show_default=False),
    ] = None,
    policy: Annotated[str, typer.Option(metavar="NAMES", help="Policies between commas (evict, replay).")] = "lru",
    page_size: Annotated[str, typer.Option(metavar="LIST", help="Page sizes between commas.")] = "1,64",
    leaves: Annotated[
        str, typer.Option(metavar="LIST", help="Numbers of leaves between commas (evict, memory).")
    ] = "10k,100k",
    locked_fraction: Annotated[
        str, typer.Option(metavar="LIST", help="Shares of locked leaves between commas (evict).")
    ] = "0",
    length: Annotated[
        str, typer.Option(metavar="LIST", help="Prefix lengths in tokens between commas (match, insert).")
    ] = "1024,32768",
    repeat: Annotated[str, typer.Option(metavar="N", help="Samples of each operation (not replay, memory).")] = "200",
    requests: Annotated[str, typer.Option(metavar="N", help="Requests of each workload (replay).")] = "1000",
    seed: Annotated[str, typer.Option(metavar="N", help="Seed of keys and workloads.")] = "0",
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one self-contained HTML page with plots.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> int:
    """Time single operations through the Python API, or measure memory.

    Latency is one call from Python, array conversion included. Tokens a second are those of the median call.
    """
    if what is not None and what not in BENCHES:
        raise UsageError(f"the benchmark is {what!r}; there are {_NAMES}", "for example isoradix bench evict")
    if what is not None:
        _refuse_idle(context, what)
    grid = Grid(
        policies=policies(policy),
        page_sizes=page_sizes("--page-size", page_size),
        leaves=counts("--leaves", leaves, 1, _MOST_LEAVES),
        locked_fractions=fractions("--locked-fraction", locked_fraction),
        lengths=counts("--length", length, 1, 2**20),
        repeat=count("--repeat", repeat, 1, 10**6),
        requests=count("--requests", requests, 1, 10**6),
        seed=seed_number(seed),
    )
    for name in grid.policies:
        PrefixCache(policy=name)  # an unknown policy is refused before anything is built
    report_path(report)
    measured = {name: _run(name, grid) for name in (BENCHES if what is None else [what])}
    _show(measured, json)
    if report is not None:
        save_report(report, bench_page(measured, command_line(), __version__))
    return OK


def _refuse_idle(context: typer.Context, what: str) -> None:
    """An option that the benchmark does not read would be without effect."""
    axes = BENCHES[what].axes
    if idle := given(context, *(option for option, axis in _AXES.items() if axis not in axes)):
        taken = ", ".join(f"--{option.replace('_', '-')}" for option, axis in _AXES.items() if axis in axes)
        message = f"isoradix bench {what} does not read {', '.join(idle)}"
        raise UsageError(message, f"it takes {taken}, --report and --json")


def _run(name: str, grid: Grid) -> list[Measurement]:
    chosen = BENCHES[name]
    cases = chosen.cases(grid)
    measured: list[Measurement] = []
    with tracking(name, len(cases)) as tracker:
        for done, case in enumerate(cases):
            tracker.doing(str(case), done)
            measured.extend(chosen.measure(case))
    return measured


def _show(measured: dict[str, list[Measurement]], json: bool) -> None:
    if json:
        results = {name: [one.as_json() for one in run] for name, run in measured.items()}
        show_json({"command": "bench", "version": __version__, "results": results})
        return
    for name, run in measured.items():
        show_table(f"\n{name}", *measurement_table(run))
