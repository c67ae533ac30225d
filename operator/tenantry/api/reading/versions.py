"""Tenantry-Version: sent with every write. A read that names it waits until the cache has that version."""

from __future__ import annotations

from starlette.requests import Request

from tenantry.api.reading.waiting import until
from tenantry.model.resource import Document
from tenantry.rest.bodies import header_of, invalid
from tenantry.runtime.cache import Cache, Seen

HEADER = "Tenantry-Version"
PATIENCE_S = 2.0
LONGEST = 80
FORGOTTEN_AT = 1000


class Versions:
    """The version of the cache, by kind."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._highest: dict[str, int] = {}
        self._given_up: set[str] = set()
        cache.listen(self._seen)

    def headers(self, document: Document) -> dict[str, str]:
        """Return the headers of the answer to a write of this process."""
        kind, version = document["kind"], document["metadata"]["resourceVersion"]
        self._highest[kind] = max(int(version), self._highest.get(kind, 0))
        told = f"{kind}.{version}"
        return {HEADER: told, "Set-Cookie": f"{HEADER}={told}; Path=/; HttpOnly; SameSite=Strict"}

    async def reached(self, request: Request) -> None:
        """Returns once the version that the request names is seen, or patience ends. Raises Invalid for a bad header."""
        named = header_of(request, b"tenantry-version")
        if named is None:
            if HEADER not in (header_of(request, b"cookie") or ""):
                return
            named = request.cookies.get(HEADER, "")
            if not _well_formed(named):
                return
        if not _well_formed(named):
            raise invalid(HEADER, "is not a version that this server gave")
        kind, _, version = named.partition(".")
        if self._highest.get(kind, 0) < int(version) and named not in self._given_up:
            await self._wait(named, kind, int(version))

    async def _wait(self, named: str, kind: str, version: int) -> None:
        def seen() -> bool | None:
            return True if self._highest.get(kind, 0) >= version else None

        if await until(self._cache, seen, lambda change: change.ref.kind == kind, PATIENCE_S):
            return
        # A version of before a restart whose object is gone will never be seen.
        if len(self._given_up) >= FORGOTTEN_AT:
            self._given_up.clear()
        self._given_up.add(named)

    def _seen(self, seen: Seen) -> None:
        entry = seen.after or seen.before
        if entry is not None and entry.version > self._highest.get(seen.ref.kind, 0):
            self._highest[seen.ref.kind] = entry.version


def _well_formed(named: str) -> bool:
    kind, _, version = named.partition(".")
    return len(named) <= LONGEST and kind.isalpha() and version.isascii() and version.isdecimal()
