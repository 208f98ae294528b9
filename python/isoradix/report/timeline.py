"""A band for each rank: how its time was spent, from left to right, with faults above it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from isoradix.report.scale import Format, fitted
from isoradix.report.svg import drawing, element, path, text, tooltip

_WIDTH: Final = 1240.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 118.0, 14.0, 6.0, 44.0
_BAND, _MARKS, _GAP = 44.0, 10.0, 8.0
_BINS: Final = 240

Floats = npt.NDArray[np.float64]
Spans = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Where spans of time begin and end, both ascending, in nanoseconds."""


@dataclass(frozen=True)
class Lane:
    """One rank: the spans of each activity, the moments of its faults, and the moment and word of an early end."""

    label: str
    spans: Mapping[str, Spans]
    marks: Sequence[tuple[int, str]] = ()
    end: tuple[int, str] | None = None


@dataclass(frozen=True)
class Timeline:
    """Lanes over a common axis of time.

    Args:
        lanes: one for each rank.
        colours: a colour of the palette for each activity, in the order of stacking.
        start, end: of the axis, in nanoseconds.
        seconds: how its ticks read.
    """

    lanes: Sequence[Lane]
    colours: Mapping[str, int]
    start: int
    end: int
    seconds: Format
    edges: Floats = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", np.linspace(self.start, max(self.end, self.start + 1), _BINS + 1))

    def draw(self, label: str) -> str:
        height = _TOP + len(self.lanes) * (_MARKS + _BAND + _GAP) + _BOTTOM
        parts = [*self._axis(height)]
        for number, lane in enumerate(self.lanes):
            parts.append(self._lane(lane, _TOP + number * (_MARKS + _BAND + _GAP) + _MARKS))
        return drawing(_WIDTH, height, label, *parts) + self._legend()

    def _across(self, moment: float) -> float:
        share = (moment - self.start) / float(self.edges[-1] - self.start)
        return _LEFT + min(max(share, 0.0), 1.0) * (_WIDTH - _LEFT - _RIGHT)

    def _axis(self, height: float) -> list[str]:
        bottom = height - _BOTTOM + 4
        parts = []
        for value, shown in fitted(0.0, float(self.edges[-1] - self.start) / 1e9, self.seconds).ticks:
            place = self._across(self.start + value * 1e9)
            parts.append(element("line", x1=place, x2=place, y1=_TOP, y2=bottom, class_="grid"))
            parts.append(text(shown, place, bottom + 16, "tick", "middle"))
        return [
            *parts,
            text("time since the first step", (_LEFT + _WIDTH - _RIGHT) / 2, bottom + 34, "axis-title", "middle"),
        ]

    def _lane(self, lane: Lane, top: float) -> str:
        parts = [text(lane.label, _LEFT - 10, top + _BAND / 2 + 4, "bar-label", "end")]
        parts.append(element("rect", x=_LEFT, y=top, width=_WIDTH - _LEFT - _RIGHT, height=_BAND, class_="lane"))
        parts += self._stack(lane, top)
        parts += self._faults(lane, top)
        if lane.end is not None:
            parts += self._death(*lane.end, top)
        return element("g", *parts)

    def _death(self, moment: int, word: str, top: float) -> list[str]:
        place = self._across(moment)
        line = element("line", x1=place, x2=place, y1=top - 8, y2=top + _BAND, class_="death")
        near_the_edge = place > _WIDTH - 120
        shown, anchor = (place - 6, "end") if near_the_edge else (place + 6, None)
        return [line, text(word, shown, top + _BAND / 2 + 4, "bar-label", anchor)]

    def _stack(self, lane: Lane, top: float) -> list[str]:
        """Areas from the bottom of the band, each bin as high as the share of its time."""
        parts = []
        below: Floats = np.zeros(_BINS)
        for name, colour in self.colours.items():
            share = self._shares(lane.spans.get(name))
            above = np.minimum(below + share, 1.0)
            if share.max() > 0:
                tip = tooltip(f"{lane.label}: {name}, {share.mean() * 100:.1f} % of the time")
                parts.append(path(self._outline(below, above, top), f"bar c{colour}", tip))
            below = above
        return parts

    def _shares(self, spans: Spans | None) -> Floats:
        """Of each bin, the share that lies within the spans."""
        if spans is None or not len(spans[0]):
            return np.zeros(_BINS)
        moments = np.stack(spans, axis=1).ravel().astype(np.float64)
        lasted = np.cumsum(np.maximum(spans[1] - spans[0], 0)).astype(np.float64)
        passed = np.stack((np.concatenate(([0.0], lasted[:-1])), lasted), axis=1).ravel()
        shares: Floats = np.diff(np.interp(self.edges, moments, passed)) / np.diff(self.edges)
        return shares

    def _outline(self, below: Floats, above: Floats, top: float) -> list[tuple[float, float]]:
        places = [self._across(float(edge)) for edge in self.edges]
        steps = [place for pair in pairwise(places) for place in pair]
        bottom = top + _BAND
        upper = [
            (place, bottom - level * _BAND) for place, level in zip(steps, np.repeat(above, 2).tolist(), strict=True)
        ]
        lower = [
            (place, bottom - level * _BAND) for place, level in zip(steps, np.repeat(below, 2).tolist(), strict=True)
        ]
        return upper + lower[::-1]

    def _faults(self, lane: Lane, top: float) -> list[str]:
        """A tick for each bin and kind of fault in it."""
        seen: dict[tuple[int, str], int] = {}
        for moment, kind in lane.marks:
            place = int(np.clip(np.searchsorted(self.edges, moment) - 1, 0, _BINS - 1))
            seen[place, kind] = seen.get((place, kind), 0) + 1
        parts = []
        for (place, kind), times in seen.items():
            across = self._across(float(self.edges[place] + self.edges[place + 1]) / 2)
            tip = tooltip(kind if times == 1 else f"{kind}, {times} times")
            parts.append(element("line", tip, x1=across, x2=across, y1=top - 8, y2=top - 1, class_="fault"))
        return parts

    def _legend(self) -> str:
        entries = [
            element("li", element("i", class_=f"swatch fill c{colour}"), escape(name))
            for name, colour in self.colours.items()
        ]
        if any(lane.marks for lane in self.lanes):
            entries.append(
                element("li", element("i", class_="swatch fill c5"), "a fault at work (tick above the band)")
            )
        return element("ul", *entries, class_="legend")
