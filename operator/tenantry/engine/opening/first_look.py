"""The first look at an engine's database: one that is as its engine left it is opened by one read, without a lock or a write."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from tenantry.engine import records
from tenantry.engine.migration.moments import UNIFIED
from tenantry.engine.sql.server_session import Question

_COLUMNS = {
    "sqlite": """
        SELECT count(*) FROM sqlite_master AS found JOIN pragma_table_info(found.name) AS part
        WHERE found.type = 'table' AND lower(found.name) IN ({names})
            AND (lower(found.name), part.name) IN (VALUES {columns})
    """,
    "postgresql": """
        SELECT count(*) FROM pg_class AS found JOIN pg_attribute AS part ON part.attrelid = found.oid AND part.attnum > 0
        WHERE found.relnamespace = to_regnamespace(quote_ident(current_schema())) AND found.relkind IN ('r', 'p')
            AND found.relname IN ({names}) AND (found.relname, part.attname) IN (VALUES {columns})
    """,
}
"""The number of columns of our tables that are there."""
_LISTED = {"sqlite": "group_concat(sha256, ' ')", "postgresql": "string_agg(sha256, ' ')"}
_MOMENTS = {"sqlite": "(SELECT user_version FROM pragma_user_version)", "postgresql": str(UNIFIED)}


class FirstLook(NamedTuple):
    """The state of a database. whole: it has all tables of the records, and times of one form only. mark: the id of the engine in
    it, None for none. stored, installed: the SHA-256 of packages."""

    whole: bool
    mark: str | None
    stored: frozenset[str]
    installed: frozenset[str]


def first_question(dialect: str) -> Question:
    """The question that `seen` reads the answer of. Asking fails while a table of the records is missing."""
    return Question(_spelled(dialect), ())


def seen(answer: Sequence[Any]) -> FirstLook:
    """Return what the answer says, whose values may be texts."""
    columns, moments, mark, stored, installed = answer
    whole = int(columns) == len(records.COLUMNS) and int(moments) >= UNIFIED
    return FirstLook(whole, mark, frozenset((stored or "").split()), frozenset((installed or "").split()))


@lru_cache
def _spelled(dialect: str) -> str:
    names = ", ".join(f"'{name}'" for name in records.NAMES)
    columns = _COLUMNS[dialect].format(
        names=names, columns=", ".join(f"('{table}', '{name}')" for table, name in records.COLUMNS)
    )
    listed = _LISTED[dialect]
    return f"""
        SELECT ({columns}) AS columns, {_MOMENTS[dialect]} AS moments,
            (SELECT id FROM {records.OWNER.name}) AS mark,
            (SELECT {listed} FROM {records.VERSIONS.name}) AS stored,
            (SELECT {listed} FROM {records.INSTALLED.name}) AS installed
    """  # noqa: S608 - constants
