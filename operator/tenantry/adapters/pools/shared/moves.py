"""The engines that move into a pool on a server or out of it. Each replica may be given any command of a move."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from tenantry.adapters.local.archives import POSTGRESQL
from tenantry.adapters.local.deployer import LocalDeployer
from tenantry.adapters.local.hosting import LocalHosting
from tenantry.adapters.local.server_copies import dump_to_move
from tenantry.adapters.moving.leaving import LeavingCopy, LeavingDatabase
from tenantry.adapters.moving.room import CopyRoom
from tenantry.adapters.pools.moves import PoolMoves
from tenantry.adapters.pools.shared.backups import bring_packages
from tenantry.adapters.pools.shared.folders import CatalogFollower
from tenantry.adapters.pools.shared.opening import SharedParts
from tenantry.model.facts import EngineRef


class SharedMoves(PoolMoves):
    """As PoolMoves. Of the commands about one engine, one replica carries out one at a time, and knows what others did before."""

    def __init__(
        self, parts: SharedParts, deployer: LocalDeployer, hosting: LocalHosting, follower: CatalogFollower, room: CopyRoom
    ) -> None:
        super().__init__(parts.folders, parts.backups, deployer, hosting, room)
        self._parts = parts
        self._follower = follower

    @asynccontextmanager
    async def _turn(self, ref: EngineRef) -> AsyncIterator[None]:
        async with super()._turn(ref):
            held = self._parts.catalog.turn(ref.id)
            await asyncio.to_thread(held.__enter__)
            try:
                await self._follower.refresh()
                yield
            finally:
                await asyncio.to_thread(held.__exit__, None, None, None)

    def _remove_taken(self, ref: EngineRef) -> None:
        """The folder has keys of the same engine and nothing of its database: it may stay."""

    def _database(self, ref: EngineRef, folder: Path) -> LeavingDatabase:
        return LeavingRows(self._parts, ref.id, folder)


class LeavingRows:
    """LeavingDatabase on the server of a pool. folder: of the engine at this replica; its packages are brought for a copy."""

    def __init__(self, parts: SharedParts, id_: str, folder: Path) -> None:
        self._parts = parts
        self._id = id_
        self._folder = folder
        self._url = parts.databases.of(id_)

    def copy(self, earlier: bytes) -> LeavingCopy:
        return LeavingCopy(POSTGRESQL, partial(self._copied, earlier))

    def _copied(self, earlier: bytes, scratch: Path) -> Generator[str]:
        """After the rows: a package is there before the rows that name it, and goes after them."""
        yield from dump_to_move(self._url, scratch, earlier, named=False)
        bring_packages(self._parts.catalog, self._id, self._folder)

    def token(self) -> str:
        from tenantry.engine.logical.moving import token_of

        return token_of(self._url)

    def freeze(self) -> str:
        from tenantry.engine.logical.moving import freeze

        return freeze(self._url)

    def give(self, token: str) -> None:
        from tenantry.engine.logical.moving import give

        give(self._url, token)

    def thaw(self, *, cancelled: bool) -> None:
        from tenantry.engine.logical.moving import thaw

        thaw(self._url, cancelled=cancelled)
