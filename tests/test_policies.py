"""Decision traces: what each policy does, as a text that a person can follow.

`decisions/*.txt` holds blocks of commands, `----` and the output (the language is in `model/script.py`); a block that
begins with `cache` makes a new cache. Each trace runs on the real cache and on the naive model.
To rewrite the outputs from the real cache, for review: ISORADIX_REWRITE=1 pytest tests/test_policies.py
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isoradix import PolicyError, PrefixCache

from .model.script import ModelSubject, RealSubject, Script

DECISIONS = Path(__file__).parent / "decisions"

KEY_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "longest_first": lambda facts: -facts.length,
    "tenants_last": lambda facts: (facts.namespace != (None, None), facts.seq),
}


def replay(trace: str, subject: type[RealSubject] | type[ModelSubject]) -> str:
    """The trace with its outputs as `subject` gives them."""
    blocks, script = [], None
    for block in trace.strip().split("\n\n"):
        lines = block.split("\n----")[0].splitlines()
        output = []
        for command in lines:
            if command.startswith("cache"):
                script = Script(subject(**options(command)))
                output.append("ok")
            elif not command.startswith("#"):
                assert script, "a trace begins with `cache`"
                output += script.run(command)
        commands = [line for line in lines if not line.startswith("#")]
        blocks.append("\n".join([*lines, "----", *output] if commands else lines))
    return "\n\n".join(blocks) + "\n"


def options(command: str) -> dict[str, Any]:
    named: dict[str, Any] = dict(word.split("=", 1) for word in command.split()[1:])
    named["page_size"] = int(named.get("page_size", 1))
    named["bigram"] = named.get("bigram") == "yes"
    named["policy"] = KEY_FUNCTIONS.get(named["policy"], named["policy"])
    return named


@pytest.mark.parametrize("subject", [RealSubject, ModelSubject], ids=["cache", "model"])
@pytest.mark.parametrize("path", sorted(DECISIONS.glob("*.txt")), ids=lambda path: path.stem)
def test_decisions(path: Path, subject: type[RealSubject] | type[ModelSubject]) -> None:
    written = path.read_text()
    played = replay(written, subject)
    if played != written and os.environ.get("ISORADIX_REWRITE") and subject is RealSubject:
        path.write_text(played)
        return
    diff = difflib.unified_diff(written.splitlines(), played.splitlines(), "written", "played", lineterm="", n=8)
    assert played == written, "\n".join(["", path.name, *diff])


def test_every_policy_has_a_trace() -> None:
    names = {path.stem for path in DECISIONS.glob("*.txt")}
    assert names >= {"lru", "lfu", "fifo", "mru", "filo", "priority", "slru", "tlru", "callable"}


def test_a_key_function_that_fails_is_asked_again() -> None:
    failing = False

    def oldest_first(facts: Any) -> int:
        if failing:
            raise ArithmeticError("no key today")
        return int(facts.seq)

    cache = PrefixCache(policy=oldest_first)
    cache.insert([1, 2], [0, 1])
    failing = True
    cache.insert([3, 4], [2, 3])
    before = (cache.decision_digest, cache.tree_digest, cache.clock, cache.total_size)
    with pytest.raises(PolicyError, match="no key today") as raised:
        cache.evict(1)
    assert isinstance(raised.value.__cause__, ArithmeticError)
    assert (cache.decision_digest, cache.tree_digest, cache.clock, cache.total_size) == before
    cache.check()
    failing = False
    assert cache.evict(3).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("key", [None, "1", 1.5, (1,), (1, 2, 3), (1, 2.0), 2**63, -(2**63) - 1, [1, 2]], ids=repr)
def test_a_key_is_an_int_or_a_pair_of_64_bit_ints(key: Any) -> None:
    cache = PrefixCache(policy=lambda facts: key)
    cache.insert([1], [0])
    with pytest.raises(PolicyError, match="\nhint: "):
        cache.evict(1)
    assert cache.total_size == 1


def test_keys_are_signed_and_their_ties_go_to_the_older_node() -> None:
    keys: dict[int, int | tuple[int, int]] = {1: (-(2**63), 0), 2: -1, 3: (0, -1), 4: 0, 5: (0, 0), 6: 2**63 - 1}
    cache = PrefixCache(policy=lambda facts: keys[facts.depth])
    for depth in (6, 5, 3, 4, 1, 2):
        cache.insert([depth] * depth, [depth] * depth, (str(depth), None))
    order = [cache.evict(1)[0] for _ in keys]
    assert order == [1, 2, 3, 5, 4, 6], "4 and 5 tie; 5 was made first"
