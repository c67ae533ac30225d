"""A region and an environment that take signed packages alone, through the whole platform."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tenantry.model.resource import Document, Ref
from tenantry.packages.build import build
from tests.scenario.cli import called, serving, until
from tests.scenario.data_world import MANIFEST
from tests.scenario.rest_world import World, declare, world_in
from tests.unit.kinds.signing import Minisign

NAMESPACE = "tenant-acme"
PLATFORM, TENANT = Minisign(b"platform"), Minisign(b"tenant__")


@pytest.fixture
def package(tmp_path: Path) -> bytes:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "app.yaml").write_text(MANIFEST)
    build(tmp_path / "source", tmp_path / "crm.tapp")
    return (tmp_path / "crm.tapp").read_bytes()


@pytest.fixture
async def world(tmp_path: Path, package: bytes) -> AsyncIterator[World]:
    """An environment in which App crm waits for the bytes of its Package."""
    async with world_in(tmp_path) as one:
        await one.tenant("acme")
        await one.environment("acme", "dev")
        sha256 = hashlib.sha256(package).hexdigest()
        await declare(one.platform, "Package", "crm", {"app": "crm", "version": "1.0.0", "sha256": sha256}, NAMESPACE)
        await declare(one.platform, "App", "dev.crm", {"environment": "dev", "app": "crm", "version": "1.0.0"}, NAMESPACE)
        yield one


async def ask(world: World, ref: Ref, *keys: Minisign) -> None:
    """Names the keys that must have signed."""
    held = await world.platform.state.writing.get(ref)
    spec = {**held["spec"], "packageKeys": [key.public for key in keys]}
    await world.platform.state.writing.replace({**held, "spec": spec}, held["metadata"]["resourceVersion"])


async def push(world: World, package: bytes, signature: str = "") -> int:
    headers = {"Tenantry-Signature": base64.b64encode(signature.encode()).decode()} if signature else {}
    path = f"/packages/{hashlib.sha256(package).hexdigest()}"
    answer = await world("acme-admin", "PUT", path, content=package, headers=headers)
    await world.platform.converged()
    return answer.status_code


def app(world: World) -> tuple[str | None, str]:
    """The installed version, and why it is not what is declared."""
    document: Document | None = world.platform.state.cache.document(Ref("App", NAMESPACE, "dev.crm"))
    assert document is not None
    conditions: dict[str, Any] = {one["type"]: one for one in document["status"]["conditions"]}
    stalled = conditions.get("Stalled", {"reason": "", "message": ""})
    return document["status"].get("installedVersion"), f"{stalled['reason']}: {stalled['message']}"


REGION, ENVIRONMENT = Ref("Region", "", "here"), Ref("Environment", NAMESPACE, "dev")


async def test_where_nobody_asks_no_signature_is_needed(world: World, package: bytes) -> None:
    assert await push(world, package) == 200
    assert app(world)[0] == "1.0.0"


@pytest.mark.parametrize("asks", [REGION, ENVIRONMENT], ids=["the region", "the environment"])
async def test_an_unsigned_package_waits_until_it_is_signed_by_a_listed_key(world: World, package: bytes, asks: Ref) -> None:
    await ask(world, asks, TENANT, PLATFORM)
    assert await push(world, package) == 200
    installed, why = app(world)
    assert installed is None and why.startswith(
        "PackageNotSigned: crm 1.0.0 is not signed as this environment asks: it has no sig"
    )
    assert await push(world, package, Minisign(b"stranger").sign(package)) == 200
    assert "which is not listed" in app(world)[1]
    assert await push(world, package, PLATFORM.sign(package + b"x")) == 200
    assert "is not that of these bytes" in app(world)[1]
    assert await push(world, package, PLATFORM.sign(package)) == 200
    assert app(world) == ("1.0.0", ": ")


async def test_a_tenants_own_keys_do_not_replace_the_regions(world: World, package: bytes) -> None:
    await ask(world, REGION, PLATFORM)
    await ask(world, ENVIRONMENT, TENANT)
    await push(world, package, TENANT.sign(package))
    assert (app(world)[0], "PackageNotSigned" in app(world)[1]) == (None, True)
    await ask(world, ENVIRONMENT, TENANT, PLATFORM)
    await push(world, package, PLATFORM.sign(package))
    assert app(world)[0] == "1.0.0"


async def test_an_upload_of_an_unsigned_package_is_refused_and_leaves_nothing(world: World, package: bytes) -> None:
    await world.environment("acme", "test")
    await ask(world, REGION, PLATFORM)
    await world.platform.converged()
    environments = (await world("acme-admin", "GET", "/environments")).json()
    id_ = next(one["id"] for one in environments if one["slug"] == "test")
    admin = f"/engines/{id_}/api/v1/admin/apps"
    answer = await world("acme-admin", "POST", f"{admin}/publish", files={"file": ("crm.tapp", package)})
    assert answer.status_code == 400 and "is not signed as this environment asks" in answer.json()["error"]
    assert (await world("acme-admin", "GET", admin)).json() == {"data": []}
    assert world.platform.state.cache.document(Ref("App", NAMESPACE, "test.crm")) is None


@pytest.mark.parametrize(("header", "told"), [("%%", "in base64"), (base64.b64encode(b"x" * 3000).decode(), "at most 2048")])
async def test_a_header_that_is_no_signature_is_refused(world: World, package: bytes, header: str, told: str) -> None:
    path = f"/packages/{hashlib.sha256(package).hexdigest()}"
    answer = await world("acme-admin", "PUT", path, content=package, headers={"Tenantry-Signature": header})
    assert answer.status_code == 400 and told in answer.json()["error"]


async def test_a_signature_that_no_declared_package_would_carry_is_refused_and_nothing_is_stored(
    world: World, tmp_path: Path
) -> None:
    (tmp_path / "source" / "app.yaml").write_text(MANIFEST.replace("1.0.0", "2.0.0"))
    build(tmp_path / "source", tmp_path / "crm-2.tapp")
    other = (tmp_path / "crm-2.tapp").read_bytes()
    sha256 = hashlib.sha256(other).hexdigest()
    signature = base64.b64encode(PLATFORM.sign(other).encode()).decode()
    answer = await world("acme-admin", "PUT", f"/packages/{sha256}", content=other, headers={"Tenantry-Signature": signature})
    assert answer.status_code == 400
    assert "Tenantry-Signature: no Package of crm 2.0.0" in answer.json()["error"]
    assert await world.platform.state.packages.inspect("acme", sha256) is None
    assert await push(world, other) == 200, "without one it waits for its Package"


PLATFORM_YAML = """
apiVersion: tenantry.dev/v1alpha1
kind: Region
metadata: {{name: eu}}
spec: {{packageKeys: [{key}]}}
---
apiVersion: tenantry.dev/v1alpha1
kind: Tenant
metadata: {{name: acme}}
spec: {{displayName: Acme}}
"""
DEV_YAML = """
apiVersion: tenantry.dev/v1alpha1
kind: Environment
metadata: {{name: dev, namespace: tenant-acme}}
spec: {{region: eu}}
---
apiVersion: tenantry.dev/v1alpha1
kind: Package
metadata: {{name: crm, namespace: tenant-acme}}
spec: {{app: crm, version: 1.0.0, sha256: {sha256}}}
---
apiVersion: tenantry.dev/v1alpha1
kind: App
metadata: {{name: dev.crm, namespace: tenant-acme}}
spec: {{environment: dev, app: crm, version: 1.0.0}}
"""


def told(folder: Path) -> tuple[str, str]:
    """The App's version, and why it is none, as `tenantry get` shows."""
    found = json.loads(called("get", "app", "dev.crm", "-o", "json", cwd=folder).stdout)
    status = found.get("status", {})
    reasons = [one["reason"] for one in status.get("conditions", []) if one["type"] == "Ready"]
    return status.get("installedVersion") or "", "".join(reasons)


