"""Backups of engines in pools: by commands in the pods of the pools, with the rights of a kubeconfig."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import orjson
import structlog

from tenantry.adapters.kubernetes.client.execs import Container, execute
from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.client.objects import path_of
from tenantry.adapters.kubernetes.engines.workload import DATA_PATH, NAME, POD, namespace_of
from tenantry.adapters.pools.archives import parse_listing
from tenantry.model.facts import BackupFacts
from tenantry.model.resource import API_VERSION
from tenantry.model.verdicts import Halt, Transient

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class PooledArchive:
    """An archive of a removed environment in a pool's volume. key: the public key that signed it."""

    pool: str
    facts: BackupFacts
    key: str


class PoolArchives:
    """The archives of all pools of this cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def kept(self) -> tuple[PooledArchive, ...]:
        """Return the archives of the pools that answer; the others are logged. Raises Halt."""
        found, failures = await self._look()
        for pool, halt in failures:
            log.warning("the archives of a pool cannot be listed", pool=pool, error=str(halt))
        return found

    async def find(self, id_: str) -> PooledArchive | None:
        """Return the newest archive of the environment with that id. Raises Halt, also if there is none and a pool does not
        answer."""
        found, failures = await self._look()
        for archive in sorted(found, key=lambda each: each.facts.taken, reverse=True):
            if archive.facts.id == id_:
                return archive
        for _, halt in failures:
            raise halt
        return None

    async def fetch(self, archive: PooledArchive, target: Path) -> None:
        """Write the archive to a file. Raises Halt, OSError."""
        command = ("tenantry", "pool", "send", archive.facts.id, "--data", DATA_PATH)
        with target.open("wb") as out:
            await execute(self._client, _pod(archive.pool), command, told=out)

    async def bring(self, pool: str, id_: str, archive: Path, scratch: str, trusted: Sequence[str]) -> None:
        """Unpack an archive in the pool whose engine with that id waits for it. scratch: a folder of the pod. Raises Halt."""
        command = ("tenantry", "pool", "receive", id_, "--data", DATA_PATH, "--scratch", scratch, *trusted)
        with archive.open("rb") as given:
            await execute(self._client, _pod(pool), command, given=given)

    async def _look(self) -> tuple[tuple[PooledArchive, ...], tuple[tuple[str, Halt], ...]]:
        found: list[PooledArchive] = []
        failures: list[tuple[str, Halt]] = []
        for pool in await self._pools():
            try:
                found += await self._listed(pool)
            except Halt as halt:
                failures.append((pool, halt))
        return tuple(found), tuple(failures)

    async def _listed(self, pool: str) -> list[PooledArchive]:
        with tempfile.TemporaryFile() as told:
            await execute(self._client, _pod(pool), ("tenantry", "pool", "archives", "--data", DATA_PATH), told=told)
            told.seek(0)
            try:
                key, archives = parse_listing(orjson.loads(told.read()))
            except (KeyError, TypeError, ValueError) as error:
                raise Halt(Transient("PoolAnswer", f"pool {pool} does not list its archives: {error}")) from error
        where = f"{namespace_of(pool)}/{POD}"
        return [PooledArchive(pool, replace(each, path=f"{where}:{each.path}"), key) for each in archives]

    async def _pools(self) -> tuple[str, ...]:
        """Return the ids of the pools that exist."""
        regions = await self._client.request("GET", path_of(API_VERSION, "Region"))
        return tuple(pool["id"] for region in regions["items"] for pool in (region.get("status") or {}).get("pools") or ())


def _pod(pool: str) -> Container:
    return Container(namespace_of(pool), POD, NAME)
