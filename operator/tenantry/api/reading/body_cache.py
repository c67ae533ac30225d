"""Bodies of one kind, rendered once and kept until something that they tell changes; lists are joined from them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from tenantry.model.resource import Ref, Resource, kept_json
from tenantry.runtime.cache import Cache, Name, Seen


class Rendered(NamedTuple):
    """The rendered form of an object. shown: True if it appears in lists."""

    id: str
    created: str
    body: dict[str, Any]
    shown: bool = True


class Row(NamedTuple):
    """One object as REST answers it. etag: `"<generation>.<content hash>"`."""

    created: str
    id: str
    body: bytes
    etag: str
    name: Name
    shown: bool

    @property
    def key(self) -> tuple[str, str]:
        return (self.created, self.id)


class Scope(NamedTuple):
    """The scope of a list: a namespace (None: all), and an index key."""

    namespace: str | None = None
    by: str = ""


class CachedList(NamedTuple):
    """The rows of a scope in order, and the whole list as JSON."""

    rows: list[Row]
    whole: bytes
    etag: str


Render = Callable[[Resource[Any, Any]], Rendered]
Affected = Callable[[Seen], Iterable[Name]]


def _nothing(seen: Seen) -> Iterable[Name]:
    return ()


class BodyCache:
    """The rendered bodies of one kind. `affected` names the objects whose bodies tell of an object of another kind."""

    def __init__(
        self, cache: Cache, kind: str, render: Render, affected: Affected = _nothing, *, newest_first: bool = False
    ) -> None:
        self.kind = kind
        self.newest_first = newest_first
        self._cache = cache
        self._render = render
        self._affected = affected
        self._rows: dict[Name, Row] = {}
        self._listings: dict[Scope, CachedList] = {}
        cache.listen(self._seen)

    def row(self, name: Name) -> Row | None:
        """The object of that namespace and name, or None."""
        row = self._rows.get(name)
        if row is None:
            resource = self._cache.resource(Ref(self.kind, *name))
            if resource is None:
                return None
            row = self._rows[name] = self._row(resource, name)
        return row

    def find(self, id_: str, namespace: str | None = None) -> Row | None:
        """The object with that `Resource.id`, or None. The REST id of a Region is its name: use `row`."""
        for name in self._cache.names(self.kind, namespace, f"id={id_}"):
            row = self.row(name)
            if row is not None and row.id == id_:
                return row
        return None

    def listing(self, scope: Scope) -> CachedList:
        """The list of that scope."""
        held = self._listings.get(scope)
        if held is None:
            held = self._listings[scope] = listing_of(self._ordered(self._cache.names(self.kind, *scope)))
        return held

    def filtered(self, scope: Scope, keys: Collection[str], holds: Callable[[Row], bool]) -> CachedList:
        """The objects of a scope that have all of these index keys as well, and of which that holds; not kept."""
        names = set(self._cache.names(self.kind, *scope))
        for key in keys:
            names &= set(self._cache.names(self.kind, scope.namespace, key))
        return listing_of([row for row in self._ordered(names) if holds(row)])

    def _row(self, resource: Resource[Any, Any], name: Name) -> Row:
        rendered = self._render(resource)
        body = kept_json(rendered.body)
        etag = f'"{resource.metadata.generation}.{_digest(body)}"'
        return Row(rendered.created, rendered.id, body, etag, name, rendered.shown)

    def _ordered(self, names: Iterable[Name]) -> list[Row]:
        found = (self.row(name) for name in names)
        rows = [row for row in found if row is not None and row.shown]
        rows.sort(key=lambda row: row.key, reverse=self.newest_first)
        return rows

    def _seen(self, seen: Seen) -> None:
        if seen.ref.kind == self.kind:
            self._drop((seen.ref.namespace, seen.ref.name))
            # Who else wants its id may have it now.
            for key in seen.keys:
                if key.startswith("id="):
                    self._drop_all(self._cache.names(self.kind, by=key))
            self._forget_lists(seen)
        else:
            self._drop_all(self._affected(seen))

    def _forget_lists(self, seen: Seen) -> None:
        for by in ("", *seen.keys):
            for namespace in (None, seen.ref.namespace):
                self._listings.pop(Scope(namespace, by), None)

    def _drop_all(self, names: Iterable[Name]) -> None:
        dropped = [self._drop(name) for name in list(names)]
        if any(dropped):
            self._listings.clear()

    def _drop(self, name: Name) -> bool:
        return self._rows.pop(name, None) is not None


def listing_of(rows: list[Row]) -> CachedList:
    """The list of those rows."""
    whole = joined(rows)
    return CachedList(rows, whole, f'"{_digest(whole)}"')


def joined(rows: Iterable[Row]) -> bytes:
    """A JSON array of prepared bodies."""
    return b"[" + b",".join([row.body for row in rows]) + b"]"


def _digest(raw: bytes) -> str:
    return hashlib.blake2b(raw, digest_size=12).hexdigest()
