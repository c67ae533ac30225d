"""The chart as helm renders it: least rights, restricted pods, values that cannot work are refused."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tenantry.adapters.kubernetes.engines.pods import EnginePods, parse_engine_pods
from tenantry.kinds import crds
from tenantry.kinds.registry import KINDS, OF_TENANTS
from tenantry.rest.release import VERSION
from tenantry.settings import Settings
from tests.cluster.charting import CHART, NAMESPACE, Object, Refused, forget_rendered, objects, program, rendered, run
from tests.cluster.fixtures import POLICIES
from tests.docs import dashboards
from tests.scenario.tools import lacking
from tests.support.built_programs import MissingProgram

pytestmark = pytest.mark.slow
S3 = {"s3": {"url": "s3://bucket/prefix", "existingSecret": "keys"}}
EVERYTHING: dict[str, Any] = {
    "api": {"replicas": 2, "annotations": {"a": "b"}, "priorityClassName": "high"},
    "blobs": S3,
    "admin": {"existingSecret": "mine"},
    "image": {"repository": "registry.example:5000/team/tenantry", "tag": "1.2.3"},
    "imagePullSecrets": ["pull"],
    "settings": {"TENANTRY_OPERATIONS__DEADLINE": "30m", "TENANTRY_WORKERS": 8},
    "operator": {"tolerations": [{"operator": "Exists"}], "nodeSelector": {"disk": "fast"}, "affinity": {"podAntiAffinity": {}}},
    "ingress": {"enabled": True, "host": "tenantry.example", "className": "nginx", "tlsSecretName": "tls"},
    "uninstall": {"mode": "release"},
    "engines": {"extraEnv": [{"name": "TZ", "value": "UTC"}], "extraVolumes": [{"name": "fonts", "emptyDir": {}}]},
    "signIn": {"issuer": "https://id.example.com", "clientId": "console", "existingSecret": "oidc", "name": "Example"},
    "caBundle": "-----BEGIN CERTIFICATE-----",
    "proxy": {"http": "http://proxy:3128", "https": "http://proxy:3128"},
    "networkPolicy": {"apiFrom": [{"namespaceSelector": {}}], "metricsFrom": [{"podSelector": {}}], "extraEgress": [{"to": []}]},
    "metrics": {
        "serviceMonitor": {"enabled": True, "labels": {"team": "x"}},
        "engines": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "dashboards": {"enabled": True},
        "stateMetrics": {"enabled": True},
    },
}
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
VARIANTS = {"defaults": {}, "everything": EVERYTHING}
TENANT_ROLES = ("tenantry-tenant-admin", "tenantry-tenant-viewer", "tenantry-view", "tenantry-edit")
variants = pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS)


@pytest.fixture(autouse=True, scope="module")
def helm() -> None:
    try:
        program("helm")
    except MissingProgram as missing:
        lacking(str(missing))


def named(kind: str, name: str, values: dict[str, Any] | None = None) -> Object:
    found = [each for each in objects(values) if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    assert len(found) == 1
    return found[0]


def kinds(values: dict[str, Any] | None = None) -> set[tuple[str, str]]:
    return {(each["kind"], each["metadata"]["name"]) for each in objects(values)}


def rules(values: dict[str, Any]) -> Iterator[tuple[str, Object]]:
    for each in objects(values):
        for rule in each.get("rules", ()) if each["kind"] in ("Role", "ClusterRole") else ():
            yield f"{each['kind']}/{each['metadata']['name']}", rule


def pods(values: dict[str, Any]) -> list[Object]:
    """Every pod that the chart leads to: metadata and spec."""
    found = []
    for each in objects(values):
        if each["kind"] == "Pod":
            found.append(each)
        elif "template" in each.get("spec", {}):
            found.append(each["spec"]["template"])
    assert len(found) == 4
    return found


def environment(deployment: Object) -> dict[str, Any]:
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}


@variants
def test_helm_lint_finds_nothing(values: dict[str, Any]) -> None:
    done = run("helm", "lint", "--strict", CHART, "--namespace", NAMESPACE, "--values", "-", given=json.dumps(values))
    assert done.returncode == 0, done.stdout


@variants
def test_no_right_is_a_wildcard(values: dict[str, Any]) -> None:
    wild = [(name, rule) for name, rule in rules(values) for field in rule.values() for entry in field if "*" in entry]
    assert wild == []


def rights_of(verb: str, values: dict[str, Any]) -> set[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    return {
        (name, tuple(rule["resources"]), tuple(rule.get("resourceNames", ())))
        for name, rule in rules(values)
        if verb in rule["verbs"]
    }


@variants
def test_nobody_may_escalate_and_only_the_tenants_roles_are_bound(values: dict[str, Any]) -> None:
    assert rights_of("escalate", values) == set()
    tenants = ("tenantry-tenant-admin", "tenantry-tenant-viewer")
    assert rights_of("bind", values) == {("ClusterRole/tenantry-operator", ("clusterroles",), tenants)}


@variants
def test_nobody_impersonates_users_or_groups(values: dict[str, Any]) -> None:
    accounts = ("ClusterRole/tenantry-operator", ("serviceaccounts",), ("tenantry-admin", "tenantry-viewer"))
    callers = {(f"ClusterRole/tenantry-{each}", ("userextras/tenantry.dev/caller",), ()) for each in ("api", "operator")}
    assert rights_of("impersonate", values) == {accounts, *callers}


@pytest.mark.parametrize("role", TENANT_ROLES)
def test_a_role_for_people_has_no_verb_on_users_operations_status_and_finalizers(role: str) -> None:
    rules_ = named("ClusterRole", role)["rules"]
    regions = [rule for rule in rules_ if rule["resources"] == ["configmaps"]]
    named_by = ("tenantry-tenant-admin", "tenantry-tenant-viewer")  # view and edit of Kubernetes read ConfigMaps anyway
    assert [(each["resourceNames"], each["verbs"]) for each in regions] == (
        [(["tenantry-regions"], ["get", "watch"])] if role in named_by else []
    )
    reached = {resource for rule in rules_ if rule not in regions for resource in rule["resources"]}
    kinds_of_tenants = {KINDS[name].type.PLURAL for name in OF_TENANTS}
    assert reached - {"events", "secrets"} == kinds_of_tenants
    assert ("secrets" in reached) is (role == "tenantry-tenant-admin")


def test_the_api_writes_tenants_and_else_in_its_own_namespace_alone() -> None:
    writing = {"create", "update", "patch", "delete"}
    of_api = [(name, rule) for name, rule in rules({}) if name.endswith("/tenantry-api")]
    wide = [rule for name, rule in of_api if name.startswith("ClusterRole") and writing & set(rule["verbs"])]
    assert [rule["resources"] for rule in wide] == [["tenants"]]
    own = {resource for name, rule in of_api if name.startswith("Role/") for resource in rule["resources"]}
    assert own == {"operations", "packages", "secrets", "sources", "users"}


def test_the_hook_may_write_only_when_asked_to_release() -> None:
    def verbs(values: dict[str, Any]) -> set[str]:
        return {verb for name, rule in rules(values) if name.endswith("/tenantry-uninstall") for verb in rule["verbs"]}

    assert verbs({}) == {"get", "list"}
    assert verbs({"uninstall": {"mode": "release"}}) == {"get", "list"}
    grant = ("ClusterRoleBinding", "tenantry-uninstall-mode")
    assert [grant in kinds({"uninstall": {"mode": mode}}) for mode in ("refuse", "release")] == [False, True]


@variants
def test_every_pod_is_restricted(values: dict[str, Any]) -> None:
    for pod in pods(values):
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod["spec"].keys()
        assert all("hostPath" not in volume for volume in pod["spec"].get("volumes", ()))
        for container in pod["spec"]["containers"]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["readOnlyRootFilesystem"] is True
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert security["runAsUser"] == 65534
            assert {"memory", "ephemeral-storage"} <= container["resources"]["limits"].keys()


@variants
def test_every_pod_is_in_a_network_policy(values: dict[str, Any]) -> None:
    policies = [each["spec"]["podSelector"]["matchLabels"] for each in objects(values) if each["kind"] == "NetworkPolicy"]
    for pod in pods(values):
        assert any(policy.items() <= pod["metadata"]["labels"].items() for policy in policies)


@variants
def test_a_token_is_mounted_only_where_the_api_server_is_called(values: dict[str, Any]) -> None:
    mounted = {
        pod["metadata"]["labels"]["app.kubernetes.io/component"]: pod["spec"]["automountServiceAccountToken"]
        for pod in pods(values)
    }
    assert mounted == {"operator": True, "api": True, "uninstall": True, "test": False}


@variants
def test_kube_score_finds_nothing_critical(values: dict[str, Any]) -> None:
    # CPU is shared, not capped: a limit throttles at a moment of load while the node idles.
    done = run("kube-score", "score", "--ignore-container-cpu-limit", "-o", "json", "-", given=rendered(values))
    judged = json.loads(done.stdout)
    critical = [
        (each["object_name"], check["check"]["id"], check["comments"])
        for each in judged
        for check in each["checks"]
        if check["grade"] == 1 and not check["skipped"]
    ]
    assert judged
    assert critical == []


def test_the_pods_are_told_where_they_are() -> None:
    for name in ("tenantry-operator", "tenantry-api"):
        told = environment(named("Deployment", name))
        assert told["TENANTRY_CLUSTER__NAMESPACE"] == {"fieldRef": {"fieldPath": "metadata.namespace"}}
        assert told["TENANTRY_CLUSTER__POD"] == {"fieldRef": {"fieldPath": "metadata.name"}}
        assert told["TENANTRY_CLUSTER__API_URL"] == "http://tenantry-api.tenantry-system.svc:8080"
        assert told["TENANTRY_CLUSTER__IMAGE"] == f"tenantry:{VERSION}"
        assert told["TENANTRY_CLUSTER__BLOBS"] == "file:///data"


def test_engines_run_the_image_of_the_release_and_settings_reach_both_processes() -> None:
    for name in ("tenantry-operator", "tenantry-api"):
        deployment = named("Deployment", name, EVERYTHING)
        told = environment(deployment)
        image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
        assert told["TENANTRY_CLUSTER__IMAGE"] == image == "registry.example:5000/team/tenantry:1.2.3"
        assert told["TENANTRY_CLUSTER__BLOBS"] == "s3://bucket/prefix"
        assert (told["TENANTRY_OPERATIONS__DEADLINE"], told["TENANTRY_WORKERS"]) == ("30m", "8")


@pytest.mark.parametrize(("operator", "given"), [({}, None), ({"shards": 1}, None), ({"shards": 24}, "24")])
def test_only_the_operator_knows_of_shards_and_only_of_more_than_one(operator: dict[str, Any], given: str | None) -> None:
    values = {"operator": operator}
    assert environment(named("Deployment", "tenantry-operator", values)).get("TENANTRY_CLUSTER__SHARDS") == given
    assert "TENANTRY_CLUSTER__SHARDS" not in environment(named("Deployment", "tenantry-api", values))


def test_the_first_password_is_random_and_readable_as_a_credential() -> None:
    first = named("Secret", "tenantry-admin")
    forget_rendered()
    second = named("Secret", "tenantry-admin")
    assert first["data"]["password"] != second["data"]["password"]
    assert first["metadata"]["labels"]["tenantry.dev/credential"] == "user"
    assert ("Secret", "tenantry-admin") not in kinds({"admin": {"existingSecret": "mine"}})


def test_helm_test_is_a_program_that_can_be_read() -> None:
    (container,) = named("Pod", "tenantry-test")["spec"]["containers"]
    assert container["command"] == ["python", "-c"]
    compile(container["args"][0], "helm test", "exec")


def test_data_stays_when_the_release_goes() -> None:
    kept = {
        (each["kind"], each["metadata"]["name"])
        for each in objects()
        if each["metadata"].get("annotations", {}).get("helm.sh/resource-policy") == "keep"
    }
    definitions = {each for each in kept if each[0] == "CustomResourceDefinition"}
    assert len(definitions) == len(crds.KINDS)
    assert kept - definitions == {("Secret", "tenantry-admin"), ("PersistentVolumeClaim", "tenantry-blobs")}


@pytest.mark.parametrize(
    ("crds", "count"), [({"install": False}, 0), ({"keep": False}, len(crds.KINDS))], ids=["apart", "not kept"]
)
def test_definitions_can_be_left_to_others(crds: dict[str, bool], count: int) -> None:
    found = [each for each in objects({"crds": crds}) if each["kind"] == "CustomResourceDefinition"]
    assert len(found) == count
    # Helm may delete what it does not keep, past the policy that asks for a confirmation.
    assert all(each["metadata"]["annotations"] == {"tenantry.dev/deletion-confirmed": "true"} for each in found)


def test_a_definition_is_the_generated_one() -> None:
    for path in (CHART / "files" / "crds").iterdir():
        generated = yaml.safe_load(path.read_text())
        assert named("CustomResourceDefinition", generated["metadata"]["name"])["spec"] == generated["spec"]


def test_one_api_with_a_volume_lets_it_go_before_the_next_takes_it() -> None:
    assert named("Deployment", "tenantry-api")["spec"]["strategy"] == {"type": "Recreate"}
    shared = {"blobs": {"volume": {"accessMode": "ReadWriteMany"}}, "api": {"replicas": 2}}
    assert named("Deployment", "tenantry-api", shared)["spec"]["strategy"]["type"] == "RollingUpdate"
    assert ("PodDisruptionBudget", "tenantry-api") in kinds(shared)
    assert ("PodDisruptionBudget", "tenantry-api") not in kinds()


@pytest.mark.parametrize("component", ["api", "operator"])
def test_replicas_that_are_more_than_one_have_a_budget_and_one_has_none(component: str) -> None:
    """One replica with a budget could not be drained, or would have a budget that says nothing."""
    volume = {"blobs": {"volume": {"accessMode": "ReadWriteMany"}}}
    budget = ("PodDisruptionBudget", f"tenantry-{component}")
    assert budget in kinds({**volume, component: {"replicas": 2}})
    assert budget not in kinds({**volume, component: {"replicas": 1}})
    assert budget not in kinds({**volume, component: {"replicas": 2}, "podDisruptionBudget": {"enabled": False}})
    deployment = named("Deployment", f"tenantry-{component}", {**volume, component: {"replicas": 2}})
    held = named(*budget, {**volume, component: {"replicas": 2}})
    assert held["spec"]["selector"] == deployment["spec"]["selector"]
    assert "poddisruptionbudget" not in deployment["metadata"].get("annotations", {}).get("kube-score/ignore", "")


def test_an_existing_claim_is_used_and_none_made() -> None:
    values = {"blobs": {"volume": {"existingClaim": "mine"}}}
    volumes = named("Deployment", "tenantry-api", values)["spec"]["template"]["spec"]["volumes"]
    assert {"name": "blobs", "persistentVolumeClaim": {"claimName": "mine"}} in volumes
    assert "PersistentVolumeClaim" not in {kind for kind, _ in kinds(values)}


@pytest.mark.parametrize(("values", "form"), [({}, "json"), ({"logFormat": "text"}, "text")])
def test_the_api_and_the_operator_log_json_unless_text_is_asked_for(values: dict[str, Any], form: str) -> None:
    for component in ("api", "operator"):
        pod = named("Deployment", f"tenantry-{component}", values)["spec"]["template"]["spec"]
        assert [each["args"] for each in pod["containers"] if each["name"] == component] == [[component, "--log-format", form]]
    assert engine_pods(values).log_format == form


@pytest.mark.parametrize(("values", "set_to"), [({}, ["new"]), ({"defaultPool": True}, ["true"]), ({"defaultPool": False}, [])])
def test_both_processes_know_of_the_default_pool(values: dict[str, Any], set_to: list[str]) -> None:
    for component in ("api", "operator"):
        pod = named("Deployment", f"tenantry-{component}", values)["spec"]["template"]["spec"]
        (container,) = [each for each in pod["containers"] if each["name"] == component]
        assert [each["value"] for each in container["env"] if each["name"] == "TENANTRY_CLUSTER__DEFAULT_POOL"] == set_to


@pytest.mark.parametrize(
    ("values", "page"),
    [
        ({}, f"http://tenantry-api.{NAMESPACE}.svc:8080/docs/healthy/"),
        ({"publicUrl": "https://tenantry.example/"}, "https://tenantry.example/docs/healthy/"),
    ],
)
def test_promtool_accepts_the_rendered_alerts_which_link_the_served_page(
    values: dict[str, Any], page: str, tmp_path: Path
) -> None:
    if shutil.which("promtool") is None:
        lacking("promtool is not installed")
    spec = named("PrometheusRule", "tenantry", values | {"metrics": {"prometheusRule": {"enabled": True}}})["spec"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(spec))
    checked = subprocess.run(["promtool", "check", "rules", tmp_path / "rules.yaml"], capture_output=True, text=True, check=False)
    assert (checked.returncode, "17 rules found" in checked.stdout) == (0, True), checked.stdout + checked.stderr
    links = {rule["annotations"]["runbook_url"].partition("#")[0] for rule in spec["groups"][0]["rules"]}
    assert links == {page}


def test_kube_state_metrics_may_list_what_its_configuration_names_and_no_secrets() -> None:
    wanted = {"metrics": {"stateMetrics": {"enabled": True}}}
    config = yaml.safe_load(named("ConfigMap", "tenantry-state-metrics", wanted)["data"]["config.yaml"])
    read = {each["groupVersionKind"]["kind"] for each in config["spec"]["resources"]}
    (rule,) = named("ClusterRole", "tenantry-state-metrics", wanted)["rules"]
    assert (rule["apiGroups"], rule["verbs"]) == (["tenantry.dev"], ["list", "watch"])
    assert set(rule["resources"]) == {KINDS[kind].type.PLURAL for kind in read}
    assert ("ClusterRole", "tenantry-state-metrics") not in kinds()


def test_dashboards_are_whole_with_the_labels_that_a_sidecar_seeks_and_only_where_wanted() -> None:
    wanted = {"metrics": {"dashboards": {"enabled": True, "labels": {"grafana_dashboard": "1"}}}}
    found = named("ConfigMap", "tenantry-dashboards", wanted)
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert found["data"] == {f"tenantry-{name}.json": dashboards.board(name) for name in dashboards.BOARDS}
    assert ("ConfigMap", "tenantry-dashboards") not in kinds()


TOGGLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ServiceMonitor": ({"metrics": {"serviceMonitor": {"enabled": True}}}, {}),
    "PodMonitor": (
        {"metrics": {"serviceMonitor": {"enabled": True}, "engines": {"enabled": True}}},
        {"metrics": {"serviceMonitor": {"enabled": True}}},
    ),
    "PrometheusRule": ({"metrics": {"prometheusRule": {"enabled": True}}}, {}),
    "Ingress": ({"ingress": {"enabled": True, "host": "a.example"}}, {}),
    "NetworkPolicy": ({}, {"networkPolicy": {"enabled": False}}),
}


@pytest.mark.parametrize("kind", TOGGLES)
def test_what_a_toggle_says_is_there_or_not(kind: str) -> None:
    on, off = TOGGLES[kind]
    assert kind in {each for each, _ in kinds(on)}
    assert kind not in {each for each, _ in kinds(off)}


def test_roles_of_the_cluster_are_extended_only_when_wanted() -> None:
    assert ("ClusterRole", "tenantry-edit") in kinds()
    assert ("ClusterRole", "tenantry-edit") not in kinds({"rbac": {"aggregate": False}})


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "two apis with a volume of one node": ({"api": {"replicas": 2}}, "/blobs"),
    "no api": ({"api": {"replicas": 0}}, "/api/replicas"),
    "no operator": ({"operator": {"replicas": 0}}, "/operator/replicas"),
    "no shard": ({"operator": {"shards": 0}}, "/operator/shards"),
    "too many shards": ({"operator": {"shards": 257}}, "/operator/shards"),
    "an unknown value": ({"api": {"replica": 2}}, "replica"),
    "an unknown mode": ({"uninstall": {"mode": "Force"}}, "/uninstall/mode"),
    "the tag latest": ({"image": {"tag": "latest"}}, "/image/tag"),
    "a bucket that is no bucket": ({"blobs": {"s3": {"url": "https://bucket"}}}, "/blobs/s3/url"),
    "an ingress without a host": ({"ingress": {"enabled": True}}, "/ingress/host"),
    "a setting that the chart itself gives": ({"settings": {"TENANTRY_CLUSTER__IMAGE": "x"}}, "/settings"),
    "a setting of another program": ({"settings": {"PATH": "x"}}, "/settings"),
    "a public URL without a scheme": ({"publicUrl": "tenantry.example"}, "/publicUrl"),
    "a variable of ours among further ones": (
        {"api": {"extraEnv": [{"name": "TENANTRY_WORKERS", "value": "1"}]}},
        "/api/extraEnv",
    ),
    "a volume of a name that is taken": (
        {"operator": {"extraVolumes": [{"name": "tmp", "emptyDir": {}}]}},
        "/operator/extraVolumes",
    ),
    "a volume over the engine's data": (
        {"engines": {"extraVolumeMounts": [{"name": "mine", "mountPath": "/data/x"}]}},
        "/engines/extraVolumeMounts",
    ),
    "a Secret that no engine's namespace has": (
        {"engines": {"extraEnv": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]}},
        "/engines/extraEnv",
    ),
    "a size of an engine that is none": ({"engines": {"sizes": {"small": {"requests": {"memory": "1G"}}}}}, "/engines/sizes"),
    "authorities that are none": ({"caBundle": "/etc/ssl/ca.pem"}, "/caBundle"),
    "a proxy of declared addresses with a password": ({"proxy": {"declared": "http://u:p@proxy:3128"}}, "/proxy/declared"),
    "a proxy with a password": ({"proxy": {"https": "http://user:password@proxy:3128"}}, "/proxy/https"),
    "a size that is none": ({"blobs": {"volume": {"size": "much"}}}, "/blobs/volume/size"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_values_that_cannot_work_are_refused_by_name(case: str) -> None:
    values, place = REFUSED[case]
    with pytest.raises(Refused, match=re.escape(place)):
        objects(values)


def engine_pods(values: dict[str, Any]) -> EnginePods:
    """As the operator reads it."""
    data = named("ConfigMap", "tenantry-engines", values)["data"]
    return parse_engine_pods(data["engines.json"], data.get("ca.crt", ""))


def test_engines_are_by_default_as_without_the_chart() -> None:
    assert engine_pods({}) == EnginePods()


def test_a_size_is_changed_by_the_part_that_is_named() -> None:
    sizes = engine_pods({"engines": {"sizes": {"small": {"requests": {"cpu": "5m"}}, "tiny": {"limits": {"cpu": 1}}}}}).sizes
    assert sizes["small"] == {"requests": {"cpu": "5m", "memory": "96Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}}
    assert sizes["tiny"] == {"limits": {"cpu": "1"}}


@pytest.mark.parametrize("name", ["operator", "api"])
def test_a_pod_has_what_is_asked_for_besides(name: str) -> None:
    volume = {"name": "cloud", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    mount = {"name": "cloud", "mountPath": "/var/run/cloud", "readOnly": True}
    besides = {"extraEnv": [{"name": "TZ", "value": "UTC"}], "extraVolumes": [volume], "extraVolumeMounts": [mount]}
    deployment = named("Deployment", f"tenantry-{name}", {name: besides})
    pod = deployment["spec"]["template"]["spec"]
    assert environment(deployment)["TZ"] == "UTC"
    assert volume in pod["volumes"]
    assert mount in pod["containers"][0]["volumeMounts"]


@pytest.mark.parametrize("name", ["operator", "api"])
def test_a_process_trusts_the_given_authorities_and_goes_by_the_given_proxy(name: str) -> None:
    proxy = {"https": "http://proxy:3128", "noProxy": "s3.example", "declared": "http://guarded:3128"}
    variables = environment(named("Deployment", f"tenantry-{name}", {"caBundle": PEM, "proxy": proxy}))
    assert variables["SSL_CERT_FILE"] == variables["GIT_SSL_CAINFO"] == "/etc/tenantry/engines/ca.crt"
    assert variables["HTTPS_PROXY"] == "http://proxy:3128"
    assert variables["TENANTRY_OUTBOUND__PROXY"] == "http://guarded:3128"
    assert variables["NO_PROXY"] == "s3.example,localhost,127.0.0.1,.svc,.cluster.local"
    assert engine_pods({"caBundle": PEM}).ca_bundle == PEM
    unset = environment(named("Deployment", f"tenantry-{name}", {}))
    assert not {"SSL_CERT_FILE", "HTTPS_PROXY", "NO_PROXY"} & set(unset)


@pytest.mark.parametrize("name", ["operator", "api"])
def test_a_process_starts_anew_when_engines_are_to_be_otherwise(name: str) -> None:
    def marks(values: dict[str, Any]) -> Any:
        return named("Deployment", f"tenantry-{name}", values)["spec"]["template"]["metadata"]["annotations"]

    assert marks({}) != marks({"caBundle": PEM})
    assert marks({}) != marks({"engines": {"sizes": {"small": {"requests": {"cpu": "5m"}}}}})


def test_another_namespace_is_refused() -> None:
    with pytest.raises(Refused, match="Tenantry runs in the namespace tenantry-system, not other"):
        rendered(namespace="other")


def test_deletions_are_refused_as_the_contract_tests_have_it() -> None:
    """tests/cluster/policies.yaml stands for the chart where the stores' contract is tested."""
    ours = {each["metadata"]["name"]: each["spec"] for each in objects() if each["kind"] == "ValidatingAdmissionPolicy"}
    kept = {kind.PLURAL for kind in crds.KINDS if kind.KEPT_BY}
    assert {name.removeprefix("tenantry-kept-") for name in ours if name.startswith("tenantry-kept-")} == kept
    stand_in = [each for each in yaml.safe_load_all(POLICIES.read_text()) if each["kind"] == "ValidatingAdmissionPolicy"]
    for each in stand_in:
        spec = ours[each["metadata"]["name"].replace("tenantry-tests-", "tenantry-")]
        assert each["spec"]["validations"] == spec["validations"]


