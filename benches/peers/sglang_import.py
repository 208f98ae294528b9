"""Import of SGLang's cache modules, and of nothing else of SGLang."""

import importlib
import importlib.util
import logging
import sys
import warnings
from typing import Any

from benches.trees import Tokens

from .absent import allow_absent
from .adapters import Freed, Setup

# Imported at the top of modules that the caches pull in; the caches use none of them.
UNUSED = (
    "IPython",
    "PIL",
    "compressed_tensors",
    "gguf",
    "huggingface_hub",
    "openai",
    "partial_json_parser",
    "pybase64",
    "safetensors",
    "sentencepiece",
    "starlette",
    "torchvision",
    "tqdm",
    "transformers",
    "tvm_ffi",
)


def _without_package_init(name: str) -> None:
    """Register package `name` without running its `__init__`, which imports the whole front end."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"{name} is not installed here\nhint: make bench-peers sets its environment up")
    sys.modules[name] = importlib.util.module_from_spec(spec)


def sglang(module: str) -> Any:
    """The module `sglang.srt.mem_cache.<module>`."""
    # Optional features that are not there are announced at import, loudly.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        if "sglang" not in sys.modules:
            allow_absent(*UNUSED)
            _without_package_init("sglang")
            importlib.import_module("torch").set_num_threads(1)
        return importlib.import_module(f"sglang.srt.mem_cache.{module}")


class CountingAllocator:
    """The least that the trees ask of a slot allocator: it takes slots back."""

    device = "cpu"

    def __init__(self, page_size: int, freed: Freed) -> None:
        self.page_size = page_size
        self.freed = freed

    def free(self, slots: Any) -> None:
        if self.freed.recording:
            self.freed.slots.extend(slots.tolist())

    def free_segment(self, slots: Any, start_pos: int = 0) -> None:
        self.free(slots)

    def available_size(self) -> int:
        return 0


def init_params(setup: Setup, allocator: CountingAllocator, **more: Any) -> Any:
    policy, options = setup.policy
    return sglang("cache_init_params").CacheInitParams(
        disable=False,
        req_to_token_pool=None,
        token_to_kv_pool_allocator=allocator,
        page_size=setup.page_size,
        is_eagle=setup.bigram,
        eviction_policy=policy,
        eviction_policy_config=options or None,
        **more,
    )


def native_slots(slots: Tokens) -> Any:
    return importlib.import_module("torch").from_numpy(slots)
