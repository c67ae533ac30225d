"""Engines on a real API server: what is made, what is seen, what is put right, and that nothing is left.

Pods are made by the StatefulSet's controller and played by writing their status.
"""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import uuid
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tenantry.adapters.kubernetes.client.objects import path_of
from tenantry.adapters.kubernetes.engines.kept_volumes import KEPT, RECLAIM, KeptVolume, kept_volumes
from tenantry.adapters.kubernetes.engines.pods import parse_engine_pods
from tenantry.adapters.kubernetes.engines.workload import EngineCredentials, engine_objects
from tenantry.adapters.kubernetes.store import KubernetesStore
from tenantry.model.facts import EngineRef, EngineSpec
from tenantry.model.quotas import ARCHIVES, QuotaReached, check_storage
from tenantry.model.resource import Document, Ref, SecretKeyRef
from tenantry.model.verdicts import AlreadyExists, Halt, NotFound, Stalled, Waiting
from tests.cluster.control_plane import Cluster
from tests.cluster.fixtures import client_of, until
from tests.scenario.tools import lacking
from tests.support.deployer_kit import BASE, JWKS, KINDS, Kit, declaration, kit_of, make

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


@pytest.fixture
async def kit(cluster: Cluster) -> AsyncIterator[Kit]:
    if not cluster.controllers:
        pytest.skip("there is no kube-controller-manager to make pods and empty namespaces")
    async with client_of(cluster) as client:
        yield await kit_of(client)


# What is made


async def test_a_deployed_engine_has_all_its_objects_and_starts(kit: Kit) -> None:
    await kit.deploy()
    await kit.pod()  # so Pod Security let it in
    facts = await kit.engine()
    assert (facts.status, facts.spec) == ("PENDING", kit.spec)
    assert facts.message == "its pod is Pending, not ready yet"
    assert facts.url == f"http://engine.{kit.namespace}.svc:8080"
    assert (facts.environment_external_id, facts.external_id) == (f"cluster/{kit.namespace}", f"cluster/{kit.namespace}/engine")
    assert facts.created_at is not None
    for kind in set(KINDS) - {"Pod", "Ingress", "ServiceAccount", "HorizontalPodAutoscaler"}:
        assert "engine" in await kit.names(kind), kind
    assert base64.b64decode((await kit.get("Secret"))["data"]["password"]) == b"correct horse"


async def test_the_api_server_takes_every_object_without_a_warning(cluster: Cluster, kit: Kit) -> None:
    if cluster.kubectl is None:
        lacking("there is no kubectl")
    await kit.deploy()
    placement = replace(BASE, subdomain="eu.example.com", ingress_class="nginx", storage_class="fast")
    spec = replace(kit.spec, size="large", version="1.3.0")
    objects = engine_objects(spec, placement, EngineCredentials("pw", "dev-admin", JWKS, "postgresql://db.example.com/crm", "m"))
    changeable = [each for each in objects if each["kind"] != "PersistentVolumeClaim"]
    done = await asyncio.to_thread(dry_run, cluster, changeable)
    assert (done.returncode, done.stderr) == (0, "")


async def test_the_api_server_takes_a_pool_with_an_autoscaler_without_a_warning(cluster: Cluster, kit: Kit) -> None:
    if cluster.kubectl is None:
        lacking("there is no kubectl")
    await kit.deploy()
    pool = EngineRef("", "home", kit.ref.id, slug="server")  # in the namespace that is there: nothing is written
    spec = EngineSpec(pool, "home", "Kubernetes", capacity=300, database_secret="pool-server", database_key="url")
    scaled = replace(spec, replicas=2, max_replicas=6, cpu_target=70)
    objects = engine_objects(scaled, BASE, EngineCredentials("", "", JWKS, "postgresql://db.example.com/crm", "m"))
    inside = [each for each in objects if each["kind"] in ("ResourceQuota", "HorizontalPodAutoscaler", "ConfigMap")]
    done = await asyncio.to_thread(dry_run, cluster, inside)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
async def scaled(kit: Kit) -> EngineSpec:
    """A pool on a server with an autoscaler, deployed. The kit is of that pool."""
    kit.ref = EngineRef("", "home", f"pool-{uuid.uuid4().hex[:12]}", slug="server")
    secrets = KubernetesStore(kit.client)
    name = f"pool-{uuid.uuid4().hex[:8]}"
    with suppress(AlreadyExists):
        await make(kit.client, "Namespace", "tenantry-system")
    labels = {"tenantry.dev/credential": "region"}
    url = "postgresql://admin:secret@db.example.com/postgres"
    await make(kit.client, "Secret", name, "tenantry-system", metadata={"labels": labels}, stringData={"url": url})
    ref = Ref("Secret", "tenantry-system", name)
    kit.cached[ref] = await secrets.get(ref)
    spec = EngineSpec(kit.ref, "home", "Kubernetes", capacity=300, database_secret=name, database_key="url")
    spec = replace(spec, replicas=2, max_replicas=6, cpu_target=70)
    await kit.deploy(spec)
    return spec


