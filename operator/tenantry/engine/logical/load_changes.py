"""The rows that changed on one server, brought into the earlier copy of the engine on another: all in one transaction."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tenantry.engine.logical.copies import LogicalCopy, Member, blocks_if_any, open_copy
from tenantry.engine.logical.kept_rows import KeptRows, without_references
from tenantry.engine.logical.load import fill, go_on
from tenantry.engine.logical.moments import CHANGED, MOMENT, CopyMoment, kept_of, places_of, stale
from tenantry.engine.logical.notes import may_change, note_filled
from tenantry.engine.logical.session import keep_migrations_out, session

if TYPE_CHECKING:
    from tenantry.engine.logical.catalog import CatalogTable
    from tenantry.engine.logical.session import Connection


def load_changes(url: str, member: Member, mark: str, *, named: bool = True) -> None:
    """Bring the earlier copy to the moment of one that has only the changes. Idempotent. Blocks.

    mark, named: as `load`. Raises a Transient Halt (MoveStale) if they are the changes of another copy, Invalid, Halt, OSError.
    """
    copy = open_copy(lambda name: member(CHANGED + name))
    moment = CopyMoment.model_validate_json(member(MOMENT).read())
    digest = hashlib.sha256(f"{moment.id} {copy.digest}".encode()).hexdigest()
    with session(url, named=named) as connection:
        keep_migrations_out(connection)
        with connection.transaction():
            if not may_change(connection, mark, digest):
                return
            kept = KeptRows(connection)
            earlier = kept.moment
            if not isinstance(earlier, CopyMoment) or earlier.id != moment.since:
                raise stale("are those of another copy")
            with without_references(connection):
                for table in copy.tables.tables:
                    _bring(connection, table, copy, moment, member)
            for table in copy.tables.tables:
                go_on(connection, table)
            kept.end(moment)
            note_filled(connection, mark, digest)


def _bring(connection: Connection, table: CatalogTable, copy: LogicalCopy, moment: CopyMoment, member: Member) -> None:
    kept, facts, name = KeptRows(connection), moment.tables[table.name], table.name
    if name in moment.whole:
        kept.clear(name)
    else:
        kept.remove(name, facts.key, moment.lost.get(name, ()), blocks_if_any(member, kept_of(name)))
    came = fill(connection, table, copy)
    if facts.key and kept.add(name, blocks_if_any(member, places_of(name))) != came:
        raise stale(f"have not the places of all rows of {name}")
