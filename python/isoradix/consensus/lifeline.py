"""Who is alive: one plain connection between every two ranks of a domain, beside the planes.

gloo tells that a connection was closed, not whose fault it was, and of a stopped process nothing at all. Over its
lifelines a rank says at which step it is and what it waits for, four times a second at most; that it leaves, or why it
has failed. So every survivor can name the rank that was lost: by a connection that closed without a goodbye (killed),
by silence (stopped), by what it said itself (failed), or because it alone does not move while all others wait.

Messages are JSON, one a line: `{"beat": [step, votes, [[operation, peer, want, have, seconds], ...]]}`, `{"bye": 1}`,
`{"lost": [[ranks], reason, step]}`, `{"decided": records}`. The step is that in which ranks have decided otherwise, if
that is why; then each rank says what it has decided there, as base64 of its records.
"""

import base64
import json
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from isoradix.consensus.diagnosis import diagnose
from isoradix.consensus.links import connect
from isoradix.consensus.plane import first_line
from isoradix.consensus.rendezvous import Meeting
from isoradix.consensus.waits import OPERATIONS, RankWaits, WaitEntry

_LONGEST_MESSAGE: Final = 1 << 20
_RECORDS_MAX: Final = 4096 * 64
_NOBODY: Final = "nobody in particular: no rank is silent, and none stands still alone"


@dataclass(frozen=True)
class Verdict:
    """Why the plane is lost. `ranks` are those of the deployment that are at fault, if that is known; `step` is that
    in which ranks have decided otherwise, if that is why."""

    ranks: tuple[int, ...]
    reason: str
    step: int | None = None


@dataclass(frozen=True)
class Beat:
    """What a rank has said of itself last: its wait board."""

    step: int = -1
    votes: int = 0
    waits: tuple[WaitEntry, ...] = ()

    def as_message(self) -> list[object]:
        """What JSON can carry."""
        waits = [[wait.operation, wait.peer, wait.want, wait.have, round(wait.age_s, 3)] for wait in self.waits]
        return [self.step, self.votes, waits]

    @classmethod
    def from_message(cls, said: list[Any]) -> "Beat":
        """What `as_message` gave on another rank. ValueError, TypeError or LookupError if it is none."""
        step, votes, waits = said
        entries = (
            WaitEntry(str(operation), OPERATIONS[operation], int(peer), int(want), int(have), float(age_s))
            for operation, peer, want, have, age_s in waits
        )
        return cls(int(step), int(votes), tuple(entries))


@dataclass
class Peer:
    """Another member, as its lifeline shows it."""

    member: int
    rank: int
    connection: socket.socket
    heard: float = field(default_factory=time.monotonic)
    beat: Beat = Beat()
    moved: float = field(default_factory=time.monotonic)
    """When its step changed last."""
    gone: bool = False
    left: bool = False
    received: bytes = b""
    unsent: bytes = b""


