"""The memory of a process that runs tests: what a module leaves behind is given back when its last test has ended.

Without this, a worker stays at the peak of the largest test that it ever ran.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Generator, Iterator

import pytest

from tests.support.parsed_code import text_of
from tests.support.peak_memory import note_peak

GROWTH = 32 << 20
"""The bytes above the last look at garbage after which it does not wait for the end of the module."""


class Watched:
    """The memory of the process after the last look at its garbage, in bytes."""

    resident = 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Give memory back when the fixtures of a module are gone, too, and after a test that left much of it."""
    done = yield
    note_peak(item.config)
    if nextitem is None or nextitem.path != item.path:
        give_back()
    elif _resident() > Watched.resident + GROWTH:
        free()
    return done


def give_back() -> None:
    """Free what nobody uses any more. The collector visits what is left never again: it stays, as sessions' fixtures do."""
    text_of.cache_clear()
    free()
    gc.freeze()


def free() -> None:
    """Collect garbage, and return what is free to the machine."""
    gc.collect()
    # macOS has no such function.
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
    Watched.resident = _resident()


def _resident() -> int:
    from tenantry.cli.processes.freed_memory import resident

    try:
        return resident()
    except OSError:
        return 0  # the system does not say it


@pytest.fixture(scope="session", autouse=True)
def product_s_memory() -> Iterator[None]:
    """Look for garbage as seldom as the product's processes do, and have one heap, as they."""
    from tenantry.cli.processes.freed_memory import share_one_heap
    from tenantry.cli.processes.serving import COLLECTOR

    share_one_heap()
    before = gc.get_threshold()
    gc.set_threshold(*COLLECTOR)
    yield
    gc.set_threshold(*before)