async def scale(kit: Kit, number: int) -> None:
    """Set the number of pods as an autoscaler does."""
    await kit.patch("StatefulSet", {"spec": {"replicas": number}}, subresource="/scale")


async def altered(kit: Kit) -> tuple[str, ...]:
    """Return the differences from what was deployed. Pods of an older template may still be there."""
    return (await kit.engine()).altered


async def pods_of(kit: Kit) -> int:
    return int((await kit.get("StatefulSet"))["spec"]["replicas"])


async def test_the_number_that_an_autoscaler_sets_is_left_alone_through_all_that_is_applied(kit: Kit, scaled: EngineSpec) -> None:
    assert ((await kit.engine()).spec, await pods_of(kit)) == (scaled, 2)
    for number, spec in ((5, scaled), (4, replace(scaled, size="medium")), (6, replace(scaled, max_replicas=8))):
        await scale(kit, number)
        await kit.deploy(spec)
        assert (await altered(kit), await pods_of(kit)) == ((), number)
        await scale(kit, 3)
        assert (await altered(kit), await pods_of(kit)) == ((), 3)
        await kit.settled(spec)
        assert await pods_of(kit) == 3


async def test_a_foreign_container_goes_from_a_scaled_pool_and_the_number_stays(kit: Kit, scaled: EngineSpec) -> None:
    await scale(kit, 5)
    foreign = {"name": "foreign", "image": "foreign", "securityContext": {"runAsNonRoot": True}}
    await kit.patch("StatefulSet", [{"op": "add", "path": "/spec/template/spec/containers/-", "value": foreign}])
    assert (await kit.engine()).spec is None
    await kit.settled(scaled)
    assert await pods_of(kit) == 5


async def test_a_pool_gets_an_autoscaler_and_loses_it_without_a_pod_less_than_declared(kit: Kit, scaled: EngineSpec) -> None:
    await scale(kit, 5)
    fixed = replace(scaled, max_replicas=0, cpu_target=0, replicas=4)
    await kit.deploy(fixed)
    assert ((await kit.engine()).spec, await pods_of(kit), await kit.names("HorizontalPodAutoscaler")) == (fixed, 4, [])
    await kit.deploy(scaled)
    assert ((await kit.engine()).spec, await pods_of(kit)) == (scaled, 4)
    await kit.deploy(replace(scaled, size="large"))
    assert await pods_of(kit) == 4, "nobody else has written the number yet"


async def test_an_autoscaler_that_was_changed_or_deleted_is_put_right(kit: Kit, scaled: EngineSpec) -> None:
    await kit.patch("HorizontalPodAutoscaler", {"spec": {"maxReplicas": 50, "metrics": []}})
    assert (await kit.engine()).spec is None
    await kit.deploy(scaled)
    assert (await kit.engine()).spec == scaled
    await kit.delete("HorizontalPodAutoscaler")
    assert (await kit.engine()).altered == ("its HorizontalPodAutoscaler does not exist",)
    await kit.deploy(scaled)
    assert (await kit.engine()).spec == scaled
    await kit.undeploy()


def dry_run(cluster: Cluster, documents: list[Document]) -> subprocess.CompletedProcess[str]:
    command = [cluster.kubectl, "--kubeconfig", cluster.kubeconfig, "--warnings-as-errors", "apply", "--dry-run=server"]
    return subprocess.run(
        [*map(str, command), "--server-side", "--force-conflicts", "--validate=strict", "-f", "-"],
        input="\n---\n".join(json.dumps(each) for each in documents),
        capture_output=True,
        text=True,
        check=False,
    )


async def test_deploying_again_writes_nothing(kit: Kit) -> None:
    await kit.deploy()
    await kit.become_ready()
    kinds = ["Namespace", *(kind for kind in KINDS if kind not in ("Pod", "Ingress", "HorizontalPodAutoscaler"))]
    before = {kind: ours(await kit.get(kind)) for kind in kinds}
    assert all(before.values())
    await kit.deploy()
    assert {kind: ours(await kit.get(kind)) for kind in kinds} == before


def ours(document: Document) -> list[Document]:
    """The entries of managedFields that are ours."""
    return [each for each in document["metadata"]["managedFields"] if each["manager"] == "tenantry"]


