"""One line for each object, as lists show it, and its places in the orders of lists. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from tenantry.console.reading.rights import TYPES, group_of
from tenantry.kinds.states import DELETING, NEEDS_YOU, STATES, SUSPEND, Standing, standing_of
from tenantry.model.resource import Document, Ref
from tenantry.model.verdicts import without_paths

MESSAGE = 400
"""Characters of a message that a list shows."""
Key = tuple[int, str, str]
"""A place in an order: a rank, a word, and the uid, which no two objects share."""


class Summary(NamedTuple):
    """An object as a list shows it. search: what is searched, in lower case; place: its namespace or its environment."""

    ref: Ref
    uid: str
    group: str
    title: str
    place: str
    version: str
    created: str
    standing: Standing
    search: str

    @property
    def urgent(self) -> bool:
        """Nothing happens to the object until a person acts."""
        return self.standing.state == NEEDS_YOU or (self.standing.state == DELETING and bool(self.standing.reason))


EVERY_RANK = range(2 * len(STATES))
URGENT = range(2 * STATES.index(DELETING) + 1)
"""The ranks of objects that need a person."""
MOVING = range(URGENT.stop, 2 * STATES.index(SUSPEND))
"""The ranks of objects on their way."""


def ranks_of(state: str) -> range:
    """The ranks of a state."""
    first = 2 * STATES.index(state)
    return range(first, first + 2)


def by_urgency(row: Summary) -> Key:
    """A key that puts first what people must see first: all that is urgent, then the states in their order."""
    return 2 * STATES.index(row.standing.state) + (not row.urgent), row.title.casefold(), row.uid


def by_name(row: Summary) -> Key:
    """A key by name."""
    return 0, row.title.casefold(), row.uid


def by_age(row: Summary) -> Key:
    """A key by the time at which the object was made."""
    return 0, row.created, row.uid


def summary_of(ref: Ref, document: Document) -> Summary:
    """Return the line of an object."""
    metadata, spec = document["metadata"], document.get("spec", {})
    title = _title(ref, spec)
    slug = str(document.get("status", {}).get("slug") or spec.get("slug") or "")
    id_ = str(spec.get("id") or "")
    searched = (ref.name, title, slug, id_, metadata["uid"], spec.get("app", ""))
    standing = standing_of(document)
    return Summary(
        ref=ref,
        uid=metadata["uid"],
        group=group_of(ref, dict(document)),
        title=title,
        place=_place(ref, spec),
        version=_at(document, TYPES[ref.kind].VERSION_AT),
        created=str(metadata.get("creationTimestamp", "")),
        standing=standing._replace(message=without_paths(standing.message[:MESSAGE])),
        search="\n".join(map(str, searched)).casefold(),
    )


def _title(ref: Ref, spec: Document) -> str:
    if ref.kind == "Operation":
        return f"{spec['action']} {spec['target']['name']}"
    return str(spec.get("displayName") or spec.get("username") or spec.get("app") or ref.name)


def _place(ref: Ref, spec: Document) -> str:
    if ref.kind == "Operation":
        return str(spec.get("tenant", ""))
    environment = spec.get("environment", "")
    return f"{ref.namespace}/{environment}" if environment else ref.namespace


def _at(document: Document, path: tuple[str, ...]) -> str:
    """The text at a path, `""` where there is none."""
    value: Any = document if path else None
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""
