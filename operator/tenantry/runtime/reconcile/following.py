"""The reads of each pass, so that a change wakes the pass again: objects, absent objects, and lists by index key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar, cast

from tenantry.model.resource import Ref, Resource
from tenantry.runtime.cache import Cache, Seen
from tenantry.runtime.multimap import Multimap, trimmed

R = TypeVar("R", bound=Resource[Any, Any])


class Listing(NamedTuple):
    """A list that was read. namespace None: all; by `""`: the whole kind."""

    kind: str
    namespace: str | None
    by: str


Followed = Ref | Listing


class TrackedView:
    """View over the cache that remembers what was read."""

    def __init__(
        self,
        cache: Cache,
        on_read: Callable[[Followed], None] = lambda _: None,
        complete: Callable[[], bool] = lambda: True,
    ) -> None:
        self._cache = cache
        self.complete = complete
        self._on_read = on_read
        self.followed: set[Followed] = set()

    def get(self, kind: type[R], namespace: str, name: str) -> R | None:
        ref = Ref(kind.KIND, namespace, name)
        self._reads(ref)
        return cast("R | None", self._cache.resource(ref))

    def list(self, kind: type[R], namespace: str | None = None, by: str = "") -> tuple[R, ...]:
        self._reads(Listing(kind.KIND, namespace, by))
        return cast("tuple[R, ...]", tuple(self._cache.resources(kind.KIND, namespace, by)))

    def count(self, kind: type[R], namespace: str | None = None, by: str = "") -> int:
        self._reads(Listing(kind.KIND, namespace, by))
        return self._cache.count(kind.KIND, namespace, by)

    def names(self, kind: type[R], by: str) -> tuple[tuple[str, str], ...]:
        self._reads(Listing(kind.KIND, None, by))
        return tuple(self._cache.names(kind.KIND, by=by))

    def peek(self, ref: Ref) -> dict[str, Any] | None:
        """The JSON of any cached object, tracked: what a SecretView reads through."""
        self._reads(ref)
        return self._cache.document(ref)

    def _reads(self, what: Followed) -> None:
        if what not in self.followed:
            # Noted before the read: a change during the pass must wake it as well.
            self.followed.add(what)
            self._on_read(what)


class Following:
    """The readers of each object. What is kept of one object is small: there are as many as objects."""

    def __init__(self) -> None:
        self._followed: dict[Ref, tuple[Followed, ...]] = {}
        self._running: dict[Ref, set[Followed]] = {}
        """More, by objects whose passes run."""
        self._followers: Multimap[Followed, Ref] = Multimap()

    def also(self, follower: Ref, followed: Followed) -> None:
        """Adds to what `follower` follows, while its pass runs."""
        if followed != follower:
            self._running.setdefault(follower, set()).add(followed)
            self._followers.add(followed, follower)

    def follow(self, follower: Ref, followed: set[Followed]) -> None:
        """Replaces what `follower` follows."""
        fresh = followed - {follower}
        before = self._followed.get(follower, ())
        stale = self._running.pop(follower, set[Followed]()).union(before)
        for one in stale - fresh:
            self._followers.discard(one, follower)
        for one in fresh - stale:
            self._followers.add(one, follower)
        if not fresh:
            self._followed.pop(follower, None)
            self._followed = trimmed(self._followed)
        elif len(fresh) != len(before) or not fresh.issuperset(before):
            self._followed[follower] = tuple(fresh)

    def woken_by(self, seen: Seen) -> Iterator[tuple[Ref, bool]]:
        """Yield the readers that a change wakes, and True for a list. The pass that made the change is left out."""
        kind, namespace, _ = seen.ref
        for follower in tuple(self._followers.get(seen.ref)):
            if follower != seen.origin:
                yield follower, False
        followers = self._followers
        for by in ("", *seen.keys):
            for scope in (namespace, None):
                # A plain tuple is the same key as a Listing, and made in a fifth of the time; this runs at every write.
                listing: Any = (kind, scope, by)
                if listing in followers:
                    for follower in tuple(followers.get(listing)):
                        if follower != seen.origin:
                            yield follower, True
