"""Volumes of removed environments. For each, a Secret in the platform's namespace keeps the declarations of its environment."""

from __future__ import annotations

import asyncio
import gzip
import io
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import orjson
import structlog

from tenantry.adapters.kubernetes.client.http import MERGE_PATCH, Client
from tenantry.adapters.kubernetes.client.objects import path_of
from tenantry.adapters.kubernetes.engines.workload import ID_LABEL, MANAGED_BY
from tenantry.adapters.kubernetes.store import WRITE
from tenantry.adapters.local.archives import joined
from tenantry.model.facts import Backup, BackupFacts, EngineRef
from tenantry.model.quotas import CheckArchive, unlimited
from tenantry.model.resource import GROUP, SYSTEM_NAMESPACE, Document, format_time, parse_time
from tenantry.model.verdicts import AlreadyExists, Halt, NotFound, Stalled

log = structlog.get_logger(__name__)

KEPT = f"{GROUP}/kept"
"""Label of a volume that outlived its environment, and of the Secret that describes it."""
TAKEN_UP = f"{GROUP}/taken-up"
"""Label of that Secret once an environment was given its volume again."""
RECLAIM = f"{GROUP}/reclaim-policy"
"""Annotation of a kept volume: its reclaim policy before it was kept."""
UNFILLED = f"{GROUP}/unfilled"
"""Label of the claim of a removed engine that still waited for its archive: there is nothing to keep."""
LARGEST = 900 << 10
"""Bytes of what a Secret holds of declarations, compressed: it takes 1 MiB in all."""
LARGEST_INFLATED = 64 << 20
_ABOUT, _RESOURCES = "about.json", "resources.json.gz"
_UNITS = {unit: 1000**power for power, unit in enumerate(("", "k", "M", "G", "T", "P", "E"))} | {
    unit: 1024**power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)
}
ClientOf = Callable[[str], Awaitable[Client | None]]
"""The cluster of a region, None for a region that is not there."""
Declared = Callable[[EngineRef], Sequence[Document]]


class Volume(NamedTuple):
    """A volume that a claim is to have."""

    name: str
    storage_class: str


def claiming(volume: Volume, wanted: Document) -> Document:
    """Return the wanted objects, with a claim for that volume."""
    if wanted["kind"] != "PersistentVolumeClaim":
        return wanted
    return {**wanted, "spec": {**wanted["spec"], "volumeName": volume.name, "storageClassName": volume.storage_class}}


@dataclass(frozen=True)
class KeptVolume:
    """secret: the name of the Secret that describes it; claim: the uid of its former claim; size in bytes."""

    secret: str
    backup: Backup
    volume: str
    claim: str
    region: str
    size: int
    until: datetime
    taken_up: bool = False

    @property
    def is_of_pool(self) -> bool:
        """Return True for the volume of a removed pool: it has the archives of several environments."""
        return self.backup.ref.is_pool

    @property
    def mark(self) -> str:
        """Return the mark of the Environment that receives this volume."""
        return f"{self.backup.ref.id}@{format_time(self.backup.taken)}@{self.secret}"

    def facts(self) -> BackupFacts:
        ref, place = self.backup.ref, f"persistentvolume/{self.volume}"
        taken, until = format_time(self.backup.taken), format_time(self.until)
        return BackupFacts(ref.id, ref.namespace, ref.name, taken, self.size, until, place)


def document_of(kept: KeptVolume) -> Document:
    """Return the Secret that describes the volume. Raises a Stalled Halt (TooMuchDeclared)."""
    backup, ref = kept.backup, kept.backup.ref
    about = {"id": ref.id, "namespace": ref.namespace, "name": ref.name, "takenAt": format_time(backup.taken)}
    about |= {"volume": kept.volume, "claim": kept.claim, "region": kept.region}
    held = gzip.compress(orjson.dumps(backup.documents), mtime=0)
    if len(held) > LARGEST:
        told = f"what is declared in environment {ref.namespace}/{ref.name} is too much to be kept beside its volume"
        raise Halt(Stalled("TooMuchDeclared", f"{told}: remove some of it, or set deletionPolicy to Delete or Retain"))
    data = {_ABOUT: orjson.dumps({**about, "size": kept.size, "keptUntil": format_time(kept.until)}), _RESOURCES: held}
    labels = {**MANAGED_BY, KEPT: "true", ID_LABEL: ref.id}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": f"{GROUP}/kept-volume",
        "metadata": {"name": kept.secret, "namespace": SYSTEM_NAMESPACE, "labels": labels},
        "data": {name: b64encode(content).decode() for name, content in data.items()},
    }


