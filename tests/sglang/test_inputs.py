"""What a client or an administrator may send, and what the cache makes of it: the calls of a scheduler, without one."""

import time
from array import array
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from benches.sglang import servers

from . import recorded as r

pytestmark = pytest.mark.sglang

PAGE, SLOTS = 4, 64
WORDS: Final = list(range(100, 124))
STRANGE: Final = {"below zero": -1, "of 33 bits": 2**32, "of 62 bits": 1_000_000 + 2**62 - 1}


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    servers.prepare_import()


def setting(host: float = 0.0, policy: str = "lru") -> r.Setting:
    return r.Setting(
        slots=SLOTS, page_size=PAGE, row_length=64, host_ratio=host, write_policy="write_through", policy=policy
    )


def playback(name: str = "isoradix", **asked: Any) -> Any:
    from .playback import Playback, server_for

    one = Playback(server_for(name, setting(**asked)))
    one.play([r.Step(free=0, evictable=0, held=0)])
    return one


def admitted(rid: str, prompt: list[int], first: int = 1, **asked: Any) -> list[r.Event]:
    """A request is matched, and its prompt computed; its first page is the `first`."""
    named = {"extra_key": None, "cache_salt": None, "priority": 0, **asked}
    return [
        r.Asked(rid=rid, prompt=prompt, **named),
        r.Match(rid=rid, length=len(prompt) - 1, more=[], device=0, host=0),
        r.Lock(number=first, rid=rid, promised=False, host=False),
        r.Extend(rid=rid, start=0, slots=list(range(first * PAGE, first * PAGE + len(prompt)))),
    ]


def kept(rid: str, up_to: int, number: int, finished: bool = False) -> r.Event:
    return r.Checkpoint(rid=rid, up_to=up_to, more=[], finished=finished, number=number)


def gone(rid: str, length: int, protected: int, number: int) -> list[r.Event]:
    return [
        r.Free(rid=rid, ranges=[(protected, length)], protected=protected),
        r.Unlock(number=number),
        r.Release(rid=rid),
    ]


@pytest.mark.parametrize("host", [0.0, 2.0], ids=["device", "host"])
@pytest.mark.parametrize("strange", STRANGE)
def test_a_prompt_that_is_no_tokens_is_served_without_the_cache(host: float, strange: str) -> None:
    from sglang.srt.mem_cache.radix_cache import RadixKey

    one = playback(host=host)
    one.play([*admitted("a", WORDS), kept("a", 24, 1), *gone("a", 24, 24, 1)])
    prompt = [*WORDS[:12], STRANGE[strange], *WORDS[13:]]
    seen = one.play([*admitted("b", prompt, 7), kept("b", 24, 7, finished=True)])
    assert (seen[1].device, seen[1].host, seen[-1].device) == (0, 0, 0)
    assert one.sizes() == (SLOTS - 48, 24, 0, 24), "the slots are the request's own"
    one.play(gone("b", 24, 0, 7))
    assert one.sizes() == (SLOTS - 24, 24, 0, 24)
    one.cache.touch_prefix(RadixKey(array("q", prompt)))
    one.cache.sanity_check()


def test_the_first_chunk_of_such_a_prompt_stays_until_it_is_gone() -> None:
    one = playback()
    one.play([*admitted("a", [*WORDS[:-1], -1]), kept("a", 8, 1)])
    assert one.sizes() == (SLOTS - 24, 0, 8, 8)
    one.play([kept("a", 24, 1)])
    assert one.sizes() == (SLOTS - 24, 0, 8, 8)
    one.play(gone("a", 24, 8, 1))
    assert one.sizes() == (SLOTS - 8, 8, 0, 8)


@pytest.mark.parametrize("host", [0.0, 2.0], ids=["device", "host"])
def test_a_salt_that_is_no_text_is_served_without_the_cache(host: float) -> None:
    one = playback(host=host)
    one.play([*admitted("a", WORDS, cache_salt="\ud800"), kept("a", 24, 1), *gone("a", 24, 0, 1)])
    assert one.sizes() == (SLOTS, 0, 0, 0)


