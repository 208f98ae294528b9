"""Who is who: the ranks of a deployment, their consensus domains and stages, and who sends frames to whom.

Ranks are numbered as serving engines do: pipeline stage outermost, then data-parallel replica (of the attention), then
context-parallel rank, tensor-parallel rank innermost. A *domain* is one data-parallel replica: its ranks hold
isomorphic trees. Frames travel from its leader, member 0, from member to member, and never up the pipeline.
"""

from dataclasses import dataclass
from functools import cached_property

from isoradix import InputTypeError, InvalidInputError

RANKS_MAX = 4096


@dataclass(frozen=True)
class Place:
    """Where one rank stands. `member` is its number in its domain, by which the core knows it; 0 is the leader."""

    rank: int
    domain: int
    member: int
    stage: int
    cp: int
    tp: int

    @property
    def leads(self) -> bool:
        return self.member == 0

    @property
    def name(self) -> str:
        """For people, e.g. "rank 3 (stage 1, tp 1)"."""
        return f"rank {self.rank} (stage {self.stage}, tp {self.tp})"


@dataclass(frozen=True)
class Topology:
    """A deployment of `tp * pp * cp * dp` ranks.

    Args:
        tp: tensor-parallel ranks, at least 1.
        pp: pipeline stages.
        cp: context-parallel ranks.
        dp: data-parallel replicas of the attention, each a consensus domain of its own.

    Raises:
        InvalidInputError: a number is below 1, or the product above 4,096.
    """

    tp: int = 1
    pp: int = 1
    cp: int = 1
    dp: int = 1

    def __post_init__(self) -> None:
        for name in ("tp", "pp", "cp", "dp"):
            value = getattr(self, name)
            if not isinstance(value, int):
                raise InputTypeError(f"{name} is {value!r}, expected an int\nhint: leave it out where there is one")
            if value < 1:
                raise InvalidInputError(f"{name} is {value}, limit 1\nhint: leave it out where there is only one")
        if self.ranks > RANKS_MAX:
            factors = f"tp {self.tp} * pp {self.pp} * cp {self.cp} * dp {self.dp}"
            what = f"{factors} are {self.ranks} ranks, limit {RANKS_MAX}"
            raise InvalidInputError(f"{what}\nhint: a domain is one replica; start domains apart")

    @property
    def ranks(self) -> int:
        """Ranks in all domains together."""
        return self.tp * self.pp * self.cp * self.dp

    @property
    def members(self) -> int:
        """Ranks in a domain."""
        return self.tp * self.pp * self.cp

    @property
    def lanes(self) -> int:
        """Ranks in a stage of a domain."""
        return self.tp * self.cp

    def rank_of(self, domain: int, member: int) -> int:
        """The rank that is this member of a domain."""
        stage, lane = divmod(member, self.lanes)
        return (stage * self.dp + domain) * self.lanes + lane

    def place(self, rank: int) -> Place:
        """Where a rank stands.

        Raises:
            InvalidInputError: there is no such rank.
        """
        if not 0 <= rank < self.ranks:
            raise InvalidInputError(
                f"rank is {rank}, limits 0 to {self.ranks - 1}\nhint: ranks are numbered from 0, stage by stage"
            )
        rest, lane = divmod(rank, self.lanes)
        stage, domain = divmod(rest, self.dp)
        cp, tp = divmod(lane, self.tp)
        return Place(rank, domain, stage * self.lanes + lane, stage, cp, tp)

    @cached_property
    def _routes(self) -> list[tuple[int | None, tuple[int, ...]]]:
        return [self._route(member) for member in range(self.members)]

    def source(self, member: int) -> int | None:
        """The member from which frames come to `member`; None for the leader."""
        return self._routes[member][0]

    def receivers(self, member: int) -> tuple[int, ...]:
        """The members to which `member` sends its frames on: one for the leader, two at most for the others."""
        return self._routes[member][1]

    def _route(self, member: int) -> tuple[int | None, tuple[int, ...]]:
        """A binary tree below member 1, in the order of the members: no frame goes up the pipeline, and the leader's
        scheduler, which all others wait for, sends once."""
        if member == 0:
            return None, tuple(range(1, min(2, self.members)))
        return member // 2, tuple(range(2 * member, min(2 * member + 2, self.members)))
