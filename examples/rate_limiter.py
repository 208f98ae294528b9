"""A rate limit that all ranks apply at one step: python examples/rate_limiter.py

The tokens of a bucket come by a clock, and each rank has its own. So the leader's clock alone fills the buckets, and
what it grants comes with a step. No rank admits more than the one that has room for the fewest: that is a MIN. Queues
are equal, so what is admitted is, too.
"""

import multiprocessing
import random
import socket
import time
from collections import deque

from isoradix.consensus import AgreedMin, SteppedPlane, Topology

RANKS, TENANTS, REQUESTS = 3, 2, 40
PER_SECOND, BURST = (200, 400), 5


class Buckets:
    """The leader's: a tenant's grants since it was asked last."""

    def __init__(self):
        self.filled, self.since = [float(BURST)] * TENANTS, time.monotonic()

    def take(self, most):
        now = time.monotonic()
        grants = []
        for tenant, rate in enumerate(PER_SECOND):
            self.filled[tenant] = min(BURST, self.filled[tenant] + rate * (now - self.since))
            grants.append(min(int(self.filled[tenant]), most))
            self.filled[tenant] -= grants[-1]
            most -= grants[-1]  # the room is for all tenants together
        self.since = now
        return grants


def rank_main(rank, address, answers):
    plane = SteppedPlane.connect(Topology(tp=RANKS), rank, address, hosts_store=rank == 0)
    queues = [deque(range(REQUESTS)) for _ in range(TENANTS)]
    own, buckets, admitted, step = random.Random(rank), Buckets(), [], 0
    with AgreedMin(plane, size=1) as limiter:
        room = 0
        while not limiter.stopped:
            limiter.offer([own.randrange(1, 5)])  # requests that this rank has room for
            leads = rank == 0
            agreed = limiter.step(buckets.take(room) if leads else (), last=leads and not any(queues))
            room = agreed.minimum[0] if agreed.minimum else 0
            step = agreed.step
            for tenant, grant in enumerate(agreed.said):
                count = min(grant, len(queues[tenant]))
                admitted += [(step, tenant, queues[tenant].popleft()) for _ in range(count)]
            time.sleep(0.004 * own.random())
    answers.put((rank, admitted, step))


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    spawn = multiprocessing.get_context("spawn")
    answers = spawn.Queue()
    for rank in range(RANKS):
        spawn.Process(target=rank_main, args=(rank, address, answers)).start()
    (_, admitted, steps), *others = sorted(answers.get(timeout=120) for _ in range(RANKS))
    assert all(other == admitted for _, other, _ in others), "the ranks have parted"
    print(f"{RANKS} ranks admitted the same {len(admitted)} requests of {TENANTS} tenants in {steps} steps")
