"""What a rank says of itself when it starts: to the others, which must say the same, and in its journal."""

import time
from collections.abc import Mapping
from typing import Any, Final

from isoradix import __version__
from isoradix.consensus.plane import Plane

CACHE_DEFAULTS: Final[Mapping[str, object]] = {
    "policy": "lru",
    "bigram": False,
    "writing": "through:1",
    "load_back_min": 10,
    "prefetch_min": 256,
    "storage": False,
    "window": 64,
    "prefetch_patience": (1000, 250, 10000),
    "storage_breaker": (5, 10000, 2, 30000),
    "storage_retry": (3, 100, 5000),
    "components": (),
}


def new_run() -> str:
    """A name for a start, in the order of time: UTC, to the millisecond."""
    now = time.time()
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(now))}-{int(now * 1000) % 1000:03}"


def settings(plane: Plane, page_size: int, copies: bool, options: Mapping[str, Any]) -> dict[str, str]:
    """What must be equal on all ranks, as text.

    Args:
        plane: of this rank.
        page_size: in tokens.
        copies: whether the rank has KV that is copied.
        options: of `TieredCache`, as given.
    """
    topology = plane.topology
    policy = options.get("policy", "lru")
    named = {**CACHE_DEFAULTS, **{name: value for name, value in options.items() if name in CACHE_DEFAULTS}}
    # two functions of one name are taken for equal: what they compute is compared by the digests, step by step
    named["policy"] = policy if isinstance(policy, str) else getattr(policy, "__qualname__", type(policy).__name__)
    return {
        "page_size": str(page_size),
        "topology": f"tp={topology.tp} pp={topology.pp} cp={topology.cp} dp={topology.dp}",
        "engine": "some" if copies else "none",
        **{name: str(value) for name, value in named.items()},
    }


def journal_head(plane: Plane, run: str, page_size: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """What a journal says of this rank first: enough to make its cache again."""
    place, topology = plane.place, plane.topology
    policy = options.get("policy", "lru")
    named = {"function": getattr(policy, "__qualname__", type(policy).__name__)}
    members = range(topology.members)
    return {
        "release": __version__,
        "run": run,
        "epoch": plane.epoch,
        "rank": place.rank,
        "member": place.member,
        "domain": place.domain,
        "members": [topology.rank_of(place.domain, member) for member in members],
        "topology": {"tp": topology.tp, "pp": topology.pp, "cp": topology.cp, "dp": topology.dp},
        "page_size": page_size,
        "options": {
            **{name: value for name, value in options.items() if name in CACHE_DEFAULTS},
            "policy": policy if isinstance(policy, str) else named,
        },
    }
