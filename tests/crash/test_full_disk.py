"""A disk that is full while an engine works: each write is refused with its reason, nothing is lost, and then it goes on."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import sqlalchemy as sa
from sqlalchemy import event

from tenantry.engine.service import Engine
from tenantry.model.verdicts import Halt, Transient
from tenantry.packages.build import build
from tests.scenario.data_world import DATA, MANIFEST, PASSWORD, engine_with_app, signed_in
from tests.scenario.postgres import database_url
from tests.support.small_disk import disk, full
from tests.unit.engine.archives import write_package

__all__ = ["disk"]

ADMIN = "/api/v1/admin"
TOLD = "the disk of the database cannot be written: "
WRITES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "an identity": ("POST", f"{ADMIN}/identities", {"json": {"username": "bob", "password": PASSWORD}}),
    "a password": ("PUT", f"{ADMIN}/identities/rea", {"json": {"password": "another one"}}),
    "a provider": (
        "POST",
        f"{ADMIN}/idps/external",
        {"json": {"name": "x", "issuer_url": "https://id.example", "client_id": "c", "client_secret": "secret"}},
    ),
    "a row": ("POST", f"{DATA}/accounts", {"json": {"name": "x" * 40}}),
    "rows": ("POST", f"{DATA}/accounts", {"json": [{"name": f"{n}"} for n in range(1000)]}),
    "a row that changes": ("PATCH", f"{DATA}/accounts/1", {"json": {"name": "other"}}),
    "a row less": ("DELETE", f"{DATA}/accounts/2", {}),
    "an install": ("POST", f"{ADMIN}/apps/crm/install/2.0.0", {"params": {"allow_drops": "true"}}),
    "an uninstall": ("POST", f"{ADMIN}/apps/crm/uninstall", {}),
    "a version less": ("DELETE", f"{ADMIN}/apps/crm/2.0.0", {}),
}


class World(NamedTuple):
    """A served engine with rows, on a disk of its own."""

    disk: Path
    engine: Engine
    editor: httpx.AsyncClient
    admin: httpx.AsyncClient

    async def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        client = self.admin if path.startswith(ADMIN) else self.editor
        return await client.request(method, path, **options)

    async def state(self) -> list[Any]:
        """All that the engine answers."""
        told = await self.ask("GET", f"{DATA}/accounts")
        return [
            told.json() if told.is_success else told.status_code,
            *[(await self.ask("GET", f"{ADMIN}/{what}")).json() for what in ("apps", "identities", "idps/external")],
        ]


@pytest.fixture
async def world(disk: Path) -> AsyncIterator[World]:
    async with engine_with_app(disk) as (engine, url), signed_in(url, "ed") as editor, signed_in(url, "admin") as admin:
        second = disk / "second"
        second.mkdir()
        manifest = MANIFEST.replace("1.0.0", "2.0.0").replace("length: 40, nullable: false}]", "length: 90}]", 1)
        await engine.upload(_built(second, manifest))
        world = World(disk, engine, editor, admin)
        assert (await world.ask("POST", f"{DATA}/accounts", json=[{"name": "a"}, {"name": "b"}])).status_code == 201
        yield world


def _built(folder: Path, manifest: str) -> Path:
    (folder / "source").mkdir()
    (folder / "source" / "app.yaml").write_text(manifest)
    (folder / "source" / "content").mkdir()
    (folder / "source" / "content" / "page.html").write_bytes(os.urandom(100_000))
    build(folder / "source", folder / "crm.tapp")
    return folder / "crm.tapp"


@pytest.mark.slow
@pytest.mark.parametrize("room", [0, *(pytest.param(room, marks=pytest.mark.slow) for room in (12 << 10, 48 << 10, 96 << 10))])
async def test_each_write_to_a_full_disk_is_done_or_refused_with_its_reason(world: World, room: int) -> None:
    refused = 0
    for name, (method, path, options) in WRITES.items():
        before = await world.state()
        with full(world.disk, room):
            answer = await world.ask(method, path, **options)
        if answer.is_success:
            continue
        told = answer.json()["error"]
        assert (answer.status_code, "disk" in told) == (503, True), (name, told)
        assert answer.headers["retry-after"], name
        assert await world.state() == before, name
        assert [path for path in world.disk.rglob("*") if ".part" in path.name or ".tmp" in path.name] == [], name
        refused += 1
        assert (await world.ask(method, path, **options)).is_success, name  # now that there is room
    assert refused == len(WRITES) if room == 0 else refused >= 1


@pytest.mark.slow
async def test_a_database_that_may_not_grow_refuses_and_keeps_every_row(tmp_path: Path) -> None:
    """The same where no file system can be mounted: SQLite's own limit of pages stands for the disk."""
    async with engine_with_app(tmp_path) as (engine, url), signed_in(url, "ed") as editor:
        assert (await editor.post(f"{DATA}/accounts", json=[{"name": "a"}])).status_code == 201

        def limited(connection: sqlite3.Connection, _: Any) -> None:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count={pages}")

        assert engine._database._engine is not None
        event.listen(engine._database._engine, "connect", limited)
        engine._database._engine.dispose()  # connections that are kept have no such limit
        rows = [{"name": f"{n:040}"} for n in range(1000)]
        refused = await editor.post(f"{DATA}/accounts", json=rows)
        assert (refused.status_code, refused.json()["error"].startswith(f"{TOLD}database or disk is full")) == (503, True)
        (tmp_path / "second").mkdir()
        manifest = MANIFEST.replace("1.0.0", "2.0.0") + "  more: {accounts: [read]}\n"
        more = "\n".join(f"  - {{name: t{n}, primaryKey: [id], columns: [{{name: id, type: integer}}]}}" for n in range(50))
        package = _built(tmp_path / "second", manifest.replace("\nroles:", f"\n{more}\nroles:"))
        await engine.upload(package)
        with pytest.raises(Halt, match="DiskUnwritable"):
            await engine.install("crm", "2.0.0")
        event.remove(engine._database._engine, "connect", limited)
        engine._database._engine.dispose()
        assert [row["name"] for row in (await editor.get(f"{DATA}/accounts")).json()] == ["a"]
        assert (await engine.apps())[0].version == "1.0.0"
        await engine.install("crm", "2.0.0")


