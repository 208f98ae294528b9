"""Speculative decoding: how many drafted tokens are accepted, equal on all ranks: python examples/accept_length.py

Ranks verify a draft by logits that may differ in the last bit, so one may accept a token that another one does not.
What is agreed is the MIN for each request. Drafts are numbered: a minimum mixes no offers about two of them.
Meanwhile ranks step on, with other work.
"""

import multiprocessing
import random
import socket
import time

from isoradix.consensus import AgreedMin, SteppedPlane, Topology

RANKS, REQUESTS, DRAFTED, DRAFTS = 3, 4, 5, 30


def verify(own, draft):
    """Tokens of each request that this rank accepts: one less where a rounding went the other way."""
    model = random.Random(draft)
    return [max(0, model.randrange(DRAFTED + 1) - (own.random() < 0.2)) for _ in range(REQUESTS)]


def rank_main(rank, address, answers):
    plane = SteppedPlane.connect(Topology(tp=RANKS), rank, address, hosts_store=rank == 0)
    own, lengths, cut, draft, steps = random.Random(rank), [0] * REQUESTS, 0, 0, 0
    history = []
    with AgreedMin(plane, size=REQUESTS) as accepted:
        mine = verify(own, draft)
        accepted.offer(mine, number=draft)
        while not accepted.stopped:
            agreed = accepted.step(last=rank == 0 and draft == DRAFTS)
            steps += 1
            if agreed.number == draft and draft < DRAFTS:
                lengths = [length + one + 1 for length, one in zip(lengths, agreed.minimum, strict=True)]
                cut += sum(mine) - sum(agreed.minimum)  # accepted here, and rolled back
                history.append((agreed.step, tuple(lengths)))
                draft += 1
                mine = verify(own, draft)
                accepted.offer(mine, number=draft)
            time.sleep(0.003 * own.random())  # batches of other requests
    answers.put((rank, history, cut, steps))


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    spawn = multiprocessing.get_context("spawn")
    answers = spawn.Queue()
    for rank in range(RANKS):
        spawn.Process(target=rank_main, args=(rank, address, answers)).start()
    (_, history, cut, steps), *others = sorted(answers.get(timeout=120) for _ in range(RANKS))
    assert all(other == history for _, other, _, _ in others), "the ranks have parted"
    rolled_back = cut + sum(other for _, _, other, _ in others)
    tokens = sum(history[-1][1])
    print(
        f"{RANKS} ranks accepted the same {tokens} tokens of {len(history)} drafts, {rolled_back} rolled back somewhere"
    )