SPECS = {
    "the least": {},
    "each field": {"version": "1.3.0", "size": "medium", "storage": "5Gi"},
    "storage that the server writes otherwise": {"storage": "2048Mi"},
}


@pytest.mark.parametrize("fields", SPECS.values(), ids=SPECS)
async def test_what_was_deployed_is_seen_to_be_so(kit: Kit, fields: dict[str, Any]) -> None:
    wanted = replace(kit.spec, **fields)
    await kit.deploy(wanted)
    assert (await kit.engine()).spec == wanted


async def test_another_spec_is_brought_about_in_place(kit: Kit) -> None:
    await kit.deploy()
    await kit.become_ready()
    before = await kit.engine()
    wanted = replace(kit.spec, ref=replace(kit.ref, slug="next"), size="large", version="1.3.0")
    await kit.deploy(wanted)
    after = await kit.engine()
    assert (after.spec, after.id, after.name) == (wanted, before.id, "engine-next")
    (container,) = (await kit.get("StatefulSet"))["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["resources"]["limits"]["cpu"]) == ("tenantry:1.3.0", "4")


async def test_what_the_platform_gives_all_engines_is_not_taken_for_drift(kit: Kit) -> None:
    sizes = {"small": {"requests": {"cpu": "0.005", "memory": "1024Mi"}, "limits": {"cpu": "1500m", "memory": "2048Mi"}}}
    more = {
        "sizes": sizes,
        "env": [{"name": "TZ", "value": "UTC"}],
        "volumes": [
            {"name": "fonts", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "none", "configMap": {"name": "none", "optional": True}},
        ],
        "volumeMounts": [{"name": "fonts", "mountPath": "/fonts"}],
    }
    kit.deployer._base = replace(BASE, pods=parse_engine_pods(json.dumps(more), "PEM"))
    await kit.settled()
    (container,) = (await kit.get("StatefulSet"))["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "5m", "memory": "1Gi"},
        "limits": {"cpu": "1500m", "memory": "2Gi"},
    }
    kit.deployer._base = BASE
    assert (await kit.engine()).spec is None, "what is taken away is a difference, too"
    await kit.settled()


async def test_an_unknown_size_is_refused_by_name(kit: Kit) -> None:
    with pytest.raises(Halt, match="'huge' is none of small, medium, large") as halted:
        await kit.deploy(replace(kit.spec, size="huge"))
    assert isinstance(halted.value.verdict, Stalled)


async def test_without_the_password_it_waits(kit: Kit) -> None:
    with pytest.raises(Halt) as halted:
        await kit.deployer.deploy(kit.spec, Ref("Secret", kit.ref.namespace, "other"))
    assert isinstance(halted.value.verdict, Waiting)
    assert await kit.deployer.engine(kit.ref) is None


# What runs


async def test_a_ready_pod_is_a_running_engine(kit: Kit) -> None:
    await kit.deploy()
    await kit.become_ready()
    facts = await kit.engine()
    assert (facts.status, facts.message) == ("RUNNING", "")


CRASHED = {"reason": "Error", "exitCode": 1}
FAILING: dict[str, tuple[dict[str, Any], str]] = {
    "crash-looping": (
        {
            "container": {
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
                "lastState": {"terminated": CRASHED},
            }
        },
        "CrashLoopBackOff: back-off 10s; last ended by Error, exit code 1",
    ),
    "without its image": (
        {"container": {"state": {"waiting": {"reason": "ErrImagePull", "message": "tenantry:1.2.0: not found"}}}},
        "ErrImagePull: tenantry:1.2.0: not found",
    ),
    "unschedulable": (
        {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}]},
        "Unschedulable: 0/1 nodes",
    ),
}


@pytest.mark.parametrize(("status", "message"), FAILING.values(), ids=FAILING)
async def test_a_failing_engine_tells_the_pods_own_reason(kit: Kit, status: dict[str, Any], message: str) -> None:
    await kit.deploy()

    async def told() -> bool:
        await kit.play(**status)
        facts = await kit.engine()
        return (facts.status, facts.message) == ("FAILED", message)

    await until(told, f"the engine does not say {message!r}")


async def test_a_pod_that_never_became_ready_makes_way_for_a_corrected_template(kit: Kit) -> None:
    await kit.deploy(replace(kit.spec, version="no-such"))
    await kit.play({"state": {"waiting": {"reason": "ErrImagePull", "message": "tenantry:no-such: not found"}}})
    before = (await kit.get("Pod", "engine-0"))["metadata"]["uid"]
    await kit.deploy()

    async def replaced() -> bool:
        if (await kit.engine()).spec != kit.spec:
            await kit.deploy()
        pods = await kit.names("Pod")
        return pods == ["engine-0"] and (await kit.get("Pod", "engine-0"))["metadata"]["uid"] != before

    await until(replaced, "the pod is still the same")
    await kit.become_ready()
    facts = await kit.engine()
    assert (facts.status, facts.spec) == ("RUNNING", kit.spec)


