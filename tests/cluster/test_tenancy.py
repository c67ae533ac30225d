"""Tenants on a real API server, with the chart's roles and policies: what they get, and what their people cannot reach."""

from __future__ import annotations

import asyncio
import json
import subprocess
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
import yaml

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.client.objects import path_of
from tenantry.adapters.kubernetes.engines.deployer import KubernetesDeployer
from tenantry.adapters.kubernetes.engines.kept_volumes import KeptVolumes
from tenantry.adapters.kubernetes.engines.remote import Clusters
from tenantry.adapters.kubernetes.engines.workload import Placement, namespace_of
from tenantry.adapters.kubernetes.store import KubernetesStore
from tenantry.adapters.kubernetes.tenancy.namespaces import KubernetesTenancy
from tenantry.adapters.store.secrets import StoreSecrets
from tenantry.adapters.tenancy import USED_BY
from tenantry.kinds.environment.ownership import NO_PROOF, PlaceProof
from tenantry.kinds.region.spec import Region
from tenantry.model.facts import EngineRef, EngineSpec, RegionFacts, TenantAccess
from tenantry.model.resource import ACCESS_MARK, TENANT_LABEL, Document, Ref
from tenantry.model.verdicts import Halt, NotFound, Stalled, Waiting
from tests.cluster.charting import NAMESPACE
from tests.cluster.control_plane import Cluster
from tests.cluster.fixtures import client_of, until
from tests.cluster.releases import FINALIZER, OPERATOR, Run

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
RBAC = "rbac.authorization.k8s.io/v1"
ACCESS = TenantAccess(admins=("blue-admins",), viewers=("blue-viewers",))
USER = {"displayName": "Ann", "username": "ann", "passwordSecretRef": {"name": "ann", "key": "password"}}
ENGINE = EngineRef("tenant-red", "dev", "3f2504e0-4f89-41d3-9a0c-0305e82c3301", "red", "dev")


@pytest.fixture
async def admin(own: Cluster, release: str) -> AsyncIterator[Client]:
    async with client_of(own) as client:
        yield client


@pytest.fixture
def operator(admin: Client) -> Client:
    """With the operator's rights and no more."""
    return admin.with_headers({"Impersonate-User": OPERATOR})


@dataclass
class Kit:
    """A namespace that is nobody's yet."""

    admin: Client
    tenancy: KubernetesTenancy
    namespace: str
    tenant: str = "blue"

    async def ensure(self, access: TenantAccess = ACCESS, tenant_uid: str = "u1") -> None:
        await self.tenancy.ensure(self.namespace, self.tenant, tenant_uid, access)

    async def make(self, **metadata: Any) -> Document:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace, **metadata}}
        return await self.admin.request("POST", path_of("v1", "Namespace"), body=body)

    async def found(self) -> Document:
        return await self.admin.request("GET", path_of("v1", "Namespace", "", self.namespace))

    async def list(self, api_version: str, kind: str) -> list[Document]:
        return list((await self.admin.request("GET", path_of(api_version, kind, self.namespace)))["items"])

    async def ours(self) -> dict[str, Document]:
        kinds = (("v1", "ServiceAccount"), (RBAC, "Role"), (RBAC, "RoleBinding"))
        found = {f"{kind} {each['metadata']['name']}": each for api, kind in kinds for each in await self.list(api, kind)}
        found.pop("ServiceAccount default", None)
        return found

    async def may(self, group: str, verb: str, resource: str) -> bool:
        attributes = {"group": "tenantry.dev", "resource": resource, "verb": verb, "namespace": self.namespace}
        spec = {"user": "ann", "groups": [group], "resourceAttributes": attributes}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        answer = await self.admin.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body=body)
        return bool(answer["status"]["allowed"])


@pytest.fixture
def kit(admin: Client, operator: Client) -> Kit:
    tenancy = KubernetesTenancy(KubernetesStore(operator), operator, NAMESPACE)
    return Kit(admin, tenancy, f"tenant-{uuid.uuid4().hex[:8]}")


MADE = {
    "ServiceAccount tenantry-admin",
    "ServiceAccount tenantry-viewer",
    "RoleBinding tenantry-admin",
    "RoleBinding tenantry-viewer",
    "RoleBinding tenantry-api",
    "Role tenantry-impersonation",
    "RoleBinding tenantry-impersonation",
}


