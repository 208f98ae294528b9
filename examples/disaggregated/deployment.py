"""Two groups of ranks, as processes of this machine."""

from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

from disaggregated.decode import DecodeScheduler
from disaggregated.handover import Handover
from disaggregated.prefill import PrefillScheduler
from disaggregated.rank import GroupRank
from isoradix import InvalidInputError
from minillm.deployment import Outcome, free_address, processes, serve
from minillm.requests import Workload
from minillm.settings import Settings


@dataclass(frozen=True)
class Outcomes:
    """What a run came to, group by group."""

    prefill: Outcome
    decode: Outcome

    @property
    def distributions(self) -> dict[tuple[int, int], list[Any]]:
        """Of each request: its first token's is the prefill group's, where it has arrived."""
        found = dict[tuple[int, int], list[Any]]()
        for request in self.decode.requests:
            name = request.user, request.turn
            own = self.decode.distributions.get(name, [])
            lacking = request.answer - len(own)
            found[name] = [*self.prefill.distributions[name][-1:], *own] if lacking else own
        return found


def run(
    prefill: Settings, decode: Settings, workload: Workload, *, rank: type[GroupRank] = GroupRank, **options: Any
) -> Outcomes:
    """Serves a workload. `options` are those of `Handover`."""
    for name in ("tp", "pp", "model", "page_size", "storage"):
        one, other = getattr(prefill, name), getattr(decode, name)
        if one != other:
            what = f"{name} is {one!r} in the prefill group, {other!r} in the decode group"
            raise InvalidInputError(f"{what}\nhint: a rank takes over the shard of the same rank of the other group")
    orders: Any = processes.Queue()
    common = {"run": uuid4().hex, "orders": orders, **options}
    ranks = []
    for scheduling, settings in ((PrefillScheduler, prefill), (DecodeScheduler, decode)):
        given = free_address(), free_address(), workload, Handover(address=free_address(), **common)
        ranks += [partial(rank, scheduling, settings, at, *given) for at in range(settings.topology.ranks)]
    reports = serve(ranks, lambda beat: None)
    first = prefill.topology.ranks
    return Outcomes(Outcome.of(reports[:first]), Outcome.of(reports[first:]))
