"""The URL of a database that an engine cannot use: one line says why, and nothing is left in the database."""

from __future__ import annotations

import secrets
from pathlib import Path

import psycopg
import pytest

from tenantry.engine.database import Database
from tenantry.engine.logical.session import session
from tenantry.model.verdicts import Halt
from tests.scenario.cli import called
from tests.scenario.postgres import database_url

ENCODINGS = ["LATIN1", "SQL_ASCII"]


def of_encoding(server: str, encoding: str) -> str:
    """The URL of a new database."""
    name = f"t{secrets.token_hex(8)}"
    with psycopg.connect(f"postgresql://{server}/postgres", autocommit=True) as connection:
        made = f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'"
        connection.execute(made.encode())
    return f"postgresql://{server}/{name}"


def tables(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_database_that_cannot_hold_every_text_is_refused(server: str, tmp_path: Path, encoding: str) -> None:
    url = of_encoding(server, encoding)
    refusal = f"database: has the encoding {encoding}: create it with ENCODING 'UTF8'"
    told = called("engine", "--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--database", url, cwd=tmp_path)
    assert (told.returncode, told.stderr.strip()) == (2, refusal)
    with pytest.raises(Halt, match=encoding), session(url):
        pass
    assert tables(url) == 0


def test_texts_do_not_depend_on_the_encoding_that_a_client_has_by_default(server: str, tmp_path: Path) -> None:
    url = database_url(server)
    name = url.rpartition("/")[2]
    with psycopg.connect(f"postgresql://{server}/{name}", autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET client_encoding TO 'LATIN1'".encode())
    database = Database(tmp_path / "none", f"{url}?client_encoding=LATIN1")
    with database.reading() as connection:
        assert connection.exec_driver_sql("SELECT '日本'").scalar() == "日本"
    database.close()


WRONG = {
    "no such database": ("postgres://{server}/none", 'database "none" does not exist'),
    "no such role": ("postgresql://nobody@{place}/postgres", 'role "nobody" does not exist'),
    "no server": ("postgresql://127.0.0.1:1/x", "Connection refused"),
    "no such host": ("postgresql://none.invalid/x", "the database is not available: "),
    "an option that is none": ("postgresql://{server}/postgres?colour=red", 'invalid connection option "colour"'),
    "an option's value that is none": ("postgresql://{server}/postgres?sslmode=red", 'invalid sslmode value: "red"'),
    "a port that is none": ("postgresql://127.0.0.1:red/x", "must be a URL that begins with postgresql://"),
    "another database": ("mysql://127.0.0.1/x", "must be a URL that begins with postgresql://"),
    "a driver that is not used": ("postgresql+asyncpg://{server}/x", "must be a URL that begins with postgresql://"),
}


@pytest.mark.parametrize("row", WRONG.values(), ids=WRONG)
def test_a_wrong_url_is_told_in_one_line(server: str, tmp_path: Path, row: tuple[str, str]) -> None:
    url = row[0].format(server=server, place=server.partition("@")[2])
    told = called("engine", "--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--database", url, cwd=tmp_path)
    assert (told.returncode in (1, 2), row[1] in told.stderr, len(told.stderr.splitlines())) == (True, True, 1), told.stderr


def test_a_role_that_may_not_make_tables_is_told_in_one_line(server: str, tmp_path: Path) -> None:
    url = database_url(server).replace("postgresql+psycopg://", "postgresql://")
    role = f"r{secrets.token_hex(8)}"
    with psycopg.connect(f"postgresql://{server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN".encode())
    as_role = url.replace("tests@", f"{role}@")
    told = called("engine", "--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--database", as_role, cwd=tmp_path)
    assert (told.returncode, told.stderr) == (2, "database: permission denied for schema public\n")
