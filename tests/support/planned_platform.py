"""A platform in files, planned and applied."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tenantry.bootstrap.embedded import Platform
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.registry import KINDS
from tenantry.kinds.tenancy import endpoint_of
from tenantry.model.facts import EngineEndpoint
from tenantry.model.resource import Document, Ref
from tenantry.runtime.cache import Cache
from tenantry.runtime.reconcile.cycle import Ended
from tests.crash.campaign import URL
from tests.crash.story import object_

APP = """
apiVersion: tenantry.dev/app/v1
id: crm
name: CRM
author: Example Ltd
version: {version}
tables:
  - name: contacts
    primaryKey: [id]
    columns:
      - {{name: id, type: integer, generated: true}}
{columns}
roles:
  reader: {{contacts: [read]}}
"""
FAX = "      - {name: fax, type: string, length: 20}\n"
PHONE = "      - {name: phone, type: string, length: 20}\n"
COLUMNS = {"1.0.0": FAX, "1.1.0": FAX + PHONE, "2.0.0": PHONE}
SOURCE_NAME = "default"
Documents = Mapping[str, str]


def acme(kind: str, name: str, spec: str) -> str:
    return object_(kind, name, spec, "acme")


def tenant(spec: str) -> str:
    return object_("Tenant", "acme", spec)


def environment(name: str, spec: str = "") -> str:
    return acme("Environment", name, f"{{region: eu, deletionPolicy: Delete{spec}}}")


def package(version: str) -> str:
    spec = f"{{app: crm, version: {version}, source: {{path: crm-{version}}}}}"
    return acme("Package", f"crm-{version.replace('.', '-')}", spec)


def app(environment_: str, spec: str) -> str:
    return acme("App", f"{environment_}.crm", f"{{environment: {environment_}, app: crm, {spec}}}")


def secret(name: str, purpose: str, password: str, namespace: str = "tenant-acme") -> str:
    metadata = f"{{name: {name}, namespace: {namespace}, labels: {{tenantry.dev/credential: {purpose}}}}}"
    return f"\napiVersion: v1\nkind: Secret\nmetadata: {metadata}\nstringData: {{password: {password}}}\n"


def identity(more: str = "") -> str:
    return acme("Identity", "ann", f"{{environment: dev, username: ann, passwordSecretRef: {{name: ann}}{more}}}")


def provider(more: str = "") -> str:
    return acme("IdentityProvider", "corp", f"{{environment: dev, issuerUrl: 'https://issuer.example', clientId: dev{more}}}")


def user(more: str = "") -> str:
    spec = f"{{username: vera, role: VIEWER, tenant: acme, passwordSecretRef: {{name: vera}}{more}}}"
    return object_("User", "vera", spec).replace("{name: vera}\n", "{name: vera, namespace: tenantry-system}\n", 1)


BASE: dict[str, str] = {
    "region": object_("Region", "eu", "{}"),
    "tenant": tenant("{displayName: Acme}"),
    "dev": environment("dev"),
    "live": environment("live"),
    "spare": environment("spare").replace("name: spare", "name: spare, labels: {team: a, size: s}"),
    **{version: package(version) for version in COLUMNS},
    "dev.crm": app("dev", "version: 1.0.0"),
    "live.crm": app("live", "version: 1.1.0"),
    "ann's secret": secret("ann", "identity", "a first secret"),
    "ann": identity(),
    "corp's secret": secret("corp", "identity-provider", "a client secret"),
    "corp": provider(", clientSecretRef: {name: corp}"),
    "vera's secret": secret("vera", "user", "another secret", "tenantry-system"),
    "vera": user(),
}


def edited(edits: Mapping[str, str | None]) -> Documents:
    return {name: text for name, text in {**BASE, **edits}.items() if text is not None}


def write(folder: Path, documents: Documents) -> Path:
    """Writes a source: every document in a file of its own, so that a broken one breaks no other."""
    folder.mkdir(parents=True)
    for version, columns in COLUMNS.items():
        (folder / f"crm-{version}" / "seed").mkdir(parents=True)
        (folder / f"crm-{version}" / "app.yaml").write_text(APP.format(version=version, columns=columns))
    (folder / "crm-1.0.0" / "seed" / "contacts.ndjson").write_text('{"id": 1, "fax": "1"}\n')
    for number, text in enumerate(documents.values()):
        (folder / f"{number:02}.yaml").write_text(text)
    return folder


DEV = Ref("Environment", "tenant-acme", "dev")


async def dev_of(platform: Platform) -> Environment:
    """The environment dev of `BASE`, as the store has it."""
    return Environment.model_validate(await platform.state.writing.get(DEV))


async def dev_endpoint(platform: Platform) -> EngineEndpoint:
    """The place of its engine."""
    endpoint = endpoint_of(await dev_of(platform))
    assert endpoint is not None
    return endpoint


@asynccontextmanager
async def platform_on(state: Path) -> AsyncIterator[Platform]:
    """A platform that runs and has come to rest, without a source."""
    platform = await Platform.open(state, URL)
    try:
        await platform.start()
        await platform.converged()
        yield platform
    finally:
        await platform.close()


@dataclass
class Course:
    """The effects on each object, in order, in the words of plan."""

    effects: dict[Ref, list[str]] = field(default_factory=lambda: defaultdict(list))

    def told(self, ref: Ref, ended: Ended) -> None:
        self.effects[ref] += map(str, ended.changes)

    @property
    def done(self) -> dict[Ref, list[str]]:
        return {ref: lines for ref, lines in self.effects.items() if lines}


async def apply(platform: Platform, folder: Path) -> Course:
    """Makes a folder the platform's source, and lets it come to rest."""
    course = Course()
    platform.runtime._told = course.told
    source = platform.attach(folder, SOURCE_NAME)
    await source.sync()
    platform.host.run(source.run, "source")
    await platform.converged()
    return course


def objects(cache: Cache) -> dict[Ref, dict[str, Any]]:
    return {ref: entry.document() for kind in (*KINDS, "Secret", "Namespace") for ref, entry in cache.entries(kind)}


def not_ready(documents: Mapping[Ref, Document]) -> dict[Ref, str]:
    """The reason of every object that is not Ready; suspended ones show an earlier generation."""
    found = {}
    for ref, document in documents.items():
        conditions = {one["type"]: one for one in document.get("status", {}).get("conditions", ())}
        if ref.kind in KINDS and "Ready" in conditions and conditions["Ready"]["status"] != "True":
            found[ref] = conditions["Ready"]["reason"]
    return found


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state of a platform on which BASE was applied."""
    folder = tmp_path_factory.mktemp("base")

    async def make() -> None:
        async with platform_on(folder / "state") as platform:
            await apply(platform, write(folder / "source", BASE))
            assert not_ready(objects(platform.state.cache)) == {}

    asyncio.run(make())
    return folder / "state"
