"""An engine: packages, their tables, local users and identity providers, natively. ports.EngineAdmin and sign-in."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa

from tenantry.engine import federation, records
from tenantry.engine.data.exposure import Exposure, Exposures
from tenantry.engine.database import FILE, Database
from tenantry.engine.federation import FederatedIdentity
from tenantry.engine.inventory import apps_with_rows, held_apps
from tenantry.engine.lanes import Lane, Lanes, engine_sharing
from tenantry.engine.migration import run
from tenantry.engine.migration.run import LossRefused
from tenantry.engine.ownership import Ownership
from tenantry.engine.packages.check import Limits, inspect, open_checked, open_package
from tenantry.engine.packages.manifest import Manifest
from tenantry.engine.passwords import hash_password, needs_rehash, verify_password
from tenantry.engine.records import StoredIdentity, StoredVersion
from tenantry.engine.sealing import Sealing
from tenantry.engine.shelf import Shelf
from tenantry.engine.transactions import WRITE_S, Deadline, Transactions
from tenantry.model.facts import (
    EngineApp,
    EngineIdentity,
    EngineIdentityProvider,
    IdentityProviderSettings,
    MigrationStep,
    PackageFacts,
    Password,
)
from tenantry.model.fields import ENGINE_ADMIN, USERNAME_PATTERN, is_engine_admin
from tenantry.model.verdicts import Invalid, NotFound, Problem, Unauthorized
from tenantry.ports import Download

T = TypeVar("T")
# `admin` is there before its password is: the same id from the first look on.
_ADMIN_ID = "00000000-0000-0000-0000-000000000001"
QUERY_S = 10.0
"""How long the data API's work on one request may take."""
PLAN_S, MIGRATION_S = 60.0, 1800.0
"""How long the steps of an install may be counted, and how long it may take."""
_LANES = Lanes(engine_sharing(), "engine")
_USERNAME = re.compile(rf"(?:{USERNAME_PATTERN.strip('^$')})\Z")


