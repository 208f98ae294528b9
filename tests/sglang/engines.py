"""Engines for tests: one process that has imported SGLang runs them, and none runs twice."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from .scenario import Outcome, Scenario

ROOT: Final = Path(__file__).parents[2]
LOG: Final = ROOT / "out" / "sglang-engine.log"


class Engines:
    """Runs scenarios one after another in a process of its own, and remembers what came of each."""

    def __init__(self) -> None:
        LOG.parent.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "tests.sglang.engine", "--full", "--log", str(LOG), "--batch", "-"]
        self._known: dict[str, Outcome] = {}
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment()
        )

    def run(self, scenario: Scenario) -> Outcome:
        """What comes of it. The messages of its ranks are in out/sglang-engine.log until the next one runs.

        Raises:
            RuntimeError: the process that runs engines has ended.
        """
        if scenario.key not in self._known:
            self._known[scenario.key] = self._run(scenario)
        return self._known[scenario.key]

    def _run(self, scenario: Scenario) -> Outcome:
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.write(scenario.key + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise RuntimeError(f"the process that runs engines has ended with {self._process.wait()}")
        values: dict[str, Any] = json.loads(answer)
        del values["scenario"]
        return Outcome(**values)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()  # the engine that it may be running dies with it
        self._process.communicate()


def _environment() -> dict[str, str]:
    """Without what would reach the engines although no scenario says so; programs are found beside this one's own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ISORADIX_", "SGLANG_"))}
    return {**kept, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
