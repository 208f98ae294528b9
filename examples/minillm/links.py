"""What ranks send each other beside the cache's own planes: sums, activations, and the tokens that were chosen.

Nothing here decides anything: who sends what at a step follows from the batch, which is equal on all ranks.
"""

from collections import deque
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from isoradix.consensus import Topology


class Links:
    """This rank's end of the model's own gloo groups."""

    def __init__(self, topology: Topology, rank: int, address: str) -> None:
        longest = timedelta(seconds=120)
        dist.init_process_group("gloo", f"tcp://{address}", timeout=longest, world_size=topology.ranks, rank=rank)
        place, self._rank, self._lanes = topology.place(rank), rank, topology.lanes
        self.first, self.last = place.stage == 0, place.stage == topology.pp - 1
        stages = [range(first, first + self._lanes) for first in range(0, topology.ranks, self._lanes)]
        groups = [dist.new_group(list(ranks)) for ranks in stages]  # all ranks make all groups, in one order
        self._stage, self._activations, self._tokens = groups[place.stage], dist.new_group(), dist.new_group()
        self._chooser = stages[-1].start  # tells which tokens were chosen
        self._others = [other for other in range(topology.ranks) if other != self._chooser]
        self._own: dict[int, Tensor] = {}
        self._sent: deque[tuple[dist.Work, Tensor]] = deque()

    def add(self, x: Tensor) -> Tensor:
        """The sum over the tensor-parallel ranks of the stage: bit by bit the same on each."""
        if self._lanes > 1:
            dist.all_reduce(x, group=self._stage)
        return x

    def receive(self, tokens: int, width: int) -> Tensor:
        """Activations from the stage before."""
        x = torch.empty(tokens, width)
        dist.recv(x, self._rank - self._lanes, self._activations)
        return x

    def send(self, x: Tensor) -> None:
        """Activations to the next stage."""
        self._post(x, self._rank + self._lanes, self._activations)

    def tell(self, step: int, chosen: Tensor) -> None:
        """Tells all ranks which tokens were chosen at a step, if any were. On every rank of the last stage."""
        if self._rank == self._chooser and len(chosen):
            self._own[step] = chosen
            for rank in self._others:
                self._post(chosen, rank, self._tokens)

    def hear(self, step: int, rows: int, columns: int) -> list[list[int]]:
        """What was chosen at a step: a row for each request that got tokens."""
        chosen = self._own.pop(step, torch.empty(rows, columns, dtype=torch.int64))
        if rows and self._rank != self._chooser:
            dist.recv(chosen, self._chooser, self._tokens)
        return [[int(value) for value in row] for row in chosen]

    def _post(self, x: Tensor, rank: int, group: dist.ProcessGroup) -> None:
        while self._sent and self._sent[0][0].is_completed():
            self._sent.popleft()
        work = dist.isend(x, rank, group)
        assert work is not None, "this rank is in the group"
        self._sent.append((work, x))

    def close(self) -> None:
        for work, _ in self._sent:
            work.wait()
        dist.destroy_process_group()
