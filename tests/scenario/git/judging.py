"""Judgements of an object by kstatus, by Flux with the kit's expressions, and by Argo CD with the kit's scripts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cel
import yaml
from lupa import lua51

KITS = Path(__file__).parents[3] / "examples" / "gitops"
Document = Mapping[str, Any]


def kstatus(document: Document) -> str:
    """The rules of sigs.k8s.io/cli-utils/pkg/kstatus for what is no built-in kind (status/generic.go, then core.go's conditions).

    A deletion comes first, then a generation that was not observed, then Reconciling and Stalled in their order, then Ready.
    """
    metadata, status = document["metadata"], document.get("status", {})
    if metadata.get("deletionTimestamp"):
        return "Terminating"
    if "generation" in metadata and "observedGeneration" in status and status["observedGeneration"] != metadata["generation"]:
        return "InProgress"
    for condition in status.get("conditions", ()):
        if condition["status"] == "True" and condition["type"] in ("Reconciling", "Stalled"):
            return {"Reconciling": "InProgress", "Stalled": "Failed"}[condition["type"]]
    ready = next((each for each in status.get("conditions", ()) if each["type"] == "Ready"), None)
    return "Current" if ready is None or ready["status"] == "True" else "InProgress"


class Flux:
    """fluxcd/pkg runtime/cel: an unobserved generation is InProgress; then inProgress, failed, current; else InProgress."""

    def __init__(self) -> None:
        (kustomization,) = (
            each for each in yaml.safe_load_all((KITS / "flux" / "platform.yaml").read_text()) if each["kind"] == "Kustomization"
        )
        self.kustomization = kustomization
        self._programs = {
            (each["apiVersion"], each["kind"]): [
                (state, cel.compile(each[name]))
                for name, state in (("inProgress", "InProgress"), ("failed", "Failed"), ("current", "Current"))
            ]
            for each in kustomization["spec"]["healthCheckExprs"]
        }

    @property
    def kinds(self) -> set[str]:
        return {kind for _, kind in self._programs}

    def judged(self, document: Document) -> str:
        status = document.get("status", {})
        if "observedGeneration" in status and status["observedGeneration"] != document["metadata"].get("generation"):
            return "InProgress"
        programs = self._programs[document["apiVersion"], document["kind"]]
        return next((state for state, program in programs if program.execute(dict(document)) is True), "InProgress")


class ArgoCD:
    """Argo CD's util/lua: a script gets `obj`, with the libraries base, table and a safe os alone, in Lua 5.1."""

    def __init__(self) -> None:
        self.data: dict[str, str] = yaml.safe_load((KITS / "argo-cd" / "argocd-cm.yaml").read_text())["data"]
        self.application: dict[str, Any] = yaml.safe_load((KITS / "argo-cd" / "platform.yaml").read_text())

    @property
    def kinds(self) -> set[str]:
        prefix = "resource.customizations.health.tenantry.dev_"
        return {key.removeprefix(prefix) for key in self.data if key.startswith(prefix)}

    def judged(self, document: Document) -> tuple[str, str]:
        """Health and message."""
        told = self._run(document, self.data[f"resource.customizations.health.tenantry.dev_{document['kind']}"])
        return told["status"], told.get("message", "")

    def actions(self, document: Document) -> dict[str, bool]:
        """All actions by name; True for one that is enabled."""
        found = self._run(document, self._customization(document)["discovery.lua"])
        return {name: not each["disabled"] for name, each in found.items()}

    def act(self, document: Document, action: str) -> dict[str, Any]:
        """The object as the action leaves it."""
        scripts = {each["name"]: each["action.lua"] for each in self._customization(document)["definitions"]}
        changed: dict[str, Any] = self._run(document, scripts[action])
        return changed

    def _customization(self, document: Document) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load(self.data[f"resource.customizations.actions.tenantry.dev_{document['kind']}"])
        return found

    def _run(self, document: Document, script: str) -> Any:
        lua = lua51.LuaRuntime(unpack_returned_tuples=True, register_eval=False, register_builtins=False)
        lua.execute(
            "local time, date = os.time, os.date\n"
            "local safe = {time = time, date = date}\n"
            "io, debug, string, math, coroutine, python, os = nil\n"
            "package.loaded.os, os = safe, safe"
        )
        lua.globals()["obj"] = _table(lua, document)
        return _value(lua.execute(script))


def _table(lua: Any, value: Any) -> Any:
    if isinstance(value, Mapping):
        return lua.table_from({key: _table(lua, each) for key, each in value.items() if each is not None})
    if isinstance(value, list | tuple):
        return lua.table_from([_table(lua, each) for each in value])
    return value


def _value(value: Any) -> Any:
    if lua51.lua_type(value) != "table":
        return value
    keys = list(value)
    if keys and all(isinstance(key, int) for key in keys):
        return [_value(value[key]) for key in keys]
    return {key: _value(value[key]) for key in keys}
