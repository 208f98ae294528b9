"""Ranks in processes of their own on planes without a cache: what `ranks.run` starts, given as its `main`."""

import pickle
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from isoradix import IsoradixError, Patience
from isoradix.consensus import Decisions, SteppedPlane, open_store


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


def two_planes(rank: int, *shared: Any) -> None:
    """Two planes in one process and one store, each way that docs/decisions.md shows; every rank asks on both."""
    _, topology, _, folder, (by_address,), limits, _, address, _, answers = shared
    options: dict[str, Any] = {"patience": Patience(*limits), "wait_board": folder}
    if by_address:
        first = SteppedPlane.connect(topology, rank, address, hosts_store=rank == 0, **options)
        second = SteppedPlane.connect(topology, rank, address, name="decode", **options)
    else:
        store, own = open_store(address, rank == 0, options["patience"])
        first, second = (
            SteppedPlane(topology, rank, store, address=own, name=name, **options) for name in ("prefill", "decode")
        )
    said = []
    with Decisions(first) as one, Decisions(second) as other:
        for request, decisions in ((1, one), (2, other)):
            decisions.ask(request)
            decisions.report(request, 1, "ready")
            while not decisions.stopped:
                verdicts = decisions.step(last=first.place.leads and decisions.open == 0)
                said += [(decided.request, decided.verdict) for decided in verdicts]
    answers.put((rank, pickle.dumps(said)))
