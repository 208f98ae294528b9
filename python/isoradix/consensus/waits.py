"""The wait board: what each thread of a rank is waiting for, in a small file that any process can read.

A server that hangs says nothing by itself. The board does: operation, group, peer, what is wanted, what is there, since
when. Writing it costs a microsecond and never blocks; a reader needs nothing from the rank but the file.

Bytes, little-endian: a head of 64 (magic `IRXW`, version u16, slots u16, pid u32, rank u32, member u32, epoch u64),
then 128 a slot (sequence u32, odd while it is written; waiting u32; since u64, nanoseconds of the machine's monotonic
clock; want i64; have i64; peer i32, -1 for all; then 24 bytes of the operation's name and 24 of its group's, padded
with zeros).
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
from typing import Final

from isoradix import InvalidInputError

_MAGIC: Final = b"IRXW"
_VERSION: Final = 1
_HEAD: Final = struct.Struct("<4sHHIIIQ")
_SLOT: Final = struct.Struct("<IIQqqi24s24s")
_HEAD_BYTES: Final = 64
_SLOT_BYTES: Final = 128
_LARGEST_BYTES: Final = _HEAD_BYTES + 256 * _SLOT_BYTES
_SEQUENCE: Final = struct.Struct("<I")
_STATE: Final = struct.Struct("<IQqqi")
ALL: Final = -1
KEPT_S: Final = 86_400
"""How long the board of a process that was killed stays, as evidence."""

OPERATIONS: Final = {
    "frame": "frames",
    "send": "frames",
    "vote": "votes",
    "gather": "votes",
    "ack": "frames",
    "pause": "own",
}
"""What a rank waits for, and in which group: a slot each. A pause is no wait of its own: some rank has said that it
pauses, and as long as it does, no wait is too long."""


@dataclass(frozen=True)
class WaitEntry:
    """One wait that was going on when the board was read."""

    operation: str
    group: str
    peer: int
    """Member of the domain that is waited for; -1 for all of them."""
    want: int
    have: int
    age_s: float


@dataclass(frozen=True)
class RankWaits:
    """One rank's board."""

    pid: int
    rank: int
    member: int
    epoch: int
    alive: bool
    waits: tuple[WaitEntry, ...]

    def as_json(self) -> dict[str, object]:
        """The stable form: names are not changed within a major version, only added."""
        waiting = [{**asdict(wait), "age_s": round(wait.age_s, 3)} for wait in self.waits]
        return {**asdict(self), "waits": waiting}


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
    """

    def __init__(self, folder: Path | None, rank: int, member: int, epoch: int) -> None:
        folder = default_folder() if folder is None else folder
        self.member = member
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _remove_left_behind(folder)
            self.path = folder / f"{os.getpid()}-rank{rank}.waits"
            size = _HEAD_BYTES + _SLOT_BYTES * len(OPERATIONS)
            self.path.write_bytes(bytes(size))
            with self.path.open("r+b") as file:
                self._map = mmap.mmap(file.fileno(), size)
        except OSError as error:
            what = f"the wait board cannot be written in {str(folder)!r}: {error.strerror}"
            raise InvalidInputError(f"{what}\nhint: pass wait_board=, a folder that can be written") from error
        self._slots: dict[str, _Slot] = {}
        for number, (operation, group) in enumerate(OPERATIONS.items()):
            slot = self._slots[operation] = _Slot(_HEAD_BYTES + number * _SLOT_BYTES)
            _SLOT.pack_into(self._map, slot.at, 0, 0, 0, 0, 0, ALL, operation.encode(), group.encode())
        _HEAD.pack_into(self._map, 0, _MAGIC, _VERSION, len(OPERATIONS), os.getpid(), rank, member, epoch)

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
    if len(data) < _HEAD_BYTES or data[:4] != _MAGIC:
        raise InvalidInputError(f"{str(path)!r} is no wait board\nhint: they are called <pid>-rank<rank>.waits")
    _, version, slots, pid, rank, member, epoch = _HEAD.unpack_from(data)
    if version != _VERSION or len(data) < _HEAD_BYTES + slots * _SLOT_BYTES:
        what = f"{str(path)!r} is a wait board of version {version} and {len(data)} bytes, limit version {_VERSION}"
        raise InvalidInputError(f"{what}\nhint: read it with the release that wrote it")
    # What is equal in two readings was not being written in the first; a wait that is over by then was no long one.
    again = _bytes_of(path)
    now = time.monotonic_ns()
    places = (_HEAD_BYTES + number * _SLOT_BYTES for number in range(slots))
    same = (at for at in places if data[at : at + _SLOT_BYTES] == again[at : at + _SLOT_BYTES])
    found = (_entry(data, at, now) for at in same)
    return RankWaits(pid, rank, member, epoch, _is_alive(pid), tuple(entry for entry in found if entry is not None))


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


def all_waits(folder: Path | None = None) -> list[RankWaits]:
    """The boards of all ranks in a folder, by rank; what is no board of this version is left out."""
    boards = []
    for path in sorted((default_folder() if folder is None else folder).glob("*.waits")):
        try:
            boards.append(read_waits(path))
        except (InvalidInputError, OSError):
            continue  # it has ended meanwhile
    return sorted(boards, key=lambda board: (board.rank, board.pid))
