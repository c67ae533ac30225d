"""helm, kubeconform and kube-score, built once from pinned Go modules, and what the chart renders to."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.binaries import VERSION
from tests.support.built_programs import built_once, fingerprint, go_build

CHART = Path(__file__).parents[2] / "charts" / "tenantry"
MODULES = Path(__file__).parent / "tools"
NAMESPACE = "tenantry-system"
_MAJOR, _MINOR, _ = VERSION.split(".")
_CAPABILITIES = "helm.sh/helm/v3/pkg/chartutil.k8sVersion"
_FLAGS = f"-s -w -X {_CAPABILITIES}Major={_MAJOR} -X {_CAPABILITIES}Minor={_MINOR}"
Object = dict[str, Any]


class Refused(Exception):  # noqa: N818 - tests expect it
    """helm's own words about values, or a chart, that it refuses."""


@cache
def program(name: str) -> Path:
    """The path of helm, kubeconform or kube-score (a minute the first time). Raises MissingProgram."""
    module = MODULES / name
    return built_once(
        "tools",
        f"{name}-{fingerprint((module / 'go.mod', module / 'go.sum'), _FLAGS)}",
        lambda out: go_build(module, out, "tool", what=name, flags=_FLAGS),
        f"there is no Go to build {name}, with which the chart is judged",
    )


def run(name: str, *arguments: str | Path, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs one of the programs. Raises MissingProgram."""
    command = [str(program(name)), *map(str, arguments)]
    seldom_collected = os.environ | {"GOGC": "400"}  # a call lives for a moment
    return subprocess.run(command, capture_output=True, text=True, input=given, timeout=180, check=False, env=seldom_collected)


def rendered(values: Mapping[str, Any] | None = None, namespace: str = NAMESPACE) -> str:
    """The chart's YAML under these values. Raises Refused, MissingProgram."""
    return _rendered(json.dumps(values or {}), namespace)


@cache
def _rendered(values: str, namespace: str) -> str:
    """The same, once: the chart does not change while tests run, and many of them look at the same values."""
    done = run("helm", "template", "tenantry", CHART, "--namespace", namespace, "--values", "-", given=values)
    if done.returncode:
        raise Refused(done.stderr)
    return done.stdout


def forget_rendered() -> None:
    """Render the chart anew, with other random passwords."""
    _rendered.cache_clear()
    _objects.cache_clear()


def objects(values: Mapping[str, Any] | None = None) -> list[Object]:
    """The chart's objects under these values, which the caller may change. Raises Refused, MissingProgram."""
    found: list[Object] = pickle.loads(_objects(json.dumps(values or {})))
    return found


@cache
def _objects(values: str) -> bytes:
    return pickle.dumps([document for document in yaml.load_all(_rendered(values, NAMESPACE), yaml.CSafeLoader) if document])
