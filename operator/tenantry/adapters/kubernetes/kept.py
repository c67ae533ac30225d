"""Volumes of removed environments. A Secret of the platform's namespace tells of each what was declared where it comes from."""

from __future__ import annotations

import asyncio
import gzip
import io
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import orjson
import yaml

from tenantry.adapters.kubernetes.client import MERGE_PATCH, Client
from tenantry.adapters.kubernetes.objects import path_of
from tenantry.adapters.kubernetes.store import WRITE
from tenantry.adapters.kubernetes.workload import ID_LABEL, MANAGED_BY
from tenantry.adapters.local.archives import Backup, joined, to_yaml
from tenantry.model.facts import BackupFacts, EngineRef
from tenantry.model.resource import GROUP, SYSTEM_NAMESPACE, Document, format_time, parse_time
from tenantry.model.verdicts import AlreadyExists, Halt, NotFound, Stalled

KEPT = f"{GROUP}/kept"
"""Label of a volume that outlived its environment, and of the Secret that tells of it."""
TAKEN_UP = f"{GROUP}/taken-up"
"""Label of that Secret once an environment was given its volume again."""
RECLAIM = f"{GROUP}/reclaim-policy"
"""Annotation of a kept volume: its reclaim policy before it was kept."""
LARGEST = 900 << 10
"""Bytes of what a Secret holds of declarations, compressed: it takes 1 MiB in all."""
LARGEST_INFLATED = 64 << 20
_ABOUT, _RESOURCES = "about.json", "resources.yaml.gz"
_UNITS = {unit: 1000**power for power, unit in enumerate(("", "k", "M", "G", "T", "P"))} | {
    unit: 1024**power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi"), 1)
}
Declared = Callable[[EngineRef], Sequence[Document]]


class Volume(NamedTuple):
    """A volume that a claim is to name."""

    name: str
    storage_class: str


@dataclass(frozen=True)
class KeptVolume:
    """secret: the name of the Secret that tells of it; claim: the uid of the claim that had it; size in bytes."""

    secret: str
    backup: Backup
    volume: str
    claim: str
    region: str
    size: int
    until: datetime
    taken_up: bool = False

    @property
    def mark(self) -> str:
        """What the Environment carries that is given this volume."""
        return f"{self.backup.ref.id}@{format_time(self.backup.taken)}@{self.secret}"

    def facts(self) -> BackupFacts:
        ref, place = self.backup.ref, f"persistentvolume/{self.volume}"
        taken, until = format_time(self.backup.taken), format_time(self.until)
        return BackupFacts(ref.id, ref.namespace, ref.name, taken, self.size, until, place)


def document_of(kept: KeptVolume) -> Document:
    """The Secret that tells of it. Raises a Stalled Halt (TooMuchDeclared)."""
    backup, ref = kept.backup, kept.backup.ref
    about = {"id": ref.id, "namespace": ref.namespace, "name": ref.name, "takenAt": format_time(backup.taken)}
    about |= {"volume": kept.volume, "claim": kept.claim, "region": kept.region}
    held = gzip.compress(to_yaml(backup.documents), mtime=0)
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
    """What a Secret of `document_of` tells. Raises a Stalled Halt (KeptVolumeUnreadable)."""
    metadata = secret["metadata"]
    try:
        about = orjson.loads(b64decode(secret["data"][_ABOUT]))
        documents = tuple(yaml.safe_load_all(_inflated(b64decode(secret["data"][_RESOURCES]))))
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
    except (KeyError, ValueError, TypeError, OSError, EOFError, yaml.YAMLError) as error:
        told = f"Secret {metadata['name']} does not tell of a kept volume: {error!r}"
        raise Halt(Stalled("KeptVolumeUnreadable", told, "Operator")) from error


def _inflated(held: bytes) -> bytes:
    with gzip.open(io.BytesIO(held)) as file:
        return file.read(LARGEST_INFLATED)


def bytes_of(quantity: str) -> int:
    """Of a quantity such as 2Gi, 500M or 1e9."""
    number = quantity.rstrip("kKMGTPi")
    return int(float(number) * _UNITS[quantity[len(number) :]])


