"""The page of journals: the trees of two ranks side by side, step by step, and where they part."""

import json
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any, Final

from isoradix.journal.decisions import ranks_named
from isoradix.journal.diff import Comparison
from isoradix.journal.reader import Journal
from isoradix.journal.states import Content, State, States
from isoradix.report.page import Page
from isoradix.report.svg import element

NEAR: Final = 150
"""Steps before and after the focus of which every state is kept."""
FAR: Final = 200
"""States that are kept of all other steps, at most."""
_LOGGED: Final = 12


class _Class:
    """Ranks that were equal as far as they go: one stands for all."""

    def __init__(self, ranks: Sequence[int], journal: Journal) -> None:
        self.ranks, self.journal = tuple(ranks), journal


def view_page(found: Comparison, command: str, version: str, reached: Callable[[int], None]) -> str:
    """The page as HTML; `reached` hears which step is done.

    Raises:
        InvalidInputError: a journal cannot be done again.
    """
    focus = _focus(found)
    kept = steps_kept(_last_step(found), focus)
    classes = []
    for one in _classes(found):
        states = States(one.journal, kept.__contains__, lambda step: abs(step - focus) <= _LOGGED)
        shown = []
        for state in states.run():
            shown.append(_state(state))
            reached(state.step)
        classes.append(
            {"ranks": one.ranks, "states": shown, "note": states.difference, "about": _about(states.content)}
        )
    page = Page(f"isoradix: journals of run {found.group.run}", _lead(found), command)
    page.tiles(_tiles(found))
    data = {"parting": _parting(found), "focus": focus, "head": _head(found), "classes": classes}
    text = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    page.part(element("style", _file("view.css")))
    page.part(_file("view.html"))
    page.part(element("script", text, type="application/json", id="journals"))
    page.part(element("script", _file("view.js")))
    return page.html(version)


def steps_kept(last: int, focus: int) -> frozenset[int]:
    """The steps of which a state is shown: all near the focus, and at even distances those of the rest."""
    apart = -(-last // FAR) or 1
    near = range(max(1, focus - NEAR), min(last, focus + NEAR) + 1)
    return frozenset({*range(1, last + 1, apart), *near, last})


def _file(name: str) -> str:
    return files("isoradix.report").joinpath(name).read_text(encoding="utf-8")


def _last_step(found: Comparison) -> int:
    """The last step that there may be: of a rank that is ahead of a parting, what a leader can be ahead at most."""
    ends = [step for step, _ in found.ended.values()]
    if found.parting is None:
        return max(ends, default=1)
    return found.parting.step + int(found.group.journals[0].head["topology"]["pp"]) + 4


def _focus(found: Comparison) -> int:
    return _last_step(found) if found.parting is None else found.parting.step


def _classes(found: Comparison) -> list[_Class]:
    """Ranks by what they were given or decided where they part; the largest class first."""
    journals = {journal.rank: journal for journal in found.group.journals}
    parting = found.parting
    if parting is None:
        longest = max(journals, key=lambda rank: found.ended.get(rank, (0, ""))[0])
        return [_Class(sorted(journals), journals[longest])]
    by_rank = parting.input.by_rank if parting.input is not None else {}
    if len(set(by_rank.values())) < 2 and parting.decided is not None:
        by_rank = {rank: str(record) for rank, record in parting.decided.by_rank.items()}
    classes: dict[str, list[int]] = {}
    for rank in sorted(journals):
        classes.setdefault(by_rank.get(rank, ""), []).append(rank)
    # the leader is ahead of all others, and so the best to stand for its class
    return [_Class(ranks, journals[ranks[0]]) for ranks in sorted(classes.values(), key=lambda ranks: -len(ranks))]


# the page's data


def _state(state: State) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "step": state.step,
        "digest": f"{state.digest:016x}",
        "sizes": [state.device_tokens, state.host_tokens, state.nodes],
        "set": [[sequence, *node] for sequence, node in state.changed.items()],
        "gone": state.gone,
    }
    if not state.whole:
        shown["open"] = True
    if state.log is not None:
        shown["log"] = state.log
    return shown


def _about(content: Content) -> dict[str, Any]:
    return {f"{sequence}-{length}": [tag, tokens] for (sequence, length), (tag, tokens) in content.by_node.items()}


def _head(found: Comparison) -> dict[str, Any]:
    head = found.group.journals[0].head
    options = head["options"]
    return {"page_size": head["page_size"], "policy": options.get("policy", "lru"), "run": found.group.run}


def _parting(found: Comparison) -> dict[str, Any] | None:
    parting = found.parting
    if parting is None:
        return None
    nodes = {} if parting.decided is None else {str(rank): one.node for rank, one in parting.decided.by_rank.items()}
    return {
        "step": parting.step,
        "input": None if parting.input is None else str(parting.input),
        "decision": None if parting.decided is None else str(parting.decided),
        "culprits": parting.culprits,
        "nodes": nodes,
    }


def _lead(found: Comparison) -> str:
    parting, group = found.parting, found.group
    who = f"Epoch {group.epoch}, domain {group.domain}: {ranks_named(group.ranks)}"
    if parting is None:
        return f"{who} are equal, as far as they go"
    fault = (
        f"{ranks_named(parting.culprits)} at fault" if parting.culprits else "undetermined which of them is at fault"
    )
    return f"{who} parted at step {parting.step:,}, {fault}"


def _tiles(found: Comparison) -> list[tuple[str, str]]:
    parting = found.parting
    tiles = [("ranks", f"{len(found.group.ranks)}"), ("steps compared", f"{found.steps:,}")]
    if parting is None:
        return [*tiles, ("verdict", "equal")]
    frame = "none" if parting.last_frame is None else f"step {parting.last_frame:,}"
    culprit = ranks_named(parting.culprits) if parting.culprits else "undetermined"
    return [*tiles, ("last common frame", frame), ("parted at step", f"{parting.step:,}"), ("culprit", culprit)]