class Lifelines:
    """This rank's connections to all others of its domain, and the thread that keeps them.

    Args:
        meeting: where the domain has met.
        beat: what this rank says of itself.
        tick: called at every beat, on the lifelines' thread.
        on_lost: called once, on the thread that finds it out, when the plane is lost.
        decided: this rank's records of a step, and whether the step is closed; asked on any thread.
    """

    def __init__(
        self,
        meeting: Meeting,
        beat: Callable[[], Beat],
        tick: Callable[[], None],
        on_lost: Callable[[Verdict], None],
        decided: Callable[[int], tuple[bytes, bool]],
    ) -> None:
        self._meeting = meeting
        self._beat, self._tick, self._on_lost, self._decided = beat, tick, on_lost, decided
        self._decisions: dict[int, bytes] = {}
        self._heard_decisions = threading.Condition()
        self._telling = threading.Lock()
        self._interval_s = min(0.25, meeting.patience.fatal_ms / 8000)
        self._lost = threading.Event()
        self._declaring, self._saying = threading.Lock(), threading.Lock()
        self._ending = False
        self.verdict: Verdict | None = None
        others = set(range(meeting.members)) - {meeting.member}
        connections = connect(meeting, "lifelines", others)
        self._peers = [Peer(member, meeting.rank_of(member), connections[member]) for member in sorted(others)]
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name=f"isoradix-lifelines-{meeting.place.rank}", daemon=True)
        self._thread.start()

    # what is known

    def wait_for_verdict(self, seconds: float) -> Verdict | None:
        """What is known about the loss of the plane, once it is known, or after so long."""
        self._lost.wait(seconds)
        return self.verdict

    def wait_for_decisions(self, seconds: float) -> dict[int, bytes]:
        """What each rank has decided in the step of the verdict, as far as the ranks have said so within that time."""
        self._tell_decisions()

        def all_told() -> bool:
            return all(peer.rank in self._decisions or peer.gone for peer in self._peers)

        with self._heard_decisions:
            self._heard_decisions.wait_for(all_told, seconds)
        self._tell_decisions(at_once=True)
        with self._heard_decisions:
            return dict(self._decisions)

    def _tell_decisions(self, at_once: bool = False) -> None:
        """Says what this rank has decided in the step of the verdict: once it has closed that step, or at once."""
        own = self._meeting.place.rank
        with self._telling:
            if self.verdict is None or self.verdict.step is None or own in self._decisions:
                return
            records, closed = self._decided(self.verdict.step)
            if closed or at_once:
                self._say({"decided": base64.b64encode(records[:_RECORDS_MAX]).decode()})
                self._decide(own, records)

    def _decide(self, rank: int, records: bytes) -> None:
        with self._heard_decisions:
            self._decisions[rank] = records
            self._heard_decisions.notify_all()

    def boards(self) -> list[RankWaits]:
        """The wait boards of all others, as they were when they told last."""
        now, meeting = time.monotonic(), self._meeting
        return [
            RankWaits(
                0,
                peer.rank,
                peer.member,
                meeting.epoch,
                not peer.gone,
                peer.beat.waits,
                meeting.place.domain,
                meeting.members,
                peer.beat.step,
                now - peer.moved,
                peer.beat.votes,
                self._is_silent(peer, now),
            )
            for peer in self._peers
            if not peer.left
        ]

    def _is_silent(self, peer: Peer, now: float) -> bool:
        return not peer.left and now - peer.heard > 4 * self._interval_s + 0.5

    def suspect(self, own: RankWaits) -> Verdict:
        """Who is at fault, as far as lifelines show it, when a wait of this rank has become too long.

        Args:
            own: this rank's own board.
        """
        now = time.monotonic()
        silent = [peer for peer in self._peers if self._is_silent(peer, now)]
        if silent:
            seconds = max(now - peer.heard for peer in silent)
            ranks = tuple(sorted(peer.rank for peer in silent))
            return Verdict(
                ranks, f"{_named(ranks)} gives no sign of life for {seconds:.1f} s: stopped, or out of reach"
            )
        found = diagnose([own, *self.boards()], self._meeting.patience.report_ms / 1000)
        return Verdict(found.ranks, found.text if found.ranks else f"{_NOBODY}; {found.text}")

    # what is said

    def declare(self, verdict: Verdict) -> None:
        """The plane is lost: the first verdict stands, and the others are told."""
        with self._declaring:
            if self.verdict is not None or self._ending:
                return
            self.verdict = verdict
        self._say({"lost": [list(verdict.ranks), verdict.reason, verdict.step]})
        self._tell_decisions()
        self._lost.set()
        self._on_lost(verdict)

    def leave(self, patience_s: float) -> None:
        """Says goodbye, waits until all others have, and closes."""
        self._say({"bye": 1})
        until = time.monotonic() + patience_s
        while time.monotonic() < until and not all(peer.left or peer.gone for peer in self._peers):
            time.sleep(0.002)
        self.close()

    def close(self) -> None:
        """Closes all connections and ends the thread. A no-op the second time."""
        if self._ending:
            return
        self._ending = True
        self._wake.send(b"x")
        if threading.current_thread() is not self._thread:
            self._thread.join()
        for connection in (*(peer.connection for peer in self._peers), self._wake, self._woken):
            connection.close()

    def _say(self, message: dict[str, Any]) -> None:
        line = json.dumps(message).encode() + b"\n"
        with self._saying:
            for peer in self._peers:
                peer.unsent += line
                try:
                    peer.unsent = peer.unsent[peer.connection.send(peer.unsent) :]
                except OSError:  # gone, or it reads nothing any more: then its own silence tells
                    peer.unsent = peer.unsent[:_LONGEST_MESSAGE]

    # the thread

    def _run(self) -> None:
        try:
            self._listen()
        except Exception as error:
            own = self._meeting.place.rank
            self.declare(Verdict((own,), f"the lifelines of rank {own} failed: {first_line(error)}"))

    def _listen(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            for peer in self._peers:
                selector.register(peer.connection, selectors.EVENT_READ, peer)
            due = time.monotonic()
            while not self._ending:
                for key, _ in selector.select(max(0.0, due - time.monotonic())):
                    if key.data is not None and not self._hear(key.data):
                        selector.unregister(key.fileobj)
                if time.monotonic() >= due and not self._ending:
                    due = time.monotonic() + self._interval_s
                    self._on_beat()

    def _on_beat(self) -> None:
        beat = self._beat()
        self._say({"beat": beat.as_message()})
        self._tell_decisions()
        self._tick()

    def _hear(self, peer: Peer) -> bool:
        """Reads what a peer has said; whether more can come."""
        try:
            data = peer.connection.recv(1 << 16)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        if not data:
            with self._heard_decisions:
                peer.gone = True
                self._heard_decisions.notify_all()
            if not peer.left:
                self.declare(Verdict((peer.rank,), f"rank {peer.rank} has ended without a goodbye: killed, or crashed"))
            return False
        peer.heard = time.monotonic()
        *lines, peer.received = (peer.received + data).split(b"\n")
        try:
            for line in lines:
                self._understand(peer, line)
            sane = len(peer.received) <= _LONGEST_MESSAGE
        except (ValueError, TypeError, AttributeError, LookupError):
            sane = False
        if not sane:
            self.declare(Verdict((peer.rank,), f"rank {peer.rank} talks nonsense on its lifeline"))
        return sane

    def _understand(self, peer: Peer, line: bytes) -> None:
        message = json.loads(line)
        if said := message.get("beat"):
            beat = Beat.from_message(said)
            if beat.step != peer.beat.step:
                peer.moved = time.monotonic()
            peer.beat = beat
        elif "bye" in message:
            peer.left = True
        elif lost := message.get("lost"):
            peer.left = True
            self.declare(Verdict(tuple(lost[0]), lost[1], lost[2]))
        elif "decided" in message:
            self._decide(peer.rank, base64.b64decode(message["decided"]))


def _named(ranks: tuple[int, ...]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))
