"""The tree of a Tenant or an Environment, with its health: the worst first, and the cause of each fault by name. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tenantry.console.reading.summary import Summary, by_urgency
from tenantry.console.views.rows import Reading
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.region.spec import Region
from tenantry.kinds.registry import CONTENTS
from tenantry.kinds.states import READY
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.resource import Ref, Resource

WHOLE = 200
"""Nodes of a tree that is drawn as a whole, at most."""
DRAWN = 120
"""Nodes that are drawn of a larger tree: environments, and what is not Ready in them."""


class Branch(NamedTuple):
    """An environment with what is in it. cause: the object that is to blame, None if it is well or to blame itself;
    folded: objects in it that are not drawn; unwell: all in it that are not Ready."""

    row: Summary
    cause: Summary | None
    inside: Sequence[Summary]
    folded: int
    unwell: int


class HealthTree(NamedTuple):
    """Branches, the worst first. folded: environments that are not drawn, unwell: those of them with a fault."""

    branches: Sequence[Branch]
    cause: Summary | None
    total: int
    folded: int = 0
    unwell: int = 0


def tree_of(reading: Reading, resource: Resource[Any, Any]) -> HealthTree | None:
    """Return the tree of a Tenant or an Environment, None for other kinds."""
    match resource:
        case Tenant():
            group = resource.bound_namespace
            rows = list(reading.summaries.rows(Environment.KIND, group)) if group else []
        case Environment():
            group = resource.metadata.namespace
            row = reading.summaries.row(resource.ref)
            rows = [row] if row is not None else []
        case _:
            return None
    tree = _tree(reading, rows, _contents(reading, group))
    itself = tree.cause is not None and tree.cause.ref == resource.ref
    return tree._replace(cause=None) if itself else tree


def cause_of(reading: Reading, row: Summary) -> Summary:
    """Return the object to blame for a fault: the Region of an environment, or the environment of what is in it."""
    if row.ref.kind in CONTENTS:
        environment = reading.summaries.row(Ref(Environment.KIND, row.ref.namespace, row.place.partition("/")[2]))
        return cause_of(reading, environment) if environment is not None and _faulty(environment) else row
    if row.ref.kind == Environment.KIND:
        document = reading.cache.document(row.ref) or {}
        region = reading.cache.resource(Ref(Region.KIND, "", str(document.get("spec", {}).get("region", ""))))
        found = reading.summaries.row(region.ref) if region is not None and reading.rights.sees(region) else None
        return found if found is not None and _faulty(found) else row
    return row


def _tree(reading: Reading, rows: Sequence[Summary], contents: Mapping[str, Sequence[Summary]]) -> HealthTree:
    worst = {row.ref: min((row, *contents.get(_place(row), ())), key=by_urgency) for row in rows}
    ordered = sorted(rows, key=lambda row: (by_urgency(worst[row.ref]), row.title))
    total = len(rows) + sum(len(contents.get(_place(row), ())) for row in rows)
    branches: list[Branch] = []
    folded = total > WHOLE
    left = DRAWN if folded else WHOLE
    for row in ordered:
        if not left:
            break
        branch = _branch(reading, row, worst[row.ref], contents.get(_place(row), ()), left - 1, folded)
        branches.append(branch)
        left -= 1 + len(branch.inside)
    hidden = ordered[len(branches) :]
    first = worst[ordered[0].ref] if ordered else None
    return HealthTree(
        branches,
        cause_of(reading, first) if first is not None and _faulty(first) else None,
        total,
        len(hidden),
        sum(1 for row in hidden if _faulty(worst[row.ref])),
    )


def _branch(reading: Reading, row: Summary, worst: Summary, inside: Sequence[Summary], room: int, folded: bool) -> Branch:
    drawn = sorted((one for one in inside if not folded or _faulty(one)), key=by_urgency)[:room]
    cause = cause_of(reading, row if _faulty(row) else worst) if _faulty(worst) else None
    unwell = sum(1 for one in inside if _faulty(one))
    return Branch(row, cause if cause is not row else None, drawn, len(inside) - len(drawn), unwell)


def _contents(reading: Reading, group: str) -> Mapping[str, Sequence[Summary]]:
    found: defaultdict[str, list[Summary]] = defaultdict(list)
    for kind in CONTENTS if group else ():
        for row in reading.summaries.rows(kind, group):
            found[row.place].append(row)
    return found


def _place(environment: Summary) -> str:
    return f"{environment.ref.namespace}/{environment.ref.name}"


def _faulty(row: Summary) -> bool:
    return row.standing.state != READY
