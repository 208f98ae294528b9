"""What caches read of the scheduler's own objects, without the scheduler. Names are the server's."""

from dataclasses import dataclass
from typing import Any


@dataclass(eq=False)
class Request:
    """What they read and write of a request. Lengths are in tokens."""

    rid: str
    origin_input_ids: Any
    full_untruncated_fill_ids: Any
    kv: Any
    extra_key: str | None = None
    cache_salt: str | None = None
    priority: int = 0
    last_node: Any = None
    best_match_node: Any = None
    lock: Any = None
    prefix_len: int = 0
    host_hit_length: int = 0
    swa_host_hit_length: int = 0
    mamba_host_hit_length: int = 0
    session: Any = None
    session_id: Any = None
    kv_rotation_base: Any = None
    is_over: bool = False

    def finished(self) -> bool:
        return self.is_over


class Scheduler:
    """What this package's cache reads of the scheduler."""

    gracefully_exit = False
    chunked_req = None

    def collect_inflight_reqs(self) -> set[Any]:
        """Requests of its batches: none, so that no backup waits for their sake."""
        return set()
