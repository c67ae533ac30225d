"""Copies of databases on a server, also of those that come from SQLite, and go to it.

What makes them is imported when one is made: SQLite needs no driver of PostgreSQL.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import orjson

from tenantry.adapters.local.archives import CHANGES, POSTGRESQL, SENDS_ROWS
from tenantry.adapters.local.reading import Checked, extract_rows, holds_changes, holds_rows, members, unpack
from tenantry.model.verdicts import Halt, Invalid, Problem


def dump(url: str, scratch: Path, *, named: bool = True) -> Generator[str]:
    """Write one member of the copy after the other to that file, and yield its name. See engine/logical/dump.py."""
    from tenantry.engine.logical.dump import dump as dumped

    return dumped(url, scratch, named=named)


def dump_to_move(url: str, scratch: Path, earlier: bytes = b"", *, named: bool = True) -> Generator[str]:
    """The same of an engine that moves: later only what changed. See engine/logical/changes.py."""
    from tenantry.engine.logical.changes import dump_to_move as dumped

    return dumped(url, scratch, earlier, named=named)


def load(url: str, member: Callable[[str], BinaryIO], mark: str) -> None:
    """Create and fill the tables of a copy. See engine/logical/load.py."""
    from tenantry.engine.logical.load import load as loaded

    loaded(url, member, mark)


def unpack_as_file(archive: Checked, folder: Path, places: Path | None = None) -> None:
    """Unpack an engine that is to have SQLite, whatever it had. Blocks. Raises Invalid, Halt, OSError.

    places: the file that gets the places of the rows, of an engine that moves.
    """
    unpack(archive, folder, database=POSTGRESQL)
    if holds_rows(archive):
        from tenantry.engine.porting.ways import keep_places, to_file

        with members(archive) as member:
            to_file(member, folder)
            if places is not None:
                keep_places(member, folder, places)


def bring_changes(archive: Checked, folder: Path, places: Path) -> None:
    """Bring the SQLite database in a folder to an archive that holds changes only. See engine/porting/ways.py."""
    from tenantry.engine.porting.ways import bring_changes as brought

    with members(archive) as member:
        brought(member, folder, places)


def earlier_copy(places: Path) -> bytes:
    """Return what the old place must know of a copy to send changes only, `b""` for nothing. Blocks. Raises OSError."""
    from tenantry.engine.porting.ways import earlier_copy as packed

    return packed(places)


def unpack_to_server(archive: Checked, folder: Path, url: str, mark: str, *, replaces: bool = False, named: bool = True) -> None:
    """Unpack an engine whose database is to be on a server, whatever it had. The others: see engine/logical/load.py.

    Blocks. Raises Invalid, Halt, OSError.
    """
    unpack(archive, folder, database=POSTGRESQL)
    if replaces and _bring_to_server(archive, folder, url, mark, named=named):
        return
    if holds_rows(archive):
        from tenantry.engine.logical.load import load as loaded

        with members(archive) as member:
            loaded(url, member, mark, replaces=replaces, named=named)
    else:
        from tenantry.engine.porting.ways import to_server

        if (folder / CHANGES).exists():
            raise Invalid((Problem(str(archive.path), "holds the changes of a file, and the engine comes to a server"),))
        keeps = replaces and archive.about.get(SENDS_ROWS) is True
        to_server(folder, url, mark, _digest_of(archive), replaces=replaces, keeps=keeps, named=named)


def _bring_to_server(archive: Checked, folder: Path, url: str, mark: str, *, named: bool) -> bool:
    """Bring changed rows into the earlier copy in a database. Return False if the archive holds all rows.

    If they do not come there, the next copy has all rows.
    """
    try:
        if holds_changes(archive):
            from tenantry.engine.logical.load_changes import load_changes

            with members(archive) as member:
                load_changes(url, member, mark, named=named)
            return True
        with tempfile.TemporaryDirectory(dir=folder.parent) as changed:
            if not extract_rows(archive, Path(changed)):
                return False
            from tenantry.engine.porting.ways import bring_to_server

            bring_to_server(Path(changed), folder, url, mark, _digest_of(archive), named=named)
            return True
    except Halt:
        with suppress(Halt):
            _forget_places(url)
        raise


def _digest_of(archive: Checked) -> str:
    return hashlib.sha256(orjson.dumps(archive.digests, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _forget_places(url: str) -> None:
    from tenantry.engine.logical.kept_rows import forget
    from tenantry.engine.logical.session import session

    with session(url, named=False) as connection, connection.transaction():
        forget(connection)


def copied_before(url: str) -> bytes:
    """Return what the old place must know of the copy that fills a database, `b""` for nothing. Blocks. Raises Halt."""
    from tenantry.engine.logical.kept_rows import KeptRows
    from tenantry.engine.logical.session import session

    with session(url, named=False) as connection, connection.transaction():
        return KeptRows(connection).earlier()


def copied(url: str) -> str:
    """Return the mark of the copy that fills a database, `""` if none does or an engine runs with it. Blocks. Raises Halt."""
    from tenantry.engine.logical.notes import filled
    from tenantry.engine.logical.session import session

    with session(url, named=False) as connection:
        return filled(connection)


def take_copied(url: str, mark: str) -> bool:
    """Keep the copy of that mark for the engine that runs with it. Return False if another fills the database, or none.

    Idempotent. Blocks. Raises Halt.
    """
    from tenantry.engine.logical.kept_rows import forget
    from tenantry.engine.logical.notes import note_taken
    from tenantry.engine.logical.session import keep_migrations_out, session

    with session(url, named=False) as connection, connection.transaction():
        keep_migrations_out(connection)
        taken = note_taken(connection, mark)
        if taken:
            forget(connection)
        return taken


def check_empty(url: str) -> None:
    """Blocks. Raises Invalid where tables of an engine are there, Halt."""
    from tenantry.engine.logical.load import check_empty as checked

    checked(url)
