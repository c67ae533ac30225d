"""Backups of an engine alone, on both databases: of one moment while it serves, and what comes back from them."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import shutil
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import psycopg
import pytest
import sqlalchemy as sa

from tenantry.adapters.local import engine_backups, half_restored, server_copies
from tenantry.adapters.local.archives import write
from tenantry.adapters.local.engine_backups import is_restored
from tenantry.adapters.local.members import MANIFEST, SIGNATURE, MemberWriter
from tenantry.adapters.local.reading import read, unpack
from tenantry.adapters.store.state_folder import password_file
from tenantry.engine.access import Served
from tenantry.engine.database import Database
from tenantry.engine.logical.dump import dump as copy_of
from tenantry.engine.principal import Principal
from tenantry.engine.sealing import OWN_KEYS, TOKEN_KEY_FILE, Sealing
from tenantry.engine.server import engine_app
from tenantry.engine.service import Engine
from tenantry.model.facts import Backup, EngineRef, IdentityProviderSettings, Password
from tenantry.model.verdicts import Halt, Invalid
from tenantry.rest.uploads import Uploads
from tests.scenario.archives import back_up, packing, receive, restore, signing, stream_back_up, taken
from tests.scenario.cli import called, serving, tenantry
from tests.scenario.data_world import DATA, PASSWORD, engine_with_app, signed_in
from tests.scenario.postgres import database_url
from tests.scenario.serving import serving as serving_app
from tests.support.engine_archives import DATABASES, SEEDS, _used, archives, everything, files, flipped
from tests.support.waiting import eventually
from tests.unit.engine.archives import write_package
from tests.unit.engine.schemas import column, reference, table

ANYBODY = Principal("1", "anybody")
__all__ = ["archives"]


@pytest.fixture(params=DATABASES)
def new_url(request: pytest.FixtureRequest) -> Callable[[], str | None]:
    """Makes a database of the kind of the test: its URL, None for SQLite in the folder."""
    if request.param == "sqlite":
        return lambda: None
    address = request.getfixturevalue("server")
    return lambda: database_url(address)


def rewritten(archive: Path, to: Path, change: Callable[[str, bytes], bytes | None]) -> Path:
    """The archive with other members, and a manifest and a signature that fit; None leaves one out."""
    with tarfile.open(archive) as source, tarfile.open(to, "w") as target:
        writer = MemberWriter(target)
        for member in source:
            content = change(member.name, source.extractfile(member).read())  # type: ignore[union-attr]
            if content is not None and member.name not in (MANIFEST, SIGNATURE):
                member.size = len(content)
                writer.member(member, io.BytesIO(content))
        writer.end(signing())
    return to


@pytest.mark.slow
async def test_what_is_restored_is_the_engine_that_was(new_url: Callable[[], str | None], tmp_path: Path) -> None:
    url, again = new_url(), new_url()
    async with engine_with_app(tmp_path, url, seeds=SEEDS) as (engine, address), signed_in(address, "ed") as ed:
        secret = Password(clear="of the provider", fingerprint="f")
        settings = IdentityProviderSettings("sso", "https://sso", "dev", "openid", True, False, {}, "")
        provider = await engine.add_identity_provider(settings, secret)
        assert (await ed.post(f"{DATA}/accounts", json={"name": "new"})).json()["id"] == 8
        await asyncio.to_thread(back_up, tmp_path / "data", url, tmp_path / "engine.tar")
        old = await asyncio.to_thread(everything, tmp_path / "data", url)
    await asyncio.to_thread(restore, tmp_path / "engine.tar", tmp_path / "again", again)
    assert (tmp_path / "engine.tar").stat().st_mode & 0o777 == 0o600
    assert await asyncio.to_thread(everything, tmp_path / "again", again) == old
    assert files(tmp_path / "again") == files(tmp_path / "data")
    back = await Engine.open(tmp_path / "again", database_url=again)
    assert await back.steps("crm", "1.0.0") == ()
    found, _ = await back.authenticate("ed", PASSWORD)
    assert found.roles == {"crm": "editor"}
    with pytest.raises(Halt, match="set it again"):
        await back.client_secret(provider.id)
    assert [one.fingerprint for one in await back.identity_providers()] == ["lost"], "so it is delivered anew"
    await back.edit_identity_provider(provider.id, settings, secret)
    assert await back.client_secret(provider.id) == "of the provider"
    insert = sa.text("INSERT INTO crm__accounts (name) VALUES ('next') RETURNING id")
    assert await back.rows.run("crm", ANYBODY, lambda connection, *_: connection.execute(insert).scalar(), write=True) == 9
    await back.close()


async def test_an_engine_goes_through_a_pipe_and_nothing_of_it_stays_beside(
    new_url: Callable[[], str | None], tmp_path: Path
) -> None:
    url, again = new_url(), new_url()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    async with engine_with_app(tmp_path, url, seeds=SEEDS):
        with (tmp_path / "engine.tar").open("wb") as out:
            await asyncio.to_thread(stream_back_up, tmp_path / "data", url, out, scratch)
        old = await asyncio.to_thread(everything, tmp_path / "data", url)
    assert list(scratch.iterdir()) == []
    assert not is_restored(tmp_path / "again")
    with (tmp_path / "engine.tar").open("rb") as given:
        await asyncio.to_thread(receive, given, tmp_path / "again", again, scratch)
    assert list(scratch.iterdir()) == []
    assert is_restored(tmp_path / "again")
    assert await asyncio.to_thread(everything, tmp_path / "again", again) == old


async def test_a_pipe_that_ends_early_restores_nothing(tmp_path: Path) -> None:
    async with engine_with_app(tmp_path, None, seeds=SEEDS):
        whole = io.BytesIO()
        await asyncio.to_thread(stream_back_up, tmp_path / "data", None, whole, tmp_path)
    half = io.BytesIO(whole.getvalue()[: len(whole.getvalue()) // 2])
    with pytest.raises(Invalid, match=r"broken|not a backup"):
        await asyncio.to_thread(receive, half, tmp_path / "again", None, tmp_path / "scratch")
    assert not is_restored(tmp_path / "again")


@pytest.mark.slow
async def test_both_names_of_postgresql_name_the_same_database(server: str, tmp_path: Path) -> None:
    url, again = (database_url(server).replace("postgresql+psycopg", "postgres") for _ in range(2))
    async with engine_with_app(tmp_path, url, seeds=SEEDS):
        await asyncio.to_thread(back_up, tmp_path / "data", url, tmp_path / "engine.tar")
        old = await asyncio.to_thread(everything, tmp_path / "data", url)
    await asyncio.to_thread(restore, tmp_path / "engine.tar", tmp_path / "again", again)
    assert await asyncio.to_thread(everything, tmp_path / "again", again.replace("postgres:", "postgresql:")) == old


@pytest.mark.slow
async def test_a_migrated_engine_comes_back_with_its_next_migration_and_its_keys(
    new_url: Callable[[], str | None], tmp_path: Path
) -> None:
    """Sequences of columns that became generated, renamed tables, and what outlived its app."""
    url, again = new_url(), new_url()
    generated = {"name": "id", "type": "bigint", "generated": True}
    first = [table("a", column("n", "integer")), table("b", column("a", "integer"), foreignKeys=[reference("a", "a")])]
    second = [
        {**table("z", column("n", "integer"), renamedFrom="a"), "columns": [generated, column("n", "integer")]},
        table("b", column("a", "integer"), foreignKeys=[reference("a", "z")], indexes=[{"columns": ["a"]}], unique=[["a"]]),
    ]
    engine = await Engine.open(tmp_path / "data", database_url=url)
    lines = {"seed/a.ndjson": b'{"id": 5, "n": 1}', "seed/b.ndjson": b'{"id": 1, "a": 5}'}
    await engine.publish(write_package(tmp_path / "1.tapp", lines, version="1", tables=first))
    await engine.publish(write_package(tmp_path / "o.tapp", id="old-one", tables=[table("kept", column("Mixed"))]))
    await engine.uninstall("old-one")
    await engine.install("crm", "1")
    await engine.publish(write_package(tmp_path / "2.tapp", version="2", tables=second), allow_drops=True)
    await engine.close()
    await asyncio.to_thread(back_up, tmp_path / "data", url, tmp_path / "engine.tar")
    await asyncio.to_thread(restore, tmp_path / "engine.tar", tmp_path / "again", again)
    assert everything(tmp_path / "again", again) == everything(tmp_path / "data", url)
    back = await Engine.open(tmp_path / "again", database_url=again)
    assert await back.steps("crm", "2") == ()
    assert [(app.id, app.persisted) for app in await back.apps()] == [("crm", True), ("old-one", True)]
    insert = sa.text("INSERT INTO crm__z (n) VALUES (2) RETURNING id")
    assert await back.rows.run("crm", ANYBODY, lambda connection, *_: connection.execute(insert).scalar(), write=True) == 6
    await back.close()


@contextmanager
def writing_pairs(engine: Engine) -> Iterator[Callable[[], int]]:
    """Adds an account and its contact in a transaction, again and again. How many there are by now."""
    added, end = 0, threading.Event()
    account = sa.text("INSERT INTO crm__accounts (name) VALUES (:name)")
    contact = sa.text("INSERT INTO crm__contacts (email, account_id) SELECT name, id FROM crm__accounts WHERE name = :name")

    def write() -> None:
        nonlocal added
        while not end.is_set():
            with engine._database.writing() as connection:
                connection.execute(account, {"name": f"{added}@x"})
                connection.execute(contact, {"name": f"{added}@x"})
            added += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield lambda: added
    finally:
        end.set()
        writer.join()


@pytest.mark.slow
async def test_a_backup_under_transactions_of_two_tables_has_both_rows_or_none(
    new_url: Callable[[], str | None], tmp_path: Path
) -> None:
    url = new_url()
    async with engine_with_app(tmp_path, url) as (engine, _):
        with writing_pairs(engine) as added:
            for number in range(3):
                before = added()
                await eventually(lambda: added() >= before + 5)  # noqa: B023
                await asyncio.to_thread(back_up, tmp_path / "data", url, tmp_path / f"{number}.tar")
    for number in range(3):
        again = new_url()
        await asyncio.to_thread(restore, tmp_path / f"{number}.tar", tmp_path / f"{number}", again)
        with closing(Database(tmp_path / f"{number}" / "engine.db", again)) as database, database.reading() as connection:
            alone = "SELECT count(*) FROM crm__accounts a LEFT JOIN crm__contacts c ON c.account_id = a.id WHERE c.id IS NULL"
            assert connection.exec_driver_sql(alone).scalar() == 0
            assert (connection.exec_driver_sql("SELECT count(*) FROM crm__contacts").scalar() or 0) >= 5


@pytest.mark.slow
async def test_what_is_of_others_in_the_same_database_is_neither_taken_nor_touched(server: str, tmp_path: Path) -> None:
    url = database_url(server)
    other = f"{url}?options=-csearch_path%3Dother"
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        connection.execute("CREATE SCHEMA other")
        connection.execute("CREATE TABLE stranger (id serial PRIMARY KEY)")
        connection.execute("INSERT INTO stranger DEFAULT VALUES")
    (tmp_path / "other").mkdir()
    async with engine_with_app(tmp_path, url, seeds=SEEDS), engine_with_app(tmp_path / "other", other, seeds={}):
        await asyncio.to_thread(back_up, tmp_path / "data", url, tmp_path / "engine.tar")
        await asyncio.to_thread(back_up, tmp_path / "other" / "data", other, tmp_path / "other.tar")
    assert b"A\\\\N" in member(tmp_path / "engine.tar", "database/rows/crm__accounts.copy")
    assert member(tmp_path / "other.tar", "database/rows/crm__accounts.copy") == b""
    with tarfile.open(tmp_path / "engine.tar") as tar:
        assert not [name for name in tar.getnames() if "stranger" in name]
    assert b"stranger" not in member(tmp_path / "engine.tar", "database/tables.json")
    before = everything(tmp_path, url)
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        connection.execute("CREATE SCHEMA third")
    third = f"{url}?options=-csearch_path%3Dthird"
    await asyncio.to_thread(restore, tmp_path / "engine.tar", tmp_path / "third", third)
    back = await Engine.open(tmp_path / "third", database_url=third)
    ed, _ = await back.authenticate("ed", PASSWORD)
    assert ed.username == "ed"
    assert await back.steps("crm", "1.0.0") == ()
    await back.close()
    assert everything(tmp_path, url) == before


def member(archive: Path, name: str) -> bytes:
    with tarfile.open(archive) as tar:
        return tar.extractfile(name).read()  # type: ignore[union-attr]


@pytest.mark.slow
async def test_an_install_waits_for_the_backup_and_the_data_api_does_not(server: str, tmp_path: Path) -> None:
    url = database_url(server)
    engine = await Engine.open(tmp_path / "data", database_url=url)
    await engine.publish(write_package(tmp_path / "1.tapp", version="1", tables=[table("a", column("n"))]))
    await engine.upload(write_package(tmp_path / "2.tapp", version="2", tables=[table("a", column("m"))]))
    with closing(copy_of(url, tmp_path / "scratch")) as members:
        next(members)
        installing = asyncio.create_task(engine.install("crm", "2"))
        await eventually(lambda: waiting(url))
        count = sa.text("SELECT count(*) FROM crm__a")
        assert await engine.rows.run("crm", ANYBODY, lambda connection, *_: connection.execute(count).scalar()) == 0
        assert list(members)[-1] == "digests.json"
        assert not installing.done()
    await installing
    await engine.close()


def waiting(url: str) -> bool:
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        return connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() != (0,)


@pytest.fixture(scope="module")
def empty(server: str) -> str:
    """A database that stays empty: one for all refusals, for a new one costs more than they do."""
    return database_url(server)


ROWS = "database/rows/crm__contacts.copy"
BROKEN: dict[str, tuple[Callable[[str, bytes], bytes | None], str]] = {
    "a row is another": (lambda name, content: content.replace(b"a@x", b"b@x") if name == ROWS else content, ROWS),
    "rows are no rows": (lambda name, content: b"x\ty\n" if name == ROWS else content, ROWS),
    "rows are missing": (lambda name, content: None if name == ROWS else content, f"{ROWS}: is broken"),
    "tables are missing": (lambda name, content: None if name == "database/tables.json" else content, "tables.json"),
    "digests are missing": (lambda name, content: None if name == "database/digests.json" else content, "digests.json"),
    "tables are others": (
        lambda name, content: content.replace(b"varying(40)", b"varying(41)") if name == "database/tables.json" else content,
        "tables.json",
    ),
    "a table is a stranger's": (lambda name, content: stranger(name, content), "stranger is not the name of an engine's table"),
    "a type is more than a type": (
        lambda name, content: redone(name, content, b'"type": "text"', b'"type": "text); DROP TABLE x; --"'),
        "multiple commands",
    ),
    "another kind": (
        lambda name, content: content if name != "backup.json" else content.replace(b"postgresql", b"sqlite"),
        "says that its database is sqlite",
    ),
    "a format of the future": (lambda name, content: content.replace(b'"format": 3', b'"format": 4'), "format 4 is not known"),
    "no backup": (lambda name, content: None if name == "backup.json" else content, "is not a backup"),
}  # fmt: skip


def redone(name: str, content: bytes, old: bytes, new: bytes) -> bytes:
    """With digests that fit, as who means harm would write them."""
    original = content.replace(old, new) if name == "database/tables.json" else content
    _redone[name] = hashlib.sha256(original).hexdigest()
    if name != "database/digests.json":
        return original
    return json.dumps({each: _redone[f"database/{each}"] for each in json.loads(content)}).encode()


_redone: dict[str, str] = {}


def stranger(name: str, content: bytes) -> bytes:
    if name == "database/digests.json":
        _redone["database/rows/stranger.copy"] = _redone[ROWS]
        content = content.replace(b"crm__contacts", b"stranger")
    return redone(name, content, b'"crm__contacts"', b'"stranger"')


@pytest.mark.parametrize("row", BROKEN.values(), ids=BROKEN)
def test_a_broken_archive_is_refused_and_leaves_nothing_in_the_database(
    archives: dict[str, Path], empty: str, tmp_path: Path, row: tuple[Callable[[str, bytes], bytes | None], str]
) -> None:
    change, message = row
    with pytest.raises(Invalid, match=message):
        restore(rewritten(archives["postgresql"], tmp_path / "broken.tar", change), tmp_path / "data", empty)
    assert everything(tmp_path, empty) == []


@pytest.mark.parametrize("kind", DATABASES)
def test_a_flipped_bit_in_any_member_is_refused_before_anything_is_written(
    archives: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    with tarfile.open(archives[kind]) as tar:
        members = [(each.name, each.offset, each.offset_data, each.size) for each in tar]
    assert [name for name, *_ in members][-2:] == [MANIFEST, SIGNATURE]
    for name, header, data, size in members:
        for at in (header, *((data, data + size // 2, data + size - 1) if size else ())):
            broken = flipped(archives[kind], tmp_path / "flipped.tar", at)
            with pytest.raises(Invalid, match=r"flipped\.tar"):
                restore(broken, tmp_path / "data", "postgresql://nowhere/x" if kind == "postgresql" else None)
            assert not (tmp_path / "data").exists(), f"{name}, byte {at}"


@pytest.mark.parametrize("kind", DATABASES)
def test_a_member_that_is_there_twice_is_refused(archives: dict[str, Path], tmp_path: Path, kind: str) -> None:
    with tarfile.open(archives[kind]) as source, tarfile.open(tmp_path / "twice.tar", "w") as target:
        for member in source:
            for _ in range(2 if member.name == "backup.json" else 1):
                target.addfile(member, source.extractfile(member))
    with pytest.raises(Invalid, match=r"'backup\.json' appears in it twice"):
        restore(tmp_path / "twice.tar", tmp_path / "data", "postgresql://nowhere/x" if kind == "postgresql" else None)
    assert not (tmp_path / "data").exists()


@pytest.mark.slow
async def test_who_reads_an_archive_cannot_act_as_the_engine(new_url: Callable[[], str | None], tmp_path: Path) -> None:
    """Neither the password of admin is in it nor a private key; all who were signed in sign in again."""
    url, again = new_url(), new_url()
    async with engine_with_app(tmp_path, url) as (_, served), signed_in(served, "ed") as ed:
        assert (await ed.get(f"{DATA}/accounts")).status_code == 200
        password = password_file(tmp_path / "data")
        Sealing(tmp_path / "data").make_key()
        await asyncio.to_thread(back_up, tmp_path / "data", url, tmp_path / "engine.tar")
        token = ed.headers["authorization"]
    content = (tmp_path / "engine.tar").read_bytes()
    keys = [tmp_path / "data" / name for name in OWN_KEYS]
    assert [name for name in ("backup-key", *OWN_KEYS) if f"engine/{name}".encode() in content] == []
    assert not any(secret in content for secret in (password.encode(), *(key.read_bytes() for key in keys)))
    await asyncio.to_thread(restore, tmp_path / "engine.tar", tmp_path / "again", again)
    back = await Engine.open(tmp_path / "again", database_url=again)
    served_again = Served(back, tmp_path / "again" / TOKEN_KEY_FILE)
    uploads = Uploads(tmp_path / "incoming")
    async with serving_app(engine_app(lambda request: served_again, uploads)) as served:
        async with httpx.AsyncClient(base_url=served, headers={"Authorization": token}) as before:
            assert (await before.get(f"{DATA}/accounts")).status_code == 401
        async with signed_in(served, "ed") as ed:
            assert (await ed.get(f"{DATA}/accounts")).status_code == 200
    await back.close()


async def test_keys_go_with_an_archive_in_clear_where_that_is_set(tmp_path: Path) -> None:
    async with engine_with_app(tmp_path) as (_, served), signed_in(served, "ed"):
        await asyncio.to_thread(engine_backups.back_up, tmp_path / "data", None, tmp_path / "engine.tar", packing(keys=True))
    await asyncio.to_thread(restore, tmp_path / "engine.tar", tmp_path / "again", None)
    assert (tmp_path / "again" / "token-key.jwk").read_bytes() == (tmp_path / "data" / "token-key.jwk").read_bytes()


@pytest.mark.parametrize("kind", DATABASES)
def test_an_archive_that_was_cut_short_anywhere_is_refused(archives: dict[str, Path], tmp_path: Path, kind: str) -> None:
    whole = archives[kind].read_bytes()
    with tarfile.open(archives[kind]) as tar:
        ends = [*[member.offset for member in tar][1:], tar.offset]
    for end in {*ends, *range(0, len(whole) - 10240, 7321)}:
        (tmp_path / "cut.tar").write_bytes(whole[:end])
        with pytest.raises(Invalid, match=r"cut\.tar"):
            restore(tmp_path / "cut.tar", tmp_path / "data", "postgresql://nowhere/x" if kind == "postgresql" else None)
    assert not (tmp_path / "data").exists()


class Died(BaseException):
    """As by SIGKILL: nothing is caught, and the database's server sees the connection go."""


