"""What consensus costs the scheduler's thread, once a step: no plane, GlooPlane, ChainPlane, a blocking all-reduce.

    python -m benches.planes                     4 and 8 ranks, 10 ms steps, with and without other work
    python -m benches.planes --ranks 4 --steps 200 --loads idle --json

All ranks are processes on this machine, and all planes are measured in one run, one after the other, on the same ranks.
A step is `enter`, an insert, `close`, then a forward pass: a sleep to the next tick of 10 ms, so no rank is faster than
another. Loads: `idle` has nothing else; `busy` has one process that computes on every core; `gil` has a thread in every
rank that computes in Python and so holds the interpreter's lock.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from tests.ports import free_port

PAGE = 16
SLOTS = 64 * PAGE
PLANES = ("none", "gloo", "chain", "all-reduce")
LOADS = ("idle", "busy", "gil")


# one rank


def serve(config: dict[str, Any], rank: int) -> None:
    """Measures every plane under every load on this rank, and prints what it found as one line of JSON."""
    import torch

    torch.set_num_threads(1)
    if config["scheduler"] == "rr":
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    store, _ = _open_store(config, rank)
    found: dict[str, Any] = {}
    for epoch, (load, plane) in enumerate((load, plane) for load in config["loads"] for plane in PLANES):
        store.set(f"ready/{epoch}/{rank}", "")
        store.wait([f"ready/{epoch}/{other}" for other in range(config["ranks"])])
        with _python_beside() if load == "gil" else nullcontext():
            found[f"{load}/{plane}"] = _measure(plane, config, rank, store, epoch)
    store.set(f"done/{rank}", "")
    store.wait([f"done/{other}" for other in range(config["ranks"])])
    print(json.dumps(found), flush=True)


def _open_store(config: dict[str, Any], rank: int) -> tuple[Any, str]:
    from isoradix.consensus.remote import PATIENCE
    from isoradix.consensus.rendezvous import open_store

    return open_store(f"127.0.0.1:{config['port']}", rank == 0, PATIENCE)


def _measure(plane: str, config: dict[str, Any], rank: int, store: Any, epoch: int) -> dict[str, Any]:
    from isoradix.consensus import ChainPlane, GlooPlane, LocalPlane, Topology

    topology = Topology(tp=config["tp"], pp=config["ranks"] // config["tp"])
    options = {"epoch": epoch, "wait_board": Path(config["folder"])}
    if plane == "none":
        return _run(LocalPlane(epoch=epoch), config)
    if plane == "all-reduce":
        return _run(LocalPlane(epoch=epoch), config, before=_all_reduce(store, config["ranks"], rank, epoch))
    made = (GlooPlane if plane == "gloo" else ChainPlane)(topology, rank, store, **options)
    return _run(made, config)


def _all_reduce(store: Any, ranks: int, rank: int, epoch: int) -> Callable[[], None]:
    """MIN over eight counts, on the scheduler's thread, waited for."""
    import torch
    import torch.distributed as dist

    options = dist.ProcessGroupGloo._Options()
    options._devices = [dist.ProcessGroupGloo.create_device(hostname="127.0.0.1")]
    group = dist.ProcessGroupGloo(dist.PrefixStore(f"all-reduce/{epoch}", store), rank, ranks, options)
    counts = torch.zeros(8, dtype=torch.int64)
    minimum = dist.AllreduceOptions()
    minimum.reduceOp = dist.ReduceOp.MIN
    return lambda: group.allreduce([counts], minimum).wait()


