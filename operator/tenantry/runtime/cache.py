"""The objects as last seen, as JSON bytes with the index keys by which lists find them.

Own writes are absorbed at once and events never take an object back to an older version, so a reader sees its own writes.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import orjson

from tenantry.model.resource import REQUEST_KEY, Document, Ref, Resource, is_ready, kept_json, ref_of
from tenantry.runtime.multimap import Multimap, trimmed


class Entry(NamedTuple):
    """One object: its JSON, its version and what indexes it. face: a hash of what those who read the object go by.

    ready: see is_ready. keys: no two alike. A set of them would take six times as much room, and there are as many as objects.
    """

    raw: bytes
    version: int
    uid: str
    keys: tuple[str, ...]
    face: int = 0
    ready: bool = False

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = orjson.loads(self.raw)
        return document


class Seen(NamedTuple):
    """One change of the cache. `before` and `after` are None for an object that was or is absent.

    document: `after` as it came, so that listeners need not parse it again.
    """

    ref: Ref
    before: Entry | None
    after: Entry | None
    origin: Ref | None
    document: Document | None = None

    @property
    def matters(self) -> bool:
        """Return True if there is news for readers of the object."""
        return self.before is None or self.after is None or self.before.face != self.after.face

    @property
    def keys(self) -> frozenset[str]:
        """Every index key under which a list may have changed."""
        return frozenset((*(self.before.keys if self.before else ()), *(self.after.keys if self.after else ())))


Listener = Callable[[Seen], None]
Name = tuple[str, str]


class Cache:
    """Objects by kind, namespace and name, with an inverted index. Not thread-safe: it belongs to one event loop."""

    def __init__(self, kinds: Mapping[str, type[Resource[Any, Any]]]) -> None:
        self._kinds = kinds
        self._entries: dict[str, dict[Name, Entry]] = {}
        self._index: Multimap[tuple[str, str], Name] = Multimap()
        self._by_namespace: Multimap[tuple[str, str], Name] = Multimap()
        self._gone: dict[Ref, int] = {}
        self._parsed: OrderedDict[Ref, tuple[int, Resource[Any, Any]]] = OrderedDict()
        self._listeners: list[Listener] = []
        self.confirmed: set[str] = set()
        """The uids that the store has shown to this process by itself, and that only a pass of ours lets go."""

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener` after every change, until the returned function is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def knows(self, ref: Ref, version: int) -> bool:
        """Return True if the object is held at that version or a newer one."""
        held = self._entries.get(ref.kind, {}).get((ref.namespace, ref.name))
        return held is not None and version <= held.version

    def absorb(self, document: Document, origin: Ref | None = None) -> None:
        """Takes a version in, unless a newer one (or the deletion) is known. `origin`: the pass that wrote it."""
        ref = ref_of(document)
        version = int(document["metadata"]["resourceVersion"])
        before = self._entries.get(ref.kind, {}).get((ref.namespace, ref.name))
        if version <= self._gone.get(ref, -1) or (before is not None and version <= before.version):
            return
        after = self._entry_of(ref, document, version)
        self._replace(ref, before, after)
        self._tell(Seen(ref, before, after, origin, document))

    def remove(self, document: Document, origin: Ref | None = None) -> None:
        """Takes the removal of an object in. `document` is its last version."""
        ref = ref_of(document)
        version = int(document["metadata"]["resourceVersion"])
        before = self._entries.get(ref.kind, {}).get((ref.namespace, ref.name))
        self._gone[ref] = max(version, self._gone.get(ref, -1))
        if before is None or before.version > version:
            return
        self._replace(ref, before, None)
        self._tell(Seen(ref, before, None, origin))

    def settle(self, ref: Ref) -> None:
        """Forget a removal once the feed has reported it: no older event can follow."""
        self._gone.pop(ref, None)

    def sweep(self, kind: str, there: Container[Name], version: int) -> None:
        """Removes what is not on a complete list of that version. there: the namespaces and names of the list.

        What is newer than the list stays: our own writes are absorbed while it is under way.
        """
        held = self._entries.get(kind, {}).items()
        for entry in [entry for name, entry in held if name not in there and entry.version <= version]:
            self.remove(entry.document())

    def entry(self, ref: Ref) -> Entry | None:
        """The object's entry, or None."""
        return self._entries.get(ref.kind, {}).get((ref.namespace, ref.name))

    def document(self, ref: Ref) -> dict[str, Any] | None:
        """The object's JSON, or None."""
        entry = self.entry(ref)
        return entry.document() if entry else None

    def resource(self, ref: Ref) -> Resource[Any, Any] | None:
        """The typed object, or None. Kinds without a type have none."""
        entry = self.entry(ref)
        return self._parse(ref, entry) if entry else None

    def names(self, kind: str, namespace: str | None = None, by: str = "") -> Iterator[Name]:
        """The (namespace, name) pairs of a list; see View.list."""
        return iter(self._names(kind, namespace, by))

    def entries(self, kind: str, namespace: str | None = None, by: str = "") -> Iterator[tuple[Ref, Entry]]:
        """The entries of a list."""
        held = self._entries.get(kind, {})
        for name in self.names(kind, namespace, by):
            yield Ref(kind, *name), held[name]

    def resources(self, kind: str, namespace: str | None = None, by: str = "") -> Iterator[Resource[Any, Any]]:
        """The typed objects of a list."""
        names = self._names(kind, namespace, by)
        if not names:
            return iter(())
        held = self._entries[kind]
        return (self._parse(Ref(kind, *name), held[name]) for name in names)

    def count(self, kind: str, namespace: str | None = None, by: str = "") -> int:
        """Return the length of a list."""
        return len(self._names(kind, namespace, by))

    def drop_typed(self) -> None:
        """Give back the room of the typed objects. Whoever needs one makes it anew."""
        self._parsed = OrderedDict()

    def snapshot(self) -> Callable[[], Cache]:
        """Return the way to independent copies of what is held now, without listeners. Each takes long, and may be made in a
        thread."""
        held = {kind: entries.copy() for kind, entries in self._entries.items()}
        return partial(_filled, self._kinds, held)

    def _names(self, kind: str, namespace: str | None, by: str) -> Collection[Name]:
        if namespace is None:
            return self._index.get((kind, by)) if by else self._entries.get(kind, ())
        inside = self._by_namespace.get((kind, namespace))
        if not by or not inside:
            return inside
        indexed = self._index.get((kind, by))
        if not indexed:
            return ()
        # The smaller set is walked: a slug such as `dev` may be in every namespace.
        few, many = (inside, indexed) if len(inside) < len(indexed) else (indexed, inside)
        return [name for name in few if name in many]

    def _parse(self, ref: Ref, entry: Entry) -> Resource[Any, Any]:
        held = self._parsed.get(ref)
        if held is not None and held[0] == entry.version:
            return held[1]
        resource = self._kinds[ref.kind].model_validate_json(entry.raw)
        self._hold(ref, entry.version, resource)
        return resource

    def _hold(self, ref: Ref, version: int, resource: Resource[Any, Any]) -> None:
        """Keeps a typed object for a while: passes read what has just been written."""
        self._parsed.pop(ref, None)
        if len(self._parsed) >= PARSED:
            self._parsed.popitem(last=False)
        self._parsed[ref] = (version, resource)

    def _entry_of(self, ref: Ref, document: Document, version: int) -> Entry:
        type_ = self._kinds.get(document["kind"])
        raw, uid = kept_json(document), document["metadata"]["uid"]
        if type_ is None:
            return Entry(raw, version, uid, (), version)
        keys = type_.plain_keys(document)
        if keys is None:
            resource = type_.model_validate(document)
            self._hold(ref, version, resource)
            keys = resource.index_keys() | {f"id={resource.id}"}
        keys |= {f"id={uid}"}
        request = (document["metadata"].get("annotations") or {}).get(REQUEST_KEY)
        if request:
            keys |= {f"request={request}"}
        # Most keys are those of many objects: one string of each is enough.
        return Entry(raw, version, uid, tuple(map(sys.intern, keys)), _face(document, type_.UNFOLLOWED), is_ready(document))

    def _replace(self, ref: Ref, before: Entry | None, after: Entry | None) -> None:
        name = (sys.intern(ref.namespace), ref.name)
        entries = self._entries.setdefault(ref.kind, {})
        left, joined = frozenset(before.keys if before else ()), frozenset(after.keys if after else ())
        for key in left - joined:
            self._index.discard((ref.kind, key), name)
        if after is None:
            entries.pop(name, None)
            self._entries[ref.kind] = trimmed(entries)
            self._parsed.pop(ref, None)
            self._by_namespace.discard((ref.kind, ref.namespace), name)
            return
        entries[name] = after
        if before is None:
            self._by_namespace.add((ref.kind, ref.namespace), name)
        for key in joined - left:
            self._index.add((ref.kind, key), name)

    def _tell(self, seen: Seen) -> None:
        for listener in tuple(self._listeners):
            listener(seen)


def _filled(kinds: Mapping[str, type[Resource[Any, Any]]], held: Mapping[str, dict[Name, Entry]]) -> Cache:
    copy = Cache(kinds)
    copy._entries = {kind: entries.copy() for kind, entries in held.items()}
    for kind, entries in held.items():
        for name, entry in entries.items():
            copy._by_namespace.add((kind, name[0]), name)
            for key in entry.keys:
                copy._index.add((kind, key), name)
    return copy


def _face(document: Document, unfollowed: frozenset[str]) -> int:
    metadata = document["metadata"]
    followed = {key: value for key, value in document.get("status", {}).items() if key not in unfollowed}
    about = (metadata.get("labels"), metadata.get("annotations"), metadata.get("deletionTimestamp"), document.get("data"))
    return hash(orjson.dumps((document.get("spec"), about, followed)))


# Typed objects are kept for what every pass reads (regions, tenants) and for what was just written; holding all would cost ten
# times their JSON.
PARSED = 256
