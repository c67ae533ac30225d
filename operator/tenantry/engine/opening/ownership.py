"""The owner of a database: an engine's id in the database itself, so that no second engine takes it for its own.

The id is the environment's uid, or for a standalone engine a random one in a file of its folder. Where the database is on a
server, every engine has the file: it says that this folder and the database belong together. Archives hold neither of the two.
"""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

import orjson
import sqlalchemy as sa

from tenantry.engine import records
from tenantry.engine.database import Database, one_at_a_time
from tenantry.engine.inventory import is_of_an_app
from tenantry.engine.logical.session import is_postgresql
from tenantry.engine.migration.moments import note_new
from tenantry.engine.package_files import PackageFolder
from tenantry.engine.sealing import KEY_FILE
from tenantry.engine.sql.files import FILE, ID_FILE
from tenantry.model.verdicts import Halt, Invalid, Problem, Stalled, path_text
from tenantry.rest.disk import make_durable, writing_to_disk

RELEASED = ""
"""The mark of a database that the next engine may take over, whatever it holds."""


@dataclass(frozen=True)
class OwnershipEvidence:
    """The evidence for the owner of a database.

    given: the uid of the environment, `""` for a standalone engine. kept: the id in the folder, `""` for none. claimed: the
    folder says that the database on the server was marked. marked: the id in the database, None for none. used: rows or tables
    of an engine are in it. known: the folder has the files that its records name. server: it is not a file of the folder.
    """

    given: str = ""
    kept: str = ""
    claimed: bool = False
    marked: str | None = None
    used: bool = False
    known: bool = False
    server: bool = True


def database_mark(seen: OwnershipEvidence, new: str) -> str:
    """The id that the database is to be marked with. new: a random one. Raises a Stalled Halt: DatabaseTaken, DataMissing."""
    if seen.given and seen.kept not in ("", seen.given):
        raise _taken(f"the folder belongs to another engine ({seen.kept})", "--data DIR")
    own = seen.given or seen.kept or new
    where = "--database URL" if seen.server else "--data DIR"
    if seen.marked == RELEASED:
        return own
    if seen.marked not in (None, own):
        raise _taken(f"the database belongs to another engine ({seen.marked})", where)
    if not seen.server:
        return own
    if seen.used and not seen.known and not (seen.kept and seen.marked):
        raise _taken(
            "the database already holds an engine, and this folder is new: it has neither its packages nor its keys", where
        )
    if seen.claimed and seen.marked is None and not seen.used:
        told = "the database no longer holds anything of this engine. Put it back or restore a backup; to start with an empty one"
        raise Halt(Stalled("DataMissing", f"{told}, run `tenantry engine release {where}`", "Operator"))
    return own


def _taken(reason: str, where: str) -> Halt:
    ways = "Put back the folder that belongs to it, or give this engine a database of its own; to take it over nevertheless"
    told = f"{reason}; nothing was changed. {ways}, run `tenantry engine release {where}`"
    return Halt(Stalled("DatabaseTaken", told, "Operator"))


class Ownership:
    """Marks the database of one engine as its own. Blocks. given: the uid of the environment, `""` for a standalone engine."""

    def __init__(self, data: Path, given: str, package_files: PackageFolder) -> None:
        self._file = data / ID_FILE
        self._key = data / KEY_FILE
        self._package_files = package_files
        self._given = given

    def claim(self, connection: sa.Connection) -> str:
        """Makes the engine's tables and marks them, in a transaction that writes. Returns the mark. Raises Halt."""
        # Of two engines at once the second must see the mark of the first.
        one_at_a_time(connection, "records")
        where = "--data DIR" if connection.dialect.name == "sqlite" else "--database URL"
        if name := records.foreign(connection):
            told = f"the database has a {name} of another program; nothing was changed. Give this engine a database of its own"
            raise Halt(Stalled("DatabaseTaken", f"{told}: {where}", "Operator"))
        seen = self._look(connection)
        own = database_mark(seen, str(uuid.uuid4()))
        if self._is_kept(seen) and not seen.kept:
            self._keep(own, claimed=False)
        note_new(connection)
        records.prepare(connection)
        if seen.marked != own:
            records.set_owner(connection, own)
        return own

    def is_known(self, mark: str | None, server: bool) -> bool:
        """Return True if the folder and that mark of a database belong together beyond doubt, so `claim` would change nothing.
        server: the database is not a file of the folder. Raises Halt for a damaged folder."""
        kept, claimed = self._read()
        own = self._given or kept
        if not own or mark != own:
            return False
        return (kept, claimed) == (own, True) if server else kept in ("", own)

    def check(self, connection: sa.Connection) -> None:
        """Look whether the database is this engine's, where nothing may be written. Raises Halt."""
        database_mark(self._look(connection), "")

    def claimed(self, own: str, server: bool) -> None:
        """Remembers that the mark is in a server's database: one that is empty later is missing its data."""
        if server and self._read() != (own, True):
            self._keep(own, claimed=True)

    def _is_kept(self, seen: OwnershipEvidence) -> bool:
        return seen.server or not seen.given

    def _look(self, connection: sa.Connection) -> OwnershipEvidence:
        kept, claimed = self._read()
        seen = OwnershipEvidence(self._given, kept, claimed, server=connection.dialect.name != "sqlite")
        tables = set(sa.inspect(connection).get_table_names())
        if records.OWNER.name in tables:
            seen = replace(seen, marked=records.owner(connection))
        if not seen.server:
            return seen
        there = [table for table in records.WITH_DATA if table.name in tables]
        used = any(connection.execute(sa.select(sa.literal(1)).select_from(table).limit(1)).first() for table in there)
        known = used and records.VERSIONS.name in tables and self._knows(connection)
        return replace(seen, used=used or any(map(is_of_an_app, tables)), known=known)

    def _knows(self, connection: sa.Connection) -> bool:
        stored = records.versions(connection)
        return all(self._package_files.holds(one.sha256) for one in stored) if stored else self._key.exists()

    def _read(self) -> tuple[str, bool]:
        try:
            kept = orjson.loads(self._file.read_bytes())
            return str(kept["id"]), bool(kept["claimed"])
        except FileNotFoundError:
            return "", False
        except (KeyError, TypeError, ValueError) as error:
            reason = f"{path_text(self._file)} is damaged: put it back from a copy, or remove it"
            raise Halt(Stalled("DatabaseTaken", reason, "Operator")) from error

    def _keep(self, own: str, claimed: bool) -> None:
        new = self._file.with_name(f"{self._file.name}.tmp")
        with writing_to_disk():
            new.unlink(missing_ok=True)
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(orjson.dumps({"id": own, "claimed": claimed}))
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._file)
            make_durable(self._file.parent)


def release(data: Path | None, url: str | None) -> None:
    """Lets the next engine that starts take the database over, and the folder. Blocks. Raises Invalid, Halt, OSError."""
    if url is None and data is None:
        raise Invalid((Problem("", "give --database URL, --data DIR, or both"),))
    database = Database((data or Path()) / FILE, url if is_postgresql(url) else None)
    if url is not None or database.exists:
        with database.writing() as connection:
            one_at_a_time(connection, "records")
            records.prepare(connection)
            records.set_owner(connection, RELEASED)
        database.close()
    if data is not None:
        (data / ID_FILE).unlink(missing_ok=True)
