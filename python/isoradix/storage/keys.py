"""Keys of pages: two pages have the same key only if they hold the same KV of the same tokens on the same shard.

A key of ours has 64 bytes. The first half is the page's chained hash: SHA-256 over the hash of the page before and the
page's own tokens; the first page is chained to a fingerprint of everything else that the bytes depend on and that is
equal on all ranks. The second half is the hash of the shard, so all ranks of a deployment hash tokens alike. Everything
is encoded with its length before it is hashed, so no two different tuples are the same bytes.
"""

import hashlib
from dataclasses import dataclass, fields
from typing import Final, Protocol

from isoradix import InputTypeError, IntSequence, InvalidInputError, NamespaceLike
from isoradix._isoradix import page_hashes

HASH_BYTES: Final = 32
_VERSION: Final = "isoradix-page-1"


class KeyScheme(Protocol):
    """How a key of tokens becomes keys of pages."""

    def of(self, tokens: IntSequence, namespace: NamespaceLike = None, *, previous: bytes | None = None) -> list[bytes]:
        """The keys of all whole pages, in order."""


@dataclass(frozen=True)
class Fingerprint:
    """What a page's bytes depend on beside its tokens, equal on all ranks.

    Args:
        model: its name or path, as all who share pages call it.
        revision: of its weights: a commit, a checksum.
        dtype: type of a KV element.
        kv: shape of a token, as `KVShape.describe` says.
        layout: order of a page's bytes: that of `PageViews.of_pool`.
        page_size: tokens of a page (pairs in bigram mode), 1 to 1024.
        bigram: whether a unit is a pair of neighbouring tokens (EAGLE).
        component: what lies beside the keys and values of full attention, by its name in the cache's configuration; ""
            for those themselves. `dtype`, `kv` and `layout` are then the component's own.

    Raises:
        InputTypeError, InvalidInputError: a value has the wrong type, or is out of its range.
    """

    model: str
    revision: str
    dtype: str
    kv: str
    layout: str
    page_size: int
    bigram: bool = False
    component: str = ""

    def __post_init__(self) -> None:
        _typed(self)
        if not 1 <= self.page_size <= 1024:
            raise InvalidInputError(
                f"page_size is {self.page_size}; the limits are 1 to 1024\nhint: use that of the cache"
            )


@dataclass(frozen=True)
class Shard:
    """Which part of a token's KV a rank has.

    Where the ranks of a tensor-parallel group hold equal bytes, as with latent attention, `replicated` gives them one
    key, and one of them writes.

    Args:
        first_layer: of the rank's pipeline stage.
        layers: of the stage.
        tp_rank, tp_size: place in the tensor-parallel group.
        cp_rank, cp_size: place in the context-parallel group, whose ranks hold different tokens.
        replicated: whether all ranks of the tensor-parallel group hold equal bytes.

    Raises:
        InputTypeError, InvalidInputError: a value has the wrong type, or is out of its range.
    """

    first_layer: int
    layers: int
    tp_rank: int = 0
    tp_size: int = 1
    cp_rank: int = 0
    cp_size: int = 1
    replicated: bool = False

    def __post_init__(self) -> None:
        _typed(self)
        if self.first_layer < 0 or self.layers < 1:
            raise InvalidInputError(
                f"{self.layers} layers from {self.first_layer} on\nhint: pass the layers of this rank's own stage"
            )
        for rank, size in ((self.tp_rank, self.tp_size), (self.cp_rank, self.cp_size)):
            if not 0 <= rank < size:
                raise InvalidInputError(f"rank {rank} of {size}\nhint: ranks are counted from 0")

    @property
    def writes(self) -> bool:
        """Whether this rank stores pages: of ranks with equal bytes the first one does."""
        return not self.replicated or self.tp_rank == 0

    @property
    def name(self) -> str:
        """For people, e.g. "layers 16-31, tp 1 of 4"."""
        parts = [f"layers {self.first_layer}-{self.first_layer + self.layers - 1}"]
        if not self.replicated:
            parts.append(f"tp {self.tp_rank} of {self.tp_size}")
        if self.cp_size > 1:
            parts.append(f"cp {self.cp_rank} of {self.cp_size}")
        return ", ".join(parts)

    @property
    def parts(self) -> tuple[str | int | None, ...]:
        """What tells shards apart."""
        tp = (None, None) if self.replicated else (self.tp_rank, self.tp_size)
        return (self.first_layer, self.layers, *tp, self.cp_rank, self.cp_size)


class PageKeys:
    """Keys of 64 bytes, of one shard.

    Args:
        fingerprint: what the bytes depend on.
        shard: the part that this rank has.
    """

    def __init__(self, fingerprint: Fingerprint, shard: Shard) -> None:
        self.fingerprint, self.shard = fingerprint, shard
        self._shard = _hash("shard", *shard.parts)

    def of(self, tokens: IntSequence, namespace: NamespaceLike = None, *, previous: bytes | None = None) -> list[bytes]:
        """The keys of all whole pages of a key, in order.

        Args:
            tokens: the key.
            namespace: the pair (extra key, salt) that it is in; None is the default one.
            previous: the key of the page before, to go on from; `tokens` then begin with the next page (in bigram mode
                with the second token of the last pair).

        Raises:
            InvalidInputError, InputTypeError: tokens, namespace or `previous` are not acceptable.
        """
        if previous is None:
            seed = self.seed(namespace)
        elif len(previous) != 2 * HASH_BYTES or previous[HASH_BYTES:] != self._shard:
            raise InvalidInputError(
                f"previous has {len(previous)} bytes or is of another shard; 64 bytes of this one are needed\n"
                "hint: pass the last key that the same PageKeys gave"
            )
        else:
            seed = previous[:HASH_BYTES]
        about = self.fingerprint
        hashes = page_hashes(tokens, about.page_size, bigram=about.bigram, previous=seed)
        return [page + self._shard for page in hashes]

    def seed(self, namespace: NamespaceLike = None) -> bytes:
        """What the first page of a namespace is chained to: equal on all ranks."""
        values = [getattr(self.fingerprint, each.name) for each in fields(self.fingerprint)]
        if not self.fingerprint.component:
            values.pop()  # so pages without a component have the keys that they always had
        return _hash("fingerprint", *values, *_pair(namespace))


