"""What one token's KV looks like on one rank."""

from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

import torch

from isoradix.kv import checks

LAYERS_MAX: Final = 1 << 12
HEADS_MAX: Final = 1 << 12
WIDTH_MAX: Final = 1 << 16
STATE_MAX: Final = 1 << 30


class KVShape(Protocol):
    """Of each token every layer holds every part: `width` elements of `dtype`."""

    @property
    def layers(self) -> int:
        """Layers of this rank: those of its own pipeline stage."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of what a layer holds apart."""

    @property
    def width(self) -> int:
        """Elements of a token in one layer and part."""

    @property
    def dtype(self) -> torch.dtype:
        """Type of an element."""

    @property
    def bytes_per_token(self) -> int:
        """Bytes of a token in all layers and parts."""

    def describe(self) -> str:
        """For the agreement at start: all that is equal on all ranks, so not the layers, which differ between
        stages."""


@dataclass(frozen=True)
class MHAShape:
    """Keys and values of each head, apart: multi-head and grouped-query attention.

    Args:
        layers: layers of this rank, 1 to 4096.
        heads: KV heads of this rank, 1 to 4096.
        head_dim: elements of a head, 1 to 65536.
        dtype: type of an element.

    Raises:
        InvalidInputError: a number is out of its range.
        InputTypeError: a number is not an int, or the dtype not one of torch.
    """

    layers: int
    heads: int
    head_dim: int
    dtype: torch.dtype

    parts: ClassVar[tuple[str, ...]] = ("k", "v")

    def __post_init__(self) -> None:
        _layers(self.layers)
        checks.whole("heads", self.heads, 1, HEADS_MAX, "pass the KV heads that this rank holds")
        checks.whole("head_dim", self.head_dim, 1, WIDTH_MAX, "pass the elements of one head")
        checks.dtype(self.dtype)

    @property
    def width(self) -> int:
        """Elements of a token in one layer and part."""
        return self.heads * self.head_dim

    @property
    def bytes_per_token(self) -> int:
        """Bytes of a token in all layers and parts."""
        return _bytes_per_token(self)

    def describe(self) -> str:
        """For the agreement at start; without the layers, which differ between pipeline stages."""
        return f"mha heads={self.heads} head_dim={self.head_dim} dtype={_name(self.dtype)}"


@dataclass(frozen=True)
class MLAShape:
    """Latent and rope of a token in one row: multi-head latent attention.

    Args:
        layers: layers of this rank, 1 to 4096.
        width: elements of a token and layer, latent and rope together, 1 to 65536.
        dtype: type of an element.

    Raises:
        InvalidInputError: a number is out of its range.
        InputTypeError: a number is not an int, or the dtype not one of torch.
    """

    layers: int
    width: int
    dtype: torch.dtype

    parts: ClassVar[tuple[str, ...]] = ("kv",)

    def __post_init__(self) -> None:
        _layers(self.layers)
        checks.whole("width", self.width, 1, WIDTH_MAX, "pass the elements of latent and rope together, e.g. 512 + 64")
        checks.dtype(self.dtype)

    @property
    def bytes_per_token(self) -> int:
        """Bytes of a token in all layers and parts."""
        return _bytes_per_token(self)

    def describe(self) -> str:
        """For the agreement at start; without the layers, which differ between pipeline stages."""
        return f"mla width={self.width} dtype={_name(self.dtype)}"


@dataclass(frozen=True)
class StateShape:
    """What a recurrent layer keeps at the end of a page, in one row: a pool of it has a row a page, so page_size 1.

    Args:
        layers: recurrent layers of this rank, 1 to 4096.
        width: elements of one layer's state, 1 to 2**30.
        dtype: type of an element.

    Raises:
        InvalidInputError: a number is out of its range.
        InputTypeError: a number is not an int, or the dtype not one of torch.
    """

    layers: int
    width: int
    dtype: torch.dtype

    parts: ClassVar[tuple[str, ...]] = ("state",)

    def __post_init__(self) -> None:
        _layers(self.layers)
        checks.whole("width", self.width, 1, STATE_MAX, "pass the elements of one layer's state")
        checks.dtype(self.dtype)

    @property
    def bytes_per_token(self) -> int:
        """Bytes of a row in all layers: those of a page's state."""
        return _bytes_per_token(self)

    def describe(self) -> str:
        """For the agreement at start; without the layers, which differ between pipeline stages."""
        return f"state width={self.width} dtype={_name(self.dtype)}"


def _layers(layers: int) -> None:
    checks.whole("layers", layers, 1, LAYERS_MAX, "pass the layers of this rank's own stage")


def _bytes_per_token(shape: KVShape) -> int:
    return shape.layers * len(shape.parts) * row_bytes(shape)


def row_bytes(shape: KVShape) -> int:
    """Bytes of a token in one layer and part."""
    size: int = shape.width * shape.dtype.itemsize
    return size


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
