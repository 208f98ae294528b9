"""The child process of the memory benchmark: plants one forest and prints how far resident memory grew.

python -m isoradix.bench.resident '{"page_size": 64, "leaves": 100000, "seed": 0}'
"""

import gc
import json
import resource
import sys
from pathlib import Path

from isoradix import PrefixCache
from isoradix.bench.trees import Forest


def resident_bytes() -> int:
    """Resident memory now; where /proc is missing, the highest so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        scale = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
    return pages * resource.getpagesize()


def growth(page_size: int, leaves: int, seed: int) -> dict[str, float]:
    """Bytes a token and a node by the system's count, and bytes a token by the cache's own."""
    # a first small forest brings in code and allocator arenas that are not the tree's
    _plant(Forest(page_size, 64, seed))
    gc.collect()
    before = resident_bytes()
    forest = Forest(page_size, leaves, seed)
    cache = _plant(forest)
    gc.collect()
    grown = resident_bytes() - before
    return {
        "rss_bytes_per_token": round(grown / forest.tokens, 2),
        "counted_bytes_per_token": round(cache.memory_bytes() / forest.tokens, 2),
        "rss_bytes_per_node": round(grown / leaves, 1),
    }


def _plant(forest: Forest) -> PrefixCache:
    cache = PrefixCache(page_size=forest.page_size)
    for _ in forest.plant(cache):
        pass
    return cache


if __name__ == "__main__":
    print(json.dumps(growth(**json.loads(sys.argv[1]))))
