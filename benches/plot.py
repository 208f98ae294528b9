"""The picture in README.md, from benches/RESULTS.json: one row an operation, one dot an implementation.

python -m benches.plot [RESULTS.json] [OUT.svg]
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benches.peers.adapters import ISORADIX
from benches.peers.rows import FLOOR, HIGHER_IS_BETTER, PLAIN, best
from isoradix.report.scale import Scale, logarithmic, microseconds
from isoradix.report.svg import drawing, element, text

ROOT = Path(__file__).parent.parent

# What the picture shows, in its order; RESULTS.md has every row.
ROWS = {
    "replay": "conversation trace, one request",
    "match flat": "match 1k tokens, one node",
    "match deep": "match 32k tokens, 64 nodes",
    "insert tail": "insert 512 new behind 32k",
    "insert new": "insert 128k new",
    "lock path": "lock a path of 256 nodes",
    "unlock path": "unlock a path of 256 nodes",
    "evict 1, 10k leaves": "evict 1 of 10k leaves",
    "evict 1, 100k leaves": "evict 1 of 100k leaves",
    "evict 1, 1M leaves": "evict 1 of 1M leaves",
    "evict 64k, 100k leaves": "evict 64k tokens of 100k leaves",
}

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 } .quiet { fill: #59636e } .title { font-weight: 600 }
.paper { fill: #ffffff } .grid { stroke: #d1d9e0 } .gap { stroke: #afb8c1; stroke-width: 2 }
.ours { fill: #0b63ce } .theirs { fill: #c4541a } .floor { fill: #818b98 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .quiet { fill: #9198a1 } .paper { fill: #0d1117 } .grid { stroke: #30363d }
.gap { stroke: #484f58 } .ours { fill: #58a6ff } .theirs { fill: #f0883e } .floor { fill: #7d8590 } }
"""

WIDTH, LEFT, RIGHT, TOP, ROW = 860.0, 232.0, 780.0, 62.0, 27.0
LEGEND = (("ours", "isoradix"), ("theirs", "fastest of SGLang's caches"), ("floor", "C without any checks"))


@dataclass(frozen=True)
class Row:
    """Microseconds of one operation."""

    label: str
    ours: float
    theirs: float
    floor: float | None

    @property
    def ratio(self) -> str:
        times = self.theirs / self.ours
        return f"{times:,.0f}x" if times >= 10 else f"{times:.1f}x"


def read_rows(rows: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[Row]:
    """The rows that were measured, as times."""
    found = []
    for name, label in ROWS.items():
        medians = {who: cell["median"] for who, cell in rows.get(name, {}).items()}
        ours, theirs, floor = medians.get(ISORADIX), best(name, medians), medians.get(FLOOR)
        if ours and theirs:
            least = _microseconds(name, floor) if floor else None
            found.append(Row(label, _microseconds(name, ours), _microseconds(name, theirs), least))
    return found


def _microseconds(name: str, value: float) -> float:
    if name in HIGHER_IS_BETTER:
        return 1e6 / value
    return value if name in PLAIN else value / 1e3


def draw(rows: list[Row], machine: str) -> str:
    values = [value for row in rows for value in (row.ours, row.theirs, row.floor) if value]
    scale = logarithmic(min(values) * 0.8, max(values) * 1.2, microseconds)
    bottom = TOP + ROW * len(rows)
    height = bottom + 56
    parts = [element("style", STYLE), element("rect", width=WIDTH, height=height, class_="paper"), _legend()]
    parts += [_tick(scale.at(value), shown, bottom) for value, shown in scale.ticks]
    parts += [_row(row, scale, TOP + ROW * (index + 0.5)) for index, row in enumerate(rows)]
    parts.append(text("median time of one call from Python, less is better; logarithmic", LEFT, bottom + 38, "quiet"))
    parts.append(text(machine, LEFT, 44, "quiet"))
    return drawing(WIDTH, height, "Median time of cache operations: isoradix and SGLang's caches", *parts) + "\n"


def _across(share: float) -> float:
    return LEFT + share * (RIGHT - LEFT)


def _tick(share: float, shown: str, bottom: float) -> str:
    x = _across(share)
    line = element("line", x1=x, x2=x, y1=TOP, y2=bottom, class_="grid")
    return line + text(shown, x, bottom + 18, "quiet", "middle")


def _row(row: Row, scale: Scale, y: float) -> str:
    ours, theirs = _across(scale.at(row.ours)), _across(scale.at(row.theirs))
    parts = [
        text(row.label, LEFT - 12, y + 4, "label", "end"),
        element("line", x1=ours, x2=theirs, y1=y, y2=y, class_="gap"),
        element("circle", cx=theirs, cy=y, r=6, class_="theirs"),
        element("circle", cx=ours, cy=y, r=6, class_="ours"),
        text(row.ratio, WIDTH - 14, y + 4, "title", "end"),
    ]
    if row.floor:
        x = _across(scale.at(row.floor)) - 2
        parts.insert(2, element("rect", x=x, y=y - 8, width=4, height=16, class_="floor"))
    return element("g", *parts)


def _legend() -> str:
    parts, x = [], LEFT
    for style, label in LEGEND:
        shape = {"x": x + 4, "y": 12, "width": 4, "height": 16} if style == "floor" else {"cx": x + 6, "cy": 20, "r": 6}
        parts.append(element("rect" if style == "floor" else "circle", **shape, class_=style))
        parts.append(text(label, x + 18, 24, "label"))
        x += 44 + 7.0 * len(label)
    return "".join(parts) + text("faster", WIDTH - 14, 44, "quiet", "end")


def main(arguments: list[str]) -> None:
    source = Path(arguments[0]) if arguments else ROOT / "benches" / "RESULTS.json"
    target = Path(arguments[1]) if len(arguments) > 1 else ROOT / "docs" / "img" / "peers.svg"
    results = json.loads(source.read_text(encoding="utf-8"))
    rows = read_rows(results["rows"])
    if not rows:
        sys.exit(f"{source} has no row with both isoradix and SGLang in it\nhint: make bench-peers writes a whole one")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(draw(rows, str(next(iter(results["machine"].values()), ""))), encoding="utf-8")
    print(f"{target} written")


if __name__ == "__main__":
    main(sys.argv[1:])
