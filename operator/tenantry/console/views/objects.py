"""One object: its state, what it contains, its Operations, its declaration. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from heapq import nlargest, nsmallest
from typing import Any, NamedTuple, cast

import yaml

from tenantry.api.auth.tenant_lookup import Owners
from tenantry.api.reading.relations import needed_by, needs
from tenantry.console.reading.rights import TYPES
from tenantry.console.reading.summary import Summary, by_age, by_urgency, summary_of
from tenantry.console.texts import TEXTS
from tenantry.console.views.actions import redeclaring_refusal, refusals, verbs
from tenantry.console.views.environments import app_versions, people
from tenantry.console.views.logs import LogWindow
from tenantry.console.views.rows import Reading
from tenantry.console.views.trees import DRAWN, cause_of, tree_of
from tenantry.kinds.app.spec import App
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.operation.spec import Operation
from tenantry.kinds.registry import KINDS, OF_TENANTS
from tenantry.kinds.source.spec import Source
from tenantry.kinds.states import READY
from tenantry.kinds.tenant.spec import Tenant
from tenantry.kinds.user.spec import User
from tenantry.model.resource import SYSTEM_NAMESPACE, Blocker, Condition, Ref, Resource, declared_at, source_of
from tenantry.model.verdicts import without_paths

OPERATIONS = 10
_OVER_REST = (Environment.KIND, Operation.KIND)
_OVER_REST_FOR_SUPERUSERS = (Tenant.KIND, User.KIND)


class ShownBlocker(NamedTuple):
    """A blocker of a deletion. row: of its object, None for one that is gone or not seen; command: shows that object."""

    told: Blocker
    row: Summary | None
    command: str


def object_view(reading: Reading, resource: Resource[Any, Any]) -> dict[str, Any]:
    """The values of object.html."""
    document = reading.cache.document(resource.ref) or {}
    row = summary_of(resource.ref, document)
    id_ = Owners(reading.cache).id_of(resource)
    return {
        "row": row,
        "kind": resource.KIND,
        "verbs": verbs(resource),
        "refusals": refusals(reading, resource, document),
        "above": _above(reading, resource),
        "facts": _facts(resource, document, row, id_),
        "url": _engine_url(resource),
        "conditions": [_shown(each, reading.rights.superuser) for each in resource.status.conditions],
        "blockers": _blockers(reading, resource),
        "tree": tree_of(reading, resource),
        "cause": _cause(reading, row),
        "needs": _rows(reading, needs(resource, reading.cache.names)),
        "needed_by": _rows(reading, needed_by(resource, reading.cache.names)),
        "rows_shown": reading.rights.writes and resource.KIND == App.KIND,
        "editable": reading.rights.writes and resource.KIND in (OF_TENANTS if not reading.rights.superuser else KINDS),
        "apps": app_versions(reading, resource) if isinstance(resource, Environment) else (),
        "people": people(reading, resource) if isinstance(resource, Environment) else (),
        "versions": resource.status.available_versions if isinstance(resource, App) else (),
        "versions_refusal": redeclaring_refusal(reading, document) if isinstance(resource, App) else "",
        "sourced": resource.status if isinstance(resource, Source) else None,
        "operations": _operations(reading, resource, id_),
        "declared": declared_at(document),
        "source": source_of(document),
        "same": _same(reading, resource, id_),
        "yaml": yaml_of(document),
    }


def operation_view(reading: Reading, operation: Operation, log: LogWindow, log_fault: str = "") -> dict[str, Any]:
    """The values of operation.html. log: the lines to show; log_fault: why the whole log cannot be read."""
    document = reading.cache.document(operation.ref) or {}
    target = operation.spec.target
    held = reading.cache.resource(Ref(target.kind, target.namespace, target.name))
    same = held is not None and held.metadata.uid == target.uid and reading.rights.sees(held)
    return {
        "row": summary_of(operation.ref, document),
        "verbs": verbs(operation),
        "refusals": refusals(reading, operation, document),
        "spec": operation.spec,
        "cause": f"generation {operation.spec.cause}" if str(operation.spec.cause).isdecimal() else operation.spec.cause,
        "duration": _duration(operation.status.started_on, operation.status.ends_on),
        "status": operation.status,
        "target_row": reading.summaries.row(held.ref) if held is not None and same else None,
        "log": log,
        "log_fault": log_fault,
        "same": _same(reading, operation, operation.id),
        "yaml": yaml_of(document),
    }


def _shown(condition: Condition, superuser: bool) -> Condition:
    """Return a condition as a person may see it: only a SUPERUSER sees paths of the server."""
    return condition if superuser else condition.model_copy(update={"message": without_paths(condition.message)})


def _duration(began: datetime | None, ended: datetime | None) -> str:
    """Seconds between two times, `""` while one of them is missing."""
    return f"{(ended - began).total_seconds():.1f} s" if began and ended else ""


def yaml_of(document: dict[str, Any]) -> str:
    """The text of an object, without what only API servers read."""
    metadata = {name: value for name, value in document["metadata"].items() if name != "managedFields"}
    shown = {**document, "metadata": metadata}
    return str(yaml.dump(shown, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=100))


def _cause(reading: Reading, row: Summary) -> Summary | None:
    """The other object that is to blame for a fault."""
    cause = cause_of(reading, row) if row.standing.state != READY else row
    return cause if cause.ref != row.ref else None


def _above(reading: Reading, resource: Resource[Any, Any]) -> list[Summary]:
    """The Tenant and the Environment that the object is in, as far as the caller sees them."""
    found: list[Resource[Any, Any] | None] = []
    if resource.metadata.namespace not in ("", SYSTEM_NAMESPACE):
        found.append(Owners(reading.cache).of_namespace(resource.metadata.namespace))
    if type(resource).IN_ENVIRONMENT:
        name = cast(str, resource.spec.environment)
        found.append(reading.cache.resource(Ref(Environment.KIND, resource.metadata.namespace, name)))
    rows = [reading.summaries.row(one.ref) for one in found if one is not None and reading.rights.sees(one)]
    return [row for row in rows if row is not None]


def _rows(reading: Reading, refs: Iterable[Ref]) -> list[Summary]:
    """The objects of these that the caller sees, the worst first."""
    found = (row for row in map(reading.summaries.row, refs) if row and reading.rights.group(row.ref.kind) in (None, row.group))
    seen = ((row, reading.cache.resource(row.ref)) for row in nsmallest(DRAWN, found, key=by_urgency))
    return [row for row, held in seen if held is not None and reading.rights.sees(held)]


def _facts(resource: Resource[Any, Any], document: dict[str, Any], row: Summary, id_: str) -> list[tuple[str, str]]:
    """Names and values, without those that are empty."""
    spec, status = document.get("spec", {}), document.get("status", {})
    facts = [
        ("name", resource.metadata.name),
        ("namespace", resource.metadata.namespace),
        ("slug", status.get("slug") or spec.get("slug", "")),
        ("role", spec.get("role", "")),
        ("app", spec.get("app", "")),
        ("version", row.version),
        ("repository", spec.get("url", "") if resource.KIND == "Source" else ""),
        ("branch", spec.get("branch") or spec.get("tag", "") if resource.KIND == "Source" else ""),
        ("synced", status.get("lastSync", "")),
        ("issuer", spec.get("issuer", "")),
        ("id", id_),
    ]
    return [(TEXTS[f"fact_{name}"], str(value)) for name, value in facts if value]


def _blockers(reading: Reading, resource: Resource[Any, Any]) -> list[ShownBlocker]:
    """The blockers of a deletion, each with its command."""
    shown = []
    for each in resource.status.deletion.blockers if resource.status.deletion else ():
        parts = each.object.split("/")
        ref = Ref(parts[0], parts[1] if len(parts) == 3 else "", parts[-1])
        held = reading.cache.resource(ref) if ref.kind in TYPES else None
        row = reading.summaries.row(ref) if held is not None and reading.rights.sees(held) else None
        shown.append(ShownBlocker(each, row, _describe(ref)))
    return shown


def _describe(ref: Ref) -> str:
    """The command that shows an object."""
    return f"tenantry describe {ref.kind.lower()} {ref.name}" + (f" -n {ref.namespace}" if ref.namespace else "")


def _engine_url(resource: Resource[Any, Any]) -> str:
    """The address of an environment's engine, if a browser may follow it."""
    url = (resource.status.url or "") if isinstance(resource, Environment) else ""
    return url if url.startswith(("https://", "http://")) else ""


def _operations(reading: Reading, resource: Resource[Any, Any], id_: str) -> list[Summary]:
    keys = [f"target={resource.metadata.uid}"]
    keys += [f"environmentId={id_}"] if isinstance(resource, Environment) else []
    names = {name for key in keys for name in reading.cache.names(Operation.KIND, SYSTEM_NAMESPACE, key)}
    rows = (reading.summaries.row(Ref(Operation.KIND, *name)) for name in names)
    group = reading.rights.group(Operation.KIND)
    return nlargest(OPERATIONS, [row for row in rows if row is not None and group in (None, row.group)], by_age)


def _same(reading: Reading, resource: Resource[Any, Any], id_: str) -> list[str]:
    """The command lines that show the same."""
    plural, name = TYPES[resource.KIND].PLURAL, resource.metadata.name
    lines = [f"tenantry logs {name}"] if isinstance(resource, Operation) else [_describe(resource.ref)]
    if resource.KIND in _OVER_REST or (resource.KIND in _OVER_REST_FOR_SUPERUSERS and reading.rights.superuser):
        lines.append(f"GET /api/v1/{plural}/{id_}")
    return lines
