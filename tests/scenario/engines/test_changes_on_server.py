"""An engine that leaves a PostgreSQL server: its last copy sends the rows that changed, and is as exact as one of all rows."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import psycopg
import pytest

from tenantry.adapters.local.archives import ABOUT, FORMAT, POSTGRESQL, pack
from tenantry.adapters.local.reading import Checked, holds_changes
from tenantry.adapters.local.server_copies import dump_to_move
from tenantry.adapters.local.staging import Staging
from tenantry.engine.logical import changes
from tenantry.engine.sql.files import FILE
from tenantry.model.facts import EngineRef
from tenantry.model.verdicts import Halt
from tests.scenario.archives import packing, taken
from tests.scenario.data_world import engine_with_app
from tests.scenario.postgres import database_url
from tests.support.column_values import TEXTS, VALUES
from tests.unit.engine.schemas import dump

pytestmark = pytest.mark.slow
REF = EngineRef("tenant-acme", "dev", "e1", "acme", "dev", "uid-acme")
ROUNDS, STATEMENTS = 4, 60
PASSING = (psycopg.errors.IntegrityError, psycopg.errors.LockNotAvailable)


class Leaving:
    """An engine on a server, and the new place with its copies. url: of its database."""

    def __init__(self, folder: Path, url: str) -> None:
        self.url = url.replace("+psycopg", "")
        self.folder = folder
        self.staging = Staging(folder / "new")
        self.archives = 0

    def archive(self, earlier: bytes = b"") -> Checked:
        about = {ABOUT: orjson.dumps({"format": FORMAT, "takenAt": "2026-01-01T00:00:00Z", "database": POSTGRESQL})}
        self.archives += 1
        target = self.folder / f"{self.archives}.tar"
        pack(about, self.folder / "data", target, packing(keys=True), lambda scratch: dump_to_move(self.url, scratch, earlier))
        return taken(target)

    def copy(self, mark: str = "prepared") -> Checked:
        """Copy it once more, with what changed since the last time if that is enough."""
        archive = self.archive(self.staging.earlier(REF))
        self.staging.put(archive, REF, mark, as_file=True)
        return archive

    def came(self) -> list[str]:
        """All that is in the copy."""
        return sorted(dump(self.folder / "new" / "restoring" / REF.id / "engine" / FILE))

    def there(self) -> list[str]:
        """All that is in a copy of all rows."""
        other = Staging(self.folder / "all")
        other.put(self.archive(), REF, "all", as_file=True)
        return sorted(dump(self.folder / "all" / "restoring" / REF.id / "engine" / FILE))

    def ask(self, query: str) -> list[Any]:
        """The first column of an answer."""
        with closing(psycopg.connect(self.url)) as connection:
            return [row[0] for row in connection.execute(query.encode()).fetchall()]

    def do(self, *statements: str) -> None:
        with closing(psycopg.connect(self.url, autocommit=True)) as connection:
            for statement in statements:
                connection.execute(statement.encode())


@pytest.fixture
async def leaving(server: str, tmp_path: Path) -> AsyncIterator[Leaving]:
    url = database_url(server)
    async with engine_with_app(tmp_path, url):
        pass
    (tmp_path / "new").mkdir()
    (tmp_path / "all").mkdir()
    yield Leaving(tmp_path, url)


class Writer:
    """One who writes rows at random, each statement in a transaction within a transaction, which may be given up."""

    def __init__(self, url: str, seed: int) -> None:
        self.random = random.Random(seed)
        # Of two in one thread that wait for one another, neither would go on.
        self.connection = psycopg.connect(url, options="-c lock_timeout=100ms")

    def write(self, statements: int = STATEMENTS) -> None:
        kinds = (self._kind, self._account, self._contact, self._change, self._key, self._delete)
        for _ in range(statements):
            statement, values = self.random.choice(kinds)()
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
        row |= {"region": self._text(), "code": self._text()}
        names = ", ".join(f'"{name}"' for name in row)
        return f"INSERT INTO crm__kinds ({names}) VALUES ({', '.join(['%s'] * len(row))})", tuple(row.values())

    def _account(self) -> tuple[str, tuple[Any, ...]]:
        return "INSERT INTO crm__accounts (name) VALUES (%s)", (f"{self._text()} {self.random.randrange(40)}",)

    def _contact(self) -> tuple[str, tuple[Any, ...]]:
        account = "(SELECT id FROM crm__accounts ORDER BY md5(id::text || %s) LIMIT 1)"
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
        table = self.random.choice(("kinds", "contacts", "accounts"))
        return f"DELETE FROM crm__{table} AS it WHERE md5(it::text) LIKE %s", (f"{self.random.randrange(16):x}%",)

    def _text(self) -> str:
        return self.random.choice(TEXTS)


@contextmanager
def writers(url: str, *seeds: int) -> Iterator[list[Writer]]:
    made = [Writer(url, seed) for seed in seeds]
    yield made
    for writer in made:
        writer.connection.close()


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_was_written_between_two_copies_the_last_one_is_what_is_there(leaving: Leaving, seed: int) -> None:
    with writers(leaving.url, seed, seed + 100, seed + 200) as (first, second, long):
        # From here on all that others write is as new as a transaction that has not ended.
        long.connection.execute("INSERT INTO crm__accounts (name) VALUES ('begun before')")
        with long.connection.transaction():
            long.connection.execute("INSERT INTO crm__kinds (region, code) VALUES ('begun', 'within')")
        for writer in (first, second):
            writer.write()
            writer.connection.commit()
        assert not holds_changes(leaving.copy())
        for number in range(ROUNDS):
            second.write()
            first.connection.rollback()
            leaving.do(first.random.choice(("VACUUM", "VACUUM FREEZE", "ANALYZE", "SELECT 1")))
            first.write(10)
            second.connection.rollback()
            if number == seed:
                long.connection.commit()
            assert holds_changes(leaving.copy())
        second.write()
        for writer in (first, second):
            writer.connection.commit()
    assert holds_changes(leaving.copy())
    assert leaving.came() == leaving.there()


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
    with writers(leaving.url, 1) as (writer,):
        writer.write()
        writer.connection.commit()
    if "CLUSTER" in statements[0]:
        (name,) = leaving.ask("SELECT conname FROM pg_constraint WHERE contype = 'p' AND conrelid = 'crm__accounts'::regclass")
        statements = (f'CLUSTER crm__accounts USING "{name}"',)
    leaving.copy()
    leaving.do(*statements)
    assert holds_changes(leaving.copy())
    assert leaving.came() == leaving.there()


async def test_only_what_changed_is_sent(leaving: Leaving) -> None:
    leaving.do("INSERT INTO crm__kinds (region, code, note) SELECT 'r', n, repeat('x', 2000) FROM generate_series(1, 3000) n")
    whole = leaving.copy()
    size = whole.path.stat().st_size
    leaving.do("UPDATE crm__kinds SET note = 'y' WHERE code = '1500'", "DELETE FROM crm__kinds WHERE code = '7'")
    assert holds_changes(leaving.copy())
    leaving.do("INSERT INTO crm__accounts (name) VALUES ('a')")
    assert leaving.copy().path.stat().st_size < size / 20


async def test_tables_that_are_changed_bring_all_rows_again(leaving: Leaving) -> None:
    leaving.copy()
    leaving.do("ALTER TABLE crm__accounts ALTER COLUMN name TYPE varchar(41)")
    assert not holds_changes(leaving.archive(leaving.staging.earlier(REF)))


async def test_a_server_that_does_not_say_which_it_is_sends_all_rows_again(
    leaving: Leaving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_SERVER", "SELECT no_such_function()")
    leaving.copy()
    assert leaving.staging.earlier(REF) != b""
    leaving.do("INSERT INTO crm__accounts (name) VALUES ('a')")
    assert not holds_changes(leaving.copy())
    assert leaving.came() == leaving.there()


async def test_changes_of_another_copy_are_refused_and_the_next_copy_is_whole(leaving: Leaving) -> None:
    leaving.copy()
    other = leaving.archive(leaving.staging.earlier(REF))
    leaving.copy()
    with pytest.raises(Halt, match="those of another copy") as refused:
        leaving.staging.put(other, REF, "late", as_file=True)
    assert refused.value.verdict.reason == "MoveStale"
    assert leaving.staging.earlier(REF) == b""
    with pytest.raises(Halt, match="is gone"):
        leaving.staging.put(other, REF, "late", as_file=True)
    leaving.do("INSERT INTO crm__accounts (name) VALUES ('a')")
    assert not holds_changes(leaving.copy())
    assert leaving.came() == leaving.there()


async def test_nothing_of_it_is_in_the_database_and_nothing_beside_the_engine_that_came(leaving: Leaving, tmp_path: Path) -> None:
    objects = "SELECT count(*) FROM pg_class UNION ALL SELECT count(*) FROM pg_proc UNION ALL SELECT count(*) FROM pg_trigger"
    before = leaving.ask(objects)
    leaving.copy()
    leaving.copy("token")
    assert leaving.ask(objects) == before
    assert leaving.staging.take_copy(REF, "token", tmp_path / "taken")
    assert not [
        path for path in (*tmp_path.joinpath("taken").iterdir(), *tmp_path.joinpath("new").rglob("*")) if "places" in path.name
    ]
