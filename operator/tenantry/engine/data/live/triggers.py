"""Triggers that write the keys of changed rows to the log: also those that a foreign key deletes or empties.

They do nothing without the table's row in LIVE, so one that is left over can never refuse a write.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable

import sqlalchemy as sa

from tenantry.engine.data.exposure import Exposed
from tenantry.engine.data.reading.encoding import array_of

LIVE = "_tenantry_live"
CHANGES = "_tenantry_changes"
NAMES = (LIVE, CHANGES)
"""The tables of the log. No copy of a database holds them: it is another epoch."""
KEPT = 20_000
"""Changes that the log holds at least; older ones go, TRIMMED at a time."""
TRIMMED = 128
_OPERATIONS = {"i": ("INSERT", "new"), "u": ("UPDATE", "new"), "d": ("DELETE", "old")}


def has_table(connection: sa.Connection, name: str) -> bool:
    """Return True if there is a table of that name."""
    if connection.dialect.name == "sqlite":
        query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    else:
        # By a scan: to_regclass may answer from a cache, which does not show what others made while this transaction waited.
        query = "SELECT 1 FROM pg_class WHERE relname = %s AND relkind = 'r' AND pg_table_is_visible(oid)"
    return connection.exec_driver_sql(query, (name,)).first() is not None


def install(connection: sa.Connection, exposed: Exposed) -> None:
    """Make the triggers of a table. On PostgreSQL it waits for the table's writers."""
    statements = _of_sqlite(connection, exposed) if connection.dialect.name == "sqlite" else _of_postgresql(connection, exposed)
    for statement in statements:
        connection.exec_driver_sql(statement)


def remove(connection: sa.Connection, tables: Iterable[str]) -> None:
    """Drop the triggers on SQLite, which are part of a table's text there. On PostgreSQL they need a lock, and stay."""
    if connection.dialect.name != "sqlite":
        return
    quote = connection.dialect.identifier_preparer.quote_identifier
    for table in tables:
        for op in _OPERATIONS:
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {quote(f'{LIVE}_{op}_{table}')}")


def remove_log(copy: sqlite3.Connection) -> None:
    """Take the log out of a copy of a SQLite database."""
    names = copy.execute(f"SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE '{LIVE}%'").fetchall()  # noqa: S608
    for (name,) in names:
        copy.execute(f'DROP TRIGGER "{name}"')
    for name in NAMES:
        copy.execute(f"DROP TABLE IF EXISTS {name}")


def _key(exposed: Exposed, row: str, connection: sa.Connection) -> str:
    """The key of the row `new` or `old`, encoded, as SQL."""
    table = sa.table(row, *(sa.column(name, exposed.table.c[name].type) for name in exposed.key))
    array = array_of([exposed.columns[name] for name in exposed.key], table, (), connection.dialect.name)
    return str(array.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True}))


_TRIGGER = """
CREATE TRIGGER {trigger} AFTER {event} ON {table} WHEN EXISTS (SELECT 1 FROM {live} WHERE tbl = '{name}')
BEGIN INSERT INTO {changes} (tbl, op, key) VALUES ('{name}', '{op}', {key}); END
"""


def _of_sqlite(connection: sa.Connection, exposed: Exposed) -> list[str]:
    quote, name = connection.dialect.identifier_preparer.quote_identifier, exposed.table.name
    statements = []
    for op, (event, row) in _OPERATIONS.items():
        trigger, key = quote(f"{LIVE}_{op}_{name}"), _key(exposed, row, connection)
        statements.append(f"DROP TRIGGER IF EXISTS {trigger}")
        given = {"trigger": trigger, "event": event, "table": quote(name), "name": name, "op": op, "key": key}
        statements.append(_TRIGGER.format(live=LIVE, changes=CHANGES, **given))
    trim = f"DELETE FROM {CHANGES} WHERE seq <= new.seq - {KEPT}"  # noqa: S608 - constants
    statements.append(
        f"CREATE TRIGGER IF NOT EXISTS {LIVE}_trim AFTER INSERT ON {CHANGES} WHEN new.seq % {TRIMMED} = 0 BEGIN {trim}; END"
    )
    return statements


_FUNCTION = """
CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $function$
DECLARE
  changed text;
  place bigint;
BEGIN
  IF NOT EXISTS (SELECT FROM {schema}.{live} WHERE tbl = TG_TABLE_NAME) THEN RETURN NULL; END IF;
  IF TG_OP = 'DELETE' THEN changed := CAST({old} AS TEXT); ELSE changed := CAST({new} AS TEXT); END IF;
  INSERT INTO {schema}.{changes} (tbl, op, key) VALUES (TG_TABLE_NAME, lower(left(TG_OP, 1)), changed) RETURNING seq INTO place;
  IF mod(place, {trimmed}) = 0 THEN
    DELETE FROM {schema}.{changes} WHERE seq IN
      (SELECT seq FROM {schema}.{changes} WHERE seq <= place - {kept} ORDER BY seq FOR UPDATE SKIP LOCKED);
  END IF;
  RETURN NULL;
END
$function$
"""
"""Nobody waits for another's removal of old changes: two writers could wait for each other."""


def _of_postgresql(connection: sa.Connection, exposed: Exposed) -> list[str]:
    quote = connection.dialect.identifier_preparer.quote_identifier
    schema = quote(str(connection.exec_driver_sql("SELECT current_schema()").scalar_one()))
    table = f"{schema}.{quote(exposed.table.name)}"
    # A name of its own: the trigger of a table that was renamed keeps its function.
    function = f"{schema}.{LIVE}_{secrets.token_hex(8)}"
    new, old = (_key(exposed, row, connection) for row in ("new", "old"))
    body = _FUNCTION.format(
        function=function, schema=schema, live=LIVE, changes=CHANGES, trimmed=TRIMMED, kept=KEPT, new=new, old=old
    )
    query = "SELECT tgfoid::regproc::text FROM pg_trigger WHERE tgrelid = %s::regclass AND tgname = %s"
    before = connection.exec_driver_sql(query, (table, LIVE)).scalars().all()
    return [
        body,
        f"DROP TRIGGER IF EXISTS {LIVE} ON {table}",
        f"CREATE TRIGGER {LIVE} AFTER INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION {function}()",
        *(f"DROP FUNCTION {known}()" for known in before),
    ]