class KeptVolumes:
    """Keeps volumes, gives them to environments again, and lets them go. own: the platform's cluster, where is told of them."""

    def __init__(self, own: Client, declared: Declared, keep: timedelta) -> None:
        self._own = own
        self._declared = declared
        self._keep = keep

    async def keep(self, client: Client, ref: EngineRef, region: str, claim: Document) -> None:
        """Keeps the volume of an engine's claim, and remembers what is declared in the environment. Idempotent. Raises Halt."""
        volume = await self._retained(client, claim["spec"]["volumeName"], ref)
        uid = claim["metadata"]["uid"]
        name = f"kept-{uid}"
        earlier = await self._told(name)
        taken = datetime.now(UTC).replace(microsecond=0)
        documents = joined(self._declared(ref), earlier.backup.documents if earlier else ())
        size = bytes_of(volume["spec"]["capacity"]["storage"])
        backup = Backup(ref, taken, documents)
        told = document_of(KeptVolume(name, backup, volume["metadata"]["name"], uid, region, size, taken + self._keep))
        try:
            await self._own.request("POST", _path(), query=WRITE, body=told)
        except AlreadyExists:
            await self._own.request("PUT", _path(name), query=WRITE, body=told)

    async def reserve(self, client: Client, ref: EngineRef, region: str, secret: str) -> Volume:
        """Reserves a kept volume for the claim of that environment's engine alone. Idempotent.

        Raises Halt: KeptVolumeGone, KeptVolumeTaken; nothing is done then.
        """
        kept = await self._told(secret)
        if kept is None or (kept.backup.ref.id, kept.region) != (ref.id, region):
            raise Halt(Stalled("KeptVolumeGone", f"no volume of environment {ref.id} is kept in region {region} as {secret}"))
        volume = await _volume(client, kept.volume)
        if volume is None or not _is_kept(volume, ref.id):
            raise Halt(
                Stalled("KeptVolumeTaken", f"PersistentVolume {kept.volume} is not kept for environment {ref.id} any more")
            )
        await _label(self._own, _path(secret), {TAKEN_UP: "true"})
        claimed = volume["spec"].get("claimRef") or {}
        if claimed.get("uid") == kept.claim:
            # The name of the claim stays: nobody else's is ever bound to the volume.
            again = {"claimRef": {"uid": None, "resourceVersion": None}}
            await _patch_volume(client, volume, {"spec": again})
        return Volume(kept.volume, volume["spec"].get("storageClassName", ""))

    async def _retained(self, client: Client, name: str, ref: EngineRef) -> Document:
        """The volume, which nothing reclaims now."""
        volume = await _volume(client, name)
        if volume is None:
            raise Halt(Stalled("VolumeGone", f"PersistentVolume {name} is not there: there is nothing to keep", "Operator"))
        if _is_kept(volume, ref.id) and volume["spec"].get("persistentVolumeReclaimPolicy") == "Retain":
            return volume
        metadata = {
            "labels": {ID_LABEL: ref.id, KEPT: "true"},
            "annotations": {RECLAIM: volume["spec"]["persistentVolumeReclaimPolicy"]},
        }
        return await _patch_volume(client, volume, {"metadata": metadata, "spec": {"persistentVolumeReclaimPolicy": "Retain"}})

    async def _told(self, secret: str) -> KeptVolume | None:
        try:
            return kept_of(await self._own.request("GET", _path(secret)))
        except NotFound:
            return None


async def kept_volumes(client: Client) -> list[KeptVolume]:
    """All that is told of, the newest first. Raises Halt."""
    answer = await client.request("GET", _path(), query={"labelSelector": f"{KEPT}=true"})
    found = await asyncio.to_thread(lambda: [kept_of(each) for each in answer["items"]])
    return sorted(found, key=lambda kept: kept.backup.taken, reverse=True)


def _is_kept(volume: Document, id_: str) -> bool:
    labels = volume["metadata"].get("labels") or {}
    return (labels.get(KEPT), labels.get(ID_LABEL)) == ("true", id_)


async def _volume(client: Client, name: str) -> Document | None:
    try:
        return await client.request("GET", path_of("v1", "PersistentVolume", "", name))
    except NotFound:
        return None


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
