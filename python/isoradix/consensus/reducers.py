"""MIN over all ranks of one vector of int64: the only collective that isoradix makes after the start."""

import time
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

from isoradix.consensus.links import Lost
from isoradix.consensus.patient import FOREVER, ConnectionLost, wait_collective
from isoradix.consensus.rendezvous import Group, Meeting

_LOOK_AGAIN_S: Final = 0.0001


class Reducer(Protocol):
    """Reduces one preallocated vector, again and again. Fill `words`, call `reduce`, read `words`."""

    words: npt.NDArray[np.int64]

    def reduce(self) -> None:
        """Blocks until every rank has come; RuntimeError where the group is lost."""

    def gather(self, data: bytes) -> list[bytes]:
        """Every rank's bytes, in order."""

    def cut(self) -> None:
        """Ends what is waited for, from another thread."""


class GlooReducer:
    """Over TCP, on the CPU."""

    def __init__(self, group: Group, size: int, lost: Lost) -> None:
        self._group, self._lost = group, lost
        self._tensor = torch.zeros(size, dtype=torch.int64)
        self.words: npt.NDArray[np.int64] = self._tensor.numpy()
        self._options = _minimum()

    def reduce(self) -> None:
        self._group.lend(self._tensor)
        wait_collective(self._group.gloo.allreduce([self._tensor], self._options), self._lost)

    def gather(self, data: bytes) -> list[bytes]:
        return gather(self._group, data, self._lost)

    def cut(self) -> None:
        self._group.cut()


class NcclReducer:
    """Over NCCL, on a communicator and a stream of its own: the forward pass's collectives never queue behind a vote.

    Needs a CUDA device for each rank: NCCL refuses two ranks on one, so a machine with one GPU can run a single rank.
    """

    def __init__(self, meeting: Meeting, group: Group, size: int, lost: Lost) -> None:
        self._lost = lost
        self._device = torch.device("cuda", torch.cuda.current_device())
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = FOREVER
        store = dist.PrefixStore("nccl-votes", meeting.store)
        self._nccl: Any = dist.ProcessGroupNCCL(store, meeting.member, meeting.members, options)
        self._group = group
        self._stream = torch.cuda.Stream(self._device)
        self._on_host = torch.zeros(size, dtype=torch.int64, pin_memory=True)
        self._on_device = torch.zeros(size, dtype=torch.int64, device=self._device)
        self._options = _minimum()
        self._done = torch.cuda.Event()
        self.words: npt.NDArray[np.int64] = self._on_host.numpy()

    def reduce(self) -> None:
        with torch.cuda.stream(self._stream):
            self._on_device.copy_(self._on_host, non_blocking=True)
            self._nccl.allreduce([self._on_device], self._options).wait()
            self._on_host.copy_(self._on_device, non_blocking=True)
            self._done.record(self._stream)
        while not self._done.query():
            if self._lost():
                raise ConnectionLost("the plane was lost")
            time.sleep(_LOOK_AGAIN_S)

    def gather(self, data: bytes) -> list[bytes]:
        return gather(self._group, data, self._lost)

    def cut(self) -> None:
        self._group.cut()
        self._nccl.abort()


def _minimum() -> Any:
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.MIN
    options.timeout = FOREVER
    return options


def gather(group: Group, data: bytes, lost: Lost) -> list[bytes]:
    """Every rank's bytes, in order: lengths first, then all padded to the longest."""
    size = group.gloo.size()
    lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(size)]
    own_length = torch.tensor([len(data)])
    group.lend(own_length, *lengths)
    wait_collective(group.gloo.allgather([lengths], [own_length]), lost)
    longest = max(1, *(int(length) for length in lengths))
    own = torch.zeros(longest, dtype=torch.uint8)
    own.numpy()[: len(data)] = np.frombuffer(data, dtype=np.uint8)
    parts = [torch.zeros(longest, dtype=torch.uint8) for _ in range(size)]
    group.lend(own, *parts)
    wait_collective(group.gloo.allgather([parts], [own]), lost)
    return [part.numpy()[: int(length)].tobytes() for part, length in zip(parts, lengths, strict=True)]
