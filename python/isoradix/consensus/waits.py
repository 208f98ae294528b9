"""The wait board: what each thread of a rank is waiting for, in a small file that any process can read.

A server that hangs says nothing by itself. The board does: operation, group, peer, what is wanted, what is there, since
when. Writing it costs a microsecond and never blocks; a reader needs nothing from the rank but the file.

Bytes, little-endian: a head of 128 (magic `IRXW`, version u16, slots u16, pid u32, rank u32, member u32, epoch u64,
domain u32, members u32, four unused; step i64, since u64, votes i64, parted i64), then 128 a slot (sequence u32, odd
while it is written; waiting u32; since u64, nanoseconds of the machine's monotonic clock; want i64; have i64; peer i32,
-1 for all and -2 for this rank itself; then 24 bytes of the operation's name and 24 of its group's, padded with zeros).

Step and since say at which step the rank is and since when, votes how many it has completed, parted before which step
it was found to have parted (-1: it was not). Version 1 had a head of 64, which ended with the epoch.
"""

import mmap
import os
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from isoradix import InvalidInputError

_MAGIC: Final = b"IRXW"
_VERSION: Final = 2
_HEAD: Final = struct.Struct("<4sHHIIIQ")
_DOMAIN: Final = struct.Struct("<II")
_PROGRESS: Final = struct.Struct("<qQqq")
_STEP: Final = struct.Struct("<qQ")
_WORD: Final = struct.Struct("<q")
_SLOT: Final = struct.Struct("<IIQqqi24s24s")
_HEAD_BYTES: Final = {1: 64, 2: 128}
"""By version."""
_OWN_HEAD_BYTES: Final = _HEAD_BYTES[_VERSION]
_STEP_AT: Final = 40
_VOTES_AT: Final = 56
_PARTED_AT: Final = 64
_SLOT_BYTES: Final = 128
_LARGEST_BYTES: Final = _OWN_HEAD_BYTES + 256 * _SLOT_BYTES
_SEQUENCE: Final = struct.Struct("<I")
_STATE: Final = struct.Struct("<IQqqi")
ALL: Final = -1
SELF: Final = -2
KEPT_S: Final = 86_400
"""How long the board of a process that was killed stays, as evidence."""

OPERATIONS: Final = {
    "frame": "frames",
    "send": "frames",
    "vote": "votes",
    "gather": "votes",
    "leave": "end",
    "ack": "own",
    "copy": "own",
    "slots": "own",
    "storage": "own",
    "pause": "own",
}
"""What a rank waits for, and in which group: a slot each. Of the group "own" is what no other rank has a part in: its
own queues and threads; who leaves waits until all ranks have come to the end. A pause is no wait: some rank has said
that it pauses, and as long as it does, no wait is too long."""
OwnWait = Literal["copy", "slots", "storage"]
"""What a scheduler may wait for that is its rank's own: a copy's layer or end, free slots, an answer of storage."""


@dataclass(frozen=True)
class WaitEntry:
    """One wait that was going on when the board was read."""

    operation: str
    group: str
    peer: int
    """Member of the domain that is waited for; -1 for all of them, -2 for this rank itself."""
    want: int
    have: int
    age_s: float

    @property
    def own(self) -> bool:
        """Whether no other rank has a part in it."""
        return self.group == "own" and self.operation != "pause"


@dataclass(frozen=True)
class RankWaits:
    """One rank's board, or what it has said of it over its lifelines."""

    pid: int
    rank: int
    member: int
    epoch: int
    alive: bool
    waits: tuple[WaitEntry, ...]
    domain: int = 0
    members: int = 0
    """Ranks of the domain; 0 if the board does not say."""
    step: int = -1
    """The step that it entered last; -1 before the first."""
    still_s: float = 0.0
    """Since when it is at that step."""
    votes: int = 0
    """Votes that it has completed."""
    stopped: bool = False
    """Whether its process is stopped, or gives no sign of life."""
    parted: int | None = None
    """The step before which it was found to have parted from the others, if it goes on all the same."""
    plane: str = ""
    """Its plane's name, where a rank has several; "" for that of its cache."""

    def as_json(self) -> dict[str, object]:
        """The stable form: names are not changed within a major version, only added."""
        waiting = [{**asdict(wait), "age_s": round(wait.age_s, 3)} for wait in self.waits]
        return {**asdict(self), "still_s": round(self.still_s, 3), "waits": waiting}


@dataclass
class _Slot:
    """What a thread is waiting for; each slot has one thread that writes it."""

    at: int
    sequence: int = 0
    since_ns: int = 0
    want: int = 0
    have: int = 0
    peer: int = ALL
    waiting: bool = False


