"""The forms of Environments and Tenants: their fields, what was typed, and what is wrong with it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, cast

from tenantry.console.reading.orders import NAME
from tenantry.console.reading.rights import Rights, regions
from tenantry.console.texts import TEXTS
from tenantry.console.views.rows import Reading
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.resource import Resource
from tenantry.model.verdicts import Problem

CHOICES = 200
"""Names that a field offers, at most. It takes others as well."""
MADE = (Environment.KIND, Tenant.KIND)


class FormField(NamedTuple):
    """One field. problem: what is wrong with its value; choices: values that it offers."""

    name: str
    label: str
    value: str
    problem: str = ""
    choices: tuple[str, ...] = ()


def may_make(rights: Rights, kind: str) -> bool:
    """Return True if somebody with those rights may make objects of that kind here."""
    return kind in MADE and rights.writes and (rights.superuser or kind == Environment.KIND)


def fields_of(
    reading: Reading, kind: str, given: Mapping[str, str], problems: Iterable[Problem], *, new: bool
) -> list[FormField]:
    """The fields of a form, with what was typed. Problems of other fields are left to `elsewhere`."""
    wrong: dict[str, str] = {}
    for problem in problems:
        wrong.setdefault(problem.field, problem.reason)
    fields = [FormField("name", TEXTS["display_name"], ""), FormField("slug", TEXTS["slug"], "")]
    if new and kind == Environment.KIND:
        names = (one.metadata.name for one in regions(reading.cache, reading.rights))
        fields.append(FormField("region", TEXTS["region"], "", choices=tuple(sorted(islice(names, CHOICES)))))
        if reading.rights.superuser:
            tenants = (row.ref.name for row in reading.rows(Tenant.KIND).ordered(NAME))
            fields.insert(0, FormField("tenantId", TEXTS["tenant"], "", choices=tuple(islice(tenants, CHOICES))))
    return [one._replace(value=given.get(one.name, ""), problem=wrong.get(one.name, "")) for one in fields]


def elsewhere(fields: Sequence[FormField], problems: Iterable[Problem]) -> list[str]:
    """The problems of none of these fields."""
    names = {each.name for each in fields}
    return [str(problem) for problem in problems if problem.field not in names]


def values_of(resource: Resource[Any, Any]) -> dict[str, str]:
    """The fields of an object as it is."""
    held = cast("Environment | Tenant", resource)
    return {"name": held.spec.display_name or "", "slug": held.wanted_slug}


def differences(now: Mapping[str, str], form: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """The changes of others since the form was opened: field, the value then, the value now."""
    before = {name: form.get(f"was_{name}", value) for name, value in now.items()}
    return [(name, before[name], now[name]) for name in now if before[name] != now[name]]
