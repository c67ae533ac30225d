"""The table of failed sign-ins in the pool's own database. It holds keyed hashes, and no name and no address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tenantry.adapters.pools.shared.short_statements import ShortStatements
from tenantry.rest.auth.failures import FORGOTTEN_S, NEVER, Guesser, Tally, of_name, of_place

if TYPE_CHECKING:
    from tenantry.adapters.pools.shared.catalog import Connection

KEPT = 2000
"""Usernames with addresses, and addresses, that are kept of an engine. Those that failed longest ago are removed first."""
SPARE = 100
"""More of them that each replica may add before it removes some."""
_LOOK = """
SELECT extract(epoch FROM clock_timestamp())::float8, who, failures, last, until
FROM (VALUES (1)) AS one LEFT JOIN guesses ON engine = %s AND who = ANY(%s)
"""
_ADD = "INSERT INTO guesses (engine, who, failures, last, until) VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
_CHANGE = """
UPDATE guesses SET failures = %s, last = %s, until = %s WHERE engine = %s AND who = %s AND (failures, last, until) = (%s, %s, %s)
"""
_ENGINES = """
WITH RECURSIVE each AS (
    (SELECT engine FROM guesses ORDER BY engine LIMIT 1)
    UNION ALL
    SELECT (SELECT engine FROM guesses WHERE engine > each.engine ORDER BY engine LIMIT 1) FROM each WHERE each.engine IS NOT NULL
)
SELECT engine FROM each WHERE engine IS NOT NULL
"""
_LONG_AGO = """
DELETE FROM guesses WHERE engine = %s AND who IN (SELECT who FROM guesses WHERE engine = %s ORDER BY last DESC OFFSET %s)
"""


class Looked(NamedTuple):
    """Rows as they are. now: the time of the server, by which they count; name, place: None where nothing failed of late.

    before: the row of the username before this attempt was counted in `name`, None if it was not counted.
    """

    now: float
    name: Tally | None
    place: Tally | None
    before: Tally | None = None


class HeldBack(NamedTuple):
    """Those who have to wait. now: the time of the server."""

    now: float
    tallies: Sequence[tuple[bytes, Tally]]


class GuessTable(ShortStatements):
    """Blocks; for one thread. Its calls raise a Transient Halt (PoolServerUnreachable)."""

    def __init__(self, url: str, clock: Callable[[], float] | None = None) -> None:
        """url: of the pool's own database. clock: instead of the server's, in seconds."""
        super().__init__(url)
        self._clock = clock
        self._added: Counter[str] = Counter()
        self.guessed: frozenset[str] | None = None
        """The engines with failures of late; None before the first look."""

    def claim(self, who: Guesser, *, known: bool) -> Looked:
        """Count an attempt as a failure before it is made, if the username failed of late and neither it nor the address has to
        wait. known: the address does not count. So of several replicas at once, one makes the attempt."""
        while True:
            looked = self._look(who)
            held = looked.name
            waits = max(_until(held), NEVER if known else _until(looked.place)) > looked.now
            if held is None or waits:
                return looked
            counted = of_name(held, looked.now)
            if self._put(who, who.name, held, counted):
                return looked._replace(name=counted, before=held)

    def count(self, who: Guesser, *, counted: bool) -> Looked:
        """Count a failure, by its username unless that was counted ahead, and by its address. Return what is there then."""
        if self.guessed is not None:
            self.guessed |= {who.realm}
        looked = self._look(who)
        name = looked.name if counted else self._counted(who, looked, who.name, of_name)
        return looked._replace(name=name, place=self._counted(who, looked, who.place, of_place))

    def release(self, who: Guesser, before: Tally, counted: Tally) -> None:
        """Take back what was counted ahead, unless more was counted since."""
        self._put(who, who.name, counted, before)

    def forget(self, who: Guesser) -> None:
        """Remove the failures of a username from an address."""
        with self._asking() as connection:
            connection.execute("DELETE FROM guesses WHERE engine = %s AND who = %s", (who.realm, who.name))

    def waiting(self) -> HeldBack:
        """Return who has to wait now, and look which engines have failures."""
        with self._asking() as connection:
            self.guessed = frozenset(engine for (engine,) in connection.execute(_ENGINES).fetchall())
            now = self._now(connection)
            rows = connection.execute("SELECT who, failures, last, until FROM guesses WHERE until > %s", (now,)).fetchall()
        return HeldBack(now, [(who, Tally(*tally)) for who, *tally in rows])

    def sweep(self) -> None:
        """Remove what does not count any more, and what is too much."""
        with self._asking() as connection:
            now = self._now(connection)
            connection.execute("DELETE FROM guesses WHERE last < %s AND until < %s", (now - FORGOTTEN_S, now))
            engines = connection.execute(_ENGINES).fetchall()
        for (engine,) in engines:
            self._trim(engine)

    def _look(self, who: Guesser) -> Looked:
        with self._asking() as connection:
            rows = connection.execute(_LOOK, (who.realm, [who.name, who.place])).fetchall()
        found = {key: Tally(*tally) for _, key, *tally in rows if key is not None}
        now = rows[0][0] if self._clock is None else self._clock()
        return Looked(now, found.get(who.name), found.get(who.place))

    def _counted(self, who: Guesser, looked: Looked, key: bytes, rule: Callable[[Tally, float], Tally]) -> Tally:
        """Return the row of that key after one more failure. looked: what may have changed since."""
        while True:
            held = looked.name if key == who.name else looked.place
            after = rule(held or Tally(), looked.now)
            if self._put(who, key, held, after):
                return after
            looked = self._look(who)

    def _put(self, who: Guesser, key: bytes, before: Tally | None, after: Tally) -> bool:
        """Return False, and change nothing, if another replica changed the row. before: the row as it was seen, or none."""
        with self._asking() as connection:
            if before is not None:
                return connection.execute(_CHANGE, (*after, who.realm, key, *before)).rowcount == 1
            added = connection.execute(_ADD, (who.realm, key, *after)).rowcount == 1
        self._added[who.realm] += added
        if self._added[who.realm] >= SPARE:
            self._trim(who.realm)
        return added

    def _trim(self, engine: str) -> None:
        with self._asking() as connection:
            connection.execute(_LONG_AGO, (engine, engine, KEPT))
        self._added.pop(engine, None)

    def _now(self, connection: Connection) -> float:
        if self._clock is not None:
            return self._clock()
        row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        assert row is not None
        return float(row[0])


def _until(tally: Tally | None) -> float:
    return tally.until if tally is not None else NEVER
