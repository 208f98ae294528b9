"""What the outcomes of engines are held against."""

from dataclasses import replace

from .scenario import Outcome, Scenario


def sound(outcome: Outcome) -> Outcome:
    """The outcome, of which all that a single run can show is right."""
    assert outcome.status == "ok", "\n".join([f"status {outcome.status}", *outcome.errors])
    assert outcome.flush, "the engine did not get idle, or has leaked"
    return outcome


def uncached(scenario: Scenario) -> Scenario:
    """The same engine without a prefix cache, which has no L2 either."""
    usual = Scenario()
    return replace(scenario, backend="none", l2=False, write_policy=usual.write_policy, layout=usual.layout)
