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

from benches.rounds import TIERS, draw
from minillm.deployment import run
from minillm.requests import Workload
from minillm.settings import ModelSettings, Settings

ROOT: Final = Path(__file__).parent.parent
ROUNDS: Final = Workload(users=16, rounds=7, system=64, question=48, answer=16)
ROOM: Final[dict[str, Any]] = {"slots": 1152, "batch": 2, "chunk": 256, "host_pages": 192}


def rounds(target: Path) -> None:
    """Hit rate of each round of conversations that the device holds a sixth of, with more and more tiers."""
    rates: dict[str, list[float]] = {}
    for tiers, label in TIERS.items():
        with tempfile.TemporaryDirectory() as folder:
            outcome = run(Settings(cache=tiers, storage=f"file://{folder}/kv", **ROOM), ROUNDS)
        rates[tiers] = outcome.hit_rates()
        print(f"{label:26}" + "".join(f"{100 * rate:7.1f}" for rate in rates[tiers]), flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(draw(rates, "minillm"), encoding="utf-8")
    print(f"{target} written")


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
