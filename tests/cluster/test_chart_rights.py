"""The release's rights and policies on a real API server: enough for what the processes do, and nothing for others."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tenantry.adapters.kubernetes.client.credentials import from_kubeconfig
from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.engines.deployer import KubernetesDeployer
from tenantry.adapters.kubernetes.engines.kept_volumes import KeptVolumes, Volume, kept_volumes
from tenantry.adapters.kubernetes.engines.remote import Clusters
from tenantry.adapters.kubernetes.engines.workload import Placement
from tenantry.adapters.kubernetes.feed import KubernetesFeed
from tenantry.adapters.kubernetes.keys import platform_keys
from tenantry.adapters.kubernetes.lease import Lease
from tenantry.adapters.kubernetes.store import KubernetesStore
from tenantry.adapters.kubernetes.tenancy.namespaces import KubernetesTenancy
from tenantry.adapters.store.secrets import StoreSecrets
from tenantry.hosts.standalone import listed
from tenantry.kinds.environment.ownership import NO_PROOF, PlaceProof
from tenantry.kinds.registry import FOLLOWED
from tenantry.model.facts import Caller, EngineRef, EngineSpec, TenantAccess
from tenantry.model.resource import Ref, held_of
from tenantry.model.verdicts import Forbidden, Halt, Transient, Waiting
from tests.cluster.charting import NAMESPACE, objects
from tests.cluster.control_plane import Cluster
from tests.cluster.fixtures import until
from tests.cluster.releases import (
    ADMIN,
    API,
    FINALIZER,
    MAKER,
    OPERATOR,
    VIEWER,
    Run,
    environment,
    kubeconfig_of,
    refused,
)
from tests.support.patience import DEADLINE_S

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


def test_policies_have_no_type_that_does_not_fit(kubectl: Run, release: str) -> None:
    listed = json.loads(kubectl("get", "validatingadmissionpolicies", "-o", "json").stdout)["items"]
    warnings = [each["status"].get("typeChecking", {}).get("expressionWarnings") for each in listed if "status" in each]
    rendered = {each["metadata"]["name"] for each in objects() if each["kind"] == "ValidatingAdmissionPolicy"}
    assert {each["metadata"]["name"] for each in listed} == rendered
    assert [warning for warning in warnings if warning] == []


ALLOWED = [
    (OPERATOR, "patch", "environments.tenantry.dev/status", "tenant-acme", "yes"),
    (OPERATOR, "create", "namespaces", "", "yes"),
    (OPERATOR, "patch", "leases.coordination.k8s.io/tenantry-operator", NAMESPACE, "yes"),
    (OPERATOR, "patch", "leases.coordination.k8s.io/another", NAMESPACE, "no"),
    (OPERATOR, "create", "deployments.apps", NAMESPACE, "no"),
    (OPERATOR, "patch", "horizontalpodautoscalers.autoscaling", "env-1", "yes"),
    (OPERATOR, "patch", "statefulsets.apps/scale", "env-1", "no"),
    (OPERATOR, "impersonate", "serviceaccounts/tenantry-admin", "tenant-acme", "yes"),
    (OPERATOR, "impersonate", "serviceaccounts/default", "tenant-acme", "no"),
    (OPERATOR, "impersonate", "groups/system:masters", "", "no"),
    (OPERATOR, "bind", "clusterroles.rbac.authorization.k8s.io/cluster-admin", "", "no"),
    (API, "create", "users.tenantry.dev", NAMESPACE, "yes"),
    (API, "create", "users.tenantry.dev", "tenant-acme", "no"),
    (API, "create", "secrets", "tenant-acme", "yes"),
    (API, "create", "secrets", "default", "no"),
    (API, "get", "horizontalpodautoscalers.autoscaling/engine", "env-1", "yes"),
    (API, "patch", "horizontalpodautoscalers.autoscaling/engine", "env-1", "no"),
    (API, "create", "environments.tenantry.dev", "default", "no"),
    (API, "create", "packages.tenantry.dev", NAMESPACE, "yes"),
    (API, "patch", "environments.tenantry.dev/status", "tenant-acme", "no"),
    (API, "impersonate", "serviceaccounts/tenantry-admin", "tenant-acme", "no"),
    (API, "impersonate", "users", "", "no"),
    (ADMIN, "create", "environments.tenantry.dev", "tenant-acme", "yes"),
    (ADMIN, "create", "secrets", "tenant-acme", "yes"),
    (ADMIN, "create", "environments.tenantry.dev", "default", "no"),
    (ADMIN, "patch", "environments.tenantry.dev/status", "tenant-acme", "no"),
    (ADMIN, "get", "users.tenantry.dev", NAMESPACE, "no"),
    (ADMIN, "list", "secrets", NAMESPACE, "no"),
    (ADMIN, "patch", "persistentvolumes", "", "no"),
    (ADMIN, "get", "pods/exec", "env-1", "no"),
    (OPERATOR, "create", "pods/exec", "env-1", "no"),
    (OPERATOR, "delete", "persistentvolumes", "", "no"),
    (ADMIN, "get", "operations.tenantry.dev", "tenant-acme", "no"),
    (ADMIN, "patch", "namespaces/tenant-acme", "", "no"),
    (VIEWER, "list", "apps.tenantry.dev", "tenant-acme", "yes"),
    (VIEWER, "create", "apps.tenantry.dev", "tenant-acme", "no"),
    (VIEWER, "get", "secrets", "tenant-acme", "no"),
]


@pytest.mark.parametrize(("who", "verb", "what", "where", "answer"), ALLOWED, ids=lambda value: str(value).rpartition(":")[2])
def test_who_may_what(who: str, verb: str, what: str, where: str, answer: str, kubectl: Run, release: str) -> None:
    resource, _, sub = what.partition("/")
    arguments = ["--subresource", sub, resource] if sub in ("status", "finalizers", "exec", "scale") else [what]
    asked = kubectl("auth", "can-i", verb, *arguments, *(("-n", where) if where else ()), "--as", who)
    assert asked.stdout.strip().splitlines()[-1] == answer, asked.stderr


def test_the_operator_hands_out_the_right_to_impersonate_the_two_accounts_and_no_more(kubectl: Run, release: str) -> None:
    def handing(resource: str, *names: str) -> subprocess.CompletedProcess[str]:
        rule = {"apiGroups": [""], "resources": [resource], "resourceNames": list(names), "verbs": ["impersonate"]}
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "tenantry-api", "namespace": "tenant-acme"},
            "rules": [rule],
        }
        return kubectl("create", "--dry-run=server", "-f", "-", "--as", OPERATOR, given=role)

    assert handing("serviceaccounts", "tenantry-admin", "tenantry-viewer").returncode == 0
    refused(handing("serviceaccounts", "default"), "attempting to grant RBAC permissions not currently held")
    refused(handing("groups", "system:masters"), "attempting to grant RBAC permissions not currently held")


def test_the_operator_binds_the_tenants_roles_alone(kubectl: Run, release: str) -> None:
    def binding(role: str) -> subprocess.CompletedProcess[str]:
        return kubectl(
            "create", "rolebinding", "more", "-n", "tenant-acme", f"--clusterrole={role}", "--group=people", "--as", OPERATOR
        )

    assert binding("tenantry-tenant-admin").returncode == 0
    refused(binding("cluster-admin"), "attempting to grant RBAC permissions not currently held")
    refused(binding("admin"), "attempting to grant RBAC permissions not currently held")


def test_a_tenants_admin_signs_with_its_own_name_alone(kubectl: Run, release: str) -> None:
    forged = environment("forged", annotations={"tenantry.dev/requested-by": "ceo@acme.example"})
    refused(kubectl("create", "-f", "-", "--as", ADMIN, given=forged), f"must be your own name, {ADMIN}, or absent")
    signed = environment("signed", annotations={"tenantry.dev/requested-by": ADMIN})
    assert kubectl("create", "-f", "-", "--as", ADMIN, given=signed).returncode == 0
    changed = kubectl(
        "annotate", "tenv/signed", "-n", "tenant-acme", "tenantry.dev/requested-by=ceo", "--overwrite", "--as", ADMIN
    )
    refused(changed, "must be your own name")
    kept = kubectl("annotate", "tenv/signed", "-n", "tenant-acme", "note=1", "--as", ADMIN)
    assert kept.returncode == 0, kept.stderr


@pytest.fixture(scope="module")
def as_ann(own: Cluster, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Flags of the api that acts for ann as ADMIN. kubectl has a flag of its own for that since 1.34."""
    config = yaml.safe_load(own.kubeconfig.read_text())
    config["users"][0]["user"] |= {"as": ADMIN, "as-user-extra": {"tenantry.dev/caller": ["ann"]}}
    file = tmp_path_factory.mktemp("ann") / "kubeconfig.yaml"
    file.write_text(yaml.safe_dump(config))
    return "--kubeconfig", str(file)


