"""A copy of an engine brought to a database of the other kind: from a SQLite file to PostgreSQL, and back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.exc import DBAPIError

from tenantry.engine import records
from tenantry.engine.database import Database, halt_of
from tenantry.engine.logical.copies import Member, blocks, moment_in, open_copy
from tenantry.engine.logical.moments import MOMENT, CopyMoment, FileMoment, places_of
from tenantry.engine.logical.notes import may_change, may_fill, note_filled
from tenantry.engine.package_files import PackageFolder
from tenantry.engine.porting.changed_file import ChangedFile
from tenantry.engine.porting.changed_server import ChangedServer, ChangedTables, keep_file
from tenantry.engine.porting.chunks import moment_of_file, write_changes
from tenantry.engine.porting.kept_places import kept_places
from tenantry.engine.porting.port import ManifestOf, port
from tenantry.engine.porting.sources import CopiedTables, FileTables, file_tables, opened
from tenantry.engine.sql.files import FILE, made_mark
from tenantry.model.verdicts import Invalid, Problem
from tenantry.packages.check import open_checked
from tenantry.packages.manifest import Manifest


def to_file(member: Member, folder: Path) -> None:
    """Make the SQLite database of an engine from a logical copy. folder: has the engine's packages, and gets its database.

    Blocks. Raises Invalid for a copy that is broken or that SQLite cannot keep as it is, Halt, OSError.
    """
    with closing(Database(folder / FILE)) as database, database.migrating() as connection:
        port(CopiedTables(open_copy(member)), _manifests_of(folder), connection)


def keep_places(member: Member, folder: Path, places: Path) -> None:
    """Keep the places of the rows of a copy beside the database that was made of it, if it has them.

    places: the file for them. Blocks. Raises Invalid, OSError.
    """
    if (moment := moment_in(member)) is None:
        return
    with file_tables(folder / FILE) as tables, kept_places(places) as kept:
        for name, facts in moment.tables.items():
            if facts.key and kept.add(name, blocks(member(places_of(name)))) != tables.count(name):
                raise Invalid((Problem(places_of(name), "has not the places of all rows"),))
        kept.end(moment)


def earlier_copy(places: Path) -> bytes:
    """Return what the old place must know of the copy with those places, packed. Blocks. Raises OSError."""
    with kept_places(places) as kept:
        earlier = kept.earlier()
    return b"" if earlier is None else earlier.packed()


def bring_changes(member: Member, folder: Path, places: Path) -> None:
    """Bring the SQLite database of an earlier copy to the moment of a copy that has only the changes.

    Killed or raised in between, nothing of the earlier copy is of use. Blocks. Raises a Transient Halt (MoveStale) if the
    changes are those of another copy, Invalid, OSError.
    """
    moment = CopyMoment.model_validate_json(member(MOMENT).read())
    with (
        kept_places(places) as kept,
        closing(Database(folder / FILE)) as database,
        database.migrating() as connection,
    ):
        ChangedFile(connection, kept, member, moment).bring(_manifests_of(folder))
        kept.end(moment)


def to_server(
    folder: Path, url: str, mark: str, digest: str, *, replaces: bool = False, keeps: bool = False, named: bool = True
) -> None:
    """Fill a database on PostgreSQL from the SQLite file of an engine, which is removed. folder: has its packages, too.

    mark, replaces, named: as `logical.load`. digest: of the file. keeps: its old place can send what changes later. Blocks.
    Raises Invalid, Halt, OSError.
    """
    with closing(Database(folder / FILE, url, named=named)) as database, database.migrating() as connection:
        driver: Any = connection.connection.driver_connection
        if may_fill(driver, mark, digest, replaces=replaces):
            _fill(folder, connection, keeps=keeps)
            note_filled(driver, mark, digest)
    for file in (folder / FILE, made_mark(folder / FILE)):
        file.unlink(missing_ok=True)


def bring_to_server(changed: Path, folder: Path, url: str, mark: str, digest: str, *, named: bool = True) -> None:
    """Bring the rows that changed in a SQLite file into its copy on a server. Idempotent.

    changed: has these rows and their moment; folder: the engine's packages. mark, named: as `logical.load`. digest: of the
    changes. Blocks. Raises a Transient Halt (MoveStale) if they are the changes of another copy, Invalid, Halt, OSError.
    """
    moment = FileMoment.model_validate_json((changed / MOMENT).read_bytes())
    with closing(Database(folder / FILE, url, named=named)) as database, database.migrating() as connection:
        driver: Any = connection.connection.driver_connection
        if may_change(driver, mark, digest):
            with opened(changed / FILE) as file:
                ChangedServer(connection, ChangedTables(file, moment), moment).bring(_manifests_of(folder))
            note_filled(driver, mark, digest)
    made_mark(folder / FILE).unlink(missing_ok=True)


def write_rows(file: Path, earlier: FileMoment, target: Path) -> bytes:
    """Write the rows of a SQLite file that changed since an earlier copy to another, and return their moment.

    Return `b""` if all rows are to be sent. Blocks. Raises Halt, OSError.
    """
    try:
        moment = write_changes(file, earlier, target)
    except sqlite3.Error as error:
        raise halt_of(DBAPIError(None, None, error)) from error
    return b"" if moment is None else moment.model_dump_json().encode()


def _fill(folder: Path, connection: Connection, *, keeps: bool) -> None:
    if not (folder / FILE).exists():
        records.prepare(connection)  # the engine was never written: it is as empty there
        return
    made: list[Table] = []
    with opened(folder / FILE) as file:
        tables = FileTables(file)
        port(tables, _manifests_of(folder), connection, made.append)
        if keeps and (moment := moment_of_file(file)) is not None:
            keep_file(connection, moment, tables, made)


def _manifests_of(folder: Path) -> ManifestOf:
    files = PackageFolder(folder)

    def manifest_of(sha256: str) -> Manifest:
        with open_checked(files.path(sha256)) as package:
            return package.manifest

    return manifest_of
