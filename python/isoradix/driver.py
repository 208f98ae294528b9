"""One rank of a deployment, put together: cache, plane and copy engine behind one step.

driver = Driver(plane, engine, slots, page_size=16, host_pages=1000)
while not driver.stopped:
    with driver.step() as cache:
        ...                        # match, lock, load back, evict, insert: the same on all ranks
    for load in driver.loads:      # the forward pass: what it needs is there, layer by layer
        load.wait_layer(0)
driver.close()
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from isoradix import (
    Attachment,
    Board,
    Cancel,
    Control,
    DivergenceError,
    FrameInfo,
    FreeSlots,
    InputTypeError,
    IntSequence,
    InvalidInputError,
    Open,
    ProtocolError,
    Query,
    Rank,
    Slots,
    Start,
    StartRecord,
    TieredCache,
    VoteMachine,
    agree,
    start,
)
from isoradix.attaching import Attaching, Opener, close_aside
from isoradix.consensus.plane import Plane, first_line, named_by
from isoradix.consensus.waits import OwnWait
from isoradix.copies.engine import Copy, CopyEngine
from isoradix.journal.recorder import Recorder, make_folder, recorded
from isoradix.journal.writer import LIMIT_BYTES
from isoradix.storage.components import check_components

if TYPE_CHECKING:
    from isoradix.storage.tier import Storage


class DeviceSlots(Protocol):
    """What hands out a rank's device slots, as far as a driver asks: a `SlotPool`, or a serving engine's allocator."""

    @property
    def page_size(self) -> int:
        """Tokens in a page."""

    @property
    def total(self) -> int:
        """Slots, free or not."""

    @property
    def available(self) -> int:
        """Free slots: equal on all ranks at the end of a step."""

    def alloc(self, num_tokens: int) -> Slots:
        """Slots for so many tokens, whole pages.

        Raises:
            OutOfSlotsError: there are not so many. Nothing changed.
        """

    def free(self, slots: IntSequence) -> None:
        """Takes slots back, whole pages in any number."""


class WatchedCopy:
    """A copy for which waits are shown on the rank's wait board: wanted is its operation, there the layers before."""

    def __init__(self, copy: Copy, plane: Plane) -> None:
        self._copy, self._plane = copy, plane

    @property
    def operation(self) -> int:
        """Its ordinal."""
        return self._copy.operation

    def wait_layer(self, layer: int) -> None:
        """Waits for one layer: see `Copy`."""
        with self._plane.own_wait("copy", self._copy.operation, layer):
            self._copy.wait_layer(layer)


def texts(name: str, given: object) -> tuple[str, ...]:
    """An option that is a sequence of texts, however it is given."""
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes)):
        what = f"{name} is {given!r}; a sequence of str is needed"
        raise InputTypeError(f'{what}\nhint: ("swa=window:4096",) is one component, () is none')
    return tuple(given)


