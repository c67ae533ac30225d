"""Lists of kinds in files that are not Python: the chart's, the index of the docs, the kits. `make crds` writes them.

The chart's file is written whole. To the others a line is added for each kind that has none: people edit their other lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tenantry.kinds.registry import KINDS, OF_TENANTS, TYPES
from tenantry.model.resource import Resource

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts/tenantry/templates/_kinds.tpl"
INDEX = ROOT / "docs/README.md"
FLUX = ROOT / "examples/gitops/flux/platform.yaml"
ARGO_CD = ROOT / "examples/gitops/argo-cd/argocd-cm.yaml"
DECLARED: list[type[Resource[Any, Any]]] = [kind.type for kind in KINDS.values()]


def page_of(kind: type[Resource[Any, Any]]) -> Path:
    """The page of a kind."""
    return ROOT / "docs/kinds" / (re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind.KIND).lower() + ".md")


def chart() -> str:
    """The lists that the chart's templates include."""
    reconciled = sorted(kind.PLURAL for kind in DECLARED)
    lists = {
        "tenantKinds": sorted(KINDS[name].type.PLURAL for name in OF_TENANTS),
        "reconciledKinds": reconciled,
        "allKinds": sorted({kind.PLURAL for kind in TYPES.values()} - {"namespaces"}),
        "statuses": [f"{plural}/status" for plural in reconciled],
        "finalizers": [f"{plural}/finalizers" for plural in reconciled],
    }
    defined = (f'{{{{- define "tenantry.{name}" -}}}}\n[{", ".join(each)}]\n{{{{- end }}}}\n' for name, each in lists.items())
    return "{{- /* Written by `make crds` from the registry of kinds. */}}\n\n" + "\n".join(defined)


def index() -> str:
    """The index of the docs, with a row for the page of each kind."""
    return _with(INDEX.read_text("utf-8"), r"\| \[{kind}\]\(kinds/", _rows(), before="| [Operation](kinds/")


def _rows() -> Mapping[str, str]:
    pages = {kind.KIND: page_of(kind) for kind in DECLARED}
    return {kind: f"| [{kind}](kinds/{page.name}) | {_about(page)} |" for kind, page in pages.items() if page.exists()}


def _about(page: Path) -> str:
    """The first sentence of a page, as the index has it."""
    paragraph = page.read_text("utf-8").split("\n\n")[1].replace("\n", " ")
    sentence = re.split(r"\.(?:\s|$)", paragraph)[0]
    return sentence[0].lower() + sentence[1:]


def flux() -> str:
    """The kit for Flux, with the health of each kind."""
    lines = {kind.KIND: f"    - {{<<: *health, kind: {kind.KIND}}}" for kind in DECLARED}
    return _with(FLUX.read_text("utf-8"), r"kind: {kind}\b", lines, after="    - {<<: *health, kind: ")


def _fields_of_spec(kind: type[Resource[Any, Any]]) -> set[str]:
    spec = kind.model_fields["spec"].annotation
    assert isinstance(spec, type)
    assert issubclass(spec, BaseModel)
    return set(spec.model_fields)


def argo_cd() -> str:
    """The kit for Argo CD, with the health and the actions of each kind."""
    health, actions = (f"  resource.customizations.{part}.tenantry.dev_" for part in ("health", "actions"))
    suspendable = [kind.KIND for kind in DECLARED if "suspend" in _fields_of_spec(kind)]
    text = ARGO_CD.read_text("utf-8")
    for start, alias in ((health, dict.fromkeys(KINDS, "*health")), (actions, dict.fromkeys(KINDS, "*reconciled"))):
        if start == actions:
            alias |= dict.fromkeys(suspendable, "*suspendable")
        lines = {kind: f"{start}{kind}: {alias[kind]}" for kind in KINDS}
        text = _with(text, re.escape(start) + "{kind}:", lines, after=start)
    return text


def _with(text: str, has: str, lines: Mapping[str, str], *, after: str = "", before: str = "") -> str:
    """The text with the line of each kind that has none: after the last line that starts so, or before the first one."""
    missing = [line for kind, line in lines.items() if not re.search(has.replace("{kind}", kind), text)]
    written = text.split("\n")
    if after:
        at = max(number for number, line in enumerate(written) if line.startswith(after)) + 1
    else:
        at = min(number for number, line in enumerate(written) if line.startswith(before))
    return "\n".join([*written[:at], *missing, *written[at:]])


def files() -> Iterable[tuple[Path, str]]:
    """Each file, as it is to be."""
    return ((CHART, chart()), (INDEX, index()), (FLUX, flux()), (ARGO_CD, argo_cd()))


if __name__ == "__main__":
    for path, text in files():
        path.write_text(text, "utf-8")