# What a tenant gets


async def test_a_tenant_gets_a_namespace_with_two_accounts_that_have_no_token(kit: Kit) -> None:
    await kit.ensure()
    metadata = (await kit.found())["metadata"]
    assert metadata["labels"][TENANT_LABEL] == "blue"
    assert metadata["annotations"]["tenantry.dev/made-for"] == "u1"
    assert metadata["annotations"][ACCESS_MARK] == ACCESS.mark
    made = await kit.ours()
    assert set(made) == MADE
    accounts = [each for name, each in made.items() if name.startswith("ServiceAccount")]
    assert [each["automountServiceAccountToken"] for each in accounts] == [False, False]


async def test_the_facade_alone_may_impersonate_the_two_accounts_by_name(kit: Kit) -> None:
    await kit.ensure()
    made = await kit.ours()
    (rule,) = made["Role tenantry-impersonation"]["rules"]
    assert (rule["verbs"], rule["resources"]) == (["impersonate"], ["serviceaccounts"])
    assert rule["resourceNames"] == ["tenantry-admin", "tenantry-viewer"]
    (subject,) = made["RoleBinding tenantry-impersonation"]["subjects"]
    assert subject == {"kind": "ServiceAccount", "name": "tenantry-api", "namespace": NAMESPACE}


async def test_the_facade_has_an_admins_rights_there_for_a_superusers_hand(kit: Kit) -> None:
    await kit.ensure()
    binding = (await kit.ours())["RoleBinding tenantry-api"]
    assert binding["roleRef"]["name"] == "tenantry-tenant-admin"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "tenantry-api", "namespace": NAMESPACE}]


class Late(KubernetesStore):
    """Repeats the last event of an object after it went."""

    def __init__(self, client: Client, last: Document) -> None:
        super().__init__(client)
        self._last: Document | None = last

    async def get(self, ref: Ref) -> Document:
        last, self._last = self._last, None
        return last or await super().get(ref)


async def test_a_namespace_that_went_while_it_was_to_be_removed_is_gone(kit: Kit, operator: Client) -> None:
    await kit.ensure()
    found = await kit.found()
    await operator.request("DELETE", path_of("v1", "Namespace", "", kit.namespace))

    async def gone() -> bool:
        return kit.namespace not in [each["metadata"]["name"] for each in await kit.list("v1", "Namespace")]

    await until(gone, "the namespace is still there")
    late = KubernetesTenancy(Late(operator, found), operator, NAMESPACE)
    await late.remove(kit.namespace, found["metadata"]["uid"])


async def test_doing_it_again_writes_nothing(kit: Kit) -> None:
    await kit.ensure()
    before = (await kit.found(), await kit.ours())
    await kit.ensure()
    assert (await kit.found(), await kit.ours()) == before


async def test_an_interrupted_pass_is_made_good(kit: Kit) -> None:
    """At its worst only the namespace is there."""
    annotations = {"tenantry.dev/made-for": "u1", ACCESS_MARK: ACCESS.mark}
    await kit.make(labels={TENANT_LABEL: "blue"}, annotations=annotations)
    await kit.ensure()
    assert set(await kit.ours()) == MADE
    assert (await kit.found())["metadata"]["annotations"][ACCESS_MARK] == ACCESS.mark


REGIONS = (RegionFacts("eu", "Europe", sizes=("small",)), RegionFacts("us", "United States"))


async def test_people_read_the_regions_of_their_tenant_and_change_none(kit: Kit) -> None:
    await kit.ensure()
    await kit.tenancy.publish(kit.namespace, "blue", REGIONS)
    await until(lambda: kit.may("blue-admins", "create", "environments"), "the roles are not in force")
    theirs = kit.admin.with_headers({"Impersonate-User": "ann", "Impersonate-Group": "blue-viewers"})
    path = path_of("v1", "ConfigMap", kit.namespace, "tenantry-regions")
    assert {name: yaml.safe_load(text) for name, text in (await theirs.request("GET", path))["data"].items()} == {
        "eu": {"displayName": "Europe", "sizes": ["small"]},
        "us": {"displayName": "United States"},
    }
    for request in (theirs.request("DELETE", path), theirs.request("GET", path_of("v1", "ConfigMap", kit.namespace))):
        with pytest.raises(Halt, match="configmaps"):
            await request
    await kit.tenancy.publish(kit.namespace, "blue", REGIONS[1:])
    assert list((await theirs.request("GET", path))["data"]) == ["us"]
    await kit.tenancy.publish(kit.namespace, "blue", ())
    assert not (await theirs.request("GET", path)).get("data")