@contextmanager
def dying(at: int) -> Iterator[list[str]]:
    """Dies at that change of the file system or statement, before it; behind them, what there was."""
    passed: list[str] = []

    def mortal(owner: Any, name: str) -> Any:
        real = getattr(owner, name)

        def pass_by(*arguments: Any, **options: Any) -> Any:
            passed.append(name)
            if len(passed) == at:
                raise Died
            return real(*arguments, **options)

        return mock.patch.object(owner, name, pass_by)

    with ExitStack() as patches:
        for owner, names in {
            Path: ("rename", "unlink", "rmdir", "mkdir"),
            os: ("fsync",),
            shutil: ("rmtree", "copyfileobj"),
            psycopg.Connection: ("execute", "commit", "close"),
            psycopg.Transaction: ("__exit__",),
            psycopg.Copy: ("write",),
        }.items():
            for name in names:
                patches.enter_context(mortal(owner, name))
        yield passed


SAMPLE = 13


@pytest.mark.slow
@pytest.mark.parametrize("target", DATABASES)
@pytest.mark.parametrize("kind", DATABASES)
@pytest.mark.parametrize("every", [SAMPLE, pytest.param(1, marks=pytest.mark.slow)])
def test_a_restore_killed_anywhere_goes_on_when_it_is_run_again(
    archives: dict[str, Path], server: str, tmp_path: Path, kind: str, target: str, every: int
) -> None:
    whole, url = (database_url(server) if target == "postgresql" else None for _ in range(2))
    restore(archives[kind], tmp_path / "whole", whole)
    wanted, held = everything(tmp_path / "whole", whole), files(tmp_path / "whole")
    killed = 0
    for at in range(1, 1000, every):
        data = tmp_path / f"{at}"
        if url is not None:
            with psycopg.connect(url.replace("+psycopg", "")) as connection:
                connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        with dying(at) as passed, suppress(Died):
            restore(archives[kind], data, url)
        if len(passed) < at:
            break
        killed += 1
        finished = not (data / half_restored.MARK).exists() and (data / "packages").exists()
        if not finished:
            restore(archives[kind], data, url)
        assert everything(data, url) == wanted, f"killed at {at}, {passed[-1]}"
        assert files(data) == held, f"killed at {at}, {passed[-1]}"
    assert killed >= 15 // every


