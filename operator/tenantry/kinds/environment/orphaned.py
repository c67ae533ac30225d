"""Engines of a host that no Environment has: left by `deletionPolicy: Retain`, an earlier installation or a lost state. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tenantry.model.resource import Document


class HeldEngine(NamedTuple):
    """An engine that a host holds: the Environment that it was made for, by its id, and where it is, for people."""

    id: str
    namespace: str
    name: str
    place: str


def without_environment(held: Iterable[HeldEngine], environments: Iterable[Document]) -> Sequence[HeldEngine]:
    """Return the engines that no Environment has, in order of namespace and name. environments: all there are, of all tenants."""
    known = {
        (each["metadata"].get("namespace", ""), each["metadata"]["name"], each["spec"].get("id") or each["metadata"]["uid"])
        for each in environments
    }
    return sorted((each for each in held if (each.namespace, each.name, each.id) not in known), key=lambda one: one[1:])


def way_out(engine: HeldEngine) -> str:
    """Return what a person can do about such an engine, in a sentence."""
    declared = f"declare Environment {engine.name} in namespace {engine.namespace} with spec.id: {engine.id}"
    return f"to use it again, {declared}; to remove it, declare it so with deletionPolicy: Delete, then delete that Environment"
