"""The engine among the examples: what it finds in which tier round by round, and dynamic against fixed chunks.

python -m benches.minillm rounds [OUT.svg]
python -m benches.minillm chunks [--prompt TOKENS] [--pp STAGES]

Hit rates do not depend on the machine. Times of a pipeline are computed from each stage's processor time for each
chunk: a machine with fewer cores than stages cannot run them side by side.
"""

import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

from isoradix.report.scale import linear, percent
from isoradix.report.svg import drawing, element, path, text
from minillm.deployment import run
from minillm.requests import Workload
from minillm.settings import ModelSettings, Settings

ROOT: Final = Path(__file__).parent.parent
ROUNDS: Final = Workload(users=16, rounds=7, system=64, question=48, answer=16)
ROOM: Final[dict[str, Any]] = {"slots": 1152, "batch": 2, "chunk": 256, "host_pages": 192}
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


def rounds(target: Path) -> None:
    """Hit rate of each round of conversations that the device holds a sixth of, with more and more tiers."""
    rates: dict[str, list[float]] = {}
    for tiers, label in TIERS.items():
        with tempfile.TemporaryDirectory() as folder:
            outcome = run(Settings(cache=tiers, storage=f"file://{folder}/kv", **ROOM), ROUNDS)
        rates[tiers] = outcome.hit_rates()
        print(f"{label:26}" + "".join(f"{100 * rate:7.1f}" for rate in rates[tiers]), flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(draw(rates), encoding="utf-8")
    print(f"{target} written")


def draw(rates: dict[str, list[float]]) -> str:
    """The hit rates as lines over the rounds."""
    scale, count = linear(0.0, 1.0, percent), len(rates["l1"])

    def at(turn: int, rate: float) -> tuple[float, float]:
        return LEFT + (RIGHT - LEFT) * turn / (count - 1), BOTTOM - (BOTTOM - TOP) * scale.at(rate)

    parts = [element("style", STYLE), element("rect", width=WIDTH, height=BOTTOM + 56, class_="paper")]
    parts.append(text("share of the prompts' tokens that was found in the cache", LEFT, 24, "quiet"))
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
    return drawing(WIDTH, BOTTOM + 56, "Hit rate round by round, with more and more tiers", *parts) + "\n"


def pipeline(times: Sequence[Sequence[float]]) -> tuple[float, float]:
    """How long a pipeline takes for chunks, and the share of it in which a stage has nothing to do.

    Args:
        times: seconds of each chunk in each stage, stage by stage.
    """
    before = [0.0] * len(times[0])
    for stage in times:
        free, ends = 0.0, []
        for arrived, seconds in zip(before, stage, strict=True):
            free = max(free, arrived) + seconds
            ends.append(free)
        before = ends
    busy = sum(map(sum, times))
    return before[-1], 1 - busy / (before[-1] * len(times))


def chunks(prompt: int, pp: int) -> None:
    """One long prompt, with chunks of one size and with chunks that take as long as the first."""
    took: dict[str, float] = {}
    shape = ModelSettings(layers=pp)
    for name, dynamic in (("fixed", False), ("dynamic", True)):
        room: dict[str, Any] = {"slots": prompt + 256, "chunk": prompt // 8, "context": 2 * prompt, "batch": 1}
        outcome = run(
            Settings(pp=pp, cache="l1", model=shape, dynamic=dynamic, **room),
            Workload(users=1, rounds=1, system=0, question=prompt, answer=1),
        )
        times = [report.computed_s for report in outcome.reports]
        took[name], bubbles = pipeline(times)
        longest = max(max(stage) for stage in times)
        shown = f"longest {longest:6.2f} s, all {took[name]:7.2f} s, bubbles {100 * bubbles:5.1f} %"
        print(f"{name:8} {len(times[0]):4} chunks, {shown}", flush=True)
    print(f"dynamic / fixed {took['dynamic'] / took['fixed']:.2f}")


def main(arguments: list[str]) -> None:
    options = dict(pairwise(arguments))
    match arguments:
        case ["rounds", *rest]:
            rounds(Path(rest[0]) if rest else ROOT / "docs" / "img" / "rounds.svg")
        case ["chunks", *_]:
            chunks(int(options.get("--prompt", 32_768)), int(options.get("--pp", 4)))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
