"""Memory of a module of tests is given back when its last test has ended."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import worker_memory
from tests.support.parsed_code import text_of


class Node:
    """An object that only the collector can free."""

    def __init__(self) -> None:
        self.itself = self


def test_what_nobody_uses_is_freed_at_once() -> None:
    text, node = text_of(Path(__file__)), weakref.ref(Node())
    worker_memory.give_back()
    assert node() is None
    assert text_of(Path(__file__)) is not text, "texts are those of one module's tests"


def test_what_is_left_is_not_looked_at_again() -> None:
    node = Node()
    worker_memory.give_back()
    assert not any(each is node for each in gc.get_objects())


def run_in_order(modules: Sequence[str]) -> None:
    items: list[Any] = [SimpleNamespace(path=Path(module), config=SimpleNamespace(stash=pytest.Stash())) for module in modules]
    for item, following in zip(items, [*items[1:], None], strict=True):
        run = worker_memory.pytest_runtest_protocol(item, following)
        next(run)
        with pytest.raises(StopIteration) as ended:
            run.send(True)
        assert ended.value.value is True


@pytest.mark.parametrize(
    ("modules", "times"), [(("one", "one", "one"), 1), (("one", "two", "two"), 2), (("one", "two", "one"), 3)]
)
def test_it_comes_after_the_last_test_of_a_module(modules: Sequence[str], times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    monkeypatch.setattr(worker_memory, "give_back", lambda: given.append(1))
    monkeypatch.setattr(worker_memory, "_resident", lambda: 0)
    run_in_order(modules)
    assert len(given) == times


@pytest.mark.parametrize(("percent", "times"), [(0, 0), (25, 0), (50, 1), (200, 4)])
def test_a_test_that_leaves_much_is_looked_after_at_once(percent: int, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five tests of a module: each leaves so much of the growth that is too much. The last one ends the module."""
    sizes = count(worker_memory.GROWTH * percent // 100, worker_memory.GROWTH * percent // 100)
    held = [0]

    def resident() -> int:
        held.append(next(sizes))
        return held[-1]

    looked = list[int]()

    def free() -> None:
        looked.append(1)
        worker_memory.Watched.resident = held[-1]

    monkeypatch.setattr(worker_memory.Watched, "resident", 0)
    monkeypatch.setattr(worker_memory, "free", free)
    monkeypatch.setattr(worker_memory, "give_back", lambda: None)
    monkeypatch.setattr(worker_memory, "_resident", resident)
    run_in_order(["one"] * 5)
    assert len(looked) == times
