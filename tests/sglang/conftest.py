"""Tests with the real SGLang engine. They run in an environment that has it, and nowhere else are collected."""

import os
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from .engines import Engines

collect_ignore_glob = [] if find_spec("sglang") else ["test_*.py"]


def pytest_report_header() -> str:
    """Says which SGLang it is, or why nothing is collected."""
    if collect_ignore_glob:
        return "tests/sglang: left out, sglang is not installed here (make test-sglang installs it in .venv-sglang)"
    from importlib.metadata import version

    return f"tests/sglang: SGLang {version('sglang')}, cache under test: {tested()}"


def tested() -> str:
    """The back end under test: isoradix, unless BACKEND names another."""
    return os.environ.get("BACKEND") or "isoradix"


@pytest.fixture(scope="session")
def engines() -> Iterator[Engines]:
    with Engines() as running:
        yield running


@pytest.fixture(scope="session")
def backend() -> str:
    return tested()
