"""The parts of the SGLang plug-in that need no SGLang: options, limits, versions, slots, layers, pools."""

from contextlib import nullcontext
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from isoradix import (
    Control,
    InvalidInputError,
    OutOfSlotsError,
    Patience,
    StartRecord,
    TieredCache,
    VoteMachine,
    agree,
)

torch = pytest.importorskip("torch")
msgspec = pytest.importorskip("msgspec")

from isoradix.integrations.sglang import limits, options, versions  # noqa: E402
from isoradix.integrations.sglang.layers import NOTHING, LayerCounter  # noqa: E402
from isoradix.integrations.sglang.pools import ServerSlots, device_pool, host_pool  # noqa: E402
from isoradix.kv import MHAShape, MLAShape  # noqa: E402


class TestOptions:
    def test_nothing_said_means_the_defaults(self) -> None:
        assert options.load({}) == options.Options()

    def test_the_environment_goes_before_the_file(self, tmp_path: Path) -> None:
        file = tmp_path / "isoradix.toml"
        file.write_text("window = 32\nlow_water = 0.25\n")
        loaded = options.load({"ISORADIX_CONFIG": str(file), "ISORADIX_WINDOW": "16"})
        assert (loaded.window, loaded.low_water) == (16, 0.25)

    @pytest.mark.parametrize(
        ("environment", "named"),
        [
            ({"ISORADIX_WINDOW": "0"}, "ISORADIX_WINDOW is '0'.*1"),
            ({"ISORADIX_WINDOW": "many"}, "ISORADIX_WINDOW is 'many'"),
            ({"ISORADIX_LOW_WATER": "1.5"}, r"ISORADIX_LOW_WATER is '1\.5'.*1\.0"),
            ({"ISORADIX_LOW_WATER": "nan"}, "ISORADIX_LOW_WATER is 'nan'"),
            ({"ISORADIX_WINDOW": "4097"}, "ISORADIX_WINDOW is '4097'.*4096"),
            ({"ISORADIX_LOAD_BACK_MIN": "0"}, "ISORADIX_LOAD_BACK_MIN is '0'.*1"),
            ({"ISORADIX_LOAD_BACK_MIN": str(1 << 63)}, "ISORADIX_LOAD_BACK_MIN is '9223372036854775808'"),
            ({"ISORADIX_VOTE_MS": "0"}, "ISORADIX_VOTE_MS is '0'.*1"),
            ({"ISORADIX_VOTE_MS": "4294967296"}, "ISORADIX_VOTE_MS is '4294967296'.*4294967295"),
            ({"ISORADIX_IDLE_VOTE_MS": "4294967296"}, "ISORADIX_IDLE_VOTE_MS is '4294967296'.*4294967295"),
            ({"ISORADIX_REPORT_MS": "0"}, "ISORADIX_REPORT_MS is '0'.*1"),
            ({"ISORADIX_FATAL_MS": "-1"}, "ISORADIX_FATAL_MS is '-1'.*1"),
            ({"ISORADIX_REPORT_MS": "300001"}, "ISORADIX_REPORT_MS is 300001: limit 300000, .* default of fatal_ms"),
            ({"ISORADIX_FATAL_MS": "4999"}, "the default of report_ms is 5000: limit 4999, which is ISORADIX_FATAL_MS"),
            ({"ISORADIX_JOURNAL_RECORDS": "4294967296"}, "ISORADIX_JOURNAL_RECORDS is '4294967296'.*4294967295"),
            ({"ISORADIX_STORAGE_BREAKER": "3,1000"}, "ISORADIX_STORAGE_BREAKER is .*4"),
            ({"ISORADIX_STORAGE_BREAKER": "3"}, "ISORADIX_STORAGE_BREAKER is '3'"),
            ({"ISORADIX_STORAGE_BREAKER": "0,1000,1,1000"}, "ISORADIX_STORAGE_BREAKER is .*1"),
            ({"ISORADIX_STORAGE_RETRY": "3,never,5"}, "ISORADIX_STORAGE_RETRY is .*int"),
            ({"ISORADIX_WAIT_BOARD": "/dev/null/board"}, "ISORADIX_WAIT_BOARD is '/dev/null/board'.*written"),
            ({"ISORADIX_WAIT_BOARD": "no\0path"}, "ISORADIX_WAIT_BOARD is .*written"),
            ({"ISORADIX_JOURNAL": "/dev/null/journal"}, "ISORADIX_JOURNAL is '/dev/null/journal'.*written"),
            ({"ISORADIX_STORAGE": "nonsense"}, "ISORADIX_STORAGE: 'nonsense' is no URL"),
            ({"ISORADIX_STORAGE": "hf3fs://:word@x"}, "ISORADIX_STORAGE: there is no storage engine for hf3fs://"),
            ({"ISORADIX_CONFIG": "/nowhere/isoradix.toml"}, "/nowhere/isoradix.toml"),
        ],
    )
    def test_what_is_not_accepted_is_named(self, environment: dict[str, str], named: str) -> None:
        with pytest.raises(InvalidInputError, match=named) as raised:
            options.load(environment)
        assert "hint:" in str(raised.value)
        assert "word" not in str(raised.value), "a password is not told"

    @pytest.mark.parametrize("text", [b"winow = 3", b"window = ", b"window = 'x'", b"window = 0", b"\xff\xfe"])
    def test_a_file_with_a_mistake_is_refused(self, tmp_path: Path, text: bytes) -> None:
        file = tmp_path / "isoradix.toml"
        file.write_bytes(text)
        with pytest.raises(InvalidInputError, match=r"isoradix\.toml") as raised:
            options.load({"ISORADIX_CONFIG": str(file)})
        assert "hint:" in str(raised.value)

    @pytest.mark.parametrize("largest", [False, True], ids=["smallest", "largest"])
    def test_what_is_accepted_the_core_accepts(self, largest: bool) -> None:
        """So that no value is refused later, where nobody knows how it was written."""
        limits: dict[str, int] = {}
        for field in msgspec.structs.fields(options.Options):
            for meta in getattr(field.type, "__metadata__", ()):
                limits[field.name] = int(meta.le if largest else meta.ge)
        limits["journal_records"] = min(limits["journal_records"], 100)  # they would be kept
        assert set(limits) == set(options.Options.__struct_fields__) - {
            "wait_board",
            "storage",
            "journal",
            "mode",
            "tiers",
            *options.SEVERAL,
        }
        given = options.load({f"ISORADIX_{name.upper()}": str(limit) for name, limit in limits.items()})
        Patience(given.report_ms, given.fatal_ms)
        VoteMachine(0, 0, given.window, (given.vote_ms, given.idle_vote_ms, 50))
        TieredCache(
            rank=0,
            host_pages=0,
            agreement=agree([StartRecord(0, 1, 0).to_bytes()]),
            window=given.window,
            load_back_min=given.load_back_min,
            journal_records=given.journal_records,
            writing=f"back:{int(100 * given.low_water)}",
        )

    @pytest.mark.parametrize("number", [0, 2**32 - 1])
    def test_every_breaker_and_retry_is_one_of_the_core(self, tmp_path: Path, number: int) -> None:
        some = max(1, number)
        breaker = f"{some},{number},{some},{number}"
        given = options.load(
            {"ISORADIX_STORAGE_BREAKER": breaker, "ISORADIX_STORAGE_RETRY": f"{some},{number},{number}"}
        )
        assert given.storage_breaker == (some, number, some, number)
        TieredCache(
            rank=0,
            host_pages=0,
            agreement=agree([StartRecord(0, 1, 0).to_bytes()]),
            storage_breaker=given.storage_breaker,
            storage_retry=given.storage_retry,
        )
        file = tmp_path / "isoradix.toml"
        file.write_text("storage_breaker = [3, 1000, 1, 10000]\n")
        assert options.load({"ISORADIX_CONFIG": str(file)}).storage_breaker == (3, 1000, 1, 10000)
        file.write_text("storage_breaker = 'none'\n")
        assert options.load({"ISORADIX_CONFIG": str(file)}).storage_breaker == "none"

    @pytest.mark.parametrize("name", ["off", "observe", "enforce"])
    def test_every_mode_is_one_of_the_core(self, name: str) -> None:
        mode = options.load({"ISORADIX_MODE": name}).mode
        assert VoteMachine(0, 0, mode=mode).parted is None

    @pytest.mark.parametrize("name", ["l1", "l2", "l3"])
    def test_every_tier_is_one_of_the_core(self, name: str) -> None:
        assert Control.tiers(options.load({"ISORADIX_TIERS": name}).tiers).top == name

    @pytest.mark.parametrize("variable", ["ISORADIX_MODE", "ISORADIX_TIERS"])
    def test_a_mode_or_tier_that_is_unknown_is_refused(self, variable: str) -> None:
        with pytest.raises(InvalidInputError, match=f"{variable} is 'l4'"):
            options.load({variable: "l4"})

    def test_an_empty_variable_is_not_set(self) -> None:
        empty = {"ISORADIX_CONFIG": "", "ISORADIX_WINDOW": "", "ISORADIX_WAIT_BOARD": ""}
        assert options.load(empty) == options.Options()

    def test_a_variable_that_is_no_option_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        assert options.load({"ISORADIX_WINDOWS": "3", "ISORADIX_WINDOW": "16", "OTHER": ""}).window == 16
        assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["ISORADIX_WINDOWS"]