RIGHTS = {
    "an admin writes": ("blue-admins", "create", "environments", True),
    "an admin reads": ("blue-admins", "list", "apps", True),
    "an admin sees no users": ("blue-admins", "list", "users", False),
    "an admin sees no operations": ("blue-admins", "get", "operations", False),
    "an admin writes no status": ("blue-admins", "patch", "environments/status", False),
    "an admin writes no finalizers": ("blue-admins", "update", "environments/finalizers", False),
    "a viewer reads": ("blue-viewers", "list", "environments", True),
    "a viewer writes nothing": ("blue-viewers", "create", "environments", False),
    "others see nothing": ("red-admins", "list", "environments", False),
}


@pytest.mark.parametrize(("group", "verb", "resource", "allowed"), RIGHTS.values(), ids=RIGHTS)
async def test_people_come_in_by_their_groups(kit: Kit, group: str, verb: str, resource: str, allowed: bool) -> None:
    await kit.ensure()
    await until(lambda: kit.may("blue-admins", "create", "environments"), "the roles are not in force")
    assert await kit.may(group, verb, resource) is allowed


async def test_a_group_that_is_no_longer_named_is_out(kit: Kit) -> None:
    await kit.ensure()
    await until(lambda: kit.may("blue-admins", "create", "environments"), "the roles are not in force")
    other = TenantAccess(admins=("new-admins",))
    await kit.ensure(other)
    await until(lambda: kit.may("new-admins", "create", "environments"), "the new group is not let in")
    assert not await kit.may("blue-admins", "create", "environments")
    assert not await kit.may("blue-viewers", "list", "environments")
    assert (await kit.found())["metadata"]["annotations"][ACCESS_MARK] == other.mark


# Whose a namespace is


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-anything", NAMESPACE])
async def test_a_reserved_namespace_is_no_tenants(kit: Kit, name: str) -> None:
    with pytest.raises(Halt, match="reserved") as halted:
        await kit.tenancy.ensure(name, "blue", "u1", ACCESS)
    assert halted.value.verdict.reason == "NamespaceTaken"


FOREIGN = {
    "nobody's": {},
    "another tenant's": {TENANT_LABEL: "red"},
}


@pytest.mark.parametrize("labels", FOREIGN.values(), ids=FOREIGN)
async def test_a_foreign_namespace_is_left_alone(kit: Kit, labels: dict[str, str]) -> None:
    before = await kit.make(labels=labels)
    with pytest.raises(Halt, match=TENANT_LABEL) as halted:
        await kit.ensure()
    assert isinstance(halted.value.verdict, Stalled)
    assert halted.value.verdict.reason == "NamespaceTaken"
    assert (await kit.found())["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert await kit.ours() == {}


async def test_a_namespace_is_adopted_by_consent_and_released_with_what_is_in_it(kit: Kit) -> None:
    before = await kit.make(labels={TENANT_LABEL: "blue"}, annotations={"example.com/theirs": "1"})
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs"}}
    await kit.admin.request("POST", path_of("v1", "ConfigMap", kit.namespace), body=theirs)
    await kit.ensure()
    assert set(await kit.ours()) == MADE
    await kit.tenancy.remove(kit.namespace, before["metadata"]["uid"])
    after = await kit.found()
    assert await kit.ours() == {}
    assert after["metadata"]["annotations"] == {**before["metadata"]["annotations"], USED_BY: "u1"}
    assert "deletionTimestamp" not in after["metadata"]
    assert "theirs" in [each["metadata"]["name"] for each in await kit.list("v1", "ConfigMap")]
    await kit.tenancy.remove(kit.namespace, before["metadata"]["uid"])


async def test_what_stands_in_an_adopted_namespace_is_neither_overwritten_nor_removed(kit: Kit) -> None:
    before = await kit.make(labels={TENANT_LABEL: "blue"})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    theirs = {"apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": "tenantry-viewer"}, "roleRef": role}
    await kit.admin.request("POST", path_of(RBAC, "RoleBinding", kit.namespace), body=theirs)
    with pytest.raises(Halt, match=f"RoleBinding tenantry-viewer in namespace {kit.namespace}") as halted:
        await kit.ensure()
    assert halted.value.verdict.reason == "ObjectTaken"
    await kit.tenancy.remove(kit.namespace, before["metadata"]["uid"])
    assert list(await kit.ours()) == ["RoleBinding tenantry-viewer"]


