"""Stands in for SGLang's package of CUDA kernels, from which it imports names even where it calls none.

Every name can be imported. A call raises, so a test that needs a kernel fails and says which.
"""

from collections.abc import Callable
from typing import Any, NoReturn

__version__ = "0.4.10"  # of the kernels that SGLang 0.5.22 and 0.5.23 ask for


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("__"):
        raise AttributeError(name)

    def absent(*_: object, **__: object) -> NoReturn:
        raise NotImplementedError(f"the kernel {name} needs a GPU, and only its name stands here")

    return absent
