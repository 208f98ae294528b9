"""The offline-optimal line: the most hit tokens that any cache of a capacity could have had, knowing the future.

Definition. The cache holds a prefix-closed set of pages, at most `capacity`. A request hits its longest cached prefix,
needs all of its pages at once while it runs, and leaves them in the cache; between requests any suffix may be dropped,
page by page. The line is what MIN reaches in this model: it drops the page whose next use is furthest away, the
deeper one first where two are used next by the same request. A parent is needed whenever its child is, so this order
keeps the set prefix-closed by itself. Keeping a page from one use to the next is worth one page of hits and takes one
page of room in between; dropping the interval that ends last is optimal for such intervals, so the line is exact in
this model. isoradix's policies drop whole leaves, so for them it is an upper bound. A request longer than the capacity
is the one relaxation: MIN may keep what it likes of it, which can only raise the line.

Source: L. A. Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2),
1966; optimality: R. L. Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2), 1970.

Pages that no request ever parts are one segment here: the nodes of a tree that evicts nothing.
"""

import heapq
from collections.abc import Iterable, Iterator

import numpy as np

from isoradix import PrefixCache
from isoradix.replay.blocks import Tokens


class OfflineOptimal:
    """The future of one request sequence, ready for any capacity. All sizes are units, one for each page."""

    def __init__(self, prompts: Iterable[Tokens]) -> None:
        ends, self._sizes, info = _grow_tree(prompts)
        numbers: dict[int, int] = {}
        self._lengths: list[int] = []
        self._depths: list[int] = []
        self._paths: list[list[int]] = []
        for end in ends:
            self._paths.append([self._number(handle, info, numbers) for handle in _climb(end, info)])
        self._next_uses = _next_uses(self._paths, len(self._lengths))

    def _number(self, handle: int, info: dict[int, tuple[int, int, int]], numbers: dict[int, int]) -> int:
        number = numbers.setdefault(handle, len(numbers))
        if number == len(self._lengths):
            _, length, depth = info[handle]
            self._lengths.append(length)
            self._depths.append(depth)
        return number

    @property
    def total(self) -> int:
        return sum(self._sizes)

    def hits(self, capacity: int) -> int:
        """Units hit with that many units of room."""
        return sum(self._serve(capacity))

    def _serve(self, capacity: int) -> Iterator[int]:
        held = _Held(self._lengths, self._depths)
        for now, path in enumerate(self._paths):
            size = self._sizes[now]
            hit = held.take(path, now)
            yield hit
            if size <= capacity:
                held.shrink(capacity - size)
                held.put(path, self._next_uses[now])
            else:
                held.put(path, self._next_uses[now])
                held.shrink(capacity)


class _Held:
    """What the clairvoyant cache holds: a leading part of each segment, ordered by next use."""

    def __init__(self, lengths: list[int], depths: list[int]) -> None:
        self._lengths, self._depths = lengths, depths
        self._kept = [0] * len(lengths)
        self._due = [-1] * len(lengths)
        self._queue: list[tuple[int, int, int]] = []
        self._used = 0

    def take(self, path: list[int], now: int) -> int:
        """Removes a path that is in use now, and tells how much of it was held."""
        hit = 0
        for segment in path:
            hit += self._kept[segment]
            self._kept[segment] = 0
            self._due[segment] = now
        self._used -= hit
        return hit

    def put(self, path: list[int], next_uses: list[int]) -> None:
        """Holds a path in full."""
        for segment, due in zip(path, next_uses, strict=True):
            self._kept[segment] = self._lengths[segment]
            self._used += self._lengths[segment]
            self._due[segment] = due
            heapq.heappush(self._queue, (-due, -self._depths[segment], segment))

    def shrink(self, limit: int) -> None:
        """Drops the furthest next use, deepest first, until at most `limit` units are held."""
        queue = self._queue
        while self._used > limit:
            due, _, segment = queue[0]
            if self._due[segment] != -due or self._kept[segment] == 0:
                heapq.heappop(queue)  # an entry from before a later use
                continue
            dropped = min(self._kept[segment], self._used - limit)
            self._kept[segment] -= dropped
            self._used -= dropped


def _grow_tree(prompts: Iterable[Tokens]) -> tuple[list[int], list[int], dict[int, tuple[int, int, int]]]:
    """End node and size of each request, and (parent, length, depth) of each node, in a tree that never evicts."""
    cache = PrefixCache(page_size=1)
    slots = np.arange(1 << 17, dtype=np.int64)
    ends, sizes = [], []
    for prompt in prompts:
        if len(prompt) == 0:
            continue
        while len(slots) < len(prompt):
            slots = np.arange(2 * len(slots), dtype=np.int64)
        # a handle stays with the end of what was inserted, whatever is split above it
        ends.append(int(cache.insert(prompt, slots[: len(prompt)]).node))
        sizes.append(len(prompt))
    info = {int(node.handle): (int(node.parent), node.length, node.depth) for node in cache.walk()}
    return ends, sizes, info


def _climb(end: int, info: dict[int, tuple[int, int, int]]) -> list[int]:
    """The nodes from the root's child down to `end`."""
    path = []
    handle = end
    while handle in info:  # the root is not
        path.append(handle)
        handle = info[handle][0]
    path.reverse()
    return path


def _next_uses(paths: list[list[int]], segments: int) -> list[list[int]]:
    """For each request and segment of its path the next request that uses it; past the end if none does."""
    following = [len(paths)] * segments
    uses: list[list[int]] = []
    for now in range(len(paths) - 1, -1, -1):
        uses.append([following[segment] for segment in paths[now]])
        for segment in paths[now]:
            following[segment] = now
    uses.reverse()
    return uses