REFUSED: dict[str, tuple[str, str, str, str]] = {
    "a folder with something in it": ("sqlite", "note", "", "is not empty: it holds note"),
    "a database with an engine in it": ("postgresql", "", "used", r"database: is not empty: it holds \d+ tables of an engine"),
    "a database with an engine in it, for another kind": ("sqlite", "", "used", "database: is not empty: it holds"),
    "a database of another make": ("postgresql", "", "mysql://x/y", "must be a URL that begins with postgresql://"),
    "no URL": ("postgresql", "", "::", "must be a URL that begins with postgresql://"),
}


@pytest.mark.parametrize("row", REFUSED.values(), ids=REFUSED)
def test_what_a_restore_refuses_it_leaves_as_it_is(
    archives: dict[str, Path], server: str, empty: str, tmp_path: Path, row: tuple[str, str, str, str]
) -> None:
    kind, file, url, message = row
    data = tmp_path / "data"
    data.mkdir()
    if file:
        (data / file).write_text("mine")
    if url == "used":
        url = database_url(server)
        restore(archives["postgresql"], tmp_path / "used", url)
    url = empty if url == "new" else url
    before = everything(tmp_path, url) if url.startswith("postgresql") else []
    with pytest.raises(Invalid, match=message):
        restore(archives[kind], data, url or None)
    assert {path.name for path in data.iterdir()} - {"lock"} == ({file} if file else set())
    assert (everything(tmp_path, url) if url.startswith("postgresql") else []) == before


