"""The log of changed rows: the key of each, in the transaction that changed it. Written by triggers (triggers.py).

A table is logged from its first listener on. An epoch is one life of a table: an install, the end of its data and a restore begin
another, so that an id of an old one is never taken for a new one's.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tenantry.engine.data.exposure import Exposed
from tenantry.engine.data.live import triggers
from tenantry.engine.data.live.triggers import CHANGES, KEPT, LIVE
from tenantry.engine.database import bound_lock_waits, one_at_a_time
from tenantry.engine.migration.tables import prefix_of

LOCK_S = 1.0
"""The wait for writers of a table that is to be logged: others queue behind."""
_ID = re.compile(r"([0-9a-f]{16})-([0-9]{1,18})", re.ASCII)
_METADATA = sa.MetaData()
_LIVE = sa.Table(
    LIVE,
    _METADATA,
    sa.Column("tbl", sa.String(128), primary_key=True),
    sa.Column("epoch", sa.String(16), nullable=False),
    sa.Column("start", sa.BigInteger, nullable=False),
)
_CHANGES = sa.Table(
    CHANGES,
    _METADATA,
    sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("tbl", sa.String(128), nullable=False),
    sa.Column("op", sa.String(1), nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sqlite_autoincrement=True,
)

_WRITERS = """
SELECT virtualtransaction FROM pg_locks
WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND granted AND relation = to_regclass(%s)
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@dataclass(frozen=True)
class Epoch:
    """A table in one epoch. start: the position in the log at which it begins."""

    exposed: Exposed
    id: str
    start: int


@dataclass(frozen=True)
class Change:
    """One changed row. table: as the database names it; op: i, u or d; key: as triggers.py encodes it."""

    seq: int
    table: str
    op: str
    key: str


def find(connection: sa.Connection, exposed: Exposed) -> Epoch | None:
    """The epoch of a table, None if nobody has listened to it yet."""
    if not triggers.has_table(connection, LIVE):
        return None
    row = connection.execute(sa.select(_LIVE.c.epoch, _LIVE.c.start).where(_LIVE.c.tbl == exposed.table.name)).first()
    return None if row is None else Epoch(exposed, row.epoch, row.start)


def begin(connection: sa.Connection, exposed: Exposed) -> Epoch:
    """Log a table from now on, in a transaction that writes. Raises Locked."""
    one_at_a_time(connection, "live")
    known = find(connection, exposed)
    if known is not None:
        return known
    _METADATA.create_all(connection)
    if connection.dialect.name == "postgresql":
        bound_lock_waits(connection, LOCK_S)
    triggers.install(connection, exposed)
    # No writer of this table is under way: the trigger has waited for the last one.
    epoch = Epoch(exposed, secrets.token_hex(8), last(connection))
    connection.execute(_LIVE.insert().values(tbl=exposed.table.name, epoch=epoch.id, start=epoch.start))
    return epoch


def forget(connection: sa.Connection, app: str) -> None:
    """End the epochs of an app's tables, in the transaction that changes these tables."""
    if not triggers.has_table(connection, LIVE):
        return
    prefix = prefix_of(app)
    names = [name for (name,) in connection.execute(sa.select(_LIVE.c.tbl)) if name.startswith(prefix)]
    triggers.remove(connection, names)
    for table in (_LIVE, _CHANGES):
        connection.execute(table.delete().where(table.c.tbl.in_(names)))


def last(connection: sa.Connection) -> int:
    """The position of the last change that was logged, also if it was undone or is under way."""
    if connection.dialect.name == "sqlite":
        query = f"SELECT seq FROM sqlite_sequence WHERE name = '{CHANGES}'"  # noqa: S608 - a constant
    else:
        query = f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {CHANGES}_seq_seq"  # noqa: S608 - a constant
    return int(connection.exec_driver_sql(query).scalar() or 0)


def epochs(connection: sa.Connection) -> frozenset[str]:
    """The epochs that have not ended."""
    return frozenset(connection.execute(sa.select(_LIVE.c.epoch)).scalars())


def read(connection: sa.Connection, after: int, most: int, until: int | None = None, table: str = "") -> list[Change]:
    """The changes behind a position, in order. until: the last position; table: only of this one."""
    query = sa.select(_CHANGES).where(_CHANGES.c.seq > after).order_by(_CHANGES.c.seq).limit(most)
    if until is not None:
        query = query.where(_CHANGES.c.seq <= until)
    if table:
        query = query.where(_CHANGES.c.tbl == table)
    return [Change(row.seq, row.tbl, row.op, row.key) for row in connection.execute(query)]


def writers(connection: sa.Connection) -> frozenset[str]:
    """The transactions under way that have written to the log. None on SQLite, which has one writer at a time."""
    if connection.dialect.name == "sqlite":
        return frozenset()
    return frozenset(connection.exec_driver_sql(_WRITERS, (CHANGES,)).scalars())


def id_of(epoch: str, position: int) -> str:
    """The id of an event."""
    return f"{epoch}-{position}"


def resumable(epoch: Epoch, given: str, position: int) -> int | None:
    """The position of an id that a client sends back, None if changes behind it may be missing. position: the last one."""
    found = _ID.fullmatch(given)
    if found is None or found[1] != epoch.id:
        return None
    at = int(found[2])
    return at if max(epoch.start, position - KEPT) <= at <= position else None


def passable(position: int, seqs: Sequence[int], dead: int | None) -> int:
    """Return the number of changes that nothing under way can precede. dead: a missing position that nobody fills any more.

    PostgreSQL gives positions before a transaction ends, so a lower one may appear later.
    """
    count = 0
    for seq in seqs:
        if position + 1 not in (seq, dead):
            break
        position, count = seq, count + 1
    return count
