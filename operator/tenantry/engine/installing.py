"""Installs of an engine: indexes ahead, where that is possible; then tables, seeds and the version in one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from tenantry.engine import records
from tenantry.engine.data.live.log import forget
from tenantry.engine.database import Database, Locked
from tenantry.engine.migration import indexes, run
from tenantry.engine.migration.indexes import Ahead
from tenantry.engine.migration.moments import unify
from tenantry.engine.migration.run import LossRefused
from tenantry.engine.package_files import PackageFolder
from tenantry.engine.quota import EngineQuota
from tenantry.engine.records import StoredVersion
from tenantry.engine.sql.deadline import Deadline
from tenantry.engine.sql.server_session import is_pooled
from tenantry.engine.transactions import FOR_TABLES, Transactions
from tenantry.model.facts import MigrationStep
from tenantry.model.verdicts import Halt, Invalid
from tenantry.packages.check import open_checked
from tenantry.packages.manifest import Manifest
from tenantry.tracing.work import carrying, span

T = TypeVar("T")
_GONE = ("42P01", "42703")
"""PostgreSQL's codes for a table and a column that are not there."""
MIGRATION_S = 1800.0
"""The time limit of an install, and of dropping the data of an app."""


class Installs:
    """Changes of the tables of apps. The caller sees to it that they come one after the other."""

    def __init__(self, database: Database, package_files: PackageFolder, transactions: Transactions, quota: EngineQuota) -> None:
        self._database = database
        self._package_files = package_files
        self._transactions = transactions
        self._quota = quota

    async def install(self, stored: StoredVersion, allow_drops: bool, listed: Sequence[MigrationStep] | None) -> str:
        """Return the sha256 of what was installed before. Raises LossRefused, Invalid, Halt."""
        try:
            ahead = None
            if self._database.on_server:
                ahead = await self._run(lambda deadline: self._to_build_ahead(stored, allow_drops, listed, deadline))
            if ahead is not None:
                await self._run(lambda deadline: self._build_ahead(ahead, deadline))
            return await self._migrated(stored, allow_drops, listed, built=bool(ahead))
        except LossRefused as refusal:
            steps = refusal.steps
            await self._transactions.write(lambda connection: records.tell_steps(connection, stored.app, stored.version, steps))
            raise

    async def drop(self, app: str) -> None:
        """Drops the tables of an app, with their rows."""
        await self._run(lambda deadline: self._drop(app, deadline))

    async def unify_moments(self) -> None:
        """Bring the times of a database of an earlier version to one form."""
        await self._run(self._unify_moments)

    async def _migrated(
        self, stored: StoredVersion, allow_drops: bool, listed: Sequence[MigrationStep] | None, built: bool
    ) -> str:
        try:
            return await self._run(lambda deadline: self._migrate(stored, allow_drops, listed, deadline))
        except Locked:
            raise  # it is tried again soon, and finds them
        except Halt as halt:
            if built:
                with suppress(Halt):  # the next install does it
                    await self._run(lambda deadline: self._build_ahead((), deadline))
            if self._database.on_server and isinstance(halt, Invalid) and not isinstance(halt, LossRefused):
                # Rows may have come in between that a constraint refuses: then they are counted and listed.
                await self._run(lambda deadline: self._to_build_ahead(stored, allow_drops, listed, deadline))
            raise

    async def _run(self, work: Callable[[Deadline], T]) -> T:
        return await self._transactions.run(carrying(work), MIGRATION_S, waiting=FOR_TABLES)

    def _to_build_ahead(
        self, stored: StoredVersion, allow_drops: bool, listed: Sequence[MigrationStep] | None, deadline: Deadline
    ) -> tuple[Ahead, ...] | None:
        """Look without a lock. Raises Locked, to be tried again, if another install changed the tables meanwhile."""
        manifest = self._manifest(stored)
        with _unless_changed(), self._database.reading() as connection, deadline.over(connection):
            if is_pooled(connection):
                # A build takes several transactions and a lock for all of them, which a pooler cannot give.
                return None
            covered = _covered(connection, stored, listed)
            return run.to_build_ahead(connection, manifest, allow_drops, covered)

    def _build_ahead(self, wanted: tuple[Ahead, ...], deadline: Deadline) -> None:
        with self._database.outside() as connection, deadline.over(connection):
            indexes.build(connection, wanted, deadline.end - time.monotonic())

    def _manifest(self, stored: StoredVersion) -> Manifest:
        with open_checked(self._package_files.path(stored.sha256)) as package:
            return package.manifest

    def _drop(self, app: str, deadline: Deadline) -> None:
        with self._database.migrating() as connection, deadline.over(connection):
            forget(connection, app)
            run.drop_all(connection, app)

    def _unify_moments(self, deadline: Deadline) -> None:
        with self._database.migrating() as connection, deadline.over(connection), span("unify times"):
            for app in records.installed(connection):
                forget(connection, app)  # its triggers would log each row
            unify(connection)

    def _migrate(
        self, stored: StoredVersion, allow_drops: bool, listed: Sequence[MigrationStep] | None, deadline: Deadline
    ) -> str:
        app, version = stored.app, stored.version
        files = self._package_files
        with files.unpacked(stored.sha256), open_checked(files.path(stored.sha256)) as package:
            seeds = {table: partial(package.lines, name) for table, name in package.seeds().items()}
            with self._database.migrating() as connection, deadline.over(connection):
                forget(connection, app)  # its triggers name columns of before
                covered, counted = _covered(connection, stored, listed), self._database.on_server
                with self._quota.growing(connection), span("migrate"):
                    run.migrate(connection, package.manifest, seeds, allow_drops, covered, counted)
                _, before = records.installed(connection).get(app, ("", stored.sha256))
                records.set_installed(connection, app, version, stored.sha256)
                records.forget_steps(connection, app, version)
        return before


@contextmanager
def _unless_changed() -> Iterator[None]:
    try:
        yield
    except Halt as halt:
        error = halt.__cause__
        if isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", "") in _GONE:
            raise Locked("another install is changing the tables") from halt
        raise


def _covered(
    connection: sa.Connection, stored: StoredVersion, listed: Sequence[MigrationStep] | None
) -> Sequence[MigrationStep] | None:
    return records.told_steps(connection, stored.app, stored.version) if listed is None else listed
