"""Writes down what one rank is given and what it decides: around its cache and its `Rank`, call by call."""

import threading
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, cast

from isoradix import (
    Control,
    FrameInfo,
    HostLockReceipt,
    InsertResult,
    InvalidInputError,
    IsoradixError,
    LockReceipt,
    NamespaceLike,
    NodeHandle,
    PinReceipt,
    Rank,
    Reduced,
    ResumePoint,
    Slots,
    TieredCache,
    TieredMatchResult,
)
from isoradix._isoradix import JournalLog
from isoradix.journal import layout
from isoradix.journal.layout import Kind
from isoradix.journal.verbs import VERBS
from isoradix.journal.writer import LEAST_BYTES, LIMIT_BYTES, SegmentWriter

_BLOCK_BYTES: Final = 1 << 19
_FORMS: Final = {name: (verb.code, verb.forms) for name, verb in VERBS.items()}
_FLUSH_S: Final = 5.0


class Recorder:
    """One rank's journal while it is written. Calls come from the scheduler's thread, but for `fail` and
    `hand_over`.

    Args:
        folder: of the run; made if it is not there.
        rank: of the deployment.
        head: what the head of every segment says: see `docs/journals.md`.
        limit_bytes: of all segments together, at least 64 KiB.

    Raises:
        InvalidInputError: the folder cannot be made or written to, or the limit is too low.
    """

    def __init__(self, folder: Path, rank: int, head: dict[str, Any], limit_bytes: int = LIMIT_BYTES) -> None:
        if limit_bytes < LEAST_BYTES:
            what = f"a journal's limit is {limit_bytes} bytes, at least {LEAST_BYTES}"
            raise InvalidInputError(f"{what}\nhint: {LIMIT_BYTES} is the default")
        self._head = head
        self._writer = SegmentWriter(make_folder(folder), f"rank-{rank:04}", limit_bytes, self.hand_over)
        self._segment = -1
        self._begun = 0
        self._dropped = 0
        self._lacks = False
        self._log = JournalLog()
        self._ended = False
        self._writing = threading.RLock()
        self._begin_segment(1)
        self._writer.start()

    @property
    def path(self) -> Path:
        """The segment that is being written."""
        return self._writer.path(self._segment)

    @property
    def folder(self) -> Path:
        return self._writer.folder

    @property
    def writing_ms(self) -> float:
        """Processor time of the thread that writes; known once it is closed."""
        return self._writer.cpu_ms

    # entries

    def frame(self, step: int, digest: int, frame: bytes) -> None:
        """A step begins: a segment may, too."""
        if self._lacks or self._log.added - self._begun > self._writer.segment_bytes:
            with self._writing:
                self._begin_segment(step)
        self._log.entry(Kind.FRAME, layout.FRAME.pack(step, digest) + frame)

    def call(self, cache: TieredCache, verb: str, arguments: tuple[Any, ...]) -> None:
        """A call has succeeded, and the cache has decided something."""
        if self._log.call(cache, *_FORMS[verb], arguments) > _BLOCK_BYTES:
            self.hand_over()

    def decisions(self, cache: TieredCache) -> None:
        """What came of the entry before."""
        self._log.decisions(cache)

    def end(self, step: int, digest: int, tree_digest: int) -> None:
        """A step is closed."""
        if self._log.entry(Kind.END, layout.END.pack(step, digest, tree_digest)) > _BLOCK_BYTES:
            self.hand_over()  # else the writer asks for it

    def fail(self, error: BaseException) -> None:
        """This rank's last words: what is open is handed over, and nothing is written after it. The error names the
        file. Any thread may call."""
        with self._writing:
            if not self._ended:
                self._log.entry(Kind.FAILURE, f"{type(error).__name__}: {error}".encode(errors="replace"))
                self._end()
        if isinstance(error, IsoradixError):
            self._name_in(error)

    def _name_in(self, error: IsoradixError) -> None:
        what, _, hint = str(error).partition("\nhint: ")
        named = f"this rank's journal is {self.path}; see isoradix diff {self.folder}"
        if named not in hint:
            others = [part for part in hint.split("; ") if part and "isoradix diff DIR" not in part]
            error.args = (f"{what}\nhint: {'; '.join([*others, named])}",)

    def close(self) -> None:
        """Waits until all is written, for five seconds at most. A no-op the second time."""
        with self._writing:
            self._end()
        self._writer.close(_FLUSH_S)

    def _end(self) -> None:
        self._log.end()
        self.hand_over()
        self._ended = True

    def _begin_segment(self, step: int) -> None:
        self.hand_over()
        about = {**self._head, "segment": self._segment + 1, "step": step, "dropped_bytes": self._dropped}
        self._begun = self._log.added
        self._log.entry(Kind.HEAD, layout.head(about))
        block = self._log.take()
        # one that has no room now is tried again with the next step
        self._lacks = block is None or not self._writer.put(block, self._segment + 1)
        if block is not None and not self._lacks:
            self._segment, self._dropped = self._segment + 1, 0
            self._log.forget()

    def hand_over(self) -> None:
        """The block so far goes to the disk, or is dropped with the rest of its segment. Any thread may call."""
        with self._writing:
            block = self._log.take()
            if block is None:
                return
            if self._lacks or not self._writer.put(block):
                self._lacks = True
                self._dropped += len(block)