def _run(plane: Any, config: dict[str, Any], *, before: Callable[[], None] | None = None) -> dict[str, Any]:
    """Microseconds of `enter` (and of `before`) in each step; votes, and their age."""
    from isoradix import Control, SlotPool
    from isoradix.driver import Driver

    driver = Driver(plane, None, SlotPool(SLOTS, page_size=PAGE), page_size=PAGE)
    loop_ms = 0.0
    leads, steps, pause_s = plane.place.leads, config["steps"], config["step_ms"] / 1000
    spent = []
    tick = time.monotonic()
    for number in range(steps):
        controls = [Control.stop()] if leads and number == steps - 1 else []
        start = time.perf_counter_ns()
        if before is not None:
            before()
        entered = time.perf_counter_ns()
        driver.enter(controls)
        end = time.perf_counter_ns()
        # the blocking all-reduce is measured without the cache's own work, which is what `none` has
        spent.append(entered - start if before is not None else end - entered)
        if driver.slots.available < PAGE:
            driver.slots.free(driver.cache.evict(PAGE).slots)
        driver.cache.insert([number] * PAGE, driver.slots.alloc(PAGE))
        driver.end()
        if number == steps - 2:
            loop_ms = _fixed_loop_ms()
        tick += pause_s
        time.sleep(max(0.0, tick - time.monotonic()))
    driver.close()
    counts = plane.counts
    warm = sorted(spent[len(spent) // 10 :])
    return {
        "median_us": statistics.median(warm) / 1e3,
        "p99_us": warm[int(len(warm) * 0.99)] / 1e3,
        "votes": counts.votes,
        "vote_age_ms": counts.vote_age_ms / max(1, counts.votes_framed),
        "vote_age_steps": counts.vote_age_steps / max(1, counts.votes_framed),
        "loop_ms": loop_ms,
    }


def _fixed_loop_ms() -> float:
    """Milliseconds of a fixed loop in Python, on all ranks at the same time: what votes take from it is the plane's."""
    start = time.perf_counter()
    total = 0
    for number in range(2_000_000):
        total += number & 7
    return (time.perf_counter() - start) * 1e3


@contextmanager
def _python_beside() -> Iterator[None]:
    over = threading.Event()

    def work() -> None:
        total = 0
        while not over.is_set():
            for number in range(10_000):
                total += number & 7

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


# all ranks


def measure(ranks: int, config: dict[str, Any]) -> dict[str, Any]:
    """Starts the ranks, and gives what the leader found."""
    with tempfile.TemporaryDirectory() as folder:
        given = {**config, "ranks": ranks, "port": free_port(), "folder": folder}
        command = [sys.executable, "-m", "benches.planes", "--serve", json.dumps(given)]
        processes = [
            subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, text=True) for rank in range(ranks)
        ]
        answers = [process.communicate()[0] for process in processes]
    return dict(json.loads(answers[0].splitlines()[-1]))


def show(ranks: int, found: dict[str, Any], loads: list[str], title: str) -> None:
    print(f"\n{ranks} ranks, {title}")
    header = f"{'load':6} {'leader, us':17} {'median':>10} {'p99':>10} {'of all-reduce':>16} {'votes':>7}"
    print(f"{header} {'vote age, steps':>16} {'fixed loop':>12}")
    for load in loads:
        blocking = found[f"{load}/all-reduce"]
        for plane in PLANES:
            row = found[f"{load}/{plane}"]
            ratios = f"{row['median_us'] / blocking['median_us']:.3f} / {row['p99_us'] / blocking['p99_us']:.2f}"
            age = f"{row['vote_age_ms']:.1f} ms, {row['vote_age_steps']:.1f}" if plane == "gloo" else ""
            slower = row["loop_ms"] / found[f"{load}/none"]["loop_ms"]
            print(
                f"{load:6} {plane:17} {row['median_us']:>10.0f} {row['p99_us']:>10.0f} {ratios:>16}"
                f" {row['votes']:>7} {age:>16} {slower:>12.2f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="4,8", help="numbers of ranks, between commas")
    parser.add_argument("--tp", type=int, default=2, help="tensor-parallel ranks")
    parser.add_argument("--steps", type=int, default=300, help="steps of each case")
    parser.add_argument("--step-ms", type=float, default=10.0, help="milliseconds of a forward pass")
    parser.add_argument("--loads", default=",".join(LOADS), help="loads, between commas")
    parser.add_argument("--scheduler", choices=("default", "rr"), default="default", help="of the ranks' processes")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--serve", nargs=2, metavar=("CONFIG", "RANK"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(json.loads(given.serve[0]), int(given.serve[1]))
        return
    loads = given.loads.split(",")
    found: dict[str, Any] = {}
    for ranks in map(int, given.ranks.split(",")):
        merged: dict[str, Any] = {}
        for load in loads:
            config = {"tp": given.tp, "steps": given.steps, "step_ms": given.step_ms, "loads": [load]}
            with _busy_cores() if load == "busy" else nullcontext():
                merged |= measure(ranks, {**config, "scheduler": given.scheduler})
        found[str(ranks)] = merged
        if not given.json:
            show(ranks, merged, loads, f"steps of {given.step_ms:g} ms, {given.scheduler} scheduler")
    if given.json:
        print(json.dumps(found, indent=2))


@contextmanager
def _busy_cores() -> Iterator[None]:
    command = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
