"""`tenantry import --engine`: what an engine of others holds, as YAML that, applied, changes nothing in it."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tenantry.cli.commands.transfer.exporting import PACKAGES, Exported, put
from tenantry.cli.output.failing import say
from tenantry.model.fields import is_engine_admin
from tenantry.model.resource import API_VERSION
from tenantry.model.verdicts import Halt, Invalid

if TYPE_CHECKING:
    from tenantry.adapters.engine.calls import PlainEngine
    from tenantry.cli.commands.transfer.declaring import Admit
    from tenantry.model.facts import EngineApp, EngineIdentity, EngineIdentityProvider, PackageFacts
    from tenantry.model.resource import Document

_LONGEST_NAME = 40


@dataclass(frozen=True)
class AdoptionTarget:
    """The place of the engine, and the environment's namespace, name and region."""

    url: str
    namespace: str
    environment: str
    region: str

    @property
    def admin_secret(self) -> str:
        """The Secret that is to hold the password of the engine's `admin`."""
        return f"{self.environment}-engine"


@dataclass
class FetchedPackageFiles:
    """Package files that were fetched, by sha256."""

    files: dict[str, Path] = field(default_factory=dict)

    async def copy_package(self, tenant: str, sha256: str, path: str) -> None:
        """Copies one to that path."""
        await asyncio.to_thread(shutil.copyfile, self.files[sha256], path)


async def import_engine(place: AdoptionTarget, password: str, output: Path | None) -> None:
    """Writes what the engine holds. What cannot be declared is named on standard error and left out. Raises Halt."""
    from tenantry.kinds.admission import Admission

    admission = await asyncio.to_thread(Admission)
    with tempfile.TemporaryDirectory(prefix="tenantry-import-") as scratch:
        async with _connected(place.url, password, Path(scratch)) as engine:
            importing = _Importing(place, engine, admission.admit)
            await importing.run()
            await put(importing.downloads, importing.exported, output)


@asynccontextmanager
async def _connected(url: str, password: str, scratch: Path) -> AsyncIterator[PlainEngine]:
    """The engine by its interface. It is the caller's own machine that calls: no address is forbidden."""
    import httpx

    from tenantry.adapters.engine.calls import PlainEngine
    from tenantry.adapters.engine.http import basic_authorization
    from tenantry.adapters.engine.wire import TIMEOUT, LongRequestTurns, Wire
    from tenantry.packages.check import inspect

    async def authorization() -> str:
        return basic_authorization(password)

    async with httpx.AsyncClient(timeout=TIMEOUT) as client:
        wire = Wire(client, f"{url.rstrip('/')}/api/v1", authorization, turns=LongRequestTurns())
        yield PlainEngine(wire, inspect, scratch)


class _Importing:
    """exported: what was found so far."""

    def __init__(self, place: AdoptionTarget, engine: PlainEngine, admit: Admit) -> None:
        self._place = place
        self._engine = engine
        self._admit = admit
        self._names: dict[str, set[str]] = {}
        self.exported = Exported()
        self.downloads = FetchedPackageFiles()

    async def run(self) -> None:
        apps, users = await self._engine.apps(), await self._engine.identities()
        providers = await self._engine.identity_providers()
        self.exported.add("", [self._environment()], self._admit)
        for app in apps:
            await self._app(app)
        for user in users:
            if not is_engine_admin(user.username):
                self._add(self._identity(user), f"identity {user.username}")
        for provider in providers:
            self._add(self._provider(provider), f"identity provider {provider.settings.name}")

    def _add(self, document: Document, about: str) -> None:
        try:
            self.exported.add("", [document], self._admit)
        except Invalid as refused:
            say(f"{about} cannot be declared and is not changed: {refused.verdict.message}")

    def _environment(self) -> Document:
        place = self._place
        external = {"url": place.url, "adminSecretRef": {"name": place.admin_secret}}
        spec = {"region": place.region, "deletionPolicy": "Retain", "engine": {"external": external}}
        return self._document("Environment", place.environment, spec)

    async def _app(self, app: EngineApp) -> None:
        if not app.versions:
            say(f"app {app.id}: no version is installed, only its data is left; it is not changed")
            return
        spec: dict[str, Any] = {"environment": self._place.environment, "app": app.id}
        if app.installed:
            spec["version"] = app.version
        keep = [version for version in app.versions if version != app.version]
        if keep:
            spec["keep"] = keep
        self._add(self._document("App", f"{self._place.environment}.{app.id}", spec), f"app {app.id}")
        for version in app.versions:
            await self._package(app.id, version)

    async def _package(self, app: str, version: str) -> None:
        from tenantry.packages.check import inspect

        try:
            download = await self._engine.download(app, version)
            facts = await asyncio.to_thread(inspect, download.path)
        except Halt as halt:
            say(f"package {app} {version}: not written, the engine has it: {halt.verdict.message}")
            return
        if (facts.app, facts.version) != (app, version):
            say(f"package {app} {version}: not written, its file is {facts.app} {facts.version}")
            return
        self.downloads.files[facts.sha256] = download.path
        self._declare_package(facts)

    def _declare_package(self, facts: PackageFacts) -> None:
        path = f"{PACKAGES}/{facts.app}-{quote(facts.version, safe='')}.tapp"
        self.exported.packages.append(("", facts.sha256, path))
        spec = {"app": facts.app, "version": facts.version, "sha256": facts.sha256, "source": {"path": path}}
        name = self._named("Package", f"{facts.app}-{facts.version}")
        self._add(self._document("Package", name, spec), f"package {facts.app} {facts.version}")

    def _identity(self, user: EngineIdentity) -> Document:
        name = self._named("Identity", user.username)
        secret = {"name": f"identity-{name}"}
        spec = {"environment": self._place.environment, "username": user.username, "passwordSecretRef": secret}
        return self._document("Identity", name, spec)

    def _provider(self, provider: EngineIdentityProvider) -> Document:
        """Without a client secret: the engine does not tell whether it has one, and keeps what it has."""
        settings = provider.settings
        name = self._named("IdentityProvider", settings.name)
        spec = {
            "environment": self._place.environment,
            **({"displayName": settings.name} if settings.name != name else {}),
            "issuerUrl": settings.issuer_url,
            "clientId": settings.client_id,
            "scopes": settings.scopes.split(" "),
            "autoProvision": settings.auto_provision,
            "active": settings.is_active,
        }
        return self._document("IdentityProvider", name, spec)

    def _document(self, kind: str, name: str, spec: dict[str, Any]) -> Document:
        metadata = {"name": name, "namespace": self._place.namespace}
        return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}

    def _named(self, kind: str, text: str) -> str:
        """A name for an object that is called so in the engine, unlike those before."""
        taken = self._names.setdefault(kind, set())
        name = next(each for each in _names(text) if each not in taken)
        taken.add(name)
        return name


def _names(text: str) -> Iterator[str]:
    """`ada.lovelace` -> ada-lovelace, ada-lovelace-2, ada-lovelace-3 and so on."""
    label = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"
    yield label[:_LONGEST_NAME].strip("-")
    for number in range(2, 1 << 32):
        tail = f"-{number}"
        yield label[: _LONGEST_NAME - len(tail)].strip("-") + tail
