"""A kind of the cache is brought to a list that comes in pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from tenantry.hosts.standalone import fill
from tenantry.kinds.registry import TYPES
from tenantry.model.resource import Document
from tenantry.runtime.cache import Cache

Page = tuple[Sequence[Document], str]


def region(name: str, version: int) -> Document:
    metadata = {"name": name, "uid": f"uid-of-{name}", "resourceVersion": str(version), "generation": 1}
    return {"apiVersion": "tenantry.dev/v1alpha1", "kind": "Region", "metadata": metadata, "spec": {}}


class Paged:
    """A feed of a list in these pages."""

    def __init__(self, *pages: Page) -> None:
        self._pages = pages

    async def pages(self, kind: str) -> AsyncIterator[Page]:
        for page in self._pages:
            yield page


async def filled(cache: Cache, *pages: Page) -> str:
    feed: Any = Paged(*pages)
    return await fill(feed, cache, "Region")


def names(cache: Cache) -> list[str]:
    return sorted(name for _, name in cache.names("Region"))


async def test_the_objects_of_all_pages_are_there_and_no_others() -> None:
    cache = Cache(TYPES)
    cache.absorb(region("gone", 1))
    version = await filled(cache, ([region("a", 2)], "9"), ([], "9"), ([region("b", 3)], "9"))
    assert (names(cache), version) == (["a", "b"], "9")


async def test_a_list_that_is_begun_anew_is_the_last_one_alone() -> None:
    cache = Cache(TYPES)
    version = await filled(cache, ([region("gone", 1), region("a", 2)], "9"), ([region("a", 2), region("b", 10)], "12"))
    assert (names(cache), version) == (["a", "b"], "12")


async def test_what_changes_between_two_pages_stays_as_it_became() -> None:
    cache = Cache(TYPES)

    class Changing(Paged):
        async def pages(self, kind: str) -> AsyncIterator[Page]:
            yield [region("went", 1), region("a", 2)], "9"
            cache.remove(region("went", 10))
            cache.absorb(region("came", 11))
            cache.absorb(region("changed", 12))
            yield [region("changed", 3)], "9"

    feed: Any = Changing()
    await fill(feed, cache, "Region")
    assert names(cache) == ["a", "came", "changed"]
    changed = cache.document(next(ref for ref, _ in cache.entries("Region") if ref.name == "changed"))
    assert changed == region("changed", 12)


async def test_what_goes_after_its_page_is_asked_for_does_not_come_back() -> None:
    cache = Cache(TYPES)

    class Late(Paged):
        async def pages(self, kind: str) -> AsyncIterator[Page]:
            cache.absorb(region("went", 1))
            cache.remove(region("went", 10))
            yield [region("went", 1)], "9"

    feed: Any = Late()
    await fill(feed, cache, "Region")
    assert names(cache) == []
