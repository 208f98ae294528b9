"""Ranks in processes of their own on planes without a cache: what `ranks.run` starts, given as its `main`."""

import pickle
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from isoradix import IsoradixError, Patience
from isoradix.consensus import SteppedPlane


class Member:
    """What one rank's process has: its plane, and what all ranks share."""

    def __init__(self, plane: SteppedPlane, barrier: Any, folder: Path, given: Sequence[Any]) -> None:
        self.plane, self.barrier, self.folder, self.given = plane, barrier, folder, given
        self.place, self.rank, self.leads = plane.place, plane.place.rank, plane.place.leads


def main(rank: int, *shared: Any) -> None:
    """One rank: the answer of its body, or the error that it or the start raised."""
    _, topology, body, folder, given, patience, options, address, barrier, answers = shared
    import torch

    torch.set_num_threads(1)
    plane = None
    answer: Any
    try:
        plane = SteppedPlane.connect(
            topology, rank, address, hosts_store=rank == 0, patience=Patience(*patience), wait_board=folder, **options
        )
        answer = body(Member(plane, barrier, folder, given))
        plane.leave()
    except BaseException as error:
        answer = error
        if plane is not None:
            with suppress(IsoradixError):
                plane.fail(str(error).partition("\n")[0])
    answers.put((rank, pickle.dumps(answer)))
