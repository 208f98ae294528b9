"""What ranks do in the tests of decisions: functions of a module, so that a process can be told to run them."""

import time
from typing import Any

from tests.consensus.steps import Member

from isoradix.consensus import AgreedMin, Decisions, NotReady, all_waits


def late_member(member: Member) -> list[str]:
    """The last rank says nothing of the first request, and that it waits for the second; the third is ready."""
    decisions = Decisions(member.plane, patience_ms=300)
    for request in (1, 2, 3):
        decisions.ask(request)
    last = member.rank == member.plane.topology.ranks - 1
    for request, report in [(1, None if last else "ready"), (2, "pending" if last else "ready"), (3, "ready")]:
        if report is not None:
            decisions.report(request, 1, report)  # type: ignore[arg-type]
    said = []
    while not decisions.stopped:
        for one in decisions.step(last=member.leads and decisions.open == 0):
            try:
                one.require_ready()
                said.append(f"request {one.request} is ready")
            except NotReady as error:
                said.append(str(error).partition("\n")[0])
    decisions.leave()
    return said


def parts(member: Member) -> None:
    decisions = Decisions(member.plane)
    for number in range(50):
        decisions.ask(number + (1000 if (member.rank, number) == (1, 20) else 0))
        decisions.step()


def other_settings(member: Member) -> None:
    Decisions(member.plane, window=64 + member.rank)


def minima(member: Member) -> list[tuple[int, Any]]:
    """Offers under numbers: a minimum mixes no two of them."""
    agreed, number, found = AgreedMin(member.plane, 2), 0, []
    while not agreed.stopped:
        agreed.offer([10 * number + member.rank, 10 * number - member.rank], number)
        now = agreed.step([number] if member.leads else (), last=member.leads and number == 20)
        if now.number == number:
            found.append((now.step, now.minimum))
            number += 1
    agreed.leave()
    return found


def stays(member: Member) -> list[tuple[str, int]]:
    """The last rank never enters the last step; it sees what the others wait for, until that has lasted too long."""
    decisions, shown = Decisions(member.plane), set()
    decisions.step()
    if member.rank < member.plane.topology.ranks - 1:
        decisions.step(last=member.leads)
        decisions.leave()
    while not member.plane.is_lost():
        waits = [(wait.operation, board.rank) for board in all_waits(member.folder) for wait in board.waits]
        shown |= {(operation, rank) for operation, rank in waits if operation == "leave"}
        time.sleep(0.01)
    member.plane.fail("it has stayed")
    return sorted(shown)
