"""The HTTP server under a crowd that leaves at random moments: nothing leaks, and it ends when it is told to."""

import asyncio
import itertools
import json
import random
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from .models import VOCABULARY
from .scenario import Scenario
from .server import Server

aiohttp = pytest.importorskip("aiohttp", reason="SGLang's own client library, in its environment")
pytestmark = pytest.mark.sglang

REQUESTS: Final = 200
PROMPTS: Final = 40  # each is asked for several times
DOCUMENTS: Final = 8  # and shares its beginning with others
STOP_S: Final = 60
COUNTED_TWICE: Final = {
    "isoradix_backed_up_tokens_total": "sglang:hicache_backup_tokens_total",
    "isoradix_loaded_back_tokens_total": "sglang:load_back_tokens_total",
}
"""By this package, whose leader counts what is equal on all ranks, and by each rank in the server's words."""


@dataclass
class Visit:
    """A request, and what its client does after it has seen `leaves_after` answers: stay, hang up, or abort it."""

    prompt: int
    fate: str
    leaves_after: int
    new_tokens: int
    tokens: list[int] = field(default_factory=list)
    finish: str | None = None


def prompts(drawn: random.Random) -> list[list[int]]:
    def tokens(count: int) -> list[int]:
        return [drawn.randrange(3, VOCABULARY) for _ in range(count)]

    documents = [tokens(96) for _ in range(DOCUMENTS)]
    return [documents[one % DOCUMENTS] + tokens(drawn.randrange(10, 60)) for one in range(PROMPTS)]


def crowd(drawn: random.Random) -> list[Visit]:
    fates = ("stay", "stay", "stay", "hang up", "abort")
    return [
        Visit(drawn.randrange(PROMPTS), drawn.choice(fates), drawn.randrange(12), drawn.randrange(8, 32))
        for _ in range(REQUESTS)
    ]


async def call(client: Any, url: str, visit: Visit, name: str, tokens: list[int]) -> None:
    """Sends one request and reads its answers as they come. An abort takes all requests whose names begin alike."""
    sampling = {"max_new_tokens": visit.new_tokens, "temperature": 0, "ignore_eos": True}
    request = {"rid": name, "input_ids": tokens, "sampling_params": sampling, "stream": True}
    seen = 0
    async with client.post(f"{url}/generate", json=request) as answer:
        assert answer.status == 200
        async for line in answer.content:
            if visit.fate != "stay" and seen == visit.leaves_after:
                if visit.fate == "hang up":
                    return
                async with client.post(f"{url}/abort_request", json={"rid": name}) as accepted:
                    assert accepted.status == 200
            if not line.startswith(b"data: {"):
                continue
            seen += 1
            reply = json.loads(line[6:])
            assert "error" not in reply, reply
            visit.tokens = reply["output_ids"]
            visit.finish = (reply["meta_info"].get("finish_reason") or {}).get("type")


async def metrics(client: Any, url: str) -> dict[str, float]:
    """The figures of the metrics page, summed over ranks."""
    async with client.get(f"{url}/metrics") as answer:
        page = await answer.text()
    figures: dict[str, float] = {}
    for name, value in re.findall(r"^([\w:]+)(?:\{[^}]*\})? (\S+)$", page, re.MULTILINE):
        figures[name] = figures.get(name, 0) + float(value)
    return figures


Talk = Callable[[Any, Server], Awaitable[None]]


