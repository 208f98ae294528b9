"""Hit rates of conversations, round by round, with more and more tiers: as a picture."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from isoradix.report.scale import linear, percent
from isoradix.report.svg import drawing, element, path, text

TIERS: Final[dict[Any, str]] = {"l1": "device alone", "l2": "device and host", "l3": "device, host and storage"}
STYLE: Final = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 } .quiet { fill: #59636e }
.paper { fill: #ffffff } .grid { stroke: #d1d9e0 } path { fill: none; stroke-width: 2 }
.l1 { stroke: #818b98 } .l2 { stroke: #c4541a } .l3 { stroke: #0b63ce }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .quiet { fill: #9198a1 } .paper { fill: #0d1117 } .grid { stroke: #30363d }
.l1 { stroke: #7d8590 } .l2 { stroke: #f0883e } .l3 { stroke: #58a6ff } }
"""
WIDTH, LEFT, RIGHT, TOP, BOTTOM = 720.0, 64.0, 520.0, 44.0, 320.0


def draw(rates: Mapping[str, Sequence[float]], of: str) -> str:
    """Hit rates as lines over the rounds.

    Args:
        rates: for each of `TIERS`, the rate of each round, 0 to 1.
        of: whose they are.
    """
    scale, count = linear(0.0, 1.0, percent), len(rates["l1"])

    def at(turn: int, rate: float) -> tuple[float, float]:
        return LEFT + (RIGHT - LEFT) * turn / (count - 1), BOTTOM - (BOTTOM - TOP) * scale.at(rate)

    parts = [element("style", STYLE), element("rect", width=WIDTH, height=BOTTOM + 56, class_="paper")]
    parts.append(text(f"{of}: share of the prompts' tokens that was found in the cache", LEFT, 24, "quiet"))
    for value, shown in scale.ticks:
        y = at(0, value)[1]
        parts += [
            element("line", x1=LEFT, x2=RIGHT, y1=y, y2=y, class_="grid"),
            text(shown, LEFT - 8, y + 4, "quiet", "end"),
        ]
    for turn in range(count):
        parts.append(text(str(turn + 1), at(turn, 0)[0], BOTTOM + 20, "quiet", "middle"))
    parts.append(text("round of the conversation", (LEFT + RIGHT) / 2, BOTTOM + 42, "quiet", "middle"))
    below = 0.0
    for tiers, label in reversed(TIERS.items()):
        points = [at(turn, rate) for turn, rate in enumerate(rates[tiers])]
        below = max(below + 16, points[-1][1] + 4)  # labels do not lie on each other
        parts += [path(points, tiers), text(label, RIGHT + 12, below, "label")]
    return drawing(WIDTH, BOTTOM + 56, f"Hit rate of {of} round by round, with more and more tiers", *parts) + "\n"
