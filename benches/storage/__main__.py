"""External storage: what it saves, how long a prefetch takes and who waits for it, and what the backend costs.

    python -m benches.storage                   all that can run here
    python -m benches.storage --only steps,overlap
    python -m benches.storage --json

    first-token  time to the first token of requests that storage has, beside computing them: SGLang on a CPU
    steps        steps from a wish to its use, and from the bytes of the last rank to it
    overlap      8,192 tokens come while steps go on: a picture
    calls        the Mooncake backend beside its client's own calls, on equal batches

The first needs SGLang's environment (`make test-sglang`), the last Mooncake; what is not installed is left out, and is
named. Ratios are of one run: other work on the machine moves them less than the times.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any, Final

PARTS: Final = ("first-token", "steps", "overlap", "calls")
Part = Callable[[argparse.Namespace], Iterator[tuple[str, Any]]]


def first_token(given: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """See above."""
    from tests.sglang.engines import Engines

    from benches.storage.first_token import TOKENS, first_token

    with Engines() as engines:
        for tp, pp in ((1, 1), (2, 1)):
            one = first_token(engines, tp, pp)
            found = f"{one.storage_tokens:,} of {TOKENS:,} tokens in storage"
            yield (
                (
                    f"{one.ranks}: {one.from_storage:.0f} ms with {found}, computed {one.computed:.0f} ms: "
                    f"{one.from_storage / one.computed:.2f} of the time"
                ),
                asdict(one),
            )


def steps(given: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """See above."""
    from benches.storage.latency import steps

    for tp, pp in ((1, 1), (2, 1), (2, 2), (1, 4)):
        for step_ms in (10.0, 40.0):
            one = steps(tp, pp, given.rounds, step_ms)
            yield (
                (
                    f"{one.ranks}, steps of {step_ms:.0f} ms: wish to use {_steps(one.wish_to_use)}, "
                    f"last bytes to use {_steps(one.bytes_to_use)}, limit {one.limit}"
                ),
                {"step_ms": step_ms, **asdict(one)},
            )


def _steps(found: list[int]) -> str:
    found = sorted(found)
    return f"{found[len(found) // 2]} (at most {found[-1]})"


def overlap(given: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """See above."""
    from benches.storage.latency import OVERLAPPED, overlap

    one = overlap(min(given.rounds, 6), 20.0)
    there = f"{OVERLAPPED:,} tokens, {one.mib:.0f} MiB a rank, on TP 2: they are there after {one.prefetch:.0f} ms"
    spans = f"a step beside takes {one.step_beside:.2f} ms, alone {one.step_alone:.2f} ms"
    yield f"{there}; {spans}: {one.step_beside / one.step_alone:.2f}\n\n{one.picture}\n", asdict(one)


def calls(given: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """See above."""
    from benches.storage.calls import rates

    for page_kib, pages in ((256, 32), (256, 128), (1024, 32), (4096, 32)):
        for one in rates(page_kib, pages, given.rounds):
            speeds = ", ".join(f"{name} {speed:.2f}" for name, speed in one.gb_per_s.items())
            yield (
                (f"{one.verb} of {pages} pages of {page_kib} KiB: {speeds} GB/s; backend to own calls {one.ratio:.2f}"),
                {**asdict(one), "ratio": one.ratio},
            )


_NEEDS: Final = {"first-token": "sglang", "steps": "torch", "overlap": "torch", "calls": "mooncake"}
_RUNS: Final[dict[str, Part]] = {"first-token": first_token, "steps": steps, "overlap": overlap, "calls": calls}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--rounds", type=int, default=15, help="prefetches, and rounds of calls")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    if strange := sorted(set(given.only.split(",")) - set(PARTS)):
        parser.error(f"--only {strange[0]!r}, expected some of {', '.join(PARTS)}")
    found: dict[str, list[Any]] = {}
    for part in given.only.split(","):
        if find_spec(_NEEDS[part]) is None:
            print(f"{part}: left out, {_NEEDS[part]} is not installed here", flush=True)
            continue
        for line, values in _RUNS[part](given):
            found.setdefault(part, []).append(values)
            if not given.json:
                print(f"{part}: {line}", flush=True)
    if given.json:
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