async def test_a_pod_that_may_not_be_made_is_told(kit: Kit) -> None:
    await kit.deploy()
    await kit.pod()
    await kit.patch("ResourceQuota", {"spec": {"hard": {"pods": "0"}}})

    async def told() -> bool:
        # A server that has not seen the new quota yet lets the controller make the pod once more.
        if await kit.names("Pod"):
            with suppress(NotFound):
                await kit.delete("Pod", "engine-0")
        facts = await kit.engine()
        return facts.status == "FAILED" and "exceeded quota" in facts.message

    await until(told, "what keeps the pod away is not told")


async def test_an_engine_is_another_environments_unless_namespace_name_and_id_match(kit: Kit) -> None:
    await kit.deploy()
    for other in ({"namespace": "tenant-other"}, {"name": "other"}, {"id": f"{kit.ref.id[:-1]}x"}):
        assert await kit.deployer.engine(replace(kit.ref, **other)) is None


async def test_a_change_of_the_engine_is_told(kit: Kit) -> None:
    await kit.deploy()
    await kit.pod()
    told: set[EngineRef] = set()

    async def follow() -> None:
        async for ref in kit.deployer.changes():
            told.add(ref)

    async def seen() -> bool:
        return mine in told

    mine = EngineRef(kit.ref.namespace, kit.ref.name, kit.ref.id)
    following = asyncio.create_task(follow())
    try:
        await until(seen, "what is there at the start is not told")
        told.clear()
        await kit.play(phase="Running")
        await until(seen, "the change is not told")
    finally:
        following.cancel()


# What is put right

DRIFT: dict[str, tuple[str, Any]] = {
    "a namespace that lets privileged pods in": (
        "Namespace",
        {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}},
    ),
    "another image": (
        "StatefulSet",
        [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "evil"}],
    ),
    "a second container": (
        "StatefulSet",
        [{"op": "add", "path": "/spec/template/spec/containers/-", "value": {"name": "x", "image": "evil"}}],
    ),
    "a volume of another": (
        "StatefulSet",
        [{"op": "replace", "path": "/spec/template/spec/volumes/0", "value": {"name": "data", "emptyDir": {}}}],
    ),
    "a variable": (
        "StatefulSet",
        [{"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": {"name": "X", "value": "1"}}],
    ),
    "an engine that was stopped": ("StatefulSet", {"spec": {"replicas": 0}}),
    "an engine that was doubled": ("StatefulSet", {"spec": {"replicas": 2}}),
    "a spec that was rewritten": ("StatefulSet", {"metadata": {"annotations": {"tenantry.dev/engine-spec": "{}"}}}),
    "a door for everybody": ("NetworkPolicy", {"spec": {"ingress": [{}]}}),
    "a service that leads elsewhere": ("Service", {"spec": {"selector": {"app": "evil"}}}),
    "an account with a token": ("ServiceAccount", {"automountServiceAccountToken": True}),
    "foreign keys": ("ConfigMap", {"data": {"jwks.json": "{}"}}),
    "a larger quota": ("ResourceQuota", {"spec": {"hard": {"pods": "100"}}}),
    "another password": ("Secret", {"data": {"password": base64.b64encode(b"guess").decode()}}),
    "a password that is gone": ("Secret", {"data": {"password": None}}),
    "another account": ("StatefulSet", {"spec": {"template": {"spec": {"serviceAccountName": "default"}}}}),
}


@pytest.mark.parametrize(("kind", "change"), DRIFT.values(), ids=DRIFT)
async def test_drift_is_seen_and_corrected(kit: Kit, kind: str, change: Any) -> None:
    await kit.deploy()
    await kit.patch(kind, change)
    assert (await kit.engine()).spec != kit.spec
    await kit.settled()


DELETED = [
    "ServiceAccount",
    "ResourceQuota",
    "Secret",
    "ConfigMap",
    "Service",
    "NetworkPolicy",
    "StatefulSet",
]


@pytest.mark.parametrize("kind", DELETED)
async def test_what_was_deleted_is_made_again(kit: Kit, kind: str) -> None:
    await kit.deploy()
    await kit.delete(kind)
    assert (await kit.engine()).spec is None
    await kit.settled()


