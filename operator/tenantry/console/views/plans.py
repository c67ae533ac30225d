"""The plan of a text of declarations, as a page shows it: its lines by tenant, what is lost, and what moved. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tenantry.api.auth.tenant_lookup import Owners
from tenantry.api.cloud.declarations import AppliedText
from tenantry.console.reading.orders import NAME
from tenantry.console.texts import TEXTS
from tenantry.console.views.actions import moved
from tenantry.console.views.rows import Reading
from tenantry.kinds.source.spec import Source
from tenantry.kinds.tenancy import tenants_of
from tenantry.model.tree import Tree
from tenantry.model.verdicts import without_paths
from tenantry.runtime.planning.planned import LOSES, Planned, Step

SOURCES = 200
"""Names that the form offers, at most. It takes others as well."""


class PlanLine(NamedTuple):
    """One line of a plan. lost: it removes something."""

    text: str
    lost: bool


class PlanGroup(NamedTuple):
    """The lines about one tenant, or about the platform."""

    title: str
    lines: Sequence[PlanLine]


class TypedText(NamedTuple):
    """The fields of the form. source: the Source whose declarations the text replaces, `""` for none; branch: its own."""

    text: str = ""
    source: str = ""
    branch: str = ""
    name: str = ""
    digest: str = ""
    lines: tuple[str, ...] = ()

    @classmethod
    def of(cls, form: Mapping[str, str]) -> TypedText:
        """The fields as they were sent."""
        given = {name: form.get(name, "") for name in ("text", "source", "branch", "name", "plan", "lines")}
        text = given["text"].replace("\r\n", "\n")
        source, branch = given["source"].strip(), given["branch"].strip()
        return cls(text, source, branch, given["name"], given["plan"], tuple(given["lines"].splitlines()))


def grouped(planned: Planned, title_of: Callable[[str], str]) -> list[PlanGroup]:
    """The lines of a plan by tenant, each group in the order of the plan. title_of: the title for a namespace, or for the name of
    an object that is in none."""
    groups: dict[str, list[PlanLine]] = {}
    for step in planned.steps:
        groups.setdefault(title_of(_place(step)), []).append(PlanLine(str(step), step.sign in ("-", LOSES)))
    return [PlanGroup(title, lines) for title, lines in groups.items()]


def titles(reading: Reading, tree: Tree) -> Callable[[str], str]:
    """Titles for namespaces: the tenants that have them now, or that this text declares."""
    declared = tenants_of(each.document for each in tree.documents if each.ref.kind == "Tenant")
    names = {*declared.values(), *(row.ref.name for row in reading.rows("Tenant"))} if reading.rights.superuser else set()

    def title(place: str) -> str:
        owner = Owners(reading.cache).of_namespace(place)
        name = owner.metadata.name if owner is not None else declared.get(place, place if place in names else "")
        return f"{TEXTS['tenant']} {name}" if name else TEXTS["platform"]

    return title


def typed_for(planned: Planned) -> str:
    """The name that a person must type before the plan: that of the first object that loses data, `""` for none."""
    losing = next((step for step in planned.steps if step.sign == LOSES), None)
    return losing.object.rpartition("/")[2] if losing is not None else ""


def plan_page(
    reading: Reading, typed: TypedText, tree: Tree | None, planned: Planned | None, error: str = "",
    applied: Sequence[AppliedText] = (),
) -> dict[str, Any]:  # fmt: skip
    """The values of plan.html. tree, planned: None before anything was typed, or where it cannot be read."""
    problems = [*map(str, tree.problems)] if tree is not None else []
    lines = [str(step) for step in planned.steps] if planned is not None else []
    came, left = moved(typed.lines, lines) if error and typed.digest else ([], [])
    return {
        "typed": typed,
        "sources": [*source_names(reading)],
        "error": error,
        "problems": problems + (list(planned.problems) if planned is not None else []),
        "planned": planned,
        "groups": grouped(planned, titles(reading, tree)) if planned is not None and tree is not None else [],
        "verdicts": [(ref, verdict.reason, without_paths(verdict.message)) for ref, verdict in planned.verdicts]
        if planned
        else [],
        "kept": [(str(one.held.ref), one.reason) for one in planned.kept] if planned is not None else [],
        "digest": planned.digest if planned is not None else "",
        "lines": lines,
        "came": came,
        "left": left,
        "wanted": typed_for(planned) if planned is not None else "",
        "applied": [(one, reading.summaries.row(one.ref)) for one in applied],
    }


def source_names(reading: Reading) -> list[str]:
    """The names under which Sources keep their objects, as far as the caller sees them."""
    rows = reading.rows(Source.KIND).ordered(NAME)
    return [f"{row.ref.namespace}.{row.ref.name}" for row, _ in zip(rows, range(SOURCES), strict=False)]


def _place(step: Step) -> str:
    """The namespace of a step's object; the name of one that is in none."""
    parts = step.object.split("/")
    return parts[-2] if len(parts) == (2 if step.sign in ("", LOSES) else 3) else parts[-1]
