"""The decisions of this cache beside those of the server's own, on what a real scheduler asked.

On the device tier they are the same, call by call: hits, the slots that go back and their order, sizes. Over both
tiers hits may differ, and each difference is one of those listed in `EXPLAINED`.
"""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from benches.sglang import servers

from isoradix import IsoradixError

from . import recorded as r
from .engines import ROOT

pytestmark = pytest.mark.sglang

DEVICE: Final = (
    "l1",
    "l1-tokens",
    "l1-crowded",
    "l1-lfu",
    "l1-slru",
    "l1-fifo",
    "l1-mru",
    "l1-filo",
    "l1-priority",
)
ALWAYS: Final = ("l1", "l1-tokens", "l1-priority", "l2-through")  # the others when asked for
BOTH: Final = ("l2-through", "l2-selective", "l2-back")

EXPLAINED: Final = {
    "l2-through": "host is full, and this cache gives up one leaf of 16 tokens that the server keeps",
    "l2-back": "the server writes at eviction and waits for it, so that a page is in one tier alone and both add up; "
    "this cache writes ahead of eviction and keeps both",
    "l2-selective": "",
}
SHARE: Final = {"l2-through": 0.98, "l2-selective": 1.0, "l2-back": 0.85}
"""The least of the server's own hits that is accepted, in tokens matched over all tiers."""

HEARD: Final = {
    "l1": 1.0,
    "l1-crowded": 1.0,
    "l1-lfu": 1.0,
    "l1-slru": 1.0,
    "l1-fifo": 1.0,
    "l1-mru": 1.0,
    "l1-filo": 1.0,
    "l1-priority": 1.0,
    "l2-through": 0.98,
    "l2-selective": 1.0,
    "l2-back": 0.7,
}
"""The least of what the server's own cache says to be on host that this one says too, over all events; under write-back
they keep others (see `EXPLAINED`). On the device all is equal. Namespaces of `extra_key` are left out: the server gives
their blocks equal hashes."""


