"""What the server calls: registration in every process, and the factory of the cache in every scheduler."""

import logging
from collections.abc import Callable
from typing import Any, Final

from isoradix import IsoradixError
from isoradix.integrations.sglang import versions

NAME: Final = "isoradix"
STEP_BOUNDARY: Final = "sglang.srt.managers.scheduler.Scheduler.ingest_requests"
"""The one call that every event loop of the scheduler makes once a round, on every rank."""
EVENT_LOOP: Final = "sglang.srt.managers.scheduler.Scheduler.run_event_loop"
"""All that a scheduler does once it has started."""
ATTACH: Final = "sglang.srt.managers.scheduler.Scheduler.attach_hicache_storage_wrapped"
DETACH: Final = "sglang.srt.managers.scheduler.Scheduler.detach_hicache_storage_wrapped"
"""Where a scheduler is asked to change external storage."""
CHUNKS: Final = "sglang.srt.managers.scheduler_components.dynamic_chunk_sizer.DynamicChunkSizer"
"""What gives a scheduler the lengths of its chunks."""

logger: Final = logging.getLogger("isoradix")


def register() -> None:
    """Registers the back end, and where steps begin.

    With an SGLang that is not supported the back end is there all the same and refuses its selection by name: what a
    plug-in raises, the server swallows.
    """
    from sglang.srt.mem_cache.registry import get_radix_cache_factory, register_radix_cache_backend

    try:
        versions.check()
    except IsoradixError as error:
        logger.error("%s", error)
    if get_radix_cache_factory(NAME) is None:
        register_radix_cache_backend(NAME, make_cache)
        _hook()


def _hook() -> None:
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(STEP_BOUNDARY, begin_step, HookType.BEFORE)
    HookRegistry.register(EVENT_LOOP, run_event_loop, HookType.AROUND)
    HookRegistry.register(ATTACH, attach, HookType.AROUND)
    HookRegistry.register(DETACH, detach, HookType.AROUND)
    HookRegistry.register(f"{CHUNKS}.profile_and_fit", profile_chunks, HookType.AROUND)
    HookRegistry.register(f"{CHUNKS}.predict", next_chunk, HookType.AROUND)


def begin_step(scheduler: Any, *_args: Any, **_options: Any) -> None:
    """A round of the scheduler begins. Nothing, if its cache is another one."""
    begin = getattr(scheduler.tree_cache, "begin_step", None)
    if begin is not None:
        begin(scheduler)


def run_event_loop(run: Callable[..., Any], scheduler: Any, *args: Any, **options: Any) -> Any:
    """The scheduler's life. An error that ends it is explained, or told to the other ranks; then it goes on."""
    try:
        return run(scheduler, *args, **options)
    except Exception as error:
        fail = getattr(scheduler.tree_cache, "fail", None)
        if fail is not None:
            fail(error)
        raise


def attach(answer: Callable[..., Any], scheduler: Any, request: Any) -> Any:
    """Storage is to be attached. The server's own way, if its cache is another one, or has no host memory."""
    storage = getattr(scheduler.tree_cache, "storage", None)
    return answer(scheduler, request) if storage is None else storage.attach(scheduler, request)


def detach(answer: Callable[..., Any], scheduler: Any, request: Any) -> Any:
    """Storage is to be detached: see `attach`."""
    storage = getattr(scheduler.tree_cache, "storage", None)
    return answer(scheduler, request) if storage is None else storage.detach(scheduler, request)


def profile_chunks(measure: Callable[..., bool], sizer: Any) -> bool:
    """Times of prefills are measured. The server's own way, if its cache is another one."""
    chunks = getattr(sizer.tree_cache, "chunks", None)
    return measure(sizer) if chunks is None else bool(chunks.profile(measure, sizer))


def next_chunk(predict: Callable[..., int | None], sizer: Any, history_len: int) -> int | None:
    """The length of a chunk behind so many tokens: see `profile_chunks`."""
    chunks = getattr(sizer.tree_cache, "chunks", None)
    length: int | None = predict(sizer, history_len) if chunks is None else chunks.next(history_len)
    return length


def make_cache(ctx: Any) -> Any:
    """The cache of a scheduler: the factory that the server calls, on every rank.

    Args:
        ctx: its `TreeCacheBuildContext`.

    Raises:
        InvalidInputError: the server's version, or what it was asked for, is not supported.
        ProtocolError: the ranks differ in a setting.
        PlaneLost: a rank did not come.
    """
    try:
        versions.check()
        from isoradix.integrations.sglang.assembly import assemble

        return assemble(ctx)
    except IsoradixError as error:
        logger.error("%s", error)
        raise
