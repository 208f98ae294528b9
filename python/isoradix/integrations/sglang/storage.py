"""The external storage that a server's flags, or `ISORADIX_STORAGE`, name."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from isoradix import InvalidInputError
from isoradix.consensus.plane import Plane
from isoradix.integrations.sglang.options import Options
from isoradix.kv import HostPool, MLAShape
from isoradix.storage import Backend, Fingerprint, PageKeys, SGLangKeys, Shard, open_storage
from isoradix.storage.tier import StorageTier
from isoradix.storage.views import Order

BACKENDS: Final = ("file", "mooncake")
"""Values of `--hicache-storage-backend` that stand for a URL; any value does beside `ISORADIX_STORAGE`."""
POLICIES: Final = ("best_effort", "wait_complete", "timeout")
_FOLDER: Final = "SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR"
_MOONCAKE: Final = {
    "protocol": "MOONCAKE_PROTOCOL",
    "device": "MOONCAKE_DEVICE",
    "segment": "MOONCAKE_GLOBAL_SEGMENT_SIZE",
    "hostname": "MOONCAKE_LOCAL_HOSTNAME",
}
"""Options of the URL, and where the server's own engine reads them."""
_KNOWN: Final = ("prefetch_threshold", "prefetch_timeout_base", "prefetch_timeout_per_ki_token")
_MOST_MS: Final = 10_000
_SERVERS_LAYOUTS: Final[dict[str, Order]] = {"layer_first": "part", "page_first_direct": "part", "page_first": "token"}
"""Order of the bytes in the server's own files, by its name of the host layout."""


@dataclass(frozen=True)
class StorageOptions:
    """Where pages go, and how long a request waits for them."""

    url: str
    policy: str
    threshold: int
    """Tokens; less is not asked for."""
    patience: tuple[int, int, int] | None
    """Milliseconds at first, for each 1,024 tokens, and at most; None where nothing is given up."""

    @classmethod
    def of(cls, memory: Any, chosen: Options) -> "StorageOptions | None":
        """What the server was asked for; None if nothing.

        Args:
            memory: the server's memory flags.
            chosen: this package's options.

        Raises:
            InvalidInputError: an option is not accepted.
        """
        url = chosen.storage or _url_of(memory.hicache_storage_backend)
        if url is None:
            return None
        policy = memory.hicache_storage_prefetch_policy
        if policy not in POLICIES:
            what = f"--hicache-storage-prefetch-policy {policy}: there are {', '.join(POLICIES)}"
            raise InvalidInputError(f"{what}\nhint: best_effort is the server's default")
        extra = _extra(memory.hicache_storage_backend_extra_config)
        base, per_ki = extra.get("prefetch_timeout_base", 1), extra.get("prefetch_timeout_per_ki_token", 0.25)
        patience = (int(base * 1000), int(per_ki * 1000), _MOST_MS) if policy == "timeout" else None
        return cls(url, policy, int(extra.get("prefetch_threshold", 256)), patience)


def _url_of(backend: str | None) -> str | None:
    match backend:
        case None:
            return None
        case "file":
            # apart from the server's own files there: these have checksums, and those have not
            return (Path(os.environ.get(_FOLDER, "/tmp/hicache")).absolute() / "isoradix").as_uri()
        case "mooncake":
            options = {name: os.environ[variable] for name, variable in _MOONCAKE.items() if os.environ.get(variable)}
            return f"mooncake://{os.environ.get('MOONCAKE_MASTER', '127.0.0.1:50051')}?{urlencode(options)}"
        case _:
            what = f"--hicache-storage-backend {backend}: there are {', '.join(BACKENDS)}"
            raise InvalidInputError(f"{what}\nhint: set ISORADIX_STORAGE to the URL of any other store")


def _extra(config: str | None) -> dict[str, float]:
    """The keys of `--hicache-storage-backend-extra-config` that mean the same here: JSON, or @ and a file of it."""
    if not config:
        return {}
    try:
        text = Path(config[1:]).read_text(encoding="utf-8") if config.startswith("@") else config
        given = json.loads(text)
    except (OSError, ValueError) as error:
        raise _refused(config, str(error)) from error
    if not isinstance(given, dict):
        raise _refused(config, "it is no JSON object")
    for name, value in given.items():
        if name not in _KNOWN:
            raise _refused(config, f"{name} is unknown; there are {', '.join(_KNOWN)}")
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 10**6:
            raise _refused(config, f"{name} is {value!r}, limits 0 to 1000000")
    return given


def _refused(config: str, why: str) -> InvalidInputError:
    what = f"--hicache-storage-backend-extra-config {config}: {why}"
    return InvalidInputError(f"{what}\nhint: options of a store go into ISORADIX_STORAGE, its URL")


def open_tier(
    asked: StorageOptions, ctx: Any, plane: Plane, host: HostPool, memory: Any
) -> tuple[Backend, StorageTier]:
    """This rank's part of the store.

    Args:
        asked: what the server was asked for.
        ctx: the server's `TreeCacheBuildContext`.
        plane: of this rank.
        host: its host pages.
        memory: the server's memory flags.

    Raises:
        StorageError: it cannot be opened.
        InvalidInputError: the URL is not accepted.
    """
    args, place, topology = ctx.server_args, plane.place, plane.topology
    replicated = isinstance(host.shape, MLAShape)
    backend = open_storage(asked.url)
    if dict(parse_qsl(urlsplit(asked.url).query)).get("format") == "sglang":
        order = _SERVERS_LAYOUTS[memory.hicache_mem_layout]
        theirs = SGLangKeys(
            args.served_model_name or args.model_path,
            host.page_size,
            tp_rank=place.tp,
            tp_size=topology.tp,
            pp_rank=place.stage,
            pp_size=topology.pp,
            cp_rank=place.cp,
            cp_size=topology.cp,
            mla=replicated,
        )
        return backend, StorageTier(backend, theirs, host, order=order, writes=theirs.writes)
    pool = ctx.params.token_to_kv_pool_allocator.get_kvcache()
    shape = host.shape
    loaded = (args.revision, args.load_format, args.quantization, args.json_model_override_args, args.weight_version)
    about = Fingerprint(args.model_path, repr(loaded), str(shape.dtype), shape.describe(), "layer", host.page_size)
    shard = Shard(pool.start_layer, shape.layers, place.tp, topology.tp, place.cp, topology.cp, replicated)
    return backend, StorageTier(backend, PageKeys(about, shard), host, writes=shard.writes)
