"""Measurements as rows of text, for the terminal and for reports."""

from collections.abc import Sequence

from isoradix.bench.grid import CaseValue, Measurement


def measurement_table(run: Sequence[Measurement]) -> tuple[list[str], list[list[str]]]:
    """One row for each measurement; the axes first, then the figures."""
    axes = list(dict.fromkeys(axis for one in run for axis in one.case))
    figures = list(dict.fromkeys(figure for one in run for figure in one.figures))
    rows = [
        [
            one.operation,
            *(_plain(one.case.get(axis, "")) for axis in axes),
            *(_figure(figure, one.figures[figure]) for figure in figures),
        ]
        for one in run
    ]
    return [
        "operation",
        *(axis.replace("_", " ") for axis in axes),
        *(_heading(figure) for figure in figures),
    ], rows


def _plain(value: CaseValue) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _figure(name: str, value: float) -> str:
    if name == "hit_rate":
        return f"{value * 100:.2f} %"
    return f"{value:,.0f}" if name.endswith("_per_s") else f"{value:,.2f}"


def _heading(figure: str) -> str:
    named = figure.replace("rss_", "resident_").removesuffix("_us")
    unit = " µs" if figure.endswith("_us") else ""
    return named.replace("_per_s", "/s").replace("_per_", "/").replace("_", " ") + unit
