"""The last seen objects, and their listeners."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.kinds.registry import TYPES
from tenantry.model.resource import REQUEST_KEY, Document, Ref, Resource
from tenantry.runtime.cache import PARSED, Cache, Seen
from tests.support.reference_work import seconds_of
from tests.unit.kinds.factories import bound_tenant, environment, region, table, telling, tenant

DEV = Ref("Environment", "tenant-acme", "dev")


def document(resource: Resource[Any, Any], version: int = 1) -> dict[str, Any]:
    """The object as stored in that version."""
    body = {"apiVersion": "tenantry.dev/v1alpha1", "kind": resource.KIND, **resource.to_json()}
    return body | {"metadata": body["metadata"] | {"resourceVersion": str(version)}}


def with_spec(version: int, **spec: Any) -> Document:
    return document(environment(spec=spec), version)


@pytest.fixture
def cache() -> Cache:
    return Cache(TYPES)


@pytest.fixture
def heard(cache: Cache) -> list[Seen]:
    heard: list[Seen] = []
    cache.listen(heard.append)
    return heard


def test_what_is_absorbed_is_there(cache: Cache) -> None:
    cache.absorb(with_spec(1))
    assert cache.document(DEV) == with_spec(1)
    assert cache.resource(DEV) == environment().model_copy(
        update={"metadata": environment().metadata.model_copy(update={"resource_version": "1"})}
    )
    assert cache.resource(DEV._replace(name="live")) is None


def test_an_older_event_takes_nothing_back(cache: Cache, heard: list[Seen]) -> None:
    cache.absorb(with_spec(5, slug="newer"))
    cache.absorb(with_spec(4, slug="older"))
    cache.absorb(with_spec(5, slug="same"))
    assert cache.document(DEV) == with_spec(5, slug="newer")
    assert len(heard) == 1


def test_what_was_written_while_a_list_was_under_way_stays(cache: Cache) -> None:
    cache.absorb(with_spec(1))
    cache.absorb(document(environment("written"), 7))
    cache.sweep("Environment", (), 6)
    assert cache.document(DEV) is None
    assert cache.document(DEV._replace(name="written")) is not None


def test_an_older_event_does_not_raise_the_dead(cache: Cache) -> None:
    cache.absorb(with_spec(1))
    cache.remove(with_spec(6))
    cache.absorb(with_spec(5))
    assert cache.document(DEV) is None


def test_a_younger_namesake_of_the_dead_is_there(cache: Cache) -> None:
    cache.absorb(with_spec(1))
    cache.remove(with_spec(6))
    cache.absorb(with_spec(7))
    assert cache.document(DEV) == with_spec(7)


def test_a_late_removal_does_not_remove_a_younger_namesake(cache: Cache) -> None:
    cache.absorb(with_spec(7))
    cache.remove(with_spec(6))
    assert cache.document(DEV) == with_spec(7)


def test_a_removal_is_remembered_until_the_feed_has_told_it(cache: Cache) -> None:
    cache.remove(with_spec(6))
    cache.settle(DEV)
    cache.absorb(with_spec(5))
    assert cache.document(DEV) is not None


def test_a_complete_list_removes_what_is_not_on_it(cache: Cache, heard: list[Seen]) -> None:
    cache.absorb(document(environment("dev")))
    cache.absorb(document(environment("live")))
    cache.absorb(document(region()))
    cache.sweep("Environment", {(DEV.namespace, "live")}, 2)
    assert [name for _, name in cache.names("Environment")] == ["live"]
    assert cache.count("Region") == 1
    assert [seen.ref.name for seen in heard if seen.after is None] == ["dev"]


LISTED = (
    environment("dev"),
    environment("live", spec={"region": "us"}),
    environment("test", spec={"slug": "dev"}),
)


@table(
    {
        "all": (("Environment", None, ""), ["dev", "live", "test"]),
        "all of a namespace": (("Environment", "tenant-acme", ""), ["dev", "live", "test"]),
        "none of another namespace": (("Environment", "tenant-umbra", ""), []),
        "those of an index key": (("Environment", None, "region=us"), ["live"]),
        "those of an index key in a namespace": (("Environment", "tenant-acme", "slug=dev"), ["dev", "test"]),
        "none of that key in another namespace": (("Environment", "tenant-umbra", "slug=dev"), []),
        "none of an unknown key": (("Environment", None, "slug=none"), []),
        "the one of an id": (("Environment", None, f"id={environment('dev').id}"), ["dev"]),
        "none of another kind": (("App", None, ""), []),
    }
)
def test_a_list_has(seen: Any, expected: list[str]) -> None:
    cache = Cache(TYPES)
    for one in LISTED:
        cache.absorb(document(one))
    assert sorted(resource.metadata.name for resource in cache.resources(*seen)) == expected
    assert cache.count(*seen) == len(expected)


def test_a_list_follows_an_edit(cache: Cache) -> None:
    cache.absorb(with_spec(1, slug="dev"))
    cache.absorb(with_spec(2, slug="develop"))
    assert cache.count("Environment", by="slug=dev") == 0
    assert cache.count("Environment", by="slug=develop") == 1
    cache.remove(with_spec(3, slug="develop"))
    assert cache.count("Environment", by="slug=develop") == 0


def test_a_repeated_request_finds_what_the_first_one_made(cache: Cache) -> None:
    cache.absorb(document(tenant(annotations={REQUEST_KEY: "once"})))
    assert cache.count("Tenant", by="request=once") == 1


def test_a_slug_that_is_held_and_one_that_is_wanted_both_find_the_object(cache: Cache) -> None:
    cache.absorb(document(telling(tenant(spec={"slug": "wanted"}), slug="held")))
    assert cache.count("Tenant", by="slug=held") == cache.count("Tenant", by="slug=wanted") == 1


@table(
    {
        "a first look": (None, True),
        "an edit": ({"spec": {"displayName": "Acme Ltd"}}, True),
        "a status that others go by": ({"status": {"slug": "acme-2"}}, True),
        "a label": ({"metadata": {"labels": {"team": "a"}}}, True),
        "an annotation": ({"metadata": {"annotations": {"team": "a"}}}, True),
        "a deletion": ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, True),
        "the last Operation": ({"status": {"lastOperation": {"id": "op-1"}}}, False),
        "the generation that was seen": ({"status": {"observedGeneration": 9}}, False),
        "nothing but a version": ({}, False),
    }
)
def test_a_change_matters_to_others(seen: dict[str, Any] | None, expected: bool) -> None:
    cache, heard = Cache(TYPES), list[Seen]()
    before = document(bound_tenant())
    if seen is not None:
        cache.absorb(before)
    cache.listen(heard.append)
    after = {**before, **{part: before[part] | fields for part, fields in (seen or {}).items()}}
    cache.absorb({**after, "metadata": after["metadata"] | {"resourceVersion": "2"}})
    assert [one.matters for one in heard] == [expected]


def test_a_removal_matters_to_others(cache: Cache, heard: list[Seen]) -> None:
    cache.absorb(with_spec(1))
    cache.remove(with_spec(2))
    assert [seen.matters for seen in heard] == [True, True]


def test_a_change_is_of_the_lists_before_and_after_it(cache: Cache, heard: list[Seen]) -> None:
    cache.absorb(with_spec(1, slug="dev"))
    cache.absorb(with_spec(2, slug="develop"))
    assert {"slug=dev", "slug=develop"} <= heard[-1].keys


def test_who_listens_no_more_hears_no_more(cache: Cache) -> None:
    heard: list[Seen] = []
    unlisten = cache.listen(heard.append)
    unlisten()
    cache.absorb(with_spec(1))
    assert heard == []


def test_a_fork_goes_its_own_way(cache: Cache, heard: list[Seen]) -> None:
    cache.absorb(with_spec(1))
    fork = cache.snapshot()()
    fork.remove(with_spec(2))
    assert cache.document(DEV) == with_spec(1)
    assert fork.document(DEV) is None
    assert len(heard) == 1


def test_a_copy_is_of_the_moment_of_its_snapshot(cache: Cache) -> None:
    cache.absorb(with_spec(1))
    made = cache.snapshot()
    cache.absorb(with_spec(2, slug="develop"))
    copy = made()
    assert copy.document(DEV) == with_spec(1)
    assert [ref for ref, _ in copy.entries("Environment", by="slug=dev")] == [DEV]
    assert not list(copy.entries("Environment", by="slug=develop"))


def test_two_copies_of_one_snapshot_are_independent(cache: Cache) -> None:
    cache.absorb(with_spec(1))
    made = cache.snapshot()
    one, other = made(), made()
    one.absorb(with_spec(2, slug="other"))
    assert (one.document(DEV), other.document(DEV)) == (with_spec(2, slug="other"), with_spec(1))
    assert list(other.names("Environment", by="slug=other")) == []


@pytest.mark.slow
def test_the_snapshot_of_ten_thousand_objects_is_a_short_step(cache: Cache) -> None:
    """The copy takes 20 times as long."""
    for number in range(10_000):
        cache.absorb(document(environment(f"e{number}")))
    made = cache.snapshot()
    assert made().count("Environment") == 10_000
    snapshot = min(seconds_of(cache.snapshot) for _ in range(5))
    assert 4 * snapshot < min(seconds_of(made) for _ in range(3))


def test_few_are_held_as_typed_objects(cache: Cache) -> None:
    for number in range(PARSED + 10):
        cache.absorb(document(environment(f"e{number}")))
    assert len(list(cache.resources("Environment"))) == PARSED + 10
    assert len(cache._parsed) <= PARSED
