"""External storage of the SGLang plug-in, as far as it needs no SGLang."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("msgspec")

from isoradix import Control, InvalidInputError, TieredCache
from isoradix.consensus import Topology
from isoradix.integrations.sglang import storage
from isoradix.integrations.sglang.clearing import Clearing
from isoradix.integrations.sglang.options import Options
from isoradix.integrations.sglang.prefetch import Prefetches
from isoradix.integrations.sglang.storage import StorageOptions, open_tier, url_of
from isoradix.kv import HostPool, MHAShape, MLAShape
from isoradix.storage import StorageURL, TemporaryStorageError


def memory(**flags: Any) -> Any:
    usual = {
        "hicache_storage_backend": None,
        "hicache_storage_prefetch_policy": "best_effort",
        "hicache_storage_backend_extra_config": None,
    }
    return SimpleNamespace(**{**usual, **flags})


class TestClearing:
    def test_nobody_waits_for_it_and_the_last_wish_counts(self, caplog: pytest.LogCaptureFixture) -> None:
        begun, go_on = threading.Semaphore(0), threading.Semaphore(0)
        answers = iter([TemporaryStorageError("it is away"), None])

        def clear(*, timeout_s: float) -> None:
            begun.release()
            assert go_on.acquire(timeout=10)
            if (error := next(answers)) is not None:
                raise error

        clearing = Clearing(cast(Any, SimpleNamespace(clear=clear)))
        with caplog.at_level("INFO", "isoradix"):
            clearing.begin()
            assert begun.acquire(timeout=10)
            for _ in range(2):
                clearing.begin()  # returns although the first is not over
            go_on.release()
            assert begun.acquire(timeout=10), "it was asked for again, after it had begun"
            go_on.release()
            wait_for(lambda: "storage was cleared" in caplog.text)
        assert "not cleared: it is away" in caplog.text
        assert not begun.acquire(timeout=0.05), "three wishes are two passes"


def wait_for(what: Callable[[], bool]) -> None:
    late = time.monotonic() + 10
    while not what():
        assert time.monotonic() < late
        time.sleep(0.01)


class TestOptions:
    def test_nothing_named_is_nothing(self) -> None:
        assert StorageOptions.of(memory(), Options()).url is None

    def test_a_url_goes_before_the_flag(self) -> None:
        asked = StorageOptions.of(memory(hicache_storage_backend="hf3fs"), Options(storage="redis://x"))
        assert asked == StorageOptions("redis://x", "best_effort", 256, None)

    def test_the_servers_file_store_is_a_folder_beside_its_own(self, tmp_path: Path, monkeypatch: Any) -> None:
        monkeypatch.setenv("SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR", str(tmp_path / "a b"))
        asked = StorageOptions.of(memory(hicache_storage_backend="file"), Options())
        assert asked.url == (tmp_path / "a b" / "isoradix").as_uri()

    def test_a_cluster_is_found_as_the_server_finds_it(self, monkeypatch: Any) -> None:
        for name in ("MASTER", "PROTOCOL", "DEVICE", "GLOBAL_SEGMENT_SIZE", "LOCAL_HOSTNAME"):
            monkeypatch.delenv(f"MOONCAKE_{name}", raising=False)
        monkeypatch.setenv("MOONCAKE_MASTER", "cache:50051")
        asked = StorageOptions.of(memory(hicache_storage_backend="mooncake"), Options())
        assert asked.url is not None
        parsed = StorageURL.parse(asked.url)
        assert (parsed.host, parsed.port, parsed.size("segment", None)) == ("cache", 50051, None)
        parsed.finish()
        monkeypatch.setenv("MOONCAKE_GLOBAL_SEGMENT_SIZE", "4gb")
        monkeypatch.setenv("MOONCAKE_LOCAL_HOSTNAME", "node-1")
        asked = StorageOptions.of(memory(hicache_storage_backend="mooncake"), Options())
        assert asked.url is not None
        parsed = StorageURL.parse(asked.url)
        assert parsed.size("segment", None) == 4 * 10**9
        assert "hostname=node-1" in asked.url
        monkeypatch.setenv("MOONCAKE_GLOBAL_SEGMENT_SIZE", "0")
        asked = StorageOptions.of(memory(hicache_storage_backend="mooncake"), Options())
        assert asked.url is not None
        assert StorageURL.parse(asked.url).size("segment", None, least=0) == 0

    def test_a_timeout_is_as_long_as_the_server_says(self, tmp_path: Path) -> None:
        config = tmp_path / "extra.json"
        config.write_text('{"prefetch_threshold": 64, "prefetch_timeout_base": 0.5}')
        given = memory(hicache_storage_prefetch_policy="timeout", hicache_storage_backend_extra_config=f"@{config}")
        asked = StorageOptions.of(given, Options(storage="redis://x"))
        assert asked == StorageOptions("redis://x", "timeout", 64, (500, 250, 10_000))

    @pytest.mark.parametrize(
        ("name", "text"),
        [("extra.toml", "prefetch_threshold = 64\n"), ("extra.yaml", "prefetch_threshold: 64\n")],
    )
    def test_a_file_is_read_by_its_name(self, tmp_path: Path, name: str, text: str) -> None:
        if name.endswith("yaml"):
            pytest.importorskip("yaml")
        config = tmp_path / name
        given = memory(hicache_storage_backend_extra_config=f"@{config}")
        config.write_text(text)
        assert StorageOptions.of(given, Options(storage="redis://x")).threshold == 64
        config.write_text("a: [")
        with pytest.raises(InvalidInputError, match="extra-config a:"):
            StorageOptions.of(given, Options(storage="redis://x"))

    @pytest.mark.parametrize(
        ("flags", "named"),
        [
            ({"hicache_storage_backend": "hf3fs"}, "hf3fs.*file, mooncake"),
            ({"hicache_storage_prefetch_policy": "soon"}, "soon.*timeout"),
            ({"hicache_storage_backend_extra_config": "{"}, "extra-config {"),
            ({"hicache_storage_backend_extra_config": "[1]"}, "no JSON object"),
            ({"hicache_storage_backend_extra_config": "@/nowhere"}, "nowhere"),
            ({"hicache_storage_backend_extra_config": '{"tp_lcm_size": 2}'}, "tp_lcm_size is unknown"),
            ({"hicache_storage_backend_extra_config": '{"prefetch_threshold": -1}'}, "prefetch_threshold is -1"),
            ({"hicache_storage_backend_extra_config": '{"prefetch_threshold": true}'}, "prefetch_threshold is True"),
        ],
    )
    def test_what_is_not_accepted_is_named(self, flags: dict[str, Any], named: str) -> None:
        url = None if "hicache_storage_backend" in flags else "redis://x"
        with pytest.raises(InvalidInputError, match=named) as raised:
            StorageOptions.of(memory(**flags), Options(storage=url))
        assert "hint:" in str(raised.value)


def change(**asked: Any) -> Any:
    """What an administrator sends to attach storage."""
    usual = {
        "hicache_storage_backend": "file",
        "hicache_storage_backend_extra_config_json": None,
        "hicache_storage_prefetch_policy": None,
        "hicache_write_policy": None,
    }
    return SimpleNamespace(**{**usual, **asked})


class TestAttachedLater:
    def started(self, policy: str) -> tuple[StorageOptions, Any]:
        flags = memory(
            hicache_storage_prefetch_policy=policy,
            hicache_storage_backend_extra_config='{"prefetch_threshold": 64}',
            hicache_write_policy="write_through",
        )
        return StorageOptions.of(flags, Options()), flags

    @pytest.mark.parametrize(
        ("started", "asked", "policy"),
        [
            ("timeout", {}, "timeout"),
            ("timeout", {"hicache_storage_prefetch_policy": "best_effort"}, "best_effort"),
            ("best_effort", {"hicache_storage_prefetch_policy": "wait_complete"}, "wait_complete"),
            ("best_effort", {"hicache_write_policy": "write_through"}, "best_effort"),
            ("timeout", {"hicache_storage_backend_extra_config_json": '{"prefetch_timeout_base": 1}'}, "timeout"),
            ("timeout", {"hicache_storage_backend_extra_config_json": '{"prefetch_threshold": 64}'}, "timeout"),
        ],
    )
    def test_what_was_said_at_the_start_may_be_said_again(
        self, started: str, asked: dict[str, str], policy: str
    ) -> None:
        options, flags = self.started(started)
        assert options.policy_of(change(**asked), flags) == policy

    @pytest.mark.parametrize(
        ("started", "asked", "named"),
        [
            ("best_effort", {"hicache_storage_prefetch_policy": "timeout"}, "'timeout'.*started with best_effort"),
            ("timeout", {"hicache_storage_prefetch_policy": "wait_complete"}, "started with timeout"),
            ("timeout", {"hicache_storage_prefetch_policy": "soon"}, "'soon'.*wait_complete"),
            ("timeout", {"hicache_write_policy": "write_back"}, "'write_back'.*started with write_through"),
            ("timeout", {"hicache_storage_backend_extra_config_json": '{"prefetch_threshold": 65}'}, "threshold is 65"),
            ("timeout", {"hicache_storage_backend_extra_config_json": '{"prefetch_timeout_base": 2}'}, "base is 2"),
            ("timeout", {"hicache_storage_backend_extra_config_json": "@/etc/hosts"}, "extra_config_json @/etc/hosts"),
        ],
    )
    def test_what_all_ranks_have_agreed_on_stays(self, started: str, asked: dict[str, str], named: str) -> None:
        options, flags = self.started(started)
        with pytest.raises(InvalidInputError, match=named) as raised:
            options.policy_of(change(**asked), flags)
        assert "hint:" in str(raised.value)

    def test_any_store_can_be_named(self) -> None:
        assert url_of("redis://cache:6379/0") == "redis://cache:6379/0"
        with pytest.raises(InvalidInputError, match="hf3fs"):
            url_of("hf3fs")


class TestTier:
    """What each rank of two takes its part of a store for."""

    def tiers(self, monkeypatch: pytest.MonkeyPatch, folder: Path, shape: Any, query: str, eagle: bool) -> list[Any]:
        import torch

        def kept(backend: Any, keys: Any, host: Any, **options: Any) -> Any:
            backend.close()
            return keys, options["writes"]

        monkeypatch.setattr(storage, "ServerTier", kept)
        args = SimpleNamespace(
            model_path="a/model",
            served_model_name=None,
            revision="main",
            load_format="auto",
            quantization=None,
            json_model_override_args="{}",
            weight_version="1",
        )
        allocator = SimpleNamespace(get_kvcache=lambda: SimpleNamespace(start_layer=0))
        params = SimpleNamespace(is_eagle=eagle, token_to_kv_pool_allocator=allocator)
        ctx = SimpleNamespace(server_args=args, params=params)
        topology = Topology(tp=2)
        with HostPool(shape(torch.float32), 4, 4, "page_first") as host:
            return [
                open_tier(
                    f"file://{folder}{query}",
                    ctx=ctx,
                    plane=cast(Any, SimpleNamespace(place=topology.place(rank), topology=topology)),
                    host=host,
                    memory=memory(hicache_mem_layout="page_first"),
                )
                for rank in range(2)
            ]

    @pytest.mark.parametrize("query", ["", "?format=sglang"])
    def test_where_ranks_hold_equal_bytes_one_writes_and_both_read(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, query: str
    ) -> None:
        tokens = np.arange(8)
        latent = self.tiers(monkeypatch, tmp_path, lambda dtype: MLAShape(2, 8, dtype), query, False)
        assert [writes for _, writes in latent] == [True, False]
        assert latent[0][0].of(tokens) == latent[1][0].of(tokens)
        heads = self.tiers(monkeypatch, tmp_path, lambda dtype: MHAShape(2, 2, 8, dtype), query, False)
        assert [writes for _, writes in heads] == [True, True]
        assert not set(heads[0][0].of(tokens)) & set(heads[1][0].of(tokens))

    @pytest.mark.parametrize("query", ["", "?format=sglang"])
    def test_pairs_have_names_of_their_own(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, query: str) -> None:
        tokens = np.arange(9)
        units, pairs = (
            self.tiers(monkeypatch, tmp_path, lambda dtype: MHAShape(2, 2, 8, dtype), query, eagle)[0][0].of(tokens)
            for eagle in (False, True)
        )
        assert len(units) == len(pairs) == 2
        assert not set(units) & set(pairs)


class Tree:
    """Prefetches as the core has them, by ticket: "wished", "issued" or "over"."""

    def __init__(self) -> None:
        self.states: list[str] = []
        self.cached = 0
        self.prefetched = 0
        self.declines = False

    @property
    def totals(self) -> SimpleNamespace:
        return SimpleNamespace(prefetched_tokens=self.prefetched)

    def prefetch(self, _key: Any, _namespace: Any, *, anchor: int) -> int | None:
        if self.declines:
            return None
        self.states.append("wished")
        return len(self.states) - 1

    def prefetch_state(self, ticket: int) -> str:
        return self.states[ticket]

    poll_prefetch = prefetch_state

    def prefetch_operation(self, ticket: int) -> int | None:
        return 100 + ticket if self.states[ticket] == "issued" else None

    def probe(self, _key: Any, _namespace: Any) -> int:
        return self.cached


def told(controls: list[Control]) -> list[str]:
    return [repr(control) for control in controls]


class TestPrefetches:
    def ask(self, tree: Tree, *, leads: bool = True, best_effort: bool = False) -> Prefetches:
        waiting = Prefetches(cast(TieredCache, tree), leads, lambda: best_effort)
        assert waiting.ask("one", np.arange(64), 16, None, 0)
        return waiting

    def test_a_request_waits_until_its_prefetch_is_over(self) -> None:
        tree = Tree()
        waiting = self.ask(tree)
        for state, over in (("wished", False), ("issued", False), ("over", True)):
            tree.states[0] = state
            assert waiting.is_over("one") is over
            assert waiting.controls() == []
        tree.cached, tree.prefetched = 48, 40
        assert len(waiting) == 1
        assert waiting.take("one") == (32, 16)
        assert waiting.take("one") == (0, None)
        assert len(waiting) == 0

    def test_what_others_have_computed_did_not_come_from_storage(self) -> None:
        tree = Tree()
        tree.prefetched = 100
        waiting = self.ask(tree)
        tree.cached, tree.prefetched = 48, 116
        assert waiting.take("one") == (16, 16)

    def test_who_never_asked_or_was_declined_waits_for_nothing(self) -> None:
        tree = Tree()
        tree.declines = True
        waiting = Prefetches(cast(TieredCache, tree), True, lambda: False)
        assert not waiting.ask("one", np.arange(64), 16, None, 0)
        assert waiting.is_over("one")
        assert waiting.is_over("another")

    def test_best_effort_ends_what_could_be_admitted_once_it_has_a_number(self) -> None:
        tree = Tree()
        waiting = self.ask(tree, best_effort=True)
        assert not waiting.is_over("one")
        assert waiting.controls() == []
        tree.states[0] = "issued"
        assert told(waiting.controls()) == told([Control.terminate(100)])
        assert waiting.controls() == []

    def test_what_a_gone_request_waited_for_is_aborted_once(self) -> None:
        tree = Tree()
        waiting = self.ask(tree)
        waiting.drop("one")
        waiting.drop("one")
        assert waiting.controls() == []
        tree.states[0] = "issued"
        assert told(waiting.controls()) == told([Control.abort(100)])
        assert waiting.controls() == []

    def test_what_ended_by_itself_is_not_aborted(self) -> None:
        tree = Tree()
        waiting = self.ask(tree)
        waiting.clear()
        tree.states[0] = "over"
        assert waiting.controls() == []

    def test_what_is_forgotten_waits_no_more_and_is_not_aborted(self) -> None:
        tree = Tree()
        waiting = self.ask(tree)
        tree.states[0] = "issued"
        waiting.forget()
        assert len(waiting) == 0
        assert waiting.is_over("one")
        assert waiting.controls() == []

    def test_a_follower_says_nothing(self) -> None:
        tree = Tree()
        waiting = self.ask(tree, leads=False, best_effort=True)
        tree.states[0] = "issued"
        assert not waiting.is_over("one")
        waiting.drop("one")
        assert waiting.controls() == []
