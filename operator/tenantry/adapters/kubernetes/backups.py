"""Backups of engines on a cluster, as whoever has a kubeconfig makes them: by commands in the engines' own pods."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from tenantry.adapters.kubernetes.client import Client
from tenantry.adapters.kubernetes.engine_state import awaits, was_given
from tenantry.adapters.kubernetes.execs import Container, execute
from tenantry.adapters.kubernetes.kept import KeptVolume, kept_volumes
from tenantry.adapters.kubernetes.objects import path_of
from tenantry.adapters.kubernetes.wire import object_path
from tenantry.adapters.kubernetes.workload import DATA_PATH, NAME, POD, RESTORE, covers, labels_of, namespace_of
from tenantry.adapters.local.archives import POSTGRESQL, SQLITE, Backup, check, complete, mark_of, read
from tenantry.adapters.local.backups import facts_of
from tenantry.adapters.local.members import scratch_folder
from tenantry.model.facts import BackupFacts, EngineRef
from tenantry.model.resource import Document, Ref
from tenantry.model.verdicts import Halt, Invalid, NotFound, Problem, Transient

BRING_BACK = ("tenantry", "engine", "restore", "-", "--data", DATA_PATH)
TEMPORARY, LARGEST_TEMPORARY = "/tmp", 3 << 29  # noqa: S108 - in the pod
"""Where a pod keeps an archive until it is restored, and up to which size in bytes; a larger one needs room in its volume."""
BACK_UP = ("tenantry", "engine", "backup", "--data", DATA_PATH, "-o", "-")
PATIENCE_S = 300.0
"""How long the operator, the cluster and the node may take for an engine."""
AGAIN_S = 1.0
LOOKS = 4
Declared = Callable[[EngineRef], Awaitable[Sequence[Document]]]
"""What is declared of an environment now, without state and secrets: the Environment, then its contents."""
Archive = Path | KeptVolume
"""A file, or the volume of a removed environment."""


class ClusterBackups:
    """hosts.undeleting.Archives of a cluster."""

    def __init__(self, client: Client, declared: Declared) -> None:
        self._client = client
        self._declared = declared

    async def write(self, ref: EngineRef, target: Path) -> BackupFacts:
        """Backs an engine up while it runs, by way of a copy beside the target. Raises NotFound (no engine here), Invalid, Halt,
        OSError."""
        if await self._pod(ref) is None:
            name = f"{ref.namespace}/{ref.name}"
            raise NotFound(f"environment {name} has no engine on this cluster, so there is nothing to back up")
        documents = await self._declared(ref)
        with scratch_folder(target.parent) as folder:
            engine = folder / "engine.tar"
            with engine.open("wb") as told:
                await execute(self._client, Container(namespace_of(ref.id), POD, NAME), BACK_UP, told=told)
            await asyncio.to_thread(complete, engine, ref, documents, target)
        return await asyncio.to_thread(facts_of, target, "")

    async def kept(self) -> tuple[BackupFacts, ...]:
        """The volumes of removed environments, the newest first, but for those that an environment has again."""
        return tuple(kept.facts() for kept in await kept_volumes(self._client) if not kept.taken_up)

    async def find(self, given: str) -> Archive:
        """The file of that path, or the newest volume of the environment with that id. Raises NotFound."""
        if await asyncio.to_thread(Path(given).is_file):
            return Path(given)
        for kept in await kept_volumes(self._client):
            if kept.backup.ref.id == given:
                return kept
        raise NotFound(f"{given}: no such file, and no kept volume of an environment with that id; see `tenantry backups`")

    async def read(self, archive: Archive) -> Backup:
        """Raises Invalid, OSError."""
        return archive.backup if isinstance(archive, KeptVolume) else await asyncio.to_thread(read, archive)

    def mark(self, archive: Archive, backup: Backup) -> str:
        """As of a host; of a volume with the name of the Secret that tells of it."""
        return archive.mark if isinstance(archive, KeptVolume) else mark_of(backup)

    async def stage(self, archive: Archive, ref: EngineRef) -> None:
        """Looks whether the archive fits its Environment; all else is the operator's, once that is made. Raises Invalid, Halt."""
        if isinstance(archive, KeptVolume):
            return
        await asyncio.to_thread(check, archive)
        backup = await self.read(archive)
        reason = _misfit(backup) or await self._far(backup)
        if reason:
            raise Invalid((Problem(str(archive), reason),))

    async def fill(self, archive: Archive, ref: EngineRef) -> None:
        """Returns when the engine runs, or with a file, when it has its data. Raises Halt, OSError."""
        if isinstance(archive, KeptVolume):
            return await self._until(ref, self._runs)
        await self._until(ref, self._takes_or_has)
        pod = await self._pod(ref)
        if pod is None or not awaits(pod):
            return None
        size = (await asyncio.to_thread(archive.stat)).st_size
        scratch = TEMPORARY if size <= LARGEST_TEMPORARY else f"{DATA_PATH}/incoming"
        try:
            with archive.open("rb") as given:
                await execute(
                    self._client, Container(namespace_of(ref.id), POD, RESTORE), (*BRING_BACK, "--scratch", scratch), given=given
                )
        except Halt:
            # The container ends when it has all, and may take the command along before that has told.
            if not await self._has(ref):
                raise
        return None

    async def _until(self, ref: EngineRef, holds: Callable[[EngineRef, Document], Awaitable[bool]]) -> None:
        """Waits for what the operator does. Raises a Transient Halt with what the Environment tells when it takes too long."""
        environment = Ref("Environment", ref.namespace, ref.name)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            document = await self._client.request("GET", object_path(environment))
            if await holds(ref, document):
                return
            told = _told(document)
            if time.monotonic() >= deadline:
                raise Halt(Transient("RestoreUnfinished", f"{environment} waits: {told}; run the restore again to go on"))
            await asyncio.sleep(AGAIN_S)

    async def _runs(self, ref: EngineRef, environment: Document) -> bool:
        return bool((environment.get("status") or {}).get("phase") == "READY")

    async def _takes_or_has(self, ref: EngineRef, environment: Document) -> bool:
        pod = await self._pod(ref)
        return (pod is not None and awaits(pod)) or await self._runs(ref, environment)

    async def _has(self, ref: EngineRef) -> bool:
        """Was the archive brought to the pod after all? The node tells that a moment later."""
        for _ in range(LOOKS):
            pod = await self._pod(ref)
            if pod is not None and was_given(pod):
                return True
            await asyncio.sleep(AGAIN_S)
        return False

    async def _far(self, backup: Backup) -> str:
        """Why the Environment's region is out of reach, `""` where it is not."""
        name = backup.documents[0]["spec"].get("region", "")
        try:
            region = await self._client.request("GET", object_path(Ref("Region", "", name)))
        except NotFound:
            return f"its Environment is in the region {name}, which is not declared here"
        if "kubeconfigSecretRef" not in (region["spec"].get("kubernetes") or {}):
            return ""
        return f"the engines of its region {name} run on another cluster, which this command does not reach"

    async def _pod(self, ref: EngineRef) -> Document | None:
        """The pod of that environment's engine, None where there is none."""
        try:
            pod = await self._client.request("GET", path_of("v1", "Pod", namespace_of(ref.id), POD))
        except NotFound:
            return None
        return pod if covers(pod["metadata"].get("labels") or {}, labels_of(ref)) else None


def _misfit(backup: Backup) -> str:
    """Why no engine of its Environment can have that archive, `""` where one can."""
    engine = backup.documents[0]["spec"].get("engine") or {}
    if engine.get("external"):
        return "its Environment has an engine of others, into which nothing is restored"
    wanted = POSTGRESQL if engine.get("database") else SQLITE
    if wanted != backup.database:
        return f"is of an engine on {backup.database}, and its Environment declares one on {wanted}"
    return ""


def _told(environment: Document) -> str:
    """What the Environment says of itself."""
    for condition in (environment.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Ready":
            return f"{condition['reason']}: {condition.get('message', '')}"
    return "the operator has not looked at it yet"
