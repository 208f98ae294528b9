"""The page of one benchmark run."""

from collections.abc import Mapping, Sequence

from isoradix.bench.grid import CaseValue, Measurement
from isoradix.report.charts import Axis, Bar, Line, bar_chart, line_chart
from isoradix.report.page import Page, figure
from isoradix.report.scale import human, linear, logarithmic, microseconds, named, percent

# where a benchmark has no latency: the figure that its bars show, its title, and a note
_BARS: Mapping[str, tuple[str, str, str]] = {
    "replay": ("requests_per_s", "requests/s in the cache", "the built-in workloads; the pool's time is not in it"),
    "memory": ("rss_bytes_per_token", "resident bytes a token", "leaves of 64 tokens, slots shuffled page by page"),
}


def bench_page(measured: Mapping[str, Sequence[Measurement]], command: str, version: str) -> str:
    """One self-contained document, a section for each benchmark."""
    page = Page("Microbenchmarks", "single operations through the Python API", command)
    for name, run in measured.items():
        page.heading(name)
        page.figures(*_figures(name, run))
        page.table(*measurement_table(run))
    return page.html(version)


def measurement_table(run: Sequence[Measurement]) -> tuple[list[str], list[list[str]]]:
    """One row for each measurement; the axes first, then the figures."""
    axes = list(dict.fromkeys(axis for one in run for axis in one.case))
    figures = list(dict.fromkeys(figure for one in run for figure in one.figures))
    rows = [
        [
            one.operation,
            *(_plain_value(one.case.get(axis, "")) for axis in axes),
            *(_figure_value(figure, one.figures[figure]) for figure in figures),
        ]
        for one in run
    ]
    return [
        "operation",
        *(axis.replace("_", " ") for axis in axes),
        *(_heading(figure) for figure in figures),
    ], rows


def _plain_value(value: CaseValue) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _figure_value(name: str, value: float) -> str:
    if name == "hit_rate":
        return f"{value * 100:.2f} %"
    return f"{value:,.0f}" if name.endswith("_per_s") else f"{value:,.2f}"


def _heading(figure: str) -> str:
    named = figure.replace("rss_", "resident_").removesuffix("_us")
    unit = " µs" if figure.endswith("_us") else ""
    return named.replace("_per_s", "/s").replace("_per_", "/").replace("_", " ") + unit


def _figures(name: str, run: Sequence[Measurement]) -> list[str]:
    if name == "evict":
        amounts = sorted({int(one.case["evict_tokens"]) for one in run})
        return [_evict_chart(amount, [one for one in run if one.case["evict_tokens"] == amount]) for amount in amounts]
    if name in _BARS:
        return [_value_bars(name, run)]
    return [_latency_bars(name, run)]


def _evict_chart(amount: int, run: Sequence[Measurement]) -> str:
    axes = [axis for axis in _varying(run) if axis != "leaves"]
    lines = []
    groups: dict[str, list[Measurement]] = {}
    for one in run:
        groups.setdefault(_label(one, axes) or "median", []).append(one)
    for number, (label, members) in enumerate(groups.items()):
        x = [float(one.case["leaves"]) for one in members]
        lines.append(Line(label, x, [one.figures["median_us"] for one in members], number, marks=True))
    times = [value for line in lines for value in line.y]
    x_axis = Axis(named([value for line in lines for value in line.x], human, log=True), "leaves", human)
    y_axis = Axis(logarithmic(min(times) / 2, max(times) * 2, microseconds), "median time", microseconds)
    drawn = line_chart(lines, x_axis, y_axis, f"time to evict {amount} tokens")
    return figure(f"evict({amount:,})", "time of one call against the size of the tree", drawn)


def _latency_bars(name: str, run: Sequence[Measurement]) -> str:
    axes = _varying(run)
    operations = list(dict.fromkeys(one.operation for one in run))
    bars = [
        Bar(
            " ".join((one.operation, _label(one, axes))).strip(),
            one.figures["median_us"],
            one.figures["p99_us"],
            operations.index(one.operation),
        )
        for one in run
    ]
    low, high = min(bar.value for bar in bars), max(bar.mark or bar.value for bar in bars)
    axis = Axis(logarithmic(low / 3, high, microseconds), "time of one call, logarithmic", microseconds)
    note = "bar: median; thin line: up to the 99th percentile"
    return figure(f"Latency of {name}", note, bar_chart(bars, axis, f"latency of {name}", wide=True), wide=True)


def _value_bars(name: str, run: Sequence[Measurement]) -> str:
    key, title, note = _BARS[name]
    axes = _varying(run)
    bars = [Bar(_label(one, axes) or name, one.figures[key], None, 0) for one in run]
    axis = Axis(linear(0, max(bar.value for bar in bars), human), title, human)
    return figure(title.capitalize(), note, bar_chart(bars, axis, title, wide=True), wide=True)


def _varying(run: Sequence[Measurement]) -> list[str]:
    """The axes on which these measurements differ."""
    axes = dict.fromkeys(axis for one in run for axis in one.case)
    return [axis for axis in axes if len({one.case.get(axis) for one in run}) > 1]


def _label(one: Measurement, axes: Sequence[str]) -> str:
    return ", ".join(_named(axis, one.case[axis]) for axis in axes if axis in one.case)


def _named(axis: str, value: CaseValue) -> str:
    if isinstance(value, str):
        return value
    if axis == "locked_fraction":
        return f"{percent(value)} locked"
    names = {
        "page_size": "page {}",
        "length": "{} tokens",
        "prefix": "behind {}",
        "new": "{} new",
        "leaves": "{} leaves",
    }
    return names.get(axis, axis + " {}").format(human(value))
