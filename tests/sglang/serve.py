"""Starts an engine in this process, sends a scenario's requests to it, and notes what it answers."""

import asyncio
import contextlib
import hashlib
import json
import multiprocessing
import random
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from .models import VOCABULARY, model
from .scenario import Outcome, Scenario, Turn, marker, waves

FLUSH_S: Final = 20  # a copy may still be under way; after so long, something is stuck or has leaked
LEAVES_S: Final = 0.1
APART_S: Final = 0.02  # requests that come one by one: the one before is being served
PRIORITY: Final = 100  # from one priority to the next: more than the server takes for the same
TIERS: Final = ("device", "host", "storage")


def engine_args(scenario: Scenario) -> dict[str, Any]:
    """What the server is started with, by the names of its own flags."""
    args: dict[str, Any] = {
        "model_path": str(model(scenario.layers)),
        "skip_tokenizer_init": True,
        "device": "cpu",
        "dtype": "float32",
        "attention_backend": "torch_native",
        "sampling_backend": "pytorch",
        "disable_cuda_graph": True,
        "random_seed": scenario.seed,
        "tp_size": scenario.tp,
        "pp_size": scenario.pp,
        "page_size": scenario.page_size,
        "max_total_tokens": scenario.max_total_tokens,
        "max_running_requests": 16,
        "chunked_prefill_size": scenario.chunked_prefill_size,
        "schedule_policy": scenario.schedule_policy,
        "disable_overlap_schedule": not scenario.overlap,
        "mem_fraction_static": 0.5,  # what the server derives it from says nothing here; `max_total_tokens` decides
        "log_level": "info",
    }
    if scenario.backend == "none":
        args["disable_radix_cache"] = True
    elif scenario.backend != "default":
        args["radix_cache_backend"] = scenario.backend
    if scenario.l2:
        args.update(
            enable_hierarchical_cache=True,
            hicache_ratio=scenario.host_ratio,
            hicache_io_backend="direct",
            hicache_mem_layout=scenario.layout,
            hicache_write_policy=scenario.write_policy,
        )
    if scenario.storage:
        if not scenario.attach_at:
            args["hicache_storage_backend"] = scenario.storage.partition(":")[0]
        args.update(
            hicache_storage_prefetch_policy=scenario.storage_policy,
            hicache_storage_backend_extra_config=json.dumps({"prefetch_threshold": scenario.page_size}),
        )
    return {**args, **scenario.engine_args}


def serve(scenario: Scenario) -> Outcome:
    """Serves the whole workload. Never returns if the engine hangs."""
    import sglang

    if scenario.start_method == "fork":
        _always_fork()
    started = time.monotonic()
    engine = sglang.Engine(**engine_args(scenario))
    outcome = Outcome(startup_s=_since(started))
    try:
        _converse(engine, scenario, outcome)
        _flush(engine, outcome)
        outcome.status = "ok"
    finally:
        engine.shutdown()
    return outcome


def _always_fork() -> None:
    """The server asks for `spawn`, with which every rank imports everything anew."""
    set_start_method = multiprocessing.set_start_method
    multiprocessing.set_start_method = lambda *_, **__: set_start_method("fork", force=True)


def _converse(engine: Any, scenario: Scenario, outcome: Outcome) -> None:
    started = time.monotonic()
    histories: dict[int, list[int]] = {}
    digest = hashlib.sha256()
    for number, wave in enumerate(waves(scenario), 1):
        if scenario.waves_told:
            marker(Path(scenario.waves_told), number).touch()
        prompts = [histories.get(turn.conversation, []) + turn.tokens for turn in wave]
        sent = time.monotonic()
        beside = [*_leavers(engine, scenario, wave, histories), *_changes(engine, scenario, number, outcome)]
        replies = _ask(engine, scenario, wave, prompts, beside)
        took = time.monotonic() - sent
        for turn, prompt, reply in zip(wave, prompts, replies, strict=True):
            histories[turn.conversation] = prompt + reply["output_ids"]
            digest.update(json.dumps([turn.conversation, reply["output_ids"]]).encode())
            outcome.prompt_tokens += len(prompt)
            outcome.seconds.append(took)
            _note(outcome, reply["output_ids"], reply["meta_info"])
    outcome.sha = digest.hexdigest()[:16]
    outcome.serving_s = _since(started)


