"""External storage that is attached and detached while the server runs.

A request reaches every scheduler at the same step, and each opens its own part. Whether it is there is agreed by the
ranks later, at one step: only then is the request answered. The server need not be idle for it, as it must for its own.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

from sglang.srt.managers.io_struct import AttachHiCacheStorageReqOutput, DetachHiCacheStorageReqOutput
from sglang.srt.runtime_context import get_context

from isoradix import InvalidInputError
from isoradix.driver import Driver
from isoradix.integrations.sglang.storage import ServerTier, StorageOptions, url_of

BUSY: Final = {
    "opening": "storage is being attached",
    "detaching": "storage is being detached",
    "attached": "storage is attached: detach it first",
}
"""Why it cannot be attached, by the state in which it is."""

logger: Final = logging.getLogger("isoradix")


class StorageChanges:
    """What a server asks for, and the answers. All calls come from the scheduler's thread.

    Args:
        driver: of this rank.
        started: what the server was started with.
        memory: its memory flags.
        opens: opens this rank's part of the store that a URL names.
    """

    def __init__(
        self, driver: Driver, started: StorageOptions, memory: Any, opens: Callable[[str], ServerTier]
    ) -> None:
        self._driver, self._started, self._memory, self._opens = driver, started, memory, opens
        self._settled = 0
        self._waiting: list[tuple[Any, Any]] = []
        """Schedulers and their requests that are not answered yet."""
        self.policy = self._asked_policy = started.policy
        """How long requests wait: one of `storage.POLICIES`."""

    def clear(self) -> bool:
        """Begins to remove all pages; whether there is a store."""
        tier = self._driver.l3
        if not isinstance(tier, ServerTier):
            return False
        tier.clearing.begin()
        return True

    def attach(self, scheduler: Any, request: Any) -> Any:
        """Begins to attach what a request names; the answer if it is refused at once, on all ranks alike."""
        state = self._driver.cache.attachment
        if self._waiting or state != "absent":
            return _attached(False, BUSY[state if state != "absent" else "opening"])
        try:
            self._asked_policy = self._started.policy_of(request, self._memory)
        except InvalidInputError as error:
            return _attached(False, str(error))
        name = request.hicache_storage_backend
        self._driver.attach(lambda: self._opens(url_of(name)))
        self._waiting.append((scheduler, request))
        return None

    def detach(self, scheduler: Any, request: Any) -> Any:
        """Begins to detach, or calls off an attach; the answer if there is nothing to do."""
        if self._driver.cache.attachment == "absent":
            if self._waiting:
                return _detached(False, "storage has just begun to be attached: ask again")
            return _detached(True, "there was no storage")
        leaves = any(getattr(waits, "hicache_storage_backend", None) is None for _, waits in self._waiting)
        if self._driver.plane.place.leads and not leaves and self._driver.cache.attachment != "detaching":
            self._driver.detach()
        self._waiting.append((scheduler, request))
        return None

    def settle(self) -> None:
        """Answers what the ranks have agreed on since the last call."""
        news = self._driver.attachments[self._settled :]
        self._settled += len(news)
        for step, state, why in news:
            logger.info("storage: %s at step %d%s", state, step, f": {why}" if why else "")
            if state == "attached":
                self.policy = self._asked_policy
            self._answer(state, why)

    def _answer(self, state: str, why: str) -> None:
        still = []
        for scheduler, request in self._waiting:
            name = getattr(request, "hicache_storage_backend", None)
            if name is None and state == "attached":  # and is detached next
                still.append((scheduler, request))
                continue
            if state != "refused":
                get_context().override(f"isoradix.{state}", hicache_storage_backend=name)
            answer = _detached(True, "") if name is None else _attached(state == "attached", why)
            _send(scheduler, answer, request)
        self._waiting = still


def _send(scheduler: Any, answer: Any, request: Any) -> None:
    """Answers a request later than the call that brought it. Nothing, on a rank that talks to nobody."""
    if scheduler.rust_server is not None:
        scheduler.rust_server.push_control_output(request, answer)
    else:
        scheduler.ipc_channels.send_to_tokenizer.send_output(answer, request)


def _attached(success: bool, message: str) -> Any:
    return AttachHiCacheStorageReqOutput(success=success, message=message)


def _detached(success: bool, message: str) -> Any:
    return DetachHiCacheStorageReqOutput(success=success, message=message)