def test_what_the_tree_refuses_for_another_reason_is_told() -> None:
    from isoradix import InvalidInputError

    one = playback()
    one.play(admitted("a", WORDS))
    one.request("a").kv.cache_protected_len = PAGE  # and the node that was matched is the root
    with pytest.raises(InvalidInputError, match="resume"):
        one.play([kept("a", 24, 1)])


@pytest.mark.parametrize("priority", [2**63 - 1, -(2**63)])
def test_the_greatest_priority_and_the_least_are_those_of_the_servers(priority: int) -> None:
    asked = admitted("a", WORDS[:12], 1, priority=priority)
    asked += [r.Decode(rids=["a"], slots=[16 + n]) for n in range(4)]
    asked += [r.Checkpoint(rid="a", up_to=16, more=[7, 8, 9, 10], finished=True, number=1), *gone("a", 16, 16, 1)]
    asked += [*admitted("b", WORDS[12:], 8, priority=0), kept("b", 12, 8), *gone("b", 12, 12, 8)]
    asked += [r.Evict(wanted=SLOTS - 24, evicted=0), r.Evict(wanted=SLOTS - 12, evicted=0)]
    ours, theirs = (playback(name, policy="priority").play(asked) for name in ("isoradix", "rust"))
    assert ours == theirs
    assert sum(len(seen.freed) for seen in ours) >= 16


@pytest.mark.parametrize("priority", [2**63, 2**70, -(2**63) - 1])
@pytest.mark.parametrize("policy", ["lru", "priority"])
def test_a_priority_of_more_bits_is_the_greatest_or_least(priority: int, policy: str) -> None:
    one = playback(policy=policy)
    one.play([*admitted("a", WORDS, priority=priority), kept("a", 24, 1), *gone("a", 24, 24, 1)])
    assert one.sizes() == (SLOTS - 24, 24, 0, 24)


@pytest.mark.parametrize("dynamo", [True, False])
def test_an_adapter_has_a_namespace_of_its_own_and_its_name_in_events(dynamo: bool) -> None:
    from sglang.srt.mem_cache import events

    from .playback import Playback, server_for

    if not dynamo and not hasattr(events, "KvEventLoraNames"):
        pytest.skip("0.5.22 names adapters in Dynamo's format alone")
    adapters = {"a": "0" * 31 + "a", "b": f"key{'0' * 31}b", "none": None}
    heard = []
    for name in ("isoradix", "rust"):
        names = getattr(events, "KvEventLoraNames", events.LoRANameTable)()
        for rid, key in adapters.items():
            if key is None:
                continue
            if dynamo:
                names.register(lora_id=key[-32:], lora_name=f"adapter {rid}")
            else:
                names.register(SimpleNamespace(extra_key=key, lora_id=key[-32:]), f"adapter {rid}")
        server = server_for(name, setting(), kv_events=True, kv_event_lora_names=names, dynamo_kv_event_format=dynamo)
        one = Playback(server)
        one.play([r.Step(free=0, evictable=0, held=0)])
        for number, (rid, key) in enumerate(adapters.items()):
            first = 1 + 2 * number
            seen = one.play([*admitted(rid, WORDS[:8], first, extra_key=key), kept(rid, 8, first)])
            assert (seen[1].device, seen[-1].device) == (0, 8), "nothing is found of another adapter"
        again = one.play(admitted("again", [*WORDS[:8], 1], 7, extra_key=adapters["b"]))
        assert again[1].device == 8
        stored = [event for event in server.cache.take_events() if type(event).__name__ == "BlockStored"]
        assert sum(len(event.token_ids) for event in stored) == 24
        heard.append({(event.lora_id, event.lora_name) for event in stored})
    assert heard[0] == heard[1] == {(None, "adapter a"), (None, "adapter b"), (None, None)}


