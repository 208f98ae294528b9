"""The page of one replay."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from isoradix import PrefixCache
from isoradix.replay.runner import ReplayResult
from isoradix.replay.stats import OPERATIONS
from isoradix.report.charts import Axis, Bar, Line, bar_chart, line_chart
from isoradix.report.icicle import Icicle, TreeShape, shape_of
from isoradix.report.page import Page, figure
from isoradix.report.scale import Scale, fitted, human, linear, logarithmic, microseconds, percent
from isoradix.report.svg import element

_WINDOWS = 120
_PERCENTILES = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999)


def replay_page(result: ReplayResult, cache: PrefixCache, source: str, command: str, version: str) -> str:
    """One self-contained document about a replay and the tree it left."""
    config = result.config
    lead = f"{config.policy}, pages of {config.page_size}, capacity {config.usable_capacity:,} tokens"
    page = Page(f"Replay of {source}", lead, command)
    page.tiles(_tiles(result))
    page.heading("Over the run")
    page.figures(_hit_rate(result), _occupancy(result))
    page.heading("Latency")
    page.figures(_latency(result), _totals(result))
    page.table(*_operation_table(result))
    shape = shape_of(cache.walk())
    page.heading("The tree at the end")
    page.tiles(_tree_tiles(shape))
    page.figures(_tree(shape), _branches(shape), _found(result))
    page.heading("Evidence")
    page.table(("digest", "value"), _evidence(result, cache))
    return page.html(version)


def _tiles(result: ReplayResult) -> list[tuple[str, str]]:
    return [
        ("token hit rate", f"{result.hit_rate * 100:.2f} %"),
        (f"hit tokens of {human(result.tokens)}", human(result.hit_tokens)),
        ("requests", f"{result.requests:,}"),
        ("requests/s in the cache", f"{result.requests_per_second:,.0f}"),
        ("evicted tokens", human(result.evicted_tokens)),
        ("eviction calls", f"{len(result.samples['evict']):,}"),
    ]


def _bounds(count: int) -> list[int]:
    windows = min(_WINDOWS, count)
    return [count * index // windows for index in range(windows + 1)] if count else [0]


def _hit_rate(result: ReplayResult) -> str:
    bounds = _bounds(result.requests)
    hits = np.concatenate(([0], np.cumsum(result.series.hits)))[bounds]
    tokens = np.concatenate(([0], np.cumsum(result.series.lengths)))[bounds]
    places = bounds[1:]
    window = (np.diff(hits) / np.maximum(np.diff(tokens), 1)).tolist()
    running = (hits[1:] / np.maximum(tokens[1:], 1)).tolist()
    lines = [Line("window", places, window, 0), Line("since the start", places, running, 1)]
    top = max([*window, *running, 0.01])
    x = Axis(fitted(0, max(result.requests, 1)), "request", human)
    drawn = line_chart(lines, x, Axis(linear(0, top, percent), "hit rate", percent), "hit rate over requests")
    size = max(result.requests // max(len(places), 1), 1)
    return figure("Hit rate", f"hit tokens by prompt tokens; a window is {size:,} requests", drawn)


def _occupancy(result: ReplayResult) -> str:
    ends = [bound - 1 for bound in _bounds(result.requests)[1:]]
    used = result.series.used[ends].tolist()
    places = [end + 1 for end in ends]
    capacity = result.config.usable_capacity
    span = [0, max(result.requests, 1)]
    lines = [
        Line("cached tokens", places, used, 2, filled=True),
        Line("capacity", span, [capacity, capacity], 5, dashed=True),
    ]
    x = Axis(fitted(0, span[1]), "request", human)
    drawn = line_chart(lines, x, Axis(linear(0, capacity), "tokens", human), "occupancy over requests")
    return figure("Occupancy", "tokens in the tree after each request", drawn)


def _latency(result: ReplayResult) -> str:
    """Latency by percentile, the tail stretched: each step to the right is a tenth of the calls."""
    shares = np.concatenate((np.linspace(0, 0.9, 46), 1 - np.logspace(-1, -4, 61)[1:]))
    places = _tail(shares).tolist()
    lines = []
    for number, name in enumerate(OPERATIONS):
        samples = result.samples[name]
        if len(samples):
            enough = shares <= 1 - 1 / len(samples)
            levels = np.quantile(samples, shares[enough]) / 1e3
            lines.append(Line(name, places[: len(levels)], levels.tolist(), number))
    ticks = [(float(_tail(np.array(p))), "min" if p == 0 else f"p{p * 100:g}") for p in _PERCENTILES]
    low = min((min(line.y) for line in lines), default=1)
    high = max((max(line.y) for line in lines), default=1)
    x = Axis(Scale(0, 4, ticks), "percentile of the calls", human)
    y = Axis(logarithmic(max(low, 0.01), high, microseconds), "time", microseconds)
    return figure("Latency distribution", "one line for each operation", line_chart(lines, x, y, "latency"))


def _tail(shares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return -np.log10(1 - shares)


def _totals(result: ReplayResult) -> str:
    totals = {name: float(samples.sum()) / 1e3 for name, samples in result.samples.items()}
    bars = [
        Bar(name if name in OPERATIONS else f"pool {name}", total, None, number if name in OPERATIONS else 7)
        for number, (name, total) in enumerate(totals.items())
    ]
    axis = Axis(linear(0, max(totals.values(), default=1), microseconds), "time over the whole run", microseconds)
    note = "the pool's own time is not in requests/s"
    return figure("Where the time goes", note, bar_chart(bars, axis, "total time of each operation"))


def _operation_table(result: ReplayResult) -> tuple[Sequence[str], list[list[str]]]:
    rows = []
    for name, stats in result.operations().items():
        shown = name if name in OPERATIONS else f"pool {name}"
        times = [microseconds(value) for value in (stats.median_us, stats.p99_us, stats.max_us, stats.total_ms * 1e3)]
        rows.append([shown, f"{stats.count:,}", *times])
    return ("operation", "calls", "median", "p99", "slowest", "total"), rows


def _tree_tiles(shape: TreeShape) -> list[tuple[str, str]]:
    return [
        ("tokens", human(shape.tokens)),
        ("nodes", f"{shape.nodes:,}"),
        ("leaves", f"{shape.leaves:,}"),
        ("deepest token", f"{shape.deepest:,}"),
        ("median leaf, tokens", f"{shape.leaf_median:,}"),
    ]


def _tree(shape: TreeShape) -> str:
    shades = ("1 hit", "2", "4", "8", "16", "32 and more")
    entries = [element("li", element("i", class_=f"swatch s{number}"), shown) for number, shown in enumerate(shades)]
    entries.append(element("li", element("i", class_="swatch s-rest"), "many branches too narrow to draw"))
    legend = element("ul", *entries, class_="legend")
    note = "each box is a node: down is depth in tokens (square-root scale), width is the weight of its subtree"
    return figure("Shape", note, Icicle(shape).draw() + legend, wide=True)


def _branches(shape: TreeShape) -> str:
    depths: list[float] = []
    branches: list[float] = []
    for (start, count), (end, _) in pairwise(shape.width):
        depths += [start, end]
        branches += [count, count]
    x = Axis(fitted(0, max(shape.deepest, 1)), "depth in tokens", human)
    y = Axis(logarithmic(1, max(branches, default=1), human), "branches", human)
    line = Line("branches", depths, branches, 0, filled=True)
    drawn = line_chart([line], x, y, "branches over depth")
    return figure("Branches by depth", "distinct cached continuations at each depth", drawn)


def _found(result: ReplayResult) -> str:
    """Requests by the share of their prompt that was cached, in twentieths; the last bar is 95 % and more."""
    shares = result.series.hits / np.maximum(result.series.lengths, 1)
    counts, _ = np.histogram(shares, bins=20, range=(0.0, 1.0))
    steps = [float(edge) for index in range(20) for edge in (index / 20, (index + 1) / 20)]
    levels = [float(count) for count in counts for _ in range(2)]
    x = Axis(linear(0, 1, percent), "share of the prompt found", percent)
    y = Axis(linear(0, max(levels, default=1.0), human), "requests", human)
    drawn = line_chart([Line("requests", steps, levels, 3, filled=True)], x, y, "share of prompts found")
    return figure("What requests found", "requests by the share of their prompt that was cached", drawn)


def _evidence(result: ReplayResult, cache: PrefixCache) -> list[tuple[str, str]]:
    return [
        ("hitseq", result.hitseq),
        ("decision digest", f"{cache.decision_digest:016x}"),
        ("tree digest", f"{cache.tree_digest:016x}"),
    ]
