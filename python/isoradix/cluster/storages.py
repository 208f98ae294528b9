"""External storage with faults: a backend that works, and what goes wrong before it is asked."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from isoradix.cluster.faults import Fault
from isoradix.replay.draws import Draws
from isoradix.storage import Backend, Outcome, PageViews, Presence, Status, StorageTimeoutError, TemporaryStorageError

KINDS: Final = ("storage-short", "storage-fail", "storage-slow", "storage-hang", "storage-unopened")
_VERBS: Final = ("exists", "get", "put")
Name = tuple[int, int, int]
"""Of a call: its verb, its first key, and how often it was made."""


class FaultyBackend:
    """Some calls find less, fail, come late, or do not come back before their deadline.

    What becomes of a call follows from its first key, and from how often it was made before: threads may ask in any
    order, and a call that is made again may go otherwise.

    Args:
        inner: the backend that works.
        faults: of this rank, of the kinds above.
        drawn: a stream of draws for a fault and a call, which is three numbers.
        note: is told which fault was at work.
    """

    def __init__(
        self,
        inner: Backend,
        faults: Sequence[Fault],
        drawn: Callable[..., Draws],
        note: Callable[[str], None],
        hang_s: float = 0.5,
    ) -> None:
        self._inner, self._faults, self._drawn, self._note, self._hang_s = inner, faults, drawn, note, hang_s
        self._closing = threading.Event()
        self._made: Counter[tuple[int, int]] = Counter()
        self.hangs = False
        """Whether no call comes back any more."""
        self.fails = True
        """Whether calls fail, where there is such a fault."""

    def exists(self, keys: Sequence[bytes]) -> Presence:
        call = self._call("exists", keys)
        self._before(call)
        known = self._inner.exists(keys)
        if known.leading and any(self._hits("storage-short", call)):
            return Presence((True,) * (known.leading // 2) + (False,) * (len(keys) - known.leading // 2))
        return known

    def get_into(self, keys: Sequence[bytes], views: PageViews) -> Outcome:
        return self._transfer("get", keys, lambda: self._inner.get_into(keys, views))

    def put_from(self, keys: Sequence[bytes], views: PageViews) -> Outcome:
        return self._transfer("put", keys, lambda: self._inner.put_from(keys, views))

    def close(self) -> None:
        self._closing.set()
        self._inner.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _transfer(self, verb: str, keys: Sequence[bytes], work: Callable[[], Outcome]) -> Outcome:
        try:
            self._before(self._call(verb, keys))
        except TemporaryStorageError as error:
            return Outcome((Status.FAILED,) * len(keys), error)
        return work()

    def _before(self, call: Name) -> None:
        for fault in self._hits("storage-slow", call):
            low, high = fault.values["ms"].low, fault.values["ms"].high
            time.sleep((low + (high - low) * self._drawn(fault, *call).share()) / 1e3)
        if self.hangs:
            self._note("storage-hang")
            self._closing.wait(self._hang_s)
            raise StorageTimeoutError("the call was not over at its deadline: the fault has seen to it")
        for _ in self._hits("storage-fail", call):
            raise TemporaryStorageError("the engine failed: the fault has seen to it")

    def _hits(self, kind: str, call: Name) -> list[Fault]:
        """The faults of a kind that are at work in a call."""
        hits = []
        for fault in self._faults:
            chance = fault.values["p"].low if "p" in fault.values else 1.0
            if kind == "storage-fail" and not self.fails:
                continue
            if fault.kind == kind and self._drawn(fault, *call).chance(chance):
                self._note(kind)
                hits.append(fault)
        return hits

    def _call(self, verb: str, keys: Sequence[bytes]) -> Name:
        """The name of a call that is made now. Below a rank each verb has a thread of its own."""
        asked = (_VERBS.index(verb), int.from_bytes(keys[0][:6], "little") if keys else 0)
        self._made[asked] += 1
        return *asked, self._made[asked]