async def test_a_new_password_of_the_tenant_reaches_the_engine(kit: Kit) -> None:
    await kit.deploy()
    store = KubernetesStore(kit.client)
    before = await store.get(kit.admin_secret)
    changed = {**before, "data": {"password": base64.b64encode(b"battery staple").decode()}}
    kit.cached[kit.admin_secret] = await store.replace(changed, before["metadata"]["resourceVersion"])
    facts = await kit.engine()
    assert (facts.spec, facts.credential) == (None, "")
    await kit.deploy()
    assert base64.b64decode((await kit.get("Secret"))["data"]["password"]) == b"battery staple"
    assert (await kit.engine()).spec == kit.spec


async def test_a_password_that_the_tenant_took_away_stays_the_engines(kit: Kit) -> None:
    await kit.deploy()
    kit.cached.clear()
    assert (await kit.engine()).spec == kit.spec


async def test_an_engine_has_the_database_that_its_tenant_gives_it(kit: Kit) -> None:
    url = Ref("Secret", kit.ref.namespace, "db")
    labels = {"tenantry.dev/credential": "environment"}
    for address in ("postgresql://u:p@db.example.com/crm", "postgresql://u:new@db.example.com/crm"):
        with suppress(NotFound):
            await kit.client.request("DELETE", path_of("v1", "Secret", url.namespace, url.name))
        kit.cached[url] = await make(
            kit.client, "Secret", url.name, url.namespace, metadata={"labels": labels}, stringData={"dsn": address}
        )
        wanted = replace(kit.spec, database_secret="db", database_key="dsn")
        await kit.settled(wanted)
        assert base64.b64decode((await kit.get("Secret"))["data"]["url"]).decode() == address
        kit.cached[url] = {**kit.cached[url], "data": {"dsn": "YW5vdGhlcg=="}}
        assert (await kit.engine()).spec is None
    await kit.settled()
    assert set((await kit.get("Secret"))["data"]) == {"password"}


async def test_a_region_that_is_no_longer_published_takes_the_ingress_away(kit: Kit) -> None:
    kit.declared.settle(subdomain="eu.example.com", ingress_class_name="nginx")
    await kit.deploy()
    assert (await kit.engine()).url == "https://dev--acme.eu.example.com"
    assert kit.deployer.preview("home", "acme", "dev") == "https://dev--acme.eu.example.com"
    assert await kit.names("Ingress") == ["engine"]
    kit.declared.settle()
    assert (await kit.engine()).spec is None
    await kit.settled()  # the URL of the engine is a setting of its pod, which may have to go first
    assert await kit.names("Ingress") == []
    assert kit.deployer.preview("home", "acme", "dev") == ""


async def test_a_host_that_is_withdrawn_leaves_the_pod_and_the_volume_and_comes_back(kit: Kit) -> None:
    kit.declared.settle(subdomain="eu.example.com", ingress_class_name="nginx")
    await kit.deploy()
    assert (await kit.engine()).route == ("dev", "acme")
    before = [(await kit.get(kind))["metadata"] for kind in ("StatefulSet", "PersistentVolumeClaim")]
    for _ in range(2):
        await kit.deployer.withdraw(kit.ref)
    assert await kit.names("Ingress") == []
    facts = await kit.engine()
    assert (facts.route, facts.spec, facts.missing, facts.altered) == (None, None, "", ("its Ingress does not exist",))
    await kit.deploy()
    assert (await kit.engine()).route == ("dev", "acme")
    assert (await kit.get("Ingress"))["spec"]["rules"][0]["host"] == "dev--acme.eu.example.com"
    after = [(await kit.get(kind))["metadata"] for kind in ("StatefulSet", "PersistentVolumeClaim")]
    assert [(each["uid"], each.get("generation")) for each in after] == [(each["uid"], each.get("generation")) for each in before]


async def test_an_ingress_of_somebody_else_is_not_withdrawn(kit: Kit) -> None:
    await kit.deploy()
    rules = [{"host": "dev--acme.eu.example.com"}]
    backend = {"service": {"name": "engine", "port": {"number": 80}}}
    await kit.create("Ingress", spec={"rules": rules, "defaultBackend": backend})
    await kit.deployer.withdraw(kit.ref)
    assert await kit.names("Ingress") == ["engine"]


async def test_a_volume_stays_in_the_class_in_which_it_was_made(kit: Kit) -> None:
    kit.declared.settle(storage_class_name="fast")
    await kit.deploy()
    for another in ({"storage_class_name": "slow"}, {}):
        kit.declared.settle(**another)
        await kit.deploy()
        assert (await kit.engine()).spec == kit.spec
        assert (await kit.get("PersistentVolumeClaim"))["spec"]["storageClassName"] == "fast"


async def test_a_volume_does_not_shrink_and_the_refusal_names_it(kit: Kit) -> None:
    await kit.deploy(replace(kit.spec, storage="5Gi"))
    with pytest.raises(Halt, match="PersistentVolumeClaim") as halted:
        await kit.deploy(replace(kit.spec, storage="1Gi"))
    assert isinstance(halted.value.verdict, Stalled)


