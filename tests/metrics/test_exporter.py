"""What is exported is what the ranks did, from the ranks that should say it, over HTTP and while they run."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pytest

prometheus_client = pytest.importorskip("prometheus_client")

from prometheus_client import CollectorRegistry  # noqa: E402
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

from isoradix import Control, DivergenceError, InvalidInputError, TieredCache  # noqa: E402
from isoradix.consensus.topology import Topology  # noqa: E402
from isoradix.driver import Driver  # noqa: E402
from isoradix.metrics import FAMILIES, Exporter, HitCounter, serve  # noqa: E402

from .stub import StubEngine, StubPlane, drivers  # noqa: E402

PROMPT = list(range(40))


def step(ranks: Sequence[Driver], verb: Callable[[Driver, TieredCache], None], *controls: Control) -> None:
    """One step of all ranks: the leader first."""
    with ExitStack() as entered:
        caches = [entered.enter_context(rank.step(controls if rank is ranks[0] else ())) for rank in ranks]
        for rank, cache in zip(ranks, caches, strict=True):
            verb(rank, cache)


def nothing(driver: Driver, cache: TieredCache) -> None:
    pass


def insert(driver: Driver, cache: TieredCache) -> None:
    done = cache.insert(PROMPT, driver.slots.alloc(40))
    assert done.new_tokens == 40


def evict(driver: Driver, cache: TieredCache) -> None:
    driver.slots.free(cache.evict(40).slots)


def load(driver: Driver, cache: TieredCache) -> None:
    found = cache.match_prefix(PROMPT)
    receipt = cache.host_lock(found.host_node)
    assert cache.load_back(receipt, driver.slots.alloc(found.host_tokens)) == 40


def live(ranks: Sequence[Driver]) -> None:
    """Through both tiers and back, and one backup that fails."""
    for verb in (insert, nothing, evict, load, nothing, nothing):
        step(ranks, verb)
    for rank in ranks:
        assert isinstance(rank.engine, StubEngine)
        rank.engine.fails.add(2)
    step(ranks, lambda driver, cache: assert_new(cache.insert([7] * 8, driver.slots.alloc(8)).new_tokens))
    for _ in range(4):
        step(ranks, nothing)


def assert_new(tokens: int) -> None:
    assert tokens == 8


@contextmanager
def exported(ranks: Sequence[Driver], hits: HitCounter | None = None) -> Iterator[tuple[Exporter, CollectorRegistry]]:
    registry = CollectorRegistry()
    exporter = Exporter(ranks[0], hits, registry=registry)
    for rank in ranks[1:]:
        exporter.add(rank)
    yield exporter, registry
    exporter.close()


def scraped(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Value by name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def read(registry: CollectorRegistry) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return scraped(prometheus_client.generate_latest(registry).decode())


def key(name: str, **labels: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    return f"isoradix_{name}", tuple(sorted({"domain": "0", **labels}.items()))


def test_numbers_are_those_of_the_cache() -> None:
    ranks = drivers(Topology())
    live(ranks)
    hits = HitCounter()
    hits.admit(50, device=10, host=20, storage=5)
    hits.admit(7)
    with exported(ranks, hits) as (_, registry):
        values = read(registry)
    assert values[key("prompt_tokens_total")] == 57
    assert [values[key("hit_tokens_total", tier=tier)] for tier in ("device", "host", "storage")] == [10, 20, 5]
    fates = [("device", "demoted"), ("device", "dropped"), ("device", "dropped_dirty"), ("host", "dropped")]
    assert [values[key("evicted_tokens_total", tier=tier, fate=fate)] for tier, fate in fates] == [40, 0, 0, 0]
    moved = ["reclaimed", "backed_up", "loaded_back", "prefetched", "stored"]
    assert [values[key(f"{name}_tokens_total")] for name in moved] == [0, 40, 40, 0, 0]
    outcomes = ["issued", "done", "declined", "aborted"]
    backups = [values[key("operations_total", kind="backup", outcome=outcome)] for outcome in outcomes]
    assert backups == [2, 1, 0, 1]
    assert values[key("aborted_reservations_total", kind="backup", reason="failed")] == 1
    assert values[key("cached_tokens", tier="device")] == 48
    assert values[key("cached_tokens", tier="host")] == 40
    assert values[key("occupied_tokens", tier="device")] == 48
    assert values[key("occupied_tokens", tier="host")] == ranks[0].cache.host_ledger.occupied * 4
    assert (values[key("capacity_tokens", tier="device")], values[key("capacity_tokens", tier="host")]) == (400, 400)
    assert values[key("protected_tokens")] == ranks[0].cache.protected_size
    assert values[key("evictable_tokens")] == ranks[0].cache.evictable_size
    assert [values[key("limbo_tokens", tier=tier)] for tier in ("device", "host")] == [0, 0]
    rank = {"rank": "0", "stage": "0"}
    assert values[key("frames_total", **rank)] == 11
    assert values[key("votes_total", **rank)] == 10
    assert values[key("vote_age_seconds_count", **rank)] == 10
    assert values[key("vote_age_seconds_sum", **rank)] == pytest.approx(0.015)
    assert values[key("vote_age_steps_sum", **rank)] == 10
    assert values[key("divergence_total", **rank)] == 0


def test_every_family_has_samples_and_no_other_has() -> None:
    ranks = drivers(Topology(tp=2))
    live(ranks)
    with exported(ranks, HitCounter()) as (_, registry):
        families = {family.name: family for family in registry.collect()}
    assert families.keys() == {family.name.removesuffix("_total") for family in FAMILIES}
    for family in FAMILIES:
        samples = families[family.name.removesuffix("_total")].samples
        assert samples, family.name
        assert all(tuple(sample.labels) == family.labels for sample in samples), family.name
        assert families[family.name.removesuffix("_total")].type == family.type


def test_the_leader_says_what_all_know_and_every_rank_its_own() -> None:
    ranks = drivers(Topology(tp=2, pp=2, dp=2), domain=1)
    live(ranks)
    with exported(ranks, HitCounter()) as (_, registry):
        values = read(registry)
    per_rank = {family.name for family in FAMILIES if family.per_rank}
    for family in FAMILIES:
        own = [dict(labels) for name, labels in values if name.removesuffix("_count") == family.name]
        assert {labels["domain"] for labels in own} == {"1"}
        if family.name in per_rank - {"isoradix_waits_total", "isoradix_wait_seconds_total"}:
            assert {(labels["rank"], labels["stage"]) for labels in own} == {
                ("2", "0"),
                ("3", "0"),
                ("6", "1"),
                ("7", "1"),
            }
    assert values["isoradix_backed_up_tokens_total", (("domain", "1"),)] == 40
    waited = key("waits_total", domain="1", rank="7", stage="1", operation="frame")
    assert values[waited] == 11
    assert values[key("wait_seconds_total", domain="1", rank="7", stage="1", operation="frame")] == 11 * 0.25


def test_a_follower_alone_exports_nothing_that_its_leader_does() -> None:
    ranks = drivers(Topology(tp=2))
    live(ranks)
    with exported(ranks[1:], HitCounter()) as (_, registry):
        names = {name for name, _ in read(registry)}
    assert "isoradix_frames_total" in names
    assert not names & {family.name for family in FAMILIES if not family.per_rank}


def test_domains_of_one_process_are_told_apart() -> None:
    topology = Topology(dp=2)
    ranks = [*drivers(topology, 0), *drivers(topology, 1)]
    for rank in ranks:
        live([rank])
    with exported(ranks) as (_, registry):
        values = read(registry)
    assert [values[key("stored_tokens_total", domain=domain)] for domain in "01"] == [0, 0]
    assert [values[key("backed_up_tokens_total", domain=domain)] for domain in "01"] == [40, 40]
    assert not [name for name, _ in values if "prompt" in name], "nobody counts hits"


def test_it_is_scraped_over_http_and_closes() -> None:
    ranks = drivers(Topology())
    live(ranks)
    with exported(ranks) as (_, registry):
        endpoint = serve(0, registry=registry)
        with urllib.request.urlopen(f"http://{endpoint.address}:{endpoint.port}/metrics", timeout=30) as answer:
            assert answer.status == 200
            values = scraped(answer.read().decode())
        assert values[key("loaded_back_tokens_total")] == 40
        endpoint.close()
        endpoint.close()
        with pytest.raises(OSError, match="refused"):
            urllib.request.urlopen(f"http://{endpoint.address}:{endpoint.port}/metrics", timeout=30)
    assert read(registry) == {}


def test_it_is_scraped_while_the_ranks_run() -> None:
    ranks = drivers(Topology(tp=2))
    seen: list[dict[tuple[str, tuple[tuple[str, str], ...]], float]] = []
    failed: list[BaseException] = []
    over = threading.Event()

    def scrape() -> None:
        try:
            while not over.is_set():
                seen.append(read(registry))
        except BaseException as error:
            failed.append(error)

    hits = HitCounter()
    with exported(ranks, hits) as (_, registry):
        scrapers = [threading.Thread(target=scrape) for _ in range(2)]
        for scraper in scrapers:
            scraper.start()
        for turn in range(150):
            for rank in ranks:
                plane = rank.plane
                assert isinstance(plane, StubPlane)
                plane.wait(f"operation {turn}")  # the scraped dictionaries grow meanwhile
            step(ranks, evict)
            step(ranks, lambda driver, cache: load(driver, cache) if cache.sizes.host_only else insert(driver, cache))
            hits.admit(40, device=20, host=20)
        over.set()
        for scraper in scrapers:
            scraper.join()
        seen.append(read(registry))
    assert not failed
    assert len(seen) > 3
    for name in ("prompt_tokens_total", "backed_up_tokens_total", "loaded_back_tokens_total"):
        values = [values.get(key(name), 0) for values in seen[:-1]]
        assert max(values) <= seen[-1][key(name)]
    device, host = key("hit_tokens_total", tier="device"), key("hit_tokens_total", tier="host")
    assert all(values[device] == values[host] for values in seen), "a reader sees one moment"


def test_a_divergence_is_counted_for_its_rank() -> None:
    ranks = drivers(Topology(tp=2))
    with exported(ranks) as (exporter, registry):
        with pytest.raises(DivergenceError):
            ranks[1].rank.follow(bytes_of_another_step(ranks))
        exporter.diverged(ranks[1])
        values = read(registry)
        of_rank = [values[key("divergence_total", rank=rank, stage="0")] for rank in "01"]
        assert of_rank == [0, 1]
        with pytest.raises(InvalidInputError, match="not exported here\nhint: "):
            exporter.diverged(drivers(Topology())[0])
        with pytest.raises(InvalidInputError, match="twice, limit 1\nhint: "):
            exporter.add(ranks[0])


def bytes_of_another_step(ranks: Sequence[Driver]) -> bytes:
    step(ranks[:1], nothing)
    step(ranks[:1], nothing)
    plane = ranks[1].plane
    assert isinstance(plane, StubPlane)
    return plane.frames[-1]


def test_a_registry_has_one_exporter() -> None:
    ranks = drivers(Topology())
    with exported(ranks) as (_, registry), pytest.raises(ValueError, match="Duplicated timeseries"):
        Exporter(ranks[0], registry=registry)
    exporter = Exporter(ranks[0], registry=registry)
    exporter.close()
    everywhere = Exporter(ranks[0])
    try:
        assert key("stored_tokens_total") in read(prometheus_client.REGISTRY)
    finally:
        everywhere.close()


@pytest.mark.parametrize(
    ("prompt", "hit"), [(10, {"device": 11}), (10, {"device": 6, "host": 5}), (5, {"storage": -1})]
)
def test_hits_are_part_of_the_prompt(prompt: int, hit: dict[str, int]) -> None:
    hits = HitCounter()
    with pytest.raises(InvalidInputError, match=r"hit tokens of a prompt of .*, limit \d+\nhint: "):
        hits.admit(prompt, **hit)
    assert sum(hits.hits) == 0
