"""Capacity of experts that is equal on all ranks, without a wait: python examples/expert_capacity.py

Each rank has buffers of its own for the tokens that go to an expert, and how many are free changes at moments of its
own. A rank that drops tokens by what is free here drops others than its neighbours. So ranks offer what they have,
and use the MIN, from one step on.
"""

import multiprocessing
import random
import socket
import time

from isoradix.consensus import AgreedMin, SteppedPlane, Topology

RANKS, EXPERTS, STEPS = 3, 4, 60


def dispatch(tokens, capacity):
    """Which tokens go to which expert: the first ones, as far as it has room. Equal for equal capacity."""
    room, sent = list(capacity), []
    for token, expert in tokens:
        if room[expert]:
            room[expert] -= 1
            sent.append((token, expert))
    return sent


def rank_main(rank, address, answers):
    plane = SteppedPlane.connect(Topology(tp=RANKS), rank, address, hosts_store=rank == 0)
    own, batches, sent, used = random.Random(rank), random.Random(99), [], set()
    with AgreedMin(plane, size=EXPERTS) as capacity:
        while not capacity.stopped:
            capacity.offer([own.randrange(4, 12) for _ in range(EXPERTS)])  # as it is here, at this moment
            agreed = capacity.step(last=rank == 0 and len(sent) == STEPS - 1)
            tokens = [(token, batches.randrange(EXPERTS)) for token in range(32)]  # the router sees equal activations
            sent.append(dispatch(tokens, agreed.minimum or [0] * EXPERTS))
            used.add(agreed.minimum)
            time.sleep(0.005 * own.random())
    answers.put((rank, sent, len(used)))


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    spawn = multiprocessing.get_context("spawn")
    answers = spawn.Queue()
    for rank in range(RANKS):
        spawn.Process(target=rank_main, args=(rank, address, answers)).start()
    (_, sent, used), *others = sorted(answers.get(timeout=120) for _ in range(RANKS))
    assert all(other == sent for _, other, _ in others), "the ranks have parted"
    tokens = sum(map(len, sent))
    print(f"{RANKS} ranks sent the same {tokens} tokens to {EXPERTS} experts in {len(sent)} steps, {used} capacities")
