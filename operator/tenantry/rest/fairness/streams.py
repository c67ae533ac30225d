"""Answers that last: how many of them a process, a tenant and an engine may have at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tenantry.model.verdicts import Halt, Transient


@dataclass(frozen=True)
class Most:
    """The limits: of the process, of one tenant, of one engine."""

    in_all: int
    of_tenant: int
    of_engine: int


class TooManyStreams(Halt):
    """Another stream is refused until one ends."""

    def __init__(self, whose: str, most: int) -> None:
        super().__init__(Transient("TooManyRequests", f"{most} streams of {whose} are open already; try again later"))


class Streams:
    """Counts the streams that are open. Belongs to one event loop."""

    def __init__(self, most: Most) -> None:
        self._most = most
        self._open: Counter[tuple[str, ...]] = Counter()

    def enter(self, tenant: str, engine: str) -> Callable[[], None]:
        """Take a place. Return the call that gives it back, which may be made twice. Raises TooManyStreams."""
        limits = {
            (): (self._most.in_all, "this server"),
            (tenant,): (self._most.of_tenant, "this tenant"),
            (tenant, engine): (self._most.of_engine, "this environment"),
        }
        for key, (most, whose) in limits.items():
            if self._open[key] >= most:
                raise TooManyStreams(whose, most)
        self._open.update(limits.keys())
        left = False

        def leave() -> None:
            nonlocal left
            if not left:
                left = True
                self._open.subtract(limits.keys())
                for key in limits:
                    if not self._open[key]:
                        del self._open[key]

        return leave
