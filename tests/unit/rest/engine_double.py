"""An engine that only remembers: for tests of what lies around an engine, never of an engine."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

from tenantry.model.facts import (
    Download,
    EngineApp,
    EngineIdentity,
    EngineIdentityProvider,
    IdentityProviderSettings,
    MigrationStep,
    PackageFacts,
    Password,
)
from tenantry.model.verdicts import Invalid, NotFound, Problem, Unauthorized

START = datetime(2026, 11, 1, tzinfo=UTC)


class EngineDouble:
    """ServedEngine over dictionaries. A package is any file: its content is its version."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls: list[tuple[object, ...]] = []
        self.packages: dict[str, Path] = {}
        self.passwords: dict[str, Password] = {}
        self.people: dict[str, EngineIdentity] = {}
        self.providers: dict[str, EngineIdentityProvider] = {}
        self.secrets: dict[str, Password] = {}
        self.fails_with: Exception | None = None
        self.rows = SimpleNamespace(reads_now=False)
        self.live = SimpleNamespace(feed=SimpleNamespace(end=lambda reason: self.calls.append(("end", reason))))
        self._person("admin", Password(clear="admin-password"), ())

    async def apps(self) -> tuple[EngineApp, ...]:
        if self.fails_with:
            raise self.fails_with
        return (EngineApp("shop", "Shop", "Us", "", tuple(self.packages), False), EngineApp("crm", persisted=True))

    async def apps_with_rows(self) -> frozenset[str]:
        return frozenset({"crm"})

    async def steps(self, app: str, version: str) -> tuple[MigrationStep, ...]:
        self._version(version)
        return (MigrationStep("drops column contacts.fax", True, 7),)

    async def preview(self, package: Path) -> tuple[MigrationStep, ...]:
        return (MigrationStep(f"stores {package.stat().st_size} bytes"),)  # noqa: ASYNC240

    async def identities(self, named: str = "") -> tuple[EngineIdentity, ...]:
        return tuple(one for one in self.people.values() if one.answers_to(named))

    async def identity_providers(self) -> tuple[EngineIdentityProvider, ...]:
        return tuple(self.providers.values())

    async def upload(self, package: Path) -> PackageFacts:
        content = await asyncio.to_thread(package.read_bytes)
        sha256 = hashlib.sha256(content).hexdigest()
        version = content[:8].decode("latin-1")
        kept = self.folder / sha256
        kept.write_bytes(content)
        self.packages[version] = kept
        self.calls.append(("upload", version, len(content)))
        return PackageFacts("shop", version, "Shop", "Us", sha256, len(content), 0, False)

    async def publish(self, package: Path, allow_drops: bool = False) -> PackageFacts:
        facts = await self.upload(package)
        await self.install("shop", facts.version, allow_drops)
        return facts

    async def install(
        self, app: str, version: str, allow_drops: bool = False, listed: Sequence[MigrationStep] | None = None
    ) -> None:
        self._version(version)
        self.calls.append(("install", app, version, allow_drops))

    async def uninstall(self, app: str) -> None:
        raise Invalid((Problem("app", f"{app} is not installed"),))

    async def drop_data(self, app: str) -> None:
        self.calls.append(("drop_data", app))

    async def delete_version(self, app: str, version: str) -> None:
        self._version(version)
        del self.packages[version]

    async def download(self, app: str, version: str) -> Download:
        path = self._version(version)
        return Download(path, f"{app}-{version}.tapp", path.stat().st_size, path.name)

    async def symbols(self, app: str, version: str) -> Download:
        raise NotFound(f"{app} {version} has no symbols")

    async def add_identity(self, username: str, password: Password, roles: Sequence[tuple[str, str]] = ()) -> EngineIdentity:
        if username in self.people:
            raise Invalid((Problem("username", "is taken"),))
        return self._person(username, password, roles)

    async def set_password(self, username: str, password: Password) -> None:
        self._known(username)
        self.passwords[username] = password

    async def set_roles(self, username: str, roles: Sequence[tuple[str, str]]) -> None:
        old = self._known(username)
        self.people[username] = EngineIdentity(old.id, username, old.created_at, old.fingerprint, dict(roles))

    async def delete_identity(self, username: str) -> None:
        self._known(username)
        del self.people[username]

    async def add_identity_provider(self, settings: IdentityProviderSettings, client_secret: Password) -> EngineIdentityProvider:
        id_ = f"idp-{len(self.providers)}"
        self.providers[id_] = EngineIdentityProvider(id_, settings, START, client_secret.fingerprint)
        self.secrets[id_] = client_secret
        return self.providers[id_]

    async def edit_identity_provider(self, id_: str, settings: IdentityProviderSettings, client_secret: Password | None) -> None:
        self.providers[id_] = EngineIdentityProvider(id_, settings, START)
        if client_secret is not None:
            self.secrets[id_] = client_secret

    async def delete_identity_provider(self, id_: str) -> None:
        if self.providers.pop(id_, None) is None:
            raise NotFound(f"no identity provider with id {id_}")

    async def authenticate(self, username: str, password: str) -> tuple[EngineIdentity, str]:
        known = self.passwords.get(username)
        if known is None or known.clear != password:
            raise Unauthorized("wrong username or password")
        return await self.identity(self.people[username].id)

    async def identity(self, id_: str) -> tuple[EngineIdentity, str]:
        found = next((person for person in self.people.values() if person.id == id_), None)
        if found is None:
            raise NotFound("no such identity")
        return found, repr(self.passwords[found.username].clear)

    async def check_whole(self) -> None:
        return None

    async def content(self, app: str) -> Path | None:
        return self.folder / "content" if app == "shop" else None

    def _person(self, username: str, password: Password, roles: Sequence[tuple[str, str]]) -> EngineIdentity:
        number = len(self.people)
        created = START + timedelta(seconds=number)
        person = EngineIdentity(f"id-{number}", username, created, password.fingerprint, dict(roles))
        self.people[username], self.passwords[username] = person, password
        return person

    def _known(self, username: str) -> EngineIdentity:
        if username not in self.people:
            raise NotFound(f"no identity {username}")
        return self.people[username]

    def _version(self, version: str) -> Path:
        if version not in self.packages:
            raise NotFound(f"no version {version}")
        return self.packages[version]