@pytest.mark.slow
def test_no_engine_starts_where_a_restore_was_interrupted(archives: dict[str, Path], tmp_path: Path) -> None:
    with dying(12), pytest.raises(Died):
        restore(archives["sqlite"], tmp_path / "data", None)
    started = tenantry("engine", "--data", "data", "--listen", "127.0.0.1:0", cwd=tmp_path)
    assert (started.returncode, started.stderr) == (1, "a restore into data was interrupted: run it again\n")
    backed = called("engine", "backup", "--data", "data", "-o", "x.tar", cwd=tmp_path)
    assert (backed.returncode, backed.stderr) == (1, "a restore into data was interrupted: run it again\n")


@pytest.mark.slow
def test_another_archive_does_not_finish_an_interrupted_restore(archives: dict[str, Path], server: str, tmp_path: Path) -> None:
    url = database_url(server)
    asyncio.run(_used(tmp_path, database := database_url(server)))
    back_up(tmp_path / "data", database, tmp_path / "another.tar")
    with dying_behind_commit(), pytest.raises(Died):
        restore(archives["postgresql"], tmp_path / "again", url)
    with pytest.raises(Invalid, match="is not empty"):
        restore(tmp_path / "another.tar", tmp_path / "again", url)
    restore(archives["postgresql"], tmp_path / "again", url)
    assert not (tmp_path / "again" / half_restored.MARK).exists()