def kept_of(secret: Document) -> KeptVolume:
    """Read a Secret of `document_of`. Raises a Stalled Halt (KeptVolumeUnreadable)."""
    metadata = secret["metadata"]
    try:
        about = orjson.loads(b64decode(secret["data"][_ABOUT]))
        documents = tuple(orjson.loads(_inflated(b64decode(secret["data"][_RESOURCES]))))
        backup = Backup(EngineRef(about["namespace"], about["name"], about["id"]), parse_time(about["takenAt"]), documents)
        return KeptVolume(
            metadata["name"],
            backup,
            about["volume"],
            about["claim"],
            about["region"],
            about["size"],
            parse_time(about["keptUntil"]),
            TAKEN_UP in (metadata.get("labels") or {}),
        )
    except (KeyError, ValueError, TypeError, OSError, EOFError) as error:
        told = f"Secret {metadata['name']} does not describe a kept volume: {error!r}"
        raise Halt(Stalled("KeptVolumeUnreadable", told, "Operator")) from error


def _inflated(held: bytes) -> bytes:
    with gzip.open(io.BytesIO(held)) as file:
        return file.read(LARGEST_INFLATED)


def bytes_of(quantity: str) -> int:
    """Of a quantity such as 2Gi, 500M or 1e9."""
    number = quantity.rstrip("kKMGTPEi")
    return int(float(number) * _UNITS[quantity[len(number) :]])


class KeptVolumes:
    """Keep volumes, return them to environments, and let them go. own: the platform's cluster, which holds the Secrets."""

    def __init__(self, own: Client, declared: Declared, keep: timedelta, check_archive: CheckArchive = unlimited) -> None:
        self._own = own
        self._check_archive = check_archive
        self._declared = declared
        self._keep = keep

    async def keep(self, client: Client, ref: EngineRef, region: str, claim: Document) -> None:
        """Keeps the volume of an engine's claim, and remembers what is declared in the environment. Idempotent. Raises Halt."""
        uid = claim["metadata"]["uid"]
        name = f"kept-{uid}"
        found = await _bound(client, claim)
        await self._check_room(ref, name, found)
        volume = await self._retained(client, found, ref)
        earlier = await self._told(name)
        taken = datetime.now(UTC).replace(microsecond=0)
        documents = joined(self._declared(ref), earlier.backup.documents if earlier else ())
        size = bytes_of(volume["spec"]["capacity"]["storage"])
        backup = Backup(ref, taken, documents)
        kept = KeptVolume(name, backup, volume["metadata"]["name"], uid, region, size, taken + self._keep)
        told = await asyncio.to_thread(document_of, kept)
        try:
            await self._own.request("POST", _path(), query=WRITE, body=told)
        except AlreadyExists:
            await self._own.request("PUT", _path(name), query=WRITE, body=told)
        # After all writes: a volume that was deleted during them goes with its claim, and the engine must stay until then.
        await _bound(client, claim)

    async def reserve(self, client: Client, ref: EngineRef, region: str, secret: str) -> Volume:
        """Reserves a kept volume for the claim of that environment's engine alone. Idempotent.

        Raises Halt: KeptVolumeGone, KeptVolumeTaken; nothing is done then.
        """
        kept = await self._told(secret)
        if kept is None or (kept.backup.ref.id, kept.region) != (ref.id, region):
            raise Halt(Stalled("KeptVolumeGone", f"no volume of environment {ref.id} is kept in region {region} as {secret}"))
        volume = await _volume(client, kept.volume)
        if volume is None or not _is_kept(volume, ref.id):
            raise Halt(Stalled("KeptVolumeTaken", f"PersistentVolume {kept.volume} is no longer kept for environment {ref.id}"))
        await _label(self._own, _path(secret), {TAKEN_UP: "true"})
        claimed = volume["spec"].get("claimRef") or {}
        if claimed.get("uid") == kept.claim:
            # The name of the claim stays: nobody else's is ever bound to the volume.
            again = {"claimRef": {"uid": None, "resourceVersion": None}}
            await _patch_volume(client, volume, {"spec": again})
        return Volume(kept.volume, volume["spec"].get("storageClassName", ""))

    async def run(self, client_of: ClientOf, restoring: Callable[[], Collection[str]], period_s: float) -> None:
        """Sweeps now and then, without end."""
        while True:
            try:
                await self.sweep(client_of, restoring, datetime.now(UTC))
            except Halt as halt:
                log.warning("kept volumes cannot be swept", error=str(halt))
            await asyncio.sleep(period_s)

    async def sweep(self, client_of: ClientOf, restoring: Callable[[], Collection[str]], now: datetime) -> None:
        """Lets go of what was kept for long enough, or is an environment's again: its reclaim policy is what it was.

        restoring: the ids of the environments that are being restored, which are left alone. Raises Halt.
        """
        told = await kept_volumes(self._own)
        for kept in told:
            client = await client_of(kept.region)
            if client is None or kept.backup.ref.id in restoring():
                continue
            try:
                alone = [each.volume for each in told].count(kept.volume) == 1
                await self._sweep(client, kept, now, alone=alone)
            except Halt as halt:
                log.warning("a kept volume cannot be swept", volume=kept.volume, error=str(halt))

    async def _sweep(self, client: Client, kept: KeptVolume, now: datetime, *, alone: bool) -> None:
        volume = await _volume(client, kept.volume)
        if volume is not None and _is_kept(volume, kept.backup.ref.id):
            claimed = (volume["spec"].get("claimRef") or {}).get("uid")
            if claimed is None:  # a restore of it was given up: another claim of that name is not to have it
                volume = await _patch_volume(client, volume, {"spec": {"claimRef": {"uid": kept.claim}}})
            if claimed in (None, kept.claim) and now < kept.until:
                if kept.taken_up:
                    await _label(self._own, _path(kept.secret), {TAKEN_UP: None})
                return
            if alone:
                policy = (volume["metadata"].get("annotations") or {}).get(RECLAIM, "Retain")
                metadata = {"labels": {KEPT: None}, "annotations": {RECLAIM: None}}
                await _patch_volume(client, volume, {"metadata": metadata, "spec": {"persistentVolumeReclaimPolicy": policy}})
        with suppress(NotFound):
            await self._own.request("DELETE", _path(kept.secret))

    async def _retained(self, client: Client, volume: Document, ref: EngineRef) -> Document:
        """The volume, which nothing reclaims now."""
        if _is_kept(volume, ref.id) and volume["spec"].get("persistentVolumeReclaimPolicy") == "Retain":
            return volume
        metadata = {
            "labels": {ID_LABEL: ref.id, KEPT: "true"},
            "annotations": {RECLAIM: volume["spec"]["persistentVolumeReclaimPolicy"]},
        }
        return await _patch_volume(client, volume, {"metadata": metadata, "spec": {"persistentVolumeReclaimPolicy": "Retain"}})

    async def _check_room(self, ref: EngineRef, name: str, volume: Document) -> None:
        """Raises QuotaReached, before anything is kept."""
        size = bytes_of(volume["spec"]["capacity"]["storage"])
        others = (
            each for each in await kept_volumes(self._own) if not each.taken_up and each.backup.ref.namespace == ref.namespace
        )
        sizes = {each.secret: each.size for each in others}
        self._check_archive(ref.namespace, sum(sizes.values()), 0 if name in sizes else size)

    async def _told(self, secret: str) -> KeptVolume | None:
        try:
            return await asyncio.to_thread(kept_of, await self._own.request("GET", _path(secret)))
        except NotFound:
            return None