async def test_the_namespace_goes_with_the_tenant(kit: Kit) -> None:
    await kit.ensure()
    uid = (await kit.found())["metadata"]["uid"]
    await kit.tenancy.remove(kit.namespace, "another incarnation")
    assert "deletionTimestamp" not in (await kit.found())["metadata"]
    with pytest.raises(Halt) as halted:
        await kit.tenancy.remove(kit.namespace, uid)
    assert isinstance(halted.value.verdict, Waiting)

    async def gone() -> bool:
        try:
            await kit.tenancy.remove(kit.namespace, uid)
        except Halt:
            return False
        return True

    await until(gone, "the namespace is still there")
    with pytest.raises(NotFound):
        await kit.found()


async def test_a_namespace_that_is_going_is_waited_for(kit: Kit) -> None:
    await kit.make(labels={TENANT_LABEL: "blue"}, finalizers=["example.com/held"])
    path = path_of("v1", "Namespace", "", kit.namespace)
    await kit.admin.request("PATCH", path, body={"metadata": {"labels": {TENANT_LABEL: None}}}, content_type=MERGE)
    await kit.admin.request("DELETE", path)
    with pytest.raises(Halt) as halted:
        await kit.ensure()
    assert isinstance(halted.value.verdict, Waiting)
    await kit.admin.request("PATCH", path, body={"metadata": {"finalizers": None}}, content_type=MERGE)


MERGE = "application/merge-patch+json"


# What a tenant's admin cannot do, with kubectl


@dataclass(frozen=True)
class Tenants:
    """blue, whose admins try, and red, which has an engine."""

    cluster: Cluster
    token: str

    def attempt(self, who: str, arguments: str, given: Any = None) -> subprocess.CompletedProcess[str]:
        """By the account's own token, or as one of the tenant's people."""
        identity = ["--token", self.token] if who == "account" else ["--as=ann", "--as-group=blue-admins"]
        text = None if given is None else json.dumps(given)
        kubeconfig = self.cluster.kubeconfig.parent / "anonymous" if who == "account" else self.cluster.kubeconfig
        command = [str(self.cluster.kubectl), "--kubeconfig", str(kubeconfig), *identity, *arguments.split()]
        return subprocess.run(command, capture_output=True, text=True, input=text, timeout=60, check=False)


@pytest.fixture(scope="module")
def tenants(own: Cluster, release: str, kubectl: Run) -> Tenants:
    asyncio.run(found_tenants(own))
    token = kubectl("create", "token", "tenantry-admin", "-n", "tenant-blue")
    assert token.returncode == 0, token.stderr
    config = yaml.safe_load(own.kubeconfig.read_text())
    config["users"][0]["user"] = {}
    (own.kubeconfig.parent / "anonymous").write_text(yaml.safe_dump(config))
    return Tenants(own, token.stdout.strip())


class Nowhere:
    """deployer.RegionLookup without any."""

    def named(self, name: str) -> Region | None:
        return None

    def of(self, ref: EngineRef) -> str:
        return ""

    def proof(self, ref: EngineRef) -> PlaceProof:
        return NO_PROOF


