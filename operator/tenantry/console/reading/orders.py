"""Rows in the orders of lists. Each change keeps them in order, so that a page reads only the rows that it shows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from tenantry.console.reading.summary import EVERY_RANK, Key, Summary, by_age, by_name, by_urgency

URGENCY, NAME, AGE = "urgency", "name", "age"
KEYS: Mapping[str, Callable[[Summary], Key]] = {URGENCY: by_urgency, NAME: by_name, AGE: by_age}

MANY = 100
"""New rows from which on sorting all is faster than putting each in its place."""


class OrderedRows:
    """Rows of one kind, in each order."""

    def __init__(self, many: int = MANY) -> None:
        self._many = many
        self._rows: dict[str, Summary] = {}
        self._keys: dict[str, list[Key]] = {order: [] for order in KEYS}
        self._new: dict[str, list[Key]] = {order: [] for order in KEYS}
        self.counts: Counter[str] = Counter()

    @classmethod
    def of(cls, rows: Iterator[Summary]) -> OrderedRows:
        """Those rows in order."""
        made = cls()
        for row in rows:
            made.add(row)
        return made

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Summary]:
        return iter(self._rows.values())

    def add(self, row: Summary) -> None:
        """Add a row. Its uid is of no other row here."""
        self._rows[row.uid] = row
        for order, key in KEYS.items():
            self._new[order].append(key(row))
        self.counts[row.standing.state] += 1

    def remove(self, row: Summary) -> None:
        """Undo the `add` of that very row."""
        del self._rows[row.uid]
        for order, key in KEYS.items():
            keys = self._sorted(order)
            del keys[bisect_left(keys, key(row))]
        self.counts[row.standing.state] -= 1

    def ordered(self, order: str, *, after: Key | None = None, down: bool = False) -> Iterator[Summary]:
        """The rows whose keys follow that one, without those before them. down: the greatest first."""
        keys = self._sorted(order)
        first, last = 0, len(keys)
        if after is not None and down:
            last = bisect_left(keys, after)
        elif after is not None:
            first = bisect_right(keys, after)
        steps = range(last - 1, first - 1, -1) if down else range(first, last)
        return (self._rows[keys[step][2]] for step in steps)

    def ranked(self, ranks: range = EVERY_RANK, after: Key | None = None) -> Iterator[Summary]:
        """The rows of those ranks whose keys follow that one, the most urgent first."""
        keys = self._sorted(URGENCY)
        first, last = self._bounds(ranks)
        first = first if after is None else max(first, bisect_right(keys, after))
        return (self._rows[keys[step][2]] for step in range(first, last))

    def count(self, ranks: range) -> int:
        """The number of rows of those ranks."""
        first, last = self._bounds(ranks)
        return last - first

    def _sorted(self, order: str) -> list[Key]:
        """The keys with those that came since the last look: a few are put in place, many are sorted at once."""
        keys, new = self._keys[order], self._new[order]
        if len(new) > self._many:
            keys += new
            keys.sort()
        else:
            for key in new:
                insort(keys, key)
        new.clear()
        return keys

    def _bounds(self, ranks: range) -> tuple[int, int]:
        keys = self._sorted(URGENCY)
        return bisect_left(keys, (ranks.start, "", "")), bisect_left(keys, (ranks.stop, "", ""))
