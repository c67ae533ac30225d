"""Engines of a host that no Environment has, and the way out."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.kinds.environment.orphaned import HeldEngine, way_out, without_environment

HELD = HeldEngine("id-1", "tenant-acme", "dev", "namespace env-1")


def environment(name: str = "dev", namespace: str = "tenant-acme", uid: str = "id-1", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, "uid": uid}, "spec": spec}


CASES = {
    "its Environment": (environment(), ()),
    "its Environment, by a declared id": (environment(uid="u-2", id="id-1"), ()),
    "another of its name": (environment(uid="u-2"), (HELD,)),
    "another tenant's": (environment(namespace="tenant-other"), (HELD,)),
    "one that was declared with another id": (environment(id="id-2"), (HELD,)),
}


@pytest.mark.parametrize(("there", "orphans"), CASES.values(), ids=CASES)
def test_an_engine_is_its_environments_by_namespace_name_and_id(there: dict[str, Any], orphans: tuple[HeldEngine, ...]) -> None:
    assert tuple(without_environment([HELD], [there])) == orphans


def test_they_come_in_order_and_each_has_a_way_out() -> None:
    other = HELD._replace(id="id-0", name="alpha")
    assert without_environment([HELD, other], []) == [other, HELD]
    assert "spec.id: id-1" in way_out(HELD)
    assert "deletionPolicy: Delete" in way_out(HELD)
