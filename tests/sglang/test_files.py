"""The files of SGLang's own file store: what its `HiCacheFile` writes is read here, and the reverse, to the byte."""

import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest
import torch

from isoradix.kv import HostPool, MHAShape
from isoradix.storage import Backend, PageViews, SGLangKeys, Status, open_storage
from isoradix.storage.views import Order

pytestmark = pytest.mark.sglang

MODEL: Final = "org/model"
LAYERS, PAGE, HEADS, WIDTH, PAGES = 3, 4, 2, 8, 5
SHAPE: Final = MHAShape(layers=LAYERS, heads=HEADS, head_dim=WIDTH, dtype=torch.float16)
TOKENS: Final = list(range(100, 100 + PAGE * PAGES + 1))
NAMESPACES: Final = {"none": None, "adapter": ("lora", None), "both": ("lora", "salt")}
SHARDS: Final[dict[str, dict[str, Any]]] = {
    "alone": {},
    "tp2": {"tp_rank": 1, "tp_size": 2},
    "tp2xpp2": {"tp_size": 2, "pp_rank": 1, "pp_size": 2},
    "cp2": {"cp_rank": 1, "cp_size": 2},
    "mla": {"mla": True, "tp_size": 2},
}
ORDERS: Final[dict[str, Order]] = {"layer_first": "part", "page_first": "token"}


def sglang_pool(layout: str) -> Any:
    """A host pool as far as SGLang's own code for one page looks at it."""
    places = {"layer_first": (2, LAYERS, PAGES * PAGE), "page_first": (2, PAGES * PAGE, LAYERS)}[layout]
    about: dict[str, Any] = {"layer_num": LAYERS, "page_size": PAGE, "head_num": HEADS, "head_dim": WIDTH}
    about |= {"dtype": torch.float16, "device": "cpu", "pin_memory": False}
    return SimpleNamespace(layout=layout, kv_buffer=torch.zeros((*places, HEADS, WIDTH), dtype=torch.float16), **about)


def sglang_store(sglang: Any, folder: Path, shard: dict[str, Any]) -> Any:
    place = {name: shard.get(name, int(name.endswith("size"))) for name in ("tp_rank", "tp_size", "pp_rank", "pp_size")}
    with sglang.envs.SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR.override(str(folder)):
        return sglang.HiCacheFile(
            sglang.HiCacheStorageConfig(
                **place,
                attn_cp_rank=shard.get("cp_rank", 0),
                attn_cp_size=shard.get("cp_size", 1),
                is_mla_model=shard.get("mla", False),
                enable_storage_metrics=False,
                is_page_first_layout=False,
                model_name=MODEL,
            )
        )


@pytest.fixture(scope="module")
def sglang() -> SimpleNamespace:
    """What SGLang's own code does with files, imported when it is needed: it takes long."""
    if version("sglang") != "0.5.23":
        pytest.skip("the names of files are those of SGLang 0.5.23")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its parts for other devices
        from sglang.srt.environ import envs
        from sglang.srt.mem_cache.hicache_storage import HiCacheFile, HiCacheStorageConfig
        from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost
        from sglang.srt.mem_cache.utils import get_hash_str, storage_namespace_seed
    try:
        get_hash_str(TOKENS[:PAGE], None, PAGE)
    except RuntimeError:
        pytest.skip("SGLang compiles its hash, which takes g++, ninja and OpenSSL's headers")
    return SimpleNamespace(
        envs=envs,
        HiCacheFile=HiCacheFile,
        HiCacheStorageConfig=HiCacheStorageConfig,
        pool=MHATokenToKVPoolHost,
        get_hash_str=get_hash_str,
        storage_namespace_seed=storage_namespace_seed,
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Backend]:
    with open_storage(f"file://{tmp_path}?format=sglang") as opened:
        yield opened


@pytest.mark.parametrize("namespace", NAMESPACES.values(), ids=NAMESPACES)
@pytest.mark.parametrize("shard", SHARDS.values(), ids=SHARDS)
@pytest.mark.parametrize("layout", ORDERS)
def test_pages_go_both_ways(
    sglang: Any,
    store: Backend,
    tmp_path: Path,
    layout: str,
    shard: dict[str, Any],
    namespace: tuple[str, str | None] | None,
) -> None:
    names = SGLangKeys(MODEL, PAGE, **shard).of(TOKENS, namespace)
    hashes = sglang.get_hash_str(
        TOKENS[: PAGE * PAGES], sglang.storage_namespace_seed(*(namespace or (None, None))), PAGE
    )
    theirs, file_store = sglang_pool(layout), sglang_store(sglang, tmp_path, shard)
    with HostPool(SHAPE, PAGES, PAGE, pinned=False) as ours:
        ours.memory.numpy()[:] = np.random.default_rng(1).integers(0, 256, ours.memory.numel(), np.uint8)
        views = PageViews.of_pool(ours, np.arange(PAGES), ORDERS[layout])
        right = [views.read(place) for place in range(PAGES)]
        assert store.put_from(names, views).done == PAGES
        for place, key in enumerate(hashes):
            assert file_store.exists(key)
            room = sglang.pool.get_dummy_flat_data_page(theirs)
            assert file_store.get(key, room) is room
            sglang.pool.set_from_flat_data_page(theirs, place * PAGE, room)
        for layer in range(LAYERS):  # values, not only bytes in their order
            for part in range(2):
                seen = theirs.kv_buffer[part, layer] if layout == "layer_first" else theirs.kv_buffer[part, :, layer]
                assert seen.contiguous().view(torch.uint8).numpy().tobytes() == ours_of(ours, layer, part)

        store.remove(names)
        assert not any(file_store.exists(key) for key in hashes)
        for place, key in enumerate(hashes):
            assert file_store.set(key, sglang.pool.get_data_page(theirs, place * PAGE))
        ours.memory.zero_()
        assert store.exists(names).leading == PAGES
        assert store.get_into(names, views).statuses == (Status.DONE,) * PAGES
        assert [views.read(place) for place in range(PAGES)] == right


def ours_of(pool: HostPool, layer: int, part: int) -> bytes:
    """One layer's keys or values, token after token."""
    pages = PageViews.of_pool(pool, np.arange(PAGES), "layer")
    size = pages.page_bytes // LAYERS // 2
    begin = (2 * layer + part) * size
    return b"".join(pages.read(place)[begin : begin + size] for place in range(PAGES))
