"""Names that one object alone may hold: passes of two that want the same one come after each other."""

from __future__ import annotations

from collections.abc import Iterable

from tenantry.model.resource import Ref


class Claiming:
    """The claims of the passes that run, one table for each event loop.

    From its look at the rivals until its status is written, a pass has its claims to itself. The next one sees who took the name.
    """

    def __init__(self) -> None:
        self._held: dict[str, Ref] = {}
        self._turned_away: dict[Ref, dict[Ref, None]] = {}

    def begin(self, key: Ref, claims: Iterable[str]) -> bool:
        """Take these claims for a pass. False while a pass over another object has one; its `end` returns this key."""
        wanted = tuple(claims)
        for claim in wanted:
            holder = self._held.get(claim, key)
            if holder != key:
                self._turned_away.setdefault(holder, {})[key] = None
                return False
        self._held.update(dict.fromkeys(wanted, key))
        return True

    def end(self, key: Ref, claims: Iterable[str]) -> tuple[Ref, ...]:
        """Release the claims of a pass. Return the keys that it turned away, in their order."""
        for claim in claims:
            self._held.pop(claim, None)
        return tuple(self._turned_away.pop(key, ()))