@contextmanager
def dying_behind_commit() -> Iterator[None]:
    real = server_copies.unpack_to_server

    def unpack_to_server(*arguments: Any) -> None:
        real(*arguments)
        raise Died

    with mock.patch.object(engine_backups, "unpack_to_server", unpack_to_server):
        yield


@pytest.mark.slow
@pytest.mark.parametrize("kind", DATABASES)
def test_a_served_engine_is_backed_up_and_restored_by_the_command_line(server: str, tmp_path: Path, kind: str) -> None:
    given = ("--database", database_url(server)) if kind == "postgresql" else ()
    again = ("--database", database_url(server)) if kind == "postgresql" else ()
    with serving("engine", "--data", "data", "--listen", "127.0.0.1:0", *given, cwd=tmp_path) as running:
        token = administrator(running.url, tmp_path / "data")
        (tmp_path / "data" / "incoming" / "upload").write_text("on its way")
        backed = called("engine", "backup", "--data", "data", *given, "-o", "engine.tar", cwd=tmp_path)
        assert (backed.returncode, backed.stderr) == (0, "")
        told, signed = backed.stdout.splitlines()
        assert told.startswith("engine.tar  ")
        with tarfile.open(tmp_path / "engine.tar") as tar:
            assert not {name for name in tar.getnames() if name.startswith(("engine/lock", "engine/incoming"))}
        there = called("engine", "restore", "engine.tar", "--data", "data", *given, cwd=tmp_path)
        assert (there.returncode, "is in use" in there.stderr) == (1, True)
    restored = called("engine", "restore", "engine.tar", "--data", "again", *again, "--trust", signed.split()[-1], cwd=tmp_path)
    assert (restored.returncode, restored.stdout, restored.stderr) == (0, "again  restored\n", "")
    with serving("engine", "--data", "again", "--listen", "127.0.0.1:0", *again, cwd=tmp_path) as running:
        # The password of `admin` is made anew, and its old tokens end.
        assert httpx.get(f"{running.url}/api/v1/auth/me", headers=token).status_code == 401
        token = administrator(running.url, tmp_path / "again")
        assert httpx.get(f"{running.url}/api/v1/auth/me", headers=token).json()["username"] == "admin"


