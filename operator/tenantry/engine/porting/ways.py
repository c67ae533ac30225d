"""A copy of an engine brought to a database of the other kind: from a SQLite file to PostgreSQL, and back."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from tenantry.engine import records
from tenantry.engine.database import Database
from tenantry.engine.logical.copies import Member, open_copy
from tenantry.engine.logical.notes import may_fill, note_filled
from tenantry.engine.package_files import PackageFolder
from tenantry.engine.porting.port import ManifestOf, port
from tenantry.engine.porting.sources import CopiedTables, file_tables
from tenantry.engine.sql.files import FILE, made_mark
from tenantry.packages.check import open_checked
from tenantry.packages.manifest import Manifest


def to_file(member: Member, folder: Path) -> None:
    """Make the SQLite database of an engine from a logical copy. folder: has the engine's packages, and gets its database.

    Blocks. Raises Invalid for a copy that is broken or that SQLite cannot keep as it is, Halt, OSError.
    """
    with closing(Database(folder / FILE)) as database, database.migrating() as connection:
        port(CopiedTables(open_copy(member)), _manifests_of(folder), connection)


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