def test_the_issuer_of_the_console_reaches_the_api_as_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    (container,) = named("Deployment", "tenantry-api", EVERYTHING)["spec"]["template"]["spec"]["containers"]
    (written,) = [each["value"] for each in container["env"] if each["name"] == "TENANTRY_ISSUERS"]
    monkeypatch.setenv("TENANTRY_ISSUERS", written)
    (issuer,) = Settings().issuers
    assert (issuer.issuer, issuer.audience, issuer.client_id, issuer.name) == (
        "https://id.example.com", "console", "console", "Example",
    )  # fmt: skip
    mounted = next(each for each in container["volumeMounts"] if each["name"] == "sign-in")
    assert issuer.client_secret is not None and str(issuer.client_secret).startswith(mounted["mountPath"])
    assert "TENANTRY_ISSUERS" not in [
        each["name"] for each in named("Deployment", "tenantry-api")["spec"]["template"]["spec"]["containers"][0]["env"]
    ]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"signIn": {"issuer": "https://id.example.com"}}, "clientId is required"),
        ({"signIn": {"issuer": "https://i", "clientId": "c"}, "settings": {"TENANTRY_ISSUERS": "[]"}}, "name the same setting"),
        ({"signIn": {"issuer": "id.example.com", "clientId": "c"}}, "/signIn/issuer"),
    ],
    ids=str,
)
def test_a_sign_in_that_cannot_work_is_refused(values: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused, match=why):
        objects(values)


