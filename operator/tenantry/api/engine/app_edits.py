"""Edits of an App's spec, one for each request of the engine interface."""

from __future__ import annotations

from typing import Any

Spec = dict[str, Any]


def _keep(spec: Spec, *versions: str | None, but: str = "") -> Spec:
    kept = dict.fromkeys(version for version in (*spec.get("keep", ()), *versions) if version and version != but)
    return {**spec, "keep": list(kept)}


def keeping(spec: Spec, version: str) -> Spec:
    """Store a version beside the installed one."""
    return spec if spec.get("version") == version else _keep(spec, version)


def installing(spec: Spec, version: str, leave: str) -> Spec:
    """Install a version. leave: for allowDropsFor, `""` for none."""
    if spec.get("version") == version and not leave:
        return spec
    changed = {**_keep(spec, spec.get("version"), but=version), "version": version}
    changed.pop("allowDropsFor", None)
    return changed | ({"allowDropsFor": leave} if leave else {})


def uninstalling(spec: Spec) -> Spec:
    """Install no version, and go on storing the one that was."""
    changed = _keep(spec, spec.get("version"))
    changed.pop("version", None)
    return changed


def dropping(spec: Spec, version: str) -> Spec:
    """Store a version no longer."""
    return _keep(spec, but=version)
