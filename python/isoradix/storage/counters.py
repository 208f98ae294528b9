"""What a backend has counted."""

import threading
from collections import Counter
from collections.abc import Sequence

from isoradix.storage.call import Status


class Counters:
    """Calls, pages by what became of them, bytes and seconds. Any thread may read and write."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._seconds: dict[str, float] = {"get": 0.0, "put": 0.0}

    def count(self, verb: str, asked: int, found: int) -> None:
        """One call that asked after pages."""
        with self._lock:
            self._counts[f"{verb}_calls"] += 1
            self._counts[f"{verb}_pages"] += asked
            self._counts[f"{verb}_found"] += found

    def transferred(self, verb: str, statuses: Sequence[Status], page_bytes: int, seconds: float) -> None:
        """One call that moved pages."""
        with self._lock:
            self._counts[f"{verb}_calls"] += 1
            self._counts[f"{verb}_pages"] += len(statuses)
            for status, pages in Counter(statuses).items():
                self._counts[f"{verb}_{status.name.lower()}"] += pages
            self._counts[f"{verb}_bytes"] += page_bytes * list(statuses).count(Status.DONE)
            self._seconds[verb] += seconds

    def __getitem__(self, name: str) -> int:
        """A count by its name, as `get_done`; 0 if there was none."""
        with self._lock:
            return self._counts[name]

    def as_dict(self) -> dict[str, int | float]:
        """All that is not 0, by name."""
        with self._lock:
            counts: dict[str, int | float] = dict(sorted(self._counts.items()))
            counts.update({f"{verb}_s": round(seconds, 6) for verb, seconds in self._seconds.items() if seconds})
            return counts
