"""The disk that packages may take while they are on their way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tenantry.adapters.fetching.downloads import failed


class Room:
    """So many bytes for all together, of which a tenant has at most half: nobody's packages fill the disk, or keep others out."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._held: Counter[str] = Counter()

    @contextmanager
    def part(self, tenant: str) -> Iterator[Callable[[int], None]]:
        """Takes more bytes by each call, which raises a Transient Halt (FetchFailed) where there is no room; gives all back."""
        taken = 0

        def take(size: int) -> None:
            nonlocal taken
            if self._held[tenant] + size > self._size // 2 or self._held.total() + size > self._size:
                raise failed("there is no room for it while other packages are being fetched; it is tried again")
            self._held[tenant] += size
            taken += size

        try:
            yield take
        finally:
            self._held[tenant] -= taken
