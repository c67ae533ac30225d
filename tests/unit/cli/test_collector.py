"""The garbage collector of a platform: it stops all threads while it collects, so it collects little at a time."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tenantry.cli.processes.serving import COLLECTOR

MOST = 15_000
"""Objects in one collection: about 8 ms."""


@pytest.fixture
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(*COLLECTOR)
    yield
    gc.set_threshold(*before)


class Node:
    """An object that only the collector can free."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.slow
@pytest.mark.parametrize("kept", [0, 50_000], ids=["nothing is kept", "much is kept"])
def test_a_collection_looks_at_few_objects(thresholds: None, kept: int) -> None:
    looked_at = []

    def seen(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] < 2:
            looked_at.append(sum(len(gc.get_objects(each)) for each in range(info["generation"] + 1)))

    held = []
    gc.callbacks.append(seen)
    try:
        for number in range(100_000):
            node = Node()
            if number < kept:
                held.append(node)
    finally:
        gc.callbacks.remove(seen)
    assert len(looked_at) > 50
    assert max(looked_at) <= MOST


def test_what_a_platform_keeps_is_not_looked_through_for_a_million_objects() -> None:
    young, middle, old = COLLECTOR
    assert young * middle * old >= 1_000_000
