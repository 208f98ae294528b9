"""What an engine is started with and asked (`Scenario`), and what came of it (`Outcome`)."""

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Self

from .models import VOCABULARY

SYSTEM_TOKENS: Final = 64
TURN_TOKENS: Final = range(25, 50)
REPLAYED: Final = 4
LISTED: Final = ("tokens", "cached", "tiers", "seconds")


@dataclass(frozen=True)
class Scenario:
    """One engine under memory pressure.

    `requests / turns` conversations share a system prompt. Turn t of all of them is served before turn t + 1 of any,
    `concurrency` requests at a time, greedily: a conversation returns only when all others have pushed it out of L1.
    At last a few are continued one by one. The token ids depend on the seed and on the sizes of the workload alone.
    """

    backend: str = "default"  # 'none' (no prefix cache), 'default' (the server's), or a registered name
    tp: int = 1
    pp: int = 1
    page_size: int = 16
    l2: bool = False
    host_ratio: float = 1.5  # L2 as a multiple of L1
    write_policy: str = "write_through"
    layout: str = "page_first_direct"
    overlap: bool = True
    chunked_prefill_size: int = 128  # -1: off
    schedule_policy: str = "lpm"
    max_total_tokens: int = 1024  # L1
    layers: int = 2
    seed: int = 1
    requests: int = 48
    turns: int = 4
    concurrency: int = 4
    new_tokens: int = 16
    turn_tokens: int = 0  # what a user says in a turn; 0: some 25 to 50 tokens, and more in the first
    sequential: bool = False  # one request at a time, whatever `concurrency` says
    leavers: int = 0  # in each wave so many requests more, which are aborted while they wait or run; no one hears them
    extra_keys: int = 0  # conversations belong to so many namespaces; 0: none
    cache_salts: int = 0
    priorities: int = 0  # the requests of a wave come one by one, with so many priorities in turn; 0: none has one
    storage: str = ""  # 'file:FOLDER' or 'mooncake:HOST:PORT', by the server's own flag, below whichever cache it has
    storage_policy: str = "timeout"
    attach_at: int = 0  # storage comes with this wave, counted from 1; 0: it is there from the start
    detach_at: int = 0  # and goes with this one; 0: never
    waves_told: str = ""  # a folder, in which each wave that begins leaves a file: see `interruption`
    run: str = ""  # servers that differ in this alone do not stand for each other
    consensus_checker: bool = True  # the server's own, over the cache calls of all ranks
    faults: str = ""  # as `isoradix replay --inject` takes them, separated by blanks
    corrupt: str = ""  # 'rank=R,match=N': see cpu_support.corruption
    start_method: str = "fork"  # 'spawn': each rank imports everything, as it does for a user
    environment: Mapping[str, str] = field(default_factory=dict)
    engine_args: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float = 300

    @property
    def ranks(self) -> int:
        return self.tp * self.pp

    @property
    def key(self) -> str:
        """Equal for equal scenarios."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """From a JSON object.

        Raises:
            ValueError: a key is no field.
        """
        if strange := sorted(set(values) - {one.name for one in fields(cls)}):
            raise ValueError(f"a scenario has no {', '.join(strange)}")
        return cls(**values)


def marker(folder: Path, wave: int) -> Path:
    """The file that a wave leaves when it begins; they are counted from 1."""
    return folder / f"wave-{wave}"


@dataclass(frozen=True)
class Turn:
    """What a conversation's user says next."""

    conversation: int
    tokens: list[int]


def waves(scenario: Scenario) -> Iterator[list[Turn]]:
    """The turns that are sent together."""
    drawn = random.Random(scenario.seed)

    def tokens(count: int) -> list[int]:
        return [drawn.randrange(3, VOCABULARY) for _ in range(count)]

    system = tokens(SYSTEM_TOKENS)
    conversations = max(1, scenario.requests // scenario.turns)
    width = 1 if scenario.sequential else scenario.concurrency
    for turn in range(scenario.turns):
        order = drawn.sample(range(conversations), conversations)
        first_words = system if turn == 0 and not scenario.turn_tokens else []
        said = [Turn(one, first_words + tokens(scenario.turn_tokens or drawn.choice(TURN_TOKENS))) for one in order]
        for first in range(0, conversations, width):
            yield said[first : first + width]
    for one in drawn.sample(range(conversations), min(conversations, REPLAYED)):
        yield [Turn(one, tokens(8))]


@dataclass
class Outcome:
    """What came of a scenario. Lists have one entry for each request, in the order of `waves`."""

    status: str = "error"  # 'ok', 'error' (a rank reported one), 'timeout'
    errors: list[str] = field(default_factory=list)  # what ranks logged, with a count before each
    exit_code: int | None = None
    sha: str = ""  # over all tokens
    prompt_tokens: int = 0
    cached_tokens: int = 0
    cached_by_tier: dict[str, int] = field(default_factory=dict)
    retractions: int = 0
    flush: bool = False  # it got idle, had leaked nothing, and its cache could be emptied
    injected: dict[str, int] = field(default_factory=dict)  # how often each fault took place
    startup_s: float = 0
    serving_s: float = 0
    flush_s: float = 0
    duration_s: float = 0
    tokens: list[list[int]] = field(default_factory=list)
    cached: list[int] = field(default_factory=list)
    tiers: list[dict[str, int]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # of the wave that it was in
    storage_changes: list[str] = field(default_factory=list)  # what the server said to each

    def summary(self) -> dict[str, Any]:
        """Without what is listed by request."""
        return {name: value for name, value in asdict(self).items() if name not in LISTED}
