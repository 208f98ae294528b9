"""The threads of the CPU engine end with it, whoever forgets to close it."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .rig import Rig


def copiers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("isoradix-")}


def test_an_engine_that_is_collected_ends_its_threads(make: Callable[..., Rig]) -> None:
    before = copiers()
    rig = make("cpu")
    mine = copiers() - before
    assert len(mine) == 2
    rig.backup(0, rig.slots_of([1]), [1])
    rig.engine = make("seeded").engine
    gc.collect()
    assert not mine & copiers()
    assert rig.reports.ended_as == {0: True}, "what was started was made"


FORGOTTEN = """
import atexit, types
import numpy as np
reported = []
atexit.register(lambda: print("at the end", reported))  # the last to run
from isoradix.copies import engine_for
from isoradix.kv import DevicePool, HostPool, MLAShape
import torch
class Board:
    window = 64
    def ended(self, operation, succeeded):
        reported.append((operation, succeeded))
shape = MLAShape(layers=40, width=4096, dtype=torch.float32)
device, host = DevicePool(shape, 256), HostPool(shape, 16, 16)
engine = engine_for(device, host)
engine.attach(Board())
for k in range(5):
    engine.start(types.SimpleNamespace(operation=k, kind="backup", slots=np.arange(256), pages=np.arange(16)))
"""


def test_a_process_that_forgets_to_close_ends_all_the_same() -> None:
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORGOTTEN], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"at the end {[(k, True) for k in range(5)]}\n"
