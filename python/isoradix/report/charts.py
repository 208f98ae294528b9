"""Line and bar charts."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from isoradix.report.scale import Format, Scale
from isoradix.report.svg import drawing, element, path, text, tooltip

_WIDTH, _WIDE, _HEIGHT = 640.0, 1240.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 14.0, 12.0, 44.0
COLOURS = 8


@dataclass(frozen=True)
class Line:
    """One series. `colour` is a number of the palette; `marks` draws each point."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    colour: int
    dashed: bool = False
    filled: bool = False
    marks: bool = False


@dataclass(frozen=True)
class Axis:
    """A scale with its title."""

    scale: Scale
    title: str
    text: Format


class _Plot:
    """The area between the axes, in pixels."""

    def __init__(self, x: Scale, y: Scale, width: float, height: float) -> None:
        self.x, self.y = x, y
        self.left, self.top, self.right, self.bottom = _LEFT, _TOP, width - _RIGHT, height - _BOTTOM

    def across(self, value: float) -> float:
        return self.left + self.x.at(value) * (self.right - self.left)

    def up(self, value: float) -> float:
        return self.bottom - self.y.at(value) * (self.bottom - self.top)

    def point(self, x: float, y: float) -> tuple[float, float]:
        return self.across(x), self.up(y)


def line_chart(lines: Sequence[Line], x: Axis, y: Axis, label: str, wide: bool = False) -> str:
    """Lines over common axes, with a legend where there is more than one."""
    width, height = (_WIDE, _HEIGHT * 1.4) if wide else (_WIDTH, _HEIGHT)
    plot = _Plot(x.scale, y.scale, width, height)
    # marks of earlier lines are larger, so that equal lines show as rings
    radii = [3.5 + 1.5 * min(rest, 4) for rest in range(len(lines) - 1, -1, -1)]
    parts = [*_grid(plot, x, y), *(_series(plot, line, x, y, r) for line, r in zip(lines, radii, strict=True))]
    return drawing(width, height, label, *parts) + _legend(lines)


def _grid(plot: _Plot, x: Axis, y: Axis) -> list[str]:
    parts = []
    for value, shown in y.scale.ticks:
        level = plot.up(value)
        parts.append(element("line", x1=plot.left, x2=plot.right, y1=level, y2=level, class_="grid"))
        parts.append(text(shown, plot.left - 8, level + 4, "tick", "end"))
    parts.append(element("line", x1=plot.left, x2=plot.right, y1=plot.bottom, y2=plot.bottom, class_="axis"))
    for value, shown in x.scale.ticks:
        place = plot.across(value)
        parts.append(element("line", x1=place, x2=place, y1=plot.bottom, y2=plot.bottom + 4, class_="axis"))
        parts.append(text(shown, place, plot.bottom + 18, "tick", "middle"))
    parts.append(text(x.title, (plot.left + plot.right) / 2, plot.bottom + 38, "axis-title", "middle"))
    turned = element("g", text(y.title, 0, 0, "axis-title", "middle"), transform=_turn(plot))
    return [*parts, turned]


def _turn(plot: _Plot) -> str:
    return f"translate(13 {(plot.top + plot.bottom) / 2:.1f}) rotate(-90)"


def _series(plot: _Plot, line: Line, x: Axis, y: Axis, radius: float) -> str:
    points = [plot.point(a, b) for a, b in zip(line.x, line.y, strict=True)]
    if not points:
        return ""
    parts = []
    if line.filled:
        closed = [(points[0][0], plot.bottom), *points, (points[-1][0], plot.bottom)]
        parts.append(path(closed, f"area c{line.colour % COLOURS}"))
    style = f"line c{line.colour % COLOURS}" + (" dashed" if line.dashed else "")
    parts.append(path(points, style, tooltip(line.label)))
    if line.marks:
        for (across, up), a, b in zip(points, line.x, line.y, strict=True):
            tip = tooltip(f"{line.label}\n{x.title}: {x.text(a)}\n{y.title}: {y.text(b)}")
            parts.append(element("circle", tip, cx=across, cy=up, r=radius, class_=f"mark c{line.colour % COLOURS}"))
    return element("g", *parts)


def _legend(lines: Sequence[Line]) -> str:
    if len(lines) < 2:
        return ""
    entries = []
    for line in lines:
        style = f"line c{line.colour % COLOURS}" + (" dashed" if line.dashed else "")
        key = element("svg", path([(0, 5), (22, 5)], style), width=22, height=10, aria_hidden="true")
        entries.append(element("li", key, element("span", escape(line.label))))
    return element("ul", *entries, class_="legend")


@dataclass(frozen=True)
class Bar:
    """One bar, with a thin mark further out (a p99 beside a median)."""

    label: str
    value: float
    mark: float | None
    colour: int


def bar_chart(bars: Sequence[Bar], axis: Axis, label: str, wide: bool = False) -> str:
    """Horizontal bars with their labels at the left and their values behind them."""
    left, row = 14.0 + 6.8 * max((len(bar.label) for bar in bars), default=0), 24.0
    height = row * len(bars) + 40.0
    width = _WIDE if wide else _WIDTH
    right = width - 70.0
    parts = []
    for value, shown in axis.scale.ticks:
        place = left + axis.scale.at(value) * (right - left)
        parts.append(element("line", x1=place, x2=place, y1=4, y2=height - 36, class_="grid"))
        parts.append(text(shown, place, height - 20, "tick", "middle"))
    for index, bar in enumerate(bars):
        parts.append(_bar(bar, axis, left, right, index * row + 6))
    parts.append(text(axis.title, (left + right) / 2, height - 3, "axis-title", "middle"))
    return drawing(width, height, label, *parts)


def _bar(bar: Bar, axis: Axis, left: float, right: float, top: float) -> str:
    end = left + max(axis.scale.at(bar.value), 0.004) * (right - left)
    tip = f"{bar.label}: {axis.text(bar.value)}"
    parts = [
        text(bar.label, left - 8, top + 12, "bar-label", "end"),
        element("rect", x=left, y=top, width=end - left, height=16, rx=2, class_=f"bar c{bar.colour % COLOURS}"),
    ]
    behind = end
    if bar.mark is not None:
        behind = max(end, left + axis.scale.at(bar.mark) * (right - left))
        parts.append(element("line", x1=end, x2=behind, y1=top + 8, y2=top + 8, class_="whisker"))
        parts.append(element("line", x1=behind, x2=behind, y1=top + 3, y2=top + 13, class_="whisker"))
        tip += f", p99 {axis.text(bar.mark)}"
    parts.append(text(axis.text(bar.value), behind + 6, top + 12, "value"))
    return element("g", tooltip(tip), *parts)
