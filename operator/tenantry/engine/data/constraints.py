"""The column and the constraint of a database error."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError

from tenantry.engine.data.exposure import Exposed, Exposure
from tenantry.engine.sql.quick.replay import Replay
from tenantry.model.verdicts import Invalid, Problem
from tenantry.rest.bodies import invalid

_SQLITE = re.compile(r"(?P<what>NOT NULL|UNIQUE|CHECK|FOREIGN KEY) constraint failed(?:: (?P<which>.*))?")


def refusal_of(error: DBAPIError, exposure: Exposure, exposed: Exposed, field: str) -> Invalid | None:
    """The refusal that a broken constraint means; None for any other error. field: what precedes the column, such as `[3].`."""
    if not isinstance(error, IntegrityError):
        return None
    told = _SQLITE.match(str(error.orig))
    if told is not None:
        return _of_sqlite(told["what"], told["which"] or "", exposed, field)
    diagnosis = getattr(error.orig, "diag", None)
    name, column = getattr(diagnosis, "constraint_name", None), getattr(diagnosis, "column_name", None)
    if column and not name:
        return _refused([column], "must not be null", field)
    return _of_constraint(name or "", getattr(diagnosis, "table_name", "") or "", exposure, exposed, field)


@contextmanager
def refusing(
    connection: sa.Connection | Replay, exposure: Exposure, exposed: Exposed, field: str, row: Mapping[str, Any]
) -> Iterator[None]:
    """Raise Invalid for a constraint that the block breaks. row: the values that it writes; field: see refusal_of."""
    try:
        yield
    except DBAPIError as error:
        refusal = refusal_of(error, exposure, exposed, field)
        if refusal is None:
            raise
        if isinstance(connection, sa.Connection) and connection.dialect.name == "sqlite" and "FOREIGN KEY" in str(error.orig):
            values = {name: None if isinstance(value, sa.Null) else value for name, value in row.items()}
            columns = _missing_parent(connection, exposed, values)
            if columns:
                raise invalid(f"{field}{', '.join(columns)}", "there is no such row in the table that it references") from error
        raise refusal from error


def _missing_parent(connection: sa.Connection, exposed: Exposed, row: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns of a foreign key whose parent is not there: SQLite does not tell which it was. () for none."""
    for key in exposed.table.foreign_key_constraints:
        pairs = [(row.get(element.parent.name), element.column) for element in key.elements]
        if any(value is None for value, _ in pairs):
            continue
        parent = sa.select(sa.literal(1)).select_from(key.referred_table).where(*(column == value for value, column in pairs))
        if connection.execute(parent.limit(1)).first() is None:
            return tuple(key.column_keys)
    return ()


def _of_sqlite(what: str, which: str, exposed: Exposed, field: str) -> Invalid:
    columns = [part.strip().rpartition(".")[2] for part in which.split(",")]
    match what:
        case "NOT NULL":
            return _refused(columns, "must not be null", field)
        case "UNIQUE":
            return _refused(columns, "there is a row with this value already", field)
        case "CHECK":
            return _of_check(which, exposed, field)
        case _:
            return _refused([], "it references, or is referenced by, a row of another table", field)


def _of_constraint(name: str, told: str, exposure: Exposure, exposed: Exposed, field: str) -> Invalid:
    for constraint in exposed.table.constraints:
        if constraint.name != name:
            continue
        if isinstance(constraint, sa.CheckConstraint):
            return _of_check(name, exposed, field)
        columns = [column.name for column in getattr(constraint, "columns", ())]
        if isinstance(constraint, sa.ForeignKeyConstraint):
            return _refused(columns, f"there is no such row in {exposure.declared_as(constraint.referred_table.name)}", field)
        return _refused(columns, "there is a row with this value already", field)
    return _refused([], f"rows of {exposure.declared_as(told)} reference it", field)


def _of_check(name: str, exposed: Exposed, field: str) -> Invalid:
    broken = next(
        constraint
        for constraint in exposed.table.constraints
        if isinstance(constraint, sa.CheckConstraint) and constraint.name == name
    )
    check = next(one for one in exposed.declared.checks if one.expression == str(broken.sqltext))
    columns = [column for column in exposed.columns if re.search(rf"\b{column}\b", check.expression)]
    return _refused(columns, f"breaks check {check.name}: {check.expression}", field)


def _refused(columns: list[str], reason: str, field: str) -> Invalid:
    return Invalid((Problem(f"{field}{', '.join(columns)}".rstrip("., :"), reason),))