def test_the_platform_signs_with_the_callers_name(as_ann: tuple[str, str], kubectl: Run, release: str) -> None:
    signed = environment("by-the-platform", annotations={"tenantry.dev/requested-by": "ann"})
    for who in (("--as", OPERATOR), ("--as", API), as_ann):
        created = kubectl("create", "--dry-run=server", "-f", "-", *who, given=signed)
        assert created.returncode == 0, created.stderr


def test_our_finalizer_is_taken_off_by_the_operator_alone(kubectl: Run, release: str) -> None:
    document = environment("held", finalizers=[FINALIZER, "example.com/another"])
    assert kubectl("create", "-f", "-", "--as", OPERATOR, given=document).returncode == 0

    def leave(*names: str, who: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        patch = json.dumps({"metadata": {"finalizers": list(names)}})
        return kubectl("patch", "tenv/held", "-n", "tenant-acme", "--type=merge", "-p", patch, *who)

    refused(leave("example.com/another"), "the operator takes tenantry.dev/finalizer off")
    refused(leave(who=("--as", ADMIN)), "the operator takes tenantry.dev/finalizer off")
    assert leave(FINALIZER).returncode == 0
    assert leave(who=("--as", OPERATOR)).returncode == 0


def test_what_is_protected_is_not_deleted(kubectl: Run, release: str) -> None:
    document = environment("protected")
    document["spec"]["deletionProtection"] = True
    assert kubectl("create", "-f", "-", given=document).returncode == 0
    for who in ((), ("--as", ADMIN), ("--as", OPERATOR)):
        refused(kubectl("delete", "tenv/protected", "-n", "tenant-acme", *who), "set spec.deletionProtection to false")
    freed = kubectl("patch", "tenv/protected", "-n", "tenant-acme", "--type=merge", "-p", '{"spec":{"deletionProtection":false}}')
    assert freed.returncode == 0
    assert kubectl("delete", "tenv/protected", "-n", "tenant-acme").returncode == 0


def test_a_tenants_namespace_is_guarded(kubectl: Run, release: str) -> None:
    assert kubectl("create", "namespace", "somebodys").returncode == 0
    refused(kubectl("label", "namespace/somebodys", "tenantry.dev/tenant=acme", *MAKER), "only who may create Tenants")
    refused(kubectl("label", "namespace/default", "tenantry.dev/tenant=acme"), "namespace default cannot be a tenant's")
    refused(
        kubectl("label", "namespace/tenant-acme", "tenantry.dev/tenant=other", "--overwrite", *MAKER),
        "only who may create Tenants",
    )
    refused(kubectl("label", "namespace/tenant-acme", "tenantry.dev/tenant-", *MAKER), "only who may create Tenants")
    refused(kubectl("delete", "namespace/tenant-acme", *MAKER), "is the namespace of tenant acme: delete the Tenant instead")
    refused(kubectl("delete", "namespace/tenant-acme"), "is the namespace of tenant acme: delete the Tenant instead")
    refused(kubectl("annotate", "namespace/tenant-acme", "tenantry.dev/made-for-", *MAKER), "only who may create Tenants")
    refused(kubectl("annotate", "namespace/default", "tenantry.dev/made-for=a-uid", *MAKER), "only who may create Tenants")
    assert kubectl("label", "namespace/default", "note=1", *MAKER).returncode == 0
    assert kubectl("delete", "namespace/tenant-acme", "--dry-run=server", "--as", OPERATOR).returncode == 0
    assert kubectl("label", "namespace/tenant-acme", "tenantry.dev/tenant-", "--dry-run=server").returncode == 0
    assert kubectl("annotate", "namespace/tenant-acme", "tenantry.dev/deletion-confirmed=true").returncode == 0
    assert kubectl("delete", "namespace/tenant-acme", "--dry-run=server").returncode == 0
    assert kubectl("annotate", "namespace/tenant-acme", "tenantry.dev/deletion-confirmed-").returncode == 0


@asynccontextmanager
async def acting_as(account: str, own: Cluster, kubectl: Run, folder: Path) -> AsyncIterator[Client]:
    """A client with the rights of one of the release's accounts."""
    client = Client(from_kubeconfig(kubeconfig_of(account, own, kubectl, folder)))
    try:
        yield client
    finally:
        await client.close()


@pytest.mark.parametrize("account", ["operator", "api"])
async def test_both_processes_may_read_what_their_caches_hold_and_the_platforms_keys(
    account: str, own: Cluster, kubectl: Run, release: str, tmp_path: Path
) -> None:
    only_in = {} if account == "operator" else {"Secret": NAMESPACE}
    async with acting_as(account, own, kubectl, tmp_path) as client:
        for kind in FOLLOWED:
            await listed(KubernetesFeed(client, only_in=only_in), kind)
        assert (await platform_keys(KubernetesStore(client), "tenantry")).master


async def test_the_operator_holds_its_lease_and_lets_it_go(own: Cluster, kubectl: Run, release: str, tmp_path: Path) -> None:
    async with acting_as("operator", own, kubectl, tmp_path) as client:
        for holder in ("one", "another"):
            lease = Lease(client, NAMESPACE, "tenantry-operator", holder)
            await asyncio.wait_for(lease.acquire(), DEADLINE_S)
            await lease.release()


async def test_the_operators_rights_are_enough_for_a_tenant_and_the_facade_acts_there_in_its_name(
    own: Cluster, kubectl: Run, release: str, tmp_path: Path
) -> None:
    async with acting_as("operator", own, kubectl, tmp_path) as client:
        tenancy = KubernetesTenancy(KubernetesStore(client), client, NAMESPACE)
        await tenancy.ensure("tenant-fresh", "fresh", "a-uid", TenantAccess(("fresh-admins",), ("fresh-viewers",)))
        async with acting_as("api", own, kubectl, tmp_path) as facade:
            await asyncio.to_thread(_people_are_let_in, kubectl)
            store = KubernetesStore(facade, _namespace_of_fresh).as_(Caller("a-subject", "ann", "ADMIN", "fresh"))
            made = await store.create(
                environment("dev", namespace="tenant-fresh", annotations={"tenantry.dev/requested-by": "ann"})
            )
            with pytest.raises(Forbidden):
                await store.set_status(held_of(made), {"observedGeneration": 1})
            with pytest.raises(Forbidden):
                await store.get(Ref("Secret", NAMESPACE, "tenantry-keys"))
        uid = (await KubernetesStore(client).get(Ref("Namespace", "", "tenant-fresh")))["metadata"]["uid"]
        await gone(lambda: tenancy.remove("tenant-fresh", uid))


async def _namespace_of_fresh(tenant: str) -> str:
    assert tenant == "fresh"
    return "tenant-fresh"


def _people_are_let_in(kubectl: Run) -> None:
    for group, verb, answer in (
        ("fresh-admins", "create", "yes"),
        ("fresh-viewers", "list", "yes"),
        ("fresh-viewers", "create", "no"),
    ):
        asked = kubectl("auth", "can-i", verb, "tenv", "-n", "tenant-fresh", "--as", "somebody", "--as-group", group)
        assert asked.stdout.strip() == answer


async def gone(remove: Callable[[], Awaitable[None]]) -> None:
    """Removes again until nothing is left to wait for."""

    async def removed() -> bool:
        try:
            await remove()
        except Halt as halt:
            assert isinstance(halt.verdict, Waiting | Transient), halt
            return False
        return True

    await until(removed, "it is not gone")


def deployer_of(client: Client, base: Placement, *, acts: bool = True) -> KubernetesDeployer:
    """A deployer with the rights of a client. acts: False for that of the api."""
    secrets = StoreSecrets(KubernetesStore(client), nothing, b"k" * 32)
    kept = KeptVolumes(client, lambda ref: (environment("dev"),), timedelta(days=30))
    return KubernetesDeployer(Clusters(client), NoRegions(), secrets, dict, base, kept, acts=acts)


async def test_the_operators_rights_are_enough_for_an_engine(own: Cluster, kubectl: Run, release: str, tmp_path: Path) -> None:
    secret = Ref("Secret", "tenant-acme", "dev-admin")
    document = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret.name, "namespace": secret.namespace, "labels": {"tenantry.dev/credential": "environment"}},
        "stringData": {"password": "correct horse"},
    }
    assert kubectl("create", "-f", "-", given=document).returncode == 0
    base = Placement(
        "tenantry:0.1.0", "IfNotPresent", "tenantry", "http://api", NAMESPACE, subdomain="eu.example", ingress_class="any"
    )
    spec = EngineSpec(EngineRef("tenant-acme", "dev", "11111111-2222-4333-8444-555555555555", "acme", "dev"), "", "Kubernetes")
    async with acting_as("operator", own, kubectl, tmp_path) as client, acting_as("api", own, kubectl, tmp_path) as facade:
        operators, apis = deployer_of(client, base), deployer_of(facade, base, acts=False)
        await operators.deploy(spec, secret)
        # The facade looks, too: it plans what a write would do.
        for deployer in (operators, apis):
            running = await deployer.engine(spec.ref)
            assert running is not None
            assert running.spec == spec
        await operators.snapshot(spec.ref)
        with pytest.raises(Forbidden):
            await apis.deploy(replace(spec, size="large"), secret)
        await gone(lambda: operators.undeploy(spec.ref))