# What is others'


FOREIGN = {
    "nobody's": {},
    "another environment's": {
        "app.kubernetes.io/managed-by": "tenantry",
        "app.kubernetes.io/name": "tenantry-engine",
        "tenantry.dev/environment-id": "another",
        "tenantry.dev/namespace": "tenant-other",
        "tenantry.dev/environment": "dev",
    },
}


@pytest.mark.parametrize("labels", FOREIGN.values(), ids=FOREIGN)
async def test_a_foreign_namespace_is_neither_taken_nor_removed(kit: Kit, labels: dict[str, str]) -> None:
    before = await make(kit.client, "Namespace", kit.namespace, metadata={"labels": labels})
    with pytest.raises(Halt, match=kit.namespace) as halted:
        await kit.deploy()
    assert halted.value.verdict.reason == "EngineNamespaceTaken"
    assert isinstance(halted.value.verdict, Stalled)
    assert await kit.deployer.engine(kit.ref) is None
    await kit.deployer.undeploy(kit.ref)
    after = await kit.get("Namespace")
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert "deletionTimestamp" not in after["metadata"]


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
async def test_a_foreign_object_of_a_name_that_is_needed_is_left_alone(kit: Kit, kind: str) -> None:
    await kit.deploy()
    await kit.delete(kind)
    foreign = await kit.create(kind)
    assert (await kit.engine()).spec is None
    with pytest.raises(Halt, match=f"{kind} engine in namespace {kit.namespace}") as halted:
        await kit.deploy()
    assert halted.value.verdict.reason == "ObjectTaken"
    assert await kit.get(kind) == foreign


# Its end


async def test_nothing_is_left(kit: Kit) -> None:
    kit.declared.settle(subdomain="eu.example.com", ingress_class_name="nginx")
    await kit.deploy()
    await kit.become_ready()
    await kit.undeploy(emptied=False)
    with pytest.raises(NotFound):
        await kit.get("Namespace")
    assert await kit.deployer.engine(kit.ref) is None
    await kit.deployer.undeploy(kit.ref)
    for kind, api_version in KINDS.items():
        query = {"labelSelector": f"tenantry.dev/environment-id={kit.ref.id}"}
        found = await kit.client.request("GET", path_of(api_version, kind), query=query)
        assert found["items"] == [], kind


async def test_until_it_is_gone_it_is_seen_as_being_deleted_and_not_made_anew(kit: Kit) -> None:
    await kit.deploy()
    await kit.patch("ConfigMap", {"metadata": {"finalizers": ["example.com/held"]}})
    with pytest.raises(Halt):
        await kit.deployer.undeploy(kit.ref)

    async def emptied() -> bool:
        return await kit.names("StatefulSet") == []

    await until(emptied, "the workload is still there")
    assert (await kit.engine()).status == "DELETING"
    with pytest.raises(Halt) as halted:
        await kit.deploy()
    assert isinstance(halted.value.verdict, Waiting)
    assert halted.value.verdict.reason == "EngineNamespaceDeleting"
    await kit.patch("ConfigMap", {"metadata": {"finalizers": None}})
    await kit.undeploy()


@pytest.mark.parametrize("kind", ["StatefulSet", "Secret"])
async def test_what_is_left_of_an_engine_is_removed(kit: Kit, kind: str) -> None:
    await kit.deploy()
    await kit.delete(kind)
    assert await kit.deployer.engine(kit.ref) is not None
    await kit.undeploy()
    with pytest.raises(NotFound):
        await kit.get("Namespace")


async def test_an_engine_whose_namespace_was_deleted_by_hand_comes_back(kit: Kit) -> None:
    await kit.deploy()
    await kit.delete("Namespace")

    async def again() -> bool:
        try:
            await kit.deploy()
        except Halt as halt:
            assert halt.verdict.reason == "EngineNamespaceDeleting"
            return False
        return True

    await until(again, "it cannot be deployed again")
    await kit.become_ready()


async def test_a_kept_volume_outlasts_its_engine_and_what_was_declared_is_told_beside_it(kit: Kit) -> None:
    kept = await removed(kit)
    volume = await kit.volume(kept.volume)
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume["metadata"]["labels"]["tenantry.dev/environment-id"] == kit.ref.id
    assert "deletionTimestamp" not in volume["metadata"]
    assert (kept.backup.ref, kept.backup.documents) == (replace(kit.ref, tenant_slug="", slug=""), (declaration(kit.ref),))
    assert (kept.region, kept.size, kept.until - kept.backup.taken) == ("home", 1 << 30, timedelta(days=30))


