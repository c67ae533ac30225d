"""The control plane's programs: those of KUBEBUILDER_ASSETS, else built once from pinned Go modules."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.built_programs import MissingProgram, built_once, fingerprint, go_build

OLDEST = os.environ.get("KUBERNETES") == "oldest"
"""Run against the oldest Kubernetes that Tenantry supports, in place of the newest."""
MODULE = Path(__file__).parent / ("controlplane-oldest" if OLDEST else "controlplane")
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
NEWEST_VERSION, OLDEST_VERSION = "1.36.3", "1.33.13"
VERSION = OLDEST_VERSION if OLDEST else NEWEST_VERSION
_MAJOR, _MINOR, _ = VERSION.split(".")
_COMPONENT = "k8s.io/component-base/version"
_FLAGS = f"-s -w -X {_COMPONENT}.gitVersion=v{VERSION} -X {_COMPONENT}.gitMajor={_MAJOR} -X {_COMPONENT}.gitMinor={_MINOR}"
_KUBERNETES = tuple(f"k8s.io/kubernetes/cmd/{name}" for name in PROGRAMS[1:])
_ETCD = "go.etcd.io/etcd/server/v3"


def find() -> Path:
    """The folder of the programs; builds them when it must (five to ten minutes the first time). Raises MissingProgram."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if given:
        lacking = [name for name in PROGRAMS[:2] if not (Path(given) / name).exists()]
        if lacking:
            raise MissingProgram(f"KUBEBUILDER_ASSETS={given} lacks {', '.join(lacking)}")
        return Path(given)
    # The name has the version and the pins, so that a change of either builds anew.
    return built_once(
        "controlplane",
        f"{VERSION}-{fingerprint((MODULE / 'go.mod', MODULE / 'go.sum'), _FLAGS)}",
        _build,
        "no cluster: KUBECONFIG and KUBEBUILDER_ASSETS are not set, and there is no Go to build a control plane",
    )


def _build(folder: Path) -> None:
    folder.mkdir()
    go_build(MODULE, folder, *_KUBERNETES, what="the control plane", flags=_FLAGS)
    go_build(MODULE, folder / "etcd", _ETCD, what="the control plane", flags=_FLAGS)