class WaitBoard:
    """This rank's board. One thread at a time writes a slot.

    Args:
        folder: where the file goes; None for `default_folder()`.
        rank: of the deployment.
        member: of the domain.
        epoch: the group's incarnation.
        domain: of the deployment.
        members: ranks of the domain.
        name: of the plane, where a rank has several.
    """

    def __init__(
        self, folder: Path | None, rank: int, member: int, epoch: int, domain: int = 0, members: int = 0, name: str = ""
    ) -> None:
        folder = default_folder() if folder is None else folder
        self.rank, self.member, self.epoch, self.domain, self.members = rank, member, epoch, domain, members
        self.plane = name
        self._step, self._since_ns, self._votes = -1, time.monotonic_ns(), 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _remove_left_behind(folder)
            self.path = folder / f"{os.getpid()}-rank{rank}{f'-{name}' if name else ''}.waits"
            size = _OWN_HEAD_BYTES + _SLOT_BYTES * len(OPERATIONS)
            self.path.write_bytes(bytes(size))
            with self.path.open("r+b") as file:
                self._map = mmap.mmap(file.fileno(), size)
        except OSError as error:
            what = f"the wait board cannot be written in {str(folder)!r}: {error.strerror}"
            raise InvalidInputError(f"{what}\nhint: pass wait_board=, a folder that can be written") from error
        self._slots: dict[str, _Slot] = {}
        for number, (operation, group) in enumerate(OPERATIONS.items()):
            slot = self._slots[operation] = _Slot(_OWN_HEAD_BYTES + number * _SLOT_BYTES)
            _SLOT.pack_into(self._map, slot.at, 0, 0, 0, 0, 0, ALL, operation.encode(), group.encode())
        _DOMAIN.pack_into(self._map, _HEAD.size, domain, members)
        _PROGRESS.pack_into(self._map, _STEP_AT, self._step, self._since_ns, self._votes, -1)
        _HEAD.pack_into(self._map, 0, _MAGIC, _VERSION, len(OPERATIONS), os.getpid(), rank, member, epoch)

    def entered(self, step: int) -> None:
        """The rank has entered a step."""
        self._step, self._since_ns = step, time.monotonic_ns()
        # a slice is written at once, and not cleared before
        self._map[_STEP_AT : _STEP_AT + _STEP.size] = _STEP.pack(step, self._since_ns)

    def voted(self, votes: int) -> None:
        """The rank has completed so many votes."""
        self._votes = votes
        self._map[_VOTES_AT : _VOTES_AT + _WORD.size] = _WORD.pack(votes)

    def parted(self, step: int) -> None:
        """The rank was found to have parted from the others before that step, and goes on."""
        self._map[_PARTED_AT : _PARTED_AT + _WORD.size] = _WORD.pack(step)

    @contextmanager
    def waiting(self, operation: str, peer: int, want: int, have: int) -> Iterator[None]:
        """Publishes a wait for as long as the block lasts."""
        self.begin(operation, peer, want, have)
        try:
            yield
        finally:
            self.end(operation)

    def begin(self, operation: str, peer: int, want: int, have: int) -> None:
        slot = self._slots[operation]
        slot.since_ns, slot.want, slot.have, slot.peer, slot.waiting = time.monotonic_ns(), want, have, peer, True
        self._write(slot)

    def end(self, operation: str) -> float:
        """The wait is over; the seconds that it lasted."""
        slot = self._slots[operation]
        slot.waiting = False
        self._write(slot)
        return (time.monotonic_ns() - slot.since_ns) / 1e9

    def _write(self, slot: _Slot) -> None:
        if self._map.closed:  # a thread may still wait for its own copy when the plane is lost
            return
        slot.sequence = slot.sequence + 2 & 0xFFFF_FFFF
        # packing clears the place first: while the state is in pieces the sequence is odd
        _SEQUENCE.pack_into(self._map, slot.at, slot.sequence | 1)
        state = (int(slot.waiting), slot.since_ns, slot.want, slot.have, slot.peer)
        _STATE.pack_into(self._map, slot.at + _SEQUENCE.size, *state)
        _SEQUENCE.pack_into(self._map, slot.at, slot.sequence)

    def going_on(self) -> list[tuple[WaitEntry, int]]:
        """The waits of this moment, each with its beginning in nanoseconds: for the rank's own watch."""
        now = time.monotonic_ns()
        waits = []
        for operation, slot in self._slots.items():
            since, want, have, peer = slot.since_ns, slot.want, slot.have, slot.peer
            if slot.waiting and operation != "pause":
                entry = WaitEntry(operation, OPERATIONS[operation], peer, want, have, (now - since) / 1e9)
                waits.append((entry, since))
        return waits

    def now(self) -> RankWaits:
        """What the board says at this moment, for the rank's own watch."""
        waits = tuple(entry for entry, _ in self.going_on())
        still_s = (time.monotonic_ns() - self._since_ns) / 1e9
        return RankWaits(
            *(os.getpid(), self.rank, self.member, self.epoch),
            alive=True,
            waits=waits,
            domain=self.domain,
            members=self.members,
            step=self._step,
            still_s=still_s,
            votes=self._votes,
            plane=self.plane,
        )

    def close(self) -> None:
        """Removes the file. A no-op the second time.

        A rank that was killed leaves it behind, as evidence; a day later the next board in that folder removes it.
        """
        if not self._map.closed:
            self._map.close()
            self.path.unlink(missing_ok=True)


