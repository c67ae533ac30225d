"""Where the control plane's programs come from: KUBEBUILDER_ASSETS, else built once from pinned Go modules."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

MODULE = Path(__file__).parent / "controlplane"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
VERSION = "1.36.3"
_COMPONENT = "k8s.io/component-base/version"
_FLAGS = f"-s -w -X {_COMPONENT}.gitVersion=v{VERSION} -X {_COMPONENT}.gitMajor=1 -X {_COMPONENT}.gitMinor=36"
_KUBERNETES = tuple(f"k8s.io/kubernetes/cmd/{name}" for name in PROGRAMS[1:])
_ETCD = "go.etcd.io/etcd/server/v3"


class Missing(Exception):  # noqa: N818 - tests skip for it
    """There is no control plane to run; the text says what was looked for."""


def find() -> Path:
    """The folder of the programs; builds them when it must (five to ten minutes the first time). Raises Missing."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if given:
        lacking = [name for name in PROGRAMS[:2] if not (Path(given) / name).exists()]
        if lacking:
            raise Missing(f"KUBEBUILDER_ASSETS={given} lacks {', '.join(lacking)}")
        return Path(given)
    return _built()


def _built() -> Path:
    """In a folder of the cache named by version and pins, so that a change of either builds anew."""
    pins = hashlib.sha256((MODULE / "go.mod").read_bytes() + (MODULE / "go.sum").read_bytes() + _FLAGS.encode())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tenantry" / "controlplane"
    folder = cache / f"{VERSION}-{pins.hexdigest()[:12]}"
    if folder.exists():
        return folder
    if shutil.which("go") is None:
        raise Missing("no cluster: KUBECONFIG and KUBEBUILDER_ASSETS are not set, and there is no Go to build a control plane")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        # Test workers start at once; one builds, the others wait for it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _build(folder)
    return folder


def _build(folder: Path) -> None:
    """Visible by one rename, when complete."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        _go_build(Path(scratch), *_KUBERNETES)
        _go_build(Path(scratch) / "etcd", _ETCD)
        Path(scratch).rename(folder)
        Path(scratch).mkdir()


def _go_build(out: Path, *packages: str) -> None:
    target = f"{out}/" if out.is_dir() else str(out)
    done = subprocess.run(
        ["go", "build", "-trimpath", "-ldflags", _FLAGS, "-o", target, *packages],
        cwd=MODULE,
        env={**os.environ, "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Missing(f"the control plane cannot be built: {done.stderr[-2000:]}")
