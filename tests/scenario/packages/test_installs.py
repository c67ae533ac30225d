"""Installs of a whole engine, on both databases: one after the other, and losing what was listed and nothing else."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tenantry.engine.database import Database
from tenantry.engine.package_files import PackageFolder
from tenantry.engine.service import Engine
from tenantry.model.facts import MigrationStep
from tenantry.model.verdicts import Invalid
from tenantry.packages.check import sha256_of
from tests.scenario.postgres import database_url
from tests.support.waiting import eventually
from tests.unit.engine.archives import write_package
from tests.unit.engine.schemas import column, portrait, table

FIRST = table("people", column("name"), column("fax"), column("note", "string"))
SECOND = table("people", column("name"), {"name": "note", "type": "string", "length": 3})
ROWS = b'{"id": 1, "name": "Ada", "fax": "12", "note": "x"}'
DROPS_FAX = MigrationStep("drops column people.fax", loses_data=True, rows=1)
MORE = "it would lose more than was listed"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    url = database_url(request.getfixturevalue("server")) if request.param == "postgresql" else None
    engine = await opened(tmp_path, url)
    await engine.install("crm", "1")
    yield engine
    await engine.close()


async def opened(folder: Path, url: str | None) -> Engine:
    """An engine that stores versions 1 and 2."""
    engine = await Engine.open(folder / "engine", database_url=url)
    for version, described in {"1": FIRST, "2": SECOND}.items():
        seeds = {"seed/people.ndjson": ROWS} if version == "1" else {}
        await engine.upload(write_package(folder / f"{version}.tapp", seeds, version=version, tables=[described]))
    return engine


def do(engine: Engine, sql: str) -> list[tuple[Any, ...]]:
    with engine._database.writing() as connection:
        found = connection.exec_driver_sql(sql)
        return [tuple(row) for row in found] if found.returns_rows else []


async def test_a_refusal_lists_all_steps_with_their_class_and_rows(engine: Engine) -> None:
    do(engine, "UPDATE crm__people SET note = 'abcdef'")
    with pytest.raises(Invalid) as refused:
        await engine.install("crm", "2")
    assert str(refused.value).endswith(
        "drops are not allowed: changes column people.note from VARCHAR(20) to VARCHAR(3) (losing, 1 row); "
        "drops column people.fax (losing, 1 row)"
    )


@pytest.mark.parametrize(
    "appeared",
    [
        pytest.param("UPDATE crm__people SET note = 'abcdef'", id="a step that loses data"),
        pytest.param("INSERT INTO crm__people (id, fax) VALUES (2, '34')", id="a row that loses data"),
    ],
)
async def test_what_appeared_since_the_list_is_not_allowed(engine: Engine, appeared: str) -> None:
    with pytest.raises(Invalid, match="drops are not allowed"):
        await engine.install("crm", "2")
    do(engine, appeared)
    before = do(engine, "SELECT * FROM crm__people ORDER BY 1")
    with pytest.raises(Invalid, match=MORE):
        await engine.install("crm", "2", allow_drops=True)
    assert do(engine, "SELECT * FROM crm__people ORDER BY 1") == before
    assert [(app.version, app.installed) for app in await engine.apps()] == [("1", True)]
    await engine.install("crm", "2", allow_drops=True)  # now that has been listed
    assert (await engine.apps())[0].version == "2"


async def test_the_caller_may_list_what_is_allowed(engine: Engine) -> None:
    for listed in ([], [MigrationStep("drops column people.name", loses_data=True, rows=1)]):
        with pytest.raises(Invalid, match=MORE):
            await engine.install("crm", "2", allow_drops=True, listed=listed)
    await engine.install("crm", "2", allow_drops=True, listed=[DROPS_FAX])
    assert do(engine, "SELECT * FROM crm__people") == [(1, "Ada", "x")]


async def test_fewer_rows_than_were_listed_are_allowed(engine: Engine) -> None:
    with pytest.raises(Invalid):
        await engine.install("crm", "2")
    do(engine, "UPDATE crm__people SET fax = NULL")
    await engine.install("crm", "2", allow_drops=True)


async def test_a_list_counts_once(engine: Engine) -> None:
    with pytest.raises(Invalid):
        await engine.install("crm", "2")
    await engine.install("crm", "2", allow_drops=True)
    await engine.install("crm", "1")
    do(engine, "UPDATE crm__people SET fax = '1'")
    do(engine, "INSERT INTO crm__people (id, fax) VALUES (2, '34')")
    await engine.install("crm", "2", allow_drops=True)  # nothing has been listed since
    assert do(engine, "SELECT id FROM crm__people ORDER BY 1") == [(1,), (2,)]


async def test_two_installs_at_once_come_one_after_the_other(engine: Engine) -> None:
    ended = await asyncio.gather(*(engine.install("crm", version, allow_drops=True) for version in "21212"))
    assert ended == [None] * 5
    assert (await engine.apps())[0].version == "2"
    assert await engine.steps("crm", "2") == ()


def _install(folder: Path, url: str | None, version: str) -> None:
    async def work() -> None:
        engine = await Engine.open(folder, database_url=url)
        for _ in range(3):
            await engine.install("crm", version, allow_drops=True)
        await engine.close()

    asyncio.run(work())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_installs_of_two_processes_come_one_after_the_other(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = database_url(request.getfixturevalue("server")) if kind == "postgresql" else None
    await (await opened(tmp_path, url)).close()
    processes = multiprocessing.get_context("spawn")
    children = [processes.Process(target=_install, args=(tmp_path / "engine", url, version)) for version in "1212"]
    for child in children:
        child.start()
    for child in children:
        await asyncio.to_thread(child.join, 60)
    assert [child.exitcode for child in children] == [0, 0, 0, 0]
    engine = await Engine.open(tmp_path / "engine", database_url=url)
    (app,) = await engine.apps()
    assert await engine.steps("crm", app.version) == ()
    await engine.close()


async def test_files_of_an_install_that_is_under_way_are_no_leftovers(tmp_path: Path) -> None:
    await (await opened(tmp_path, None)).close()
    sha256 = sha256_of(tmp_path / "2.tapp")
    installing = PackageFolder(tmp_path / "engine")
    with installing.unpacked(sha256):
        await (await Engine.open(tmp_path / "engine")).close()
        assert installing.content(sha256) is not None
    await (await Engine.open(tmp_path / "engine")).close()
    assert installing.content(sha256) is None


RULED = {
    **table("prices", column("name"), column("amount", "integer")),
    "checks": [{"name": "positive", "expression": "amount > 0"}],
    "unique": [["name"]],
}
GOOD = b'{"id": 1, "name": "tea", "amount": 3}\n\n'
BREAKING = {
    "a check": (b'{"id": 2, "name": "rye", "amount": 0}', "amount: breaks check positive: amount > 0"),
    "a unique column": (b'{"id": 2, "name": "tea", "amount": 1}', "name: there is a row with this value already"),
    "the primary key": (b'{"id": 1, "name": "rye", "amount": 1}', "id: there is a row with this value already"),
}


@pytest.mark.parametrize(("line", "reason"), BREAKING.values(), ids=BREAKING)
async def test_a_seed_that_breaks_a_rule_is_refused_with_file_line_and_rule(
    engine: Engine, tmp_path: Path, line: bytes, reason: str
) -> None:
    seeds = {"seed/prices.ndjson": GOOD + line}
    await engine.upload(write_package(tmp_path / "3.tapp", seeds, version="3", tables=[FIRST, RULED]))
    with pytest.raises(Invalid) as refused:
        await engine.install("crm", "3")
    assert str(refused.value) == f"Invalid: seed/prices.ndjson:3: {reason}"


@pytest.mark.slow
async def test_postgresql_goes_on_after_keys_that_were_seeded(server: str, tmp_path: Path) -> None:
    url = database_url(server)
    generated = {**FIRST, "columns": [{"name": "id", "type": "integer", "generated": True}, column("name")]}
    engine = await Engine.open(tmp_path / "engine", database_url=url)
    seeds = {"seed/people.ndjson": b'{"id": 1, "name": "Ada"}\n{"id": 7, "name": "Bob"}'}
    await engine.publish(write_package(tmp_path / "1.tapp", seeds, tables=[generated]))
    do(engine, "INSERT INTO crm__people (name) VALUES ('Cem')")
    assert do(engine, "SELECT id FROM crm__people ORDER BY 1") == [(1,), (7,), (8,)]
    await engine.close()


async def _until_it_waits(database: Database) -> None:
    """Until a transaction waits for another's end."""

    def waits() -> bool:
        with database.reading() as connection:
            return bool(connection.exec_driver_sql("SELECT count(*) FROM pg_locks WHERE NOT granted").scalar())

    await eventually(waits)


@pytest.mark.slow
async def test_nobody_writes_between_the_count_and_the_loss(server: str, tmp_path: Path) -> None:
    """On PostgreSQL, where others could: what they write comes before the count, or after the install."""
    engine = await opened(tmp_path, database_url(server))
    await engine.install("crm", "1")
    before = Database(tmp_path / "none", engine._database._url)
    with before.writing() as connection:
        connection.exec_driver_sql("INSERT INTO crm__people (id, fax) VALUES (2, '34')")
        installing = asyncio.create_task(engine.install("crm", "2", allow_drops=True, listed=[DROPS_FAX]))
        await _until_it_waits(before)
    with pytest.raises(Invalid, match=MORE):
        await installing
    with before.reading() as connection:
        assert any("34" in line for line in portrait(connection))
    before.close()
    await engine.close()
