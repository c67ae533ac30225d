"""helm, kubeconform and kube-score, built once from pinned Go modules, and what the chart renders to."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.binaries import VERSION, Missing

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
    """The path of helm, kubeconform or kube-score (a minute the first time). Raises Missing."""
    module = MODULES / name
    pins = hashlib.sha256((module / "go.mod").read_bytes() + (module / "go.sum").read_bytes() + _FLAGS.encode())
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tenantry" / "tools"
    path = folder / f"{name}-{pins.hexdigest()[:12]}"
    if path.exists():
        return path
    if shutil.which("go") is None:
        raise Missing(f"there is no Go to build {name}, with which the chart is judged")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as lock:
        # Test workers start at once; one builds, the others wait for it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            _build(module, path)
    return path


def _build(module: Path, path: Path) -> None:
    """Visible by one rename, when complete."""
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        built = Path(scratch) / module.name
        done = subprocess.run(
            ["go", "build", "-trimpath", "-ldflags", _FLAGS, "-o", str(built), "tool"],
            cwd=module,
            env={**os.environ, "CGO_ENABLED": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Missing(f"{module.name} cannot be built: {done.stderr[-2000:]}")
        built.rename(path)


def run(name: str, *arguments: str | Path, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs one of the programs. Raises Missing."""
    command = [str(program(name)), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, input=given, timeout=180, check=False)


def rendered(values: Mapping[str, Any] | None = None, namespace: str = NAMESPACE) -> str:
    """The chart's YAML under these values. Raises Refused, Missing."""
    done = run("helm", "template", "tenantry", CHART, "--namespace", namespace, "--values", "-", given=json.dumps(values or {}))
    if done.returncode:
        raise Refused(done.stderr)
    return done.stdout


def objects(values: Mapping[str, Any] | None = None) -> list[Object]:
    """The chart's objects under these values. Raises Refused, Missing."""
    return [document for document in yaml.load_all(rendered(values), yaml.CSafeLoader) if document]