def test_what_a_server_was_started_with_reaches_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    from isoradix import InvalidInputError
    from isoradix.integrations.sglang import assembly

    monkeypatch.setattr(assembly, "get_parallel", lambda: SimpleNamespace(attn_dcp_size=2))
    monkeypatch.setattr(assembly, "get_observability", lambda: SimpleNamespace(kv_canary_sweep_interval=8))
    with pytest.raises(InvalidInputError) as raised:
        playback(host=2.0)
    for flag in ("--dcp-size 2", "--kv-canary-sweep-interval 8"):
        assert flag in str(raised.value)


class Answers:
    """A scheduler that storage is attached to, and what it was answered."""

    gracefully_exit = False
    chunked_req = None
    rust_server: Any = None
    enable_hicache_storage = False

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.ipc_channels = SimpleNamespace(send_to_tokenizer=self)

    def send_output(self, answer: Any, _request: Any) -> None:
        self.heard.append(answer)

    def collect_inflight_reqs(self) -> set[Any]:
        return set()


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> Any:
    """One over host memory, without storage."""
    from benches.sglang.servers import make

    monkeypatch.delenv("ISORADIX_STORAGE", raising=False)
    return make("isoradix", slots=SLOTS, page_size=PAGE, row_length=64, host_ratio=2.0).cache


def steps_until(cache: Any, scheduler: Answers, over: Callable[[], bool]) -> None:
    late = time.monotonic() + 20
    while not over():
        assert time.monotonic() < late
        cache.begin_step(scheduler)
        time.sleep(0.001)


def attach(url: str, policy: str | None = None) -> Any:
    from sglang.srt.managers.io_struct import AttachHiCacheStorageReqInput

    return AttachHiCacheStorageReqInput(hicache_storage_backend=url, hicache_storage_prefetch_policy=policy)


def test_what_waits_when_storage_is_detached_waits_no_more_nor_when_it_is_back(cache: Any, tmp_path: Path) -> None:
    from sglang.srt.managers.io_struct import DetachHiCacheStorageReqInput

    scheduler = Answers()
    cache.begin_step(scheduler)
    for turn in range(2):
        assert cache.storage.attach(scheduler, attach(tmp_path.as_uri())) is None
        steps_until(cache, scheduler, lambda: cache.enable_storage)
        words = list(range(300))
        assert cache.prefetch_from_storage(f"request {turn}", cache.root_node, words, None, None)
        assert not cache.prefetch_from_storage("of no tokens", cache.root_node, [*words, -1], None, None)
        assert len(cache.ongoing_prefetch) == 1
        assert cache.storage.detach(scheduler, DetachHiCacheStorageReqInput()) is None
        steps_until(cache, scheduler, lambda: not cache.enable_storage)
        assert not scheduler.enable_hicache_storage
        assert len(cache.ongoing_prefetch) == 0, "the scheduler does not ask any more: it would never be idle"
        steps_until(cache, scheduler, lambda: cache.tree.attachment == "absent")
    assert [answer.success for answer in scheduler.heard] == [True] * 4


def test_a_refused_attach_changes_no_policy(cache: Any, tmp_path: Path) -> None:
    scheduler = Answers()
    cache.begin_step(scheduler)
    assert cache.storage.policy == "timeout"
    assert cache.storage.attach(scheduler, attach("file:///dev/null/folder", "best_effort")) is None
    steps_until(cache, scheduler, lambda: bool(scheduler.heard))
    assert not scheduler.heard[0].success
    assert cache.storage.policy == "timeout"
    assert cache.storage.attach(scheduler, attach(tmp_path.as_uri(), "best_effort")) is None
    steps_until(cache, scheduler, lambda: len(scheduler.heard) == 2)
    assert cache.storage.policy == "best_effort"
