"""Backups of engines on a cluster, as whoever has a kubeconfig makes them: by commands in the engines' own pods."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from tenantry.adapters.kubernetes.client.execs import Container, execute
from tenantry.adapters.kubernetes.client.http import MERGE_PATCH, Client
from tenantry.adapters.kubernetes.client.objects import path_of
from tenantry.adapters.kubernetes.client.wire import object_path
from tenantry.adapters.kubernetes.engines.comparing import covers
from tenantry.adapters.kubernetes.engines.kept_volumes import KeptVolume, kept_volumes
from tenantry.adapters.kubernetes.engines.pool_archives import PoolArchives
from tenantry.adapters.kubernetes.engines.state import awaits, was_given
from tenantry.adapters.kubernetes.engines.workload import DATA_PATH, NAME, POD, RESTORE, labels_of, namespace_of
from tenantry.adapters.local.archives import Packing, appearing, mark_of, misfit
from tenantry.adapters.local.backups import facts_of
from tenantry.adapters.local.completing import complete
from tenantry.adapters.local.reading import Checked, check, read
from tenantry.adapters.local.signing import ArchiveKey
from tenantry.model.facts import Backup, BackupFacts, EngineRef, Trust
from tenantry.model.resource import RECONCILE_REQUESTED, WAKE_REQUESTED, Document, Ref, format_time
from tenantry.model.verdicts import Halt, Invalid, NotFound, Problem, Transient

BRING_BACK = ("tenantry", "engine", "restore", "-", "--data", DATA_PATH)
TEMPORARY, LARGEST_TEMPORARY = "/tmp", 3 << 29  # noqa: S108 - in the pod
"""The folder of a pod that keeps an archive until it is restored, and its limit in bytes; a larger archive needs room in the
volume."""
WITH_KEYS = ("env", "TENANTRY_BACKUPS__KEYS=true")
BACK_UP = (*WITH_KEYS, "tenantry", "engine", "backup", "-o", "-", "--data")
"""With the engine's own keys: whoever completes the archive leaves them out, unless it encrypts. Older engines know no such
setting, and leave none out."""
PATIENCE_S = 300.0
"""The time that the operator, the cluster and the node may take for an engine."""
AGAIN_S = 1.0
KEPT_AWAKE_S = 120.0
"""The pause between two requests to wake an engine: it runs for five minutes after each."""
NOT_RESTORED = ("RestoreUnfinished", "run the restore again to continue")
NOT_AWAKE = ("EngineSleeping", "its engine was not woken in time; try again once it is awake")
LOOKS = 4
Declared = Callable[[EngineRef], Awaitable[Sequence[Document]]]
"""The present declarations of an environment, without state and secrets: the Environment, then its contents."""
Archive = Checked | KeptVolume
"""A file, or the volume of a removed environment."""


class ClusterBackups:
    """runtime.undeleting.Archives of a cluster."""

    def __init__(self, client: Client, declared: Declared, key: ArchiveKey, scratch: Path, keys: bool = False) -> None:
        """scratch: a folder for archives out of pools, which the caller removes."""
        self._client = client
        self._pools = PoolArchives(client)
        self._scratch = scratch
        self._declared = declared
        self._key = key
        self._keys = keys

    async def write(self, ref: EngineRef, target: Path, recipients: Sequence[str]) -> BackupFacts:
        """Backs an engine up while it runs. Raises NotFound (no engine here), Invalid, Halt, OSError."""
        pool = await self._pool_of(ref)
        async with self._awake(ref):
            return await self._written(ref, pool, target, recipients)

    async def _written(self, ref: EngineRef, pool: str, target: Path, recipients: Sequence[str]) -> BackupFacts:
        if not pool and await self._pod(ref) is None:
            name = f"{ref.namespace}/{ref.name}"
            raise NotFound(f"environment {name} has no engine on this cluster, so there is nothing to back up")
        documents = await self._declared(ref)
        command = await self._command(ref, pool, documents[0]["spec"].get("region", ""))
        container = Container(namespace_of(pool or ref.id), POD, NAME)
        with appearing(target) as unfinished:
            reading, told = _pipe()
            packing = Packing(self._key, recipients, self._keys)
            completing = asyncio.create_task(asyncio.to_thread(_complete, reading, ref, documents, unfinished, packing))
            try:
                with told, suppress(BrokenPipeError):  # then the reader of the pipe raises the cause
                    await execute(self._client, container, command, told=told)
            finally:
                await asyncio.wait((completing,))
            backup = completing.result()
        signed = replace(backup, signer=await asyncio.to_thread(self._key.public))
        return await asyncio.to_thread(facts_of, signed, target)

    async def _command(self, ref: EngineRef, pool: str, region: str) -> tuple[str, ...]:
        """Return the command that backs an engine up in its pod. An earlier release of a pool knows the first one only."""
        if not pool or not await self._is_shared(pool, region):
            return (*BACK_UP, f"{DATA_PATH}/engines/{ref.id}" if pool else DATA_PATH)
        return (*WITH_KEYS, "tenantry", "pool", "backup", ref.id, "--data", DATA_PATH)

    async def _is_shared(self, pool: str, region: str) -> bool:
        """Return True for a pool on a server: which of its pods has files of an engine is chance."""
        declared = await self._client.request("GET", object_path(Ref("Region", "", region)))
        there = (declared.get("status") or {}).get("pools") or ()
        return any(each["id"] == pool and each.get("adminSecretRef") for each in there)

    @asynccontextmanager
    async def _awake(self, ref: EngineRef) -> AsyncIterator[None]:
        """Keep an engine that may sleep awake until the end of the block. Raises Halt."""
        if "hibernation" not in (await self._client.request("GET", _path(ref)))["spec"]:
            yield
            return
        asked = await self._wake(ref)

        async def handled(_: EngineRef, environment: Document) -> bool:
            return bool((environment.get("status") or {}).get("lastHandledWakeAt") == asked)

        await self._until(ref, handled, NOT_AWAKE)
        keeping = asyncio.create_task(self._keep_awake(ref))
        try:
            yield
        finally:
            keeping.cancel()

    async def _wake(self, ref: EngineRef) -> str:
        """Ask the operator to wake the engine, or to let it run on for some minutes. Return the request."""
        asked = format_time(datetime.now(UTC))
        body = {"metadata": {"annotations": {WAKE_REQUESTED: asked}}}
        await self._client.request("PATCH", _path(ref), body=body, content_type=MERGE_PATCH)
        return asked

    async def _keep_awake(self, ref: EngineRef) -> None:
        while True:
            await asyncio.sleep(KEPT_AWAKE_S)
            with suppress(Halt):  # the next request follows before the engine may fall asleep
                await self._wake(ref)

    async def kept(self) -> tuple[BackupFacts, ...]:
        """The volumes of removed environments, and their archives in pools, the newest first. A volume that an environment has
        again is not among them."""
        volumes = [kept.facts() for kept in await self._volumes() if not kept.taken_up]
        archives = [archive.facts for archive in await self._pools.kept()]
        return tuple(sorted((*volumes, *archives), key=lambda facts: facts.taken, reverse=True))

    async def find(self, given: str, trust: Trust) -> Archive:
        """The file of that path, or the newest volume of the environment with that id, or its archive in a pool if that is newer.

        Raises NotFound, Invalid, Halt, OSError.
        """
        if await asyncio.to_thread(Path(given).is_file):
            own = await asyncio.to_thread(self._key.public)
            return await asyncio.to_thread(check, Path(given), trust.with_key(own))
        volume = next((kept for kept in await self._volumes() if kept.backup.ref.id == given), None)
        archive = await self._pools.find(given)
        if archive is not None and (volume is None or archive.facts.taken > volume.facts().taken):
            file = self._scratch / f"{given}.tar"
            await self._pools.fetch(archive, file)
            return await asyncio.to_thread(check, file, trust.with_key(archive.key))
        if volume is not None:
            return volume
        told = "no such file, and no kept volume or archive of an environment with that id; see `tenantry backups`"
        raise NotFound(f"{given}: {told}")

    async def read(self, archive: Archive) -> Backup:
        """Raises Invalid, OSError."""
        return archive.backup if isinstance(archive, KeptVolume) else await asyncio.to_thread(read, archive)

    def mark(self, archive: Archive, backup: Backup) -> str:
        """Return the mark of an archive as on a host; for a volume, the name of the Secret that describes it."""
        return archive.mark if isinstance(archive, KeptVolume) else mark_of(backup)

    async def stage(self, archive: Archive, ref: EngineRef) -> None:
        """Looks whether the archive fits its Environment; all else is the operator's, once that is made. Raises Invalid, Halt."""
        if isinstance(archive, KeptVolume):
            return
        backup = await self.read(archive)
        reason = misfit(backup, pools=True) or await self._far(backup)
        if reason:
            raise Invalid((Problem(str(archive.path), reason),))

    async def fill(self, archive: Archive, ref: EngineRef) -> None:
        """Returns when the engine runs, or with a file, when it has its data. Raises Halt, OSError."""
        if isinstance(archive, KeptVolume):
            return await self._until(ref, self._runs)
        await self._until(ref, self._takes_or_has)
        size = (await asyncio.to_thread(archive.path.stat)).st_size
        scratch = TEMPORARY if size <= LARGEST_TEMPORARY else f"{DATA_PATH}/incoming"
        trusted = ("--trust", archive.signer) if archive.trusted else ("--unprotected",)
        pool = await self._pool_of(ref)
        if pool:
            return await self._fill_in_pool(pool, archive, ref, scratch, trusted)
        pod = await self._pod(ref)
        if pod is None or not awaits(pod):
            return None
        try:
            command = (*BRING_BACK, "--scratch", scratch, *trusted)
            with archive.path.open("rb") as given:
                await execute(self._client, Container(namespace_of(ref.id), POD, RESTORE), command, given=given)
        except Halt:
            # The container ends when it has the whole backup, and may end the command before the command reports success.
            if not await self._has(ref):
                raise
        return None

    async def _fill_in_pool(self, pool: str, archive: Checked, ref: EngineRef, scratch: str, trusted: Sequence[str]) -> None:
        """The pool takes the archive in when the operator reconciles the Environment."""
        environment = object_path(Ref("Environment", ref.namespace, ref.name))
        if not await self._runs(ref, await self._client.request("GET", environment)):
            await self._pools.bring(pool, ref.id, archive.path, scratch, trusted)
            asked = {"metadata": {"annotations": {RECONCILE_REQUESTED: format_time(datetime.now(UTC))}}}
            await self._client.request("PATCH", environment, body=asked, content_type=MERGE_PATCH)
        await self._until(ref, self._runs)

    async def _until(
        self, ref: EngineRef, holds: Callable[[EngineRef, Document], Awaitable[bool]], late: tuple[str, str] = NOT_RESTORED
    ) -> None:
        """Wait for the operator. Raises a Transient Halt after too long a time. late: its reason, and what to do then."""
        environment = Ref("Environment", ref.namespace, ref.name)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            document = await self._client.request("GET", object_path(environment))
            if await holds(ref, document):
                return
            told = _told(document)
            if time.monotonic() >= deadline:
                raise Halt(Transient(late[0], f"{environment} waits: {told}; {late[1]}"))
            await asyncio.sleep(AGAIN_S)

    async def _runs(self, ref: EngineRef, environment: Document) -> bool:
        return bool((environment.get("status") or {}).get("phase") == "READY")

    async def _takes_or_has(self, ref: EngineRef, environment: Document) -> bool:
        engine = (environment.get("status") or {}).get("engine") or {}
        if engine.get("pool"):
            return engine["status"] == "PENDING" or await self._runs(ref, environment)
        pod = await self._pod(ref)
        return (pod is not None and awaits(pod)) or await self._runs(ref, environment)

    async def _has(self, ref: EngineRef) -> bool:
        """Return True if the archive reached the pod after all; the node reports that a moment later."""
        for _ in range(LOOKS):
            pod = await self._pod(ref)
            if pod is not None and was_given(pod):
                return True
            await asyncio.sleep(AGAIN_S)
        return False

    async def _far(self, backup: Backup) -> str:
        """Return the reason why the Environment's region is out of reach, `""` if it is not."""
        name = backup.documents[0]["spec"].get("region", "")
        try:
            region = await self._client.request("GET", object_path(Ref("Region", "", name)))
        except NotFound:
            return f"its Environment is in the region {name}, which is not declared here"
        if "kubeconfigSecretRef" not in (region["spec"].get("kubernetes") or {}):
            return ""
        return f"the engines of its region {name} run on another cluster, which this command does not reach"

    async def _volumes(self) -> list[KeptVolume]:
        """The kept volumes of environments, the newest first."""
        return [kept for kept in await kept_volumes(self._client) if not kept.is_of_pool]

    async def _pool_of(self, ref: EngineRef) -> str:
        """The id of the pool that holds the engine of an environment, `""` for a pod of its own. Raises NotFound, Halt."""
        document = await self._client.request("GET", object_path(Ref("Environment", ref.namespace, ref.name)))
        return str(((document.get("status") or {}).get("engine") or {}).get("pool", ""))

    async def _pod(self, ref: EngineRef) -> Document | None:
        """The pod of that environment's engine, None where there is none."""
        try:
            pod = await self._client.request("GET", path_of("v1", "Pod", namespace_of(ref.id), POD))
        except NotFound:
            return None
        return pod if covers(pod["metadata"].get("labels") or {}, labels_of(ref)) else None


def _pipe() -> tuple[BinaryIO, BinaryIO]:
    """Its two ends."""
    reading, writing = os.pipe()
    return os.fdopen(reading, "rb"), os.fdopen(writing, "wb")


def _complete(engine: BinaryIO, ref: EngineRef, documents: Sequence[Document], target: Path, packing: Packing) -> Backup:
    with engine:
        return complete(engine, ref, documents, target, packing)


def _path(ref: EngineRef) -> str:
    """Return the path of the Environment."""
    return object_path(Ref("Environment", ref.namespace, ref.name))


def _told(environment: Document) -> str:
    """Return the message of the Environment."""
    for condition in (environment.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Ready":
            return f"{condition['reason']}: {condition.get('message', '')}"
    return "the operator has not reconciled it yet"
