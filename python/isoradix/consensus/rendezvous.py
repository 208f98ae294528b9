"""How the ranks of a domain find each other: a store, who has come, and the groups that are made in it."""

import socket
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import torch.distributed as dist

from isoradix import InvalidInputError, Patience
from isoradix.consensus.patient import keep_for_ever
from isoradix.consensus.plane import PlaneLost
from isoradix.consensus.sockets import Sockets
from isoradix.consensus.topology import Place, Topology

_SETTLES_S: Final = 0.5
_LOOK_AGAIN_S: Final = 0.0001


@dataclass(frozen=True)
class Meeting:
    """A domain's corner of a store, once all its ranks are there."""

    store: Any
    place: Place
    topology: Topology
    epoch: int
    patience: Patience
    address: str
    """Of this machine, as the other ranks reach it."""

    @property
    def member(self) -> int:
        return self.place.member

    @property
    def members(self) -> int:
        return self.topology.members

    def rank_of(self, member: int) -> int:
        return self.topology.rank_of(self.place.domain, member)

    def tell(self, what: str, value: str) -> list[str]:
        """Leaves a value for the others; theirs, in the order of the members.

        Raises:
            PlaneLost: a rank did not come, or the store's host is gone.
        """
        keys = [f"{what}/{member}" for member in range(self.members)]
        try:
            self.store.set(keys[self.member], value)
            self.store.wait(keys, timedelta(milliseconds=self.patience.fatal_ms))
            return [self.store.get(key).decode() for key in keys]
        except RuntimeError as error:
            raise self._missing(keys, error) from error

    def _missing(self, keys: list[str], error: Exception) -> PlaneLost:
        try:
            missing = [self.rank_of(member) for member, key in enumerate(keys) if not self.store.check([key])]
        except RuntimeError:
            missing = []
        waited = self.patience.fatal_ms / 1000
        if missing:
            shown = ", ".join(map(str, missing))
            what = f"rank {shown} did not come to the start within {waited:g} s"
            hint = "look at that rank's log; start all ranks with one topology, store and epoch"
        else:
            what = f"the store of the start is lost: {str(error).splitlines()[0]}"
            hint = "the rank that hosts the store has ended, or cannot be reached"
        return PlaneLost(f"{what}\nhint: {hint}", tuple(missing), what)


def meet(
    topology: Topology, rank: int, store: Any, patience: Patience, *, epoch: int, address: str, name: str = ""
) -> Meeting:
    """Waits until all ranks of this rank's domain are there, where they meet by this name.

    Raises:
        PlaneLost: one did not come.
        InvalidInputError: there is no such rank.
    """
    place = topology.place(rank)
    corner = dist.PrefixStore(f"isoradix/{epoch}/{place.domain}{f'/{name}' if name else ''}", store)
    meeting = Meeting(corner, place, topology, epoch, patience, address)
    meeting.tell("here", address)
    return meeting


def arrive(topology: Topology, rank: int, store: Any, patience: Patience, epoch: int, *, waits: bool) -> None:
    """This rank is connected; where it `waits`, until all ranks of the deployment are.

    Raises:
        PlaneLost: one did not come.
    """
    keys = [f"isoradix/{epoch}/connected/{other}" for other in range(topology.ranks)]
    try:
        store.set(keys[rank], "")
        if waits:
            store.wait(keys, timedelta(milliseconds=patience.fatal_ms))
    except RuntimeError as error:
        try:
            missing = tuple(other for other, key in enumerate(keys) if waits and not store.check([key]))
        except RuntimeError:
            missing = ()
        what = f"rank {', '.join(map(str, missing))} did not connect" if missing else "the store of the start is lost"
        raise PlaneLost(f"{what}\nhint: look at the logs of the others", missing, what) from error


def open_store(address: str, hosts: bool, patience: Patience) -> tuple[Any, str]:
    """A store at `host:port`, which this rank serves if it `hosts` it; with the address of this machine on the way
    there.

    Raises:
        InvalidInputError: the address is no `host:port`.
        PlaneLost: the store cannot be reached, or its port is taken.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise InvalidInputError(f"store_address is {address!r}, expected host:port\nhint: for example 127.0.0.1:29500")
    timeout = timedelta(milliseconds=patience.fatal_ms)
    try:
        store = dist.TCPStore(host, int(port), None, hosts, timeout, wait_for_workers=False)
    except RuntimeError as error:
        what = f"the store at {address} cannot be {'served' if hosts else 'reached'}: {str(error).splitlines()[0]}"
        raise PlaneLost(f"{what}\nhint: one rank hosts it, on a free port", (), what) from error
    return store, address_toward(host, int(port))


def address_toward(host: str, port: int) -> str:
    """This machine's address on the way to another one; nothing is sent."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0][0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((host, port))
        return str(probe.getsockname()[0])


def lost_at_start(what: str) -> PlaneLost:
    """The error of a connection that broke before the first step."""
    return PlaneLost(f"{what}\nhint: a rank has ended during the start; look at the others' logs", (), what)


class Group:
    """A gloo group of some members of a domain. Every thread that communicates has one of its own.

    Args:
        meeting: where the domain has met.
        name: of the group, equal on all its ranks.
        members: who is in it, ascending; this rank is one of them.

    Raises:
        PlaneLost: it could not be connected.
    """

    def __init__(self, meeting: Meeting, name: str, members: range) -> None:
        self.name = name
        self._broken = False
        self._lent: tuple[Any, ...] = ()
        self._sockets = Sockets()
        options = dist.ProcessGroupGloo._Options()
        options._devices = [dist.ProcessGroupGloo.create_device(hostname=meeting.address)]
        options._threads = 1
        options._timeout = timedelta(milliseconds=meeting.patience.fatal_ms)
        store = dist.PrefixStore(name, meeting.store)
        try:
            with self._sockets.opened_here():
                self.gloo = dist.ProcessGroupGloo(store, members.index(meeting.member), len(members), options)
        except RuntimeError as error:
            what = f"group {name!r} could not be connected: {str(error).splitlines()[0]}"
            raise lost_at_start(what) from error

    def lend(self, *tensors: Any) -> None:
        """What the next collective works on."""
        self._lent = tensors

    def settle(self) -> None:
        """Before a rank leaves a group: waits until gloo's thread has let go of what it was lent, at most 0.5 s.

        The thread drops its tensors a moment after a collective is over, and takes the interpreter's lock for it. Once
        the interpreter ends no thread may do that, or the process aborts; nor would the thread get the lock while it is
        itself waited for.
        """
        end = time.monotonic() + _SETTLES_S
        while any(tensor._use_count() > 1 for tensor in self._lent) and time.monotonic() < end:
            time.sleep(_LOOK_AGAIN_S)

    def cut(self) -> None:
        """Ends whatever is waited for in it, here and on the other ranks. It is of no use after that."""
        if not self._broken:
            self._broken = True
            keep_for_ever(self.gloo)
        self._sockets.cut()
