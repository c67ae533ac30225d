"""The Kubernetes deployer: every environment's engine is a pod with a volume, in a namespace of its own, closed to tenants."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import structlog

from tenantry.adapters.kubernetes.client import APPLY_PATCH, MERGE_PATCH, Client
from tenantry.adapters.kubernetes.objects import path_of, reference
from tenantry.adapters.kubernetes.remote import Clusters
from tenantry.adapters.kubernetes.workload import (
    ID_LABEL,
    MANAGED_BY,
    NAME,
    PASSWORD_KEY,
    SIZES,
    Credentials,
    Placement,
    covers,
    engine_objects,
    labels_of,
    namespace_of,
    ref_of_labels,
    spec_of,
    state_of,
    url_of,
)
from tenantry.adapters.store.secrets import StoreSecrets
from tenantry.kinds.region.spec import Region
from tenantry.model.facts import EngineFacts, EngineRef, EngineSpec
from tenantry.model.resource import FIELD_MANAGER, GROUP, SYSTEM_NAMESPACE, Document, Ref, parse_time
from tenantry.model.verdicts import Halt, Invalid, NotFound, Stalled, Waiting

log = structlog.get_logger(__name__)

AGAIN_S = 1.0
"""How soon a namespace that is going is looked at again."""
RELIST_S = 5.0
WATCH_S = 290
_SELECTOR = ",".join(f"{key}={value}" for key, value in MANAGED_BY.items())
_WATCHED = (("apps/v1", "StatefulSet"), ("v1", "Pod"))


@dataclass(frozen=True)
class Site:
    """One region as its engines are placed: the cluster, its name in external ids, and the settings."""

    client: Client
    cluster: str
    placement: Placement


class Regions(Protocol):
    """What the deployer asks of declared things."""

    def named(self, name: str) -> Region | None:
        """The Region, or None."""

    def of(self, ref: EngineRef) -> str:
        """The name of the region of an environment, `""` when there is no such environment."""


class KubernetesDeployer:
    """ports.Deployer. It alone uses server-side apply. base: what the host says of engines, whatever the region."""

    provider = "Kubernetes"

    def __init__(
        self,
        clusters: Clusters,
        regions: Regions,
        secrets: StoreSecrets,
        jwks: Callable[[], Mapping[str, Any]],
        base: Placement,
    ) -> None:
        self._clusters = clusters
        self._regions = regions
        self._secrets = secrets
        self._jwks = jwks
        self._base = base

    async def engine(self, ref: EngineRef) -> EngineFacts | None:
        """What runs. spec is None where any of its objects differs from what was applied: it is applied again."""
        at = await self._at(self._regions.of(ref))
        workload = await self._get(at.client, "apps/v1", "StatefulSet", ref)
        if workload is None or not _belongs(workload, ref):
            return None
        state, message = "DELETING", "its workload is being deleted"
        if "deletionTimestamp" not in workload["metadata"]:
            state, message = state_of(workload, ())
            if state != "RUNNING":
                state, message = state_of(workload, await self._pods(at.client, ref))
        spec = spec_of(workload)
        credential = ""
        if spec is not None:
            spec = spec if (found := await self._intact(at, spec, workload)) is not None else None
            credential = self._secrets.fingerprint(ref.namespace, found) if found else ""
        namespace = f"{at.cluster}/{namespace_of(ref.id)}"
        slugs = spec.ref if spec else ref
        return EngineFacts(
            id=workload["metadata"]["uid"],
            name=f"engine-{slugs.slug}",
            status=state,
            url=url_of(at.placement, slugs),
            external_id=f"{namespace}/{NAME}",
            environment_external_id=namespace,
            created_at=parse_time(workload["metadata"]["creationTimestamp"]),
            message=message,
            spec=spec,
            credential=credential,
        )

    def preview(self, region: str, tenant_slug: str, slug: str) -> str:
        """The host name in the region's subdomain; `""` where it publishes none, for the id is not known yet."""
        placement = self._placement(region)
        if not placement.ingress_class or not placement.subdomain:
            return ""
        return url_of(placement, EngineRef("", "", "", tenant_slug, slug))

    async def deploy(self, spec: EngineSpec, admin_secret: Ref) -> None:
        """Applies every object. Raises Halt: EngineNamespaceTaken, ObjectTaken, EngineNamespaceDeleting, SizeUnknown, Invalid."""
        if spec.size and spec.size not in SIZES:
            raise Halt(Stalled("SizeUnknown", f"spec.engine.size: {spec.size!r} is none of {', '.join(SIZES)}"))
        at = await self._at(spec.region)
        password = await self._secrets.reveal(admin_secret.namespace, admin_secret.name, PASSWORD_KEY, "environment")
        credentials = Credentials(password.clear or password.hash, self._jwks())
        for wanted in engine_objects(spec, at.placement, credentials):
            await self._apply(at.client, wanted, spec.ref)

    async def snapshot(self, ref: EngineRef) -> None:
        """Keeps the volume itself, labelled with the environment's id: it is there to be bound again when the claim is gone."""
        at = await self._at(self._regions.of(ref))
        claim = await self._get(at.client, "v1", "PersistentVolumeClaim", ref)
        volume = ((claim or {}).get("spec") or {}).get("volumeName")
        if not claim or not volume or not _belongs(claim, ref):
            return  # never bound: it holds nothing
        patch = {
            "metadata": {"labels": {ID_LABEL: ref.id, f"{GROUP}/kept": "true"}},
            "spec": {"persistentVolumeReclaimPolicy": "Retain"},
        }
        path = f"/api/v1/persistentvolumes/{volume}"
        await at.client.request("PATCH", path, body=patch, content_type=MERGE_PATCH)

    async def undeploy(self, ref: EngineRef) -> None:
        """Deletes the namespace with all that is in it. Raises a Waiting Halt (EngineNamespaceDeleting) until it is gone."""
        at = await self._at(self._regions.of(ref))
        path = f"/api/v1/namespaces/{namespace_of(ref.id)}"
        try:
            namespace = await at.client.request("GET", path)
            if not _belongs(namespace, ref):
                return
            if "deletionTimestamp" not in namespace["metadata"]:
                held = {"preconditions": {"uid": namespace["metadata"]["uid"]}}
                await at.client.request("DELETE", path, body={"apiVersion": "v1", "kind": "DeleteOptions", **held})
        except NotFound:
            return
        raise _deleting(ref)

    async def changes(self) -> AsyncIterator[EngineRef]:
        """Engines of this cluster whose workload or pod changed. Those of other clusters are looked at by the resync."""
        changed: asyncio.Queue[EngineRef] = asyncio.Queue()
        watches = [asyncio.create_task(self._watch(*kind, changed)) for kind in _WATCHED]
        try:
            while True:
                yield await changed.get()
        finally:
            for watch in watches:
                watch.cancel()

    async def _watch(self, api_version: str, kind: str, changed: asyncio.Queue[EngineRef]) -> None:
        """A list whenever the watch has ended: what happened in between is in it."""
        client = self._clusters.own
        path = path_of(api_version, kind)
        while True:
            try:
                found = await client.request("GET", path, query={"labelSelector": _SELECTOR})
                for item in found["items"]:
                    _tell(item, changed)
                query = {
                    "watch": "1",
                    "labelSelector": _SELECTOR,
                    "allowWatchBookmarks": "true",
                    "resourceVersion": found["metadata"]["resourceVersion"],
                    "timeoutSeconds": str(WATCH_S),
                }
                async for change in client.stream(path, query):
                    if change["type"] in ("ADDED", "MODIFIED", "DELETED"):
                        _tell(change["object"], changed)
            except Halt as halt:
                log.warning("watch of engines interrupted", kind=kind, error=str(halt))
            await asyncio.sleep(RELIST_S)

    async def _intact(self, at: Site, spec: EngineSpec, workload: Document) -> bytes | None:
        """The admin's password as the engine has it, b"" where it cannot be told; None where an object differs."""
        wanted = engine_objects(spec, at.placement, Credentials("", self._jwks()))
        others = [document for document in wanted if document["kind"] != "StatefulSet"]
        found = await asyncio.gather(*(self._find(at.client, document) for document in others))
        password = b""
        for real, document in zip((*found, workload), (*others, _of_kind(wanted, "StatefulSet")), strict=True):
            if real is None or not covers(real, {key: value for key, value in document.items() if key != "stringData"}):
                return None
            if document["kind"] == "Secret":
                password = base64.b64decode((real.get("data") or {}).get(PASSWORD_KEY, ""))
        return password

    async def _apply(self, client: Client, wanted: Document, ref: EngineRef) -> None:
        real = await self._find(client, wanted)
        if real is not None:
            if not _belongs(real, ref):
                raise _taken(wanted)
            if "deletionTimestamp" in real["metadata"]:
                raise _deleting(ref)
            if wanted["kind"] == "PersistentVolumeClaim":
                # A volume stays in the class in which it was made.
                wanted = _with_spec(wanted, storageClassName=real["spec"].get("storageClassName"))
        query = {"fieldManager": FIELD_MANAGER, "force": "true", "fieldValidation": "Strict"}
        try:
            await client.request("PATCH", reference(wanted), query=query, body=wanted, content_type=APPLY_PATCH)
        except Invalid as refused:
            reasons = "; ".join(str(problem) for problem in refused.problems)
            raise Halt(Stalled("EngineRefused", f"{wanted['kind']} {wanted['metadata']['name']}: {reasons}")) from refused

    async def _pods(self, client: Client, ref: EngineRef) -> list[Document]:
        path = path_of("v1", "Pod", namespace_of(ref.id))
        answer = await client.request("GET", path, query={"labelSelector": f"{ID_LABEL}={ref.id}"})
        return list(answer["items"])

    async def _find(self, client: Client, wanted: Document) -> Document | None:
        try:
            return await client.request("GET", reference(wanted))
        except NotFound:
            return None

    async def _get(self, client: Client, api_version: str, kind: str, ref: EngineRef) -> Document | None:
        metadata = {"name": NAME, "namespace": namespace_of(ref.id)}
        return await self._find(client, {"apiVersion": api_version, "kind": kind, "metadata": metadata})

    async def _at(self, region: str) -> Site:
        found = self._regions.named(region)
        settings = found.spec.kubernetes if found else None
        secret = settings.kubeconfig_secret_ref if settings else None
        if secret is None:
            return Site(self._clusters.own, "cluster", self._placement(region))
        kubeconfig = await self._secrets.reveal(SYSTEM_NAMESPACE, secret.name, secret.key, "region")
        return Site(self._clusters.remote(region, kubeconfig), region, self._placement(region))

    def _placement(self, region: str) -> Placement:
        found = self._regions.named(region)
        if found is None:
            return self._base
        settings = found.spec.kubernetes
        placement = replace(self._base, subdomain=found.spec.subdomain or "")
        if settings is None:
            return placement
        return replace(
            placement,
            ingress_class=settings.ingress_class_name or "",
            tls=settings.tls,
            storage_class=settings.storage_class_name or "",
        )


