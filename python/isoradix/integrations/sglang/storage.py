"""The external storage that a server's flags, or `ISORADIX_STORAGE`, name."""

import json
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from isoradix import InvalidInputError
from isoradix.consensus.plane import Plane
from isoradix.integrations.sglang.clearing import Clearing
from isoradix.integrations.sglang.options import Options
from isoradix.kv import HostPool, MLAShape
from isoradix.storage import Backend, Fingerprint, PageKeys, SGLangKeys, Shard, open_storage
from isoradix.storage.keys import KeyScheme
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
_CONFIG_OF_FLAG: Final = "--hicache-storage-backend-extra-config"
_CONFIG_OF_REQUEST: Final = "hicache_storage_backend_extra_config_json"
_MOST_MS: Final = 10_000
_SERVERS_LAYOUTS: Final[dict[str, Order]] = {"layer_first": "part", "page_first_direct": "part", "page_first": "token"}
"""Order of the bytes in the server's own files, by its name of the host layout."""


@dataclass(frozen=True)
class StorageOptions:
    """Where pages go, and how long a request waits for them."""

    url: str | None
    """None if nowhere; storage may be attached later."""
    policy: str
    threshold: int
    """Tokens; less is not asked for."""
    patience: tuple[int, int, int] | None
    """Milliseconds at first, for each 1,024 tokens, and at most; None where nothing is given up."""

    @classmethod
    def of(cls, memory: Any, chosen: Options) -> "StorageOptions":
        """What the server was asked for.

        Args:
            memory: the server's memory flags.
            chosen: this package's options.

        Raises:
            InvalidInputError: an option is not accepted.
        """
        backend = memory.hicache_storage_backend
        url = chosen.storage or (None if backend is None else url_of(backend))
        policy = memory.hicache_storage_prefetch_policy
        if policy not in POLICIES:
            what = f"--hicache-storage-prefetch-policy {policy}: there are {', '.join(POLICIES)}"
            raise InvalidInputError(f"{what}\nhint: best_effort is the server's default")
        extra = _extra_of_flag(memory.hicache_storage_backend_extra_config)
        base, per_ki = extra.get("prefetch_timeout_base", 1), extra.get("prefetch_timeout_per_ki_token", 0.25)
        patience = (int(base * 1000), int(per_ki * 1000), _MOST_MS) if policy == "timeout" else None
        return cls(url, policy, int(extra.get("prefetch_threshold", 256)), patience)

    def policy_of(self, request: Any, memory: Any) -> str:
        """The prefetch policy of storage that is attached while the server runs.

        All else is what the server was started with, and all ranks have agreed on: a request may say it again.

        Args:
            request: the server's `AttachHiCacheStorageReqInput`.
            memory: its memory flags.

        Raises:
            InvalidInputError: it asks for something else. On every rank alike.
        """
        policy: str = request.hicache_storage_prefetch_policy or self.policy
        if policy not in POLICIES:
            raise _fixed("hicache_storage_prefetch_policy", policy, f"there are {', '.join(POLICIES)}")
        if policy != "best_effort" and (policy == "timeout") != (self.patience is not None):
            raise _fixed("hicache_storage_prefetch_policy", policy, f"the server was started with {self.policy}")
        writing = request.hicache_write_policy
        if writing is not None and writing != memory.hicache_write_policy:
            was = f"the server was started with {memory.hicache_write_policy}"
            raise _fixed("hicache_write_policy", writing, was)
        config = request.hicache_storage_backend_extra_config_json
        base, per_ki = (self.patience or (None, None, None))[:2]
        known = {"prefetch_threshold": self.threshold, "prefetch_timeout_base": base}
        known["prefetch_timeout_per_ki_token"] = per_ki
        for name, value in (_extra(_CONFIG_OF_REQUEST, config) if config else {}).items():
            agreed = known[name]
            if agreed is not None and agreed != int(value * (1 if name == "prefetch_threshold" else 1000)):
                raise _fixed(name, value, "the server was started with another value")
        return policy


