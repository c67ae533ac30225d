"""Many writes of one object at once on a real API server, through two replicas of the api: each has its own Operation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cluster.charting import NAMESPACE
from tests.cluster.running import Kube, Platform, object_, token, until
from tests.scenario.rest_world import PASSWORD
from tests.support.published_packages import package

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]


class Replicas:
    """Both apis, asked in turn as a SUPERUSER."""

    def __init__(self, urls: tuple[str, str], bearer: str, kube: Kube) -> None:
        self.urls = urls
        self.kube = kube
        self.headers = {"Authorization": f"Bearer {bearer}"}

    def environment(self, name: str) -> str:
        """Make an environment of its own for a test. Return its id once it is Ready."""
        self.kube.apply(object_("Environment", name, "tenant-busy", region="home", deletionPolicy="Delete"))
        self.kube.ready(f"environment/{name}", "tenant-busy")
        listed = self.at_once(("GET", "/api/v1/environments", {}))[0].json()
        return next(str(one["id"]) for one in listed if one["slug"] == name)

    def at_once(self, *requests: tuple[str, str, dict[str, Any]]) -> list[httpx.Response]:
        """Sends method, path and options of each."""
        return asyncio.run(self._send(requests))

    async def _send(self, requests: tuple[tuple[str, str, dict[str, Any]], ...]) -> list[httpx.Response]:
        turn = count()
        async with httpx.AsyncClient(timeout=120, headers=self.headers, limits=httpx.Limits(max_connections=None)) as http:
            sent = (http.request(method, f"{self.urls[next(turn) % 2]}{path}", **more) for method, path, more in requests)
            return await asyncio.gather(*sent)

    def results(self, action: str, id_: str) -> list[str]:
        """Of the Operations of that action in an environment, once all have ended."""

        def found() -> list[dict[str, Any]]:
            every = self.kube.get("operations", namespace=NAMESPACE)
            return [one for one in every if (one["spec"]["action"], one["spec"].get("environmentId")) == (action, id_)]

        until(lambda: all(one["status"]["status"] == "COMPLETED" for one in found()), f"{action} ended")
        return [one["status"]["result"] for one in found()]


@pytest.fixture(scope="module")
def replicas(platform: Platform, kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    folder: Path = tmp_path_factory.mktemp("other")
    (folder / "blobs").symlink_to(platform._folder / "blobs", target_is_directory=True)
    other = platform.replica(folder)
    with other.api() as second, platform.leader():
        kube.apply(object_("Region", "home"), object_("Tenant", "busy", displayName="Busy"))
        kube.ready("tenant/busy")
        yield Replicas((platform.api_url, second), token(platform.api_url, kube), kube)


def refused(answers: list[httpx.Response]) -> list[tuple[int, str]]:
    return [(each.status_code, each.text) for each in answers if each.status_code != 200]


def test_forty_uploads_at_once_are_all_stored(replicas: Replicas) -> None:
    id_ = replicas.environment("uploads")
    at = f"/engines/{id_}/api/v1/admin/apps"
    versions = [f"1.{number}.0" for number in range(40)]
    assert refused(replicas.at_once(*(("POST", f"{at}/upload", package(each)) for each in versions))) == []
    listed = replicas.at_once(("GET", at, {}))[0].json()["data"][0]["availableVersions"].split(",")
    assert sorted(listed) == sorted(versions)
    assert replicas.results("UPLOAD_APP", id_) == ["SUCCESS"] * 40


def test_apps_and_identities_mixed_are_all_there(replicas: Replicas) -> None:
    id_ = replicas.environment("mixed")
    at = f"/engines/{id_}/api/v1/admin"
    publish = [("POST", f"{at}/apps/publish", package(f"1.{number}.0")) for number in range(10)]
    people = [("POST", f"{at}/identities", {"json": {"username": f"p-{n}", "password": PASSWORD}}) for n in range(10)]
    mixed = [each for pair in zip(publish, people, strict=True) for each in pair]
    assert refused(replicas.at_once(*mixed)) == []
    assert replicas.results("INSTALL_APP", id_) == ["SUCCESS"] * 10
    assert replicas.results("APPLY_IDENTITY", id_) == ["SUCCESS"] * 10


def test_twenty_edits_of_one_environment_have_an_operation_each(replicas: Replicas) -> None:
    id_ = replicas.environment("edits")
    edits = [("PUT", f"/api/v1/environments/{id_}", {"json": {"name": f"Name {number}"}}) for number in range(20)]
    assert refused(replicas.at_once(*edits)) == []
    assert replicas.results("UPDATE_ENVIRONMENT", id_) == ["SUCCESS"] * 20
