"""The engine natively: what it keeps through crashes and restarts, what it costs while idle, and who may sign in."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from argon2 import PasswordHasher

from tenantry.engine import records, service
from tenantry.engine.sealing import KEY_FILE
from tenantry.engine.service import Engine
from tenantry.engine.sql.files import ID_FILE
from tenantry.engine.sql.pool import IDLE_S, MOST_IDLE
from tenantry.model.facts import EngineApp, IdentityProviderSettings, Password
from tenantry.model.verdicts import Halt, Invalid, NotFound, Unauthorized
from tenantry.packages.check import PackageLimits
from tenantry.rest.auth.passwords import verify_password
from tenantry.rest.fairness.lanes import engine_sharing
from tests.scenario.postgres import database_url
from tests.support.waiting import eventually
from tests.unit.engine.archives import CONTACTS, write_package
from tests.unit.engine.schemas import portrait

BORN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ADA = Password(clear="ada's password")
CORP = IdentityProviderSettings("corp", "https://id.example.com", "tenantry")
SEEDS = {"seed/contacts.ndjson": b'{"email": "ada@example.com"}\n{"email": "bob@example.com"}\n'}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "engine"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest) -> str | None:
    """Of a database of its own; None for the one in the engine's folder."""
    return database_url(request.getfixturevalue("server")) if request.param == "postgresql" else None


@pytest.fixture
async def engine(data: Path, url: str | None) -> AsyncIterator[Engine]:
    engine = await Engine.open(data, created_at=BORN, database_url=url)
    yield engine
    await engine.close()


def package(folder: Path, version: str = "1.0.0", app: str = "crm", **fields: object) -> Path:
    files = fields.pop("files", SEEDS)
    assert isinstance(files, dict)
    fields = {"tables": [CONTACTS], **fields}
    return write_package(folder / f"{app}-{version}.tapp", files, id=app, version=version, **fields)


def rows(engine: Engine, sql: str) -> list[tuple[object, ...]]:
    with engine._database.reading() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(sql)]


def shape(engine: Engine) -> list[str]:
    """Of every table, how it was made."""
    with engine._database.reading() as connection:
        columns = sa.inspect(connection).get_multi_columns()
        return sorted(f"{table} {[{**column, 'type': str(column['type'])} for column in columns[table]]}" for table in columns)


def stored(engine: Engine, data: Path) -> bytes:
    """All bytes that the engine keeps, in its folder and in its database."""
    kept = [path.read_bytes() for path in below(data) if path.is_file()]
    with engine._database.reading() as connection:
        return b"".join(kept) + ("\n".join(portrait(connection)).encode() if connection.dialect.name == "postgresql" else b"")


def files(data: Path) -> set[str]:
    """Everything below the engine's folder but its database and its key."""
    found = (path.relative_to(data).as_posix() for path in data.rglob("*") if path.is_file())
    return {name for name in found if not name.startswith(("engine.db", KEY_FILE))}