@pytest.mark.slow
@pytest.mark.parametrize(
    "over_rest", [pytest.param(False, id="over the socket"), pytest.param(True, id="over REST", marks=pytest.mark.slow)]
)
def test_the_command_pushes_a_signature_with_its_package(tmp_path: Path, package: bytes, over_rest: bool) -> None:
    (tmp_path / "platform.yaml").write_text(PLATFORM_YAML.format(key=PLATFORM.public))
    (tmp_path / "dev.yaml").write_text(DEV_YAML.format(sha256=hashlib.sha256(package).hexdigest()))
    for name, signature in (("good", PLATFORM.sign(package)), ("bad", TENANT.sign(package)), ("long", "x" * 3000)):
        (tmp_path / f"{name}.minisig").write_text(signature)
    with serving("up", "platform.yaml", "--listen", "127.0.0.1:0", cwd=tmp_path) as running:
        token = called("token", cwd=tmp_path).stdout.strip()
        there = ("--server", running.url, "--token", token) if over_rest else ()

        def push(*signature: str) -> str:
            return called("package", "push", "crm.tapp", "--tenant", "acme", *signature, *there, cwd=tmp_path).stderr

        if not over_rest:
            assert push("--signature", "good.minisig").startswith("tenant acme declares no Package of these bytes")
        assert called("apply", "-f", "dev.yaml", cwd=tmp_path).stderr == ""
        unsigned: list[tuple[str, ...]] = [(), ("--signature", "bad.minisig")]
        for given in unsigned:
            assert push(*given) == ""
            until(lambda: told(tmp_path) == ("", "PackageNotSigned"))
        assert "2048" in push("--signature", "long.minisig")
        assert push("--signature", "nothing.minisig") == "--signature nothing.minisig: no such file\n"
        assert push("--signature", "good.minisig") == ""
        until(lambda: told(tmp_path) == ("1.0.0", "Succeeded"))
