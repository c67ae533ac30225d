"""Kustomize renames our references with the objects that they name, by the configuration of examples/gitops/kustomize."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tenantry.kinds import crds
from tests.scenario.git.judging import KITS
from tests.scenario.tools import lacking

NAMES, SCOPES = (KITS / "kustomize" / name for name in ("tenantry-names.yaml", "tenantry-scopes.json"))
NO_OBJECTS = {"Environment/spec/engine/pool", "Region/spec/engine/pools/name", "Operation/spec/target/name"}
"""Names of what is no object of a kind of its own, or is written by the platform alone."""
Json = dict[str, Any]


def name_pattern() -> str:
    region = crds.definition(next(kind for kind in crds.KINDS if kind.KIND == "Environment"))
    spec = region["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return str(spec["properties"]["region"]["pattern"])


def references(schema: Mapping[str, Any], path: str, pattern: str) -> Iterator[str]:
    """Yield the path of each field that holds the name of an object."""
    for name, each in schema.get("properties", {}).items():
        at = f"{path}/{name}"
        inner = each.get("items", each)
        if inner.get("pattern") == pattern and inner.get("maxLength") == 40:
            yield at
        elif name.casefold().endswith("secretref"):
            yield f"{at}/name"
        else:
            yield from references(inner, at, pattern)


def declared(kind: crds.Kind) -> set[str]:
    schema = crds.definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].get("spec", {})
    return {f"{kind.KIND}/{path}" for path in references(schema, "spec", name_pattern())}


def test_every_reference_of_every_kind_is_in_the_configuration() -> None:
    rows = yaml.safe_load(NAMES.read_text())["nameReference"]
    configured = {f"{each['kind']}/{each['path']}" for row in rows for each in row["fieldSpecs"]}
    wanted = {path for kind in crds.KINDS for path in declared(kind)} - NO_OBJECTS
    assert configured - {"Namespace/metadata/labels/tenantry.dev\\/tenant"} == wanted


def test_the_kinds_without_a_namespace_are_told() -> None:
    paths = json.loads(SCOPES.read_text())["paths"]
    assert set(paths) == {f"/apis/tenantry.dev/v1alpha1/{kind.PLURAL}/{{name}}" for kind in crds.KINDS if not kind.NAMESPACED}


def named(kind: str, name: str, namespace: str = "tenant-acme", **spec: Any) -> Json:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "tenantry.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def secret(name: str, namespace: str = "tenant-acme") -> Json:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}}


OBJECTS = [
    named("Region", "eu", "", tenants=["acme"], engine={"rollout": {"last": ["dev"]}}),
    named("Tenant", "acme", ""),
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant-acme", "labels": {"tenantry.dev/tenant": "acme"}}},
    named("Environment", "dev", region="eu", engine={"database": {"secretRef": {"name": "db", "key": "url"}}}),
    named("App", "dev.crm", environment="dev", app="crm", version="1.0.0"),
    named("Identity", "ann", environment="dev", username="ann", passwordSecretRef={"name": "ann", "key": "password"}),
    named("IdentityProvider", "corp", environment="dev", clientSecretRef={"name": "corp", "key": "secret"}),
    named("User", "vera", tenant="acme", passwordSecretRef={"name": "vera", "key": "password"}),
    *(secret(name) for name in ("db", "ann", "corp", "vera")),
]


def built(folder: Path, **options: Any) -> dict[tuple[str, str], Json]:
    if shutil.which("kubectl") is None:
        lacking("there is no kubectl")
    for file in (NAMES, SCOPES):
        shutil.copy(file, folder)
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(OBJECTS))
    given = {"resources": ["objects.yaml"], "configurations": [NAMES.name], "openapi": {"path": SCOPES.name}, **options}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(given))
    done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(done.stdout)}


@pytest.mark.parametrize(("option", "form"), [("namePrefix", "x-{}"), ("nameSuffix", "{}-x")])
def test_references_follow_the_names(option: str, form: str, tmp_path: Path) -> None:
    objects = built(tmp_path, **{option: form.format("")})

    def spec(kind: str, name: str) -> Json:
        found: Json = objects[kind, form.format(name)]["spec"]
        return found

    environment, region = form.format("dev"), spec("Region", "eu")
    assert (region["tenants"], region["engine"]["rollout"]["last"]) == ([form.format("acme")], [environment])
    assert spec("Environment", "dev")["region"] == form.format("eu")
    assert spec("Environment", "dev")["engine"]["database"]["secretRef"]["name"] == form.format("db")
    assert {spec(kind, name)["environment"] for kind, name in (("Identity", "ann"), ("IdentityProvider", "corp"))} == {
        environment
    }
    assert spec("App", "dev.crm")["environment"] == environment
    assert spec("Identity", "ann")["passwordSecretRef"]["name"] == form.format("ann")
    assert spec("IdentityProvider", "corp")["clientSecretRef"]["name"] == form.format("corp")
    assert (spec("User", "vera")["tenant"], spec("User", "vera")["passwordSecretRef"]["name"]) == (
        form.format("acme"),
        form.format("vera"),
    )
    assert objects["Namespace", "tenant-acme"]["metadata"]["labels"]["tenantry.dev/tenant"] == form.format("acme")


def test_a_prefix_keeps_the_rule_of_an_apps_name(tmp_path: Path) -> None:
    app = built(tmp_path, namePrefix="x-")["App", "x-dev.crm"]
    assert app["metadata"]["name"] == f"{app['spec']['environment']}.{app['spec']['app']}"
