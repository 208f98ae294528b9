"""The same program in two interpreters, with other hash seeds, thread counts and memory layouts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

# Hash order, the clock and addresses differ between the two runs; nothing that the cache shows may.
PROGRAM = """
import hashlib, json, random, sys
from isoradix import PrefixCache, SlotPool

policy, ballast = sys.argv[1], [bytearray(int(sys.argv[2])) for _ in range(1000)]
if policy == "callable":
    policy = lambda facts: (facts.hits - facts.depth % 3 + len(facts.namespace[0] or ""), facts.seq)
rng = random.Random(5)
cache = PrefixCache(page_size=4, policy=policy, kv_events=True, journal_records=1 << 14)
pool = SlotPool(2048, page_size=4)
names = [(None, None), ("lora-a", None), ("lora-b", "tenant"), (None, "tenant")]
hits, receipts, events = [], [], []
for request in range(1500):
    cache.advance_step()
    key = [token for _ in range(rng.randrange(1, 12)) for token in [rng.randrange(3)] * 4]
    name = rng.choice(names)
    found = cache.match_prefix(key, name)
    hits.append(found.hit_tokens)
    receipts.append(cache.lock(found.node))
    need = len(key) - found.hit_tokens
    if pool.available < need:
        pool.free(cache.evict(need - pool.available))
    if pool.available >= need:
        cache.insert(key, pool.alloc(need), name, priority=rng.randrange(3), resume=found)
    if len(receipts) > 3:
        cache.unlock(receipts.pop(0))
    events += [event.as_dict() for event in cache.take_events()]
cache.check(pool)
print(json.dumps({
    "hits": sum(hits), "clock": cache.clock, "decision_digest": cache.decision_digest,
    "tree_digest": cache.tree_digest, "namespaces": cache.namespaces(),
    "journal": hashlib.sha256(cache.journal_bytes()).hexdigest(), "records": len(cache.journal()),
    "events": hashlib.sha256(json.dumps(events).encode()).hexdigest(), "blocks": len(events),
    "walk": hashlib.sha256(repr([(i.sequence, i.depth, i.last_access) for i in cache.walk()]).encode()).hexdigest(),
}))
"""


def run(policy: str, hash_seed: str, ballast: int) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", PROGRAM, policy, str(ballast)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    shown: dict[str, Any] = json.loads(done.stdout)
    return shown


@pytest.mark.parametrize("policy", ["lru", "slru", "callable"])
def test_two_interpreters_agree(policy: str) -> None:
    one, other = run(policy, "0", 10), run(policy, "4242", 3000)
    assert one == other
    assert min(one["hits"], one["blocks"]) > 1000, "the program does something"


def test_the_digest_of_a_known_history_is_pinned() -> None:
    """A changed digest parts a new version from ranks that run an old one: change it on purpose, or not at all."""
    shown = run("lru", "1", 100)
    assert (f"{shown['decision_digest']:016x}", f"{shown['tree_digest']:016x}") == PINNED


PINNED = ("9bc8bf05f087238a", "6ce124c5acc5b394")
