"""Completion of kinds, object names and Operation ids; silent if no platform answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from tenantry.model.resource import Document

MOST = 200
"""Names that are offered at once."""


def kind_names(incomplete: str) -> list[str]:
    """Kinds that begin so, in the plural."""
    from tenantry.cli.arguments.kinds import kinds

    return [kind.plural for kind in kinds() if kind.plural.startswith(incomplete)]


def objects(ctx: typer.Context, incomplete: str) -> list[str]:
    """`KIND/NAME` of the objects that begin so; kinds until one is chosen."""
    from tenantry.cli.arguments.kinds import kinds

    typed, slash, name = incomplete.partition("/")
    if not slash:
        started = [kind.kind.lower() for kind in kinds() if kind.kind.lower().startswith(typed)]
        if len(started) != 1:
            return [f"{kind}/" for kind in started]
        typed = started[0]
    return [f"{typed}/{each}" for each in _of_kind(ctx, typed, name)]


def names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of the objects of the kind that was typed before."""
    typed = ctx.params.get("kind") or ctx.params.get("object_") or ""
    return _of_kind(ctx, typed, incomplete) if typed and "/" not in typed else []


def tenants(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of Tenants."""
    return _of_kind(ctx, "tenant", incomplete)


def environments(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of Environments."""
    return _of_kind(ctx, "environment", incomplete)


def namespaces(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of Namespaces."""
    return _of_kind(ctx, "namespace", incomplete)


def operation_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Ids of Operations, the newest first."""
    found = sorted(_listed(ctx, "Operation"), key=lambda each: str(each["metadata"]["creationTimestamp"]), reverse=True)
    return [each["metadata"]["name"] for each in found if each["metadata"]["name"].startswith(incomplete)][:MOST]


def _of_kind(ctx: typer.Context, typed: str, incomplete: str) -> list[str]:
    from tenantry.cli.arguments.kinds import find_kind

    with suppress(Exception):  # what cannot be completed is typed: a word of the shell's is not the place of an error
        return sorted(_written(_listed(ctx, find_kind(typed).kind), ctx.params.get("namespace") or "", incomplete))[:MOST]
    return []


def _written(documents: Sequence[Document], namespace: str, incomplete: str) -> Iterator[str]:
    """`NAME`, or `NAMESPACE/NAME` for a name that is in several namespaces."""
    seen = [(each["metadata"].get("namespace", ""), each["metadata"]["name"]) for each in documents]
    seen = [(place, name) for place, name in seen if not namespace or place == namespace]
    count = Counter(name for _, name in seen)
    for place, name in seen:
        text = f"{place}/{name}" if "/" in incomplete or count[name] > 1 else name
        if text.startswith(incomplete):
            yield text


def _listed(ctx: typer.Context, kind: str) -> Sequence[Document]:
    """The objects of a kind, as the command line's own function lists them: `ctx.obj`, see clients/listing."""
    with suppress(Exception):  # as above
        found: Sequence[Document] = ctx.find_root().obj(ctx, kind)
        return found
    return ()