def make_folder(folder: Path) -> Path:
    """The folder, made.

    Raises:
        InvalidInputError: it cannot be.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink(missing_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        what = f"the folder for journals, {str(folder)!r}, cannot be written to: {reason}"
        raise InvalidInputError(f"{what}\nhint: name one that can be made") from error
    return folder


class RecordedCache:
    """A `TieredCache` whose calls are written down once they have succeeded; a refused one has changed nothing.

    Everything that only looks is the cache's own. Nodes are written as their sequence numbers, and holds as the numbers
    of the calls that gave them: both are equal on all ranks.
    """

    def __init__(self, cache: TieredCache, recorder: Recorder) -> None:
        self._cache, self._recorder = cache, recorder
        self._holds: dict[int, int] = {}
        self._held = 0
        cache.take_records()  # from here on they are kept

    def note(self, name: str, *arguments: Any) -> None:
        """A call has succeeded."""
        self._recorder.call(self._cache, name, arguments)

    def _hold(self, receipt: int) -> None:
        self._holds[receipt] = self._held
        self._held += 1

    # the verbs, as `TieredCache` has them

    def match_prefix(
        self, key: Any, namespace: NamespaceLike = None, *, resume: "ResumePoint | None" = None
    ) -> TieredMatchResult:
        found = self._cache.match_prefix(key, namespace, resume=resume)
        self.note("match_prefix", key, namespace, resume)
        return found

    def insert(
        self,
        key: Any,
        slots: Any,
        namespace: NamespaceLike = None,
        *,
        priority: int = 0,
        resume: "ResumePoint | None" = None,
    ) -> InsertResult:
        done = self._cache.insert(key, slots, namespace, priority=priority, resume=resume)
        self.note("insert", key, len(slots), namespace, priority, resume)
        return done

    def touch(self, node: NodeHandle) -> None:
        self._cache.touch(node)
        self.note("touch", node)

    def keep_states(self, node: NodeHandle) -> None:
        self._cache.keep_states(node)
        self.note("keep_states", node)

    def lock(self, node: NodeHandle) -> LockReceipt:
        receipt = self._cache.lock(node)
        self._hold(receipt)
        self.note("lock", node)
        return receipt

    def unlock(self, receipt: LockReceipt) -> None:
        self._cache.unlock(receipt)
        self.note("unlock", self._holds.pop(receipt))

    def pin(self, node: NodeHandle) -> PinReceipt:
        receipt = self._cache.pin(node)
        self._hold(receipt)
        self.note("pin", node)
        return receipt

    def unpin(self, receipt: PinReceipt) -> None:
        self._cache.unpin(receipt)
        self.note("unpin", self._holds.pop(receipt))

    def host_lock(self, node: NodeHandle) -> HostLockReceipt:
        receipt = self._cache.host_lock(node)
        self._hold(receipt)
        self.note("host_lock", node)
        return receipt

    def unlock_host(self, receipt: HostLockReceipt) -> None:
        self._cache.unlock_host(receipt)
        self.note("unlock_host", self._holds.pop(receipt))

    def load_back(self, receipt: HostLockReceipt, slots: Any) -> int:
        loaded = self._cache.load_back(receipt, slots)
        self.note("load_back", self._holds[receipt], len(slots))
        if loaded:
            del self._holds[receipt]
        return loaded

    def prefetch(self, key: Any, namespace: NamespaceLike = None, *, anchor: NodeHandle | None = None) -> Any:
        ticket = self._cache.prefetch(key, namespace, anchor=anchor)
        self.note("prefetch", key, namespace, anchor)
        return ticket

    def evict(self, num_tokens: int) -> Any:
        evicted = self._cache.evict(num_tokens)
        self.note("evict", num_tokens)
        return evicted

    def evict_host(self, pages: int) -> int:
        freed = self._cache.evict_host(pages)
        self.note("evict_host", pages)
        return freed

    def remove_namespace(self, namespace: tuple[str | None, str | None]) -> Slots:
        freed = self._cache.remove_namespace(namespace)
        self.note("remove_namespace", namespace)
        return freed

    def reset(self) -> Slots:
        freed = self._cache.reset()
        self._holds.clear()
        self.note("reset")
        return freed


class RecordedRank:
    """A `Rank` whose frames and calls are written down, with the digests of every step."""

    def __init__(self, rank: Rank, cache: RecordedCache, recorder: Recorder) -> None:
        self._rank, self._cache, self._recorder = rank, cache, recorder
        self._plain: TieredCache = rank.cache

    @property
    def cache(self) -> TieredCache:
        return cast(TieredCache, self._cache)

    def lead(self, now_ms: int, newest: Reduced | None = None, controls: Iterable[Control] = ()) -> bytes:
        digest = self._rank.digest
        frame = self._rank.lead(now_ms, newest, controls)
        self._recorder.frame(self._plain.clock[0], digest, frame)
        self._recorder.decisions(self._plain)
        return frame

    def follow(self, frame: bytes) -> FrameInfo:
        step, digest = self._plain.clock[0] + 1, self._rank.digest
        self._recorder.frame(step, digest, bytes(frame))  # before: one that is refused is evidence, too
        info = self._rank.follow(frame)
        self._recorder.decisions(self._plain)
        return info

    def close_step(self, device_free: int, promised: int = 0) -> None:
        self._rank.close_step(device_free, promised)
        self._cache.note("close_step", device_free, promised)
        self._recorder.end(self._plain.clock[0], self._rank.digest, self._plain.tree_digest)

    def begin_loads(self) -> None:
        self._rank.begin_loads()
        self._cache.note("begin_loads")

    def found(self, operation: int, tokens: int) -> None:
        self._rank.found(operation, tokens)
        self._cache.note("found", operation, tokens)

    def found_presence(self, operation: int, parts: bytes) -> None:
        self._rank.found_presence(operation, parts)
        self._cache.note("found_presence", operation, len(parts))

    def withdraw(self, pages: int) -> None:
        self._rank.withdraw(pages)
        self._cache.note("withdraw", pages)

    def restore(self, pages: int) -> None:
        self._rank.restore(pages)
        self._cache.note("restore", pages)


def _show_the_rest(around: type, inside: type, at: str) -> None:
    """Whatever `around` has not is what it has inside: as properties, since `__getattr__` comes after a failed search,
    and schedulers look often."""
    for name in dir(inside):
        if not name.startswith("_") and not hasattr(around, name):
            setattr(around, name, property(attrgetter(f"{at}.{name}")))


_show_the_rest(RecordedCache, TieredCache, "_cache")
_show_the_rest(RecordedRank, Rank, "_rank")


def recorded(rank: Rank, cache: TieredCache, recorder: Recorder) -> tuple[Rank, TieredCache]:
    """Both, with everything that goes through them written down. Their types are those they stand for."""
    around = RecordedCache(cache, recorder)
    return cast(Rank, RecordedRank(rank, around, recorder)), cast(TieredCache, around)
