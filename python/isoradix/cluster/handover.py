"""What a pipeline stage sends the next one beside its activations: the header of the batch, compared before anything is
computed."""

import socket
from pathlib import Path
from typing import Final

from isoradix import BatchHeader
from isoradix.cluster.relay import Edge
from isoradix.consensus import PlaneLost
from isoradix.consensus.remote import RemotePlane

_VERDICT_S: Final = 3.0


class Handover:
    """This rank's connections to the same place in the stages before and behind.

    Args:
        plane: this rank's end, which knows better than a broken connection whose fault it is.
        folder: where the ranks of this machine meet.
        fatal_ms: how long a wait may last.

    Raises:
        PlaneLost: a rank did not come.
    """

    def __init__(self, plane: RemotePlane, folder: Path, fatal_ms: int) -> None:
        self._plane = plane
        place, topology = plane.place, plane.topology
        self._patience_s = fatal_ms / 1e3 + _VERDICT_S
        before, behind = place.member - topology.lanes, place.member + topology.lanes
        self._most = topology.pp + 1
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(folder / f"stage-{place.rank}"))
            server.listen(1)
            plane.gather(b"")  # now all of them listen
            self._before: Edge | None = None
            self._behind: Edge | None = None
            if behind < topology.members:
                rank = topology.rank_of(place.domain, behind)
                connection = socket.socket(socket.AF_UNIX)
                connection.connect(str(folder / f"stage-{rank}"))
                self._behind = Edge(connection, rank, self._patience_s, plane.check)
            if before >= 0:
                server.settimeout(self._patience_s)
                connection, _ = server.accept()
                rank = topology.rank_of(place.domain, before)
                self._before = Edge(connection, rank, self._patience_s, plane.check)

    def exchange(self, header: BatchHeader) -> None:
        """Sends this rank's header on, and compares it with the one that comes.

        Raises:
            DivergenceError: they differ (form A). Nothing has been computed yet.
            PlaneLost: a stage is lost.
        """
        try:
            if self._behind is not None:
                self._behind.send(header.to_bytes(), self._most)
            if self._before is not None:
                header.check(BatchHeader.from_bytes(self._before.receive()))
        except OSError as error:
            self._plane.check()
            what = f"no header to or from the next stage gets through: {error}"
            raise PlaneLost(f"{what}\nhint: look at that rank's log", (), what) from error
