"""What carries the bytes of consensus between ranks: planes, and who is where.

`Topology` says which ranks make a domain; a plane is one rank's end of what connects them. `GlooPlane` is the plane of
real deployments, `PiggybackPlane` puts frames on messages of the scheduler, `ChainPlane` is the pipeline
synchronisation that engines have today, for comparison; `LocalPlane` is for one rank. All but the first and the last
need torch.
"""

from typing import TYPE_CHECKING, Any

from isoradix.consensus.diagnosis import Diagnosis, diagnose
from isoradix.consensus.plane import Plane, PlaneCounts, PlaneLost
from isoradix.consensus.topology import Place, Topology
from isoradix.consensus.waits import RankWaits, WaitEntry, all_waits, read_waits

if TYPE_CHECKING:
    from isoradix.consensus.chain import ChainPlane as ChainPlane
    from isoradix.consensus.gloo import GlooPlane as GlooPlane
    from isoradix.consensus.local import LocalPlane as LocalPlane
    from isoradix.consensus.piggyback import PiggybackPlane as PiggybackPlane

_PLANES = {"ChainPlane": "chain", "GlooPlane": "gloo", "LocalPlane": "local", "PiggybackPlane": "piggyback"}

__all__ = [
    "ChainPlane",
    "Diagnosis",
    "GlooPlane",
    "LocalPlane",
    "PiggybackPlane",
    "Place",
    "Plane",
    "PlaneCounts",
    "PlaneLost",
    "RankWaits",
    "Topology",
    "WaitEntry",
    "all_waits",
    "diagnose",
    "read_waits",
]


def __getattr__(name: str) -> Any:
    """Planes are imported when they are asked for: torch is slow to load."""
    if name in _PLANES:
        from importlib import import_module

        return getattr(import_module(f"isoradix.consensus.{_PLANES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
