"""What lower tiers are worth to a real server: conversations of seven rounds that its device cannot hold.

python -m tests.sglang.rounds                        hit rates round by round, with more and more tiers
python -m tests.sglang.rounds docs/img/sglang.svg    and as a picture
"""

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

from benches.rounds import TIERS, draw

from .engines import Engines
from .outcomes import sound
from .scenario import Outcome, Scenario, waves

ROUNDS: Final = 7
CONVERSATIONS: Final = 16
ASKED: Final[dict[str, Any]] = {
    "requests": CONVERSATIONS * ROUNDS,
    "turns": ROUNDS,
    "concurrency": 2,
    "max_total_tokens": 1024,
}


def scenario(tiers: str, folder: Path, backend: str = "isoradix") -> Scenario:
    """The conversations on a server with these tiers.

    Args:
        tiers: one of `TIERS`.
        folder: of its storage, where it has some.
        backend: its cache.
    """
    host: dict[str, Any] = {} if tiers == "l1" else {"l2": True, "host_ratio": 2.0}
    if tiers == "l3":
        host["engine_args"] = {
            "hicache_storage_prefetch_policy": "wait_complete",
            "hicache_storage_backend_extra_config": json.dumps({"prefetch_threshold": 16}),
        }
        host["environment"] = {"ISORADIX_STORAGE": folder.as_uri()}
    return Scenario(backend=backend, **ASKED, **host)


def hit_rates(asked: Scenario, outcome: Outcome) -> list[float]:
    """Share of the prompts' tokens that was cached, round by round."""
    said: Counter[int] = Counter()
    prompts: list[int] = []
    for wave in waves(asked):
        for turn in wave:
            said[turn.conversation] += len(turn.tokens)
            prompts.append(said[turn.conversation])
            said[turn.conversation] += asked.new_tokens
    rounds = [slice(CONVERSATIONS * turn, CONVERSATIONS * (turn + 1)) for turn in range(ROUNDS)]
    return [sum(outcome.cached[turn]) / sum(prompts[turn]) for turn in rounds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path, nargs="?", metavar="OUT.svg", help="where the picture goes")
    target = parser.parse_args().target
    if target is not None and not target.parent.is_dir():
        parser.error(f"there is no folder {str(target.parent)!r}")
    rates: dict[str, list[float]] = {}
    with Engines() as engines:
        for tiers, label in TIERS.items():
            with tempfile.TemporaryDirectory(prefix="isoradix-rounds-") as folder:
                asked = scenario(tiers, Path(folder))
                rates[tiers] = hit_rates(asked, sound(engines.run(asked)))
            print(f"{label:26}" + "".join(f"{100 * rate:7.1f}" for rate in rates[tiers]), flush=True)
    if target is not None:
        target.write_text(draw(rates, "SGLang"), encoding="utf-8")
        print(f"{target} written")


if __name__ == "__main__":
    main()
