"""SQL functions that the two databases spell differently: defaults of columns, and an exact cast."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class NewUuid(FunctionElement[Any]):
    """A random UUID (version 4) as a default."""

    inherit_cache = True


@compiles(NewUuid, "sqlite")
def _new_uuid_sqlite(element: NewUuid, compiler: Any, **options: Any) -> str:
    middle = "'4' || substr(hex(randomblob(2)), 2) || substr('89AB', 1 + (abs(random()) % 4), 1) || substr(hex(randomblob(2)), 2)"
    return f"lower(hex(randomblob(6)) || {middle} || hex(randomblob(6)))"


@compiles(NewUuid, "postgresql")
def _new_uuid_postgresql(element: NewUuid, compiler: Any, **options: Any) -> str:
    return "gen_random_uuid()"


NOW_ON_SQLITE = "strftime('%Y-%m-%d %H:%M:%f000', 'now')"
"""The time in the only form in which times are stored: with six digits of a second, as SQLAlchemy writes them."""


class Now(FunctionElement[Any]):
    """The time of the statement, in UTC, as a default."""

    inherit_cache = True


@compiles(Now, "sqlite")
def _now_sqlite(element: Now, compiler: Any, **options: Any) -> str:
    return f"({NOW_ON_SQLITE})"


@compiles(Now, "postgresql")
def _now_postgresql(element: Now, compiler: Any, **options: Any) -> str:
    return "CURRENT_TIMESTAMP"


class ExactNumber(FunctionElement[Any]):
    """A double as the decimal number that it is written as, on PostgreSQL."""

    inherit_cache = True
    type = sa.Numeric()


@compiles(ExactNumber, "postgresql")
def _exact_number_postgresql(element: ExactNumber, compiler: Any, **options: Any) -> str:
    # Its own cast of doubles to numeric keeps 15 digits.
    return f"CAST(CAST({compiler.process(element.clauses, **options)} AS TEXT) AS NUMERIC)"
