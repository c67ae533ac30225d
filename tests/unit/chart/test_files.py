"""Facts of the chart that need no helm."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml

from tenantry.kinds.crds import crds, render
from tenantry.rest.release import VERSION
from tenantry.settings import variables
from tests.cluster import binaries

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "tenantry"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
FREE = ("resources", "sizes", "annotations", "labels", "nodeSelector", "affinity", "settings", "serviceAccountAnnotations")


def paths_of_values(values: dict[str, Any], above: str = "") -> set[str]:
    found = set()
    for key, value in values.items():
        nested = isinstance(value, dict) and key not in FREE
        found |= paths_of_values(value, f"{above}{key}.") if nested else {f"{above}{key}"}
    return found


def paths_of_schema(schema: dict[str, Any], above: str = "") -> set[str]:
    found = set()
    for key, value in schema["properties"].items():
        nested = key not in FREE and "properties" in value
        found |= paths_of_schema(value, f"{above}{key}.") if nested else {f"{above}{key}"}
    return found


def test_the_charts_definitions_are_the_generated_ones() -> None:
    stored = {path.name: path.read_text() for path in (CHART / "files" / "crds").iterdir()}
    assert stored == {f"{each['spec']['names']['plural']}.yaml": render(each) for each in crds().values()}, "run `make crds`"


def test_every_value_has_a_default_and_a_schema() -> None:
    assert paths_of_schema(SCHEMA) - {"global"} == paths_of_values(VALUES)


def test_the_defaults_are_good_values() -> None:
    jsonschema_rs.Draft7Validator(SCHEMA).validate(VALUES)


def test_the_guide_names_every_value() -> None:
    told = set(re.findall(r"`([A-Za-z0-9]+(?:\.[A-Za-z0-9]+)*)`", (ROOT / "docs" / "kubernetes.md").read_text()))
    assert paths_of_values(VALUES) - told == set()


def test_the_charts_version_is_the_release() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)


def test_the_kubernetes_that_is_claimed_is_the_one_that_is_tested_and_three_minors_before() -> None:
    tested = binaries.VERSION.rpartition(".")[0]
    oldest = f"1.{int(tested.removeprefix('1.')) - 3}"
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    (row,) = re.findall(r"^\| Kubernetes \|(.+?)\|(.+?)\|$", (ROOT / "SUPPORT.md").read_text(), re.MULTILINE)
    guide = " ".join((ROOT / "docs" / "kubernetes.md").read_text().split())
    assert chart["kubeVersion"] == f">={oldest}.0-0"
    assert row[0].strip().startswith(f"{oldest} to {tested};")
    assert row[1].strip().startswith(f"{tested} at each change, {oldest} before a release;")
    said = f"Kubernetes {oldest} or newer is required; the tests run on {tested}, and on {oldest} before a release."
    assert said in guide


def test_processes_are_set_up_by_settings_that_exist() -> None:
    template = (CHART / "templates" / "_helpers.tpl").read_text()
    assert set(re.findall(r"name: (TENANTRY_[A-Z_]+)", template)) - set(variables()) == set()
