"""The Kubernetes deployer: every environment's engine is a pod with a volume, in a namespace of its own, closed to tenants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tenantry.adapters.kubernetes.client.http import MERGE_PATCH, Client
from tenantry.adapters.kubernetes.client.objects import path_of, reference
from tenantry.adapters.kubernetes.engine_secrets import EngineSecrets
from tenantry.adapters.kubernetes.engines.applying import apply_object
from tenantry.adapters.kubernetes.engines.comparing import alteration, covers, settled
from tenantry.adapters.kubernetes.engines.kept_volumes import UNFILLED, KeptVolumes, claiming
from tenantry.adapters.kubernetes.engines.observed import EngineObjects, FollowedObjects, ReadObjects
from tenantry.adapters.kubernetes.engines.obstacles import belongs, check_is_ours, deleting, refused_object
from tenantry.adapters.kubernetes.engines.releases import keeping_pod, marked, next_of, version_of
from tenantry.adapters.kubernetes.engines.remote import Clusters
from tenantry.adapters.kubernetes.engines.state import RESTS, awaits, deployed_as, state_of, stuck_pods
from tenantry.adapters.kubernetes.engines.workload import (
    NAME,
    Placement,
    engine_objects,
    namespace_of,
    spec_of,
    unwanted_objects,
    url_of,
)
from tenantry.adapters.kubernetes.store import WRITE
from tenantry.adapters.store.secrets import StoreSecrets
from tenantry.kinds.environment.ownership import PlaceProof
from tenantry.kinds.region.spec import Region
from tenantry.model.facts import EngineFacts, EngineRef, EngineSpec, volume_of
from tenantry.model.resource import SYSTEM_NAMESPACE, Document, Ref, parse_time
from tenantry.model.verdicts import AlreadyExists, Forbidden, Halt, Invalid, NotFound, Stalled


@dataclass(frozen=True)
class RegionTarget:
    """One region as its engines are placed: the cluster, what is seen of it, its name in external ids, and the settings."""

    client: Client
    objects: EngineObjects
    cluster: str
    placement: Placement


class RegionLookup(Protocol):
    """The deployer's view of declared objects."""

    def named(self, name: str) -> Region | None:
        """The Region, or None."""

    def of(self, ref: EngineRef) -> str:
        """The name of the region of an environment, `""` when there is no such environment."""

    def proof(self, ref: EngineRef) -> PlaceProof:
        """Return the evidence that a namespace is this engine's, whatever its labels say."""