class Driver:
    """Drives one rank. All calls come from the scheduler's thread.

    Args:
        plane: this rank's end of a plane, connected and not started.
        engine: its copy engine; None where there is no host pool. With components one that copies them too.
        slots: what hands out its device slots. Freed slots go back to it here: those that copies kept back at a reset.
        page_size: tokens in a page.
        host_pages: host pages that this rank can back, 0 if its pinning failed, None if it has no pool; the smallest of
            all ranks is agreed.
        settings: what else must be equal on all ranks, name to value: dtype, model, environment.
        pacing: milliseconds from one vote to the next, equal on all ranks: while operations are under way, while there
            are none, while a rank is paused.
        l3: what carries out its prefetches and stores, on every rank that has host pages or on none; None if there
            is no external storage. It has the cache's components, in their order. Its owner closes the backend below
            it, and the pools, after the driver.
        journal: a folder in which this rank writes its journal, in a folder of the run; None for none. The ranks need
            not have it alike.
        journal_bytes: of a journal at most; the oldest of it is given up beyond that.
        mode: what digests that differ do, equal on all ranks. "enforce": a rank that parts ends with DivergenceError.
            "observe": it is told once, see `divergence`, and the ranks go on as far as they can; what is promised of
            equal ranks is not promised then. "off": digests are not compared.
        tiers: the highest tier that is on from the first step, "l1", "l2" or "l3", equal on all ranks; `switch_tiers`
            changes it later.
        options: of `TieredCache`, equal on all ranks but for `components_elsewhere`.

    Raises:
        ProtocolError: the ranks differ in a setting; the message names all of them. On every rank.
        PlaneLost: a rank did not come.
        InvalidInputError, InputTypeError: an option is not accepted, or the folder for journals cannot be written to.
    """

    def __init__(
        self,
        plane: Plane,
        engine: CopyEngine | None,
        slots: DeviceSlots,
        *,
        page_size: int,
        host_pages: int | None = None,
        settings: Mapping[str, str] | None = None,
        pacing: tuple[int, int, int] = (1, 4, 50),
        l3: "Storage | None" = None,
        journal: Path | None = None,
        journal_bytes: int = LIMIT_BYTES,
        mode: str = "enforce",
        tiers: str = "l3",
        **options: Any,
    ) -> None:
        if engine is None and host_pages:
            what = f"host_pages is {host_pages} and there is no copy engine, limit 0"
            raise InvalidInputError(f"{what}\nhint: pass isoradix.copies.engine_for(device, host)")
        if slots.page_size != page_size:
            what = f"page_size is {page_size}, and the pool of slots has pages of {slots.page_size}"
            raise InvalidInputError(f"{what}\nhint: one page size for cache and pools")
        if l3 is not None and engine is None:
            what = "l3 is given without a copy engine, and so without host pages"
            raise InvalidInputError(f"{what}\nhint: storage lies below host memory: pass host_pages and an engine")
        options["components"] = texts("components", options.get("components", ()))  # equal ranks say equal things
        options["components_elsewhere"] = texts("components_elsewhere", options.get("components_elsewhere", ()))
        self._components = options["components"], options["components_elsewhere"]
        if engine is not None:
            self._check_engine(engine)
        if l3 is not None:
            self._check_storage(l3)
        switch = Control.tiers(tiers)
        if journal is not None:
            make_folder(journal)  # before the others wait for this rank
        self.plane = plane
        self.engine = engine
        self.l3 = l3
        options.setdefault("storage", l3 is not None)
        self.slots = slots
        self.loads: tuple[Copy, ...] = ()
        self._open = self._closed = False
        self.stopped = False
        self.divergence: DivergenceError | None = None
        """What mode "observe" has found first; None so far, and in the other modes."""
        self._observes = mode == "observe"
        self._changes = [switch] if plane.place.leads and tiers != "l3" else []
        self.attachments: list[tuple[int, str, str]] = []
        """What has become of storage while the rank ran: step, "attached", "refused" or "detached", and why refused."""
        member = plane.place.member
        record = StartRecord(member, plane.topology.members, host_pages)
        agreed = {
            **start.settings(plane, page_size, engine is not None, options),
            "pacing": str(pacing),
            "mode": mode,
            "tiers": tiers,
        }
        for name, value in (*agreed.items(), *(settings or {}).items()):
            record.set(name, value)  # refused if it is set already
        agreement = agree(plane.gather(record.to_bytes()))
        self.cache = TieredCache(
            rank=member, host_pages=host_pages, agreement=agreement, page_size=page_size, **options
        )
        self.board = Board(member, self.cache.window)
        self._attaching = Attaching(self.board, self._check_storage)
        self.votes = VoteMachine(member, plane.epoch, self.cache.window, pacing, mode=mode)
        self.rank = self._seat(mode)
        self.run = plane.gather(start.new_run().encode())[0].decode()
        """The leader's name for this start of the domain."""
        self.journal = None
        """Where this rank writes down what it is given and decides; None if nowhere."""
        if journal is not None:
            said = {"capacity_pages": agreement.capacity_pages, "settings": {**agreed, **(settings or {})}}
            head = {**start.journal_head(plane, self.run, page_size, options), "mode": mode, **said}
            self.journal = Recorder(journal / self.run, plane.place.rank, head, journal_bytes)
            self.rank, self.cache = recorded(self.rank, self.cache, self.journal)
        if engine is not None:
            engine.attach(self.board)
        if l3 is not None:
            l3.attach(self.board)
        plane.start(self.rank, self.board, self.votes, self._poll)

    def _check_engine(self, engine: CopyEngine) -> None:
        wanted, moves = self._components[0], getattr(engine, "components", ())
        if wanted and not getattr(engine, "copies_components", False):
            what = f"components are {wanted}, and {type(engine).__name__} copies keys and values alone"
            hint = "pass engine_for(device, host, components), or an engine of your own that copies what Start.parts"
            raise InvalidInputError(f"{what}\nhint: {hint} names and says so by copies_components = True")
        if moves:  # an engine of the embedder's need not name them
            check_components(*self._components, moves, "the copy engine")

    def _check_storage(self, storage: "Storage") -> None:
        check_components(*self._components, getattr(storage, "components", ()))

    def _seat(self, mode: str) -> Rank:
        plane, place = self.plane, self.plane.place
        if place.leads:
            edges, depth = plane.edges, plane.topology.pp
            return Rank.leader(
                self.cache, self.board, epoch=plane.epoch, domain=place.domain, edges=edges, depth=depth, mode=mode
            )
        return Rank.follower(self.cache, self.board, epoch=plane.epoch, domain=place.domain, mode=mode)

    # one step

    @contextmanager
    def step(self, controls: Sequence[Control] = ()) -> Iterator[TieredCache]:
        """One step: enters it by a frame, lets the block use the cache's verbs, closes it and starts its copies.

        Where the block raises, this rank tells the others that it is lost, and the error goes on.

        Args:
            controls: the leader's own decisions, applied by all ranks in this step; `[Control.stop()]` makes it the
                last.

        Raises:
            ProtocolError: after the last step.
            PlaneLost, DivergenceError, HostPoolError, OperationError: fatal; close, and start anew.
        """
        self._check_open()
        try:
            self.enter(controls)
            yield self.cache
            self.end()
        except BaseException as error:
            self.fail(error)
            raise

    def fail(self, error: BaseException) -> None:
        """Tells the other ranks that this one cannot go on. `step` does it for its block; around `enter` and `end` it
        is the caller's to do. Its journal is brought to its end, and the error names it."""
        if self.journal is not None:
            self.journal.fail(error)
        ranks = named_by(error, self.plane.topology, self.plane.place.domain)
        self.plane.fail(f"{type(error).__name__}: {first_line(error)}", ranks or None)
        if self.journal is not None:
            self.journal.close()

    def enter(self, controls: Sequence[Control] = ()) -> FrameInfo:
        """The first half of `step`, for schedulers that are no block."""
        self._check_open()
        self._poll()
        self._hear()
        changes, self._changes = self._changes, []
        frame = self.plane.enter((*controls, *changes) if changes else controls)
        self._open = True
        self.stopped = frame.stops
        if self._observes and self.divergence is None:
            self._observe()
        return frame

    def _observe(self) -> None:
        """Tells once that ranks have parted."""
        self.divergence = self.rank.parted or self.plane.parted
        if self.divergence is not None:
            self.plane.observe(self.divergence)

    def switch_tiers(self, top: str) -> None:
        """With the next step, all ranks leave on the tiers up to `top` alone: no copy to or from those above begins,
        and no hit there is offered, until another switch. What is under way ends as it would have.

        To tell whose fault something is while a deployment runs. On the leader.

        Args:
            top: "l1" for the device alone, "l2" for device and host, "l3" for all.

        Raises:
            ProtocolError: this rank follows.
            InvalidInputError: there is no such tier.
        """
        switch = Control.tiers(top)
        if not self.plane.place.leads:
            what = f"tiers were switched by {self.plane.place.name}, which follows"
            raise ProtocolError(f"{what}\nhint: only the leader decides; switch them on rank 0 of the domain")
        self._changes.append(switch)

    def attach(self, opens: Opener) -> None:
        """Attaches external storage while the ranks run. On all ranks, in any order and at any time; the leader's call
        begins it with the next step.

        Each rank then opens its own, on a thread of its own. Once all of them have, it is used from one step on by all
        of them; where one cannot, no rank attaches, and `attachments` says why. `cache.attachment` tells how far it is.

        Args:
            opens: gives this rank's storage, which the driver closes; it raises what is in its way.

        Raises:
            ProtocolError: there is storage, or a change of it is under way.
        """
        leads, state = self.plane.place.leads, self.cache.attachment
        under_way = leads and (state == "opening" or any(change.kind == "attach" for change in self._changes))
        if self.l3 is not None or state in ("attached", "detaching") or under_way:
            there = "that is under way" if under_way else "there is some"
            what = f"storage was to be attached on {self.plane.place.name}, and {there}"
            raise ProtocolError(f"{what}\nhint: detach it first, and wait until cache.attachment is absent")
        if self.engine is not None:
            self._attaching.offer(opens)
        if leads:
            self._changes.append(Control.attach())

    def detach(self) -> None:
        """Detaches external storage with the next step, on all ranks. On the leader.

        No prefetch begins any more. What was to be stored before is stored; what storage does not take, or the breaker
        keeps back, is given up, and counted in `totals.given_up_tokens`. Then storage is closed. An attach that is
        under way is called off.

        Raises:
            ProtocolError: this rank follows, or there is no storage.
        """
        if not self.plane.place.leads:
            what = f"storage was detached by {self.plane.place.name}, which follows"
            raise ProtocolError(f"{what}\nhint: only the leader decides; detach it on rank 0 of the domain")
        if self.cache.attachment == "detaching" or any(change.kind == "detach" for change in self._changes):
            raise ProtocolError("storage is being detached already\nhint: cache.attachment says when there is none")
        if self.l3 is None and self.cache.attachment == "absent":
            wanted = [change for change in self._changes if change.kind == "attach"]
            if not wanted:
                raise ProtocolError("there is no storage to be detached\nhint: cache.attachment says whether there is")
            self._changes.remove(wanted[0])  # no rank has heard of it yet
            return
        self._changes.append(Control.detach())

    def waiting(self, operation: OwnWait, want: int = 0, have: int = 0) -> AbstractContextManager[None]:
        """Around a wait of this rank's scheduler for something of its own: shows it on the wait board.

        Args:
            operation: "copy", "slots" or "storage".
            want, have: numbers for people.
        """
        return self.plane.own_wait(operation, want, have)

    def _check_open(self) -> None:
        if self.stopped:
            raise ProtocolError("enter out of order: the stop frame was the last\nhint: loop while not driver.stopped")

    def _poll(self) -> None:
        if self.engine is not None:
            self.engine.poll()

    def _hear(self) -> None:
        """What storage has answered: the prefetches reserve their pages, and begin."""
        answers = () if self.l3 is None else self.l3.answers()
        for operation, tokens in answers:
            if isinstance(tokens, bytes):
                self.rank.found_presence(operation, tokens)
            else:
                self.rank.found(operation, tokens)
        if answers:
            tuple(self._carry_out(self.rank.take_effects()))  # no load-back is among them

    def begin_loads(self) -> tuple[Copy, ...]:
        """Starts what the step has wished to load back so far, ahead of its end; the copies.

        For a scheduler that allots slots between this and its end: what a backup reads is locked from the end on. On
        all ranks at the same point.

        Raises:
            ProtocolError: no step is open.
        """
        self.rank.begin_loads()
        return tuple(self._carry_out(self.rank.take_effects()))

    def end(self, promised: int = 0) -> None:
        """The second half: what the step wished for becomes operations, and this rank's copies start.

        Args:
            promised: tokens for which the scheduler has promised room that they have not taken yet, equal on all ranks.
                What is copied to host cannot be evicted meanwhile; so many stay free or evictable, and the copies of
                other tokens wait.

        Raises:
            InvalidInputError: `promised` is negative.
        """
        # nobody asks what is free where nothing is copied
        self.rank.close_step(0 if self.engine is None else self.slots.available, promised)
        self._open = False
        effects = self.rank.take_effects()
        self.loads = tuple(self._carry_out(effects)) if effects else ()

    def _carry_out(self, effects: Iterable[Query | Start | Cancel | Open | Attachment | FreeSlots]) -> Iterator[Copy]:
        """Starts copies; gives those that the forward pass waits for."""
        for effect in effects:
            match effect:
                case Start(_, "prefetch" | "store"):
                    self._storage.start(effect)
                case Start(_, kind):
                    copy = self._engine.start(effect)
                    if kind == "load_back":
                        yield WatchedCopy(copy, self.plane)
                case Cancel(operation) if self._attaching.cancel(operation):
                    pass
                case Cancel(operation):
                    if self.l3 is None or not self.l3.cancel(operation):
                        self._engine.cancel(operation)
                case Open(operation):
                    self._attaching.ask(operation)
                case Attachment(state):
                    self._attach(state)
                case FreeSlots(slots):
                    self.slots.free(slots)
                case Query(operation) if self.l3 is None:
                    self.rank.found(operation, 0)
                case Query():
                    self._storage.query(effect)

    def _attach(self, state: str) -> None:
        """What has become of storage, on every rank at this step. A rank without host pages has none of its own."""
        why = ""
        if self.engine is not None:
            if state == "attached":
                self.l3 = self._attaching.take()
            elif state == "refused":
                why = self._attaching.refused()
            elif self.l3 is not None:
                close_aside(self.l3)
                self.l3 = None
        self.attachments.append((self.cache.clock[0], state, why))

    @property
    def _storage(self) -> "Storage":
        assert self.l3 is not None, "without storage nothing is stored, and nothing is found to be fetched"
        return self.l3

    @property
    def _engine(self) -> CopyEngine:
        assert self.engine is not None, "without host pages nothing is copied"
        return self.engine

    # its end

    @property
    def digest(self) -> int:
        """The decision digest at this moment: on entry of a step it is equal on all ranks."""
        return self.rank.digest

    def close(self) -> None:
        """After the stop frame: all copies end, all ranks leave after the same vote. Before it, or after an error: the
        rank fails.

        A no-op the second time. Pools are the caller's to close, after this.
        """
        if self._closed:
            return
        self._closed = True
        if self.journal is not None:
            self.journal.close()
        if self.engine is not None:
            try:
                with self.waiting("storage"):
                    self._attaching.close()
                    if self.l3 is not None:
                        self.l3.close()
                self.engine.close()
            except BaseException as error:
                self.fail(error)
                raise
        if self.stopped and not self._open:
            self.plane.leave()
        else:
            self.plane.fail("closed before the stop frame")
