"""`isoradix topology`."""

from typing import Annotated, Any

import typer

from isoradix import __version__
from isoradix.cli.errors import OK
from isoradix.cli.output import show_facts, show_json, show_table
from isoradix.consensus import Place, Topology
from isoradix.storage import Shard

EXAMPLES = """Examples:

  isoradix topology --tp 4 --pp 2 --dp 2
  isoradix topology --tp 8 --ep 8 --layers 61 --latent
  isoradix topology --tp 2 --cp 2 --pp 2 --json
"""

_ROWS_MAX = 64


def topology(
    tp: Annotated[int, typer.Option(help="Tensor-parallel ranks of the attention.")] = 1,
    pp: Annotated[int, typer.Option(help="Pipeline stages.")] = 1,
    cp: Annotated[int, typer.Option(help="Context-parallel ranks.")] = 1,
    dp: Annotated[int, typer.Option(help="Data-parallel replicas of the attention.")] = 1,
    ep: Annotated[int, typer.Option(help="Expert-parallel ranks; divides tp * cp * dp.")] = 1,
    layers: Annotated[int, typer.Option(help="Layers of the model.", min=1)] = 32,
    latent: Annotated[
        bool, typer.Option("--latent", help="Latent attention (MLA): tensor-parallel ranks hold equal bytes.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> int:
    """Draw who is who: domains, stages, lanes, leaders, the way of the frames, and who stores what.

    Ranks of one domain hold equal trees and decide together; domains know nothing of each other. Moving activations
    between context-parallel ranks is the engine's, not this package's.
    """
    shape = Topology(tp, pp, cp, dp, ep)
    places = [shape.place(rank) for rank in range(shape.ranks)]
    shards = [_shard(shape, place, layers, latent) for place in places]
    if json:
        ranks = [_document(shape, place, shard) for place, shard in zip(places, shards, strict=True)]
        sizes = {"tp": tp, "pp": pp, "cp": cp, "dp": dp, "ep": ep, "layers": layers, "latent": latent}
        show_json({"command": "topology", "version": __version__, **sizes, "ranks": ranks})
        return OK
    for domain in range(dp):
        _show_domain(shape, domain, layers)
    if shape.ranks <= _ROWS_MAX:
        header = ("rank", "domain", "member", "stage", "lane", "ep", "frames from", "frames to", "stores", "shard")
        show_table("", header, [_row(shape, *each) for each in zip(places, shards, strict=True)])
    else:
        show_facts([("ranks", f"{shape.ranks}; --json lists them")])
    return OK


def _shard(shape: Topology, place: Place, layers: int, latent: bool) -> Shard:
    held = shape.stage_layers(place.stage, layers)
    return Shard(held.start, len(held), place.tp, shape.tp, place.cp, shape.cp, latent)


def _show_domain(shape: Topology, domain: int, layers: int) -> None:
    """One row a stage, one column a lane; the leader is marked."""
    lanes = [shape.place(shape.rank_of(domain, lane)) for lane in range(shape.lanes)]
    header = ("stage", "layers", *(f"cp {lane.cp} tp {lane.tp}" if shape.cp > 1 else f"tp {lane.tp}" for lane in lanes))
    rows = []
    for stage in range(shape.pp):
        held = shape.stage_layers(stage, layers)
        members = range(stage * shape.lanes, (stage + 1) * shape.lanes)
        ranks = [f"rank {shape.rank_of(domain, member)}{'' if member else ' *'}" for member in members]
        rows.append([str(stage), f"{held.start}-{held.stop - 1}", *ranks])
    show_table(f"domain {domain}: {shape.members} ranks, * leads", header, rows)


def _ends(shape: Topology, place: Place) -> tuple[int | None, list[int]]:
    """The ranks from which this one gets frames, and to which it sends them on."""
    source = shape.source(place.member)
    receivers = [shape.rank_of(place.domain, member) for member in shape.receivers(place.member)]
    return None if source is None else shape.rank_of(place.domain, source), receivers


def _row(shape: Topology, place: Place, shard: Shard) -> list[str]:
    source, receivers = _ends(shape, place)
    numbers = (place.rank, place.domain, place.member, place.stage, place.lane, place.ep)
    way = ("leads" if source is None else str(source), " ".join(map(str, receivers)) or "-")
    return [*map(str, numbers), *way, "yes" if shard.writes else "-", shard.name]


def _document(shape: Topology, place: Place, shard: Shard) -> dict[str, Any]:
    source, receivers = _ends(shape, place)
    about = {name: getattr(place, name) for name in ("rank", "domain", "member", "stage", "cp", "tp", "lane", "ep")}
    way = {"leads": place.leads, "frames_from": source, "frames_to": receivers}
    return {**about, **way, "stores": shard.writes, "shard": shard.name}
