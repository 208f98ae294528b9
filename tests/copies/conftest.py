"""One suite for every engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .rig import Rig


@pytest.fixture(
    params=["cpu", "seeded", *(pytest.param(kind, marks=pytest.mark.gpu) for kind in ("cuda", "cuda_runs"))]
)
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of engine; CUDA's twice: where kernels reach host memory, and where they do not."""
    torch: Any = pytest.importorskip("torch")
    if str(request.param).startswith("cuda") and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return str(request.param)


@pytest.fixture
def make() -> Iterator[Callable[..., Rig]]:
    """Makes rigs, and closes them."""
    pytest.importorskip("torch")
    from .rig import Rig

    made: list[Rig] = []

    def new(*arguments: Any, **options: Any) -> Rig:
        made.append(Rig(*arguments, **options))
        return made[-1]

    yield new
    for rig in made:
        rig.close()


@pytest.fixture
def rig(kind: str, make: Callable[..., Rig]) -> Rig:
    return make(kind)