def converse(scenario: Scenario, log: Path, talk: Talk) -> Server:
    """Starts a server, talks to it, and asks it to end."""

    async def both(server: Server) -> None:
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(300)) as client:
            await server.ready(client)
            await talk(client, server)

    with Server(scenario, log) as server:
        asyncio.run(both(server))
        assert server.errors() == []
        assert server.stop(STOP_S) == 0
        assert server.survivors() == []
    assert server.errors() == []
    return server


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param({"l2": True}, id="tp1"),
        pytest.param({"l2": True, "tp": 2}, id="tp2", marks=pytest.mark.slow),
        pytest.param({"l2": True, "tp": 2, "pp": 2}, id="tp2xpp2", marks=pytest.mark.slow),
    ],
)
def test_a_crowd_leaves_nothing_behind(backend: str, sizes: dict[str, Any], tmp_path: Path) -> None:
    scenario = Scenario(backend=backend, max_total_tokens=2048, engine_args={"enable_metrics": True}, **sizes)
    drawn = random.Random(5)
    texts, visits = prompts(drawn), crowd(drawn)

    async def talk(client: Any, server: Server) -> None:
        await asyncio.gather(
            *(
                call(client, server.url, visit, f"visit-{number:03}", texts[visit.prompt])
                for number, visit in enumerate(visits)
            )
        )
        async with client.post(f"{server.url}/flush_cache", params={"timeout": 60}) as answer:
            assert answer.status == 200, await answer.text()
        figures = await metrics(client, server.url)
        assert figures["sglang:num_running_reqs"] == 0
        assert figures["sglang:num_queue_reqs"] == 0
        for own, servers in COUNTED_TWICE.items():
            assert scenario.ranks * figures[own] == figures[servers] > 0, own
        again = Visit(0, "stay", 0, 31)
        await call(client, server.url, again, "again", texts[0])
        visits.append(again)

    converse(scenario, tmp_path / "log", talk)
    stayed = [visit for visit in visits if visit.fate == "stay"]
    assert [len(visit.tokens) for visit in stayed] == [visit.new_tokens for visit in stayed]
    assert any(visit.finish == "abort" for visit in visits), "no request was aborted: all came too late"
    for prompt in range(PROMPTS):
        answers = sorted((visit.tokens for visit in visits if visit.prompt == prompt), key=len)
        for shorter, longer in itertools.pairwise(answers):
            assert longer[: len(shorter)] == shorter


KEY: Final = "an-administrators"


async def change_storage(client: Any, url: str, **asked: str) -> tuple[int, str]:
    """Attaches what is asked for, or detaches where nothing is."""
    change = client.put if asked else client.delete
    place, headers = f"{url}/hicache/storage-backend", {"Authorization": f"Bearer {KEY}"}
    async with change(place, headers=headers, **({"json": asked} if asked else {})) as answer:
        return answer.status, await answer.text()


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [{"tp": 2}, {"tp": 2, "pp": 2}])
def test_storage_is_attached_by_an_administrator(backend: str, tmp_path: Path, ranks: dict[str, Any]) -> None:
    args = {"enable_metrics": True, "admin_api_key": KEY}
    environment = {"ISORADIX_STORAGE_BREAKER": "3,1000,1,10000"}
    scenario = Scenario(backend=backend, l2=True, engine_args=args, environment=environment, **ranks)
    prompt = list(range(10, 10 + 512))

    async def talk(client: Any, server: Server) -> None:
        url, store = server.url, (tmp_path / "store").as_uri()
        status, text = await change_storage(
            client, url, hicache_storage_backend=store, hicache_write_policy="write_back"
        )
        assert (status, "started with write_through" in text) == (400, True), text
        for name in ("hf3fs", "file:///dev/null/none"):
            status, text = await change_storage(client, url, hicache_storage_backend=name)
            assert status == 400, text
        status, text = await change_storage(client, url, hicache_storage_backend=store)
        assert status == 200, text
        status, text = await change_storage(client, url, hicache_storage_backend=store)
        assert (status, "detach it first" in text) == (400, True), text
        await call(client, url, Visit(0, "stay", 0, 16), "stored", prompt)
        for _ in range(2):  # the second time there is none
            status, text = await change_storage(client, url)
            assert status == 200, text
        await asyncio.sleep(1.5)  # metrics are written once a second, while there is something to do
        await call(client, url, Visit(0, "stay", 0, 4), "counts", prompt)
        figures = await metrics(client, url)
        assert figures["isoradix_storage_breaker_open"] == 0
        assert figures["isoradix_given_up_tokens_total"] == 0
        assert figures["isoradix_stored_tokens_total"] > 0

    converse(scenario, tmp_path / "log", talk)
    assert list((tmp_path / "store" / "pages").rglob("*"))
