"""A scheduler of its own on two ranks: frames, host memory and eviction.

    python examples/two_ranks.py

Each rank is a process with a tree, a scheduler and half of the KV. Both see the same prompts; nothing else is shared but frames.
"""

import multiprocessing
import socket

import torch

from isoradix import Control, SlotPool
from isoradix.consensus import GlooPlane, Topology
from isoradix.copies import engine_for
from isoradix.driver import Driver
from isoradix.kv import DevicePool, HostPool, MHAShape

PAGE, SLOTS, HOST_PAGES = 16, 1024, 256
SHAPE = MHAShape(layers=4, heads=2, head_dim=8, dtype=torch.float32)


class Scheduler:
    def __init__(self, rank, address):
        self.slots = SlotPool(SLOTS, page_size=PAGE)
        self.device, self.host = DevicePool(SHAPE, SLOTS), HostPool(SHAPE, HOST_PAGES, PAGE)
        plane = GlooPlane.connect(Topology(tp=2), rank, address, hosts_store=rank == 0)
        engine = engine_for(self.device, self.host)
        self.driver = Driver(plane, engine, self.slots, page_size=PAGE, host_pages=HOST_PAGES)
        self.running, self.hits = [], [0, 0]

    def take(self, cache, tokens):
        """Device slots; what is evicted stays on host if it is there."""
        if self.slots.available < tokens:
            self.slots.free(cache.evict(tokens - self.slots.available).slots)
        return self.slots.alloc(tokens)

    def admit(self, cache, prompt):
        found = cache.match_prefix(prompt)
        lock = cache.lock(found.node)
        self.hits[0] += found.hit_tokens
        if found.host_tokens:  # what is promised stays on host until it is loaded
            promise = cache.host_lock(found.host_node)
            new = self.take(cache, cache.load_back_need(promise))
            loaded = cache.load_back(promise, new)
            self.hits[1] += loaded
            if not loaded:  # too little to be worth a copy
                cache.unlock_host(promise)
            cache.unlock(lock)
            found = cache.match_prefix(prompt)
            lock = cache.lock(found.node)
        return prompt, found, lock, self.take(cache, len(prompt) - found.length)

    def finish(self, cache, prompt, found, lock, new):
        done = cache.insert(prompt, new, resume=found)
        self.slots.free(new[: done.prefix_len - found.length])  # another request was faster
        cache.unlock(lock)

    def forward(self, prompt, found, lock, new):
        """Stands for the model: a token's KV is its number, written once, and read from the cache ever after."""
        slots = torch.cat([torch.from_numpy(self.driver.cache.slots(found.node)), torch.from_numpy(new)])
        tokens = torch.tensor(prompt, dtype=torch.float32)
        for layer in range(SHAPE.layers):
            for load in self.driver.loads:
                load.wait_layer(layer)  # compute waits for its own copy, decisions never do
            keys = self.device.buffer(layer, "k")
            keys[slots[found.length :]] = tokens[found.length :, None] + layer
            assert torch.equal(keys[slots], (tokens[:, None] + layer).expand(-1, SHAPE.width)), "wrong KV"

    def serve(self, batches):
        for step, prompts in enumerate([*batches, []]):
            last = [Control.stop()] if self.driver.plane.place.leads and step == len(batches) else []
            with self.driver.step(last) as cache:
                for request in self.running:
                    self.finish(cache, *request)
                self.running = [self.admit(cache, prompt) for prompt in prompts]
            for request in self.running:
                self.forward(*request)
        self.driver.close()
        return self.hits, self.driver.digest


def batches():
    """Six users, one after the other, again and again: more than the device holds, less than host does."""
    users = [list(range(1000 * user, 1000 * user + 160)) for user in range(6)]
    return [[users[turn % 6] + list(range(9000 + 100 * turn, 9064 + 100 * turn))] for turn in range(36)]


def rank_main(rank, address, answers):
    answers.put((rank, *Scheduler(rank, address).serve(batches())))


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    spawn = multiprocessing.get_context("spawn")
    answers = spawn.Queue()
    ranks = [spawn.Process(target=rank_main, args=(rank, address, answers)) for rank in range(2)]
    for process in ranks:
        process.start()
    first, second = sorted(answers.get(timeout=120) for _ in ranks)
    for process in ranks:
        process.join()
    assert first[1:] == second[1:], "the ranks have parted"
    print(f"hits on the device {first[1][0]:,}, on host {first[1][1]:,} tokens; both ranks end with {first[2]:016x}")
