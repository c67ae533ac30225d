"""A pass is woken by changes of what it read."""

from __future__ import annotations

from typing import Any

from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.region.spec import Region
from tenantry.kinds.registry import TYPES
from tenantry.model.resource import Ref, Resource
from tenantry.runtime.cache import Cache, Seen
from tenantry.runtime.reconcile.following import Followed, Following, TrackedView
from tests.unit.kinds.factories import environment, region, table

WHO = Ref("App", "tenant-acme", "dev.crm")
DEV = environment("dev").ref


def document(resource: Resource[Any, Any], version: int) -> dict[str, Any]:
    body = {"apiVersion": "tenantry.dev/v1alpha1", "kind": resource.KIND, **resource.to_json()}
    return body | {"metadata": body["metadata"] | {"resourceVersion": str(version)}}


def woken(
    reading: Any, *changes: Resource[Any, Any], first: tuple[Resource[Any, Any], ...] = (), origin: Any = None
) -> list[bool]:
    """A reader of this is woken by these changes: for each waking, is it by a list?"""
    cache, following, found = Cache(TYPES), Following(), list[bool]()
    for one in first:
        cache.absorb(document(one, 1))
    view = TrackedView(cache)
    reading(view)
    following.follow(WHO, view.followed)

    def hear(seen: Seen) -> None:
        found.extend(by_list for who, by_list in following.woken_by(seen) if who == WHO)

    cache.listen(hear)
    for version, one in enumerate(changes, 2):
        cache.absorb(document(one, version), origin)
    return found


def gets(view: TrackedView) -> None:
    view.get(Environment, "tenant-acme", "dev")


def lists(view: TrackedView) -> None:
    view.list(Environment, "tenant-acme")


def lists_all(view: TrackedView) -> None:
    view.list(Environment)


def lists_by(view: TrackedView) -> None:
    view.list(Environment, "tenant-acme", by="slug=dev")


def counts_by(view: TrackedView) -> None:
    view.count(Environment, by="region=eu")


def peeks(view: TrackedView) -> None:
    view.peek(Ref("Region", "", "eu"))


@table(
    {
        "an object, by a change of it": ((gets, environment("dev")), [False]),
        "an absent object, by its appearance": ((gets, environment("dev")), [False]),
        "an object, not by a change of another": ((gets, environment("live")), []),
        "a list, by what is new in it": ((lists, environment("live")), [True]),
        "a list, not by another kind": ((lists, region()), []),
        "a list of all, by any": ((lists_all, environment("live")), [True]),
        "a list by a key, by what has the key": ((lists_by, environment("a", spec={"slug": "dev"})), [True]),
        "a list by a key, not by what has another": ((lists_by, environment("live")), []),
        "a count, by what it would count": ((counts_by, environment("live")), [True]),
        "a count, not by what it would not": ((counts_by, environment("far", spec={"region": "us"})), []),
        "a document, by a change of it": ((peeks, region("eu")), [False]),
    }
)
def test_who_read(seen: Any, expected: list[bool]) -> None:
    reading, change = seen
    assert woken(reading, change) == expected


def test_who_listed_is_woken_by_what_leaves_the_list() -> None:
    assert woken(lists_by, environment("dev", spec={"slug": "other"}), first=(environment("dev"),)) == [True]


def test_a_pass_is_not_woken_by_its_own_writes() -> None:
    assert woken(gets, environment("dev"), origin=WHO) == []
    assert woken(lists, environment("dev"), origin=WHO) == []
    assert woken(gets, environment("dev"), origin=DEV) == [False]


def test_who_read_something_else_since_is_not_woken_by_it() -> None:
    following = Following()
    following.follow(WHO, {DEV})
    following.follow(WHO, {Ref("Region", "", "eu")})
    assert list(following.woken_by(Seen(DEV, None, None, None))) == []
    assert list(following.woken_by(Seen(Ref("Region", "", "eu"), None, None, None))) == [(WHO, False)]


def test_who_follows_nothing_is_forgotten() -> None:
    following = Following()
    following.follow(WHO, {DEV})
    following.follow(WHO, set())
    assert (len(following._followed), len(following._followers)) == (0, 0)


def test_what_is_read_counts_at_once_while_the_pass_runs() -> None:
    following, cache = Following(), Cache(TYPES)

    def reads(what: Followed) -> None:
        following.also(WHO, what)

    TrackedView(cache, reads).get(Region, "", "eu")
    assert list(following.woken_by(Seen(Ref("Region", "", "eu"), None, None, None))) == [(WHO, False)]


def test_nobody_follows_itself() -> None:
    following = Following()
    following.also(DEV, DEV)
    following.follow(DEV, {DEV})
    assert list(following.woken_by(Seen(DEV, None, None, None))) == []
