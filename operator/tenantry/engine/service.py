"""An engine: packages, their tables, local users and identity providers, natively. ports.EngineAdmin and sign-in."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa

from tenantry.engine import records
from tenantry.engine.data.live.log import forget
from tenantry.engine.data.live.streaming import Live
from tenantry.engine.data.row_access import RowAccess
from tenantry.engine.data.signing import EngineRows
from tenantry.engine.database import Database, size_of
from tenantry.engine.finding import app_of, identity_named, nobody, version_of
from tenantry.engine.installing import Installs
from tenantry.engine.inventory import apps_with_rows, held_apps
from tenantry.engine.migration import run
from tenantry.engine.oidc import federation
from tenantry.engine.oidc.federation import FederatedIdentity
from tenantry.engine.opening.opener import DatabaseOpener
from tenantry.engine.opening.ownership import Ownership
from tenantry.engine.package_files import PackageFolder, PackageOrigin, StoredManifests
from tenantry.engine.quota import EngineQuota
from tenantry.engine.records import StoredVersion
from tenantry.engine.sealing import Sealing
from tenantry.engine.sql.files import FILE
from tenantry.engine.sql.server_session import Reach
from tenantry.engine.transactions import Transactions
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
from tenantry.model.fields import ENGINE_ADMIN, USERNAME_PATTERN, is_engine_admin
from tenantry.model.verdicts import Halt, Invalid, NotFound, Problem, Unauthorized
from tenantry.packages.check import PackageLimits, digests_of, inspect, open_package, sha256_of
from tenantry.packages.manifest import Manifest
from tenantry.rest.auth.passwords import hash_password, needs_rehash, verify_password
from tenantry.rest.fairness.lanes import Lane, Lanes, engine_sharing

T = TypeVar("T")
# `admin` is there before its password is: the same id from the first look on.
_ADMIN_ID = "00000000-0000-0000-0000-000000000001"
PLAN_S = 60.0
"""The time limit for counting the steps of an install."""
_LANES = Lanes(engine_sharing(), "engine")
_USERNAME = re.compile(rf"(?:{USERNAME_PATTERN.strip('^$')})\Z")


class Engine:
    """One engine. Its database is made by its first write; nothing is held open between calls."""

    def __init__(
        self,
        data: Path,
        database: Database,
        limits: PackageLimits,
        created_at: datetime,
        lane: Lane,
        owner: str = "",
        quota: EngineQuota | None = None,
        origin: PackageOrigin | None = None,
    ) -> None:
        self._database = database
        self._package_files = PackageFolder(data, origin)
        self._sealing = Sealing(data)
        self._limits = limits
        quota = quota or EngineQuota()
        self._manifests = StoredManifests(self._package_files)
        self._admin = EngineIdentity(_ADMIN_ID, ENGINE_ADMIN, created_at)
        self._lane = lane
        ownership = Ownership(data, owner, self._package_files)
        self._transactions = Transactions(self._database, lane, ownership)
        self._installs = Installs(database, self._package_files, self._transactions, quota)
        self.live = Live(self._transactions, lane)
        dialect = "postgresql" if database.on_server else "sqlite"
        access = RowAccess(self._transactions, dialect, self._manifests, quota, self.live)
        self.rows: EngineRows = access
        self._opener = DatabaseOpener(database, ownership, self._package_files, self._transactions, self._installs, access.expect)
        # Changes of packages and tables happen one after the other.
        self._turn = asyncio.Lock()

    @classmethod
    async def open(
        cls,
        data: Path,
        *,
        database_url: str | None = None,
        limits: PackageLimits | None = None,
        created_at: datetime | None = None,
        lane: Lane | None = None,
        owner: str = "",
        quota: EngineQuota | None = None,
        reach: Reach | None = None,
        origin: PackageOrigin | None = None,
        beside: Callable[[], None] = lambda: None,
    ) -> Engine:
        """Opens the engine of that folder, and removes what interrupted work left there.

        created_at: since when the engine, and so its `admin`, is there; now where None. lane: its part of the process's threads;
        one of threads that all such engines share where None. owner: the uid of the environment, `""` for a standalone engine.
        reach: which addresses the server of `database_url` may have. origin: of its packages, if the folder has only copies.
        beside: is called in a thread, if the database is opened by a look at it.
        Raises Halt: DatabaseTaken where the database is another engine's, DataMissing, and others.
        """
        lane = lane or _LANES.lane("", str(data))
        database = Database(data / FILE, database_url, reach, named=origin is None)
        engine = cls(data, database, limits or PackageLimits(), created_at or datetime.now(UTC), lane, owner, quota, origin)
        await engine._opener.open(data, beside)
        return engine

    async def close(self) -> None:
        """Lets the database go."""
        self.live.end()
        async with self._turn:
            await asyncio.to_thread(self._database.close)

    @property
    def is_damaged(self) -> bool:
        """Return True if a statement found the database's file damaged."""
        return self._database.damage is not None

    async def check_whole(self) -> None:
        """Raises a Transient Halt if a statement found the database's file damaged."""
        if (damage := self._database.damage) is not None:
            raise Halt(damage.verdict)

    async def server_bytes(self) -> int:
        """Return the size of a database on a server, 0 for SQLite."""
        return await self._transactions.read(size_of, int) if self._database.on_server else 0

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
            if not (await app_of(self._transactions, app)).installed:
                raise _refused("id", f"{app} is not installed")
            await self._transactions.write(lambda connection: _clear_installed(connection, app))
            await self._opener.sweep()

    async def drop_data(self, app: str) -> None:
        async with self._turn:
            if (await app_of(self._transactions, app)).installed:
                raise _refused("id", f"{app} is installed: uninstall it first")
            await self._installs.drop(app)

    async def delete_version(self, app: str, version: str) -> None:
        async with self._turn:
            stored = await version_of(self._transactions, app, version)
            if (await app_of(self._transactions, app)).version == version:
                raise _refused("version", f"{app} {version} is installed")
            await self._transactions.write(lambda connection: records.remove_version(connection, stored.app, stored.version))
            await self._opener.sweep()

    async def download(self, app: str, version: str) -> Download:
        stored = await version_of(self._transactions, app, version)
        return await self._lane.run(lambda: self._package_files.download(stored.sha256, f"{app}-{version}.tapp"))

    async def symbols(self, app: str, version: str) -> Download:
        stored = await version_of(self._transactions, app, version)
        return await self._lane.run(lambda: self._package_files.symbols(stored.sha256, f"{app}-{version}.sym"))

    async def content(self, app: str) -> Path | None:
        """The folder of the static files of an installed app, or None."""
        installed = await self._transactions.read(records.installed, dict[str, tuple[str, str]])
        if (found := installed.get(app)) is None:
            return None
        return self._package_files.content(found[1]) or await self._lane.run(
            lambda: self._package_files.brought_content(found[1])
        )

    async def identities(self, named: str = "") -> tuple[EngineIdentity, ...]:
        if named:
            one = await self._transactions.read(lambda c: records.find_identity(c, username=named), nobody)
            return (one.facts,) if one is not None else (self._admin,) if is_engine_admin(named) else ()
        found = await self._transactions.read(lambda c: [one.facts for one in records.identities(c)], list[EngineIdentity])
        if any(is_engine_admin(one.username) for one in found):
            return tuple(found)
        return (self._admin, *found)

    async def identity(self, id_: str) -> tuple[EngineIdentity, str]:
        """The identity with that id, and a stamp that changes with its password. Raises NotFound."""
        found = await self._transactions.read(lambda connection: records.find_identity(connection, id_=id_), nobody)
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
        found = await identity_named(self._transactions, username)
        hashed = await hash_password(password, sharer=self._lane.name)
        await self._transactions.write(lambda c: records.set_password(c, found.facts.id, hashed, password.fingerprint))

    async def set_admin_password(self, password: Password) -> None:
        """Gives `admin` a password; nothing when it has been given this very one already."""
        found = await self._transactions.read(lambda connection: records.find_identity(connection, username=ENGINE_ADMIN), nobody)
        if found is not None and password.fingerprint and found.facts.fingerprint == password.fingerprint:
            return
        hashed = await hash_password(password, sharer=self._lane.name)

        def put(connection: sa.Connection) -> None:
            present = records.find_identity(connection, username=ENGINE_ADMIN)
            if present is None:
                records.put_identity(connection, replace(self._admin, fingerprint=password.fingerprint), hashed)
            elif not password.fingerprint or present.facts.fingerprint != password.fingerprint:  # another may have set it
                records.set_password(connection, present.facts.id, hashed, password.fingerprint)

        await self._transactions.write(put)

    async def set_roles(self, username: str, roles: Sequence[tuple[str, str]]) -> None:
        found = await identity_named(self._transactions, username)
        await self._transactions.write(lambda connection: records.set_roles(connection, found.facts.id, dict(roles)))

    async def delete_identity(self, username: str) -> None:
        if is_engine_admin(username):
            raise _refused("username", "admin cannot be deleted")
        found = await identity_named(self._transactions, username)
        await self._transactions.write(lambda connection: records.remove_identity(connection, found.facts.id))

    async def authenticate(self, username: str, password: str) -> tuple[EngineIdentity, str]:
        """Return the identity with that password, and the stamp of that password. Takes as long for an unknown one.

        Raises Unauthorized.
        """
        found = await self._transactions.read(lambda connection: records.find_identity(connection, username=username), nobody)
        if not await verify_password(found.hash if found else None, password, self._lane.name) or found is None:
            raise Unauthorized("wrong username or password")
        if needs_rehash(found.hash):
            hashed = await hash_password(Password(clear=password), sharer=self._lane.name)
            await self._transactions.write(lambda connection: records.rehash(connection, found.facts.id, hashed))
        return found.facts, str(found.epoch)

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

    async def _manifest(self, app: str, version: str) -> Manifest:
        stored = await version_of(self._transactions, app, version)
        return await self._lane.run(lambda: self._manifests.manifest(stored.sha256))

    def _manifest_of(self, path: Path) -> Manifest:
        with open_package(path, self._limits_of(sha256_of(path))) as package:
            return package.manifest

    def _inspect(self, package: Path) -> PackageFacts:
        digests = digests_of(package)
        return inspect(package, self._limits_of(digests[0]), digests)

    def _limits_of(self, sha256: str) -> PackageLimits:
        return replace(self._limits, stored=self._package_files.holds(sha256))

    async def _store(self, package: Path) -> PackageFacts:
        facts = await self._lane.run(lambda: self._inspect(package))
        stored = StoredVersion(facts.app, facts.version, facts.sha256, facts.name, facts.author)

        def add(connection: sa.Connection) -> None:
            present = [one for one in records.versions(connection, facts.app) if one.version == facts.version]
            if present and present[0].sha256 != facts.sha256:
                raise _refused("file", f"{facts.app} {facts.version} is already stored, with other bytes")
            # Inside the transaction: a sweep, which waits for its end, must not take the file for a leftover.
            self._package_files.put(package, facts.sha256)
            if not present:
                records.add_version(connection, stored)

        await self._transactions.write(add)
        return facts

    async def _install(self, app: str, version: str, allow_drops: bool, listed: Sequence[MigrationStep] | None = None) -> None:
        stored = await version_of(self._transactions, app, version)
        if await self._installs.install(stored, allow_drops, listed) != stored.sha256:
            await self._opener.sweep()


def _clear_installed(connection: sa.Connection, app: str) -> None:
    forget(connection, app)
    records.clear_installed(connection, app)


def _refused(field: str, reason: str) -> Invalid:
    return Invalid((Problem(field, reason),))