async def test_a_volume_beyond_the_tenants_limit_is_kept_once_there_is_room(cluster: Cluster) -> None:
    limit = 1 << 20

    def check(namespace: str, used: int, more: int) -> None:
        check_storage(ARCHIVES, limit, used, more, namespace)

    if not cluster.controllers:
        pytest.skip("there is no kube-controller-manager to make pods and empty namespaces")
    async with client_of(cluster) as client:
        kit = await kit_of(client, check)
        with pytest.raises(QuotaReached, match="0 B of 1 MiB are used, and 1 GiB more are needed"):
            await removed(kit)
        assert await kit.kept() is None
        volume = (await kit.get("PersistentVolumeClaim"))["spec"]["volumeName"]
        assert (await kit.volume(volume))["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
        limit = 1 << 30
        await kit.deployer.snapshot(kit.ref)
        assert await kit.kept() is not None


async def removed(kit: Kit) -> KeptVolume:
    """An engine that was there and is gone; its volume is kept, by a deletion that was interrupted once."""
    kit.declared.settle()
    with suppress(AlreadyExists):
        await make(kit.client, "Namespace", "tenantry-system")
    await kit.deploy()
    await bind(kit)
    await kit.deployer.snapshot(kit.ref)
    await kit.deployer.snapshot(kit.ref)
    await kit.undeploy()
    kept = await kit.kept()
    assert kept is not None
    return kept


async def bind(kit: Kit) -> str:
    """Act as the storage's provisioner and as the controller of volumes."""
    name = f"pv-{kit.ref.id[:8]}"
    uid = (await kit.get("PersistentVolumeClaim"))["metadata"]["uid"]
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/nowhere"},
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": "fast",
        "claimRef": {"namespace": kit.namespace, "name": "engine", "uid": uid},
    }
    await make(kit.client, "PersistentVolume", name, spec=spec)
    await kit.patch("PersistentVolumeClaim", {"spec": {"volumeName": name}})
    return name


async def test_a_kept_volume_is_the_next_engines_whose_environment_is_marked_so(kit: Kit) -> None:
    kept = await removed(kit)
    restored = replace(kit.spec, restoring=kept.mark)
    await kit.deploy(restored)
    await kit.settled(restored)
    claim, reserved = await kit.get("PersistentVolumeClaim"), await kit.volume(kept.volume)
    assert (claim["spec"]["volumeName"], claim["spec"]["storageClassName"]) == (kept.volume, "fast")
    held = reserved["spec"]["claimRef"]
    assert (held["namespace"], held["name"], "uid" in held) == (kit.namespace, "engine", False), "nobody else's claim is bound"
    assert reserved["metadata"]["labels"][KEPT] == "true"
    told = await kit.kept()
    assert told is not None
    assert told.taken_up
    await kit.settled()  # the mark goes, and nothing is asked of the claim that it does not have
    assert (await kit.get("PersistentVolumeClaim"))["metadata"]["uid"] == claim["metadata"]["uid"]


async def test_no_claim_gets_a_kept_volume_by_the_environments_id_alone(kit: Kit) -> None:
    kept = await removed(kit)
    await kit.deploy()
    claim, volume = await kit.get("PersistentVolumeClaim"), await kit.volume(kept.volume)
    assert "volumeName" not in claim["spec"]
    assert volume["spec"]["claimRef"]["uid"] == kept.claim


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        pytest.param({"id": str(uuid.uuid4())}, "KeptVolumeGone", id="another environment's volume"),
        pytest.param({"secret": "kept-nothing"}, "KeptVolumeGone", id="nothing that is kept"),
        pytest.param({"label": None}, "KeptVolumeTaken", id="a volume that is not kept any more"),
    ],
)
async def test_a_mark_does_not_open(kit: Kit, wrong: dict[str, Any], reason: str) -> None:
    kept = await removed(kit)
    if "label" in wrong:
        await kit.patch_volume(kept.volume, {"metadata": {"labels": {KEPT: None}}})
    mark = kept.mark.replace(kept.secret, wrong.get("secret", kept.secret))
    ref = replace(kit.ref, id=wrong.get("id", kit.ref.id))
    with pytest.raises(Halt) as refused:
        await kit.deploy(replace(kit.spec, ref=ref, restoring=mark))
    assert refused.value.verdict.reason == reason
    assert (await kit.volume(kept.volume))["spec"]["claimRef"]["uid"] == kept.claim


async def sweep(kit: Kit, *, days: int = 0, restoring: tuple[str, ...] = ()) -> None:
    await kit.volumes.sweep(kit.deployer.client_of, lambda: restoring, datetime.now(UTC) + timedelta(days=days))


