"""What a token's KV looks like."""

from __future__ import annotations

from typing import Any

import pytest

from isoradix import InputTypeError, InvalidInputError

torch: Any = pytest.importorskip("torch")


def test_bytes_of_a_token() -> None:
    from isoradix.kv import MHAShape, MLAShape

    mha = MHAShape(layers=32, heads=8, head_dim=128, dtype=torch.float16)
    assert (mha.parts, mha.width, mha.bytes_per_token) == (("k", "v"), 1024, 32 * 2 * 1024 * 2)
    mla = MLAShape(layers=61, width=512 + 64, dtype=torch.bfloat16)
    assert (mla.parts, mla.width, mla.bytes_per_token) == (("kv",), 576, 61 * 576 * 2)
    assert MLAShape(2, 576, torch.float8_e4m3fn).bytes_per_token == 2 * 576
    assert mha == MHAShape(32, 8, 128, torch.float16)
    assert mha != MHAShape(32, 8, 128, torch.bfloat16)


def test_bytes_of_a_state() -> None:
    from isoradix.kv import StateShape

    state = StateShape(layers=24, width=128 * 64 * 128, dtype=torch.float32)
    assert (state.parts, state.width, state.bytes_per_token) == (("state",), 1 << 20, 24 * (1 << 22))
    assert state.describe() == "state width=1048576 dtype=float32"


def test_what_ranks_compare_leaves_out_the_layers() -> None:
    from isoradix.kv import MHAShape, MLAShape

    stages = {MHAShape(layers, 8, 128, torch.float16).describe() for layers in (15, 16)}
    assert stages == {"mha heads=8 head_dim=128 dtype=float16"}
    assert MLAShape(61, 576, torch.bfloat16).describe() == "mla width=576 dtype=bfloat16"


@pytest.mark.parametrize(
    ("name", "change", "error", "message"),
    [
        ("MHAShape", {"layers": 0}, InvalidInputError, "layers 0 is out of range: 1 to 4096"),
        ("MHAShape", {"heads": 5000}, InvalidInputError, "heads 5000 is out of range: 1 to 4096"),
        ("MHAShape", {"head_dim": -1}, InvalidInputError, "head_dim -1 is out of range: 1 to 65536"),
        ("MHAShape", {"heads": 2.0}, InputTypeError, "heads is 2.0, expected an int"),
        ("MHAShape", {"layers": True}, InputTypeError, "layers is True, expected an int"),
        ("MHAShape", {"dtype": "float16"}, InputTypeError, "dtype is 'float16', expected a torch.dtype"),
        ("MLAShape", {"layers": 4097}, InvalidInputError, "layers 4097 is out of range"),
        ("MLAShape", {"width": 0}, InvalidInputError, "width 0 is out of range: 1 to 65536"),
        ("MLAShape", {"dtype": None}, InputTypeError, "dtype is None"),
        ("StateShape", {"layers": 0}, InvalidInputError, "layers 0 is out of range"),
        ("StateShape", {"width": 1 << 31}, InvalidInputError, "width 2147483648 is out of range: 1 to 1073741824"),
    ],
)
def test_bad_shapes_are_refused(name: str, change: dict[str, Any], error: type[Exception], message: str) -> None:
    from isoradix import kv

    good: dict[str, Any] = {
        "MHAShape": {"heads": 2, "head_dim": 8},
        "MLAShape": {"width": 8},
        "StateShape": {"width": 8},
    }[name]
    with pytest.raises(error, match=message) as refused:
        getattr(kv, name)(**{"layers": 2, "dtype": torch.float16, **good, **change})
    assert "\nhint: " in str(refused.value)
