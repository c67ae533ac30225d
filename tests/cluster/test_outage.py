"""The API server away for minutes, with the operator and the api running: what happens meanwhile, and that nothing is lost.

`TENANTRY_TEST_AWAY_S=300` lets it be five minutes.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request

import pytest

from tests.cluster.control_plane import Cluster
from tests.cluster.running import Kube, Platform, condition, kept, object_, operations, token, until

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]
AWAY_S = float(os.environ.get("TENANTRY_TEST_AWAY_S", "40"))
"""At least longer than a leader may be without its lease."""
SETTLES_S = 240.0
"""The cluster's own controllers come back in their own time, too: that of workloads within a minute, that of namespaces later."""
BEFORE, STAYING = ("here", "edited", "leaving"), {"here", "edited", "late"}


def environment(name: str, **spec: object) -> dict[str, object]:
    return object_("Environment", name, "tenant-acme", region="home", deletionPolicy="Delete", **spec)


def asked(appearing: Platform, path: str, bearer: str, body: object = None) -> tuple[int, object]:
    """The status and the body of the api's answer."""
    sent = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {bearer}", "Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{appearing.api_url}{path}", sent, headers), timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refusal:
        return refusal.code, json.load(refusal)


def named(answer: tuple[int, object]) -> set[str]:
    status, found = answer
    assert status == 200
    assert isinstance(found, list)
    return {each["slug"] for each in found}


def test_an_api_server_that_is_away_for_minutes_costs_nothing(appearing: Platform, own: Cluster, kube: Kube) -> None:
    plane = own.control_plane
    assert plane is not None
    with kept(appearing) as keeper:
        kube.apply(object_("Tenant", "acme", displayName="Acme"))
        kube.ready("tenant/acme")
        kube.apply(*map(environment, BEFORE))
        for name in BEFORE:
            kube.ready(f"environment/{name}", "tenant-acme")
        root, starts = token(appearing.api_url, kube), keeper.starts
        # What is under way when it goes.
        kube.apply(environment("late"), environment("edited", engine={"size": "medium"}))
        kube("delete", "environment", "leaving", "-n", "tenant-acme", "--wait=false")
        plane.stop("kube-apiserver")
        gone = time.monotonic()
        assert {*BEFORE} - {"leaving"} <= named(asked(appearing, "/api/v1/environments", root)), "read from the api's cache"
        status, told = asked(appearing, "/api/v1/tenants", root, {"name": "Nobody", "slug": "nobody"})
        assert status == 503, told
        until(lambda: time.monotonic() >= gone + AWAY_S, "away for long enough", 2 * AWAY_S)
        assert named(asked(appearing, "/api/v1/environments", root))
        assert keeper.starts - starts <= 1, "who lost its lease is started once more, and waits for the API server"
        plane.start()
        back = time.monotonic()

        def settled() -> bool:
            found = [each for each in kube.get("environments", namespace="tenant-acme") if each["metadata"]["name"] in STAYING]
            seen = all(each["status"]["observedGeneration"] == each["metadata"]["generation"] for each in found)
            ready = all(condition(each)["status"] == "True" for each in found)
            return seen and ready

        until(settled, "as declared", SETTLES_S, explained=lambda: kube("get", "environments", "-A", "-o", "yaml"))
        print(f"away for {AWAY_S:.0f} s, as declared {time.monotonic() - back:.1f} s after it came back")
        until(lambda: set(kube.names("environments", "tenant-acme")) == STAYING, "gone: leaving", SETTLES_S)
        for name, actions in {
            "here": ["CREATE_ENVIRONMENT"],
            "edited": ["CREATE_ENVIRONMENT", "UPDATE_ENVIRONMENT"],
            "late": ["CREATE_ENVIRONMENT"],
            "leaving": ["CREATE_ENVIRONMENT", "DELETE_ENVIRONMENT"],
        }.items():
            assert sorted(operations(kube, "tenant-acme", name)) == actions
        until(lambda: named(asked(appearing, "/api/v1/environments", root)) == STAYING, "told by the api")
        assert asked(appearing, "/api/v1/tenants", root, {"name": "Somebody", "slug": "somebody"})[0] == 201
        kube.ready("tenant/somebody")
        assert keeper.starts - starts == 1
