"""One object in full, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tenantry.cli.arguments.kinds import KindName
from tenantry.cli.output.documents import to_yaml
from tenantry.cli.output.tables import TextTable, age
from tenantry.model.resource import FINALIZER, Document, parse_time
from tenantry.reasons.table import REASONS

LAST = 5
"""Operations that are shown, newest first."""
_SHOWN_APART = ("conditions", "lastOperation", "observedGeneration", "deletion")


def described(kind: KindName, document: Document, operations: Sequence[Document], width: int | None = None) -> str:
    """Names, spec, status, conditions, what blocks the deletion, and the last Operations. width: of the terminal, if any."""
    return "\n".join(_lines(kind, document, operations, width))


def _lines(kind: KindName, document: Document, operations: Sequence[Document], width: int | None) -> Iterator[str]:
    metadata, status = document["metadata"], document.get("status", {})
    yield f"Name:        {metadata['name']}"
    yield f"Kind:        {kind.kind}"
    if kind.namespaced:
        yield f"Namespace:   {metadata.get('namespace', '')}"
    yield f"Created:     {metadata['creationTimestamp']} ({_ago(metadata['creationTimestamp'])} ago)"
    if metadata.get("deletionTimestamp"):
        yield f"Deleting:    since {metadata['deletionTimestamp']} ({_ago(metadata['deletionTimestamp'])})"
        if foreign := sorted({*metadata.get("finalizers", ())} - {FINALIZER}):
            yield f"Held by:     {', '.join(foreign)} (finalizers of other controllers)"
    yield f"Generation:  {metadata.get('generation', 0)} (seen: {status.get('observedGeneration', -1)})"
    yield from _mapping("Labels", metadata.get("labels"))
    yield from _mapping("Annotations", metadata.get("annotations"))
    yield from _section("Spec", document.get("spec"))
    yield from _section("Data", dict.fromkeys(document.get("data", {}), "(hidden)"))
    yield from _section("Status", {key: value for key, value in status.items() if key not in _SHOWN_APART})
    yield from _table(width, "Conditions", ("TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"), _conditions(status))
    yield from _explanations(status)
    yield from _table(width, "Blocked by", ("OBJECT", "REASON", "SINCE", "RESOLVED BY"), _blockers(status))
    yield from _table(width, "Operations", ("ID", "ACTION", "STATUS", "RESULT", "BY", "AGE"), _operations(operations))


def _mapping(title: str, values: Mapping[str, str] | None) -> Iterator[str]:
    for number, (key, value) in enumerate(sorted((values or {}).items())):
        yield f"{title + ':' if number == 0 else '':<13}{key}={value}"


def _section(title: str, value: Any) -> Iterator[str]:
    if value:
        yield f"{title}:"
        yield from (f"  {line}" for line in to_yaml([value]).splitlines())


def _table(width: int | None, title: str, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if rows:
        table = TextTable(titles, rows)
        yield f"{title}:"
        yield from (f"  {line}".rstrip() for line in table.lines(table.layout(width - 2 if width else None)))


def _conditions(status: Mapping[str, Any]) -> list[list[str]]:
    return [
        [each["type"], each["status"], each.get("reason", ""), _ago(each.get("lastTransitionTime")), each.get("message", "")]
        for each in status.get("conditions", ())
    ]


def _explanations(status: Mapping[str, Any]) -> Iterator[str]:
    """The command that explains why the object is not Ready."""
    ready: Mapping[str, Any] = next((each for each in status.get("conditions", ()) if each["type"] == "Ready"), {})
    if ready.get("status") == "False" and ready.get("reason") in REASONS:
        yield f"Next step:   tenantry explain {ready['reason']}"


def _blockers(status: Mapping[str, Any]) -> list[list[str]]:
    blockers = (status.get("deletion") or {}).get("blockers", ())
    return [[each["object"], each["reason"], _ago(each["since"]), each["resolve"]] for each in blockers]


def _operations(operations: Sequence[Document]) -> list[list[str]]:
    return [
        [
            each["metadata"]["name"],
            each["spec"]["action"],
            each["status"]["status"],
            each["status"]["result"],
            each["spec"].get("requestedBy", ""),
            _ago(each["metadata"]["creationTimestamp"]),
        ]
        for each in newest_first(operations)[:LAST]
    ]


def newest_first(operations: Sequence[Document]) -> list[Document]:
    """By creation, and by start within a second."""
    return sorted(
        operations,
        key=lambda each: (each["metadata"]["creationTimestamp"], each["status"].get("startedOn", ""), each["metadata"]["name"]),
        reverse=True,
    )


def _ago(time: str | None) -> str:
    return age(datetime.now(UTC) - parse_time(time)) if time else ""
