"""An engine's tables in PostgreSQL's own words: from its catalog, and in the form of a backup."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from tenantry.engine.data.live.triggers import NAMES as LOG
from tenantry.engine.database import AHEAD
from tenantry.engine.inventory import is_of_an_engine
from tenantry.engine.records import OWNER

if TYPE_CHECKING:
    from tenantry.engine.logical.session import Connection


class _Part(BaseModel):
    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", strict=True)


class CatalogColumn(_Part):
    """type and default as SQL spells them."""

    name: str
    type: str
    not_null: bool
    default: str | None


class Constraint(_Part):
    """A primary key, unique or check constraint, or a foreign key, as SQL defines it. foreign: it references another table."""

    name: str
    definition: str
    foreign: bool


class Sequence(_Part):
    """The generator of a column's keys. last: its position; called: True if it has given that key."""

    name: str
    column: str
    type: str
    last: int
    called: bool


class CatalogTable(_Part):
    """One table. indexes: the statements that make those that belong to no constraint."""

    name: str
    columns: Annotated[tuple[CatalogColumn, ...], Field(strict=False)]
    constraints: Annotated[tuple[Constraint, ...], Field(strict=False)]
    indexes: Annotated[tuple[str, ...], Field(strict=False)]
    sequences: Annotated[tuple[Sequence, ...], Field(strict=False)]


class Tables(_Part):
    """All tables of an engine, by name."""

    tables: Annotated[tuple[CatalogTable, ...], Field(strict=False)]


_TABLES = """
SELECT c.relname FROM pg_class c
WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace
"""
_COLUMNS = """
SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY c.relname, a.attnum
"""
_CONSTRAINTS = """
SELECT c.relname, k.conname, pg_get_constraintdef(k.oid), k.contype = 'f'
FROM pg_class c JOIN pg_constraint k ON k.conrelid = c.oid
WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = ANY(%s) AND k.contype IN ('p', 'u', 'c', 'f')
ORDER BY c.relname, k.conname
"""
_INDEXES = """
SELECT c.relname, pg_get_indexdef(i.indexrelid, 0, true)
FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid JOIN pg_class x ON x.oid = i.indexrelid
WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = ANY(%s) AND NOT starts_with(x.relname, %s)
AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.conrelid = c.oid)
ORDER BY 1, 2
"""
_SEQUENCES = """
SELECT c.relname, s.relname, a.attname, format_type(q.seqtypid, NULL), pg_sequence_last_value(s.oid), q.seqstart
FROM pg_class s JOIN pg_sequence q ON q.seqrelid = s.oid
JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = s.oid AND d.deptype = 'a' AND d.refclassid = d.classid
JOIN pg_class c ON c.oid = d.refobjid JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid
WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = ANY(%s)
ORDER BY c.relname, s.relname
"""


def names(connection: Connection) -> list[str]:
    """Of the tables of an engine that are there, in order."""
    return sorted(name for (name,) in connection.execute(_TABLES) if is_of_an_engine(name))


def tables(connection: Connection) -> Tables:
    """Return the present tables, without the mark of the owner."""
    # What is restored is the database of the engine that starts with it.
    there = [name for name in names(connection) if name not in (OWNER.name, *LOG)]

    def found(query: str) -> dict[str, list[tuple[Any, ...]]]:
        given = (there, AHEAD) if query is _INDEXES else (there,)
        rows: Iterable[tuple[Any, ...]] = connection.execute(query.encode(), given)
        return {name: [row[1:] for row in of] for name, of in groupby(rows, key=itemgetter(0))}

    columns, constraints, indexes, sequences = map(found, (_COLUMNS, _CONSTRAINTS, _INDEXES, _SEQUENCES))
    return Tables(
        tables=tuple(
            CatalogTable(
                name=name,
                columns=tuple(CatalogColumn(name=n, type=t, not_null=nn, default=d) for n, t, nn, d in columns.get(name, ())),
                constraints=tuple(Constraint(name=n, definition=d, foreign=f) for n, d, f in constraints.get(name, ())),
                indexes=tuple(statement for (statement,) in indexes.get(name, ())),
                sequences=tuple(_sequence(*row) for row in sequences.get(name, ())),
            )
            for name in there
        )
    )


def _sequence(name: str, column: str, type_: str, last: int | None, start: int) -> Sequence:
    return Sequence(name=name, column=column, type=type_, last=start if last is None else last, called=last is not None)