async def found_tenants(cluster: Cluster) -> None:
    async with client_of(cluster) as admin:
        operator = admin.with_headers({"Impersonate-User": OPERATOR})
        store = KubernetesStore(operator)
        tenancy = KubernetesTenancy(store, operator, NAMESPACE)
        for name in ("blue", "red"):
            await store.create(declared("Tenant", name, "", {"access": {"admins": [f"{name}-admins"]}}))
            await tenancy.ensure(f"tenant-{name}", name, f"uid-of-{name}", TenantAccess(admins=(f"{name}-admins",)))
            await store.create(declared("Environment", "dev", f"tenant-{name}", {"region": "home"}))
        await store.create(declared("User", "ann", NAMESPACE, {**USER, "role": "ADMIN", "tenant": "blue"}))
        held = declared("Environment", "held", "tenant-blue", {"region": "home"})
        held["metadata"]["finalizers"] = [FINALIZER]
        await store.create(held)
        protected = declared("Environment", "protected", "tenant-blue", {"region": "home", "deletionProtection": True})
        await store.create(protected)
        secrets = StoreSecrets(store, nothing, b"key")
        password = Ref("Secret", "tenant-red", "dev-admin")
        await secrets.ensure(password, "environment")
        placement = Placement("tenantry", "Never", "tenantry", "http://api", NAMESPACE)
        volumes = KeptVolumes(operator, lambda ref: (), timedelta(days=30))
        deployer = KubernetesDeployer(Clusters(operator), Nowhere(), secrets, lambda: {"keys": []}, placement, volumes)
        await deployer.deploy(EngineSpec(ENGINE, "home", "Kubernetes"), password)


def nothing(ref: Ref) -> Document | None:
    return None


def declared(kind: str, name: str, namespace: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "tenantry.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def environment(name: str, namespace: str = "tenant-blue", **metadata: Any) -> dict[str, Any]:
    document = declared("Environment", name, namespace, {"region": "home"})
    return {**document, "metadata": {**document["metadata"], **metadata}}


def pod(namespace: str) -> dict[str, Any]:
    container = {"name": "x", "image": "x", "volumeMounts": [{"name": "s", "mountPath": "/s"}]}
    volumes = [{"name": "s", "secret": {"secretName": "dev-admin"}}]
    spec = {"containers": [container], "volumes": volumes, "serviceAccountName": "tenantry-admin"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": namespace}, "spec": spec}


def binding(role: str, kind: str = "ClusterRole", namespace: str = "tenant-blue") -> dict[str, Any]:
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "blue-admins"}]
    role_ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}
    whole = {"apiVersion": RBAC, "roleRef": role_ref, "subjects": subjects}
    if not namespace:
        return {**whole, "kind": "ClusterRoleBinding", "metadata": {"name": "mine"}}
    return {**whole, "kind": "RoleBinding", "metadata": {"name": "mine", "namespace": namespace}}


ENGINE_NAMESPACE = namespace_of(ENGINE.id)
SUPERUSER = {**USER, "username": "eve", "role": "SUPERUSER"}
OPERATION = {"action": "DELETE_TENANT", "target": {"kind": "Tenant", "namespace": "", "name": "red", "uid": "1"}}
LABELLED = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine", "labels": {TENANT_LABEL: "blue"}}}

