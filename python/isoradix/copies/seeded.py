"""Copies in an order that a seed chooses, for tests and simulations."""

import threading
from collections import deque
from collections.abc import Sequence
from random import Random

from isoradix import Board, Start
from isoradix.copies.components import Components, WithComponents
from isoradix.copies.operations import OpenCopy, Operations
from isoradix.copies.rows import RowCopier
from isoradix.copies.transfer import Transfer, check_all_pools, transfer
from isoradix.kv import DevicePool, HostPool


class SeededCopyEngine(WithComponents):
    """Nothing moves but by `pick`: one layer of the first backup or of the first load-back, whichever the seed says.

    The layers of a copy come in any order, and those of its components among them. What a copy will write to is
    poisoned when it is started, so that compute which does not wait reads no number; a test that poisons what it frees
    sees reads after that as well. A cancelled copy that has begun goes on to its end before it is reported, as one on a
    GPU does. `wait_layer` picks until the layer is there. See `CopyEngine`.

    Args:
        device: a pool on the CPU.
        host: a pool of the same shape.
        seed: of the schedule; equal seeds and equal calls give equal schedules.
        components: as of `engine_for`.

    Raises:
        InvalidInputError: the pools do not fit each other, or the device is not the CPU.
        ProtocolError: a pool is closed.
    """

    def __init__(self, device: DevicePool, host: HostPool, seed: int, components: Components = ()) -> None:
        check_all_pools(device, host, "cpu", components)
        self._device, self._host, self._components = device, host, tuple(components)
        self._random = Random(seed)
        self._operations = Operations()
        self._copier = RowCopier(device, host, components)
        self._queues: dict[str, deque[SeededCopy]] = {"backup": deque(), "load_back": deque()}
        self._lock = threading.RLock()

    def attach(self, board: Board) -> None:
        """The board to report to: see `CopyEngine`."""
        self._operations.attach(board)

    def start(self, effect: Start) -> "SeededCopy":
        """Poisons the destination and queues the copy: see `CopyEngine`."""
        asked = transfer(effect, self._device, self._host, self._components)
        beside = [copier.layers for copier in self._copier.beside]
        copy = SeededCopy(self, asked, self._device.shape.layers, beside)
        with self._lock:
            self._operations.start(copy)
            self._poison(asked, self._device, self._host)
            there = [each for each in self._components if each is not None]
            for each, rows in zip(there, asked.beside, strict=True):
                self._poison(rows, each.device, each.host)
            self._queues[asked.kind].append(copy)
        return copy

    @staticmethod
    def _poison(asked: Transfer, device: DevicePool, host: HostPool) -> None:
        if asked.kind == "backup":
            host.poison(asked.pages)
        else:
            device.poison(asked.slots)

    def cancel(self, operation: int) -> None:
        """Gives up a copy: see `CopyEngine`."""
        with self._lock:
            self._operations.cancel(operation)

    def pick(self) -> bool:
        """Copies one layer, and reports the copy if it was the last; False if there is nothing to copy. A component's
        layer is one by itself."""
        with self._lock:
            for queue in self._queues.values():
                while queue and queue[0].cancelled and not queue[0].begun:
                    queue.popleft()
            waiting = [queue for queue in self._queues.values() if queue]
            if not waiting:
                return False
            queue = self._random.choice(waiting)
            if self._copy_layer(queue[0]):
                queue.popleft()
            return True

    def run(self, picks: int | None = None) -> int:
        """Picks so often, or until there is nothing to copy; gives how often."""
        made = 0
        while made != picks and self.pick():
            made += 1
        return made

    def poll(self) -> None:
        """Copies are reported when they end; raises what was refused."""
        self._operations.raise_fault()

    def close(self) -> None:
        """Makes all copies that were started. A no-op the second time."""
        if self._operations.close():
            self.run()
            self._copier.release()

    def _copy_layer(self, copy: "SeededCopy") -> bool:
        """One layer of a copy; whether it is over."""
        self._operations.begin(copy)
        error: Exception | None = None
        left = len(copy.missing) + len(copy.beside)
        if left:
            index = self._random.randrange(left)
            try:
                # deleted after the copy: who waits for a layer looks without the lock
                if index < len(copy.missing):
                    self._copier.copy(copy.asked, copy.missing[index])
                    del copy.missing[index]
                else:
                    place, layer = copy.beside[index - len(copy.missing)]
                    self._copier.beside[place].copy(copy.asked.beside[place], layer)
                    copy.beside.remove((place, layer))
            except Exception as failed:
                error = failed
        if (copy.missing or copy.beside) and error is None:
            return False
        self._operations.end(copy, error)
        return True


class SeededCopy(OpenCopy):
    """A copy that the schedule makes.

    Args:
        engine, asked, layers: whose, of what, and of how many layers.
        beside: layers of each component.
    """

    def __init__(self, engine: SeededCopyEngine, asked: Transfer, layers: int, beside: Sequence[int] = ()) -> None:
        super().__init__(asked.operation, asked.kind, layers)
        self._engine = engine
        self.asked = asked
        self.missing = list(range(layers))
        self.beside = [(place, layer) for place, count in enumerate(beside) for layer in range(count)]

    def wait_layer(self, layer: int) -> None:
        """Time passes, by the schedule, until this layer is there, and all that lies beside: see `Copy`."""
        self.check(layer)
        while layer in self.missing or self.beside:
            self._engine.pick()
            self.check(layer)
