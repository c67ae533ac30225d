"""Statements that insert rows, kept by the columns that are given."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from importlib import import_module
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import Dialect

from tenantry.engine.data.exposure import Exposed
from tenantry.engine.sql.driver import Reading
from tenantry.engine.sql.spelled import Spelled, kept, spell


def mark(number: int) -> str:
    """The name of a parameter: those of columns may not fit."""
    return f"value_{number}"


def about_inserted(names: tuple[str, ...], nulls: Collection[str], conflict: tuple[str, ...] = ()) -> Hashable:
    """The name of the statement that inserts a row, as `inserting` has it, and gives it."""
    return "inserted", names, frozenset(nulls), conflict


def inserting(
    connection: Reading,
    exposed: Exposed,
    names: tuple[str, ...],
    conflict: tuple[str, ...] = (),
    *,
    nulls: Collection[str] = (),
    returning: bool = False,
) -> Spelled:
    """The statement that inserts one row with those columns, whose values are parameters by `mark` of their place.

    conflict: the key by which a row that is there is changed instead. nulls: columns that are NULL, and no parameters. Raises
    NotShort in the event loop.
    """
    dialect = connection.dialect
    about = ("insert", names, frozenset(nulls), conflict, returning)

    def made() -> Spelled:
        places: dict[str, Any] = {
            name: sa.null() if name in nulls else sa.bindparam(mark(number), type_=exposed.table.c[name].type)
            for number, name in enumerate(names)
        }
        statement = _merging(exposed, dialect, names, conflict) if conflict else exposed.table.insert()
        statement = statement.values(places)
        statement = statement.returning(*exposed.table.c) if returning else statement.inline()
        return spell(statement, dialect, tuple(mark(number) for number, name in enumerate(names) if name not in nulls))

    return kept(connection, exposed.statements, (dialect.name, about), made)


def _merging(exposed: Exposed, dialect: Dialect, names: tuple[str, ...], conflict: tuple[str, ...]) -> Any:
    # A dialect comes when it is used: that of PostgreSQL takes 2 MiB.
    statement: Any = import_module(f"sqlalchemy.dialects.{dialect.name}").insert(exposed.table)
    # Without a change nothing is answered: a column of the key takes the value that it has.
    changed = [name for name in names if name not in conflict] or conflict[:1]
    where = [exposed.table.c[name] for name in conflict]
    return statement.on_conflict_do_update(index_elements=where, set_={name: statement.excluded[name] for name in changed})