def _belongs(real: Document, ref: EngineRef) -> bool:
    """Does the object carry our labels, with this environment's namespace, name and id?"""
    return covers(real["metadata"].get("labels") or {}, labels_of(ref))


def _tell(item: Document, changed: asyncio.Queue[EngineRef]) -> None:
    ref = ref_of_labels(item["metadata"].get("labels") or {})
    if ref is not None:
        changed.put_nowait(ref)


def _of_kind(documents: tuple[Document, ...], kind: str) -> Document:
    return next(document for document in documents if document["kind"] == kind)


def _with_spec(document: Document, **fields: Any) -> Document:
    return {**document, "spec": {**document["spec"], **fields}}


def _deleting(ref: EngineRef) -> Halt:
    again = datetime.now(UTC) + timedelta(seconds=AGAIN_S)
    return Halt(Waiting("EngineNamespaceDeleting", f"namespace {namespace_of(ref.id)} is being deleted", again))


def _taken(wanted: Document) -> Halt:
    metadata = wanted["metadata"]
    where = f" in namespace {metadata['namespace']}" if "namespace" in metadata else ""
    reason = "EngineNamespaceTaken" if wanted["kind"] == "Namespace" else "ObjectTaken"
    return Halt(
        Stalled(reason, f"{wanted['kind']} {metadata['name']}{where} is not this environment's; it is left alone", "Operator")
    )