async def test_a_kept_volume_is_let_go_of_when_its_time_is_over_and_not_before(kit: Kit) -> None:
    kept = await removed(kit)
    await sweep(kit, days=29)
    await sweep(kit, days=31, restoring=(kit.ref.id,))
    assert await kit.kept() == kept
    await sweep(kit, days=31)
    assert await kit.kept() is None
    volume = await kit.volume(kept.volume)
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete", "the cluster reclaims it"
    assert KEPT not in volume["metadata"]["labels"]
    assert RECLAIM not in volume["metadata"].get("annotations", {})


async def test_a_volume_that_is_an_engines_again_is_a_volume_like_any_other(kit: Kit) -> None:
    kept = await removed(kit)
    await kit.deploy(replace(kit.spec, restoring=kept.mark))
    claim = await kit.get("PersistentVolumeClaim")
    await kit.patch_volume(kept.volume, {"spec": {"claimRef": {"uid": claim["metadata"]["uid"]}}})
    await sweep(kit)
    assert await kit.kept() is None
    assert (await kit.volume(kept.volume))["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
    await kit.deployer.snapshot(kit.ref)
    again = await kit.kept()
    assert again is not None
    assert (again.volume, again.claim) == (kept.volume, claim["metadata"]["uid"]), "it is kept once more"


async def test_a_volume_whose_archive_never_came_is_not_kept_when_its_pod_is_gone_either(kit: Kit) -> None:
    kit.declared.settle()
    spec = replace(kit.spec, restoring=f"{kit.ref.id}@2026-11-21T10:00:00Z")
    await kit.deploy(spec)
    await bind(kit)
    waiting = {"name": "restore", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": {"running": {}}}
    await until(lambda: there(kit), "its pod is not there")
    await kit.patch("Pod", {"status": {"initContainerStatuses": [waiting]}}, "engine-0", "/status")
    await kit.deployer.snapshot(kit.ref)
    await kit.delete("StatefulSet")
    with suppress(NotFound):  # the cluster itself deletes it, perhaps sooner
        await kit.delete("Pod", "engine-0")
    await kit.deployer.snapshot(kit.ref)
    assert await kit.kept() is None


async def there(kit: Kit) -> bool:
    with suppress(NotFound):
        return bool(await kit.get("Pod", "engine-0"))
    return False


async def test_a_restore_that_is_given_up_leaves_the_volume_kept(kit: Kit) -> None:
    kept = await removed(kit)
    await kit.deploy(replace(kit.spec, restoring=kept.mark))
    await kit.undeploy()
    await sweep(kit)
    assert await kit.kept() == kept, "and not taken up"
    assert (await kit.volume(kept.volume))["spec"]["claimRef"]["uid"] == kept.claim, "no other claim of that name gets it"


async def test_what_tells_of_one_volume_and_was_broken_keeps_nobody_from_the_others(kit: Kit) -> None:
    kept = await removed(kit)
    broken = {"metadata": {"labels": {KEPT: "true"}}, "data": {"about.json": "AA=="}}
    await make(kit.client, "Secret", f"kept-{uuid.uuid4()}", "tenantry-system", **broken)
    await sweep(kit, days=31)
    assert await kit.kept() is None
    assert kept not in await kept_volumes(kit.client)


async def test_an_engine_that_never_had_a_volume_has_nothing_to_keep(kit: Kit) -> None:
    await kit.deployer.snapshot(kit.ref)
    await kit.deploy()
    await kit.deployer.snapshot(kit.ref)
    assert await kit.kept() is None


# Other clusters


async def test_a_region_may_be_another_cluster(cluster: Cluster, kit: Kit) -> None:
    kit.declared.settle(kubeconfig_secret_ref=SecretKeyRef(name=f"far-{kit.ref.id}", key="kubeconfig"))
    with suppress(AlreadyExists):
        await make(kit.client, "Namespace", "tenantry-system")
    content = portable(cluster)
    labels = {"tenantry.dev/credential": "region"}
    secret = {"metadata": {"labels": labels}, "stringData": {"kubeconfig": content}}
    await make(kit.client, "Secret", f"far-{kit.ref.id}", "tenantry-system", **secret)
    await kit.deploy()
    facts = await kit.engine()
    assert (facts.spec, facts.environment_external_id) == (kit.spec, f"home/{kit.namespace}")
    await kit.undeploy()


def portable(cluster: Cluster) -> str:
    """The cluster's kubeconfig with what it names files for."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    authority = config["clusters"][0]["cluster"].pop("certificate-authority")
    config["clusters"][0]["cluster"]["certificate-authority-data"] = base64.b64encode(Path(authority).read_bytes()).decode()
    return str(yaml.safe_dump(config))
