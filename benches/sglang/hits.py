"""Hits with host memory below the device, one request at a time: this package's cache beside the server's own.

    python -m benches.sglang.hits                            # in an environment that has SGLang; some six minutes
    python -m benches.sglang.hits --write write_back --seeds 1,2 --pages 16

The conversations are those of `tests/sglang/scenario.py`: a device of 1,024 tokens (2,048 with pages of 64), and
host memory of half as much again: together hardly room for all that is said. Between requests the caches have a few
empty rounds, as an idle server has. Exit status 0, whatever comes out.
"""

import argparse
import itertools
import json
import statistics
import time
from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from tests.sglang.scenario import Scenario, waves

from .loop import Loop, Prompt, Served
from .servers import make, prepare_import

ROUND_S: Final = 0.0006
"""For which a round's work on the device stands; the threads that copy and vote have it."""
IDLE_ROUNDS: Final = 6
ROUNDS_MAX: Final = 10_000
ROW: Final = 4096


@dataclass(frozen=True)
class Hits:
    """Tokens of one run's prompts that were cached."""

    write: str
    page: int
    seed: int
    server: int
    isoradix: int

    @property
    def ratio(self) -> float:
        """Of this package's to the server's."""
        return self.isoradix / self.server


class Feed:
    """Prompts as they are said: one at a time."""

    def __init__(self) -> None:
        self._said: list[Prompt] = []

    def say(self, prompt: Prompt) -> None:
        """The next one."""
        self._said.append(prompt)

    def __iter__(self) -> "Feed":
        return self

    def __next__(self) -> Prompt:
        if not self._said:
            raise StopIteration
        return self._said.pop()


class Talk(Loop):
    """A loop that keeps what its last request was answered."""

    chunk = Scenario().chunked_prefill_size
    answered: "array[int]"

    def _release(self, request: Served) -> None:
        self.answered = request.full_untruncated_fill_ids
        super()._release(request)


def hits(name: str, scenario: Scenario) -> int:
    """All tokens that were hit by the conversations of a scenario.

    Raises:
        RuntimeError: a request does not end.
    """
    server = make(
        name,
        slots=scenario.max_total_tokens,
        page_size=scenario.page_size,
        row_length=ROW,
        rows=8,
        host_ratio=scenario.host_ratio,
        write_policy=scenario.write_policy,
    )
    feed = Feed()
    talk = Talk(server, feed, "lpm", True, lambda: 0)
    said: dict[int, Any] = {}
    for turn in itertools.chain.from_iterable(waves(scenario)):
        prompt = array("q", [*said.get(turn.conversation, ()), *turn.tokens])
        feed.say(Prompt(prompt, scenario.new_tokens))
        for _ in range(ROUNDS_MAX):
            if not talk.step():
                break
            time.sleep(ROUND_S)
        else:
            raise RuntimeError(f"a request of {len(prompt)} tokens is not over after {ROUNDS_MAX} rounds")
        said[turn.conversation] = talk.answered
        for _ in range(IDLE_ROUNDS):
            talk.idle()
            time.sleep(ROUND_S)
    if name == "isoradix":
        server.cache.release_host_resources()
    return talk.hits


def compared(writes: Sequence[str], pages: Sequence[int], seeds: Sequence[int], told: Any) -> list[Hits]:
    """Both caches, one case after another; `told` hears of each."""
    found = []
    for write, page, seed in itertools.product(writes, pages, seeds):
        scenario = replace(Scenario(l2=True, sequential=True), page_size=page, write_policy=write, seed=seed)
        if page == 64:
            scenario = replace(scenario, max_total_tokens=2048)
        found.append(Hits(write, page, seed, hits("rust", scenario), hits("isoradix", scenario)))
        told(found[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", default="write_through,write_back", help="policies, separated by commas")
    parser.add_argument("--pages", default="1,16,64", help="page sizes")
    parser.add_argument("--seeds", default="1,2,3,4,5,6,7,8", help="of the conversations")
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    given = parser.parse_args()
    prepare_import()

    def tell(one: Hits) -> None:
        if not given.json:
            what = f"{one.write}, page {one.page}, seed {one.seed}"
            print(f"{what}: server {one.server}, isoradix {one.isoradix}, ratio {one.ratio:.3f}", flush=True)

    pages, seeds = ([int(number) for number in text.split(",")] for text in (given.pages, given.seeds))
    found = compared(given.write.split(","), pages, seeds, tell)
    if given.json:
        print(json.dumps([asdict(one) for one in found], indent=2))
        return
    for (write, page), some in itertools.groupby(found, lambda one: (one.write, one.page)):
        ratios = [one.ratio for one in some]
        print(f"{write}, page {page}: mean {statistics.mean(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}")


if __name__ == "__main__":
    main()
