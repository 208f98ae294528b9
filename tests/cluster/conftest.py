"""Tests marked `cluster` start real processes, which need torch."""

from importlib.util import find_spec

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if find_spec("torch") is not None:
        return
    for item in items:
        if item.get_closest_marker("cluster") is not None:
            item.add_marker(pytest.mark.skip(reason="ranks need torch"))
