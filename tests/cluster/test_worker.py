"""A rank whose set-up fails says so, and is no rank that crashed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from isoradix.cluster.job import Job, Task, WorkloadOf
from isoradix.consensus import LocalPlane, PlaneLost


class Deaf(LocalPlane):
    """Notes what it is told of a failure; it may fail at that itself."""

    def __init__(self, broken: bool) -> None:
        super().__init__()
        self.told: list[tuple[str, tuple[int, ...] | None]] = []
        self._broken = broken

    def fail(self, reason: str, ranks: tuple[int, ...] | None = None) -> None:
        self.told.append((reason, ranks))
        if self._broken:
            raise OSError("the plane cannot be told")


@pytest.mark.parametrize("broken", [False, True], ids=["plane works", "plane broken"])
@pytest.mark.parametrize(
    ("error", "ranks"),
    [(ValueError("no engine\nhint: none"), None), (PlaneLost("lost", (3,)), (3,))],
    ids=["own", "of another rank"],
)
def test_the_others_are_told_of_a_set_up_that_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception, ranks: tuple[int, ...] | None, broken: bool
) -> None:
    pytest.importorskip("torch")
    from isoradix.cluster import worker

    def refuse(*_: Any) -> None:
        raise error

    plane = Deaf(broken)
    monkeypatch.setattr(worker, "connect", lambda task: plane)
    monkeypatch.setattr("isoradix.copies.engine_for", refuse)
    job = Job(requests=WorkloadOf("agent", 5), capacity=6400, host_capacity=6400)
    memory = worker.Memory(job, job.topology.place(0))
    with pytest.raises(type(error)) as caught:
        worker.Worker(Task(job, 0, 0, str(tmp_path)), io.BytesIO()).run(memory)
    memory.close()
    assert caught.value is error, "the first error is not hidden by a later one"
    first = str(error).split("\n", maxsplit=1)[0]
    assert plane.told == [(f"{type(error).__name__}: {first}", ranks)]