def administrator(url: str, data: Path) -> dict[str, str]:
    form = {"username": "admin", "password": (data / "admin-password").read_text().strip()}
    answer = httpx.post(f"{url}/api/v1/auth/token", data=form)
    return {"Authorization": f"Bearer {answer.json()['access_token']}"}


WRONG: dict[str, tuple[tuple[str, ...], int, str]] = {
    "no folder": (("backup", "--data", "none", "-o", "x.tar"), 2, "none: holds no engine, so there is nothing to back up"),
    "no tables": (("backup", "--data", "x", "-o", "x.tar", "--database", "URL"), 2, "database: holds no tables of an engine"),
    "no place": (("backup", "--data", ".", "-o", "y/x.tar"), 2, "--output y/x.tar: no file can be written there"),
    "no server": (
        ("backup", "--data", "x", "-o", "x.tar", "--database", "postgresql://127.0.0.1:1/x"),
        1,
        "the database is not available",
    ),
    "into itself": (("backup", "--data", "x", "-o", "x/x.tar", "--database", "URL"), 2, "is in the folder that is backed up"),
    "no archive": (("restore", "none.tar", "--data", "d"), 2, "none.tar: no such file"),
    "options before": (("--data", "x", "backup", "--data", "x", "-o", "x.tar"), 2, "write --data and --database after `backup`"),
    "no --data": ((), 2, "--data is missing"),
}


