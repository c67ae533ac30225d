"""The memory of a process that runs tests: what a module leaves behind is given back when its last test has ended.

Without this, a worker stays at the peak of the largest test that it ever ran.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Generator, Iterator

import pytest

from tests.support.parsed_code import text_of


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Give memory back when the fixtures of a module are gone, too."""
    done = yield
    if nextitem is None or nextitem.path != item.path:
        give_back()
    return done


def give_back() -> None:
    """Free what nobody uses any more. The collector visits what is left never again: it stays, as sessions' fixtures do."""
    text_of.cache_clear()
    gc.collect()
    gc.freeze()
    # macOS has no such function.
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


@pytest.fixture(scope="session", autouse=True)
def product_s_collector() -> Iterator[None]:
    """Look for garbage as seldom as the product's processes do."""
    from tenantry.cli.processes.serving import COLLECTOR

    before = gc.get_threshold()
    gc.set_threshold(*COLLECTOR)
    yield
    gc.set_threshold(*before)
