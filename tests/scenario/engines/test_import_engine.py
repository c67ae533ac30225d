"""`tenantry import --engine`: what an engine of others holds, as YAML that changes nothing in it when it is applied."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tenantry.bootstrap.embedded import Platform
from tenantry.model.resource import Ref
from tenantry.packages.build import build
from tests.crash.campaign import URL
from tests.crash.story import object_, secret
from tests.scenario.cli import called
from tests.scenario.foreign_engine import ForeignEngine, StoredApp
from tests.scenario.serving import serving
from tests.support.foreign_engines import LOOPBACK, package_source

ACME = "tenant-acme"
CORP = {
    "name": "Corporate sign-in",
    "issuer_url": "https://id.example",
    "client_id": "c",
    "client_secret": "hush",
    "scopes": "openid groups",
    "auto_provision": True,
    "is_active": False,
}


@pytest.fixture
def engine(tmp_path: Path) -> ForeignEngine:
    """An engine that has been in use: an app with an older version, one that was uninstalled, people and a provider."""
    engine = ForeignEngine()
    for version in ("1.0.0", "2.0.0+b"):
        package_source(tmp_path / version, version)
        build(tmp_path / version, tmp_path / f"{version}.tapp")
        engine.apps.setdefault("crm", StoredApp("CRM", "Example Ltd")).versions[version] = (
            tmp_path / f"{version}.tapp"
        ).read_bytes()
    engine.install("crm", "2.0.0+b", allow_drops=False)
    engine.apps["odd"] = StoredApp("Odd", "Others", "7", {"7": b"no package of ours"})
    engine.apps["left"] = StoredApp("Left", "Others", columns=frozenset({"t.id"}))
    for username in ("Ada.Lovelace", "ada-lovelace", "bob"):
        engine.add_user({"username": username, "password": f"the secret of {username}"})
    engine.put_provider(None, CORP)
    return engine


@pytest.fixture
async def url(engine: ForeignEngine) -> AsyncIterator[str]:
    async with serving(engine.http) as url:
        yield url


async def imported(cwd: Path, url: str, *options: str, password: str = ForeignEngine.password) -> Any:
    arguments = ("import", "--engine", url, "-o", "out", *(options or ("--as", f"{ACME}/old", "--region", "eu")))
    return await asyncio.to_thread(called, *arguments, cwd=cwd, stdin=password)


def specs(folder: Path) -> dict[str, Any]:
    found = [each for file in sorted(folder.glob("*.yaml")) for each in yaml.safe_load_all(file.read_text())]
    assert {each["metadata"]["namespace"] for each in found} == {ACME}
    return {f"{each['kind']}/{each['metadata']['name']}": each["spec"] for each in found}


async def test_all_that_can_be_declared_is_written_and_no_secret(tmp_path: Path, engine: ForeignEngine, url: str) -> None:
    done = await imported(tmp_path, url)
    assert done.returncode == 0, done.stderr
    found = specs(tmp_path / "out")
    assert found["Environment/old"] == {
        "region": "eu",
        "deletionPolicy": "Retain",
        "engine": {"external": {"url": url, "adminSecretRef": {"name": "old-engine"}}},
    }
    assert found["App/old.crm"] == {"environment": "old", "app": "crm", "version": "2.0.0+b", "keep": ["1.0.0"]}
    assert found["App/old.odd"] == {"environment": "old", "app": "odd", "version": "7"}
    assert found["IdentityProvider/corporate-sign-in"] == {
        "environment": "old",
        "displayName": "Corporate sign-in",
        "issuerUrl": "https://id.example",
        "clientId": "c",
        "scopes": ["openid", "groups"],
        "autoProvision": True,
        "active": False,
    }
    users = {name: spec["username"] for name, spec in found.items() if name.startswith("Identity/")}
    assert users == {
        "Identity/ada-lovelace": "Ada.Lovelace",
        "Identity/ada-lovelace-2": "ada-lovelace",
        "Identity/bob": "bob",
    }
    package = found["Package/crm-2-0-0-b"]
    assert (tmp_path / "out" / package["source"]["path"]).read_bytes() == engine.apps["crm"].versions["2.0.0+b"]
    text = "".join(file.read_text() for file in (tmp_path / "out").glob("*.yaml"))
    assert not [each for each in ("hush", "the secret of", engine.password) if each in text + done.stdout + done.stderr]
    assert "app left: no version is installed, only its data is left" in done.stderr
    assert "package odd 7: not written" in done.stderr
    assert f"needs the Secret {ACME}/old-engine" in done.stderr


@pytest.mark.slow
async def test_applied_it_changes_nothing_in_the_engine(tmp_path: Path, engine: ForeignEngine, url: str) -> None:
    assert (await imported(tmp_path, url)).returncode == 0
    before = engine.state()
    around = [
        object_("Region", "eu", "{engine: {external: true}}"),
        object_("Tenant", "acme", "{}"),
        secret("old-engine", ACME, "environment", engine.password),
    ]
    (tmp_path / "out" / "around.yaml").write_text("---".join(around))
    platform = await Platform.open(tmp_path / "state", URL, settings=LOOPBACK)
    try:
        platform.attach(tmp_path / "out", "default")
        await platform.start()
        await platform.converged()
        ready = ["Environment/old", "App/old.crm", "App/old.odd", "Package/crm-1-0-0", "IdentityProvider/corporate-sign-in"]
        assert [reason_of(platform, each) for each in ready] == ["Succeeded"] * len(ready)
        assert reason_of(platform, "Identity/bob") == "SecretNotFound"
    finally:
        await platform.close()
    assert engine.state() == before
    assert [each for each in engine.asked if not each.startswith("GET ")] == []


def reason_of(platform: Platform, name: str) -> str:
    kind, _, named = name.partition("/")
    resource = platform.state.cache.resource(Ref(kind, ACME, named))
    assert resource is not None
    ready = resource.status.condition("Ready")
    assert ready is not None
    return str(ready.reason)


@pytest.mark.parametrize(
    ("options", "password", "told", "code"),
    [
        (("--as", "old", "--region", "eu"), "p", "an engine needs --as NAMESPACE/NAME and --region REGION", 2),
        (("--as", "tenant-acme/Old", "--region", "eu"), ForeignEngine.password, "metadata.name", 2),
        (("--as", "tenant-acme/old", "--region", "eu"), "wrong", "refuses the password of its admin", 1),
        (("--cluster",), "p", "say what is to be imported", 2),
    ],
)
async def test_what_is_wrong_is_told_and_nothing_is_written(
    tmp_path: Path, url: str, options: tuple[str, ...], password: str, told: str, code: int
) -> None:
    done = await imported(tmp_path, url, *options, password=password)
    assert told in done.stderr
    assert done.returncode == code
    assert not (tmp_path / "out").exists()