class TestVersions:
    @pytest.mark.parametrize("found", ["0.5.22", "0.5.23", "0.5.23.post1"])
    def test_supported(self, monkeypatch: pytest.MonkeyPatch, found: str) -> None:
        monkeypatch.setattr(versions, "version", lambda _name: found)
        versions.check()

    @pytest.mark.parametrize("found", ["0.5.21", "0.5.24", "0.6.0", "unknown"])
    def test_others_are_refused_by_name(self, monkeypatch: pytest.MonkeyPatch, found: str) -> None:
        monkeypatch.setattr(versions, "version", lambda _name: found)
        with pytest.raises(InvalidInputError, match=f"SGLang is {found}; isoradix supports 0.5.22 and 0.5.23"):
            versions.check()

    def test_a_source_tree_has_no_version(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def missing(name: str) -> str:
            raise PackageNotFoundError(name)

        monkeypatch.setattr(versions, "version", missing)
        versions.check()


class PagedTokenToKVPoolAllocator:
    """The server's allocator, as far as it is asked here: pages of one size, in ascending order."""

    def __init__(self, size: int, page_size: int, pool: Any = None) -> None:
        self.size, self.page_size, self.device = size, page_size, "cpu"
        self._pages = list(range(1, size // page_size + 1))
        self._pool = pool

    def available_size(self) -> int:
        return len(self._pages) * self.page_size

    def alloc(self, num_tokens: int) -> Any:
        pages = num_tokens // self.page_size
        if pages > len(self._pages):
            return None
        taken, self._pages = self._pages[:pages], self._pages[pages:]
        return (torch.tensor(taken)[:, None] * self.page_size + torch.arange(self.page_size)).reshape(-1)

    def free_segment(self, slots: Any, *, start_pos: int) -> None:
        assert start_pos % self.page_size == 0
        self._pages += (slots[:: self.page_size] // self.page_size).tolist()

    def get_kvcache(self) -> Any:
        return self._pool


class MHATokenToKVPool(SimpleNamespace):
    pass


class MLATokenToKVPool(SimpleNamespace):
    pass


def mha(heads: int = 2, slots: int = 40, **changes: Any) -> MHATokenToKVPool:
    buffers = {name: [torch.zeros(slots, heads, 8) for _ in range(3)] for name in ("k_buffer", "v_buffer")}
    sizes: dict[str, Any] = {"layer_num": 3, "head_num": heads, "head_dim": 8, "v_head_dim": 8}
    return MHATokenToKVPool(**{**buffers, **sizes, "store_dtype": torch.float32, **changes})


def mla() -> MLATokenToKVPool:
    buffers = [torch.zeros(40, 1, 24) for _ in range(2)]
    return MLATokenToKVPool(kv_buffer=buffers, layer_num=2, store_dtype=torch.float32)


class TestSlots:
    def test_slots_come_and_go_in_whole_pages(self) -> None:
        slots = ServerSlots(PagedTokenToKVPoolAllocator(32, 4))
        taken = slots.alloc(8)
        assert (taken.dtype.name, taken.tolist()) == ("int64", [4, 5, 6, 7, 8, 9, 10, 11])
        assert (slots.total, slots.available) == (32, 24)
        slots.free(taken)
        assert slots.available == 32

    def test_more_than_there_are_change_nothing(self) -> None:
        slots = ServerSlots(PagedTokenToKVPoolAllocator(8, 4))
        with pytest.raises(OutOfSlotsError, match="12 slots asked for, 8 are free"):
            slots.alloc(12)
        assert slots.available == 8


class TestPools:
    def test_keys_and_values_lie_where_the_server_has_them(self) -> None:
        server = mha()
        pool = device_pool(server)
        assert pool.shape == MHAShape(3, 2, 8, torch.float32)
        pool.buffer(1, "v")[7] = 3.0
        assert bool((server.v_buffer[1][7] == 3.0).all())

    def test_latent_attention_has_one_part(self) -> None:
        pool = device_pool(mla())
        assert pool.shape == MLAShape(2, 24, torch.float32)
        assert pool.num_slots == 40

    def test_buffers_of_another_shape_are_refused(self) -> None:
        with pytest.raises(InvalidInputError, match=r"v\[0\] is \[40, 2, 6\]"):
            device_pool(mha(v_buffer=[torch.zeros(40, 2, 6)] * 3))

    def test_host_memory_is_sized_as_the_flags_say(self) -> None:
        device = device_pool(mha())
        by_ratio = SimpleNamespace(hicache_size=0, hicache_ratio=1.5, hicache_mem_layout="page_first_direct")
        with host_pool(device, by_ratio, 4, 32) as pool:
            assert (pool.num_pages, pool.layout) == (13, "page_first"), "the server has one more than fits"
        by_size = SimpleNamespace(hicache_size=1e-5, hicache_ratio=9.0, hicache_mem_layout="layer_first")
        with host_pool(device, by_size, 4, 32) as pool:  # 10,000 bytes, 384 a token
            assert (pool.num_pages, pool.layout) == (7, "layer_first")


def context(**changes: Any) -> SimpleNamespace:
    """A server that is supported, but for the changes."""
    params = SimpleNamespace(
        token_to_kv_pool_allocator=changes.pop(
            "allocator", PagedTokenToKVPoolAllocator(32, 4, changes.pop("pool", mha()))
        ),
        page_size=changes.pop("page_size", 4),
        eviction_policy=changes.pop("policy", "lru"),
    )
    server_args = SimpleNamespace(speculative_algorithm=changes.pop("speculative", None))
    model = SimpleNamespace(is_multimodal=changes.pop("multimodal", False))
    usual = {"is_hybrid_swa": False, "is_hybrid_ssm": False, "enable_hierarchical_cache": True}
    return SimpleNamespace(params=params, server_args=server_args, model_config=model, **{**usual, **changes})


def memory(**changes: Any) -> SimpleNamespace:
    usual = {"hicache_mem_layout": "layer_first", "enable_lmcache": False, "radix_eviction_policy_config": None}
    return SimpleNamespace(**{**usual, **changes})


class TestLimits:
    def test_a_usual_server_passes(self) -> None:
        limits.check(context(), memory(), "null")
        limits.check(context(pool=mla()), memory(), "null")
        limits.check(context(enable_hierarchical_cache=False), memory(), "prefill", dcp_size=2)
        limits.check(context(policy="slru"), memory(radix_eviction_policy_config={"protected_threshold": 3}), "null")

    @pytest.mark.parametrize(
        ("ctx", "flags", "mode", "named"),
        [
            (context(is_hybrid_swa=True), memory(), "null", "sliding-window"),
            (context(is_hybrid_ssm=True), memory(), "null", "state-space"),
            (context(allocator=SimpleNamespace(get_kvcache=mha)), memory(), "null", "slots from SimpleNamespace"),
            (context(page_size=8), memory(), "null", "pages of 8 tokens over slots in pages of 4"),
            (context(policy="tlru"), memory(), "null", "--radix-eviction-policy tlru"),
            *(
                (context(policy=policy), memory(radix_eviction_policy_config=config), "null", f"policy-config {named}")
                for policy, config, named in (
                    ("slru", {"protected_treshold": 3}, "protected_treshold: slru takes protected_threshold"),
                    ("lru", {"protected_threshold": 3}, "protected_threshold: lru takes no parameters"),
                    ("slru", {"protected_threshold": 0}, "protected_threshold 0: "),
                    ("slru", {"protected_threshold": 2.5}, "protected_threshold 2.5: it is no integer"),
                    ("slru", {"protected_threshold": True}, "protected_threshold True: it is no integer"),
                    ("slru", [3], r"\[3\]: it is no JSON object"),
                )
            ),
            (context(), memory(enable_lmcache=True), "null", "--enable-lmcache"),
            (context(), memory(), "decode", "--disaggregation-mode decode"),
            (context(), memory(hicache_mem_layout="page_head"), "null", "--hicache-mem-layout page_head"),
            (context(speculative="EAGLE"), memory(), "null", "--speculative-algorithm EAGLE"),
            (context(pool=SimpleNamespace()), memory(), "null", "over SimpleNamespace"),
            (context(pool=mha(kv_cache_layout="hnd")), memory(), "null", "layout hnd"),
            (context(pool=mha(v_head_dim=4)), memory(), "null", "heads of 8 for keys, 4 for values"),
            (context(pool=mha(k_scale_buffer=[])), memory(), "null", "scales"),
        ],
    )
    def test_what_is_not_supported_is_refused_with_its_reason(
        self, ctx: SimpleNamespace, flags: SimpleNamespace, mode: str, named: str
    ) -> None:
        with pytest.raises(InvalidInputError, match=named) as raised:
            limits.check(ctx, flags, mode)
        assert "hint:" in str(raised.value)

    def test_slots_that_are_no_rows_have_no_place_on_host(self) -> None:
        with pytest.raises(InvalidInputError, match="--enable-hierarchical-cache with --dcp-size 2"):
            limits.check(context(), memory(), "null", dcp_size=2)

    def test_a_sweep_of_the_servers_own_tree_is_refused(self) -> None:
        with pytest.raises(InvalidInputError, match="--kv-canary-sweep-interval 8"):
            limits.check(context(enable_hierarchical_cache=False), memory(), "null", canary_sweep=8)

    @pytest.mark.parametrize(("found", "wide"), [("0.5.22", False), ("0.5.22.post1", False), ("0.5.23", True)])
    def test_a_multimodal_model_is_refused_where_its_tokens_do_not_fit(
        self, monkeypatch: pytest.MonkeyPatch, found: str, wide: bool
    ) -> None:
        monkeypatch.setattr(versions, "version", lambda _name: found)
        with pytest.raises(InvalidInputError, match=r"62 bits.*--language-model-only") if wide else nullcontext():
            limits.check(context(multimodal=True), memory(), "null")

    def test_all_reasons_are_named_at_once(self) -> None:
        with pytest.raises(InvalidInputError) as raised:
            limits.check(context(policy="tlru", speculative="NGRAM"), memory(hicache_mem_layout="page_head"), "null")
        assert str(raised.value).count("\n  - ") == 3


class Copy:
    """A load-back that notes who waits for it."""

    def __init__(self, operation: int, waits: list[tuple[int, int]]) -> None:
        self.operation, self._waits = operation, waits

    def wait_layer(self, layer: int) -> None:
        self._waits.append((self.operation, layer))


class TestLayers:
    def test_a_batch_waits_for_what_began_before_it(self) -> None:
        waits: list[tuple[int, int]] = []
        layers = LayerCounter()
        assert layers.next_batch() == NOTHING
        layers.started([Copy(1, waits), Copy(2, waits)])
        layers.started([Copy(3, waits)])
        first = layers.next_batch()
        layers.started([Copy(4, waits)])
        second = layers.next_batch()
        layers.set_consumer(NOTHING)
        layers.wait_until(0)
        assert waits == []
        layers.set_consumer(first)
        layers.wait_until(0)
        layers.set_consumer(second)
        layers.wait_until(1)
        assert waits == [(1, 0), (2, 0), (3, 0), (4, 1)]

    def test_batches_of_long_ago_are_forgotten(self) -> None:
        layers = LayerCounter()
        numbers = []
        for operation in range(20):
            layers.started([Copy(operation, [])])
            numbers.append(layers.next_batch())
        assert [layers.is_over(number) for number in numbers] == [True] * 12 + [False] * 8
        layers.reset()
        assert all(layers.is_over(number) for number in numbers)
