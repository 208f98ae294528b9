"""Which ranks decide together, and the plane that connects this one to them."""

from pathlib import Path
from typing import Any

import torch.distributed as dist
from sglang.srt.runtime_context import get_parallel

from isoradix import Patience
from isoradix.consensus import GlooPlane, LocalPlane, Topology
from isoradix.consensus.plane import Plane
from isoradix.consensus.rendezvous import address_toward
from isoradix.integrations.sglang.options import Options


def topology() -> tuple[Topology, int]:
    """The server's topology, and this process's rank in it.

    Both number ranks alike: stage outermost, then replica of the attention, context rank, tensor rank. Replicas under
    `--enable-dp-attention` are domains of their own; those of a plain `--dp-size` are servers of their own.
    """
    parallel = get_parallel()
    shape = Topology(tp=parallel.attn_tp_size, pp=parallel.pp_size, cp=parallel.attn_cp_size, dp=parallel.attn_dp_size)
    return shape, parallel.pp_rank * parallel.tp_size + parallel.tp_rank


def connect(server_args: Any, options: Options) -> Plane:
    """This rank's plane. Its groups are made in the store of the server's own start.

    Raises:
        PlaneLost: a rank did not come.
    """
    shape, rank = topology()
    if shape.members == 1:
        return LocalPlane(shape, rank)
    return GlooPlane(
        shape,
        rank,
        dist.distributed_c10d._get_default_store(),
        patience=Patience(options.report_ms, options.fatal_ms),
        address=_address(server_args),
        wait_board=None if options.wait_board is None else Path(options.wait_board),
    )


def _address(server_args: Any) -> str:
    """Of this machine, as the other ranks reach it."""
    if server_args.nnodes == 1 or not server_args.dist_init_addr:
        return "127.0.0.1"
    host, _, port = server_args.dist_init_addr.removeprefix("tcp://").rpartition(":")
    return address_toward(host.strip("[]"), int(port))