def below(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def mode_of(path: Path) -> int:
    return path.stat().st_mode


# What an idle engine costs


async def test_an_engine_that_nobody_wrote_to_is_an_empty_folder(engine: Engine, data: Path, url: str | None) -> None:
    assert await engine.apps() == ()
    assert await engine.identity_providers() == ()
    (admin,) = await engine.identities()
    assert (admin.username, admin.created_at) == ("admin", BORN)
    with pytest.raises(Unauthorized):
        await engine.authenticate("admin", "nobody's password")
    assert [path.name for path in below(data)] == ([] if url is None else [ID_FILE])


async def test_admin_keeps_its_id_and_time_when_it_gets_its_password(engine: Engine) -> None:
    (before,) = await engine.identities()
    await engine.set_admin_password(Password(clear="the admin's password", fingerprint="f1"))
    (after,) = await engine.identities()
    assert (after.id, after.created_at, after.fingerprint) == (before.id, before.created_at, "f1")


def open_below(folder: Path) -> list[str]:
    """The files below a folder that this process has open. Threads close others meanwhile."""
    targets = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            targets.append(str(link.readlink()))
    return [target for target in targets if target.startswith(f"{folder}/")]


async def files_closed_below(folder: Path) -> None:
    """Returns once this process has none open."""
    await eventually(lambda: not open_below(folder), within=2 * IDLE_S + 60, shows=lambda: open_below(folder))


@pytest.mark.slow
async def test_idle_engines_hold_no_thread_and_no_file(tmp_path: Path) -> None:
    first = await Engine.open(tmp_path / "first")
    await first.add_identity_provider(CORP, Password(clear="secret"))
    await asyncio.gather(*(asyncio.to_thread(threading.get_ident) for _ in range(64)))  # the loop's own threads are there
    threads = threading.active_count()
    engines = [await Engine.open(tmp_path / str(number)) for number in range(40)]
    for one in engines[:20]:
        await one.add_identity_provider(CORP, Password(clear="secret"))
    assert threading.active_count() <= threads + engine_sharing().threads + 1, "they have more than those that all share"
    assert len(open_below(tmp_path)) <= 3 * MOST_IDLE
    await files_closed_below(tmp_path)
    for one in [first, *engines]:
        await one.close()


# Crashes and restarts


async def test_everything_is_there_after_a_restart(engine: Engine, data: Path, url: str | None, tmp_path: Path) -> None:
    await engine.publish(package(tmp_path, files={**SEEDS, "content/index.html": b"<p>", "symbols.sym": b"sym"}))
    await engine.upload(package(tmp_path, "0.9.0"))
    await engine.add_identity("ada", ADA, [("crm", "editor")])
    await engine.add_identity_provider(CORP, Password(clear="secret", fingerprint="f"))
    told = (await engine.apps(), await engine.identities(), await engine.identity_providers())
    await engine.close()
    again = await Engine.open(data, database_url=url, created_at=BORN)
    assert (await again.apps(), await again.identities(), await again.identity_providers()) == told
    assert told[0] == (EngineApp("crm", "CRM", "Example Ltd", "1.0.0", ("1.0.0", "0.9.0"), True),)
    content = await again.content("crm")
    assert content and (content / "index.html").read_bytes() == b"<p>"
    assert (await again.symbols("crm", "1.0.0")).path.read_bytes() == b"sym"
    await again.close()


async def test_a_crash_between_the_file_and_its_record_leaves_nothing(
    engine: Engine, data: Path, url: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await engine.add_identity_provider(CORP, Password(clear="secret"))

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(records, "add_version", crash)
    with pytest.raises(KeyboardInterrupt):
        await asyncio.to_thread(lambda: asyncio.run(_upload(data, url, package(tmp_path))))
    monkeypatch.undo()
    assert files(data) != set()
    again = await Engine.open(data, database_url=url)
    assert (await again.apps(), files(data)) == ((), set())
    await again.upload(package(tmp_path))
    assert (await again.apps())[0].versions == ("1.0.0",)


async def _upload(data: Path, url: str | None, path: Path) -> None:
    await (await Engine.open(data, database_url=url)).upload(path)


async def test_leftovers_go_when_the_engine_opens_and_what_is_recorded_stays(
    engine: Engine, data: Path, url: str | None, tmp_path: Path
) -> None:
    await engine.publish(package(tmp_path, files={"content/a": b"a", "symbols.sym": b"s"}))
    await engine.symbols("crm", "1.0.0")
    kept = files(data)
    for name in ("packages/.x.tapp.1.part", f"packages/{'0' * 64}.tapp", "content/.x.1.part/a", f"symbols/{'0' * 64}.sym"):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_bytes(b"left")
    again = await Engine.open(data, database_url=url)
    assert files(data) == kept
    await again.close()


async def test_an_engine_that_opens_beside_an_upload_leaves_its_file_alone(
    engine: Engine, data: Path, url: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await engine.add_identity_provider(CORP, Password(clear="secret"))
    stored, opened = threading.Event(), threading.Event()
    add = records.add_version

    def slow(*arguments: object) -> None:
        stored.set()
        assert not opened.wait(0.3)  # the other engine waits for this transaction
        add(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(records, "add_version", slow)
    uploading = asyncio.create_task(engine.upload(package(tmp_path)))
    await asyncio.to_thread(stored.wait, 5)
    other = await Engine.open(data, database_url=url)
    opened.set()
    await uploading
    assert (await other.download("crm", "1.0.0")).path.exists()
    await other.close()


# Installing


async def test_an_install_seeds_once_and_never_again(engine: Engine, tmp_path: Path) -> None:
    await engine.publish(package(tmp_path))
    await engine.install("crm", "1.0.0")
    await engine.uninstall("crm")
    await engine.install("crm", "1.0.0")
    assert rows(engine, "SELECT email FROM crm__contacts ORDER BY id") == [("ada@example.com",), ("bob@example.com",)]


BROKEN = {
    "a check that is no SQL": {"tables": [{**CONTACTS, "checks": [{"name": "c", "expression": "no such thing ("[:-1]}]}]},
    "seeds that break a check": {"tables": [{**CONTACTS, "checks": [{"name": "c", "expression": "email LIKE '%@here'"}]}]},
}


@pytest.mark.parametrize("fields", BROKEN.values(), ids=BROKEN)
async def test_a_failed_install_leaves_everything_as_it_was(
    engine: Engine, data: Path, tmp_path: Path, fields: dict[str, Any]
) -> None:
    await engine.publish(package(tmp_path, "1.0.0", "other"))
    before = shape(engine)
    await engine.upload(package(tmp_path, "2.0.0", **fields))
    with pytest.raises(Invalid):
        await engine.install("crm", "2.0.0")
    assert shape(engine) == before
    assert [(app.id, app.version, app.persisted) for app in await engine.apps()] == [("crm", "", False), ("other", "1.0.0", True)]


MISFITS = {
    "a seed that is not JSON": (b'{"email": "a"}\n{"email', "seed/contacts.ndjson:2: does not fit"),
    "a seed with an unknown column": (b'{"phone": "1"}', "seed/contacts.ndjson:1: does not fit the table: no column 'phone'"),
}


@pytest.mark.parametrize(("seed", "reason"), MISFITS.values(), ids=MISFITS)
async def test_a_package_whose_seeds_do_not_fit_is_not_taken(engine: Engine, tmp_path: Path, seed: bytes, reason: str) -> None:
    with pytest.raises(Invalid, match=re.escape(reason)):
        await engine.upload(package(tmp_path, "2.0.0", files={"seed/contacts.ndjson": seed}))
    assert list(await engine.apps()) == []


async def test_a_failed_upgrade_keeps_version_tables_and_rows(engine: Engine, tmp_path: Path) -> None:
    await engine.publish(package(tmp_path))
    extra = {"name": "notes", "primaryKey": ["id"], "columns": [{"name": "id", "type": "integer"}]}
    bad = package(tmp_path, "2.0.0", tables=[CONTACTS, extra], files={"seed/notes.ndjson": b'{"id": 1}\n{"id": 1}\n'})
    with pytest.raises(Invalid):
        await engine.publish(bad)
    (app,) = await engine.apps()
    assert (app.version, app.versions) == ("1.0.0", ("1.0.0", "2.0.0"))
    assert rows(engine, "SELECT count(*) FROM crm__contacts") == [(2,)]
    assert not any("crm__notes" in line for line in shape(engine))


@pytest.mark.parametrize("other", ["crm-", "crm--x", "crm-x", "crmx", "cr"])
async def test_apps_with_similar_ids_leave_each_other_alone(engine: Engine, tmp_path: Path, other: str) -> None:
    await engine.publish(package(tmp_path, app=other))
    await engine.publish(package(tmp_path))
    await engine.publish(package(tmp_path, "2.0.0", tables=[CONTACTS, {**CONTACTS, "name": "x__contacts"}]))
    await engine.uninstall("crm")
    await engine.drop_data("crm")
    assert {app.id: (app.version, app.persisted) for app in await engine.apps()} == {"crm": ("", False), other: ("1.0.0", True)}


async def test_installs_at_once_come_one_after_the_other(engine: Engine, tmp_path: Path) -> None:
    await asyncio.gather(*(engine.publish(package(tmp_path, app=f"app{number}")) for number in range(8)))
    assert {app.id for app in await engine.apps() if app.installed} == {f"app{number}" for number in range(8)}


async def test_name_and_author_are_those_of_the_installed_version_else_of_the_newest_upload(
    engine: Engine, tmp_path: Path
) -> None:
    await engine.upload(package(tmp_path, "2.0.0", name="Two"))
    await engine.upload(package(tmp_path, "1.0.0", name="One"))
    assert (await engine.apps())[0].name == "One"
    await engine.install("crm", "2.0.0")
    assert (await engine.apps())[0].name == "Two"


async def test_content_is_served_of_the_installed_version_alone(engine: Engine, data: Path, tmp_path: Path) -> None:
    for version in ("1.0.0", "2.0.0"):
        await engine.publish(package(tmp_path, version, files={"content/v": version.encode(), "content/a/b": b""}))
    content = await engine.content("crm")
    assert content and (content / "v").read_bytes() == b"2.0.0"
    assert len(list((data / "content").iterdir())) == 1
    await engine.uninstall("crm")
    assert await engine.content("crm") is None
    assert await engine.content("nothing") is None


async def test_a_stored_package_does_not_change_with_the_file_it_came_from(engine: Engine, tmp_path: Path) -> None:
    path = package(tmp_path)
    whole = path.read_bytes()
    await engine.upload(path)
    path.write_bytes(b"overwritten")
    assert (await engine.download("crm", "1.0.0")).path.read_bytes() == whole


async def test_a_package_above_the_limit_is_refused_and_not_kept(data: Path, url: str | None, tmp_path: Path) -> None:
    engine = await Engine.open(data, database_url=url, limits=PackageLimits(size=100))
    with pytest.raises(Invalid, match="larger than 100 bytes"):
        await engine.upload(package(tmp_path))
    assert files(data) == set()
    await engine.close()


ABSENT = {
    "install": lambda engine: engine.install("crm", "9"),
    "steps": lambda engine: engine.steps("crm", "9"),
    "download": lambda engine: engine.download("crm", "9"),
    "symbols": lambda engine: engine.symbols("crm", "9"),
    "delete_version": lambda engine: engine.delete_version("crm", "9"),
    "uninstall": lambda engine: engine.uninstall("crm"),
    "drop_data": lambda engine: engine.drop_data("crm"),
    "set_password": lambda engine: engine.set_password("ada", ADA),
    "set_roles": lambda engine: engine.set_roles("ada", []),
    "delete_identity": lambda engine: engine.delete_identity("ada"),
    "identity": lambda engine: engine.identity("1"),
    "edit_identity_provider": lambda engine: engine.edit_identity_provider("1", CORP, None),
    "delete_identity_provider": lambda engine: engine.delete_identity_provider("1"),
}


@pytest.mark.parametrize("call", ABSENT.values(), ids=ABSENT)
@pytest.mark.parametrize("used", [False, True], ids=["new engine", "used engine"])
async def test_what_is_not_there_is_not_found(engine: Engine, call: object, used: bool) -> None:
    if used:
        await engine.add_identity_provider(CORP, Password(clear="secret"))
    with pytest.raises(NotFound):
        await call(engine)  # type: ignore[operator]


# Signing in


async def test_a_changed_password_ends_the_stamp_and_roles_do_not(engine: Engine) -> None:
    ada = await engine.add_identity("ada", ADA)
    _, first = await engine.identity(ada.id)
    await engine.set_roles("ada", [("crm", "editor")])
    found, second = await engine.identity(ada.id)
    assert (found.roles, second) == ({"crm": "editor"}, first)
    await engine.set_password("ada", Password(clear="another password"))
    _, third = await engine.identity(ada.id)
    assert third != first
    with pytest.raises(Unauthorized):
        await engine.authenticate("ada", ADA.clear)
    assert await engine.authenticate("ada", "another password") == (found, third)


async def test_a_sign_in_beside_a_change_of_its_password_has_the_stamp_of_the_old_one(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await engine.add_identity("ada", ADA)

    async def changed_meanwhile(stored: str | None, clear: str, sharer: str = "") -> bool:
        matches = await verify_password(stored, clear, sharer)
        await engine.set_password("ada", Password(clear="another password"))
        return matches

    monkeypatch.setattr(service, "verify_password", changed_meanwhile)
    ada, stamp = await engine.authenticate("ada", ADA.clear)
    assert (await engine.identity(ada.id))[1] != stamp, "a token of this sign-in would outlive the change"


async def test_an_identity_made_again_is_another(engine: Engine) -> None:
    ada = await engine.add_identity("ada", ADA)
    await engine.delete_identity("ada")
    assert (await engine.add_identity("ada", ADA)).id != ada.id
    with pytest.raises(NotFound):
        await engine.identity(ada.id)


async def test_admins_password_of_the_same_mark_is_not_set_again(engine: Engine) -> None:
    await engine.set_admin_password(Password(clear="the admin's password", fingerprint="f1"))
    admin, stamp = await engine.authenticate("admin", "the admin's password")
    await engine.set_admin_password(Password(clear="the admin's password", fingerprint="f1"))
    assert (await engine.identity(admin.id))[1] == stamp
    await engine.set_admin_password(Password(clear="the admin's second", fingerprint="f2"))
    assert (await engine.identity(admin.id))[1] != stamp


async def test_those_who_take_admins_password_over_at_once_end_no_token(engine: Engine) -> None:
    async def signed_in() -> str:
        await engine.set_admin_password(Password(clear="the admin's password", fingerprint="f1"))
        return (await engine.authenticate("admin", "the admin's password"))[1]

    stamps = await asyncio.gather(*[signed_in() for _ in range(3)])
    assert len(set(stamps)) == 1


@pytest.mark.usefixtures("costly_passwords")
async def test_a_weaker_hash_is_replaced_at_sign_in_and_tokens_live_on(engine: Engine) -> None:
    weak = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1).hash("ada's password")
    ada = await engine.add_identity("ada", Password(hash=weak, fingerprint="f"))
    _, stamp = await engine.identity(ada.id)
    await engine.authenticate("ada", "ada's password")
    ((kept,),) = rows(engine, "SELECT hash FROM _tenantry_identities WHERE username = 'ada'")
    assert "m=19456,t=2,p=1" in str(kept)
    assert await engine.identity(ada.id) == (ada, stamp)


@pytest.mark.parametrize("username", ["", "a b", "a/b", "é", "x" * 65, "ada\n", "../x"])
async def test_an_ill_formed_username_is_refused(engine: Engine, username: str) -> None:
    with pytest.raises(Invalid, match="username: "):
        await engine.add_identity(username, ADA)


@pytest.mark.parametrize("taken", ["ada", "ADA", "Ada", "admin", "Admin"])
async def test_a_username_is_taken_in_every_case_of_its_letters(engine: Engine, taken: str) -> None:
    await engine.add_identity("ada", ADA)
    with pytest.raises(Invalid, match="username: "):
        await engine.add_identity(taken, ADA)


async def test_passwords_are_nowhere_in_clear(engine: Engine, data: Path) -> None:
    await engine.add_identity("ada", ADA)
    await engine.set_admin_password(Password(clear="the admin's password"))
    kept = stored(engine, data)
    assert b"ada" in kept
    assert b"ada's password" not in kept and b"the admin's password" not in kept


async def test_a_client_secret_is_nowhere_in_clear_and_told_to_its_own_engine_alone(
    engine: Engine, data: Path, url: str | None
) -> None:
    corp = await engine.add_identity_provider(CORP, Password(clear="s3cret-of-corp", fingerprint="f1"))
    assert await engine.client_secret(corp.id) == "s3cret-of-corp"
    await engine.edit_identity_provider(corp.id, CORP, Password(clear="s3cret-two", fingerprint="f2"))
    assert await (await Engine.open(data, database_url=url)).client_secret(corp.id) == "s3cret-two"
    kept = stored(engine, data)
    assert corp.id.encode() in kept and b"s3cret-" not in kept


async def test_a_client_secret_that_cannot_be_read_any_more_is_told_so_that_it_is_delivered_anew(
    engine: Engine, data: Path, url: str | None
) -> None:
    corp = await engine.add_identity_provider(CORP, Password(clear="s3cret", fingerprint="f1"))
    assert (await engine.identity_providers())[0].fingerprint == "f1"
    (data / KEY_FILE).unlink()
    again = await Engine.open(data, database_url=url)
    assert (await again.identity_providers())[0].fingerprint == "lost"
    with pytest.raises(Halt, match="set it again"):
        await again.client_secret(corp.id)
    await again.edit_identity_provider(corp.id, CORP, Password(clear="s3cret", fingerprint="f1"))
    assert (await again.client_secret(corp.id), (await again.identity_providers())[0].fingerprint) == ("s3cret", "f1")


async def test_the_folder_is_nobody_elses(engine: Engine, data: Path) -> None:
    await engine.add_identity("ada", ADA)
    assert mode_of(data) & 0o077 == 0


@pytest.mark.parametrize(
    "damage",
    [lambda path: path.write_bytes(b"damaged"), lambda path: path.write_bytes(bytes(path.stat().st_size)), Path.unlink],
    ids=["cut short", "overwritten", "gone"],
)
async def test_a_stored_package_that_the_disk_lost_is_told_and_an_upload_mends_it(
    engine: Engine, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    await engine.upload(package(tmp_path))
    damage((await engine.download("crm", "1.0.0")).path)
    with pytest.raises(Halt, match=r"PackageDamaged: .*upload it again"):
        await engine.install("crm", "1.0.0")
    await engine.publish(package(tmp_path))
    assert (await engine.apps())[0].version == "1.0.0"
