"""A scheduler of its own on two ranks, with frames, host memory and eviction: python examples/two_ranks.py

Each rank has a tree, a scheduler and its half of the KV. Both see the same prompts; only frames and votes go between.
"""

import multiprocessing
import socket
from collections import deque

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
        self.slots, self.running, self.hits = SlotPool(SLOTS, page_size=PAGE), [], [0, 0]
        self.device, self.host = DevicePool(SHAPE, SLOTS), HostPool(SHAPE, HOST_PAGES, PAGE)
        plane = GlooPlane.connect(Topology(tp=2), rank, address, hosts_store=rank == 0)
        copies = engine_for(self.device, self.host)
        self.driver = Driver(plane, copies, self.slots, page_size=PAGE, host_pages=HOST_PAGES)

    def room(self, cache):
        return self.slots.available + cache.evictable_size

    def take(self, cache, tokens):
        """Device slots; what is evicted for them stays on host if it is there."""
        if self.slots.available < tokens:
            self.slots.free(cache.evict(tokens - self.slots.available).slots)
        return self.slots.alloc(tokens)

    def admit(self, cache, prompt):
        found = cache.match_prefix(prompt)
        lock = cache.lock(found.node)
        self.hits[0] += found.hit_tokens
        if found.host_tokens:
            promise = cache.host_lock(found.host_node)  # it stays on host until it is loaded
            self.hits[1] += (loaded := cache.load_back(promise, self.take(cache, cache.load_back_need(promise))))
            if not loaded:  # too little, or too much under way
                cache.unlock_host(promise)
            cache.unlock(lock)
            found = cache.match_prefix(prompt)
            lock = cache.lock(found.node)
        return prompt, found, lock, self.take(cache, len(prompt) - found.length)

    def forward(self, prompt, found, lock, new):
        """Stands for the model: a token's KV is its number, written once, and read ever after."""
        slots = torch.cat([torch.from_numpy(self.driver.cache.slots(found.node)), torch.from_numpy(new)])
        tokens = torch.tensor(prompt, dtype=torch.float32)[:, None]
        for layer in range(SHAPE.layers):
            for load in self.driver.loads:
                load.wait_layer(layer)  # compute waits for its own copy; decisions never do
            keys = self.device.buffer(layer, "k")
            keys[slots[found.length :]] = tokens[found.length :] + layer
            assert torch.equal(keys[slots], (tokens + layer).expand(-1, SHAPE.width)), "wrong KV"

    def finish(self, cache, prompt, found, lock, new):
        done = cache.insert(prompt, new, resume=found)
        self.slots.free(new[: done.prefix_len - found.length])  # cached by another request meanwhile
        cache.unlock(lock)

    def serve(self, waiting):
        while not self.driver.stopped:
            over = self.driver.plane.place.leads and not waiting and not self.running
            with self.driver.step([Control.stop()] if over else []) as cache:
                while self.running:
                    self.finish(cache, *self.running.pop())
                while waiting and len(self.running) < 2 and len(waiting[0]) <= self.room(cache):
                    self.running.append(self.admit(cache, waiting.popleft()))
            for request in self.running:
                self.forward(*request)
        self.driver.close()
        return self.hits, self.driver.digest


def rank_main(rank, address, answers):
    # six users in turn, three questions each time: together more than the device holds, less than host does
    starts = [(1000 * (turn // 3 % 6), 9000 + turn) for turn in range(72)]
    turns = [[*range(user, user + 160), *range(question, question + 64)] for user, question in starts]
    answers.put((rank, *Scheduler(rank, address).serve(deque(turns))))


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    spawn = multiprocessing.get_context("spawn")
    answers = spawn.Queue()
    for rank in range(2):
        spawn.Process(target=rank_main, args=(rank, address, answers)).start()
    (_, hits, digest), (_, *other) = sorted(answers.get(timeout=120) for _ in range(2))
    assert other == [hits, digest], "the ranks have parted"
    print(f"hits: {hits[0]:,} tokens on the device, {hits[1]:,} on host; both ranks end with digest {digest:016x}")
