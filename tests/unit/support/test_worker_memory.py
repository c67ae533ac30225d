"""Memory of a module of tests is given back when its last test has ended."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
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


@pytest.mark.parametrize(
    ("modules", "times"), [(("one", "one", "one"), 1), (("one", "two", "two"), 2), (("one", "two", "one"), 3)]
)
def test_it_comes_after_the_last_test_of_a_module(modules: Sequence[str], times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    monkeypatch.setattr(worker_memory, "give_back", lambda: given.append(1))
    items: list[Any] = [SimpleNamespace(path=Path(module)) for module in modules]
    for item, following in zip(items, [*items[1:], None], strict=True):
        run = worker_memory.pytest_runtest_protocol(item, following)
        next(run)
        with pytest.raises(StopIteration) as ended:
            run.send(True)
        assert ended.value.value is True
    assert len(given) == times
