"""An engine of others, adopted on a real API server: nothing is deployed for it, and what is declared gets there all the same."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cluster.running import Kube, Platform, condition, engines, object_, until
from tests.scenario.foreign_engine import ForeignEngine
from tests.scenario.serving import serving
from tests.support.cluster_objects import secret
from tests.support.patience import DEADLINE_S

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]
OPEN = {"TENANTRY_OUTBOUND__HTTP": "true"}


@contextmanager
def served(engine: ForeignEngine) -> Iterator[str]:
    """Its URL, while a thread serves it."""
    urls: list[str] = []
    started = threading.Event()
    loop = asyncio.new_event_loop()
    ends = asyncio.Event()

    async def serve() -> None:
        async with serving(engine.http) as url:
            urls.append(url)
            started.set()
            await ends.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert started.wait(DEADLINE_S)
    try:
        yield urls[0]
    finally:
        loop.call_soon_threadsafe(ends.set)
        thread.join(DEADLINE_S)
        loop.close()


def test_an_engine_of_others_is_adopted_and_let_go(platform: Platform, kube: Kube, home: str) -> None:
    engine = ForeignEngine()
    engine.add_user({"username": "bob", "password": "bob's secret"})
    region = object_("Region", "abroad", engine={"external": True, "externalNetworks": ["127.0.0.0/8"]})
    with platform.leader(**OPEN), served(engine) as url:
        kube.apply(region)
        kube.ready(f"tenant/{home.removeprefix('tenant-')}")
        external = {"url": url, "adminSecretRef": {"name": "old-engine"}}
        kube.apply(
            secret(home, "old-engine", "environment", "not the password"),
            secret(home, "ann", "identity", "a first secret"),
            object_("Environment", "old", home, region="abroad", engine={"external": external}),
            object_("Identity", "ann", home, environment="old", username="ann", passwordSecretRef={"name": "ann"}),
        )
        refused = "EngineRefusesPassword"
        until(lambda: condition(kube.get("environment", "old", home), "Ready").get("reason") == refused, refused)
        kube.apply(secret(home, "old-engine", "environment", engine.password))
        kube.ready("environment/old", home)
        kube.ready("identity/ann", home)
        assert engine.passwords()["ann"] == "a first secret"
        assert not engines(kube, home)
        kube("delete", "environment", "old", "-n", home, "--timeout=30s")
        assert sorted(engine.users) == ["admin", "bob"]


def test_an_address_within_the_cluster_is_not_called(platform: Platform, kube: Kube, home: str) -> None:
    with platform.leader(**OPEN):
        kube.apply(object_("Region", "outside", engine={"external": True}))
        kube.ready(f"tenant/{home.removeprefix('tenant-')}")
        kube.apply(secret(home, "old-engine", "environment", "a password"))
        for name, url in (("metadata", "http://169.254.169.254"), ("facade", platform.api_url), ("named", "http://localhost:1")):
            external = {"url": url, "adminSecretRef": {"name": "old-engine"}}
            kube.apply(object_("Environment", name, home, region="outside", engine={"external": external}))
            told = until(lambda: condition(kube.get("environment", name, home), "Ready").get("message"), "told")  # noqa: B023
            assert "not a public address" in told or "address that is not public" in told
            kube("delete", "environment", name, "-n", home, "--timeout=30s")
