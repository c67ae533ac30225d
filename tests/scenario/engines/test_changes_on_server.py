"""An engine that leaves a PostgreSQL server: its last copy sends the rows that changed, and is as exact as one of all rows."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import orjson
import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.sql.type_api import TypeEngine

from tenantry.adapters.local.archives import ABOUT, FORMAT, POSTGRESQL, ROWS, SENDS_ROWS, SQLITE, Members, pack
from tenantry.adapters.local.reading import Checked, holds_changes, unpack
from tenantry.adapters.local.server_copies import copied_before, dump_to_move, take_copied, unpack_to_server
from tenantry.adapters.local.staging import Staging
from tenantry.adapters.moving.blocks import parse_blocks
from tenantry.adapters.moving.leaving import LeavingCopy, LeavingFile
from tenantry.engine.logical import changes
from tenantry.engine.porting.values import spelling
from tenantry.engine.sql.files import FILE
from tenantry.model.facts import EngineRef
from tenantry.model.verdicts import Halt, Invalid
from tests.scenario.archives import packing, taken
from tests.scenario.data_world import engine_with_app
from tests.scenario.postgres import database_url, machine
from tests.support.column_values import TEXTS, VALUES
from tests.support.engine_archives import everything, files
from tests.unit.engine.schemas import dump

pytestmark = pytest.mark.slow
REF = EngineRef("tenant-acme", "dev", "e1", "acme", "dev", "uid-acme")
ROUNDS, STATEMENTS = 4, 60
PASSING = (psycopg.errors.IntegrityError, psycopg.errors.LockNotAvailable)


class Leaving:
    """An engine that leaves its place, and copies of it in a new one. url: of its database on a server, None for a file."""

    def __init__(self, folder: Path, url: str | None, new: NewPlace) -> None:
        self.url = url
        self.folder = folder
        self.new = new
        self.archives = 0

    def archive(self, earlier: bytes = b"") -> Checked:
        kind = POSTGRESQL if self.url else SQLITE
        about = {"format": FORMAT, "takenAt": "2026-01-01T00:00:00Z", "database": kind, SENDS_ROWS: True}
        self.archives += 1
        target = self.folder / f"{self.archives}.tar"
        packed = LeavingFile(self.folder / "data").copy(earlier) if self.url is None else LeavingCopy(kind, self._rows(earlier))
        keys = packing(keys=True)._replace(earlier=packed.earlier)
        pack({ABOUT: orjson.dumps(about)}, self.folder / "data", target, keys, packed.members)
        return taken(target)

    def _rows(self, earlier: bytes) -> Members:
        return lambda scratch: dump_to_move(self.server, scratch, earlier)

    def copy(self, mark: str = "prepared") -> Checked:
        """Copy it once more, with what changed since the last time if that is enough."""
        archive = self.archive(self.new.earlier())
        self.new.put(archive, mark)
        return archive

    def exactly(self) -> bool:
        """Return True if the copy is one of all rows."""
        came = self.new.taken("prepared")
        self.new.put(self.archive(), "all")
        return came == self.new.taken("all")

    @property
    def server(self) -> str:
        assert self.url is not None
        return self.url.replace("+psycopg", "")

    def ask(self, query: str) -> list[Any]:
        """The first column of an answer."""
        with closing(psycopg.connect(self.server)) as connection:
            return [row[0] for row in connection.execute(query.encode()).fetchall()]

    def do(self, *statements: str) -> None:
        connect: Any = partial(sqlite3.connect, self.folder / "data" / FILE, isolation_level=None)
        if self.url is not None:
            connect = partial(psycopg.connect, self.server, autocommit=True)
        with closing(connect()) as connection:
            for statement in statements:
                connection.execute(statement.encode() if self.url else statement)


class NewPlace(Protocol):
    def earlier(self) -> bytes: ...
    def put(self, archive: Checked, mark: str) -> None: ...
    def do(self, statement: str) -> None: ...
    def taken(self, mark: str) -> list[str]:
        """All that is in the copy of that mark, which is the engine's now."""