def test_the_metrics_of_the_api_have_a_port_to_which_no_ingress_leads() -> None:
    values = {"ingress": {"enabled": True, "host": "tenantry.example"}, "metrics": {"serviceMonitor": {"enabled": True}}}
    ports = {each["name"]: each["port"] for each in named("Service", "tenantry-api", values)["spec"]["ports"]}
    assert ports == {"http": 8080, "metrics": 8082, "activator": 8083}
    rules = named("Ingress", "tenantry-api", values)["spec"]["rules"]
    leads = {path["backend"]["service"]["port"]["name"] for rule in rules for path in rule["http"]["paths"]}
    assert leads == {"http"}
    for component in ("api", "operator"):
        (endpoint,) = named("ServiceMonitor", f"tenantry-{component}", values)["spec"]["endpoints"]
        assert (endpoint["port"], endpoint["path"]) == ("metrics", "/metrics")


def test_engines_that_sleep_lead_to_a_port_of_its_own_which_those_reach_that_reach_engines() -> None:
    deployment = named("Deployment", "tenantry-api")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert {"name": "activator", "containerPort": 8083} in container["ports"]
    assert environment(deployment)["TENANTRY_CLUSTER__ACTIVATOR"] == "0.0.0.0:8083"
    restricted: dict[str, Any] = {"networkPolicy": {"apiFrom": [{"podSelector": {}}]}}
    for values in ({}, restricted):
        rules = named("NetworkPolicy", "tenantry-api", values)["spec"]["ingress"]
        (allowed,) = [rule["from"] for rule in rules if {"port": "activator", "protocol": "TCP"} in rule["ports"]]
        assert [each["namespaceSelector"]["matchLabels"] for each in allowed] == [
            {"tenantry.dev/ingress": "true"},
            {"kubernetes.io/metadata.name": "tenantry-system"},
        ]


def test_who_may_call_the_api_and_who_may_read_its_metrics_are_chosen_apart() -> None:
    users: dict[str, Any] = {"namespaceSelector": {}}
    scraper = {"podSelector": {"matchLabels": {"app": "prometheus"}}}
    policy = named("NetworkPolicy", "tenantry-api", {"networkPolicy": {"apiFrom": [users], "metricsFrom": [scraper]}})
    allowed = {rule["ports"][0]["port"]: rule["from"] for rule in policy["spec"]["ingress"]}
    assert allowed["metrics"] == [scraper]
    assert users in allowed["http"]
    assert scraper not in allowed["http"]
