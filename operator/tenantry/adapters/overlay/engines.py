"""What-if engines: they read what an engine holds, and keep to themselves what would be done to it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from tenantry.model.facts import (
    Download,
    EngineApp,
    EngineEndpoint,
    EngineIdentity,
    EngineIdentityProvider,
    IdentityProviderSettings,
    MigrationStep,
    PackageFacts,
    Password,
)
from tenantry.model.verdicts import NotFound
from tenantry.ports import EngineAdmin, Engines, EngineView


class OverlayEngines:
    """ports.Engines: each engine as it would be.

    exists: does the engine of that environment really run? One of others does. read: inspects a package.
    """

    def __init__(self, real: Engines, exists: Callable[[str], bool], read: Callable[[Path], PackageFacts]) -> None:
        self._real = real
        self._exists = exists
        self._inspect = read
        self._engines: dict[str, OverlayEngine] = {}

    def at(self, endpoint: EngineEndpoint) -> EngineAdmin:
        engine = self._engines.get(endpoint.environment_id)
        if engine is None:
            foreign = endpoint.admin_secret is not None
            real = self._real.at(endpoint) if foreign or self._exists(endpoint.environment_id) else None
            engine = self._engines[endpoint.environment_id] = OverlayEngine(real, self._inspect)
        return engine

    async def unused(self, endpoint: EngineEndpoint) -> timedelta | None:
        """Not known: in a plan no engine falls asleep because nobody uses it."""
        return None


@dataclass
class _Held:
    apps: dict[str, EngineApp] = field(default_factory=dict)
    identities: dict[str, EngineIdentity] = field(default_factory=dict)
    providers: dict[str, EngineIdentityProvider] = field(default_factory=dict)
    uploaded: dict[tuple[str, str], Path] = field(default_factory=dict)


class OverlayEngine:
    """ports.EngineAdmin over what an engine holds now, None for one that does not run yet."""

    def __init__(self, real: EngineAdmin | None, read: Callable[[Path], PackageFacts]) -> None:
        self._real = real
        self._inspect = read
        self._state: _Held | None = None

    async def apps(self) -> tuple[EngineApp, ...]:
        return tuple((await self._held()).apps.values())

    async def apps_with_rows(self) -> frozenset[str]:
        """Those of the engine, without what the plan drops."""
        rows = await self._real.apps_with_rows() if self._real else frozenset()
        held = (await self._held()).apps
        return frozenset(app for app in rows if app in held and held[app].persisted)

    async def steps(self, app: str, version: str) -> tuple[MigrationStep, ...]:
        held = await self._held()
        uploaded = held.uploaded.get((app, version))
        if self._real is None:
            return ()
        return await (self._real.preview(uploaded) if uploaded else self._real.steps(app, version))

    async def preview(self, package: Path) -> tuple[MigrationStep, ...]:
        return await self._real.preview(package) if self._real else ()

    async def identities(self, named: str = "") -> tuple[EngineIdentity, ...]:
        return tuple(one for one in (await self._held()).identities.values() if one.answers_to(named))

    async def identity_providers(self) -> tuple[EngineIdentityProvider, ...]:
        return tuple((await self._held()).providers.values())

    async def upload(self, package: Path) -> PackageFacts:
        held = await self._held()
        facts = await asyncio.to_thread(self._inspect, package)
        app = held.apps.get(facts.app, EngineApp(facts.app))
        if facts.version not in app.versions:
            name, author = (app.name, app.author) if app.installed else (facts.name, facts.author)
            held.apps[facts.app] = replace(app, versions=(*app.versions, facts.version), name=name, author=author)
            held.uploaded[facts.app, facts.version] = package
        return facts

    async def publish(self, package: Path, allow_drops: bool = False) -> PackageFacts:
        facts = await self.upload(package)
        await self.install(facts.app, facts.version, allow_drops)
        return facts

    async def install(
        self, app: str, version: str, allow_drops: bool = False, listed: Sequence[MigrationStep] | None = None
    ) -> None:
        await self._edit(app, version=version, persisted=True)

    async def uninstall(self, app: str) -> None:
        await self._edit(app, version="")

    async def drop_data(self, app: str) -> None:
        await self._edit(app, persisted=False)

    async def delete_version(self, app: str, version: str) -> None:
        held = (await self._held()).apps[app]
        await self._edit(app, versions=tuple(one for one in held.versions if one != version))

    async def download(self, app: str, version: str) -> Download:
        raise NotFound("a plan serves no files")

    async def symbols(self, app: str, version: str) -> Download:
        raise NotFound("a plan serves no files")

    async def add_identity(self, username: str, password: Password, roles: Sequence[tuple[str, str]] = ()) -> EngineIdentity:
        identity = EngineIdentity(str(uuid.uuid4()), username, datetime.now().astimezone(), password.fingerprint, dict(roles))
        (await self._held()).identities[username.casefold()] = identity
        return identity

    async def set_password(self, username: str, password: Password) -> None:
        held = (await self._held()).identities
        held[username.casefold()] = replace(held[username.casefold()], fingerprint=password.fingerprint)

    async def set_roles(self, username: str, roles: Sequence[tuple[str, str]]) -> None:
        held = (await self._held()).identities
        held[username.casefold()] = replace(held[username.casefold()], roles=dict(roles))

    async def delete_identity(self, username: str) -> None:
        (await self._held()).identities.pop(username.casefold(), None)

    async def add_identity_provider(self, settings: IdentityProviderSettings, client_secret: Password) -> EngineIdentityProvider:
        added = EngineIdentityProvider(str(uuid.uuid4()), settings, datetime.now().astimezone(), client_secret.fingerprint)
        (await self._held()).providers[added.id] = added
        return added

    async def edit_identity_provider(self, id_: str, settings: IdentityProviderSettings, client_secret: Password | None) -> None:
        held = (await self._held()).providers
        fingerprint = client_secret.fingerprint if client_secret else held[id_].fingerprint
        held[id_] = replace(held[id_], settings=settings, fingerprint=fingerprint)

    async def delete_identity_provider(self, id_: str) -> None:
        (await self._held()).providers.pop(id_, None)

    async def _held(self) -> _Held:
        if self._state is None:
            self._state = await _read(self._real) if self._real else _Held()
        return self._state

    async def _edit(self, app: str, **changes: object) -> None:
        held = await self._held()
        held.apps[app] = replace(held.apps[app], **changes)  # type: ignore[arg-type]


async def _read(real: EngineView) -> _Held:
    apps, identities, providers = await asyncio.gather(real.apps(), real.identities(), real.identity_providers())
    return _Held(
        apps={app.id: app for app in apps},
        identities={one.username.casefold(): one for one in identities},
        providers={one.id: one for one in providers},
    )
