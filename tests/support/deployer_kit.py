"""A deployer on a cluster, and the engines that it makes there."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from tenantry.adapters.kubernetes.client.http import JSON_PATCH, MERGE_PATCH, Client
from tenantry.adapters.kubernetes.client.objects import path_of
from tenantry.adapters.kubernetes.engines.deployer import KubernetesDeployer
from tenantry.adapters.kubernetes.engines.kept_volumes import KeptVolume, KeptVolumes, kept_volumes
from tenantry.adapters.kubernetes.engines.remote import Clusters
from tenantry.adapters.kubernetes.engines.workload import Placement, namespace_of
from tenantry.adapters.kubernetes.store import KubernetesStore
from tenantry.adapters.store.secrets import StoreSecrets
from tenantry.kinds.environment.ownership import NO_PROOF, PlaceProof
from tenantry.kinds.region.spec import KubernetesSettings, Region, RegionSpec
from tenantry.model.facts import EngineFacts, EngineRef, EngineSpec
from tenantry.model.quotas import CheckArchive, unlimited
from tenantry.model.resource import Document, Metadata, Ref
from tenantry.model.verdicts import Halt, NotFound, Transient, Waiting
from tests.cluster.fixtures import until
from tests.support.waiting import eventually

BASE = Placement("tenantry:1.2.0", "IfNotPresent", "tenantry", "https://api.example.com", "tenantry-system")
JWKS: dict[str, Any] = {"keys": [{"kid": "1", "kty": "OKP"}]}
KINDS = {
    "ServiceAccount": "v1",
    "ResourceQuota": "v1",
    "Secret": "v1",
    "ConfigMap": "v1",
    "PersistentVolumeClaim": "v1",
    "Service": "v1",
    "Pod": "v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "Ingress": "networking.k8s.io/v1",
    "StatefulSet": "apps/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
}


@dataclass
class Declared:
    """deployer.RegionLookup; every environment without another region is in `home`."""

    regions: dict[str, Region] = field(default_factory=dict)
    region: str = "home"
    proven: PlaceProof = NO_PROOF

    def named(self, name: str) -> Region | None:
        return self.regions.get(name)

    def of(self, ref: EngineRef) -> str:
        return self.region

    def proof(self, ref: EngineRef) -> PlaceProof:
        return self.proven

    def settle(self, **settings: Any) -> None:
        """Declares the region `home`."""
        subdomain = settings.pop("subdomain", None)
        spec = RegionSpec(subdomain=subdomain, kubernetes=KubernetesSettings(**settings))
        self.regions[self.region] = Region(metadata=Metadata(name=self.region), spec=spec)


@dataclass
class Kit:
    """One environment, its tenant's namespace with the password, and the deployer."""

    client: Client
    ref: EngineRef
    declared: Declared
    cached: dict[Ref, Document]
    deployer: KubernetesDeployer
    volumes: KeptVolumes

    @property
    def spec(self) -> EngineSpec:
        return EngineSpec(self.ref, self.declared.region, "Kubernetes")

    @property
    def namespace(self) -> str:
        return namespace_of(self.ref.id)

    @property
    def admin_secret(self) -> Ref:
        return Ref("Secret", self.ref.namespace, "dev-admin")

    async def deploy(self, spec: EngineSpec | None = None) -> None:
        await self.deployer.deploy(spec or self.spec, self.admin_secret)

    async def settled(self, spec: EngineSpec | None = None) -> None:
        """Deployed as passes do it: again, while a pod of an older template or the count of a quota is in the way."""

        last: object = None

        async def done() -> bool:
            nonlocal last
            try:
                await self.deploy(spec)
            except Halt as halted:
                if not isinstance(halted.verdict, Transient):
                    raise
                last = halted
                return False
            facts = await self.engine()
            last = facts.altered, facts.status, facts.message
            return facts.spec == (spec or self.spec)

        await eventually(done, shows=lambda: last)

    async def engine(self) -> EngineFacts:
        facts = await self.deployer.engine(self.ref)
        assert facts is not None
        return facts

    async def get(self, kind: str, name: str = "engine") -> Document:
        return await self.client.request("GET", self.path(kind, name))

    async def patch(self, kind: str, body: Any, name: str = "engine", subresource: str = "") -> None:
        content_type = JSON_PATCH if isinstance(body, list) else MERGE_PATCH
        await self.client.request("PATCH", self.path(kind, name) + subresource, body=body, content_type=content_type)

    async def delete(self, kind: str, name: str = "engine") -> None:
        await self.client.request("DELETE", self.path(kind, name), body={"propagationPolicy": "Background"})

    async def create(self, kind: str, **body: Any) -> Document:
        metadata = {"name": "engine", **body.pop("metadata", {})}
        document = {"apiVersion": KINDS[kind], "kind": kind, "metadata": metadata, **body}
        return await self.client.request("POST", path_of(KINDS[kind], kind, self.namespace), body=document)

    def path(self, kind: str, name: str) -> str:
        if kind == "Namespace":
            return path_of("v1", kind, "", self.namespace)
        return path_of(KINDS[kind], kind, self.namespace, name)

    async def names(self, kind: str) -> list[str]:
        found = await self.client.request("GET", path_of(KINDS[kind], kind, self.namespace))
        return [each["metadata"]["name"] for each in found["items"]]

    async def pod(self) -> None:
        """Returns when there is one."""

        async def made() -> bool:
            return await self.names("Pod") == ["engine-0"]

        await until(made, "the engine has no pod")

    async def play(self, container: dict[str, Any] | None = None, **status: Any) -> None:
        """The report of a kubelet or the scheduler about the pod."""
        await self.pod()
        if container is not None:
            about = {"name": "engine", "image": "tenantry", "imageID": "", "restartCount": 0, "ready": False, **container}
            status["containerStatuses"] = [about]
        await self.patch("Pod", {"status": status}, "engine-0", "/status")

    async def become_ready(self) -> None:
        """Reports each pod as ready, as a kubelet does: a controller may replace the first by one of a newer template."""
        ready = [{"type": "Ready", "status": "True"}]

        async def running() -> bool:
            with suppress(NotFound):  # the pod is replaced at this moment
                await self.play({"ready": True, "state": {"running": {}}}, phase="Running", conditions=ready)
            return (await self.engine()).status == "RUNNING"

        await until(running, "the engine is not RUNNING")

    async def kept(self) -> KeptVolume | None:
        """The kept volume of its environment, None where there is none."""
        return next((each for each in await kept_volumes(self.client) if each.backup.ref.id == self.ref.id), None)

    async def volume(self, name: str) -> Document:
        return await self.client.request("GET", path_of("v1", "PersistentVolume", "", name))

    async def patch_volume(self, name: str, body: Any) -> None:
        await self.client.request("PATCH", path_of("v1", "PersistentVolume", "", name), body=body, content_type=MERGE_PATCH)

    async def undeploy(self, *, emptied: bool = True) -> None:
        """To the end: a pass is done again until the namespace is gone.

        emptied: by this kit. A cluster's own controller begins 5 s after the deletion, and looks again another 5 s later if it
        found a claim that was in use.
        """

        async def done() -> bool:
            nonlocal emptied
            try:
                await self.deployer.undeploy(self.ref)
            except Halt as halt:
                assert isinstance(halt.verdict, Waiting)
                assert halt.verdict.reason == "EngineNamespaceDeleting"
                if emptied:
                    emptied = False
                    await self._empty()
                return False
            return True

        await until(done, "the engine's namespace is still there")

    async def _empty(self) -> None:
        """Delete the workload and its claim in the namespace."""
        at_once = {"gracePeriodSeconds": "0", "propagationPolicy": "Background"}
        for kind in ("StatefulSet", "Pod", "PersistentVolumeClaim"):
            await self.client.request("DELETE", path_of(KINDS[kind], kind, self.namespace), query=at_once)


