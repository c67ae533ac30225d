"""Sources in a tenant's namespace: they apply there only, with that tenant's rights, and reach what is public alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tenantry.model.resource import Ref, held_of
from tests.scenario.git_world import API, DEV
from tests.scenario.repositories import Remote, Served, served_over_http
from tests.scenario.source_world import World, ready, reason, source_world

ACME = "tenant-acme"


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    made = Remote.at(tmp_path / "served" / "acme.git")
    made.commit({"dev.yaml": DEV})
    return made


@pytest.fixture
def served(remote: Remote) -> Iterator[Served]:
    with served_over_http(remote.folder.parent) as made:
        yield made


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with source_world(tmp_path / "state", http=True, networks="127.0.0.0/8") as made:
        await tenants(made)
        yield made


async def tenants(world: World) -> None:
    await world.declare("Region", "eu")
    for name in ("acme", "umbra"):
        await world.declare("Tenant", name, displayName=name)
    await world.platform.runtime.idle(1)


async def test_its_own_objects_are_applied_with_its_credentials(world: World, served: Served) -> None:
    await world.secret("git", ACME, password="ann:token")
    await world.source(f"{served.url}/acme.git", "own", ACME, credentials={"secretRef": {"name": "git"}})
    status = await world.until("own", ACME)
    assert (reason(status), status["objects"]) == ("Succeeded", 1), status
    assert served.authorizations == {"Basic YW5uOnRva2Vu"}
    dev = await world.get("Environment", "dev", ACME)
    assert dev is not None
    assert dev["metadata"]["labels"]["tenantry.dev/source"] == "tenant-acme.own"


FOREIGN = {
    "another tenant's namespace": (
        DEV.replace(ACME, "tenant-umbra"),
        "other.yaml:3: metadata.namespace: a Source in tenant-acme applies there only",
    ),
    "a kind of the platform": (
        f"{API}kind: Region\nmetadata: {{name: us}}\n",
        "other.yaml:2: kind: a Source in a tenant's namespace declares no Region: only what the tenant's ADMIN may",
    ),
    "a user": (
        f"{API}kind: User\nmetadata: {{name: eve, namespace: tenantry-system}}\n"
        "spec: {username: eve, role: SUPERUSER, passwordSecretRef: {name: eve}}\n",
        "other.yaml:2: kind: a Source in a tenant's namespace declares no User: only what the tenant's ADMIN may",
    ),
    "a shared package": (
        f"{API}kind: Package\nmetadata: {{name: crm, namespace: tenant-acme}}\nspec: {{app: crm, version: '1', shared: true}}\n",
        "other.yaml:4: spec.shared: is for the platform's own Sources",
    ),
    "a Secret that is no credential": (
        "apiVersion: v1\nkind: Secret\nmetadata: {name: x, namespace: tenant-acme}\n",
        "other.yaml:3: metadata.labels: a Secret of a Source carries the label tenantry.dev/credential",
    ),
}


@pytest.mark.parametrize("case", FOREIGN)
async def test_nothing_is_applied_of_a_commit_with(world: World, remote: Remote, served: Served, case: str) -> None:
    document, problem = FOREIGN[case]
    remote.commit({"other.yaml": document})
    await world.source(f"{served.url}/acme.git", "own", ACME)
    status = await world.until("own", ACME)
    assert (reason(status), status["problems"]) == ("SourceBroken", [problem])
    assert await world.get("Environment", "dev", ACME) is None


async def test_it_prunes_nothing_elsewhere_whatever_its_label_says(world: World, remote: Remote, served: Served) -> None:
    await world.declare("Environment", "dev", "tenant-umbra", region="eu")
    await world.platform.runtime.idle(1)
    foreign = await world.platform.writing.get(Ref("Environment", "tenant-umbra", "dev"))
    labels = {"labels": {"tenantry.dev/source": "tenant-acme.own"}}
    marked = {**foreign, "metadata": {**foreign["metadata"], **labels}}
    await world.platform.writing.replace(marked, foreign["metadata"]["resourceVersion"])
    await world.source(f"{served.url}/acme.git", "own", ACME, prune={"percent": 100}, deletionPolicy="Prune")
    assert (await world.until("own", ACME))["objects"] == 1
    source = await world.platform.writing.get(Ref("Source", ACME, "own"))
    await world.platform.writing.delete(held_of(source)._replace(version=""))
    await world.until_gone(Ref("Source", ACME, "own"))
    await world.until_gone(Ref("Environment", ACME, "dev"))
    assert await world.get("Environment", "dev", "tenant-umbra") is not None


async def test_a_tenant_goes_with_its_source(world: World, served: Served) -> None:
    await world.source(f"{served.url}/acme.git", "own", ACME)
    await world.until("own", ACME)
    tenant = await world.platform.writing.get(Ref("Tenant", "", "acme"))
    await world.platform.writing.delete(held_of(tenant)._replace(version=""))
    await world.until_gone(Ref("Tenant", "", "acme"))


URLS = {
    "this machine": ("http://127.0.0.1:{port}/acme.git", "Invalid", "spec.url: must begin with https://"),
    "a private address": ("https://10.0.0.1/acme.git", "Invalid", "spec.url: 10.0.0.1 is not a public address"),
    "a name of this machine": (
        "https://localhost:{port}/acme.git",
        "RemoteAway",
        "localhost leads to an address that is not public",
    ),
    "a file": ("file:///srv/acme.git", "UrlRefused", "spec.url: file:// is for sources in tenantry-system alone"),
    "ssh without known hosts": ("ssh://git@localhost/acme.git", "Invalid", "spec.credentials: an ssh URL needs secretRef"),
}


@pytest.mark.parametrize("case", URLS)
async def test_it_does_not_reach(tmp_path: Path, served: Served, case: str) -> None:
    url, why, message = URLS[case]
    async with source_world(tmp_path / "state") as world:
        await tenants(world)
        await world.source(url.format(port=served.url.rpartition(":")[2]), "own", ACME)
        status = await world.until("own", ACME)
        assert reason(status) == why
        assert message in ready(status)["message"]
    assert served.authorizations == set()
