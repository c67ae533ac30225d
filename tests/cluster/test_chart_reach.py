"""The reach of a stolen token of each of our accounts, on a real API server, with real tokens."""

from __future__ import annotations

import asyncio
import json
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tenantry.adapters.kubernetes.client.credentials import from_kubeconfig
from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.engines.deployer import KubernetesDeployer
from tenantry.adapters.kubernetes.engines.kept_volumes import KeptVolumes
from tenantry.adapters.kubernetes.engines.remote import Clusters
from tenantry.adapters.kubernetes.engines.workload import Placement
from tenantry.adapters.kubernetes.store import KubernetesStore
from tenantry.adapters.kubernetes.tenancy.namespaces import KubernetesTenancy
from tenantry.adapters.store.secrets import StoreSecrets
from tenantry.hosts.tenant_secrets import TenantSecrets
from tenantry.kinds.environment.ownership import NO_PROOF, PlaceProof
from tenantry.kinds.registry import TYPES
from tenantry.model.facts import EngineRef, EngineSpec, TenantAccess
from tenantry.model.resource import API_VERSION, Ref
from tenantry.runtime.cache import Cache
from tests.cluster.charting import NAMESPACE
from tests.cluster.control_plane import Cluster
from tests.cluster.reach import ATTEMPTS, ENGINE, OTHER, PLACE, TENANT, Attempt
from tests.cluster.releases import Run, environment, kubeconfig_of

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
ID = "11111111-2222-4333-8444-555555555555"


class NoRegions:
    """Regions of which none is declared."""

    def named(self, name: str) -> None:
        return None

    def of(self, ref: EngineRef) -> str:
        return ""

    def proof(self, ref: EngineRef) -> PlaceProof:
        return NO_PROOF


@pytest.fixture(scope="module")
def world(own: Cluster, kubectl: Run, release: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A tenant and an engine as the operator makes them, another tenant, a namespace of others, and what others keep."""
    folder = tmp_path_factory.mktemp("reach")
    asyncio.run(_as_the_operator(kubeconfig_of("operator", own, kubectl, folder)))
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/nowhere"}}
    claims = {"reach": ENGINE, "foreign": "default"}
    for name, namespace in claims.items():
        spec = {**volume, "claimRef": {"namespace": namespace, "name": "engine"}}
        given = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
        assert kubectl("create", "-f", "-", given=given).returncode == 0
    assert kubectl("create", "namespace", "others").returncode == 0
    assert kubectl("create", "configmap", "coredns", "-n", "kube-system", "--from-literal=Corefile=.").returncode == 0
    assert kubectl("create", "-f", "-", given=environment("kept", namespace=OTHER)).returncode == 0
    return kubectl


async def _as_the_operator(kubeconfig: Path) -> None:
    client = Client(from_kubeconfig(kubeconfig))
    try:
        store = KubernetesStore(client)
        await KubernetesTenancy(store, client, NAMESPACE).ensure(TENANT, "fresh", "a-uid", TenantAccess())
        secrets = StoreSecrets(store, lambda ref: None, b"k" * 32)
        admin = Ref("Secret", TENANT, "dev-admin")
        await secrets.ensure(admin, "environment")
        kept = KeptVolumes(client, lambda ref: (), timedelta(days=30))
        base = Placement("tenantry:test", "IfNotPresent", "tenantry", "http://tenantry-api.tenantry-system.svc:8080", NAMESPACE)
        deployer = KubernetesDeployer(Clusters(client), NoRegions(), secrets, dict, base, kept)
        await deployer.deploy(EngineSpec(EngineRef(TENANT, "dev", ID, "fresh", "dev"), "home", "Kubernetes"), admin)
    finally:
        await client.close()


@pytest.fixture(scope="module")
def tokens(own: Cluster, world: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A kubeconfig of each account, with a real token of it."""
    folder, made = tmp_path_factory.mktemp("tokens"), {}
    for account in {each.account for each in ATTEMPTS}:
        token = world("create", "token", account, "-n", PLACE.get(account, NAMESPACE))
        assert token.returncode == 0, token.stderr
        config = yaml.safe_load(own.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token.stdout.strip()}
        made[account] = folder / account
        made[account].write_text(yaml.safe_dump(config))
    return made


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda each: f"{each.account}: {each.tries}")
def test_how_far_a_stolen_token_reaches(attempt: Attempt, own: Cluster, tokens: dict[str, Path]) -> None:
    answer = tried(attempt, own, tokens)
    if attempt.reaches:
        assert answer.returncode == 0, answer.stderr
    else:
        assert answer.returncode != 0, answer.stdout
        assert "orbidden" in answer.stderr, f"refused, but not for want of a right: {answer.stderr}"


