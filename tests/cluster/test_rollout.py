"""An upgrade restarts engines in waves, on a real API server; pods only look ready."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.charting import NAMESPACE
from tests.cluster.control_plane import Cluster
from tests.cluster.engines import BROKEN
from tests.cluster.running import Audit, Kube, Platform, condition, object_, until
from tests.scenario.cli import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]
TENANT = "waves"
HOME = f"tenant-{TENANT}"
PLAIN = tuple(f"e{number}" for number in range(5))
LATE, PROTECTED = "production", "a-vault"
EVERY = (*PLAIN, LATE, PROTECTED)


def image(tag: str) -> dict[str, str]:
    return {"TENANTRY_CLUSTER__IMAGE": f"tenantry:{tag}"}


@pytest.fixture(scope="module")
def upgraded(appearing: Platform, kube: Kube) -> Iterator[Platform]:
    """A platform of release 1, whose seven environments are Ready."""
    rollout = {"atOnce": 2, "last": [LATE]}
    kube.apply(object_("Region", "home", engine={"rollout": rollout}), object_("Tenant", TENANT, displayName="Waves"))
    with appearing.leader(**image("1")):
        kube.ready(f"tenant/{TENANT}")
        kube.apply(
            *(object_("Environment", each, HOME, region="home") for each in (*PLAIN, LATE)),
            object_("Environment", PROTECTED, HOME, region="home", deletionProtection=True),
        )
        for each in EVERY:
            kube.ready(f"tenv/{each}", HOME)
    yield appearing


def environments(kube: Kube) -> dict[str, Any]:
    return {each["metadata"]["name"]: each for each in kube.get("tenv", namespace=HOME)}


def engine_of(document: Any) -> Any:
    return document.get("status", {}).get("engine", {})


def on(tag: str, kube: Kube) -> set[str]:
    """The environments whose engines run that version, Ready."""
    return {
        name
        for name, each in environments(kube).items()
        if (engine_of(each).get("version"), engine_of(each).get("next", ""), condition(each)["status"]) == (tag, "", "True")
    }


def restarts(kube: Kube, tag: str) -> set[str]:
    """The environments whose workload is of that version already."""
    found = kube.get("statefulsets")
    images = {
        each["metadata"]["labels"]["tenantry.dev/environment"]: each["spec"]["template"]["spec"]["containers"][0]["image"]
        for each in found
    }
    return {name for name, image in images.items() if image.endswith(f":{tag}")}


def rollouts(kube: Kube, tag: str) -> dict[str, str]:
    """The results of the Operations of that upgrade, by environment."""
    found = [each for each in kube.get("operations", namespace=NAMESPACE) if each["spec"]["cause"] == f"rollout-{tag}"]
    return {each["spec"]["target"]["name"]: each["status"]["result"] for each in found}


def order_of_restarts(audit: Audit, kube: Kube) -> list[str]:
    """The environments in the order in which the operator changed their workloads."""
    named = {
        each["metadata"]["name"]: each["metadata"]["labels"]["tenantry.dev/environment"]
        for each in kube.get("namespaces")
        if "tenantry.dev/environment" in each["metadata"].get("labels", {})
    }
    changed = (event["objectRef"] for event in audit.read() if event["verb"] in ("patch", "update") and "objectRef" in event)
    ours = (each for each in changed if each["resource"] == "statefulsets" and "subresource" not in each)
    return list(dict.fromkeys(named[each["namespace"]] for each in ours))


def test_an_upgrade_restarts_engines_in_waves(own: Cluster, upgraded: Platform, kube: Kube) -> None:
    audit, most = Audit(own), 0
    deadline = time.monotonic() + 2 * PATIENCE_S
    with upgraded.leader(**image("2")) as operator:
        while len(on("2", kube)) < len(EVERY):
            assert time.monotonic() < deadline, operator.told()[-4000:]
            begun = restarts(kube, "2")
            # What has begun and is not told to be Ready yet: an upper bound of what restarts.
            most = max(most, len(begun - on("2", kube)))
        order = order_of_restarts(audit, kube)
        assert (set(order[:-2]), order[-2:]) == (set(PLAIN), [LATE, PROTECTED])
        assert most <= 2
        until(lambda: rollouts(kube, "2") == dict.fromkeys(EVERY, "SUCCESS"), "an Operation for each:", explained=operator.told)
        until(lambda: "rollout" not in kube.get("region", "home")["status"], "the region at rest:")


def test_an_operator_that_dies_in_the_middle_goes_on_where_it_was(upgraded: Platform, kube: Kube) -> None:
    with upgraded.leader(**image("3")) as operator:
        until(lambda: restarts(kube, "3"), "a wave:", explained=operator.told)
        operator.process.kill()
    with upgraded.leader(**image("3")) as operator:
        until(lambda: on("3", kube) == set(EVERY), "all of them:", 2 * PATIENCE_S, operator.told)
        until(lambda: rollouts(kube, "3") == dict.fromkeys(EVERY, "SUCCESS"), "an Operation for each:", explained=operator.told)


def test_a_release_that_does_not_start_is_held_up_and_mended_by_the_next(upgraded: Platform, kube: Kube) -> None:
    with upgraded.leader(**image(BROKEN)) as operator:

        def held() -> str:
            return str(kube.get("region", "home")["status"].get("rollout", {}).get("held", ""))

        told = until(held, "a pause:", 2 * PATIENCE_S, operator.told)
        assert re.fullmatch(rf"paused: the engine of {HOME}/e\d(, {HOME}/e\d)? did not start", told)
        broken = restarts(kube, BROKEN)
        assert 1 <= len(broken) <= 2
        others = environments(kube)
        assert {condition(others[each])["status"] for each in set(EVERY) - broken} == {"True"}
        assert {engine_of(others[each])["next"] for each in set(EVERY) - broken} == {BROKEN}
    with upgraded.leader(**image("4")) as operator:
        until(lambda: on("4", kube) == set(EVERY), "all of them:", 2 * PATIENCE_S, operator.told)
