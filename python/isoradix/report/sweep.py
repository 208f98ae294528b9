"""The page of one sweep."""

from collections.abc import Sequence

from isoradix.replay.sweep import OPTIMAL, SweepPoint
from isoradix.report.charts import Axis, Line, line_chart
from isoradix.report.page import Page, figure
from isoradix.report.scale import human, linear, named, percent

METHOD = (
    "Offline-optimal: MIN over pages with the whole future known, each request held in full while it runs. "
    "Exact for eviction page by page, so an upper bound for policies that drop whole leaves."
)


def sweep_page(points: Sequence[SweepPoint], source: str, page_size: int, command: str, version: str) -> str:
    """One self-contained document about hit rate against capacity."""
    page = Page(f"Hit rate against capacity: {source}", f"pages of {page_size}", command)
    page.heading("Hit rate")
    page.figures(_chart(points))
    page.heading("Table")
    page.table(*rate_table(points))
    page.heading("Share of the offline optimum")
    page.table(*_share_table(points))
    return page.html(version)


def _series(points: Sequence[SweepPoint]) -> dict[str, list[SweepPoint]]:
    series: dict[str, list[SweepPoint]] = {}
    for point in points:
        series.setdefault(point.policy, []).append(point)
    return series


def _chart(points: Sequence[SweepPoint]) -> str:
    lines = []
    for number, (policy, run) in enumerate(_series(points).items()):
        x, y = [float(point.capacity) for point in run], [point.hit_rate for point in run]
        lines.append(Line(policy, x, y, number, dashed=policy == OPTIMAL, marks=True))
    capacities = [float(point.capacity) for point in points]
    x_axis = Axis(named(capacities, human, log=True), "capacity in tokens", human)
    top = max((point.hit_rate for point in points), default=1.0)
    y_axis = Axis(linear(0, top, percent), "hit rate", percent)
    drawn = line_chart(lines, x_axis, y_axis, "hit rate against capacity", wide=True)
    return figure("Hit rate against capacity", METHOD, drawn, wide=True)


def rate_table(points: Sequence[SweepPoint]) -> tuple[list[str], list[list[str]]]:
    """Capacities down, policies across, hit rates in per cent."""
    series = _series(points)
    capacities = sorted({point.capacity for point in points})
    rates = {(point.policy, point.capacity): point.hit_rate for point in points}
    rows = []
    for capacity in capacities:
        cells = (rates.get((policy, capacity)) for policy in series)
        rows.append([human(capacity), *("" if rate is None else f"{rate * 100:.2f} %" for rate in cells)])
    return ["capacity", *series], rows


def _share_table(points: Sequence[SweepPoint]) -> tuple[list[str], list[list[str]]]:
    best = {point.capacity: point.hit_tokens for point in points if point.policy == OPTIMAL}
    series = {policy: run for policy, run in _series(points).items() if policy != OPTIMAL}
    rows = []
    for capacity in sorted(best):
        shares = {policy: _share(run, capacity, best[capacity]) for policy, run in series.items()}
        rows.append([human(capacity), *shares.values()])
    return ["capacity", *series], rows


def _share(run: Sequence[SweepPoint], capacity: int, best: int) -> str:
    hits = next((point.hit_tokens for point in run if point.capacity == capacity), 0)
    return f"{hits / best * 100:.1f} %" if best else "no hits"