@pytest.mark.parametrize("row", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told_in_a_sentence(empty: str, tmp_path: Path, row: tuple[tuple[str, ...], int, str]) -> None:
    given, code, message = row
    (tmp_path / "x").mkdir()
    asked = [empty if each == "URL" else each for each in given]
    told = called("engine", *asked, cwd=tmp_path)
    assert (told.returncode, message in told.stderr, "Traceback" in told.stderr) == (code, True, False), told.stderr
    assert list(tmp_path.rglob("*.tar")) == []


def test_the_backup_of_an_engine_is_none_of_an_environment(archives: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"is not a backup: .*resources\.yaml"):
        read(archives["postgresql"])
    with pytest.raises(Invalid, match="does not belong in a backup"):
        unpack(taken(archives["postgresql"]), tmp_path / "out")


def test_the_backup_of_an_environment_holds_an_engine(archives: dict[str, Path], tmp_path: Path) -> None:
    environment = {"kind": "Environment", "metadata": {"name": "dev", "namespace": "tenant-acme"}, "spec": {"region": "eu"}}
    backup = Backup(EngineRef("tenant-acme", "dev", "e1"), datetime(2026, 1, 2, tzinfo=UTC), (environment,))
    restore(archives["sqlite"], tmp_path / "data", None)
    write(backup, tmp_path / "data", tmp_path / "dev.tar", packing())
    restore(tmp_path / "dev.tar", tmp_path / "again", None)
    assert everything(tmp_path / "again", None) == everything(tmp_path / "data", None)
    assert files(tmp_path / "again") == files(tmp_path / "data")
