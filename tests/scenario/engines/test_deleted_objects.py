"""Nothing that the runtime keeps for each object outlives the object, of whatever kind."""

from __future__ import annotations

import gc
import re
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import MethodType

import pytest

from tenantry.bootstrap.embedded import Platform
from tenantry.kinds.registry import FOLLOWED, KINDS
from tenantry.model.resource import Ref, held_of
from tenantry.model.tree import Tree
from tenantry.model.verdicts import NotFound
from tenantry.runtime.operations.retention import Keep, Retention
from tests.support.planned_platform import BASE, apply, platform_on, write

MARK = "gone4711"
NAMES = re.compile(r"(?<!\.)\b(?:acme|vera|eu|dev|live|spare|ann|corp)\b")
"""The names of objects in `BASE`."""
BUILTIN = (dict, list, tuple, set, frozenset, deque, MethodType)
OURS = ("tenantry.runtime.", "tenantry.model.")
"""Modules whose objects are looked into; the builtin containers are, too."""


def marked() -> dict[str, str]:
    """The documents of `BASE`, whose names have the mark."""
    return {name: NAMES.sub(lambda found: found[0] + MARK, text) for name, text in BASE.items()}


async def delete_all(platform: Platform) -> None:
    """Delete what was declared, as people do: what depends on others first."""
    for kind in reversed(KINDS):
        for ref in [ref for ref, _ in platform.state.cache.entries(kind)]:
            await _delete(platform, ref)
        await platform.converged()
    for kind in ("Secret", "Namespace"):
        for ref in [ref for ref, _ in platform.state.cache.entries(kind) if MARK in str(ref)]:
            await _delete(platform, ref)


async def _delete(platform: Platform, ref: Ref) -> None:
    with suppress(NotFound):  # it went with another one
        await platform.state.writing.delete(held_of(await platform.state.writing.get(ref)))


async def forget_operations(platform: Platform) -> None:
    state = platform.state
    await Retention(state.writing, state.cache, platform.ports.logs, Keep(total=0), lambda: datetime.now(UTC), KINDS).sweep()


def held(mark: str, *roots: object) -> list[str]:
    """Return the strings with the mark that the runtime holds below these, each with the types on the way.

    The tree of a source is left out: it declares the objects still.
    """
    gc.collect()
    seen, found = set[int](), list[str]()
    ahead: list[tuple[object, tuple[str, ...]]] = [(root, (type(root).__qualname__,)) for root in roots]
    while ahead:
        each, way = ahead.pop()
        if isinstance(each, str) and mark in each:
            found.append(f"{each} in {' > '.join(way)}")
        if (
            id(each) not in seen
            and not isinstance(each, Tree)
            and (isinstance(each, BUILTIN) or type(each).__module__.startswith(OURS))
        ):
            seen.add(id(each))
            ahead += [(one, (*way, type(one).__qualname__)) for one in gc.get_referents(each)]
    return found


@pytest.mark.slow
async def test_nothing_of_a_deleted_object_stays(tmp_path: Path) -> None:
    async with platform_on(tmp_path / "state") as platform:
        await apply(platform, write(tmp_path / "source", marked()))
        missing = [kind for kind in KINDS if kind != "Source" and not list(platform.state.cache.entries(kind))]
        assert missing == []
        await delete_all(platform)
        await forget_operations(platform)
        left = [str(ref) for kind in FOLLOWED for ref, _ in platform.state.cache.entries(kind) if MARK in str(ref)]
        assert left == []
        assert held(MARK, platform.runtime, platform.state.cache) == []
