"""Locks of tables on PostgreSQL, where others wait behind a migration that waits: how many it needs, and for how long it tries.

SQLite locks the whole file, and only while nobody else writes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from tenantry.engine.database import Locked, bound_lock_waits, halt_of
from tenantry.engine.migration.plan import Plan

WAIT_S = 2.0
"""Seconds at a stretch that others wait behind a migration that waits for its locks.

More than deadlock_timeout (1 s): only then the server ends an autovacuum that is in the way.
"""
EXCLUSIVE = "ACCESS EXCLUSIVE"
SHARED_WITH_READERS = "SHARE ROW EXCLUSIVE"
_HOLDERS = """
SELECT a.pid, a.usename, a.application_name, a.state, extract(epoch FROM clock_timestamp() - a.xact_start)
FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.granted AND l.pid <> pg_backend_pid() AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND l.relation = to_regclass(:table) ORDER BY a.xact_start NULLS LAST LIMIT 1
"""
_OLDEST = """
SELECT pid, usename, application_name, state, extract(epoch FROM clock_timestamp() - xact_start) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND datname = current_database() AND (xact_start IS NOT NULL OR state IS NULL)
ORDER BY xact_start NULLS LAST LIMIT 1
"""


class TableLocked(Locked):
    """Another transaction uses a table that a migration must lock."""

    def __init__(self, table: str, holder: str) -> None:
        super().__init__(f"table {table} is used by {holder}")


def keep_others_out(connection: sa.Connection, tables: Mapping[str, str]) -> None:
    """Keep others from writing those tables until this transaction ends: a count stays true. tables: the mode of each.

    All locks together are waited for at most WAIT_S. Raises TableLocked.
    """
    if connection.dialect.name != "postgresql":
        return
    end = time.monotonic() + WAIT_S
    for name in sorted(tables):
        bound_lock_waits(connection, end - time.monotonic())
        _lock(connection, name, tables[name])
    bound_lock_waits(connection, WAIT_S)


def needed(connection: sa.Connection, plan: Plan, declared: sa.MetaData) -> dict[str, str]:
    """The present tables that a plan locks, with the mode of each: all at once, so that none is held while another is waited for.

    An added index needs no lock before its statement, an added foreign key leaves readers alone.
    """
    if connection.dialect.name != "postgresql":
        return {}
    referring = [change for change in plan.changed if change.new_references]
    parents = {key.referred_table.name for name in plan.added for key in declared.tables[name].foreign_key_constraints}
    parents = parents.union(*(change.new_references for change in referring)).difference(plan.added)
    shared = (*parents, *(change.after.name for change in referring))
    altered = [change.after.name for change in plan.changed if not change.adds_only]
    keys = sa.inspect(connection).get_multi_foreign_keys().items()
    edges = [{name, str(key["referred_table"])} for (_, name), found in keys for key in found]
    # Their foreign keys are dropped and made again, and so both ends are locked.
    neighbours = frozenset().union(*(edge for edge in edges if edge & plan.moved))
    exclusive = {*map(plan.present, altered), *plan.moved, *neighbours}
    return dict.fromkeys(map(plan.present, shared), SHARED_WITH_READERS) | dict.fromkeys(exclusive, EXCLUSIVE)


def _lock(connection: sa.Connection, table: str, mode: str) -> None:
    quoted = connection.dialect.identifier_preparer.quote(table)
    try:
        with connection.begin_nested():
            connection.exec_driver_sql(f"LOCK TABLE {quoted} IN {mode} MODE")
    except DBAPIError as error:
        if isinstance(halt_of(error), Locked):
            raise TableLocked(table, holder(connection, quoted)) from error
        raise


def holder(connection: sa.Connection, quoted: str) -> str:
    """The session that has used a table for the longest time, as words. Other users' times are hidden from most roles."""
    return _told(connection.execute(sa.text(_HOLDERS), {"table": quoted}).first())


def oldest(connection: sa.Connection) -> str:
    """The session of the oldest transaction of the database, as words."""
    return _told(connection.execute(sa.text(_OLDEST)).first())


def _told(row: sa.Row[Any] | None) -> str:
    if row is None or row[0] is None:
        return "a session that has ended since"
    pid, user, program, state, seconds = tuple(row)
    named = f"session {pid} of {user or 'another user'}" + (f" ({program})" if program else "")
    since = f", {state} for {float(seconds):.0f} s" if seconds is not None and state else ""
    return f"{named}{since}; pg_terminate_backend({pid}) ends it"
