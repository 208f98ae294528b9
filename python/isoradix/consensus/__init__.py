"""What carries the bytes of consensus between ranks: planes, and who is where.

`Topology` says which ranks make a domain; a plane is one rank's end of what connects them. `GlooPlane` is the plane
of real deployments, `PiggybackPlane` puts frames on messages of the scheduler, `ChainPlane` is the pipeline
synchronisation that engines have today, for comparison; `LocalPlane` is for one rank. All but the first and the last
need torch. Without a cache: `Decisions` (is a request ready everywhere?) and `AgreedMin` (the smallest of what ranks
offer), over a `SteppedPlane`, or `LocalSteps` for one rank.
"""

from typing import TYPE_CHECKING, Any

from isoradix.consensus.diagnosis import Diagnosis, diagnose
from isoradix.consensus.plane import Plane, PlaneCounts, PlaneLost
from isoradix.consensus.topology import Place, Topology
from isoradix.consensus.waits import RankWaits, WaitEntry, all_waits, read_waits

if TYPE_CHECKING:
    from isoradix.consensus.chain import ChainPlane as ChainPlane
    from isoradix.consensus.decisions import Decision as Decision
    from isoradix.consensus.decisions import Decisions as Decisions
    from isoradix.consensus.decisions import NotReady as NotReady
    from isoradix.consensus.gloo import GlooPlane as GlooPlane
    from isoradix.consensus.local import LocalPlane as LocalPlane
    from isoradix.consensus.minimum import Agreed as Agreed
    from isoradix.consensus.minimum import AgreedMin as AgreedMin
    from isoradix.consensus.piggyback import PiggybackPlane as PiggybackPlane
    from isoradix.consensus.rendezvous import open_store as open_store
    from isoradix.consensus.stepped import SteppedPlane as SteppedPlane
    from isoradix.consensus.steps import LocalSteps as LocalSteps

_PLANES = {
    "Agreed": "minimum",
    "AgreedMin": "minimum",
    "ChainPlane": "chain",
    "Decision": "decisions",
    "Decisions": "decisions",
    "GlooPlane": "gloo",
    "LocalPlane": "local",
    "LocalSteps": "steps",
    "NotReady": "decisions",
    "PiggybackPlane": "piggyback",
    "SteppedPlane": "stepped",
    "open_store": "rendezvous",
}

__all__ = [
    "Agreed",
    "AgreedMin",
    "ChainPlane",
    "Decision",
    "Decisions",
    "Diagnosis",
    "GlooPlane",
    "LocalPlane",
    "LocalSteps",
    "NotReady",
    "PiggybackPlane",
    "Place",
    "Plane",
    "PlaneCounts",
    "PlaneLost",
    "RankWaits",
    "SteppedPlane",
    "Topology",
    "WaitEntry",
    "all_waits",
    "diagnose",
    "open_store",
    "read_waits",
]


def __getattr__(name: str) -> Any:
    """Planes are imported when they are asked for: torch is slow to load."""
    if name in _PLANES:
        from importlib import import_module

        return getattr(import_module(f"isoradix.consensus.{_PLANES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