class SGLangKeys:
    """Names of pages in a file store that SGLang's `HiCacheFile` has written or is to read, by `file://...?format=sglang`.

    The name is the page's chained SHA-256 in hexadecimal, seeded by the namespace, and a suffix of model and shard. It
    says nothing of revision, dtype or layout, and a page has no checksum: use it only for a store that this model alone
    uses. `PageViews.of_pool` with order "part" has the bytes of SGLang's layouts layer_first and page_first_direct,
    with "token" those of page_first. The names are those of SGLang 0.5.23.

    Args:
        model: the server's model name, as in its `--model-path`, or `--served-model-name` if that is given.
        page_size: tokens of a page.
        tp_rank, tp_size: place in the tensor-parallel group.
        pp_rank, pp_size: pipeline stage, and how many there are.
        cp_rank, cp_size: place in the context-parallel group of attention.
        mla: whether the model has latent attention: its ranks share pages.
        bigram: whether a unit is a pair of neighbouring tokens (EAGLE).

    Raises:
        InvalidInputError: a value is out of its range.
    """

    def __init__(
        self,
        model: str,
        page_size: int,
        *,
        tp_rank: int = 0,
        tp_size: int = 1,
        pp_rank: int = 0,
        pp_size: int = 1,
        cp_rank: int = 0,
        cp_size: int = 1,
        mla: bool = False,
        bigram: bool = False,
    ) -> None:
        for rank, size in ((tp_rank, tp_size), (pp_rank, pp_size), (cp_rank, cp_size)):
            if not 0 <= rank < size:
                raise InvalidInputError(f"rank {rank} of {size}\nhint: ranks are counted from 0")
        self._page_size, self._bigram = page_size, bigram
        suffix = f"_{model.replace('/', '-')}"
        if not mla:
            suffix += f"_{tp_rank}_{tp_size}"
        if pp_size > 1:
            suffix += f"_{pp_size}_{pp_rank}"
        if cp_size > 1:
            suffix += f"_cp{cp_rank}_{cp_size}"
        self._suffix = suffix.encode()
        self.writes: Final = not mla or tp_rank == 0
        """Whether this rank stores pages."""

    def of(self, tokens: IntSequence, namespace: NamespaceLike = None, *, previous: bytes | None = None) -> list[bytes]:
        """The names of all whole pages of a key, in order, without `.bin`.

        Args:
            tokens, previous: as of `PageKeys.of`.
            namespace: the pair (extra key, salt) that it is in; None is the default one.

        Raises:
            InvalidInputError, InputTypeError: tokens, namespace or `previous` are not acceptable.
        """
        if previous is None:
            seed = _sglang_seed(*_pair(namespace))
        else:
            seed = bytes.fromhex(previous[: 2 * HASH_BYTES].decode())
        hashes = page_hashes(tokens, self._page_size, bigram=self._bigram, previous=seed)
        return [page.hex().encode() + self._suffix for page in hashes]


def _sglang_seed(extra_key: str | None, salt: str | None) -> bytes | None:
    """What SGLang 0.5.23 chains the first page of a namespace to."""
    if extra_key is None and salt is None:
        return None
    seed = hashlib.sha256(b"sglang-cache-namespace-v1")
    for part in (extra_key, salt):
        data = b"" if part is None else _text(part)
        seed.update(b"\0" if part is None else b"\1" + len(data).to_bytes(8, "little") + data)
    return seed.digest()


def encode(*values: str | int | bool | None) -> bytes:
    """Values as bytes that no other values have: each with its type and its length."""
    parts = [len(values).to_bytes(8, "little")]
    for value in values:
        if value is None:
            kind, data = b"n", b""
        elif isinstance(value, bool):
            kind, data = b"b", bytes([value])
        elif isinstance(value, int):
            kind, data = b"i", str(value).encode()
        else:
            kind, data = b"s", _text(value)
        parts += [kind, len(data).to_bytes(8, "little"), data]
    return b"".join(parts)


def _hash(what: str, *values: str | int | bool | None) -> bytes:
    return hashlib.sha256(encode(_VERSION, what, *values)).digest()


def _text(value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{value!r} has a character that is no text\nhint: pass text without lone surrogates"
        ) from error


def _pair(namespace: NamespaceLike) -> tuple[str | None, str | None]:
    if namespace is None:
        return (None, None)
    given: object = namespace
    if not isinstance(given, tuple) or len(given) != 2 or not all(isinstance(part, str | None) for part in given):
        raise InputTypeError(
            f"namespace is {namespace!r}, expected a pair\nhint: (extra key, salt), each a str or None"
        )
    return namespace


def _typed(about: "Fingerprint | Shard") -> None:
    for each in fields(about):
        value, expected = getattr(about, each.name), each.type
        if type(value) is not expected:
            name = getattr(expected, "__name__", expected)
            raise InputTypeError(f"{each.name} is {value!r}, expected {name}\nhint: see {type(about).__name__}")
