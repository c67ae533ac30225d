"""Sleep on a real API server: engines without a pod while nobody needs them, and awake again with what they held."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.cluster.consoles import LIVE_MS, console, signed_in
from tests.cluster.control_plane import Cluster
from tests.cluster.running import Kube, Operator, Platform, condition, engines, object_, operations, token, until
from tests.scenario.cli import tenantry

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]
ALWAYS = {"schedule": [{"start": "00:00", "end": "00:00"}]}
"""A time of sleep without an end."""
PASSWORD, OTHER = "correct horse", "battery staple"


class World(NamedTuple):
    """A tenant's environment `dev`, whose user Alice signs in. space: the namespace of its engine."""

    kube: Kube
    platform: Platform
    operator: Operator
    cluster: Cluster
    home: str
    space: str

    def declare(self, hibernation: dict[str, Any] | None) -> None:
        rules = {"hibernation": hibernation} if hibernation else {}
        self.kube.apply(object_("Environment", "dev", self.home, region="home", deletionPolicy="Delete", **rules))

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.kube.get("environment", "dev", self.home)["status"]
        return found

    def reason(self, what: str = "environment", name: str = "dev") -> str:
        return str(condition(self.kube.get(what, name, self.home))["reason"])

    def sleeps(self) -> None:
        """Return once it does, and nothing is left of its pod."""
        until(lambda: self.reason() == "Sleeping", "it sleeps", explained=self.operator.told)
        until(lambda: self.kube.names("pods", self.space) == [], "its pod is gone", explained=self.operator.told)
        assert self.status()["engine"]["status"] == "SLEEPING"
        assert condition(self.kube.get("environment", "dev", self.home))["status"] == "True"
        assert self.kube.names("persistentvolumeclaims", self.space) == ["engine"]
        assert self.kube.get("statefulset", "engine", self.space)["spec"]["replicas"] == 0

    def wakes(self) -> None:
        until(lambda: self.status()["engine"]["status"] == "RUNNING", "it runs", explained=self.operator.told)

    def sign_in(self, password: str = PASSWORD) -> int:
        url = f"http://engine.{self.space}.svc:8080/api/v1/auth/token"
        with httpx.Client(proxy=self.platform.proxy, trust_env=False, timeout=30) as client:
            return client.post(url, data={"username": "alice", "password": password}).status_code

    def secret(self, password: str) -> dict[str, Any]:
        labels = {"tenantry.dev/credential": "identity"}
        metadata = {"name": "alice", "namespace": self.home, "labels": labels}
        data = {"password": base64.b64encode(password.encode()).decode()}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}

    def until(self, holds: Callable[[], Any], what: str) -> None:
        until(holds, what, explained=self.operator.told)

    def replicas(self) -> int:
        return int(self.kube.get("statefulset", "engine", self.space)["spec"]["replicas"])

    def kill(self) -> None:
        self.operator.process.kill()
        self.operator.process.wait()

    def told_before(self, **engine: Any) -> None:
        """Write the engine's status as it was before a pass that was killed."""
        patch = json.dumps({"status": {"engine": engine}})
        where = ("environment", "dev", "-n", self.home, "--subresource=status", "--type=merge")
        self.kube("patch", *where, "-p", patch)


@pytest.fixture
def dev(platform: Platform, own: Cluster, kube: Kube, home: str) -> Iterator[World]:
    with platform.leader() as operator:
        world = World(kube, platform, operator, own, home, "")
        kube.ready(f"tenant/{home.removeprefix('tenant-')}")
        world.declare(None)
        kube.apply(
            world.secret(PASSWORD),
            object_(
                "Identity", "alice", home,
                environment="dev", username="alice", passwordSecretRef={"name": "alice", "key": "password"}, roles=[],
            ),
        )  # fmt: skip
        for what in ("environment/dev", "identity/alice"):
            kube.ready(what, home, within=300)
        (space,) = engines(kube, home)
        world = world._replace(space=space)
        assert world.sign_in() == 200
        world.declare(ALWAYS)
        world.sleeps()
        yield world
    kube("delete", "environments", "--all", "-n", home, "--wait=false")  # the operators of later tests see to it


def test_an_engine_sleeps_without_a_pod_and_a_person_wakes_it_with_what_it_held(dev: World, tmp_path: Path) -> None:
    kube, home = dev.kube, dev.home
    dev.until(lambda: dev.reason("identity", "alice") == "NotLookedAt", "its contents say so")
    assert operations(kube, home, "dev").count("HIBERNATE_ENVIRONMENT") == 1
    woken = tenantry("--kubeconfig", dev.cluster.kubeconfig, "wake", f"{home}/dev", "--wait", cwd=tmp_path)
    assert (woken.returncode, woken.stdout.strip()) == (0, "environment/dev is awake"), woken.stderr
    assert dev.sign_in() == 200
    assert operations(kube, home, "dev").count("WAKE_ENVIRONMENT") == 1
    dev.until(lambda: dev.reason("identity", "alice") == "Succeeded", "its contents are looked at")
    again = tenantry("--kubeconfig", dev.cluster.kubeconfig, "wake", f"{home}/dev", cwd=tmp_path)
    assert again.stdout.strip() == "environment/dev does not sleep"