async def make(client: Client, kind: str, name: str, namespace: str = "", **body: Any) -> Document:
    metadata = {"name": name, "namespace": namespace, **body.pop("metadata", {})}
    document = {"apiVersion": "v1", "kind": kind, "metadata": metadata, **body}
    return await client.request("POST", path_of("v1", kind, namespace), body=document)


async def kit_of(client: Client, check_archive: CheckArchive = unlimited) -> Kit:
    ref = EngineRef(f"tenant-{uuid.uuid4().hex[:8]}", "dev", str(uuid.uuid4()), "acme", "dev")
    await make(client, "Namespace", ref.namespace)
    labels = {"tenantry.dev/credential": "environment"}
    secret = await make(
        client, "Secret", "dev-admin", ref.namespace, metadata={"labels": labels}, stringData={"password": "correct horse"}
    )
    declared, cached = Declared(), {Ref("Secret", ref.namespace, "dev-admin"): secret}
    secrets = StoreSecrets(KubernetesStore(client), cached.get, b"key")
    volumes = KeptVolumes(client, lambda ref: (declaration(ref),), timedelta(days=30), check_archive)
    deployer = KubernetesDeployer(Clusters(client), declared, secrets, lambda: JWKS, BASE, volumes)
    return Kit(client, ref, declared, cached, deployer, volumes)


def declaration(ref: EngineRef) -> Document:
    metadata = {"name": ref.name, "namespace": ref.namespace}
    return {"apiVersion": "tenantry.dev/v1alpha1", "kind": "Environment", "metadata": metadata, "spec": {"region": "home"}}
