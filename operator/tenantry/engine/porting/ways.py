"""A copy of an engine brought to a database of the other kind: from a SQLite file to PostgreSQL, and back."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection

from tenantry.engine import records
from tenantry.engine.database import Database
from tenantry.engine.logical.copies import Member, blocks, open_copy
from tenantry.engine.logical.moments import MOMENT, CopyMoment, places_of
from tenantry.engine.logical.notes import may_fill, note_filled
from tenantry.engine.package_files import PackageFolder
from tenantry.engine.porting.changed_file import ChangedFile
from tenantry.engine.porting.kept_places import kept_places
from tenantry.engine.porting.port import ManifestOf, port
from tenantry.engine.porting.sources import CopiedTables, file_tables
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
    try:
        moment = CopyMoment.model_validate_json(member(MOMENT).read())
    except (KeyError, ValidationError):  # of an earlier release, or a later one
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


def to_server(folder: Path, url: str, mark: str, digest: str, *, replaces: bool = False, named: bool = True) -> None:
    """Fill a database on PostgreSQL from the SQLite file of an engine, which is removed. folder: has its packages, too.

    mark, replaces, named: as `logical.load`. digest: of the file. Blocks. Raises Invalid, Halt, OSError.
    """
    with closing(Database(folder / FILE, url, named=named)) as database, database.migrating() as connection:
        driver: Any = connection.connection.driver_connection
        if may_fill(driver, mark, digest, replaces=replaces):
            _fill(folder, connection)
            note_filled(driver, mark, digest)
    for file in (folder / FILE, made_mark(folder / FILE)):
        file.unlink(missing_ok=True)


def _fill(folder: Path, connection: Connection) -> None:
    if not (folder / FILE).exists():
        records.prepare(connection)  # the engine was never written: it is as empty there
        return
    with file_tables(folder / FILE) as tables:
        port(tables, _manifests_of(folder), connection)


def _manifests_of(folder: Path) -> ManifestOf:
    files = PackageFolder(folder)

    def manifest_of(sha256: str) -> Manifest:
        with open_checked(files.path(sha256)) as package:
            return package.manifest

    return manifest_of
