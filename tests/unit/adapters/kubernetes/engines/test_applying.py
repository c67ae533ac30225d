"""Writes of an engine's objects while controllers write the same objects."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from tenantry.adapters.kubernetes.engines.applying import TRIES, apply_object
from tenantry.adapters.kubernetes.engines.workload import SPEC_ANNOTATION, labels_of
from tenantry.model.facts import EngineRef, EngineSpec
from tenantry.model.resource import Document
from tenantry.model.verdicts import Conflict, Forbidden, Halt, Transient
from tests.unit.adapters.kubernetes.scripted import Say, client_of, refused, serving

REF = EngineRef("tenant-acme", "dev", "an-id")
WANTED: Document = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "engine", "namespace": "env-1", "labels": labels_of(REF)},
    "spec": {"env": []},
}
FOREIGN = ["TZ"]
MOVED = refused(409, "Conflict")


def stored(version: str, ref: EngineRef = REF, env: list[str] | None = None, **metadata: Any) -> Document:
    """Return the object with foreign variables, as the API server holds it at a version."""
    labels = {**labels_of(ref), "theirs": "kept"}
    about = {"name": "engine", "namespace": "env-1", "uid": "u1", "resourceVersion": version, "labels": labels, **metadata}
    return {**WANTED, "metadata": about, "spec": {"env": FOREIGN if env is None else env}}


async def test_a_status_that_a_controller_writes_in_between_does_not_end_the_pass() -> None:
    script = (Say(body=stored("1")), MOVED, Say(body=stored("2")), Say(body=stored("3", env=[])))
    async with serving(*script) as server, client_of(server.url) as client:
        assert await apply_object(client, WANTED, stored("0"), REF) == stored("3", env=[])
        assert server.methods == ["PATCH", "PUT", "GET", "PUT"]
        put = await server.asked[-1].json()
    assert put["metadata"]["resourceVersion"] == "2"
    assert put["metadata"]["labels"] == {**labels_of(REF), "theirs": "kept"}


SPEC = EngineSpec(REF, "home", "Kubernetes", replicas=2, max_replicas=9)
MADE_FOR: dict[str, Any] = {"annotations": {SPEC_ANNOTATION: json.dumps(asdict(SPEC))}}
SCALED: Document = {**WANTED, "metadata": {**WANTED["metadata"], **MADE_FOR}, "spec": {"env": [], "replicas": 2}}


def scaled(version: str, replicas: int, env: list[str] | None = None) -> Document:
    """Return the workload of SCALED, to which its autoscaler gave a number of pods."""
    document = stored(version, env=env, **MADE_FOR)
    return {**document, "spec": {**document["spec"], "replicas": replicas}}


async def test_the_number_of_an_autoscaler_is_written_only_over_the_version_that_has_it() -> None:
    script = (MOVED, Say(body=scaled("2", 5)), Say(body=scaled("3", 5, env=[])))
    async with serving(*script) as server, client_of(server.url) as client:
        assert await apply_object(client, SCALED, scaled("1", 3), REF) == scaled("3", 5, env=[])
        assert server.methods == ["PATCH", "GET", "PATCH"]
        written = [await each.json() for each in server.asked if each.method == "PATCH"]
    found = [(each["metadata"]["resourceVersion"], each["spec"]["replicas"]) for each in written]
    assert found == [("1", 3), ("2", 5)]


async def test_an_object_that_is_replaced_keeps_the_number_of_its_autoscaler() -> None:
    script = (Say(body=scaled("1", 3)), MOVED, Say(body=scaled("2", 6)), Say(body=scaled("3", 6, env=[])))
    async with serving(*script) as server, client_of(server.url) as client:
        await apply_object(client, SCALED, scaled("0", 3), REF)
        assert server.methods == ["PATCH", "PUT", "GET", "PUT"]
        written = [(await each.json())["spec"]["replicas"] for each in server.asked if each.method == "PUT"]
    assert written == [3, 6]


async def test_a_workload_without_an_autoscaler_is_applied_whatever_its_version() -> None:
    async with serving(Say(body=stored("3", env=[]))) as server, client_of(server.url) as client:
        await apply_object(client, WANTED, stored("1"), REF)
        (patch,) = [await each.json() for each in server.asked]
    assert "resourceVersion" not in patch["metadata"]


NOT_OURS = {
    "it has another owner": (Say(body=stored("2", EngineRef("tenant-beta", "dev", "another"))), "ObjectTaken"),
    "it is being deleted": (
        Say(body=stored("2", deletionTimestamp="2026-11-27T10:00:00Z")),
        "EngineNamespaceDeleting",
    ),
    "it was made again": (Say(body=stored("2", uid="u2")), "Conflict"),
    "it is gone": (refused(404, "NotFound"), "Conflict"),
}


@pytest.mark.parametrize(("now", "reason"), NOT_OURS.values(), ids=NOT_OURS)
async def test_an_object_is_not_replaced_if_in_between(now: Say, reason: str) -> None:
    async with serving(Say(body=stored("1")), MOVED, now) as server, client_of(server.url) as client:
        with pytest.raises(Halt) as halted:
            await apply_object(client, WANTED, stored("0"), REF)
        assert server.methods == ["PATCH", "PUT", "GET"]
    assert halted.value.verdict.reason == reason


async def test_an_object_that_others_write_all_the_time_is_left_to_the_next_pass() -> None:
    rounds = [each for _ in range(TRIES) for each in (MOVED, Say(body=stored("2")))]
    async with serving(Say(body=stored("1")), *rounds) as server, client_of(server.url) as client:
        with pytest.raises(Conflict):
            await apply_object(client, WANTED, stored("0"), REF)
        assert server.methods.count("PUT") == TRIES


async def test_a_quota_that_still_counts_a_deleted_object_is_tried_again_later() -> None:
    full = refused(403, "Forbidden", message='services "engine" is forbidden: exceeded quota: engine, requested: services=1')
    async with serving(full) as server, client_of(server.url) as client:
        with pytest.raises(Halt) as halted:
            await apply_object(client, WANTED, None, REF)
    assert isinstance(halted.value.verdict, Transient)
    assert halted.value.verdict.reason == "QuotaExceeded"


async def test_a_right_that_is_missing_stays_a_refusal() -> None:
    async with serving(refused(403, "Forbidden")) as server, client_of(server.url) as client:
        with pytest.raises(Forbidden):
            await apply_object(client, WANTED, None, REF)
