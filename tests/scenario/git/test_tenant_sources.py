"""Sources in a tenant's namespace: they apply there only, with that tenant's rights, and reach what is public alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tenantry.model.resource import Ref, held_of
from tests.scenario.git.source_world import World, ready, reason, source_world
from tests.scenario.git_world import API, DEV
from tests.scenario.repositories import Remote, Served, served_over_http

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
    "a-foreign-namespace": (
        DEV.replace(ACME, "tenant-umbra"),
        "3: metadata.namespace: a Source in tenant-acme may declare objects of that namespace only",
    ),
    "a-kind-of-the-platform": (
        f"{API}kind: Region\nmetadata: {{name: us}}\n",
        "2: kind: a Source in a tenant's namespace may not declare a Region: it may declare only what the tenant's ADMIN may",
    ),
    "a-mark-that-gives-it-another-s-data": (
        DEV.replace("name: dev", "annotations: {tenantry.dev/restoring: 'id@2026-11-21T11:00:00Z@kept'}, name: mine"),
        "3: metadata.annotations: only somebody who may create Tenants may restore environments, with tenantry.dev/restoring",
    ),
    "a-secret-that-is-no-credential": (
        "apiVersion: v1\nkind: Secret\nmetadata: {name: x, namespace: tenant-acme}\n",
        "3: metadata.labels: a Secret of a Source carries the label tenantry.dev/credential",
    ),
    "a-shared-package": (
        f"{API}kind: Package\nmetadata: {{name: crm, namespace: tenant-acme}}\nspec: {{app: crm, version: '1', shared: true}}\n",
        "4: spec.shared: is for the platform's own Sources",
    ),
    "a-user": (
        f"{API}kind: User\nmetadata: {{name: eve, namespace: tenantry-system}}\n"
        "spec: {username: eve, role: SUPERUSER, passwordSecretRef: {name: eve}}\n",
        "2: kind: a Source in a tenant's namespace may not declare a User: it may declare only what the tenant's ADMIN may",
    ),
}


async def test_of_a_commit_with_what_its_admin_may_not_write_nothing_is_applied(
    world: World, remote: Remote, served: Served
) -> None:
    remote.commit({f"{name}.yaml": document for name, (document, _) in FOREIGN.items()})
    await world.source(f"{served.url}/acme.git", "own", ACME)
    status = await world.until("own", ACME)
    assert reason(status) == "SourceBroken"
    assert status["problems"] == [f"{name}.yaml:{problem}" for name, (_, problem) in FOREIGN.items()]
    assert await world.get("Environment", "dev", ACME) is None


@pytest.mark.slow
async def test_it_prunes_nothing_elsewhere_whatever_its_label_says(world: World, remote: Remote, served: Served) -> None:
    await world.declare("Environment", "dev", "tenant-umbra", region="eu")
    await world.platform.runtime.idle(1)
    foreign = await world.platform.state.writing.get(Ref("Environment", "tenant-umbra", "dev"))
    labels = {"labels": {"tenantry.dev/source": "tenant-acme.own"}}
    marked = {**foreign, "metadata": {**foreign["metadata"], **labels}}
    await world.platform.state.writing.replace(marked, foreign["metadata"]["resourceVersion"])
    await world.source(f"{served.url}/acme.git", "own", ACME, prune={"percent": 100}, deletionPolicy="Prune")
    assert (await world.until("own", ACME))["objects"] == 1
    source = await world.platform.state.writing.get(Ref("Source", ACME, "own"))
    await world.platform.state.writing.delete(held_of(source)._replace(version=""))
    await world.until_gone(Ref("Source", ACME, "own"))
    await world.until_gone(Ref("Environment", ACME, "dev"))
    assert await world.get("Environment", "dev", "tenant-umbra") is not None


@pytest.mark.slow
async def test_a_tenant_goes_with_its_source(world: World, served: Served) -> None:
    await world.source(f"{served.url}/acme.git", "own", ACME)
    await world.until("own", ACME)
    tenant = await world.platform.state.writing.get(Ref("Tenant", "", "acme"))
    await world.platform.state.writing.delete(held_of(tenant)._replace(version=""))
    await world.until_gone(Ref("Tenant", "", "acme"))


URLS = {
    "this-machine": ("http://127.0.0.1:{port}/acme.git", "Invalid", "spec.url: must begin with https://"),
    "a-private-address": ("https://10.0.0.1/acme.git", "Invalid", "spec.url: 10.0.0.1 is not a public address"),
    "a-name-of-this-machine": (
        "https://localhost:{port}/acme.git",
        "RemoteAway",
        "localhost leads to an address that is not public",
    ),
    "a-file": ("file:///srv/acme.git", "UrlRefused", "spec.url: file:// is only for sources in tenantry-system"),
    "unknown-ssh": ("ssh://git@localhost/acme.git", "Invalid", "spec.credentials: an ssh URL needs secretRef"),
}


async def test_it_reaches_what_is_public_alone(tmp_path: Path, served: Served) -> None:
    async with source_world(tmp_path / "state") as world:
        await tenants(world)
        for name, (url, _, _) in URLS.items():
            await world.source(url.format(port=served.url.rpartition(":")[2]), name, ACME)
        for name, (_, why, message) in URLS.items():
            status = await world.until(name, ACME)
            assert reason(status) == why, name
            assert message in ready(status)["message"]
    assert served.authorizations == set()


@pytest.mark.slow
async def test_a_tenant_has_five_of_them_at_a_time(world: World, served: Served) -> None:
    for number in range(6):
        await world.source(f"{served.url}/acme.git", f"own-{number}", ACME)
    told = [reason(await world.until(f"own-{number}", ACME)) for number in range(6)]
    assert told.count("TooManySources") == 1
