"""The objects of one engine on Kubernetes, and the state that its pod shows."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from tenantry.adapters.kubernetes.engines.comparing import covers, difference
from tenantry.adapters.kubernetes.engines.kept_volumes import Volume, claiming
from tenantry.adapters.kubernetes.engines.pods import SIZES, EnginePods, image_of
from tenantry.adapters.kubernetes.engines.workload import (
    DEFAULT_STORAGE,
    EngineCredentials,
    Placement,
    engine_objects,
    labels_of,
    namespace_of,
    ref_of_labels,
    spec_of,
    unwanted_objects,
    url_of,
)
from tenantry.model.facts import EngineRef, EngineSpec
from tenantry.model.resource import Document

ID = "3F2504E0-4f89-41d3-9a0c-0305e82c3301"
REF = EngineRef("tenant-acme", "dev", ID, "acme", "dev", tenant="acme")
SPEC = EngineSpec(REF, "home", "Kubernetes")
PLACEMENT = Placement(
    image="registry.example.com:5000/tenantry:1.2.0",
    pull_policy="IfNotPresent",
    issuer="tenantry",
    facade_url="https://api.example.com",
    system_namespace="tenantry-system",
)
PUBLISHED = replace(PLACEMENT, subdomain="eu.example.com", ingress_class="nginx")
CREDENTIALS = EngineCredentials("correct horse", "dev-admin", {"keys": [{"kid": "1"}]})


def made(
    spec: EngineSpec = SPEC, placement: Placement = PLACEMENT, credentials: EngineCredentials = CREDENTIALS
) -> dict[str, Any]:
    """By kind: there is one of each."""
    documents = engine_objects(spec, placement, credentials)
    assert len({each["kind"] for each in documents}) == len(documents)
    return {each["kind"]: each for each in documents}


def pod_of(objects: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = objects["StatefulSet"]["spec"]["template"]["spec"]
    return pod


def container_of(objects: dict[str, Any]) -> dict[str, Any]:
    (container,) = pod_of(objects)["containers"]
    return dict(container)


# What is made


def test_the_namespace_comes_first_and_the_workload_after_all_that_it_needs() -> None:
    kinds = [each["kind"] for each in engine_objects(SPEC, PUBLISHED, CREDENTIALS)]
    assert kinds[0] == "Namespace"
    needed = {"ServiceAccount", "Secret", "ConfigMap", "PersistentVolumeClaim", "Service", "NetworkPolicy", "ResourceQuota"}
    assert needed < set(kinds[: kinds.index("StatefulSet")])


def test_every_object_lies_in_the_engines_namespace_and_tells_whose_it_is() -> None:
    for kind, each in made(placement=PUBLISHED).items():
        assert each["metadata"]["name" if kind == "Namespace" else "namespace"] == "env-3f2504e0-4f89"
        assert ref_of_labels(each["metadata"]["labels"]) == EngineRef("tenant-acme", "dev", ID)


def test_labels_of_something_else_name_no_engine() -> None:
    labels = labels_of(REF)
    for missing in ("tenantry.dev/environment-id", "tenantry.dev/namespace", "tenantry.dev/environment"):
        assert ref_of_labels({key: value for key, value in labels.items() if key != missing}) is None


NAMESPACES = {
    "the first thirteen characters": (ID, "env-3f2504e0-4f89"),
    "no hyphen at the end": ("12345678-901-234", "env-12345678-901"),
    "an id that is short": ("7", "env-7"),
}


@pytest.mark.parametrize(("id_", "name"), NAMESPACES.values(), ids=NAMESPACES)
def test_a_namespace_is_named_by_the_environments_id(id_: str, name: str) -> None:
    assert namespace_of(id_) == name


def test_the_pod_meets_the_restricted_pod_security_standard() -> None:
    objects = made()
    labels = objects["Namespace"]["metadata"]["labels"]
    assert {labels[f"pod-security.kubernetes.io/{mode}"] for mode in ("enforce", "warn", "audit")} == {"restricted"}
    pod, container = pod_of(objects), container_of(objects)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65534
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


RESTORED = replace(SPEC, restoring=f"{ID}@2026-11-21T10:00:00Z")
"""From an archive."""


def test_an_engine_that_comes_from_an_archive_does_not_start_before_it_is_there() -> None:
    pod = pod_of(made(RESTORED))
    (first,), (engine,) = pod["initContainers"], pod["containers"]
    assert (first["name"], first["args"]) == ("restore", ["engine", "await", "--data", "/data"])
    assert {**engine, **first} == {**engine, "name": "restore", "args": first["args"]}, "in all else it is as the engine"
    assert not {"ports", "startupProbe", "livenessProbe", "readinessProbe"} & set(first)


@pytest.mark.parametrize("restoring", ["", f"{RESTORED.restoring}@kept-1"], ids=["a new one", "one on a kept volume"])
def test_no_other_engine_waits_for_an_archive(restoring: str) -> None:
    assert pod_of(made(replace(SPEC, restoring=restoring)))["initContainers"] == [], "said, so that one that was there goes"


def test_the_claim_alone_names_a_kept_volume_and_its_class() -> None:
    wanted = engine_objects(SPEC, PLACEMENT, CREDENTIALS)
    claimed = [claiming(Volume("pv-1", ""), each) for each in wanted]
    (claim,) = [each for each, before in zip(claimed, wanted, strict=True) if each != before]
    assert (claim["kind"], claim["spec"]["volumeName"], claim["spec"]["storageClassName"]) == (
        "PersistentVolumeClaim",
        "pv-1",
        "",
    )


def test_the_pod_has_no_token() -> None:
    objects = made()
    assert objects["ServiceAccount"]["automountServiceAccountToken"] is False
    assert pod_of(objects)["automountServiceAccountToken"] is False
    assert pod_of(objects)["serviceAccountName"] == objects["ServiceAccount"]["metadata"]["name"]


def test_the_engine_is_told_who_manages_it_and_where_its_files_are() -> None:
    container = container_of(made())
    assert container["args"] == ["engine", "--data", "/data", "--listen", "0.0.0.0:8080", "--log-format", "json"]
    assert {each["name"]: each["value"] for each in container["env"]} == {
        "TENANTRY_MANAGED__UID": ID,
        "TENANTRY_MANAGED__NAMESPACE": "tenant-acme",
        "TENANTRY_MANAGED__NAME": "dev",
        "TENANTRY_MANAGED__TENANT": "acme",
        "TENANTRY_MANAGED__FACADE_URL": f"https://api.example.com/engines/{ID}/api/v1",
        "TENANTRY_MANAGED__ISSUER": "tenantry",
        "TENANTRY_MANAGED__JWKS": "/etc/tenantry/keys/jwks.json",
        "TENANTRY_MANAGED__ADMIN_PASSWORD": "/etc/tenantry/admin/password",
    }


def test_what_is_mounted_is_where_the_engine_looks_for_it() -> None:
    objects = made(credentials=replace(CREDENTIALS, database_url="postgresql://db.example.com/crm", database_mark="m"))
    mounts = {each["mountPath"]: each["name"] for each in container_of(objects)["volumeMounts"]}
    assert mounts == {
        "/data": "data",
        "/tmp": "tmp",
        "/etc/tenantry/keys": "keys",
        "/etc/tenantry/admin": "admin",
        "/etc/tenantry/database": "database",
    }
    volumes = {each["name"]: each for each in pod_of(objects)["volumes"]}
    assert set(volumes) == set(mounts.values())
    assert volumes["data"]["persistentVolumeClaim"]["claimName"] == objects["PersistentVolumeClaim"]["metadata"]["name"]
    assert volumes["keys"]["configMap"]["name"] == objects["ConfigMap"]["metadata"]["name"]
    assert volumes["admin"]["secret"]["items"] == [{"key": "password", "path": "password"}]
    assert volumes["database"]["secret"]["items"] == [{"key": "url", "path": "url"}]
    assert "emptyDir" in volumes["tmp"]


def test_the_secret_holds_the_password_and_tells_whose_it_is_and_nothing_else_shows_it() -> None:
    objects = made(credentials=replace(CREDENTIALS, database_url="postgresql://u:geheim@db.example.com/crm", database_mark="m"))
    secret = objects.pop("Secret")
    assert secret["metadata"]["annotations"] == {"tenantry.dev/admin-secret": "dev-admin"}
    data = {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}
    assert data == {"password": "correct horse", "url": "postgresql://u:geheim@db.example.com/crm"}
    assert "correct horse" not in str(objects)
    assert "geheim" not in str(objects)


def test_an_engine_starts_anew_when_its_database_is_another() -> None:
    def template(mark: str) -> Any:
        return made(credentials=replace(CREDENTIALS, database_mark=mark))["StatefulSet"]["spec"]["template"]

    assert template("one") != template("another")
    assert "annotations" not in template("")["metadata"]


def test_an_engine_without_a_database_url_is_not_told_of_one() -> None:
    names = {each["name"] for each in container_of(made())["env"]}
    assert "TENANTRY_MANAGED__DATABASE_URL" not in names


def test_liveness_asks_whether_it_lives_and_readiness_whether_it_serves() -> None:
    container = container_of(made())
    paths = {probe: container[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {probe: (at["path"], at["port"]) for probe, at in paths.items()} == {
        "startupProbe": ("/healthz", 8080),
        "livenessProbe": ("/healthz", 8080),
        "readinessProbe": ("/readyz", 8080),
    }


def test_at_most_one_pod_writes_the_volume() -> None:
    objects = made()
    workload = objects["StatefulSet"]["spec"]
    assert (workload["replicas"], workload["podManagementPolicy"]) == (1, "OrderedReady")
    assert "volumeClaimTemplates" not in workload


POOL = EngineRef("", "eu", "pool-0123456789ab", slug="server")
ON_SERVER = EngineSpec(POOL, "eu", "Kubernetes", capacity=300, database_secret="pool-server", database_key="url", replicas=3)
POOL_CREDENTIALS = EngineCredentials(
    "", "", {}, "postgresql://tenantry_0123456789ab:geheim@db.example.com/tenantry_0123456789ab", "m"
)


def test_replicas_of_a_pool_on_a_server_start_at_once_and_have_no_volume() -> None:
    objects = made(ON_SERVER, credentials=POOL_CREDENTIALS)
    workload = objects["StatefulSet"]["spec"]
    assert (workload["replicas"], workload["podManagementPolicy"]) == (3, "Parallel")
    assert "PersistentVolumeClaim" not in objects
    (data,) = (volume for volume in pod_of(objects)["volumes"] if volume["name"] == "data")
    assert data == {"name": "data", "emptyDir": {"sizeLimit": "1Gi"}}
    (spread,) = pod_of(objects)["topologySpreadConstraints"]
    assert spread["labelSelector"] == {"matchLabels": workload["selector"]["matchLabels"]}
    assert int(objects["ResourceQuota"]["spec"]["hard"]["pods"]) > 3


def test_a_pool_on_a_server_is_given_its_own_url_in_a_secret_and_nowhere_else() -> None:
    objects = made(ON_SERVER, credentials=POOL_CREDENTIALS)
    data = {key: base64.b64decode(value).decode() for key, value in objects.pop("Secret")["data"].items()}
    assert data == {"url": POOL_CREDENTIALS.database_url}
    assert "geheim" not in str(objects)
    variables = {each["name"]: each["value"] for each in container_of(objects)["env"]}
    mounted = {each["name"]: each["mountPath"] for each in container_of(objects)["volumeMounts"]}
    assert variables["TENANTRY_MANAGED__DATABASE_URL"] == f"{mounted['database']}/url"
    assert "admin" not in mounted


def test_a_pool_on_a_volume_is_as_it_was_before_there_were_replicas() -> None:
    objects = made(EngineSpec(POOL, "eu", "Kubernetes", capacity=300), credentials=EngineCredentials("", "", {}))
    assert "Secret" not in objects
    assert "PersistentVolumeClaim" in objects
    assert (objects["StatefulSet"]["spec"]["replicas"], objects["ResourceQuota"]["spec"]["hard"]["pods"]) == (1, "3")
    assert "topologySpreadConstraints" not in pod_of(objects)
    assert "replicas" not in objects["StatefulSet"]["metadata"]["annotations"]["tenantry.dev/engine-spec"]


SCALED = replace(ON_SERVER, replicas=2, max_replicas=5, cpu_target=70)


def test_a_pool_with_a_maximum_has_an_autoscaler_of_its_workload() -> None:
    objects = made(SCALED, credentials=POOL_CREDENTIALS)
    autoscaler, workload = objects["HorizontalPodAutoscaler"], objects["StatefulSet"]
    assert autoscaler["apiVersion"] == "autoscaling/v2"
    assert {key: autoscaler["metadata"][key] for key in ("name", "namespace", "labels")} == {
        key: workload["metadata"][key] for key in ("name", "namespace", "labels")
    }
    rules = autoscaler["spec"]
    assert rules["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": workload["metadata"]["name"]}
    assert (rules["minReplicas"], rules["maxReplicas"]) == (2, 5)
    (metric,) = rules["metrics"]
    assert metric["resource"] == {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "700m"}}
    assert rules["behavior"]["scaleDown"]["stabilizationWindowSeconds"] >= 300


def test_all_pods_that_an_autoscaler_may_make_have_room_and_the_workload_begins_with_the_fewest() -> None:
    objects = made(replace(SCALED, replicas=1), credentials=POOL_CREDENTIALS)
    assert objects["StatefulSet"]["spec"]["replicas"] == 1
    assert int(objects["ResourceQuota"]["spec"]["hard"]["pods"]) == 7
    assert pod_of(objects)["topologySpreadConstraints"]


AUTOSCALERS = {
    "a pool with a maximum wants one": (SCALED, 1, 0),
    "one without may have had one": (ON_SERVER, 0, 1),
    "a pool on a volume never had one": (replace(ON_SERVER, database_secret="", replicas=0), 0, 0),
    "nor had an engine": (SPEC, 0, 0),
    "nor one with a database of its own": (replace(SPEC, database_secret="crm"), 0, 0),
}


@pytest.mark.parametrize(("spec", "wanted", "unwanted"), AUTOSCALERS.values(), ids=AUTOSCALERS)
def test_an_autoscaler(spec: EngineSpec, wanted: int, unwanted: int) -> None:
    def count(documents: tuple[Document, ...]) -> int:
        return [each["kind"] for each in documents].count("HorizontalPodAutoscaler")

    there = count(engine_objects(spec, PLACEMENT, POOL_CREDENTIALS)), count(unwanted_objects(spec, PLACEMENT))
    assert there == (wanted, unwanted)


def test_a_pool_with_a_declared_number_is_as_it_was_before_there_was_a_maximum() -> None:
    written = made(ON_SERVER, credentials=POOL_CREDENTIALS)["StatefulSet"]["metadata"]["annotations"]["tenantry.dev/engine-spec"]
    assert "max_replicas" not in written
    assert "cpu_target" not in written


@pytest.mark.parametrize("size", ["", *SIZES])
def test_requests_and_limits_follow_from_the_size(size: str) -> None:
    resources = container_of(made(replace(SPEC, size=size)))["resources"]
    assert resources == SIZES[size or "small"]
    assert all(set(resources[each]) == {"cpu", "memory"} for each in ("requests", "limits"))


STORAGE = {
    "the default": ("", DEFAULT_STORAGE),
    "as asked for": ("20Gi", "20Gi"),
    "as the API server writes it": ("2048Mi", "2Gi"),
    "in the largest unit that fits": ("1048576Gi", "1Pi"),
    "not rounded": ("1536Mi", "1536Mi"),
}


@pytest.mark.parametrize(("asked", "given"), STORAGE.values(), ids=STORAGE)
def test_storage_is(asked: str, given: str) -> None:
    claim = made(replace(SPEC, storage=asked))["PersistentVolumeClaim"]["spec"]
    assert claim["resources"] == {"requests": {"storage": given}}
    assert "storageClassName" not in claim


def test_the_volumes_class_is_the_regions() -> None:
    claim = made(placement=replace(PLACEMENT, storage_class="fast"))["PersistentVolumeClaim"]["spec"]
    assert claim["storageClassName"] == "fast"


IMAGES = {
    "none asked for": ("r:5000/tenantry:1.2.0", "", "r:5000/tenantry:1.2.0"),
    "another version": ("r:5000/tenantry:1.2.0", "1.3.0", "r:5000/tenantry:1.3.0"),
    "a host's port is no version": ("r:5000/tenantry", "1.3.0", "r:5000/tenantry:1.3.0"),
    "a digest goes with its version": ("tenantry:1.2.0@sha256:abc", "1.3.0", "tenantry:1.3.0"),
    "a digest stays": ("tenantry@sha256:abc", "", "tenantry@sha256:abc"),
}


@pytest.mark.parametrize(("image", "version", "runs"), IMAGES.values(), ids=IMAGES)
def test_the_image_is_the_platforms_of_the_version_asked_for(image: str, version: str, runs: str) -> None:
    assert image_of(image, version) == runs


# Who reaches it


URLS = {
    "within the cluster": (PLACEMENT, "http://engine.env-3f2504e0-4f89.svc:8080"),
    "a subdomain without an ingress": (replace(PLACEMENT, subdomain="x.org"), "http://engine.env-3f2504e0-4f89.svc:8080"),
    "published": (PUBLISHED, "https://dev--acme.eu.example.com"),
    "published without TLS": (replace(PUBLISHED, tls=False), "http://dev--acme.eu.example.com"),
}


@pytest.mark.parametrize(("placement", "url"), URLS.values(), ids=URLS)
def test_people_reach_it_at(placement: Placement, url: str) -> None:
    assert url_of(placement, REF) == url


def test_an_ingress_leads_to_the_service() -> None:
    objects = made(placement=PUBLISHED)
    ingress, service = objects["Ingress"]["spec"], objects["Service"]
    assert ingress["ingressClassName"] == "nginx"
    (rule,) = ingress["rules"]
    assert rule["host"] == "dev--acme.eu.example.com"
    assert ingress["tls"] == [{"hosts": ["dev--acme.eu.example.com"]}]
    (path,) = rule["http"]["paths"]
    backend = path["backend"]["service"]
    assert backend == {"name": service["metadata"]["name"], "port": {"number": service["spec"]["ports"][0]["port"]}}
    assert service["spec"]["selector"].items() <= objects["StatefulSet"]["spec"]["template"]["metadata"]["labels"].items()


def test_without_an_ingress_class_there_is_no_ingress_and_must_be_none() -> None:
    placement = replace(PLACEMENT, subdomain="eu.example.com")
    assert "Ingress" not in made(placement=placement)
    assert [each["kind"] for each in unwanted_objects(SPEC, placement)] == ["Ingress"]
    assert unwanted_objects(SPEC, PUBLISHED) == ()


def test_the_platform_alone_reaches_an_engine_that_is_not_published() -> None:
    policy = made()["NetworkPolicy"]["spec"]
    (rule,) = policy["ingress"]
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "tenantry-system"}}}]
    assert rule["ports"] == [{"port": 8080, "protocol": "TCP"}]
    assert policy["podSelector"] == {}
    assert policy["policyTypes"] == ["Ingress", "Egress"]


def test_a_published_engine_is_reached_by_the_ingress_too() -> None:
    (rule,) = made(placement=PUBLISHED)["NetworkPolicy"]["spec"]["ingress"]
    assert {"namespaceSelector": {"matchLabels": {"tenantry.dev/ingress": "true"}}} in rule["from"]
    assert len(rule["from"]) == 2


def test_prometheus_alone_reaches_the_numbers_of_an_engine_and_only_if_they_are_wanted() -> None:
    objects = made(placement=replace(PUBLISHED, pods=EnginePods(metrics=True)))
    scraping = {
        "from": [{"namespaceSelector": {"matchLabels": {"tenantry.dev/metrics": "true"}}}],
        "ports": [{"port": 8082, "protocol": "TCP"}],
    }
    users, *others = objects["NetworkPolicy"]["spec"]["ingress"]
    assert (others, [each["port"] for each in users["ports"]]) == ([scraping], [8080])
    assert {"name": "metrics", "containerPort": 8082, "protocol": "TCP"} in container_of(objects)["ports"]
    assert {"name": "TENANTRY_METRICS", "value": "0.0.0.0:8082"} in container_of(objects)["env"]
    assert [each["port"] for each in objects["Service"]["spec"]["ports"]] == [8080]
    unwanted = made(placement=PUBLISHED)
    assert len(container_of(unwanted)["ports"]) == len(unwanted["NetworkPolicy"]["spec"]["ingress"]) == 1


# What runs


def test_the_spec_is_found_again_on_the_workload() -> None:
    spec = replace(SPEC, size="large", storage="5Gi", version="1.3.0")
    assert spec_of(made(spec)["StatefulSet"]) == spec


@pytest.mark.parametrize(
    "written", ["", "no JSON", "{}", '{"ref": {}}', '{"ref": null}', "[]", '"x"', '{"ref": {"id": "x"}, "a": 1}']
)
def test_a_spec_that_somebody_changed_is_none(written: str) -> None:
    assert spec_of({"metadata": {"annotations": {"tenantry.dev/engine-spec": written}}}) is None


COVERED = {
    "what the server added": ({"a": 1, "b": 2}, {"a": 1}, True),
    "a value that differs": ({"a": 1}, {"a": 2}, False),
    "a field that is gone": ({}, {"a": 1}, False),
    "an entry that was added": ([{"name": "a"}, {"name": "b"}], [{"name": "a"}], False),
    "an entry with a default": ([{"name": "a", "protocol": "TCP"}], [{"name": "a"}], True),
    "an entry that widens a selector": ({"selector": {"a": "1", "b": "2"}}, {"selector": {"a": "1"}}, False),
    "a key that nobody gave": ({"data": {"a": "1", "b": "2"}}, {"data": {"a": "1"}}, False),
    "nothing, where nothing is wanted": ({}, {"tls": []}, True),
    "something, where nothing is wanted": ({"tls": [{}]}, {"tls": []}, False),
    "another type": ("1", {"a": 1}, False),
    "a list that became a mapping": ({"a": 1}, [1], False),
}


@pytest.mark.parametrize(("real", "wanted", "covered"), COVERED.values(), ids=COVERED)
def test_whether_all_that_is_wanted_is_there(real: Any, wanted: Any, covered: bool) -> None:
    assert covers(real, wanted) is covered


DIFFERENT = {
    "a value": ({"spec": {"replicas": 3}}, {"spec": {"replicas": 1}}, "spec.replicas"),
    "a field that is gone": ({"spec": {}}, {"spec": {"replicas": 1}}, "spec.replicas"),
    "a value in a list": ({"a": [{"b": 1}, {"b": 2}]}, {"a": [{"b": 1}, {"b": 3}]}, "a[1].b"),
    "an entry that was added": ({"a": {"b": [1, 2]}}, {"a": {"b": [1]}}, "a.b"),
    "a key that nobody gave": ({"data": {"a": "1", "b": "2"}}, {"data": {"a": "1"}}, "data"),
    "another type": ({"a": "1"}, {"a": {"b": 1}}, "a"),
    "something, where nothing is wanted": ({"spec": {"tls": [{}]}}, {"spec": {"tls": []}}, "spec.tls"),
    "nothing": ({"a": 1, "b": 2}, {"a": 1}, ""),
}


@pytest.mark.parametrize(("real", "wanted", "where"), DIFFERENT.values(), ids=DIFFERENT)
def test_where_the_first_difference_stands(real: Any, wanted: Any, where: str) -> None:
    assert difference(real, wanted) == where


def test_a_proxy_for_issuers_is_given_to_the_pod_and_open_to_it() -> None:
    objects = made(placement=replace(PLACEMENT, proxy="http://proxy.example:3128"))
    env = {each["name"]: each["value"] for each in container_of(objects)["env"]}
    assert env["TENANTRY_OUTBOUND__PROXY"] == "http://proxy.example:3128"
    ports = [each["port"] for each in objects["NetworkPolicy"]["spec"]["egress"][1]["ports"]]
    assert ports == [443, 5432, 3128]


@pytest.mark.parametrize(
    ("url", "opened"),
    [("http://collector:4318", [4318]), ("https://traces.example", []), ("http://collector", [80]), ("http://collector:x", [])],
)
def test_the_collector_of_traces_that_the_pod_is_given_is_open_to_it(url: str, opened: list[int]) -> None:
    pods = EnginePods(env=({"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": url}, {"name": "OTHER", "value": "http://x:9"}))
    objects = made(placement=replace(PLACEMENT, pods=pods))
    ports = [each["port"] for each in objects["NetworkPolicy"]["spec"]["egress"][1]["ports"]]
    assert ports == [443, 5432, *opened]


def test_the_addresses_that_settings_open_are_open_to_the_pod() -> None:
    def reached(placement: Placement) -> tuple[dict[str, str], Any]:
        objects = made(placement=placement)
        env = {each["name"]: each["value"] for each in container_of(objects)["env"]}
        outbound = {name: value for name, value in env.items() if name.startswith("TENANTRY_OUTBOUND__")}
        return outbound, objects["NetworkPolicy"]["spec"]["egress"][1:]

    services = {"ports": [{"port": 443, "protocol": "TCP"}, {"port": 5432, "protocol": "TCP"}]}
    assert reached(PLACEMENT) == ({}, [services])
    opened, egress = reached(replace(PLACEMENT, http=True, networks=("10.1.0.0/16", "fd00::/8")))
    assert opened == {"TENANTRY_OUTBOUND__HTTP": "true", "TENANTRY_OUTBOUND__NETWORKS": "10.1.0.0/16,fd00::/8"}
    assert egress == [
        {"ports": [*services["ports"], {"port": 80, "protocol": "TCP"}]},
        {"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}, {"ipBlock": {"cidr": "fd00::/8"}}]},
    ]


def test_an_engine_knows_its_public_url_and_whose_word_on_clients_counts() -> None:
    def told(placement: Placement) -> dict[str, str]:
        env = {each["name"]: each["value"] for each in container_of(made(placement=placement))["env"]}
        return {name: env[name] for name in ("TENANTRY_MANAGED__PUBLIC_URL", "TENANTRY_HTTP__PROXIES") if name in env}

    published = replace(PLACEMENT, subdomain="apps.example.com", ingress_class="nginx", proxies=("10.0.0.0/8",))
    assert told(published) == {"TENANTRY_MANAGED__PUBLIC_URL": url_of(published, REF), "TENANTRY_HTTP__PROXIES": "10.0.0.0/8"}
    assert "TENANTRY_HTTP__PROXIES" not in told(PLACEMENT)


def test_an_engine_permits_the_origins_that_the_platform_permits() -> None:
    def origins(placement: Placement) -> list[str]:
        env = container_of(made(placement=placement))["env"]
        return [each["value"] for each in env if each["name"] == "TENANTRY_HTTP__ORIGINS"]

    permitted = replace(PLACEMENT, origins=("https://app.example.com", "http://localhost:5173"))
    assert origins(permitted) == ["https://app.example.com,http://localhost:5173"]
    assert origins(PLACEMENT) == []


EXTRA = EnginePods(
    env=({"name": "TZ", "value": "UTC"},),
    volumes=({"name": "fonts", "emptyDir": {}},),
    volume_mounts=({"name": "fonts", "mountPath": "/fonts"},),
    ca_bundle="PEM",
)


def test_an_engine_has_what_the_platform_gives_all_of_them() -> None:
    objects = made(placement=replace(PLACEMENT, pods=EXTRA))
    container, pod = container_of(objects), pod_of(objects)
    variables = {each["name"]: each["value"] for each in container["env"]}
    assert (variables["TZ"], variables["SSL_CERT_FILE"]) == ("UTC", "/etc/tenantry/keys/ca.crt")
    assert objects["ConfigMap"]["data"]["ca.crt"] == "PEM"
    assert {"name": "fonts", "emptyDir": {}} in pod["volumes"]
    assert {"name": "fonts", "mountPath": "/fonts"} in container["volumeMounts"]


def test_an_engine_starts_anew_when_it_is_to_trust_others_and_else_stays_as_it_was() -> None:
    def template(pods: EnginePods) -> Any:
        return made(placement=replace(PLACEMENT, pods=pods))["StatefulSet"]["spec"]["template"]

    assert template(EXTRA) != template(replace(EXTRA, ca_bundle="another"))
    assert "annotations" not in template(EnginePods())["metadata"]


def test_an_engine_is_given_its_limits_and_without_any_is_as_it_was_before_there_were_limits() -> None:
    def limits_of(spec: EngineSpec) -> dict[str, str]:
        variables = {each["name"]: each.get("value", "") for each in container_of(made(spec))["env"]}
        return {name: value for name, value in variables.items() if name.endswith("_LIMIT")}

    limited = replace(SPEC, database_limit=1 << 30, request_limit=50)
    assert limits_of(limited) == {
        "TENANTRY_MANAGED__DATABASE_LIMIT": "1073741824",
        "TENANTRY_MANAGED__REQUEST_LIMIT": "50",
    }
    assert spec_of(made(limited)["StatefulSet"]) == limited
    assert limits_of(SPEC) == {}
    assert "_limit" not in made(SPEC)["StatefulSet"]["metadata"]["annotations"]["tenantry.dev/engine-spec"]