class Engine:
    """One engine. Its database is made by its first write; nothing is held open between calls."""

    def __init__(
        self, data: Path, database_url: str | None, limits: Limits, created_at: datetime, lane: Lane, owner: str = ""
    ) -> None:
        self._database = Database(data / FILE, database_url)
        self._shelf = Shelf(data)
        self._sealing = Sealing(data)
        self._limits = limits
        self._admin = EngineIdentity(_ADMIN_ID, ENGINE_ADMIN, created_at)
        self._lane = lane
        self._transactions = Transactions(self._database, lane, Ownership(data, owner))
        self._exposures = Exposures(self._stored_manifest)
        # Changes of packages and tables happen one after the other.
        self._turn = asyncio.Lock()

    @classmethod
    async def open(
        cls,
        data: Path,
        *,
        database_url: str | None = None,
        limits: Limits | None = None,
        created_at: datetime | None = None,
        lane: Lane | None = None,
        owner: str = "",
    ) -> Engine:
        """Opens the engine of that folder, and removes what interrupted work left there.

        created_at: since when the engine, and so its `admin`, is there; now where None. lane: its part of the process's threads;
        one of threads that all such engines share where None. owner: the uid of the environment, `""` for a standalone engine.

        Raises Halt: DatabaseTaken where the database is another engine's, DataMissing, and others.
        """
        lane = lane or _LANES.lane("", str(data))
        engine = cls(data, database_url, limits or Limits(), created_at or datetime.now(UTC), lane, owner)
        await engine._open(data)
        return engine

    async def close(self) -> None:
        """Lets the database go."""
        async with self._turn:
            await asyncio.to_thread(self._database.close)

    async def apps(self) -> tuple[EngineApp, ...]:
        return await self._transactions.read(held_apps, tuple[EngineApp, ...])

    async def apps_with_rows(self) -> frozenset[str]:
        return await self._transactions.read(apps_with_rows, frozenset[str])

    async def steps(self, app: str, version: str) -> tuple[MigrationStep, ...]:
        manifest = await self._manifest(app, version)
        return await self._transactions.read(lambda connection: run.plan(connection, manifest), tuple[MigrationStep, ...], PLAN_S)

    async def preview(self, package: Path) -> tuple[MigrationStep, ...]:
        manifest = await self._lane.run(lambda: self._manifest_of(package))
        return await self._transactions.read(lambda connection: run.plan(connection, manifest), tuple[MigrationStep, ...], PLAN_S)

    async def upload(self, package: Path) -> PackageFacts:
        async with self._turn:
            return await self._store(package)

    async def publish(self, package: Path, allow_drops: bool = False) -> PackageFacts:
        async with self._turn:
            facts = await self._store(package)
            await self._install(facts.app, facts.version, allow_drops)
            return facts

    async def install(
        self, app: str, version: str, allow_drops: bool = False, listed: Sequence[MigrationStep] | None = None
    ) -> None:
        async with self._turn:
            await self._install(app, version, allow_drops, listed)

    async def uninstall(self, app: str) -> None:
        async with self._turn:
            if not (await self._app(app)).installed:
                raise _refused("id", f"{app} is not installed")
            await self._transactions.write(lambda connection: records.clear_installed(connection, app))
            await self._tidy()

    async def drop_data(self, app: str) -> None:
        async with self._turn:
            if (await self._app(app)).installed:
                raise _refused("id", f"{app} is installed: uninstall it first")
            await self._transactions.run(lambda deadline: self._drop(app, deadline), MIGRATION_S)

    async def delete_version(self, app: str, version: str) -> None:
        async with self._turn:
            stored = await self._version(app, version)
            if (await self._app(app)).version == version:
                raise _refused("version", f"{app} {version} is installed")
            await self._transactions.write(lambda connection: records.remove_version(connection, stored.app, stored.version))
            await self._tidy()

    async def download(self, app: str, version: str) -> Download:
        stored = await self._version(app, version)
        return await self._lane.run(lambda: self._shelf.download(stored.sha256, f"{app}-{version}.tapp"))

    async def symbols(self, app: str, version: str) -> Download:
        stored = await self._version(app, version)
        return await self._lane.run(lambda: self._shelf.symbols(stored.sha256, f"{app}-{version}.sym"))

    async def content(self, app: str) -> Path | None:
        """The folder of the static files of an installed app, or None."""
        installed = await self._transactions.read(records.installed, dict[str, tuple[str, str]])
        return self._shelf.content(installed[app][1]) if app in installed else None

    async def data(self, app: str, work: Callable[[sa.Connection, Exposure], T], *, write: bool = False) -> T:
        """What `work` returns, in one transaction over the installed version of the app. Raises NotFound when none is."""

        def within(connection: sa.Connection) -> T:
            found = records.installed(connection).get(app)
            if found is None:
                raise _not_installed(app)
            return work(connection, self._exposures.of(found[1]))

        if not self._transactions.prepared:
            raise _not_installed(app)
        return await self._transactions.serve(within, QUERY_S, write)

    async def identities(self) -> tuple[EngineIdentity, ...]:
        found = await self._transactions.read(
            lambda connection: [one.facts for one in records.identities(connection)], list[EngineIdentity]
        )
        if any(is_engine_admin(one.username) for one in found):
            return tuple(found)
        return (self._admin, *found)

    async def identity(self, id_: str) -> tuple[EngineIdentity, str]:
        """The identity with that id, and a stamp that changes with its password. Raises NotFound."""
        found = await self._transactions.read(lambda connection: records.find_identity(connection, id_=id_), _nobody)
        if found is None:
            raise NotFound(f"no identity {id_}")
        return found.facts, str(found.epoch)

    async def add_identity(self, username: str, password: Password, roles: Sequence[tuple[str, str]] = ()) -> EngineIdentity:
        if not _USERNAME.match(username):
            raise _refused("username", "must be 1 to 64 of A-Z a-z 0-9 . _ @ -")
        hashed = await hash_password(password, sharer=self._lane.name)

        def add(connection: sa.Connection) -> EngineIdentity:
            taken = records.find_identity(connection, username=username)
            if taken is not None or is_engine_admin(username):
                raise _refused("username", f"{username} is already taken")
            return records.add_identity(connection, username, hashed, password.fingerprint, roles)

        return await self._transactions.write(add)

    async def set_password(self, username: str, password: Password) -> None:
        if is_engine_admin(username):
            await self.set_admin_password(password)
            return
        found = await self._find(username)
        hashed = await hash_password(password, sharer=self._lane.name)
        await self._transactions.write(lambda c: records.set_password(c, found.facts.id, hashed, password.fingerprint))

    async def set_admin_password(self, password: Password) -> None:
        """Gives `admin` a password; nothing when it has been given this very one already."""
        found = await self._transactions.read(
            lambda connection: records.find_identity(connection, username=ENGINE_ADMIN), _nobody
        )
        if found is not None and password.fingerprint and found.facts.fingerprint == password.fingerprint:
            return
        hashed = await hash_password(password, sharer=self._lane.name)

        def put(connection: sa.Connection) -> None:
            present = records.find_identity(connection, username=ENGINE_ADMIN)
            if present is None:
                records.put_identity(connection, replace(self._admin, fingerprint=password.fingerprint), hashed)
            else:
                records.set_password(connection, present.facts.id, hashed, password.fingerprint)

        await self._transactions.write(put)

    async def set_roles(self, username: str, roles: Sequence[tuple[str, str]]) -> None:
        found = await self._find(username)
        await self._transactions.write(lambda connection: records.set_roles(connection, found.facts.id, dict(roles)))

    async def delete_identity(self, username: str) -> None:
        if is_engine_admin(username):
            raise _refused("username", "admin cannot be deleted")
        found = await self._find(username)
        await self._transactions.write(lambda connection: records.remove_identity(connection, found.facts.id))

    async def authenticate(self, username: str, password: str) -> EngineIdentity:
        """The identity with that password. Takes as long for an unknown one. Raises Unauthorized."""
        found = await self._transactions.read(lambda connection: records.find_identity(connection, username=username), _nobody)
        if not await verify_password(found.hash if found else None, password, self._lane.name) or found is None:
            raise Unauthorized("wrong username or password")
        if needs_rehash(found.hash):
            hashed = await hash_password(Password(clear=password), sharer=self._lane.name)
            await self._transactions.write(lambda connection: records.rehash(connection, found.facts.id, hashed))
        return found.facts

    async def identity_providers(self) -> tuple[EngineIdentityProvider, ...]:
        return await self._transactions.read(
            lambda connection: federation.identity_providers(connection, self._sealing), tuple[EngineIdentityProvider, ...]
        )

    async def add_identity_provider(self, settings: IdentityProviderSettings, client_secret: Password) -> EngineIdentityProvider:
        return await self._transactions.write(lambda c: federation.add_provider(c, self._sealing, settings, client_secret))

    async def edit_identity_provider(self, id_: str, settings: IdentityProviderSettings, client_secret: Password | None) -> None:
        await self._transactions.write(lambda c: federation.edit_provider(c, self._sealing, id_, settings, client_secret))

    async def delete_identity_provider(self, id_: str) -> None:
        if all(one.id != id_ for one in await self.identity_providers()):
            raise NotFound(f"no identity provider {id_}")
        await self._transactions.write(lambda connection: records.remove_provider(connection, id_))

    async def client_secret(self, provider: str) -> str:
        """The secret that is declared for an identity provider, `""` for none. Raises a Stalled Halt when it cannot be read."""
        return await self._transactions.read(lambda c: federation.client_secret(c, self._sealing, provider), str)

    async def federated(self, issuer: str, subject: str, username: str, provision: bool) -> FederatedIdentity | None:
        """The identity of that issuer and `sub`, made where `provision` says so."""
        found = await self._transactions.read(lambda c: federation.find_federated(c, issuer, subject), lambda: None)
        if found is not None or not provision:
            return found
        return await self._transactions.write(lambda connection: federation.add_federated(connection, issuer, subject, username))

    async def signed_in(self, id_: str, session: str) -> FederatedIdentity | None:
        """The identity of a browser's session. Raises Unauthorized once it is signed out."""
        return await self._transactions.read(lambda connection: federation.signed_in(connection, id_, session), lambda: None)

    async def end_session(self, session: str, until: int) -> None:
        """Signs a session out for good."""
        await self._transactions.write(lambda connection: federation.end_session(connection, session, until))

    async def claim_roles(self, id_: str, roles: Mapping[str, str]) -> None:
        """Keeps the roles that an identity provider claims for one of its users."""
        await self._transactions.write(lambda connection: federation.claim_roles(connection, id_, roles))

    async def _open(self, data: Path) -> None:
        await self._lane.run(lambda: data.mkdir(mode=0o700, parents=True, exist_ok=True))
        if await self._lane.run(lambda: self._database.exists):
            await self._transactions.write(lambda connection: None)
            await self._tidy()

    def _sweep(self, deadline: Deadline) -> None:
        if not self._transactions.prepared:
            return
        with self._database.writing() as connection, deadline.over(connection):
            stored = {one.sha256 for one in records.versions(connection)}
            installed = {sha256 for _, sha256 in records.installed(connection).values()}
            self._shelf.keep_only(stored, installed)

    async def _tidy(self) -> None:
        await self._transactions.run(self._sweep, WRITE_S)

    async def _app(self, app: str) -> EngineApp:
        found = next((one for one in await self.apps() if one.id == app), None)
        if found is None:
            raise NotFound(f"no app {app}")
        return found

    async def _version(self, app: str, version: str) -> StoredVersion:
        stored = await self._transactions.read(lambda connection: records.versions(connection, app), list[StoredVersion])
        found = next((one for one in stored if one.version == version), None)
        if found is None:
            raise NotFound(f"no version {version} of app {app}")
        return found

    async def _find(self, username: str) -> StoredIdentity:
        found = await self._transactions.read(lambda connection: records.find_identity(connection, username=username), _nobody)
        if found is None:
            raise NotFound(f"no identity {username}")
        return found

    async def _manifest(self, app: str, version: str) -> Manifest:
        stored = await self._version(app, version)
        return await self._lane.run(lambda: self._stored_manifest(stored.sha256))

    def _stored_manifest(self, sha256: str) -> Manifest:
        with open_checked(self._shelf.path(sha256)) as package:
            return package.manifest

    def _manifest_of(self, path: Path) -> Manifest:
        with open_package(path, self._limits) as package:
            return package.manifest

    async def _store(self, package: Path) -> PackageFacts:
        facts = await self._lane.run(lambda: inspect(package, self._limits))
        stored = StoredVersion(facts.app, facts.version, facts.sha256, facts.name, facts.author)

        def add(connection: sa.Connection) -> None:
            present = [one for one in records.versions(connection, facts.app) if one.version == facts.version]
            if present and present[0].sha256 != facts.sha256:
                raise _refused("file", f"{facts.app} {facts.version} is stored already, with other bytes")
            # Inside the transaction: a sweep, which waits for its end, must not take the file for a leftover.
            self._shelf.put(package, facts.sha256)
            if not present:
                records.add_version(connection, stored)

        await self._transactions.write(add)
        return facts

    async def _install(self, app: str, version: str, allow_drops: bool, listed: Sequence[MigrationStep] | None = None) -> None:
        stored = await self._version(app, version)
        try:
            before = await self._transactions.run(
                lambda deadline: self._migrate(stored, allow_drops, listed, deadline), MIGRATION_S
            )
        except LossRefused as refusal:
            steps = refusal.steps
            await self._transactions.write(lambda connection: records.tell_steps(connection, app, version, steps))
            raise
        if before != stored.sha256:
            await self._tidy()

    def _drop(self, app: str, deadline: Deadline) -> None:
        with self._database.migrating() as connection, deadline.over(connection):
            run.drop_all(connection, app)

    def _migrate(
        self, stored: StoredVersion, allow_drops: bool, listed: Sequence[MigrationStep] | None, deadline: Deadline
    ) -> str:
        """Tables, seeds and the installed version change in one transaction. Returns the sha256 of what was installed before."""
        app, version = stored.app, stored.version
        self._shelf.unpack(stored.sha256)
        with open_checked(self._shelf.path(stored.sha256)) as package:
            seeds = {table: partial(package.lines, name) for table, name in package.seeds().items()}
            with self._database.migrating() as connection, deadline.over(connection):
                covered = records.told_steps(connection, app, version) if listed is None else listed
                run.migrate(connection, package.manifest, seeds, allow_drops, covered)
                _, before = records.installed(connection).get(app, ("", stored.sha256))
                records.set_installed(connection, app, version, stored.sha256)
                records.forget_steps(connection, app, version)
        return before


def _not_installed(app: str) -> NotFound:
    return NotFound(f"no app {app} is installed")


def _nobody() -> StoredIdentity | None:
    return None


def _refused(field: str, reason: str) -> Invalid:
    return Invalid((Problem(field, reason),))