def test_an_engine_is_woken_over_rest(dev: World) -> None:
    id_ = dev.kube.get("environment", "dev", dev.home)["metadata"]["uid"]
    headers = {"Authorization": f"Bearer {token(dev.platform.api_url, dev.kube)}"}
    with httpx.Client(base_url=f"{dev.platform.api_url}/api/v1", headers=headers, timeout=90) as client:
        body = client.get(f"/environments/{id_}").json()
        assert (body["status"], body["engine"]["status"]) == ("READY", "SLEEPING")
        woken = client.post(f"/environments/{id_}/wake", headers={"Prefer": "wait=60"})
        assert woken.status_code == 202, woken.text
        operation = client.get(f"/operations/{woken.json()['operation_id']}").json()
        assert (operation["actionType"], operation["result"]) == ("WAKE_ENVIRONMENT", "SUCCESS"), dev.operator.told()
        refused = client.post(f"/environments/{id_}/wake")
        assert (refused.status_code, "does not sleep" in refused.text) == (400, True)
    assert dev.sign_in() == 200


async def test_a_person_wakes_an_engine_in_the_console(dev: World) -> None:
    uid = dev.kube.get("environment", "dev", dev.home)["metadata"]["uid"]
    async with signed_in(dev.platform, dev.kube, f"environments/{uid}") as page:
        await page.get_by_text("Sleeping").first.wait_for(timeout=LIVE_MS)
        await page.get_by_role("link", name="Wake", exact=True).click()
        await page.get_by_role("button", name="Wake", exact=True).click()
        await asyncio.to_thread(dev.wakes)
        await page.goto(f"{console(dev.platform)}environments/{uid}")
        await page.get_by_role("link", name="Wake", exact=True).wait_for(state="detached", timeout=LIVE_MS)
    assert await asyncio.to_thread(dev.sign_in) == 200


def test_a_change_that_needs_the_engine_wakes_it(dev: World) -> None:
    dev.kube.apply(dev.secret(OTHER))
    dev.until(lambda: dev.sign_in(OTHER) == 200, "the new password counts")
    assert dev.sign_in(PASSWORD) == 401
    dev.wakes()
    dev.until(lambda: "WAKE_ENVIRONMENT" in operations(dev.kube, dev.home, "dev"), "it is recorded")


def test_a_kill_between_the_scale_and_the_status_converges(dev: World) -> None:
    since = dev.status()["engine"]["sleepingSince"]
    # An object that finds no engine where the status shows one waits for it, and that would wake it.
    dev.kube("annotate", "identity", "alice", "-n", dev.home, "tenantry.dev/suspend=true")
    # As a pass leaves it that was killed after it scaled the workload: the status shows an engine that runs.
    dev.kill()
    dev.told_before(status="RUNNING", sleepingSince=None)
    with dev.platform.leader() as operator:
        again = dev._replace(operator=operator)
        again.until(lambda: again.status()["engine"].get("sleepingSince") == since, "it sleeps since the same time")
        again.sleeps()
        assert operations(dev.kube, dev.home, "dev").count("HIBERNATE_ENVIRONMENT") == 1
        # And as one that was killed after it woke it: the status shows that it sleeps.
        dev.kube("annotate", "environment", "dev", "-n", dev.home, "tenantry.dev/wake-requested-at=now")
        again.until(lambda: again.replicas() == 1, "it is scaled")
        again.kill()
    dev.told_before(status="SLEEPING", sleepingSince=since)
    with dev.platform.leader() as operator:
        again = dev._replace(operator=operator)
        again.wakes()
        assert again.sign_in() == 200
        again.until(lambda: again.status().get("lastHandledWakeAt") == "now", "the request is answered")
        assert operations(dev.kube, dev.home, "dev").count("WAKE_ENVIRONMENT") == 1


def test_an_engine_that_nobody_uses_falls_asleep(dev: World) -> None:
    dev.declare(None)
    dev.wakes()
    assert dev.sign_in() == 200
    used = datetime.now(UTC)
    dev.declare({"after": "20s"})
    dev.sleeps()
    since = datetime.fromisoformat(dev.status()["engine"]["sleepingSince"])
    assert since - used >= timedelta(seconds=19), "it was used a short time ago"
