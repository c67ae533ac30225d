"""The objects that the platform makes of a Tenant and of an Environment, by its own functions of their documents: each once."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.client.objects import path_of
from tenantry.adapters.kubernetes.engines.workload import (
    NAME,
    EngineCredentials,
    Placement,
    engine_objects,
    namespace_of,
    service_url,
)
from tenantry.adapters.kubernetes.keys import platform_keys
from tenantry.adapters.kubernetes.store import WRITE, KubernetesStore
from tenantry.adapters.kubernetes.tenancy.namespaces import regions_object, tenant_objects
from tenantry.adapters.store.secrets import StoreSecrets
from tenantry.adapters.store.state_folder import derive
from tenantry.model.facts import EngineRef, EngineSpec, RegionFacts, TenantAccess
from tenantry.model.resource import ACCESS_MARK, CREDENTIAL_LABEL, MADE_FOR, SYSTEM_NAMESPACE, TENANT_LABEL, format_time, ref_of
from tenantry.runtime.operations.documents import operation_name
from tests.bench.cluster.children.documents import Child
from tests.bench.cluster.declaring import REGION
from tests.bench.cluster.place import Object

PASSWORD = "made-once-for-the-bench"
SUCCEEDED = {"status": "True", "reason": "Succeeded"}


class Records:
    """Makes them. api_url: that of the platform. `open` comes first."""

    def __init__(self, client: Client, api_url: str) -> None:
        self._client = client
        self._placement = Placement("tenantry", "IfNotPresent", "tenantry", api_url, SYSTEM_NAMESPACE)
        self._stamp = format_time(datetime.now(UTC))

    async def open(self) -> None:
        """Reads the platform's keys, or makes them."""
        store = KubernetesStore(self._client)
        keys = await platform_keys(store, "tenantry")
        self._jwks = keys.signing.jwks()
        self.secrets = StoreSecrets(store, lambda _: None, derive(keys.master, "fingerprint"))

    async def tenant(self, declared: Object) -> Object:
        """Its namespace, who may come in, the Regions that it may use, and its Operation. The status to write."""
        name, uid = declared["metadata"]["name"], declared["metadata"]["uid"]
        marks = {MADE_FOR: uid, ACCESS_MARK: TenantAccess().mark}
        namespace = {"name": f"tenant-{name}", "labels": {TENANT_LABEL: name}, "annotations": marks}
        made = await self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": namespace})
        regions = regions_object(f"tenant-{name}", name, (RegionFacts(REGION, REGION),))
        for each in (*tenant_objects(f"tenant-{name}", name, TenantAccess(), SYSTEM_NAMESPACE), regions):
            await self.create(dict(each))
        steps = [f"namespace tenant-{name}: create"]
        told = await self._operation(declared, "CREATE_TENANT", name, steps)
        bound = {"name": f"tenant-{name}", "uid": made["metadata"]["uid"]}
        allowed = [{"name": REGION, "displayName": REGION}]
        return {**told, "phase": "READY", "slug": name, "namespace": bound, "regions": allowed}

    async def engine(self, declared: Object) -> tuple[Object, Object]:
        """The engine's objects, and the tenant's Secret with its password. Its namespace and its workload."""
        ref = _ref(declared)
        secret = f"{ref.name}-admin"
        await self.create(_secret(secret, ref.namespace))
        given = EngineCredentials(PASSWORD, secret, self._jwks)
        wanted = engine_objects(EngineSpec(ref, REGION, "Kubernetes"), self._placement, given)
        made = [await self.create(dict(each)) for each in wanted]
        return made[0], made[-1]

    async def ready(self, declared: Object, namespace: Object) -> Object:
        """The Environment's Operation. The status to write."""
        ref = _ref(declared)
        steps = [f"secret {ref.name}-admin: create the engine's admin password", f"environment {ref.name}: deploy"]
        told = await self._operation(declared, "CREATE_ENVIRONMENT", ref.tenant_slug, steps)
        place, url = f"cluster/{namespace_of(ref.id)}", service_url(ref.id)
        engine = {
            "id": namespace["metadata"]["uid"],
            "name": f"engine-{ref.slug}",
            "status": "RUNNING",
            "url": url,
            "externalId": f"{place}/{NAME}",
            "createdAt": namespace["metadata"]["creationTimestamp"],
        }
        slugs = {"slug": ref.slug, "tenantSlug": ref.tenant_slug}
        return {**told, "phase": "READY", **slugs, "url": url, "externalId": place, "engine": engine}

    async def child(self, declared: Object, child: Child) -> Object:
        """Its Operation. The status to write."""
        tenant = declared["metadata"]["namespace"].removeprefix("tenant-")
        told = await self._operation(declared, child.action, tenant, [str(ref_of(declared))], child.subject)
        return {**told, **child.status}

    async def create(self, document: Object) -> Object:
        """One object of the cluster."""
        metadata = document["metadata"]
        path = path_of(document["apiVersion"], document["kind"], metadata.get("namespace", ""))
        return await self._client.request("POST", path, query=WRITE, body=document)

    async def _operation(self, declared: Object, action: str, tenant: str, steps: list[str], subject: str = "") -> Object:
        """Made as it ended. The status of its target has it, and is Ready."""
        metadata = declared["metadata"]
        target = {"kind": declared["kind"], "name": metadata["name"], "uid": metadata["uid"]}
        target["namespace"] = metadata.get("namespace", "")
        spec = {"action": action, "target": target, "subject": subject, "cause": "1", "attempt": 0, "tenant": tenant}
        times = {"startedOn": self._stamp, "endsOn": self._stamp}
        logs = "".join(f"{self._stamp} INFO {step}\n" for step in steps)
        ended = {"status": "COMPLETED", "result": "SUCCESS"}
        document = {
            "apiVersion": declared["apiVersion"],
            "kind": "Operation",
            "metadata": {"name": operation_name(metadata["uid"], action, subject, "1", 0), "namespace": SYSTEM_NAMESPACE},
            "spec": {**spec, "requestedBy": "system", "steps": steps},
            "status": {**ended, **times, "details": action, "logs": logs, "conditions": [{"type": "Succeeded", **SUCCEEDED}]},
        }
        await self.create(document)
        since = {"observedGeneration": 1, "lastTransitionTime": self._stamp}
        last = {"id": document["metadata"]["name"], "action": action, "by": "", "code": "", **ended}
        condition = {"type": "Ready", "message": "", **SUCCEEDED, **since}
        return {"conditions": [condition], "lastOperation": last, "observedGeneration": 1}


def _ref(environment: Object) -> EngineRef:
    metadata = environment["metadata"]
    tenant = metadata["namespace"].removeprefix("tenant-")
    return EngineRef(metadata["namespace"], metadata["name"], metadata["uid"], tenant, metadata["name"])


def _secret(name: str, namespace: str) -> Object:
    labels = {CREDENTIAL_LABEL: "environment", "app.kubernetes.io/managed-by": "tenantry"}
    data = {"password": base64.b64encode(PASSWORD.encode()).decode()}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
