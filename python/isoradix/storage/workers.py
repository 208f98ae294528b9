"""Threads that wait for an engine, so that no caller has to.

A call to a server that was stopped in the middle of it may never return, and Python cannot end it. So it runs on a
thread of its own kind, the caller waits for that as long as it likes, and what comes later is nobody's concern.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from isoradix.storage.errors import StorageTimeoutError, TemporaryStorageError


def late(what: str) -> str:
    """The message for what was not over in time."""
    return f"{what} was not over at its deadline\nhint: see whether the server runs; timeout=S in the URL gives it more"


class Job:
    """One call's work."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.over = threading.Event()
        """Set once the work is done, was never begun and never will be, or has failed."""
        self.running = False
        self.abandoned = False
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Does the work; whatever goes wrong in it is kept for the caller."""
        try:
            self.result = self.work()
        except BaseException as error:
            self.error = error
        finally:
            del self.work  # and the memory that it holds


class Workers:
    """Up to so many threads, made as they are needed.

    Args:
        name: of the threads.
        most: threads at a time; those that an engine never returns from count.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most = name, most
        self._changed = threading.Condition()
        self._waiting: deque[Job] = deque()
        self._threads = 0
        self._idle = 0
        self._stuck = 0
        self._last: Job | None = None

    def start(self, work: Callable[[], Any]) -> Job:
        """Queues work.

        Raises:
            TemporaryStorageError: every thread is in a call that was given up: the engine does not answer.
        """
        job = Job(work)
        with self._changed:
            if self._last is not None:
                raise TemporaryStorageError("the engine is being closed\nhint: open it again")
            if self._stuck >= self._most:
                raise TemporaryStorageError(
                    f"the engine has not returned from {self._stuck} calls that were given up; the limit is "
                    f"{self._most}\n"
                    "hint: see whether its server runs; workers=N in the URL raises the limit"
                )
            self._waiting.append(job)
            if self._idle < len(self._waiting) and self._threads < self._most:
                self._add_thread()
            self._changed.notify()
        return job

    def wait(self, job: Job, deadline: float) -> bool:
        """Waits for work, but not beyond the deadline; whether it is over."""
        if job.over.wait(max(0.0, deadline - time.monotonic())):
            return True
        with self._changed:
            if job.over.is_set():
                return True
            job.abandoned = True
            if job.running:
                self._stuck += 1
            elif job in self._waiting:
                self._waiting.remove(job)
                job.over.set()
        return False

    def answer(self, work: Callable[[], Any], deadline: float, what: str) -> Any:
        """The result of work, if it comes in time.

        Raises:
            StorageTimeoutError: it does not.
        """
        job = self.start(work)
        if not self.wait(job, deadline):
            raise StorageTimeoutError(late(what))
        if job.error is not None:
            raise job.error
        return job.result

    def close(self, last: Callable[[], Any], deadline: float) -> None:
        """Ends the threads, and does one last thing once none of them is in a call, however long that takes.

        Waits for it, but not beyond the deadline. A no-op the second time.
        """
        with self._changed:
            if self._last is not None:
                return
            self._last = Job(last)
            if self._threads == 0:
                self._add_thread()
            self._changed.notify_all()
        self._last.over.wait(max(0.0, deadline - time.monotonic()))

    def _add_thread(self) -> None:
        self._threads += 1
        threading.Thread(target=self._serve, name=self._name, daemon=True).start()

    def _serve(self) -> None:
        while (job := self._next()) is not None:
            job.run()
            with self._changed:
                job.running = False
                if job.abandoned:
                    self._stuck -= 1
                job.over.set()
            del job  # the thread holds nothing of the last job while it waits for the next

    def _next(self) -> Job | None:
        with self._changed:
            self._idle += 1
            while not self._waiting and self._last is None:
                self._changed.wait()
            self._idle -= 1
            if self._waiting:
                job = self._waiting.popleft()
            elif self._last is not None and self._threads == 1 and not self._last.over.is_set():
                job = self._last
            else:
                self._threads -= 1
                return None
            job.running = True
            return job
