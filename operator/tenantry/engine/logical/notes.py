"""The note of a restore in the database that it fills. It is committed with the rows, so it says which copy they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import sql

from tenantry.engine import records
from tenantry.engine.logical.catalog import names
from tenantry.model.verdicts import Halt, Invalid, Problem, Transient
from tenantry.model.wording import counted

if TYPE_CHECKING:
    from tenantry.engine.logical.session import Connection

_MARKED = records.VERSIONS.name
_RESTORED, _TAKEN = "restored", "taken"


def may_fill(connection: Connection, mark: str, digest: str, *, replaces: bool) -> bool:
    """Return False if the rows of that copy are there already. Raises Invalid where there are others.

    replaces: rows of an earlier copy are dropped. Raises a Transient Halt (MoveStale) if they were taken: they are an engine's.
    """
    there = names(connection)
    if not there:
        return True
    noted = _note(connection)
    if _is_of(noted, mark, digest):
        return False
    if not replaces:
        refuse_tables(there)
    if noted[:1] != [_RESTORED]:
        raise Halt(Transient("MoveStale", "the engine runs in its new place already"))
    listed = sql.SQL(", ").join(map(sql.Identifier, there))
    connection.execute(sql.SQL("DROP TABLE {} CASCADE").format(listed))
    return True


def may_change(connection: Connection, mark: str, digest: str) -> bool:
    """Return False if the rows have the changes of that copy already. Raises a Transient Halt (MoveStale) if no copy is there
    that was not taken."""
    noted = _note(connection)
    if _is_of(noted, mark, digest):
        return False
    if noted[:1] != [_RESTORED]:
        raise Halt(Transient("MoveStale", "the copy that the changes are of is not here; the move goes on with another one"))
    return True


def note_filled(connection: Connection, mark: str, digest: str) -> None:
    """Note that the rows are those of a copy."""
    _put(connection, f"{_RESTORED} {mark} {digest}")


def filled(connection: Connection) -> str:
    """Return the mark of the copy that the rows are of, `""` if nothing was restored, or it was taken."""
    noted = _note(connection)
    return noted[1] if noted[:1] == [_RESTORED] and len(noted) > 1 else ""


def note_taken(connection: Connection, mark: str) -> bool:
    """Note that the engine runs with the copy of that mark: no other one replaces it. Return False if the rows are another's."""
    noted = _note(connection)
    if noted[:2] not in ([_RESTORED, mark], [_TAKEN, mark]):
        return False
    _put(connection, f"{_TAKEN} {mark}")
    return True


def refuse_tables(there: list[str]) -> None:
    """Raises Invalid where there are tables of an engine."""
    if there:
        tables = counted(len(there), "table")
        raise Invalid((Problem("database", f"is not empty: it holds {tables} of an engine, such as {there[0]}"),))


def _is_of(noted: list[str], mark: str, digest: str) -> bool:
    """Return True if the rows are those of that copy already, taken or not."""
    return noted in ([_RESTORED, mark, digest], [_TAKEN, mark])


def _note(connection: Connection) -> list[str]:
    row = connection.execute("SELECT obj_description(to_regclass(%s), 'pg_class')", (_MARKED,)).fetchone()
    return [] if row is None or row[0] is None else str(row[0]).split(" ")


def _put(connection: Connection, note: str) -> None:
    connection.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(sql.Identifier(_MARKED), sql.Literal(note)))
