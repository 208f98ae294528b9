"""Places and routes, by table."""

import pytest

from isoradix import InvalidInputError
from isoradix.consensus import Topology

# topology, rank, (domain, member, stage, cp, tp)
PLACES = [
    (Topology(), 0, (0, 0, 0, 0, 0)),
    (Topology(tp=2, pp=2), 3, (0, 3, 1, 0, 1)),
    (Topology(tp=2, dp=2), 2, (1, 0, 0, 0, 0)),
    (Topology(tp=2, pp=2, dp=2), 1, (0, 1, 0, 0, 1)),
    (Topology(tp=2, pp=2, dp=2), 3, (1, 1, 0, 0, 1)),
    (Topology(tp=2, pp=2, dp=2), 4, (0, 2, 1, 0, 0)),
    (Topology(tp=2, pp=2, dp=2), 7, (1, 3, 1, 0, 1)),
    (Topology(tp=2, pp=1, cp=2), 2, (0, 2, 0, 1, 0)),
    (Topology(tp=2, pp=2, cp=2, dp=3), 22, (2, 6, 1, 1, 0)),
]

# topology, member, source, receivers
ROUTES = [
    (Topology(), 0, None, ()),
    (Topology(tp=2), 0, None, (1,)),
    (Topology(tp=2), 1, 0, ()),
    (Topology(tp=4), 0, None, (1,)),
    (Topology(tp=4), 1, 0, (2, 3)),
    (Topology(tp=4), 3, 1, ()),
    (Topology(pp=3), 1, 0, (2,)),
    (Topology(tp=2, pp=2), 1, 0, (2, 3)),
    (Topology(tp=2, cp=2, pp=2), 2, 1, (4, 5)),
    (Topology(tp=2, cp=2, pp=2), 3, 1, (6, 7)),
    (Topology(tp=2, cp=2, pp=2), 7, 3, ()),
]

# topology, rank, (lane, expert-parallel rank)
LANES = [
    (Topology(), 0, (0, 0)),
    (Topology(tp=2, cp=2, pp=2), 7, (3, 0)),
    (Topology(tp=4, pp=2, dp=2, ep=4), 3, (3, 1)),
    (Topology(tp=4, pp=2, dp=2, ep=4), 4, (0, 2)),  # of the second replica
    (Topology(tp=4, pp=2, dp=2, ep=4), 15, (3, 3)),
    (Topology(tp=4, pp=2, dp=2, ep=8), 13, (1, 5)),
    (Topology(tp=8, ep=8), 5, (5, 5)),
    (Topology(tp=8, ep=2), 5, (5, 1)),
]

# layers, stages, layers of each stage
STAGES = [
    (32, 1, [32]),
    (32, 2, [16, 16]),
    (61, 2, [30, 31]),
    (61, 4, [15, 15, 15, 16]),
    (62, 4, [15, 15, 16, 16]),
    (4, 4, [1, 1, 1, 1]),
]


@pytest.mark.parametrize(("topology", "rank", "expected"), PLACES)
def test_places(topology: Topology, rank: int, expected: tuple[int, ...]) -> None:
    place = topology.place(rank)
    assert (place.domain, place.member, place.stage, place.cp, place.tp) == expected
    assert place.leads == (place.member == 0)
    assert topology.rank_of(place.domain, place.member) == rank


@pytest.mark.parametrize(("topology", "member", "source", "receivers"), ROUTES)
def test_routes(topology: Topology, member: int, source: int | None, receivers: tuple[int, ...]) -> None:
    assert (topology.source(member), topology.receivers(member)) == (source, receivers)


@pytest.mark.parametrize(
    "topology", [Topology(t, p, c, d) for t in (1, 2, 3) for p in (1, 2, 4) for c in (1, 2) for d in (1, 2)]
)
def test_every_member_hears_every_frame_once(topology: Topology) -> None:
    heard = {receiver: member for member in range(topology.members) for receiver in topology.receivers(member)}
    assert heard == {member: topology.source(member) for member in range(1, topology.members)}
    assert sum(len(topology.receivers(member)) for member in range(topology.members)) == topology.members - 1
    places = [topology.place(rank) for rank in range(topology.ranks)]
    assert {(place.domain, place.member) for place in places} == {
        (domain, member) for domain in range(topology.dp) for member in range(topology.members)
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tp": 0}, "tp is 0, limit 1"),
        ({"pp": -1}, "pp is -1, limit 1"),
        ({"tp": 64, "pp": 65}, "4160 ranks, limit 4096"),
        ({"tp": 2, "dp": 2, "ep": 3}, r"ep is 3, and a stage has tp 2 \* cp 1 \* dp 2 = 4 ranks"),
    ],
)
def test_what_is_no_deployment_is_refused(given: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Topology(**given)


def test_a_rank_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="rank is 4, limits 0 to 3"):
        Topology(tp=2, pp=2).place(4)


@pytest.mark.parametrize("topology", [Topology(tp=2, pp=4), Topology(pp=8), Topology(tp=3, cp=2, pp=3)], ids=repr)
def test_no_frame_goes_up_the_pipeline(topology: Topology) -> None:
    for member in range(topology.members):
        for receiver in topology.receivers(member):
            assert receiver // topology.lanes >= member // topology.lanes


@pytest.mark.parametrize(("topology", "rank", "expected"), LANES)
def test_lanes_and_experts(topology: Topology, rank: int, expected: tuple[int, int]) -> None:
    place = topology.place(rank)
    assert (place.lane, place.ep) == expected
    assert place.member == place.stage * topology.lanes + place.lane


def test_experts_are_spread_evenly_over_each_stage() -> None:
    topology = Topology(tp=2, pp=2, cp=2, dp=2, ep=4)
    for stage in range(2):
        experts = [place.ep for place in map(topology.place, range(topology.ranks)) if place.stage == stage]
        assert experts == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(("layers", "stages", "expected"), STAGES)
def test_layers_of_stages(layers: int, stages: int, expected: list[int]) -> None:
    topology = Topology(pp=stages)
    held = [topology.stage_layers(stage, layers) for stage in range(stages)]
    assert [len(each) for each in held] == expected
    assert [layer for each in held for layer in each] == list(range(layers))


def test_layers_that_do_not_reach_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="3 layers in 4 stages"):
        Topology(pp=4).stage_layers(0, 3)
    with pytest.raises(InvalidInputError, match="stage is 4, limits 0 to 3"):
        Topology(pp=4).stage_layers(4, 8)
