"""One stored form for times on SQLite: `2026-02-03 04:05:06.000000`, as SQLAlchemy writes them.

Until 2026-11 the default `now` was CURRENT_TIMESTAMP, which leaves the fraction out. One time had two texts, so a key could exist
twice, and a row was not found by its own key. `unify` brings such a database to the one form.
"""

from __future__ import annotations

import re
import sqlite3

import sqlalchemy as sa
import structlog
from sqlalchemy.dialects.sqlite.base import SQLiteDialect

from tenantry.engine.database import sqlite_driver
from tenantry.engine.inventory import is_of_an_app
from tenantry.engine.migration.functions import NOW_ON_SQLITE

_quoted = SQLiteDialect().identifier_preparer.quote_identifier

UNIFIED = 1
"""The `user_version` of a database that has times of one form only."""
_SHORT = 19
"""Characters of a time without a fraction."""
_TRIES = 100
_QUOTED_OR_OLD_DEFAULT = re.compile(r"""('[^']*'|"[^"]*")|DEFAULT CURRENT_TIMESTAMP\b""")

_log = structlog.get_logger(__name__)


def note_new(connection: sa.Connection) -> None:
    """Mark a database without tables as unified. To be called before the first table is made."""
    if connection.dialect.name == "sqlite" and not connection.exec_driver_sql("SELECT 1 FROM sqlite_master LIMIT 1").first():
        connection.exec_driver_sql(f"PRAGMA user_version = {UNIFIED}")


def is_unified(connection: sa.Connection) -> bool:
    """Return True if `unify` has nothing to do. Always true on PostgreSQL, which has a type for times."""
    if connection.dialect.name != "sqlite":
        return True
    return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one()) >= UNIFIED


def unify(connection: sa.Connection) -> None:
    """Bring all times to the one form, and the defaults with them. Needs `Database.migrating`: foreign keys must be off.

    A row whose unique key another row has already keeps its second and gets the next free microsecond of it: the default had cut
    the fraction off. A row that a CHECK would refuse stays as it is, with a warning in the log.
    """
    driver = sqlite_driver(connection)
    tables = [name for (name,) in driver.execute("SELECT name FROM sqlite_master WHERE type = 'table'") if is_of_an_app(name)]
    for table in tables:
        for name, kind in driver.execute(f"SELECT name, type FROM pragma_table_info({_quoted(table)})").fetchall():  # noqa: S608
            if kind == "DATETIME":
                _lengthen(driver, table, name)
    _replace_defaults(driver, tables)
    driver.execute(f"PRAGMA user_version = {UNIFIED}")


def _lengthen(driver: sqlite3.Connection, table: str, column: str) -> None:
    where = f"{_quoted(column)} IS NOT NULL AND length({_quoted(column)}) = {_SHORT}"
    for microsecond in range(_TRIES):
        longer = f"{_quoted(column)} || '.{microsecond:06}'"
        driver.execute(f"UPDATE OR IGNORE {_quoted(table)} SET {_quoted(column)} = {longer} WHERE {where}")  # noqa: S608 - quoted
        (left,) = driver.execute(f"SELECT count(*) FROM {_quoted(table)} WHERE {where}").fetchone()  # noqa: S608 - quoted
        if not left:
            return
    _log.warning(
        "these times keep their old form, because a constraint refuses the new one", table=table, column=column, times=left
    )


def _replace_defaults(driver: sqlite3.Connection, tables: list[str]) -> None:
    """Change the text of the tables, as https://sqlite.org/lang_altertable.html says for changes that leave the rows alone."""
    (version,) = driver.execute("PRAGMA schema_version").fetchone()
    driver.execute("PRAGMA writable_schema = ON")
    for table in tables:
        (sql,) = driver.execute("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).fetchone()
        new = _QUOTED_OR_OLD_DEFAULT.sub(lambda found: found[1] or f"DEFAULT ({NOW_ON_SQLITE})", sql)
        if new != sql:
            driver.execute("UPDATE sqlite_master SET sql = ? WHERE type = 'table' AND name = ?", (new, table))
    driver.execute(f"PRAGMA schema_version = {version + 1}")
    driver.execute("PRAGMA writable_schema = OFF")