@pytest.mark.slow
@pytest.mark.parametrize("state", ["53100", "57P01", "25006", "40P01", "53300", "08006"])
async def test_what_postgresql_cannot_do_now_is_503_and_not_the_callers_fault(server: str, tmp_path: Path, state: str) -> None:
    async with engine_with_app(tmp_path, database_url(server)) as (engine, url), signed_in(url, "ed") as editor:
        with engine._database.writing() as connection:
            connection.execute(
                sa.text(
                    "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS "
                    f"$$BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = '{state}'; END$$"
                )
            )
            connection.execute(sa.text("CREATE TRIGGER t BEFORE INSERT ON crm__accounts EXECUTE FUNCTION fails()"))
        refused = await editor.post(f"{DATA}/accounts", json={"name": "a"})
        assert (refused.status_code, "no room" in refused.json()["error"]) == (503, True)
        assert (await editor.get(f"{DATA}/accounts")).json() == []


@pytest.mark.slow
async def test_a_postgresql_that_is_not_there_is_503(server: str, tmp_path: Path) -> None:
    url = database_url(server)
    engine = await Engine.open(tmp_path / "engine", database_url=url)
    await engine.publish(write_package(tmp_path / "1.tapp", {}, version="1"))
    await engine.close()
    await asyncio.to_thread(_drop, url)
    with pytest.raises(Halt) as refused:
        await engine.apps()
    assert isinstance(refused.value.verdict, Transient)
    assert refused.value.verdict.reason == "DatabaseUnavailable"


def _drop(url: str) -> None:
    where, name = url.rsplit("/", 1)
    with sa.create_engine(f"{where}/postgres", isolation_level="AUTOCOMMIT").connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
