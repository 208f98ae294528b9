"""Which ranks decide together, beside where the server itself says that each stands."""

from types import SimpleNamespace
from typing import Any

import pytest
from benches.sglang import servers

pytestmark = pytest.mark.sglang


@pytest.mark.parametrize(
    ("tp", "pp", "cp", "dp"),
    [(1, 1, 1, 1), (4, 1, 1, 1), (1, 4, 1, 1), (2, 2, 1, 1), (4, 1, 2, 1), (4, 2, 1, 2), (4, 1, 1, 4), (8, 2, 2, 2)],
)
def test_every_rank_stands_where_the_server_has_it(
    monkeypatch: pytest.MonkeyPatch, tp: int, pp: int, cp: int, dp: int
) -> None:
    servers.prepare_import()
    from sglang.srt import runtime_context as server

    from isoradix.integrations.sglang import domain

    widths = server.derive_parallel_widths(
        tp_size=tp, attn_cp_size=cp, attn_dp_size=dp, moe_ep_size=1, moe_dp_size=1, dcp_size=1, dcp_enabled=False
    )
    ranks, domains = [], set()
    for world_rank in range(tp * pp):
        stands: dict[str, Any] = server.derive_spawn_ranks(
            world_rank=world_rank,
            tp_size=tp,
            ep_join_rank_offset=0,
            attn_cp_size=cp,
            attn_tp_size=widths["attn_tp_size"],
            moe_dp_size=1,
            moe_ep_size=1,
        )
        attn_tp_rank, attn_dp_rank = server.derive_attention_ranks(
            tp_rank=stands["tp_rank"], attn_tp_size=widths["attn_tp_size"], attn_cp_size=cp
        )
        parallel = SimpleNamespace(tp_size=tp, pp_size=pp, attn_cp_size=cp, **stands, **widths)
        monkeypatch.setattr(domain, "get_parallel", lambda parallel=parallel: parallel)
        topology, rank = domain.topology()
        place = topology.place(rank)
        assert (place.stage, place.domain) == (stands["pp_rank"], attn_dp_rank)
        assert (place.cp, place.tp) == (stands["attn_cp_rank"], attn_tp_rank)
        ranks.append(rank)
        domains.add(place.domain)
    assert ranks == list(range(topology.ranks))
    assert len(domains) == dp
    assert topology.members == tp * pp // dp
