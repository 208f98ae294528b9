"""A storm of aborts, as one rank lives through it.

Two groups of stages, prefill and decode, each with a leader of its own. A request holds a slot on each rank from its
question to its verdict. What a rank sees of it comes at a time of its own, drawn from rank and request: ready,
failed, nothing but pending, or no word at all; and some say another word after it, which must not count. The leaders
abort in steps of their own, so a request may be in any state by then.
"""

from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.consensus.steps import Member

from isoradix import BackpressureError, SlotPool
from isoradix.consensus import Decisions

REQUESTS = 1000
IN_A_STEP = 20
STEPS_LATER = 12
WINDOW = 512
PATIENCE_MS = 700


@dataclass
class Storm:
    """What one rank has seen."""

    verdicts: list[tuple[int, int, int, str, int | None]]
    """Step, request, epoch, verdict and the rank that it names."""
    asked: list[tuple[int, int]]
    digests: list[int]
    occupied: int
    open: int
    remembered: int
    refused: int
    """Reports that did not count."""
    said_late: int
    """Reports that must not count: of an epoch that is over, or after a word that was the last one."""


def storm(member: Member) -> Storm:
    """One rank."""
    decisions = Decisions(member.plane, window=WINDOW, patience_ms=PATIENCE_MS)
    rank = _Rank(decisions, member.rank)
    fate = Random(7000 + member.place.domain)
    aborts: dict[int, list[int]] = {}
    for request in range(REQUESTS):
        aborts.setdefault(1 + request // IN_A_STEP + fate.randrange(STEPS_LATER), []).append(request)
    step = 0
    while not decisions.stopped:
        step += 1
        if member.leads:
            for request in aborts.pop(step, []):
                decisions.abort(request)
        over = rank.asked_all and decisions.open == 0 and not aborts
        rank.step(step, over and member.leads)
    seen = rank.seen(decisions)
    decisions.leave()
    return seen


class _Words:
    """What this rank has said: its first ready or failed is its word about an epoch, and a failure after another word
    is its word about the next one."""

    def __init__(self) -> None:
        self.epochs: dict[int, int] = {}
        self.last: dict[int, str] = {}
        self.failed_late: set[int] = set()

    def ask(self, request: int, epoch: int) -> None:
        self.epochs[request] = epoch
        self.last.pop(request, None)
        if request in self.failed_late:
            self.failed_late.discard(request)
            self.last[request] = "failed"

    def say(self, request: int, epoch: int, report: str) -> bool:
        """Whether it counts."""
        if epoch < self.epochs[request]:
            return False
        counts = request not in self.last
        if counts and report != "pending":
            self.last[request] = report
        elif report == "failed" and self.last.get(request) != "failed":
            self.failed_late.add(request)
        return counts


class _Rank:
    def __init__(self, decisions: Decisions, rank: int) -> None:
        self.decisions, self.chance = decisions, Random(rank)
        self.slots, self.held = SlotPool(REQUESTS + 1, page_size=1), {}  # type: ignore[var-annotated]
        self.waiting = [(request, 1) for request in reversed(range(REQUESTS))]
        self.coming: dict[int, list[tuple[int, int, Any]]] = {}
        self.verdicts: list[tuple[int, int, int, str, int | None]] = []
        self.asked: list[tuple[int, int]] = []
        self.digests: list[int] = []
        self.words, self.refused, self.said_late = _Words(), 0, 0

    @property
    def asked_all(self) -> bool:
        return not self.waiting

    def step(self, step: int, last: bool) -> None:
        """Verdicts, then questions, then what this rank sees by now."""
        decisions = self.decisions
        for one in decisions.step(last=last):
            self.verdicts.append((step, one.request, one.epoch, one.verdict, one.rank))
            self.slots.free(self.held.pop(one.request))
            if one.verdict == "failed" and one.epoch == 1:
                self.waiting.append((one.request, 2))
            else:
                decisions.forget(one.request)
        with suppress(BackpressureError):  # the window is full, on all ranks alike
            for _ in range(min(IN_A_STEP, len(self.waiting))):
                self.ask(step, *self.waiting[-1])
                self.waiting.pop()
        for request, epoch, report in self.coming.pop(step, []):
            if request in self.held:
                self.refused += not decisions.report(request, epoch, report)
                self.said_late += not self.words.say(request, epoch, report)
        self.digests.append(decisions.digest)

    def ask(self, step: int, request: int, epoch: int) -> None:
        """Its slot, its question, and when this rank will see what of it."""
        self.decisions.ask(request, epoch)
        self.held[request] = self.slots.alloc(1)
        self.asked.append((request, epoch))
        self.words.ask(request, epoch)
        kind = self.chance.choices(["ready", "failed", "pending", None], [90, 3, 4, 3])[0]
        if kind is not None:
            when = step + self.chance.randrange(STEPS_LATER)
            self.coming.setdefault(when, []).append((request, epoch, kind))
            if self.chance.random() < 0.1:
                other = "ready" if kind == "failed" else "failed"
                self.coming.setdefault(when + self.chance.randrange(4), []).append((request, epoch, other))

    def seen(self, decisions: Decisions) -> Storm:
        occupied = REQUESTS + 1 - self.slots.available
        return Storm(
            self.verdicts,
            self.asked,
            self.digests,
            occupied,
            decisions.open,
            decisions.remembered,
            self.refused,
            self.said_late,
        )