async def kept_volumes(client: Client) -> list[KeptVolume]:
    """Return all kept volumes, the newest first. Raises Halt."""
    answer = await client.request("GET", _path(), query={"labelSelector": f"{KEPT}=true"})
    found = await asyncio.to_thread(lambda: [kept for each in answer["items"] if (kept := _readable(each))])
    return sorted(found, key=lambda kept: kept.backup.taken, reverse=True)


def _readable(secret: Document) -> KeptVolume | None:
    """Return the volume, or None for a broken Secret, which is logged and does not hide the others."""
    try:
        return kept_of(secret)
    except Halt as halt:
        log.warning("a kept volume cannot be read", error=str(halt))
        return None


def _is_kept(volume: Document, id_: str) -> bool:
    labels = volume["metadata"].get("labels") or {}
    return (labels.get(KEPT), labels.get(ID_LABEL)) == ("true", id_)


async def _volume(client: Client, name: str) -> Document | None:
    try:
        return await client.request("GET", path_of("v1", "PersistentVolume", "", name))
    except NotFound:
        return None


async def _bound(client: Client, claim: Document) -> Document:
    """Return the volume that a claim has. Raises a Stalled Halt (VolumeGone): it is deleted, is being deleted, or is another's.

    Kubernetes keeps a deleted volume until its claim goes, and then lets it go, whatever its reclaim policy is.
    """
    name = claim["spec"]["volumeName"]
    volume = await _volume(client, name)
    state = ""
    if volume is None:
        state = "does not exist"
    elif "deletionTimestamp" in volume["metadata"]:
        state = "is being deleted and goes with its claim"
    elif (volume["spec"].get("claimRef") or {}).get("uid", claim["metadata"]["uid"]) != claim["metadata"]["uid"]:
        state = f"is not bound to the claim of namespace {claim['metadata']['namespace']}"
    if volume is None or state:
        ways = "no snapshot can be kept. Save the rows with `tenantry backup`, then set spec.deletionPolicy to Delete"
        raise Halt(Stalled("VolumeGone", f"PersistentVolume {name} {state}: {ways}", "Operator"))
    return volume


async def _patch_volume(client: Client, volume: Document, patch: Mapping[str, Any]) -> Document:
    """At the version that was seen. Raises Conflict."""
    metadata = volume["metadata"]
    held = {**patch.get("metadata", {}), "resourceVersion": metadata["resourceVersion"]}
    path = path_of("v1", "PersistentVolume", "", metadata["name"])
    return await client.request("PATCH", path, body={**patch, "metadata": held}, content_type=MERGE_PATCH)


async def _label(client: Client, path: str, labels: Mapping[str, str | None]) -> None:
    await client.request("PATCH", path, body={"metadata": {"labels": labels}}, content_type=MERGE_PATCH)


def _path(secret: str = "") -> str:
    return path_of("v1", "Secret", SYSTEM_NAMESPACE, secret)