def tried(attempt: Attempt, own: Cluster, tokens: dict[str, Path]) -> subprocess.CompletedProcess[str]:
    arguments = ["system:serviceaccount:" + each if before == "--as" else each for before, each in _pairs(attempt.command)]
    command = [str(own.kubectl), "--kubeconfig", str(tokens[attempt.account]), *arguments]
    text = None if attempt.given is None else json.dumps(attempt.given)
    return subprocess.run(command, capture_output=True, text=True, input=text, timeout=60, check=False)


def _pairs(command: tuple[str, ...]) -> Any:
    return zip(("", *command), command, strict=False)


async def test_the_api_reads_the_secrets_of_tenants_when_it_plans(tokens: dict[str, Path], world: Run) -> None:
    client = Client(from_kubeconfig(tokens["tenantry-api"]))
    cache = Cache(TYPES)
    for name, namespace in (("fresh", TENANT), ("closed", "others")):
        metadata = {"name": name, "uid": name, "resourceVersion": "1", "generation": 1}
        bound = {"namespace": {"name": namespace, "uid": "a-uid"}}
        cache.absorb({"apiVersion": API_VERSION, "kind": "Tenant", "metadata": metadata, "spec": {}, "status": bound})
    admin = Ref("Secret", TENANT, "dev-admin")
    try:
        secrets = TenantSecrets(client, cache)
        await secrets.refresh("closed")
        await secrets.read(["kube-system"])
        assert not [*cache.entries("Secret")]
        await secrets.refresh("fresh")
        assert cache.document(admin) is not None
        assert world("delete", "secret", "dev-admin", "-n", TENANT).returncode == 0
        await secrets.read(None)
        assert cache.document(admin) is None
    finally:
        await client.close()


def test_no_pod_has_an_account_of_ours_that_is_not_its_own(world: Run) -> None:
    def pod(namespace: str, account: str) -> subprocess.CompletedProcess[str]:
        safe = {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        spec = {
            "serviceAccountName": account,
            "containers": [{"name": "c", "image": "i", "securityContext": safe, "resources": {"limits": {"cpu": "1"}}}],
        }
        given = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": namespace}, "spec": spec}
        return world("create", "--dry-run=server", "-f", "-", given=given)

    assert world("create", "serviceaccount", "another", "-n", ENGINE).returncode == 0
    for namespace, account in ((TENANT, "tenantry-admin"), (TENANT, "tenantry-viewer"), (ENGINE, "another")):
        answer = pod(namespace, account)
        assert "ValidatingAdmissionPolicy 'tenantry-workload-accounts'" in answer.stderr, answer.stderr
    assert pod(ENGINE, "engine").returncode == 0, pod(ENGINE, "engine").stderr


def test_who_may_ask_for_tokens_of_an_account_may_also_make_a_lasting_one(world: Run) -> None:
    annotations = {"kubernetes.io/service-account.name": "tenantry-admin"}
    metadata = {"name": "lasting", "namespace": TENANT, "annotations": annotations}
    given = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata": metadata}
    assert world("create", "--dry-run=server", "-f", "-", given=given).returncode == 0, "a cluster's administrator may"
    opened = world(
        "create", "rolebinding", "people", "-n", TENANT, "--clusterrole=tenantry-tenant-admin", "--group=secret-makers"
    )
    assert opened.returncode == 0, opened.stderr
    people = world("create", "--dry-run=server", "-f", "-", "--as", "ann", "--as-group", "secret-makers", given=given)
    assert "ValidatingAdmissionPolicy 'tenantry-token-secrets'" in people.stderr, people.stderr