def _remove_left_behind(folder: Path) -> None:
    """The boards of processes that ended a day ago or earlier. What cannot be read or removed stays."""
    oldest = time.time() - KEPT_S
    for path in folder.glob("*.waits"):
        with suppress(InvalidInputError, OSError):
            if path.stat().st_mtime < oldest and not read_waits(path).alive:
                path.unlink()


def default_folder() -> Path:
    """`isoradix-<user>` in the machine's folder for temporary files."""
    return Path(tempfile.gettempdir()) / f"isoradix-{os.getuid()}"


def read_waits(path: Path) -> RankWaits:
    """One rank's board, read from outside.

    Raises:
        InvalidInputError: it is no wait board of this version.
        OSError: it cannot be read.
    """
    data = _bytes_of(path)
    if len(data) < _HEAD_BYTES[1] or data[:4] != _MAGIC:
        raise InvalidInputError(f"{str(path)!r} is no wait board\nhint: they are called <pid>-rank<rank>.waits")
    _, version, slots, pid, rank, member, epoch = _HEAD.unpack_from(data)
    head = _HEAD_BYTES.get(version)
    if head is None or len(data) < head + slots * _SLOT_BYTES:
        what = f"{str(path)!r} is a wait board of version {version} and {len(data)} bytes, limit version {_VERSION}"
        raise InvalidInputError(f"{what}\nhint: read it with the release that wrote it")
    # What is equal in two readings was not being written in the first; a wait that is over by then was no long one.
    again = _bytes_of(path)
    now = time.monotonic_ns()
    places = (head + number * _SLOT_BYTES for number in range(slots))
    same = (at for at in places if data[at : at + _SLOT_BYTES] == again[at : at + _SLOT_BYTES])
    found = (_entry(data, at, now) for at in same)
    waits = tuple(entry for entry in found if entry is not None)
    about = {} if version == 1 else _about(again if len(again) == len(data) else data, now)
    about["plane"] = path.stem.partition("-rank")[2].partition("-")[2]
    return RankWaits(pid, rank, member, epoch, _is_alive(pid), waits, stopped=_is_stopped(pid), **about)


def _about(data: bytes, now: int) -> dict[str, Any]:
    """What the head says beside the names of the rank."""
    domain, members = _DOMAIN.unpack_from(data, _HEAD.size)
    step, since, votes, parted = _PROGRESS.unpack_from(data, _STEP_AT)
    progress = {"step": step, "still_s": max(0.0, (now - since) / 1e9), "votes": votes}
    return {"domain": domain, "members": members, "parted": None if parted < 0 else parted, **progress}


def _entry(data: bytes, at: int, now: int) -> WaitEntry | None:
    sequence, waiting, since, want, have, peer, operation, group = _SLOT.unpack_from(data, at)
    if not waiting or sequence % 2:
        return None
    name, group_name = (text.rstrip(b"\0").decode(errors="replace") for text in (operation, group))
    return WaitEntry(name, group_name, peer, want, have, (now - since) / 1e9)


def _bytes_of(path: Path) -> bytes:
    """No more than a board can have."""
    with path.open("rb") as file:
        return file.read(_LARGEST_BYTES)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _is_stopped(pid: int) -> bool:
    """By a signal or a debugger; only Linux tells."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    # the name before it is in parentheses, and may have any character
    return status.rpartition(b")")[2].split()[:1] in ([b"T"], [b"t"])


def all_waits(folder: Path | None = None) -> list[RankWaits]:
    """The boards of all ranks in a folder, by rank; what is no board of this version is left out."""
    boards = []
    for path in sorted((default_folder() if folder is None else folder).glob("*.waits")):
        try:
            boards.append(read_waits(path))
        except (InvalidInputError, OSError):
            continue  # it has ended meanwhile
    return sorted(boards, key=lambda board: (board.rank, board.pid))