def some(names: tuple[str, ...]) -> list[Any]:
    return [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.fixture(scope="session")
def recorded(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Callable[[str], list[r.Event]]:
    """The events of a recording. All that the session needs are made at once, for the import costs most."""
    folder = tmp_path_factory.mktemp("recordings")
    parameters = [_parameters(item) for item in request.session.items]
    wanted = {given["name"] for given in parameters if "name" in given}
    command = [sys.executable, "-W", "ignore", "-m", "tests.sglang.recording", str(folder), *sorted(wanted)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as recorder:
        servers.prepare_import()
        import sglang.srt.mem_cache.registry
        import sglang.srt.mem_cache.unified_radix_cache  # noqa: F401  beside the recorder, which takes as long

        output, _ = recorder.communicate()
    assert recorder.returncode == 0, output

    @cache
    def events(name: str) -> list[r.Event]:
        return list(r.read(folder / f"{name}.jsonl"))

    return events


def _parameters(item: Any) -> dict[str, Any]:
    call = getattr(item, "callspec", None)
    return call.params if call is not None and Path(item.path).name == Path(__file__).name else {}


@pytest.fixture(scope="session")
def played(recorded: Callable[[str], list[r.Event]]) -> Callable[[str, str], Any]:
    """What came of a recording's events, and the playback."""
    from .playback import Playback, server_for

    @cache
    def play(name: str, cache_name: str) -> tuple[list[Any], Any]:
        setting, *rest = recorded(name)
        assert isinstance(setting, r.Setting)
        playback = Playback(server_for(cache_name, setting))
        return playback.play(rest), playback

    return play


@pytest.mark.parametrize("name", some(DEVICE))
@pytest.mark.parametrize("core", ["rust", pytest.param("python", marks=pytest.mark.slow)])
def test_device_tier_decides_as_the_servers(played: Any, name: str, core: str) -> None:
    (ours, mine), (theirs, other) = played(name, "isoradix"), played(name, core)
    assert sum(len(seen.freed) for seen in theirs) > 1000, "this recording evicts nothing"
    for a, b in zip(ours, theirs, strict=True):
        # equally heavy subtrees are in another order where a node was split
        assert replace(a, order=sorted(a.order)) == replace(b, order=sorted(b.order))
    assert mine.substituted == other.substituted == 0
    mine.cache.sanity_check()


@pytest.mark.parametrize("name", some(("l1-tokens", "l1-crowded")))
@pytest.mark.parametrize("core", ["rust", pytest.param("python", marks=pytest.mark.slow)])
def test_keys_of_pairs_are_the_servers_too(recorded: Any, name: str, core: str) -> None:
    """EAGLE's, made of what was recorded without it: a page ends a token later."""
    from .playback import Playback, server_for

    setting, *events = recorded(name)
    mine, other = (Playback(server_for(one, setting, is_eagle=True)) for one in ("isoradix", core))
    ours, theirs = mine.play(events), other.play(events)
    assert sum(len(seen.freed) for seen in theirs) > 1000
    assert sum(seen.device for seen in theirs if seen.event == "Match") > 1000
    for a, b in zip(ours, theirs, strict=True):
        assert replace(a, order=sorted(a.order)) == replace(b, order=sorted(b.order))
    assert (mine.substituted, mine.evicted_more) == (other.substituted, other.evicted_more)
    mine.cache.sanity_check()


@pytest.mark.parametrize("name", some(DEVICE + BOTH))
def test_playback_is_what_was_recorded(recorded: Any, played: Any, name: str) -> None:
    """The server's own cache, played to, does what it did in the engine: the playback leaves nothing out."""
    _, *events = recorded(name)
    seen, _ = played(name, "rust")
    for event, one in zip(events, seen, strict=True):
        match event:
            case r.Match():
                assert (one.device, one.host) == (event.device, event.host)
            case r.LoadBack():
                assert one.host == event.loaded
            case r.Evict() if name in DEVICE:
                assert one.device == event.evicted
            case r.Step() if name in DEVICE:
                assert one.sizes[:3] == (event.free, event.evictable, event.held)


@pytest.mark.parametrize("name", some(BOTH))
def test_both_tiers_hit_as_the_servers_or_differ_for_a_known_reason(played: Any, name: str) -> None:
    (ours, _), (theirs, _) = played(name, "isoradix"), played(name, "rust")
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a.event == "Match"]
    parted = [(a.at, a.rid, (a.device, a.host), (b.device, b.host)) for a, b in pairs if hits(a) != hits(b)]
    for line in parted:
        print(*line)
    assert not parted or EXPLAINED[name], "a difference without a reason"
    mine, other = (sum(sum(hits(seen)) for seen in side) for side in zip(*pairs, strict=True))
    assert sum(b.host for _, b in pairs) > 0, "this recording never finds anything on host"
    assert mine >= SHARE[name] * other


@pytest.mark.parametrize("name", some(tuple(HEARD)))
def test_a_listener_hears_of_the_same_blocks(recorded: Any, name: str) -> None:
    """KV events, each tier by itself. Under write-back the server's own host tier has blocks without those above."""
    from sglang.srt.disaggregation.kv_events import StorageMedium

    from .listening import Block, Listener
    from .playback import Playback, server_for

    setting, *events = recorded(name)
    numbers: dict[Block, int] = {}
    sides = []
    for cache_name in ("isoradix", "rust"):
        playback = Playback(server_for(cache_name, setting, kv_events=True))
        sides.append((playback, Listener(numbers, closed=cache_name == "isoradix")))
    common = theirs = 0
    for event in events:
        for playback, listener in sides:
            playback.play([event])
            listener.hear(playback.cache.take_events())
        device, host = (
            [listener.blocks(medium) for _, listener in sides] for medium in (StorageMedium.GPU, StorageMedium.CPU)
        )
        mine = sides[0][0].cache.tree
        assert len(device[0]) * setting.page_size == mine.total_size
        if name in DEVICE:
            assert device[0] == device[1]
            assert not host[0] | host[1]
        else:
            assert len(host[0]) * setting.page_size == mine.sizes.host_total
            common += len(host[0] & host[1])
            theirs += len(host[1])
    print(name, common, theirs)
    assert name in DEVICE or common >= HEARD[name] * theirs > 0


def hits(seen: Any) -> tuple[int, int]:
    """By tier, in tokens."""
    return seen.device, seen.host


def without_answers(cache_: Any) -> None:
    plain = cache_.checkpoint

    def checkpoint(req: Any, *, up_to: int) -> None:
        plain(req, up_to=min(up_to, len(req.origin_input_ids)))

    cache_.checkpoint = checkpoint


def with_locks_that_hold_nothing(cache_: Any) -> None:
    from isoradix.integrations.sglang.cache import IsoradixCache

    root = cache_.root_node
    cache_.lock = lambda _node: IsoradixCache.lock(cache_, root)


def that_loses_a_leaf_with_each_match(cache_: Any) -> None:
    plain = cache_.match_prefix

    def match_prefix(params: Any) -> Any:
        found = plain(params)
        cache_.tree.touch(cache_.root_node)
        cache_.slots.free(cache_.tree.evict(1).slots)
        return found

    cache_.match_prefix = match_prefix


PLANTED: Final = {
    "answers are not kept": without_answers,
    "locks hold nothing": with_locks_that_hold_nothing,
    "a leaf is lost with each match": that_loses_a_leaf_with_each_match,
}


@pytest.mark.parametrize("name", ["l1"])
@pytest.mark.parametrize("defect", PLANTED)
def test_a_planted_difference_shows(recorded: Any, played: Any, name: str, defect: str) -> None:
    from .playback import Playback, server_for

    setting, *events = recorded(name)
    server = server_for("isoradix", setting)
    PLANTED[defect](server.cache)
    expected, _ = played(name, "rust")
    try:
        found = Playback(server).play(events)
    except IsoradixError:
        return  # it can't even go on
    assert found != expected


@pytest.mark.parametrize("name", ["l1"])
def test_another_eviction_order_shows(recorded: Any, played: Any, name: str) -> None:
    from .playback import Playback, server_for

    setting, *events = recorded(name)
    expected, _ = played(name, "rust")
    found = Playback(server_for("isoradix", msgspec.structs.replace(setting, policy="fifo"))).play(events)
    assert [seen.freed for seen in found] != [seen.freed for seen in expected]
