"""The command line, for every test that runs it."""

from typing import Protocol

import pytest

from isoradix.cli import main


class Answer(Protocol):
    """Runs a command in this process."""

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""


@pytest.fixture
def answer(capsys: pytest.CaptureFixture[str]) -> Answer:
    def run(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
