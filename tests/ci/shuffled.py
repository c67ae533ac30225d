"""A plugin of pytest: modules in random order, and their tests in random order. Every worker gets the same one, by the seed.

The tests of a story keep their order: some of them end with what others look at.
"""

from __future__ import annotations

import os
import random

import pytest

SEED = "TENANTRY_TEST_SEED"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Shuffle the tests. Those of a module stay together: they share what is costly to make."""
    order = random.Random(os.environ[SEED])
    modules: dict[str, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(item.nodeid.partition("::")[0], []).append(item)
    shuffled = list(modules.values())
    order.shuffle(shuffled)
    for tests in shuffled:
        if tests[0].get_closest_marker("story") is None:
            order.shuffle(tests)
    items[:] = [item for tests in shuffled for item in tests]