async def test_the_operators_rights_are_enough_for_a_pool_with_an_autoscaler_and_the_apis_to_look_at_it(
    own: Cluster, kubectl: Run, release: str, tmp_path: Path
) -> None:
    metadata = {"name": "pool-server", "namespace": NAMESPACE, "labels": {"tenantry.dev/credential": "region"}}
    url = "postgresql://admin:secret@db.example.com/postgres"
    document = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"url": url}}
    assert kubectl("create", "-f", "-", given=document).returncode == 0
    base = Placement("tenantry:0.1.0", "IfNotPresent", "tenantry", "http://api", NAMESPACE)
    fixed = EngineSpec(
        EngineRef("", "eu", "pool-0123456789ab", slug="server"),
        "",
        "Kubernetes",
        capacity=300,
        database_secret="pool-server",
        database_key="url",
        replicas=2,
    )
    scaled = replace(fixed, max_replicas=4, cpu_target=70)
    async with acting_as("operator", own, kubectl, tmp_path) as client, acting_as("api", own, kubectl, tmp_path) as facade:
        operators, apis = deployer_of(client, base), deployer_of(facade, base, acts=False)
        for spec in (scaled, replace(scaled, max_replicas=6), fixed):
            await operators.deploy(spec, Ref("Secret", "", ""))
            for deployer in (operators, apis):
                running = await deployer.engine(spec.ref)
                assert running is not None
                assert (running.spec, running.altered) == (spec, ())
        await gone(lambda: operators.undeploy(fixed.ref))