def url_of(backend: str) -> str:
    """What a name of the server's stands for; a URL is one already.

    Raises:
        InvalidInputError: it is neither.
    """
    match backend:
        case _ if "://" in backend:
            return backend
        case "file":
            # apart from the server's own files there: these have checksums, and those have not
            return (Path(os.environ.get(_FOLDER, "/tmp/hicache")).absolute() / "isoradix").as_uri()
        case "mooncake":
            options = {name: os.environ[variable] for name, variable in _MOONCAKE.items() if os.environ.get(variable)}
            return f"mooncake://{os.environ.get('MOONCAKE_MASTER', '127.0.0.1:50051')}?{urlencode(options)}"
        case _:
            what = f"storage backend {backend}: there are {', '.join(BACKENDS)}"
            raise InvalidInputError(f"{what}\nhint: name any other store by its URL, in ISORADIX_STORAGE at the start")


def _extra_of_flag(config: str | None) -> dict[str, float]:
    """Of `--hicache-storage-backend-extra-config`: JSON, or @ and a file of JSON, TOML or YAML, by its name."""
    if not config:
        return {}
    if not config.startswith("@"):
        return _extra(_CONFIG_OF_FLAG, config)
    file = Path(config[1:])
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise _refused(_CONFIG_OF_FLAG, config, str(error)) from error
    return _extra(_CONFIG_OF_FLAG, text, file.suffix.lower())


def _parse(text: str, suffix: str) -> Any:
    match suffix:
        case ".toml":
            return tomllib.loads(text)
        case ".yaml" | ".yml":
            import yaml  # the server brings it

            try:
                return yaml.safe_load(text)
            except yaml.YAMLError as error:
                raise ValueError(str(error)) from error
        case _:
            return json.loads(text)


def _extra(where: str, text: str, suffix: str = "") -> dict[str, float]:
    """The keys of the server's configuration that mean the same here."""
    try:
        given = _parse(text, suffix)
    except ValueError as error:
        raise _refused(where, text, str(error)) from error
    if not isinstance(given, dict):
        raise _refused(where, text, "it is no JSON object" if not suffix else "it has no keys")
    for name, value in given.items():
        if name not in _KNOWN:
            raise _refused(where, text, f"{name} is unknown; there are {', '.join(_KNOWN)}")
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 10**6:
            raise _refused(where, text, f"{name} is {value!r}, limits 0 to 1000000")
    return given


def _refused(where: str, config: str, why: str) -> InvalidInputError:
    return InvalidInputError(f"{where} {config}: {why}\nhint: options of a store go into its URL")


def _fixed(name: str, value: object, why: str) -> InvalidInputError:
    return InvalidInputError(f"{name} is {value!r}: {why}\nhint: leave it out, or start the server with it")


class ServerTier(StorageTier):
    """A tier that closes its backend, and can be emptied.

    Args:
        backend, keys, host, options: of `StorageTier`.
    """

    def __init__(self, backend: Backend, keys: KeyScheme, host: HostPool, **options: Any) -> None:
        super().__init__(backend, keys, host, **options)
        self.clearing = Clearing(backend)

    def close(self) -> None:
        """Ends its threads, and closes the backend."""
        super().close()
        self._backend.close()


def open_tier(url: str, *, ctx: Any, plane: Plane, host: HostPool, memory: Any) -> ServerTier:
    """This rank's part of the store.

    Args:
        url: of the store.
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
    backend = open_storage(url)
    if dict(parse_qsl(urlsplit(url).query)).get("format") == "sglang":
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
            bigram=ctx.params.is_eagle,
        )
        return ServerTier(backend, theirs, host, order=order, writes=theirs.writes)
    pool = ctx.params.token_to_kv_pool_allocator.get_kvcache()
    shape = host.shape
    loaded = (args.revision, args.load_format, args.quantization, args.json_model_override_args, args.weight_version)
    kv, bigram = shape.describe(), ctx.params.is_eagle
    about = Fingerprint(args.model_path, repr(loaded), str(shape.dtype), kv, "layer", host.page_size, bigram)
    shard = Shard(pool.start_layer, shape.layers, place.tp, topology.tp, place.cp, topology.cp, replicated)
    return ServerTier(backend, PageKeys(about, shard), host, writes=shard.writes)
