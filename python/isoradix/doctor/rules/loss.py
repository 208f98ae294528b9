"""A rank is lost to the others: killed, stopped, failed, or standing still, as lifelines tell it."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from isoradix.consensus.waits import WaitEntry
from isoradix.doctor.evidence import Board, Evidence, Sign
from isoradix.doctor.findings import ITS_OWN, Condition, Finding, Form, Sure, sure_of
from isoradix.doctor.places import place_of
from isoradix.doctor.rules.boards import by_boards
from isoradix.doctor.rules.common import OWN, groups_of_ranks, sources

_WAITS: Final = re.compile(
    r"rank (?P<rank>\d+) (?:at step -?\d+ waits|waited (?P<age>[\d.]+) s) for (?P<operation>\w+) (?P<want>-?\d+) of "
    r"(?:all ranks|rank (?P<peer>\d+)) \(has (?P<have>-?\d+)\)"
)


def killed(evidence: Evidence) -> Finding | None:
    """A lifeline closed without a goodbye."""
    signs = evidence.of_kind("killed", "absent")
    if not signs:
        return None
    culprits = tuple(sorted({sign.number("rank") for sign in signs}))
    who = evidence.roster.names(culprits)
    what = "did not come to the start" if all(sign.kind == "absent" for sign in signs) else "ended without a goodbye"
    return Finding(Form.KILLED, culprits, Condition(f"{who} {what}"), Sure.CERTAIN, sources(signs))


def silent(evidence: Evidence) -> Finding | None:
    """A lifeline is open and nothing comes: the process is stopped, or its machine out of reach."""
    signs = evidence.of_kind("silent")
    if not signs:
        return None
    groups = groups_of_ranks(signs[0].values["ranks"].replace(", ", ",") + " ")
    culprits = tuple(groups[0]) if groups else ()
    age = float(signs[0].values["age"]) if "age" in signs[0].values else None
    text = f"no sign of life of {evidence.roster.names(culprits)}" + ("" if age is None else f" for {age:.1f} s")
    condition = _with_wait(text, evidence, signs[0], age)
    return Finding(Form.STOPPED, culprits, condition, Sure.CERTAIN, sources(signs))


def still(evidence: Evidence) -> Finding | None:
    """A rank stands still and waits for nobody, as its lifeline says."""
    signs = evidence.of_kind("still")
    if not signs:
        return None
    sign = signs[0]
    rank, age = sign.number("rank"), float(sign.values["age"])
    text = f"{evidence.roster.name(rank)} has been at step {sign.values['step']} for {age:.1f} s, on its own"
    operation = None
    if (stack := evidence.stack_of(rank)) is not None:
        place = place_of(stack)
        operation = str(place)
        text += f", in {place}"
    condition = Condition(text, operation=operation, have=sign.values["step"], age_s=age)
    return Finding(Form.HANG, (rank,), condition, Sure.CERTAIN, sources(signs), not_the_network=ITS_OWN)


def own(evidence: Evidence) -> Finding | None:
    """A rank waits for its own queue or thread, as the ranks' boards said together."""
    signs = evidence.of_kind("own")
    if not signs:
        return None
    values, rank = signs[0].values, signs[0].number("rank")
    wait = f"{values['operation']} {values['want']} (has {values['have']}), {values['age']} s"
    text = f"{evidence.roster.name(rank)} waits for {OWN.get(values['operation'], 'its own')}: {wait}"
    age = float(values["age"])
    condition = Condition(text, values["operation"], None, values["want"], values["have"], age)
    return Finding(Form.HANG, (rank,), condition, Sure.CERTAIN, sources(signs), not_the_network=ITS_OWN)


def missing(evidence: Evidence) -> Finding | None:
    """Some ranks are in a collective, and others are not."""
    signs = evidence.of_kind("missing")
    if not signs:
        return None
    values = signs[0].values
    culprits = tuple(rank for group in groups_of_ranks(values["ranks"]) for rank in group)
    text = f"{evidence.roster.names(culprits)} has not come to {values['operation']} {values['want']}: {values['what']}"
    condition = Condition(text, values["operation"], None, values["want"], None, float(values["age"]))
    return Finding(Form.HANG, culprits, condition, Sure.LIKELY, sources(signs))


def ordinals(evidence: Evidence) -> Finding | None:
    """All ranks are in collectives, but not in the same one."""
    signs = evidence.of_kind("ordinals")
    if not signs:
        return None
    values = signs[0].values
    culprits = tuple(rank for group in groups_of_ranks(values.get("ranks", "")) for rank in group)
    text = f"ranks make unequal numbers of calls: {values['what']}"
    condition = Condition(text, age_s=float(values["age"]))
    different = "ranks stand in different collectives"
    return Finding(Form.HANG, culprits, condition, sure_of(culprits, Sure.LIKELY), sources(signs), different)


def nobody(evidence: Evidence) -> Finding | None:
    """A wait was over and no rank stood out."""
    signs = evidence.of_kind("nobody")
    if not signs:
        return None
    if (found := by_boards(_as_boards(evidence, signs[0]), 0.0)) is not None and found.culprits:
        return replace(found, because=sources(signs))
    condition = _with_wait(signs[0].values["what"], evidence, signs[0], None)
    return Finding(Form.HANG, (), condition, Sure.UNDETERMINED, sources(signs))


def _as_boards(evidence: Evidence, sign: Sign) -> Evidence:
    """What a verdict says of each rank, as if it stood on their boards."""
    told = Evidence(roster=evidence.roster)
    for found in _WAITS.finditer(sign.values["what"]):
        peer = -1 if found["peer"] is None else int(found["peer"])
        age = float(found["age"] or 0.0)
        wait = WaitEntry(found["operation"], "", peer, int(found["want"]), int(found["have"]), age)
        told.boards.append(Board(int(found["rank"]), int(found["rank"]), True, (wait,), True, sign.source))
    return told


def _with_wait(text: str, evidence: Evidence, verdict: Sign, age: float | None) -> Condition:
    """With what the rank says that has waited longest: in reports of its log, or else in the verdict itself."""
    told = [sign.values for sign in evidence.of_kind("waited")]
    told = told or [found.groupdict() for found in _WAITS.finditer(verdict.source.text) if found["age"] is not None]
    if not told:
        return Condition(text, age_s=age)
    wait: Mapping[str, str | None] = max(told, key=lambda one: float(one["age"] or 0.0))
    peer = (wait["peer"] or "").removeprefix("rank ")
    shown = f"{wait['operation']} {wait['want']} (has {wait['have']}), {wait['age']} s"
    return Condition(
        f"{text}; rank {wait['rank']} waits for {shown}",
        wait["operation"],
        int(peer) if peer.isdigit() else None,
        wait["want"],
        wait["have"],
        float(wait["age"] or 0.0),
    )


def failed(evidence: Evidence) -> Finding | None:
    """A rank told the others by which error it failed."""
    for sign in evidence.of_kind("failed"):
        if sign.values["type"] not in ("PlaneLost", "DivergenceError"):
            rank = sign.number("rank")
            text = f"{evidence.roster.name(rank)}: {sign.values['type']}: {sign.values['what']}"
            condition = Condition(text, operation=sign.values["type"])
            return Finding(Form.FAILED, (rank,), condition, Sure.CERTAIN, (sign.source,))
    return None