async def test_the_operators_rights_are_enough_to_keep_a_volume_to_give_it_again_and_to_let_it_go(
    own: Cluster, kubectl: Run, release: str, tmp_path: Path
) -> None:
    ref = EngineRef("tenant-acme", "dev", "21111111-2222-4333-8444-555555555555")
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/nowhere"},
        "persistentVolumeReclaimPolicy": "Delete",
        "claimRef": {"namespace": "env-21111111-2222", "name": "engine", "uid": "a-uid"},
    }
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "rights"}, "spec": spec}
    assert kubectl("create", "-f", "-", given=volume).returncode == 0

    def real() -> Any:
        return json.loads(kubectl("get", "pv", "rights", "-o", "json").stdout)

    async with acting_as("operator", own, kubectl, tmp_path) as client:

        async def here(region: str) -> Client:
            return client

        volumes = KeptVolumes(client, lambda ref: (environment("dev"),), timedelta(days=30))
        await volumes.keep(client, ref, "home", {"metadata": {"uid": "a-uid"}, "spec": {"volumeName": "rights"}})
        (kept,) = await kept_volumes(client)
        assert await volumes.reserve(client, ref, "home", kept.secret) == Volume("rights", "")
        assert "uid" not in real()["spec"]["claimRef"]
        await volumes.sweep(here, tuple, datetime.now(UTC) + timedelta(days=31))
        assert (await kept_volumes(client), real()["spec"]["persistentVolumeReclaimPolicy"]) == ([], "Delete")


