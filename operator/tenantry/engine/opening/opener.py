"""Opens an engine's database, and removes what interrupted work left in its folder."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from tenantry.engine import records
from tenantry.engine.database import Database
from tenantry.engine.installing import Installs
from tenantry.engine.migration.moments import is_unified
from tenantry.engine.opening.first_look import FirstLook
from tenantry.engine.opening.ownership import Ownership
from tenantry.engine.package_files import PackageFolder
from tenantry.engine.sql.deadline import Deadline
from tenantry.engine.sql.moving import is_moving
from tenantry.engine.transactions import WRITE_S, Transactions


class DatabaseOpener:
    """One engine's. expect: is given the installed packages, in a thread, if a first look suffices."""

    def __init__(
        self,
        database: Database,
        ownership: Ownership,
        package_files: PackageFolder,
        transactions: Transactions,
        installs: Installs,
        expect: Callable[[Collection[str]], None],
    ) -> None:
        self._database = database
        self._ownership = ownership
        self._package_files = package_files
        self._transactions = transactions
        self._installs = installs
        self._expect = expect

    async def open(self, data: Path, beside: Callable[[], None]) -> None:
        """Open the database, if there is one. data: the engine's folder; beside: as of Engine.open. Raises Halt."""
        if await self._transactions.open_as_left(lambda look: self._is_as_left(look, beside)):
            return
        lane = self._transactions.lane
        await lane.run(lambda: data.mkdir(mode=0o700, parents=True, exist_ok=True))
        if await lane.run(lambda: self._database.exists):
            if await lane.run(lambda: is_moving(data)):  # reads go on, also after a restart
                await self._transactions.open_unchanged()
                return
            if not await self._transactions.write(is_unified):
                await self._installs.unify_moments()
            await self.sweep()

    def _is_as_left(self, look: FirstLook, beside: Callable[[], None]) -> bool:
        """Return True if nothing is to be made, marked or removed."""
        known = look.whole and self._ownership.is_known(look.mark, self._database.on_server)
        if not known or not self._package_files.has_only(look.stored, look.installed):
            return False
        self._expect([sha256 for sha256 in look.installed if self._package_files.vouches(sha256)])
        beside()
        return True

    async def sweep(self) -> None:
        """Remove the files that no record names."""
        await self._transactions.run(self._sweep, WRITE_S)

    def _sweep(self, deadline: Deadline) -> None:
        if not self._transactions.prepared:
            return
        with self._package_files.swept() as alone:
            if not alone:
                return
            with self._database.writing() as connection, deadline.over(connection):
                stored = {one.sha256 for one in records.versions(connection)}
                installed = {sha256 for _, sha256 in records.installed(connection).values()}
                self._package_files.keep_only(stored, installed)