class KubernetesDeployer:
    """ports.Deployer. It alone uses server-side apply. base: what the host says of engines, whatever the region."""

    provider = "Kubernetes"

    def __init__(
        self,
        clusters: Clusters,
        regions: RegionLookup,
        secrets: StoreSecrets,
        jwks: Callable[[], Mapping[str, Any]],
        base: Placement,
        kept: KeptVolumes,
        *,
        acts: bool = True,
        secret: str = "",
    ) -> None:
        """acts: False for a host that only looks. It may read neither Secrets of engines nor events: to it an altered Secret is
        no difference, and an engine whose pod is refused has not failed. The operator sees both. secret: of the platform, from
        which the passwords of pools on servers are derived.
        """
        self._clusters = clusters
        self._regions = regions
        self._secrets = secrets
        self._engine_secrets = EngineSecrets(secrets, jwks, secret)
        self._base = base
        self._kept = kept
        self._acts = acts
        self._unread = frozenset() if acts else frozenset({"Secret"})
        self._followed = FollowedObjects(clusters.own)

    async def engine(self, ref: EngineRef) -> EngineFacts | None:
        """Return the running engine, from the first to the last moment of its namespace.

        spec is None if an object differs from its applied form, if the tenant has another password, or if a pod of an older
        template is in the way. The engine is then applied again.
        """
        at = await self._at(self._regions.of(ref))
        facts = await self._look(at, ref)
        # If the cache shows no engine, ask the API server as well: an engine that is overlooked would be left behind.
        if facts or at.objects is not self._followed:
            return facts
        return await self._look(replace(at, objects=ReadObjects(at.client)), ref)

    async def _look(self, at: RegionTarget, ref: EngineRef) -> EngineFacts | None:
        namespace = await at.objects.find(_named("v1", "Namespace", ref))
        if namespace is None or not belongs(namespace, ref, self._regions.proof(ref)):
            return None
        workload = await at.objects.find(_named("apps/v1", "StatefulSet", ref))
        pods = [] if workload is None or state_of(workload, ())[0] in RESTS else await at.objects.pods(namespace_of(ref.id))
        state, message = await self._state(at.client, ref, (namespace, workload), pods)
        deployed = spec_of(workload) if workload is not None else None
        spec = deployed if state != "DELETING" else None
        ingress = await at.objects.find(_named("networking.k8s.io/v1", "Ingress", ref))
        read = {"Namespace": namespace, "StatefulSet": workload, "Ingress": ingress}
        altered, following = await self._altered(at, spec, read) if spec else ((), "")
        if altered or (workload is not None and stuck_pods(workload, pods)):
            spec = None
        has_claim = deployed.has_volume if deployed is not None else not ref.is_pool
        missing = await self._missing_claim(at, ref) if has_claim and state != "DELETING" else ""
        place = f"{at.cluster}/{namespace_of(ref.id)}"
        slugs = spec.ref if spec else ref
        return EngineFacts(
            id=namespace["metadata"]["uid"],
            name=f"engine-{slugs.slug}",
            status=state,
            url=url_of(at.placement, slugs),
            external_id=f"{place}/{NAME}",
            environment_external_id=place,
            created_at=parse_time(namespace["metadata"]["creationTimestamp"]),
            message=message,
            spec=spec,
            altered=altered,
            missing=missing,
            version=version_of(workload),
            next=following,
            **deployed_as(workload, ingress)._asdict(),
        )

    async def _missing_claim(self, at: RegionTarget, ref: EngineRef) -> str:
        """Describe the engine's missing claim, `""` if it exists. The cache may lag behind, so the API server confirms it."""
        claim = _named("v1", "PersistentVolumeClaim", ref)
        if await at.objects.find(claim) or await ReadObjects(at.client).find(claim):
            return ""
        return f"the PersistentVolumeClaim {NAME} of namespace {namespace_of(ref.id)} does not exist"

    def preview(self, region: str, tenant_slug: str, slug: str) -> str:
        """The host name in the region's subdomain; `""` where it publishes none, for the id is not known yet."""
        placement = self._placement(region)
        if not placement.ingress_class or not placement.subdomain:
            return ""
        return url_of(placement, EngineRef("", "", "", tenant_slug, slug))

    async def deploy(self, spec: EngineSpec, admin_secret: Ref, keeps_pod: bool = False) -> None:
        """Applies every object. keeps_pod: what would restart an engine that is declared as it was is not.

        Raises Halt: EngineNamespaceTaken, ObjectTaken, EngineNamespaceDeleting, SizeUnknown, DatabaseUrlRefused, EngineRefused,
        and those of KeptVolumes.reserve.
        """
        sizes = self._base.pods.sizes
        if spec.size and spec.size not in sizes:
            raise Halt(Stalled("SizeUnknown", f"spec.engine.size: {spec.size!r} is none of {', '.join(sizes)}"))
        at = await self._at(spec.region)
        namespace, *others = marked(
            engine_objects(spec, at.placement, await self._engine_secrets.credentials(spec, admin_secret))
        )
        fresh = await at.objects.find(namespace) is None and await self._made(at, namespace)
        if not fresh:
            await self._settle(at, namespace, spec.ref)
        if kept := volume_of(spec.restoring):  # not before the namespace is known to be this environment's
            volume = await self._kept.reserve(at.client, spec.ref, spec.region, kept)
            others = [claiming(volume, each) for each in others]
        if not fresh:
            for unwanted in unwanted_objects(spec, at.placement):  # an autoscaler first: it would undo the declared number
                await self._remove(at.client, unwanted, spec.ref)
        for wanted in others:
            if not (fresh and await self._made(at, wanted)):
                await self._settle(at, wanted, spec.ref, spec if keeps_pod else None)
        if not fresh:
            await self._remove_stuck(at.client, spec.ref)

    async def snapshot(self, ref: EngineRef) -> None:
        """Keeps the volume itself, to be bound again when the claim is gone. Raises the Halts of KeptVolumes.keep."""
        region = self._regions.of(ref)
        at = await self._at(region)
        namespace = await ReadObjects(at.client).find(_named("v1", "Namespace", ref))
        if namespace is None or not belongs(namespace, ref, self._regions.proof(ref)):
            return
        # By its name, which the engine's pod mounts: a claim whose labels somebody took off holds the data all the same.
        claim = await ReadObjects(at.client).find(_named("v1", "PersistentVolumeClaim", ref))
        if not claim or not claim["spec"].get("volumeName"):
            return  # never bound: it holds nothing
        if any(awaits(pod) for pod in await ReadObjects(at.client).pods(namespace_of(ref.id))):
            # Recorded on the claim: the pod that shows it now may go before the next pass.
            body = {"metadata": {"labels": {UNFILLED: "true"}}}
            await at.client.request("PATCH", reference(claim), body=body, content_type=MERGE_PATCH)
        elif UNFILLED not in (claim["metadata"].get("labels") or {}):
            await self._kept.keep(at.client, ref, region, claim)

    async def undeploy(self, ref: EngineRef) -> None:
        """Deletes the namespace with all that is in it. Raises a Waiting Halt (EngineNamespaceDeleting) until it is gone."""
        at = await self._at(self._regions.of(ref))
        path = f"/api/v1/namespaces/{namespace_of(ref.id)}"
        try:
            namespace = await at.client.request("GET", path)
            if not belongs(namespace, ref, self._regions.proof(ref)):
                return
            if "deletionTimestamp" not in namespace["metadata"]:
                held = {"preconditions": {"uid": namespace["metadata"]["uid"]}}
                await at.client.request("DELETE", path, body={"apiVersion": "v1", "kind": "DeleteOptions", **held})
        except NotFound:
            return
        raise deleting(ref)

    async def withdraw(self, ref: EngineRef) -> None:
        """Delete the engine's Ingress. The pod is not restarted."""
        at = await self._at(self._regions.of(ref))
        await self._remove(at.client, _named("networking.k8s.io/v1", "Ingress", ref), ref)

    async def put(self, region: str, wanted: Document, ref: EngineRef) -> None:
        """Bring one object of an engine to its wanted form. Raises Halt: ObjectTaken, EngineRefused."""
        await self._settle(await self._at(region), wanted, ref)

    async def find(self, region: str, named: Document) -> Document | None:
        """Return the object of that kind, namespace and name in the cluster of a region, None if there is none."""
        return await (await self._at(region)).objects.find(named)

    async def remove(self, region: str, unwanted: Document, ref: EngineRef) -> None:
        """Delete one object of an engine. Idempotent; an object of another is left alone."""
        await self._remove((await self._at(region)).client, unwanted, ref)

    def placement(self, region: str) -> Placement:
        """Return the settings for engines in a region."""
        return self._placement(region)

    async def client_of(self, region: str) -> Client | None:
        """The cluster of a region, None for one that does not exist. Raises Halt."""
        return (await self._at(region)).client if self._regions.named(region) else None

    async def changes(self) -> AsyncIterator[EngineRef]:
        """Engines of this cluster of which anything changed. Those of other clusters are looked at by the resync."""
        async for ref in self._followed.changes():
            yield ref

    async def followed(self) -> None:
        """Returns once `changes`, which runs meanwhile, has seen every engine of this cluster: none is asked for any more."""
        await self._followed.completed()

    async def _state(
        self, client: Client, ref: EngineRef, found: tuple[Document, Document | None], pods: Sequence[Document]
    ) -> tuple[str, str]:
        """Return the state of the engine, and the reason if it does not run. found: its namespace and its workload."""
        if any("deletionTimestamp" in each["metadata"] for each in found if each is not None):
            return "DELETING", f"namespace {namespace_of(ref.id)} or an object in it is being deleted"
        workload = found[1]
        if workload is None:
            return "PENDING", "its workload does not exist"
        state, message = state_of(workload, pods)
        asked = not pods and state not in RESTS and "observedGeneration" in (workload.get("status") or {})
        refusal = await self._refusal_of_pods(client, ref) if asked and self._acts else ""
        return ("FAILED", refusal) if refusal else (state, message)

    async def _altered(
        self, at: RegionTarget, spec: EngineSpec, found: Mapping[str, Document | None]
    ) -> tuple[tuple[str, ...], str]:
        """Return the differences from a fresh apply, and the version a restart would bring. found: the objects by kind."""
        whole = marked(engine_objects(spec, at.placement, self._engine_secrets.unrevealed(spec)))
        wanted = [document for document in whole if document["kind"] not in self._unread]
        missing = [document for document in wanted if document["kind"] not in found]
        read = await asyncio.gather(*map(at.objects.find, (*missing, *unwanted_objects(spec, at.placement))))
        real = {**found, **{document["kind"]: each for document, each in zip(missing, read, strict=False)}}
        left = (f"its {each['kind']} is still there" for each in read[len(missing) :] if each)
        kept = (keeping_pod(each, real[each["kind"]]) for each in wanted)
        changed = (each for each in kept if not self._as_wanted(real[each["kind"]], each, spec))
        workload = next(each for each in wanted if each["kind"] == "StatefulSet")
        phrases = (*left, *(alteration(real[each["kind"]], each) for each in changed))
        return phrases, next_of(real["StatefulSet"], workload)

    def _as_wanted(self, real: Document | None, wanted: Document, spec: EngineSpec) -> bool:
        if real is None:
            return False
        if wanted["kind"] == "Secret":
            return self._engine_secrets.is_as_wanted(real, wanted, spec)
        return covers(real, settled(wanted, real))

    async def _made(self, at: RegionTarget, wanted: Document) -> bool:
        """Create the object. Return False if it exists already: the first creator owns it."""
        metadata = wanted["metadata"]
        path = path_of(wanted["apiVersion"], wanted["kind"], metadata.get("namespace", ""))
        try:
            at.objects.absorb(await at.client.request("POST", path, query=WRITE, body=wanted))
        except AlreadyExists:
            return False
        except (Invalid, Forbidden) as refused:
            raise refused_object(wanted, refused) from refused
        return True

    async def _settle(self, at: RegionTarget, wanted: Document, ref: EngineRef, kept: EngineSpec | None = None) -> None:
        """Bring the object to its wanted form, whatever exists. kept: the spec with which a workload keeps its pod."""
        real = await ReadObjects(at.client).find(wanted)
        if real is not None:
            check_is_ours(real, wanted, ref, self._regions.proof(ref))
            wanted = settled(wanted, real)
            if kept is not None and wanted["kind"] == "StatefulSet" and spec_of(real) == kept:
                wanted = keeping_pod(wanted, real)
        if real is None or not covers(real, wanted):
            at.objects.absorb(await apply_object(at.client, wanted, real, ref))

    async def _remove(self, client: Client, unwanted: Document, ref: EngineRef) -> None:
        real = await ReadObjects(client).find(unwanted)
        if real is None or not belongs(real, ref):
            return
        held = {"preconditions": {"uid": real["metadata"]["uid"]}}
        with suppress(NotFound):
            await client.request("DELETE", reference(unwanted), body={"apiVersion": "v1", "kind": "DeleteOptions", **held})

    async def _remove_stuck(self, client: Client, ref: EngineRef) -> None:
        asking = ReadObjects(client)
        workload = await asking.find(_named("apps/v1", "StatefulSet", ref))
        pods = stuck_pods(workload, await asking.pods(namespace_of(ref.id))) if workload is not None else []
        for pod in pods:
            await self._remove(client, {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"]}, ref)

    async def _refusal_of_pods(self, client: Client, ref: EngineRef) -> str:
        """Return the last reason of the controller why the pod may not be created, `""` if there is none."""
        path = path_of("v1", "Event", namespace_of(ref.id))
        query = {"fieldSelector": "involvedObject.kind=StatefulSet,reason=FailedCreate"}
        told = (await client.request("GET", path, query=query))["items"]
        newest = max(told, key=lambda event: event.get("lastTimestamp") or "", default=None)
        return f"FailedCreate: {newest['message']}" if newest else ""

    async def _at(self, region: str) -> RegionTarget:
        found = self._regions.named(region)
        settings = found.spec.kubernetes if found else None
        secret = settings.kubeconfig_secret_ref if settings else None
        if secret is None:
            own = self._clusters.own
            objects = self._followed if self._followed.complete else ReadObjects(own)
            return RegionTarget(own, objects, "cluster", self._placement(region))
        kubeconfig = await self._secrets.reveal(SYSTEM_NAMESPACE, secret.name, secret.key, "region")
        client = self._clusters.remote(region, kubeconfig)
        return RegionTarget(client, ReadObjects(client), region, self._placement(region))

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


def _named(api_version: str, kind: str, ref: EngineRef) -> Document:
    """Names an object of an engine."""
    namespace = namespace_of(ref.id)
    metadata = {"name": namespace} if kind == "Namespace" else {"name": NAME, "namespace": namespace}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