def test_a_tenants_admin_gives_no_environment_what_was_another_s(as_ann: tuple[str, str], kubectl: Run, release: str) -> None:
    restoring = "tenantry.dev/restoring"
    marked = environment("marked", annotations={restoring: "an-id@2026-11-21T10:00:00Z@kept-another"})
    why = "only somebody who may create Tenants may restore environments"

    def told() -> str:
        return kubectl("create", "--dry-run=server", "-f", "-", "--as", ADMIN, given=marked).stderr

    asyncio.run(until(lambda: asyncio.to_thread(lambda: why in told()), "the policy is not in force"))
    for who in (("--as", ADMIN), as_ann):
        refused(kubectl("create", "--dry-run=server", "-f", "-", *who, given=marked), why)
    assert kubectl("create", "-f", "-", given=marked).returncode == 0, "who may create Tenants"
    there = ("tenv/marked", "-n", "tenant-acme", "--as", ADMIN)
    assert kubectl("annotate", *there, "note=1").returncode == 0
    refused(kubectl("annotate", *there, f"{restoring}=an-id@2026-11-21T10:00:00Z@kept-mine", "--overwrite"), why)
    refused(kubectl("annotate", *there, f"{restoring}-"), why)
    unmarked = environment("unmarked")
    assert kubectl("create", "-f", "-", "--as", ADMIN, given=unmarked).returncode == 0
    refused(kubectl("annotate", "tenv/unmarked", "-n", "tenant-acme", f"{restoring}=x", "--as", ADMIN), why)
    for name in ("marked", "unmarked"):
        assert kubectl("delete", f"tenv/{name}", "-n", "tenant-acme").returncode == 0


class NoRegions:
    """Regions of which none is declared."""

    def named(self, name: str) -> None:
        return None

    def of(self, ref: EngineRef) -> str:
        return ""

    def proof(self, ref: EngineRef) -> PlaceProof:
        return NO_PROOF


def nothing(ref: Ref) -> None:
    return None
