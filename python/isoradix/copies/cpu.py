"""Copies between two pools in this machine's memory, by threads."""

import threading
import weakref
from queue import SimpleQueue

from isoradix import Board, CopyProgress, Start
from isoradix.copies.components import Components, WithComponents
from isoradix.copies.operations import OpenCopy, Operations
from isoradix.copies.rows import RowCopier
from isoradix.copies.transfer import Transfer, check_all_pools, transfer
from isoradix.kv import DevicePool, HostPool


class ThreadCopy(OpenCopy):
    """A copy that a thread makes, and others wait for.

    Args:
        operation, kind, layers: of `OpenCopy`.
        parts: buffers of a layer.
        before: buffers that come before the first layer.
    """

    def __init__(self, operation: int, kind: str, layers: int, parts: int, before: int = 0) -> None:
        super().__init__(operation, kind, layers)
        self.progress = CopyProgress()
        self._parts, self._before = parts, before

    def wait_layer(self, layer: int) -> None:
        """Blocks until this layer is there: see `Copy`."""
        self.check(layer)
        if not self.progress.wait(self._before + (layer + 1) * self._parts):
            self.check(layer)  # why it never will be is known by now

    def stopped(self) -> None:
        """The rest will never be there."""
        self.progress.stop()


class CpuCopyEngine(WithComponents):
    """A thread for backups and one for load-backs: see `CopyEngine`.

    A thread needs the GIL twice a copy, for microseconds, and so does who waits for a layer. A cancelled copy stops
    before its next buffer. An engine that is not closed is closed when it is collected, or when the
    interpreter ends.

    Args:
        device: a pool on the CPU.
        host: a pool of the same shape.
        components: as of `engine_for`.

    Raises:
        InvalidInputError: the pools do not fit each other, or the device is not the CPU.
        ProtocolError: a pool is closed.
    """

    def __init__(self, device: DevicePool, host: HostPool, components: Components = ()) -> None:
        check_all_pools(device, host, "cpu", components)
        self._device, self._host, self._components = device, host, tuple(components)
        self._operations = Operations()
        self._copier = RowCopier(device, host, components)
        self._queues = {kind: _Queue(kind, self._copier, self._operations) for kind in ("backup", "load_back")}
        self._finalizer = weakref.finalize(self, _close, self._operations, list(self._queues.values()), self._copier)

    def attach(self, board: Board) -> None:
        """The board to report to: see `CopyEngine`."""
        self._operations.attach(board)

    def start(self, effect: Start) -> ThreadCopy:
        """Begins a copy: see `CopyEngine`."""
        asked = transfer(effect, self._device, self._host, self._components)
        shape = self._device.shape
        before = self._copier.buffers_beside
        copy = ThreadCopy(asked.operation, asked.kind, shape.layers, len(shape.parts), before)
        self._operations.start(copy)
        self._queues[asked.kind].put(copy, asked)
        return copy

    def cancel(self, operation: int) -> None:
        """Gives up a copy: see `CopyEngine`."""
        self._operations.cancel(operation)

    def poll(self) -> None:
        """The threads report by themselves; raises what they were refused."""
        self._operations.raise_fault()

    def close(self) -> None:
        """Ends both threads after all that was started. A no-op the second time."""
        self._finalizer()


class _Queue:
    """One thread, that makes copies in the order in which they were put. It knows nothing of the engine, which can be
    collected."""

    def __init__(self, kind: str, copier: RowCopier, operations: Operations) -> None:
        self._copier, self._operations = copier, operations
        self._jobs: SimpleQueue[tuple[ThreadCopy, Transfer] | None] = SimpleQueue()
        # a daemon: the finalizer of the engine ends it in time, even of an engine that nobody closes
        self._thread = threading.Thread(target=self._work, name=f"isoradix-{kind}", daemon=True)
        self._thread.start()

    def put(self, copy: ThreadCopy, asked: Transfer) -> None:
        self._jobs.put((copy, asked))

    def end(self) -> None:
        """After all that was put."""
        self._jobs.put(None)

    def join(self) -> None:
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            copy, asked = job
            if self._operations.begin(copy):
                self._operations.end(copy, self._make(copy, asked))
            del job, copy, asked  # the thread holds nothing of the last copy while it waits for the next

    def _make(self, copy: ThreadCopy, asked: Transfer) -> Exception | None:
        """Copies all layers; why not all of them are there."""
        try:
            self._copier.copy_all(asked, copy.progress)
        except Exception as error:
            return error
        return None


def _close(operations: Operations, queues: list[_Queue], copier: RowCopier) -> None:
    operations.close()
    for queue in queues:
        queue.end()
    for queue in queues:
        queue.join()
    copier.release()
