"""Who is who: the ranks of a deployment, their consensus domains and stages, and who sends frames to whom.

Ranks are numbered as serving engines do: pipeline stage outermost, then data-parallel replica (of the attention), then
context-parallel rank, tensor-parallel rank innermost. A *domain* is one data-parallel replica: its ranks hold
isomorphic trees. Frames travel from its leader, member 0, from member to member, and never up the pipeline.

Experts are spread over the ranks of a stage, across replicas. They hold no KV, so expert-parallel groups have no part
in what a domain decides; a topology knows them to be drawn.
"""

from dataclasses import dataclass
from functools import cached_property

from isoradix import InputTypeError, InvalidInputError

RANKS_MAX = 4096


@dataclass(frozen=True)
class Place:
    """Where one rank stands. `member` is its number in its domain, by which the core knows it; 0 is the leader.

    The ranks of one `lane` have one place in their stages each, and hand activations down. `ep` is the expert-parallel
    rank.
    """

    rank: int
    domain: int
    member: int
    stage: int
    cp: int
    tp: int
    lane: int = 0
    ep: int = 0

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
        ep: expert-parallel ranks, which share the ranks of a stage, all replicas together: it divides `tp * cp * dp`.

    Raises:
        InvalidInputError: a number is below 1, the product above 4,096, or `ep` does not divide a stage's ranks.
    """

    tp: int = 1
    pp: int = 1
    cp: int = 1
    dp: int = 1
    ep: int = 1

    def __post_init__(self) -> None:
        for name in ("tp", "pp", "cp", "dp", "ep"):
            value = getattr(self, name)
            if not isinstance(value, int):
                raise InputTypeError(f"{name} is {value!r}, expected an int\nhint: leave it out where there is one")
            if value < 1:
                raise InvalidInputError(f"{name} is {value}, limit 1\nhint: leave it out where there is only one")
        if self.ranks > RANKS_MAX:
            factors = f"tp {self.tp} * pp {self.pp} * cp {self.cp} * dp {self.dp}"
            what = f"{factors} are {self.ranks} ranks, limit {RANKS_MAX}"
            raise InvalidInputError(f"{what}\nhint: a domain is one replica; start domains apart")
        if self.stage_ranks % self.ep:
            stage = f"tp {self.tp} * cp {self.cp} * dp {self.dp} = {self.stage_ranks}"
            raise InvalidInputError(
                f"ep is {self.ep}, and a stage has {stage} ranks\n"
                "hint: experts are spread evenly over the ranks of a stage; pass a divisor"
            )

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

    @property
    def stage_ranks(self) -> int:
        """Ranks in a stage, those of all domains together."""
        return self.lanes * self.dp

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
        ep = rank % self.stage_ranks // (self.stage_ranks // self.ep)
        return Place(rank, domain, stage * self.lanes + lane, stage, cp, tp, lane, ep)

    def stage_layers(self, stage: int, layers: int) -> range:
        """The layers of a pipeline stage: equally many in each, but one more in the last ones where they do not divide.

        Serving engines split them so unless told otherwise.

        Args:
            stage: 0 to `pp` - 1.
            layers: of the model, at least `pp`.

        Raises:
            InvalidInputError: there is no such stage, or a stage would have no layer.
        """
        if not 0 <= stage < self.pp:
            raise InvalidInputError(f"stage is {stage}, limits 0 to {self.pp - 1}\nhint: stages are numbered from 0")
        if layers < self.pp:
            raise InvalidInputError(f"{layers} layers in {self.pp} stages\nhint: every stage needs one")
        each, more = divmod(layers, self.pp)
        first = stage * each + max(0, stage - (self.pp - more))
        return range(first, first + each + (stage >= self.pp - more))

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