REFUSED: dict[str, tuple[str, Any]] = {
    # another tenant
    "read another tenant's environments": ("get tenv -n tenant-red", None),
    "read everybody's environments": ("get tenv -A", None),
    "read another tenant's secrets": ("get secrets -n tenant-red", None),
    "read another tenant's password": ("get secret dev-admin -n tenant-red", None),
    "create in another tenant's namespace": ("create -f -", environment("x", "tenant-red")),
    "change another tenant's environment": (
        'patch tenv dev -n tenant-red --type=merge -p {"spec":{"displayName":"x"}}',
        None,
    ),
    "delete another tenant's environment": ("delete tenv dev -n tenant-red", None),
    "watch another tenant's events": ("get events -n tenant-red", None),
    "read the tenants": ("get tn", None),
    # engines and their credentials
    "read an engine's secret": (f"get secret engine -n {ENGINE_NAMESPACE}", None),
    "read every secret": ("get secrets -A", None),
    "read the platform's keys": (f"get secret tenantry-keys -n {NAMESPACE}", None),
    "read the platform's secrets": (f"get secrets -n {NAMESPACE}", None),
    "list an engine's pods": (f"get pods -n {ENGINE_NAMESPACE}", None),
    "run something in an engine": (f"exec engine-0 -n {ENGINE_NAMESPACE} -- id", None),
    "go to an engine past the facade": (f"port-forward pod/engine-0 8080 -n {ENGINE_NAMESPACE}", None),
    "replace an engine": (f"delete statefulset engine -n {ENGINE_NAMESPACE}", None),
    "get a token of an engine": (f"create token engine -n {ENGINE_NAMESPACE}", None),
    "start a pod beside an engine": ("create -f -", pod(ENGINE_NAMESPACE)),
    "start a pod of one's own": ("create -f -", pod("tenant-blue")),
    # users and operations
    "read the users": (f"get users.tenantry.dev -n {NAMESPACE}", None),
    "become SUPERUSER": ("create -f -", declared("User", "eve", NAMESPACE, SUPERUSER)),
    "become SUPERUSER at home": ("create -f -", declared("User", "eve", "tenant-blue", SUPERUSER)),
    "give oneself another role": (
        f'patch users.tenantry.dev ann -n {NAMESPACE} --type=merge -p {{"spec":{{"role":"SUPERUSER"}}}}',
        None,
    ),
    "read the operations": (f"get operations.tenantry.dev -n {NAMESPACE}", None),
    "forge an operation": ("create -f -", declared("Operation", "x", NAMESPACE, OPERATION)),
    "forge an operation at home": ("create -f -", declared("Operation", "x", "tenant-blue", OPERATION)),
    # rights
    "create a tenant": ("create -f -", declared("Tenant", "mine", "", {})),
    "let others into the tenant": ('patch tn blue --type=merge -p {"spec":{"access":{"admins":["x"]}}}', None),
    "open a region": ("create -f -", declared("Region", "mine", "", {})),
    "bind a role of the cluster": ("create -f -", binding("cluster-admin", namespace="")),
    "bind a role at home": ("create -f -", binding("admin")),
    "take part in impersonation": ("create -f -", binding("tenantry-impersonation", "Role")),
    "edit the own binding": ("delete rolebinding tenantry-viewer -n tenant-blue", None),
    "get a token of the operator": (f"create token tenantry-operator -n {NAMESPACE}", None),
    "get a lasting token of the own account": ("create token tenantry-admin -n tenant-blue", None),
    "change a policy": ("delete validatingadmissionpolicy tenantry-requested-by", None),
    "change a definition": ("delete crd environments.tenantry.dev", None),
    # namespaces
    "adopt a foreign namespace": (f"label namespace default {TENANT_LABEL}=blue", None),
    "make a namespace": ("create -f -", LABELLED),
    "say for whom the namespace was made": ("annotate namespace tenant-blue tenantry.dev/made-for- --overwrite", None),
    "say who had the namespace last": ("annotate namespace tenant-blue tenantry.dev/used-by=me --overwrite", None),
    "delete the own namespace": ("delete namespace tenant-blue", None),
    # what the platform alone writes
    "write a status": (
        'patch tenv dev -n tenant-blue --subresource=status --type=merge -p {"status":{"phase":"READY"}}',
        None,
    ),
    "take our finalizer off": ('patch tenv held -n tenant-blue --type=merge -p {"metadata":{"finalizers":null}}', None),
    "sign with another's name": (
        "create -f -",
        environment("signed", annotations={"tenantry.dev/requested-by": "root"}),
    ),
    "delete what is protected": ("delete tenv protected -n tenant-blue", None),
}


@pytest.mark.parametrize("who", ["account", "person"])
@pytest.mark.parametrize(("arguments", "given"), REFUSED.values(), ids=REFUSED)
def test_a_tenants_admin_cannot(tenants: Tenants, who: str, arguments: str, given: Any) -> None:
    answer = tenants.attempt(who, arguments, given)
    assert answer.returncode != 0, answer.stdout
    assert "forbidden" in answer.stderr.lower(), answer.stderr


IMPERSONATED = {
    "the cluster's administrators": "--as=x --as-group=system:masters",
    "the operator": f"--as={OPERATOR}",
    "the facade": f"--as=system:serviceaccount:{NAMESPACE}:tenantry-api",
    "another tenant's admin": "--as=system:serviceaccount:tenant-red:tenantry-admin",
    "a person of another tenant": "--as=bob --as-group=red-admins",
    "the own account": "--as=system:serviceaccount:tenant-blue:tenantry-admin",
}


