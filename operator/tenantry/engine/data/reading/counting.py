"""The exact number of rows of a list, within a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from starlette.requests import Request

from tenantry.engine.data.conditions import where
from tenantry.engine.data.exposure import Exposed
from tenantry.engine.data.filters import Filters
from tenantry.engine.data.query import ListQuery
from tenantry.engine.data.writing.preferences import preferences
from tenantry.engine.database import sqlite_driver
from tenantry.engine.sql.server_session import limit_time
from tenantry.engine.sql.spelled import Spelled, kept, spell
from tenantry.model.verdicts import Invalid
from tenantry.rest.bodies import invalid

COUNT_S = 3.0
"""The time limit of a count."""
REST_S = 10.0
"""The time limit of the statements after it."""
_STEPS = 10_000
"""Instructions of SQLite between two looks at the clock."""
EXACT = "count=exact"
PREFER = f"{EXACT}: the header Tenantry-Count of the answer has the number of rows, of all pages."


def wants_count(request: Request) -> bool:
    """Return True if the request prefers count=exact. Raises Invalid for another count."""
    wanted = preferences(request.headers.getlist("prefer")).get("count", "")
    if wanted not in ("", "exact"):
        raise invalid("Prefer", f"count={wanted[:40]} is not supported; it takes exact")
    return wanted == "exact"


def count(connection: sa.Connection, exposed: Exposed, query: ListQuery) -> int:
    """The number of rows that the filters of a list find, on all pages. Raises Invalid if it takes longer than COUNT_S."""
    dialect = connection.dialect
    filtered = Filters(exposed, dialect.name).all_of(query.filters)

    def made() -> Spelled:
        counted = sa.select(sa.func.count()).select_from(exposed.table)
        return spell(counted.where(*where(exposed, dialect.name, filtered.shape)), dialect, tuple(filtered.values))

    spelled = kept(connection, exposed.statements, (dialect.name, "count", filtered.shape), made, len(filtered.values))
    try:
        with _limited(connection), spelled.run(connection, filtered.values) as result:
            return int(result.fetchone()[0])
    except DBAPIError as error:
        if "interrupted" in str(error.orig) or getattr(error.orig, "sqlstate", "") == "57014":
            raise _late() from error
        raise


def headers(number: int) -> dict[str, str]:
    """The headers of the answer."""
    return {"Tenantry-Count": str(number), "Preference-Applied": EXACT}


@contextmanager
def _limited(connection: sa.Connection) -> Iterator[None]:
    if connection.dialect.name != "sqlite":
        limit_time(connection, COUNT_S)
        yield
        limit_time(connection, REST_S)
        return
    end, driver = time.monotonic() + COUNT_S, sqlite_driver(connection)
    driver.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
    try:
        yield
    finally:
        driver.set_progress_handler(None, 0)


def _late() -> Invalid:
    return invalid("Prefer", f"{EXACT} takes longer than {COUNT_S:g} s here; filter by an indexed column, or leave it out")