class NewFile:
    """A place with files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "new"
        self.folder.mkdir()
        self.staging = Staging(self.folder)

    def earlier(self) -> bytes:
        return self.staging.earlier(REF)

    def put(self, archive: Checked, mark: str) -> None:
        self.staging.put(archive, REF, mark, as_file=True)

    def do(self, statement: str) -> None:
        with closing(sqlite3.connect(self.folder / "restoring" / REF.id / "engine" / FILE, isolation_level=None)) as connection:
            connection.execute(statement)

    def taken(self, mark: str) -> list[str]:
        assert self.staging.take_copy(REF, mark, self.folder / mark)
        return sorted(dump(self.folder / mark / FILE))


class NewServer:
    """A place on a server. url: of a new database; each copy of all rows after one that was taken comes to another."""

    def __init__(self, folder: Path, url_of: Callable[[], str]) -> None:
        self.folder = folder
        self.url_of = url_of
        self.url = url_of()

    def earlier(self) -> bytes:
        return copied_before(self.url)

    def put(self, archive: Checked, mark: str) -> None:
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            unpack_to_server(archive, Path(scratch) / "engine", self.url, mark, replaces=True)

    def do(self, statement: str) -> None:
        with closing(psycopg.connect(self.url.replace("+psycopg", ""), autocommit=True)) as connection:
            connection.execute(statement.encode())

    def taken(self, mark: str) -> list[str]:
        assert take_copied(self.url, mark)
        found = everything(self.folder, self.url)
        self.url = self.url_of()
        return found


@pytest.fixture
async def leaving(server: str, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Leaving]:
    """From a server to a file, unless the test says otherwise."""
    origin, target = getattr(request, "param", ("server", "file"))
    url = database_url(server) if origin == "server" else None
    async with engine_with_app(tmp_path, url):
        pass
    yield Leaving(tmp_path, url, NewFile(tmp_path) if target == "file" else NewServer(tmp_path, lambda: database_url(server)))


FROM_SERVER = pytest.mark.parametrize("leaving", [("server", "file"), ("server", "server")], indirect=True, ids="-".join)


def sends_changes(archive: Checked) -> bool:
    """Return True if an archive has only what changed."""
    return holds_changes(archive) or ROWS in (archive.digests or ())


class Writer:
    """One who writes rows at random. On a server each statement is a transaction within a transaction, which may be given up."""

    def __init__(self, leaving: Leaving, seed: int) -> None:
        self.random = random.Random(seed)
        self.on_server = leaving.url is not None
        if self.on_server:
            # Of two in one thread that wait for one another, neither would go on.
            self.connection: Any = psycopg.connect(leaving.server, options="-c lock_timeout=100ms")
        else:
            self.connection = sqlite3.connect(leaving.folder / "data" / FILE, isolation_level=None)
            self.connection.create_function(
                "md5", 1, lambda text: hashlib.md5(str(text).encode(), usedforsecurity=False).hexdigest()
            )
            self.connection.execute("PRAGMA foreign_keys = ON")

    def write(self, statements: int = STATEMENTS) -> None:
        kinds = (self._kind, self._account, self._contact, self._change, self._key, self._delete)
        for _ in range(statements):
            statement, values = self.random.choice(kinds)()
            if not self.on_server:
                with suppress(sqlite3.IntegrityError):
                    self.connection.execute(statement.replace("%s", "?").replace("%%", "%"), values)
                continue
            with suppress(*PASSING), self.connection.transaction() as within:
                self.connection.execute(statement.encode(), values)
                if self.random.random() < 0.2:
                    raise psycopg.Rollback(within)
            if self.random.random() < 0.2:
                self.random.choice((self.connection.commit, self.connection.commit, self.connection.rollback))()

    def _kind(self) -> tuple[str, tuple[Any, ...]]:
        row: dict[str, Any] = {name: self.random.choice((None, *values)) for name, values in VALUES.items()}
        row["extra"] = json.dumps(row["extra"])
        row["picture"] = None if row["picture"] is None else base64.b64decode(row["picture"])
        if not self.on_server:
            row |= self._as_sqlite_has_it(row)
        row |= {"region": self._text(), "code": self._text()}
        names = ", ".join(f'"{name}"' for name in row)
        return f"INSERT INTO crm__kinds ({names}) VALUES ({', '.join(['%s'] * len(row))})", tuple(row.values())

    @staticmethod
    def _as_sqlite_has_it(row: dict[str, Any]) -> dict[str, Any]:
        columns: dict[str, tuple[TypeEngine[Any], Callable[[Any], str]]] = {
            "big": (sa.BigInteger(), str),
            "price": (sa.Numeric(10, 2), str),
            "moment": (sa.DateTime(), lambda text: text.replace("T", " ").removesuffix("Z")),
            "extra": (sa.JSON(), str),
            "token": (sa.Uuid(), str),
        }
        return {name: spelling(type_).stored(text(row[name])) for name, (type_, text) in columns.items() if row[name] is not None}

    def _account(self) -> tuple[str, tuple[Any, ...]]:
        return "INSERT INTO crm__accounts (name) VALUES (%s)", (f"{self._text()} {self.random.randrange(40)}",)

    def _contact(self) -> tuple[str, tuple[Any, ...]]:
        account = "(SELECT id FROM crm__accounts ORDER BY md5(CAST(id AS TEXT) || %s) LIMIT 1)"
        statement = f"INSERT INTO crm__contacts (email, account_id) VALUES (%s, {account})"
        return statement, (f"{self.random.randrange(60)}@x", str(self.random.random()))

    def _change(self) -> tuple[str, tuple[Any, ...]]:
        return self.random.choice((
            ("UPDATE crm__kinds SET note = %s WHERE region = %s", (self._text(), self._text())),
            ("UPDATE crm__accounts SET name = %s || id WHERE id %% 7 = %s", (self._text(), self.random.randrange(7))),
            ("UPDATE crm__contacts SET active = NOT active WHERE id %% 3 = %s", (self.random.randrange(3),)),
        ))  # fmt: skip

    def _key(self) -> tuple[str, tuple[Any, ...]]:
        return "UPDATE crm__kinds SET code = %s WHERE region = %s AND code = %s", (self._text(), self._text(), self._text())

    def _delete(self) -> tuple[str, tuple[Any, ...]]:
        table, text = self.random.choice((("kinds", "region || code"), ("contacts", "email"), ("accounts", "name")))
        return f"DELETE FROM crm__{table} WHERE md5({text} || %s) LIKE %s", (
            str(self.random.random()),
            f"{self.random.randrange(16):x}%",
        )

    def _text(self) -> str:
        return self.random.choice(TEXTS)


@contextmanager
def writers(leaving: Leaving, *seeds: int) -> Iterator[list[Writer]]:
    made = [Writer(leaving, seed) for seed in seeds]
    yield made
    for writer in made:
        writer.connection.close()


@FROM_SERVER
@pytest.mark.parametrize("seed", range(4))
async def test_whatever_was_written_between_two_copies_the_last_one_is_what_is_there(leaving: Leaving, seed: int) -> None:
    with writers(leaving, seed, seed + 100, seed + 200) as (first, second, long):
        # From here on all that others write is as new as a transaction that has not ended.
        long.connection.execute("INSERT INTO crm__accounts (name) VALUES ('begun before')")
        with long.connection.transaction():
            long.connection.execute("INSERT INTO crm__kinds (region, code) VALUES ('begun', 'within')")
        for writer in (first, second):
            writer.write()
            writer.connection.commit()
        assert not sends_changes(leaving.copy())
        for number in range(ROUNDS):
            second.write()
            first.connection.rollback()
            leaving.do(first.random.choice(("VACUUM", "VACUUM FREEZE", "ANALYZE", "SELECT 1")))
            first.write(10)
            second.connection.rollback()
            if number == seed:
                long.connection.commit()
            assert sends_changes(leaving.copy())
        second.write()
        for writer in (first, second):
            writer.connection.commit()
    assert sends_changes(leaving.copy())
    assert leaving.exactly()


@FROM_SERVER
@pytest.mark.parametrize(
    "statements",
    [
        ("TRUNCATE crm__contacts",),
        ("TRUNCATE crm__contacts RESTART IDENTITY", "INSERT INTO crm__contacts (email) VALUES ('again@x')"),
        ("VACUUM FULL crm__kinds", "UPDATE crm__kinds SET note = 'after'"),
        ("CLUSTER crm__accounts USING crm__accounts_pkey",),
        ("DELETE FROM crm__contacts", "VACUUM crm__contacts"),
        ('ALTER TABLE crm__kinds DROP COLUMN "order"', 'ALTER TABLE crm__kinds ADD COLUMN "order" integer'),
        ("SELECT 1 FROM crm__accounts FOR UPDATE",),
        ("ALTER SEQUENCE crm__accounts_id_seq RESTART WITH 900", "SELECT nextval('crm__accounts_id_seq')"),
    ],
    ids=lambda statements: statements[0],
)
async def test_a_table_that_is_stored_anew_comes_whole(leaving: Leaving, statements: tuple[str, ...]) -> None:
    with writers(leaving, 1) as (writer,):
        writer.write()
        writer.connection.commit()
    if "CLUSTER" in statements[0]:
        (name,) = leaving.ask("SELECT conname FROM pg_constraint WHERE contype = 'p' AND conrelid = 'crm__accounts'::regclass")
        statements = (f'CLUSTER crm__accounts USING "{name}"',)
    leaving.copy()
    leaving.do(*statements)
    assert sends_changes(leaving.copy())
    assert leaving.exactly()


async def test_only_what_changed_is_sent(leaving: Leaving) -> None:
    leaving.do("INSERT INTO crm__kinds (region, code, note) SELECT 'r', n, repeat('x', 2000) FROM generate_series(1, 3000) n")
    whole = leaving.copy()
    size = whole.path.stat().st_size
    leaving.do("UPDATE crm__kinds SET note = 'y' WHERE code = '1500'", "DELETE FROM crm__kinds WHERE code = '7'")
    assert sends_changes(leaving.copy())
    leaving.do("INSERT INTO crm__accounts (name) VALUES ('a')")
    assert leaving.copy().path.stat().st_size < size / 20


async def test_tables_that_are_changed_bring_all_rows_again(leaving: Leaving) -> None:
    leaving.copy()
    leaving.do("ALTER TABLE crm__accounts ALTER COLUMN name TYPE varchar(41)")
    assert not sends_changes(leaving.archive(leaving.new.earlier()))


async def test_a_server_that_does_not_say_which_it_is_sends_all_rows_again(
    leaving: Leaving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_SERVER", "SELECT no_such_function()")
    leaving.copy()
    assert leaving.new.earlier() != b""
    leaving.do("INSERT INTO crm__accounts (name) VALUES ('a')")
    assert not sends_changes(leaving.copy())
    assert leaving.exactly()


async def test_a_server_that_was_set_back_sends_all_rows_again(tmp_path: Path) -> None:
    with machine() as made:
        url = database_url(made.address)
        async with engine_with_app(tmp_path, url):
            pass
        leaving = Leaving(tmp_path, url, NewFile(tmp_path))
        made.back_up()
        leaving.do(*(f"INSERT INTO crm__accounts (name) VALUES ('lost {number}')" for number in range(9)))
        leaving.copy()
        made.put_back()
        # They have the places of those that were lost, and the numbers of their transactions.
        leaving.do(*(f"INSERT INTO crm__accounts (name) VALUES ('other {number}')" for number in range(5)))
        leaving.do(*["SELECT pg_current_xact_id()"] * 9)
        assert not sends_changes(leaving.copy())
        assert leaving.exactly()


async def test_changes_of_another_copy_are_refused_and_the_next_copy_is_whole(leaving: Leaving) -> None:
    leaving.copy()
    other = leaving.archive(leaving.new.earlier())
    leaving.copy()
    with pytest.raises(Halt, match="those of another copy") as refused:
        leaving.new.put(other, "late")
    assert refused.value.verdict.reason == "MoveStale"
    assert leaving.new.earlier() == b""
    with pytest.raises(Halt, match="is gone"):
        leaving.new.put(other, "late")
    leaving.do("INSERT INTO crm__accounts (name) VALUES ('a')")
    assert not sends_changes(leaving.copy())
    assert leaving.exactly()


@FROM_SERVER
async def test_nothing_of_it_is_in_the_database_and_nothing_beside_the_engine_that_came(leaving: Leaving, tmp_path: Path) -> None:
    objects = "SELECT count(*) FROM pg_class UNION ALL SELECT count(*) FROM pg_proc UNION ALL SELECT count(*) FROM pg_trigger"
    before = leaving.ask(objects)
    leaving.copy()
    leaving.copy("token")
    assert leaving.ask(objects) == before
    assert not [line for line in leaving.new.taken("token") if "_tenantry_places" in line or "_tenantry_moment" in line]
    assert not [path for path in files(tmp_path) if "places" in path]


FROM_FILE = pytest.mark.parametrize("leaving", [("file", "server")], indirect=True, ids="-".join)


@FROM_FILE
@pytest.mark.parametrize("seed", range(4))
async def test_whatever_was_written_in_a_file_its_copy_on_a_server_has_it(leaving: Leaving, seed: int) -> None:
    with writers(leaving, seed) as (writer,):
        writer.write(STATEMENTS * 6)
        assert not sends_changes(leaving.copy())
        for _ in range(ROUNDS):
            writer.write()
            leaving.do(writer.random.choice(("VACUUM", "REINDEX", "SELECT 1")))
            assert sends_changes(leaving.copy())
        writer.write(5)
        leaving.do("DELETE FROM crm__contacts WHERE id = (SELECT max(id) FROM crm__contacts)")
    assert sends_changes(leaving.copy())
    assert leaving.exactly()


@FROM_FILE
async def test_only_the_rows_that_changed_in_a_file_are_sent(leaving: Leaving) -> None:
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)"
    leaving.do(f"{numbers} INSERT INTO crm__kinds (region, code, note) SELECT 'r', i, hex(zeroblob(1000)) FROM n")
    size = leaving.copy().path.stat().st_size
    leaving.do("UPDATE crm__kinds SET note = 'y' WHERE code = '1500'", "DELETE FROM crm__kinds WHERE code = '7'")
    assert leaving.copy().path.stat().st_size < size / 10
    assert leaving.exactly()


@FROM_FILE
async def test_tables_of_a_file_that_are_changed_bring_all_rows_again(leaving: Leaving) -> None:
    leaving.copy()
    leaving.do("ALTER TABLE crm__accounts ADD COLUMN by_hand TEXT")
    assert not sends_changes(leaving.archive(leaving.new.earlier()))


@FROM_FILE
async def test_changes_of_a_file_come_to_no_other_copy(leaving: Leaving) -> None:
    leaving.copy()
    other = leaving.archive(leaving.new.earlier())
    leaving.copy()
    leaving.copy()
    with pytest.raises(Halt, match="those of another copy"):
        leaving.new.put(other, "late")
    assert leaving.new.earlier() == b""
    assert not sends_changes(leaving.copy())
    assert leaving.exactly()
    with pytest.raises(Halt, match="is not here"):
        leaving.new.put(other, "late")


@pytest.mark.parametrize("leaving", [("server", "file"), ("server", "server"), ("file", "server")], indirect=True, ids="-".join)
async def test_a_copy_that_lost_a_row_takes_no_changes_and_the_next_one_is_whole(leaving: Leaving) -> None:
    leaving.do("INSERT INTO crm__accounts (name) VALUES ('a'), ('b')")
    leaving.copy()
    leaving.new.do("DELETE FROM crm__accounts WHERE name = 'a'")
    leaving.do("UPDATE crm__accounts SET name = 'c' WHERE name = 'a'")
    with pytest.raises(Halt, match="have rows of crm__accounts that are not here"):
        leaving.copy()
    assert leaving.new.earlier() == b""
    assert not sends_changes(leaving.copy())
    assert leaving.exactly()


@FROM_FILE
async def test_an_old_place_that_cannot_send_rows_is_not_asked_for_them(leaving: Leaving) -> None:
    archive = leaving.archive()
    leaving.new.put(replace(archive, about={**archive.about, SENDS_ROWS: None}), "prepared")
    assert leaving.new.earlier() == b""


@FROM_FILE
async def test_a_place_that_knows_no_changed_rows_refuses_them_before_it_makes_an_empty_engine(
    leaving: Leaving, tmp_path: Path
) -> None:
    """An earlier release unpacks all that is not a logical copy, and takes an engine without a file for one that is empty."""
    leaving.copy()
    changes = leaving.archive(leaving.new.earlier())
    assert sends_changes(changes)
    with pytest.raises(Invalid, match="does not belong in a backup"):
        unpack(changes, tmp_path / "unpacked")
    with pytest.raises(ValueError, match="no digests"):
        parse_blocks(leaving.new.earlier())


async def test_the_blocks_of_a_file_come_to_no_server(server: str, tmp_path: Path) -> None:
    async with engine_with_app(tmp_path):
        pass
    leaving, new = Leaving(tmp_path, None, NewFile(tmp_path)), NewServer(tmp_path, lambda: database_url(server))
    leaving.copy()
    with pytest.raises(Invalid, match="holds the changes of a file"):
        new.put(leaving.archive(leaving.new.earlier()), "prepared")