@pytest.mark.parametrize("identity", IMPERSONATED.values(), ids=IMPERSONATED)
def test_a_tenants_admin_cannot_act_as(tenants: Tenants, identity: str) -> None:
    answer = tenants.attempt("account", f"{identity} get tenv -n tenant-red")
    assert answer.returncode != 0
    assert "cannot impersonate" in answer.stderr


POINTING: dict[str, tuple[dict[str, Any], str]] = {
    "a password in another namespace": (
        declared(
            "Identity",
            "x",
            "tenant-blue",
            {
                "environment": "dev",
                "username": "x",
                "passwordSecretRef": {"name": "dev-admin", "key": "password", "namespace": "tenant-red"},
            },
        ),
        'unknown field "spec.passwordSecretRef.namespace"',
    ),
    "an environment of another namespace": (
        declared("App", "dev.crm", "tenant-blue", {"environment": "tenant-red/dev", "app": "crm"}),
        "spec.environment",
    ),
}


@pytest.mark.parametrize(("document", "told"), POINTING.values(), ids=POINTING)
def test_nothing_can_be_declared_that_points_at(tenants: Tenants, document: dict[str, Any], told: str) -> None:
    answer = tenants.attempt("account", "create --validate=strict -f -", document)
    assert answer.returncode != 0
    assert told in answer.stderr


ALLOWED: dict[str, tuple[str, Any]] = {
    "list its environments": ("get tenv -n tenant-blue", None),
    "make an environment": ("create --dry-run=server -f -", environment("x")),
    "change one": ('patch tenv dev -n tenant-blue --type=merge -p {"spec":{"displayName":"x"}}', None),
    "keep secrets": ("create secret generic mine -n tenant-blue --from-literal=password=x --dry-run=server", None),
}


@pytest.mark.parametrize("who", ["account", "person"])
@pytest.mark.parametrize(("arguments", "given"), ALLOWED.values(), ids=ALLOWED)
def test_a_tenants_admin_can(tenants: Tenants, who: str, arguments: str, given: Any) -> None:
    answer = tenants.attempt(who, arguments, given)
    assert answer.returncode == 0, answer.stderr


async def test_a_secret_that_is_nobodys_credential_is_not_read(tenants: Tenants, operator: Client) -> None:
    """Even where its owner points at it, or somebody labels it for another kind."""
    store = KubernetesStore(operator)
    secrets = StoreSecrets(store, nothing, b"key")
    for name, labels in (("plain", {}), ("of-another-kind", {"tenantry.dev/credential": "identity"})):
        metadata = {"name": name, "namespace": "tenant-blue", "labels": labels}
        await store.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": "x"}})
        with pytest.raises(Halt) as halted:
            await secrets.reveal("tenant-blue", name, "password", "environment")
        assert halted.value.verdict.reason == "SecretNotLabelled"


@pytest.mark.parametrize("name", ["../../tenant-red/secrets/dev-admin", "..", "%2e%2e", "dev-admin?x=", "a/b"])
async def test_a_name_that_is_a_path_leads_nowhere(tenants: Tenants, operator: Client, name: str) -> None:
    secrets = StoreSecrets(KubernetesStore(operator), nothing, b"key")
    with pytest.raises(Halt) as halted:
        await secrets.reveal("tenant-blue", name, "password", "environment")
    assert halted.value.verdict.reason in ("SecretMissing", "Forbidden", "Invalid")


async def test_what_an_earlier_tenant_left_in_a_namespace_is_not_the_next_ones(kit: Kit) -> None:
    await kit.make(labels={TENANT_LABEL: "blue"}, annotations={USED_BY: "an-earlier-blue"})
    left = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "left"}}
    await kit.admin.request("POST", path_of("v1", "ConfigMap", kit.namespace), body=left)
    with pytest.raises(Halt, match=f"ConfigMap/{kit.namespace}/left") as halted:
        await kit.ensure()
    assert isinstance(halted.value.verdict, Waiting)
    assert halted.value.verdict.reason == "NamespaceNotEmpty"
    assert await kit.ours() == {}
    await kit.admin.request("DELETE", path_of("v1", "ConfigMap", kit.namespace, "left"))
    await kit.ensure()
    assert set(await kit.ours()) == MADE
    assert (await kit.found())["metadata"]["annotations"][USED_BY] == "u1"