def _ask(
    engine: Any, scenario: Scenario, wave: list[Turn], prompts: list[list[int]], beside: Sequence[Any]
) -> list[dict[str, Any]]:
    from sglang.srt.managers.io_struct import GenerateReqInput

    sampling = {"max_new_tokens": scenario.new_tokens, "temperature": 0, "ignore_eos": True}
    manager = engine.tokenizer_manager
    if scenario.priorities:
        requests = [
            GenerateReqInput(input_ids=prompt, sampling_params=sampling, priority=PRIORITY * (at % scenario.priorities))
            for at, prompt in enumerate(prompts)
        ]
        asked: Any = _one_by_one(manager, requests)
    else:
        request = GenerateReqInput(
            input_ids=prompts,
            sampling_params=sampling,
            extra_key=_namespaces("key", scenario.extra_keys, wave),
            cache_salt=_namespaces("salt", scenario.cache_salts, wave),
        )
        asked = anext(manager.generate_request(request, None))
    replies: list[dict[str, Any]]
    replies, *_ = engine.loop.run_until_complete(asyncio.gather(asked, *beside))
    return replies


async def _one_by_one(manager: Any, requests: Sequence[Any]) -> list[dict[str, Any]]:
    """Sends requests apart; what was answered to each."""

    async def ask(at: int) -> dict[str, Any]:
        await asyncio.sleep(APART_S * at)
        reply: dict[str, Any] = await anext(manager.generate_request(requests[at], None))
        return reply

    return await asyncio.gather(*(ask(at) for at in range(len(requests))))


def _changes(engine: Any, scenario: Scenario, number: int, outcome: Outcome) -> list[Any]:
    """Storage comes or goes while the requests of a wave are served."""
    manager, changes = engine.tokenizer_manager, []
    if number == scenario.attach_at:
        changes.append(manager.attach_hicache_storage(scenario.storage.partition(":")[0]))
    if number == scenario.detach_at:
        changes.append(manager.detach_hicache_storage())
    return [_note_change(change, outcome) for change in changes]


async def _note_change(change: Any, outcome: Outcome) -> None:
    answer = await change
    outcome.storage_changes.append("done" if answer.success else answer.message)


def _leavers(engine: Any, scenario: Scenario, wave: list[Turn], histories: Mapping[int, list[int]]) -> list[Any]:
    """Requests of conversations that are not in the wave, of which a store has more than the tiers above it.

    They go a few milliseconds after they came, when they are waiting for storage, or running.
    """
    drawn = random.Random(f"{scenario.seed} {wave[0].tokens}")
    others = sorted(set(histories) - {turn.conversation for turn in wave})
    chosen = drawn.sample(others, min(scenario.leavers, len(others)))
    prompts = [histories[one] + [drawn.randrange(3, VOCABULARY) for _ in range(40)] for one in chosen]
    return [_leave(engine, prompt, drawn.uniform(0, LEAVES_S)) for prompt in prompts]


async def _leave(engine: Any, prompt: list[int], after_s: float) -> None:
    from sglang.srt.managers.io_struct import GenerateReqInput

    sampling = {"max_new_tokens": 64, "temperature": 0, "ignore_eos": True}
    request = GenerateReqInput(input_ids=prompt, sampling_params=sampling, rid=f"leaver-{uuid.uuid4().hex}")
    asked = asyncio.ensure_future(anext(engine.tokenizer_manager.generate_request(request, None)))
    await asyncio.sleep(after_s)
    engine.tokenizer_manager.abort_request(rid=request.rid)
    with contextlib.suppress(ValueError):  # which says that it was aborted
        await asked


def _namespaces(name: str, count: int, wave: list[Turn]) -> list[str] | None:
    return [f"{name}-{turn.conversation % count}" for turn in wave] if count else None


def _note(outcome: Outcome, tokens: list[int], meta: dict[str, Any]) -> None:
    details = meta.get("cached_tokens_details") or {}
    tiers = {tier: int(details.get(tier) or 0) for tier in TIERS}
    outcome.tokens.append(tokens)
    outcome.cached.append(meta["cached_tokens"])
    outcome.tiers.append(tiers)
    outcome.cached_tokens += meta["cached_tokens"]
    outcome.retractions += meta.get("num_retractions") or 0
    outcome.cached_by_tier = {tier: outcome.cached_by_tier.get(tier, 0) + tiers[tier] for tier in TIERS}


def _flush(engine: Any, outcome: Outcome) -> None:
    """The server refuses while a copy is under way, so it is asked until it agrees."""
    started = time.monotonic()
    while not (agreed := bool(engine.flush_cache().success)) and time.monotonic() < started + FLUSH_S:
        time.sleep(0.5)
    outcome.flush, outcome.flush_s = agreed, _since(started)


def _since(started: float) -> float:
    return round(time.monotonic() - started, 2)
