"""What ranks do in the tests of what the leader or a minimum decides: functions of a module, so that a process can be
told to run them."""

import threading
import time
from random import Random

from tests.consensus.steps import Member

from isoradix import PrefixCache, SlotPool
from isoradix.consensus import AgreedMin, Decisions

LIMITS = 30


def limited(member: Member) -> tuple[list[tuple[int, int]], list[int]]:
    """A thread of each rank changes its limit of transfers; each step, and what is agreed there. And its own limits."""
    agreed, chance = AgreedMin(member.plane, 1), Random(member.rank)
    own: list[int] = []
    over = threading.Event()

    def turn() -> None:
        for _ in range(LIMITS):
            own.append(chance.randrange(10, 1000))
            agreed.offer([own[-1]])
            time.sleep(0.004 * chance.random())
        own.append(5 + member.rank)
        agreed.offer([own[-1]])
        over.set()

    agreed.offer([1000])
    turning = threading.Thread(target=turn)
    turning.start()
    limits: list[tuple[int, int]] = []
    while not agreed.stopped:
        least = limits[-1][1] if limits else 1000
        now = agreed.step(last=member.leads and least == 5)
        limits.append((now.step, now.minimum[0] if now.minimum else 1000))
        time.sleep(0.002 * chance.random())
    turning.join()
    agreed.leave()
    return limits, own


def flushes(member: Member) -> list[tuple[int, int, str, int, int]]:
    """Two flushes are put off until every rank is idle. The last rank never is for the second one. Each: step, number,
    verdict, cached tokens and the digest after it."""
    cache, slots = PrefixCache(page_size=1), SlotPool(1000, page_size=1)
    decisions, chance = Decisions(member.plane, patience_ms=3000), Random(member.rank)
    last = member.rank == member.plane.topology.ranks - 1
    step = 0
    seen: list[tuple[int, int, str, int, int]] = []
    idle_at = {1: 2 + chance.randrange(20), 2: None if last else 5}
    for flush in (1, 2):
        decisions.ask(flush)
        decisions.report(flush, 1, "pending")
    while not decisions.stopped:
        step += 1
        for one in decisions.step(last=member.leads and decisions.open == 0):
            if one.verdict == "ready":
                cache.reset()
                slots.reset()
            seen.append((step, one.request, one.verdict, cache.total_size, cache.decision_digest))
            decisions.forget(one.request)
        if step < 30:
            cache.insert([step], slots.alloc(1))
        for flush, when in idle_at.items():
            if when == step:
                decisions.report(flush, 1, "ready")
        time.sleep(0.002 * chance.random())
    decisions.leave()
    return seen


def health_checks(member: Member) -> tuple[list[tuple[int, int, str]], list[int]]:
    """Health checks come while ranks are idle at times of their own; the leader drops those that come while it is. What
    was decided, by step, and which each rank would have dropped."""
    decisions, chance = Decisions(member.plane, patience_ms=60_000), Random(member.rank)
    step = 0
    decided: list[tuple[int, int, str]] = []
    idle: list[int] = []
    while not decisions.stopped:
        step += 1
        for one in decisions.step(last=member.leads and step > 40 and decisions.open == 0):
            decided.append((step, one.request, one.verdict))
            decisions.forget(one.request)
        if step <= 40:
            decisions.ask(step)
            if chance.random() < 0.5:
                idle.append(step)
            if member.leads and step in idle:
                decisions.abort(step)
            elif not member.leads or step not in idle:
                decisions.report(step, 1, "ready")
        time.sleep(0.002 * chance.random())
    decisions.leave()
    return decided, idle
