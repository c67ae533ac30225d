"""An engine in a pool on PostgreSQL that is about to move: it is read, and nobody writes it, until that is given up."""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenantry.adapters.moving.leaving import Packed
from tenantry.adapters.moving.links import Link
from tenantry.engine.logical import moving
from tenantry.engine.logical.moving import freeze, give, thaw, token_of
from tenantry.engine.logical.notes import may_fill
from tenantry.engine.logical.session import keep_migrations_out, session
from tenantry.model.facts import MOVING_MARK, EngineSpec
from tenantry.model.verdicts import Halt
from tenantry.packages.build import build
from tests.scenario.data_world import DATA, HASHED, MANIFEST, PASSWORD
from tests.support.moving import POD, moving_world
from tests.support.pool_servers import PoolServerKit
from tests.support.pools import HOST, POOL, REF, SPEC, PoolKit, pool_of, sent
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow
ROWS = f"{DATA}/accounts"
SPEC_THERE: EngineSpec = replace(SPEC, restoring=MOVING_MARK)


@pytest.fixture
async def kit(pool_server: PoolServerKit, tmp_path: Path) -> AsyncIterator[PoolKit]:
    """A pool with the engine, which has the app crm and its editor ed."""
    async with pool_of(tmp_path, server=pool_server.url) as kit:
        await pool_server.databases.ensure(POOL, REF)
        await kit.pools.deploy(SPEC, await sent(PASSWORD))
        (tmp_path / "source").mkdir()
        (tmp_path / "source" / "app.yaml").write_text(MANIFEST)
        build(tmp_path / "source", tmp_path / "crm.tapp")
        await kit.admin().publish(tmp_path / "crm.tapp")
        await kit.admin().add_identity("ed", HASHED, [("crm", "editor")])
        yield kit


async def person(kit: PoolKit) -> dict[str, str]:
    form = {"username": "ed", "password": PASSWORD}
    answer = await kit.people.post("/api/v1/auth/token", data=form, headers={"Host": HOST})
    return {"Host": HOST, "Authorization": f"Bearer {answer.json()['access_token']}"}


async def reason(asked: Any) -> str:
    with pytest.raises(Halt) as refused:
        await asked
    return refused.value.verdict.reason


async def keep_a_place(kit: PoolKit, server: PoolServerKit) -> None:
    """Let the pool wait for the engine, which it does not have any more."""
    await kit.pools.undeploy(POOL, REF)
    await server.databases.drop(POOL, REF)
    await server.databases.ensure(POOL, REF)
    await kit.pools.reserve(SPEC_THERE, await sent(PASSWORD))


async def test_it_is_read_and_no_write_of_any_kind_is_taken(kit: PoolKit, pool_server: PoolServerKit, tmp_path: Path) -> None:
    ed, link = await person(kit), kit.pools.link(POOL, REF)
    assert (await kit.people.post(ROWS, json={"name": "before"}, headers=ed)).status_code == 201
    token = await link.freeze()
    assert (await link.freeze(), token_of(pool_server.engine_url(REF.id))) == (token, token)
    for method, path, body in (
        ("POST", ROWS, {"name": "new"}),
        ("PATCH", f"{ROWS}/1", {"name": "new"}),
        ("DELETE", f"{ROWS}/1", None),
    ):
        refused = await kit.people.request(method, path, json=body, headers=ed)
        assert (refused.status_code, "is read-only" in refused.text) == (503, True), refused.text
    lines = {**ed, "Content-Type": "application/x-ndjson"}
    assert (await kit.people.post(ROWS, content=b'{"name": "new"}\n', headers=lines)).status_code == 503
    assert [row["name"] for row in (await kit.people.get(ROWS, headers=ed)).json()] == ["before"]
    assert await reason(kit.admin().add_identity("late", HASHED)) == "EngineFailing"
    await link.thaw(cancelled=False)
    assert (await kit.people.post(ROWS, json={"name": "after"}, headers=ed)).status_code == 201


async def test_no_table_is_changed_or_dropped(kit: PoolKit, pool_server: PoolServerKit, tmp_path: Path) -> None:
    link, admin = kit.pools.link(POOL, REF), kit.admin()
    (tmp_path / "source" / "app.yaml").write_text(MANIFEST.replace("1.0.0", "2.0.0").replace("length: 40", "length: 50"))
    build(tmp_path / "source", tmp_path / "newer.tapp")
    await admin.upload(tmp_path / "newer.tapp")
    await admin.uninstall("crm")
    before = pool_server.tables(pool_server.engine_url(REF.id).rpartition("/")[2])
    await link.freeze()
    assert await reason(admin.install("crm", "2.0.0")) == "EngineFailing"
    assert await reason(admin.drop_data("crm")) == "EngineFailing"
    assert pool_server.tables(pool_server.engine_url(REF.id).rpartition("/")[2]) == before
    await link.thaw(cancelled=False)
    await admin.install("crm", "2.0.0")


async def test_it_stays_read_only_when_its_pool_begins_anew(kit: PoolKit, pool_server: PoolServerKit, tmp_path: Path) -> None:
    ed = await person(kit)
    await kit.pools.link(POOL, REF).freeze()
    (tmp_path / "again").mkdir()
    async with pool_of(tmp_path / "again", server=pool_server.url, keys=kit.keys) as again:
        assert (await again.people.get(ROWS, headers=ed)).status_code == 200
        assert (await again.people.post(ROWS, json={"name": "new"}, headers=ed)).status_code == 503
        await again.pools.link(POOL, REF).thaw(cancelled=False)
    assert (await kit.people.post(ROWS, json={"name": "new"}, headers=ed)).status_code == 201


async def test_a_write_that_began_before_is_in_the_copy_and_none_comes_later(kit: PoolKit, pool_server: PoolServerKit) -> None:
    url = pool_server.engine_url(REF.id)
    with closing(psycopg.connect(url)) as writer:
        writer.execute("INSERT INTO crm__contacts (email) VALUES ('a@x')")
        frozen = asyncio.ensure_future(asyncio.to_thread(freeze, url))
        await eventually(
            lambda: pool_server.ask("SELECT 1 FROM pg_locks WHERE mode = 'ShareLock' AND granted AND relation > 16383")
        )
        # The freeze has this table, and waits for the other: the server must not end the write to part them.
        await asyncio.to_thread(writer.execute, "INSERT INTO crm__accounts (name) VALUES ('b')")
        writer.commit()
        assert await frozen
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            writer.execute("INSERT INTO crm__accounts (name) VALUES ('c')")
    with psycopg.connect(url) as reader:
        found = reader.execute("SELECT name FROM crm__accounts UNION SELECT email FROM crm__contacts ORDER BY 1").fetchall()
    assert found == [("a@x",), ("b",)]


async def test_a_write_that_lasts_is_not_interrupted(
    kit: PoolKit, pool_server: PoolServerKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "DRAIN_S", 0.0)
    url = pool_server.engine_url(REF.id)
    with closing(psycopg.connect(url)) as writer:
        writer.execute("INSERT INTO crm__accounts (name) VALUES ('a')")
        assert await reason(kit.pools.link(POOL, REF).freeze()) == "MoveWaits"
        writer.execute("INSERT INTO crm__accounts (name) VALUES ('b')")
        writer.commit()
    assert token_of(url) == ""


async def test_an_engine_that_was_let_go_is_written_again_only_if_it_runs_nowhere_else(
    kit: PoolKit, pool_server: PoolServerKit
) -> None:
    url = pool_server.engine_url(REF.id)
    token = freeze(url)
    assert await reason(asyncio.to_thread(give, url, "another")) == "MoveStale"
    for _ in range(2):
        give(url, token)
    assert (freeze(url), await reason(asyncio.to_thread(lambda: thaw(url, cancelled=False)))) == (token, "Moving")
    for _ in range(2):
        thaw(url, cancelled=True)
    assert token_of(url) == ""
    assert await reason(asyncio.to_thread(give, url, token)) == "MoveStale"


async def test_a_late_copy_takes_the_place_of_no_engine_that_came(
    kit: PoolKit, pool_server: PoolServerKit, tmp_path: Path
) -> None:
    """A suspended operator sends its copy once more, when another has ended the move."""
    (tmp_path / "volume").mkdir()
    async with pool_of(tmp_path / "volume", keys=kit.keys) as volume:
        await volume.pools.deploy(SPEC, await sent(PASSWORD))
        await volume.admin().add_identity("earlier", HASHED)
        await keep_a_place(kit, pool_server)
        source, target = volume.pools.link(POOL, REF), kit.pools.link(POOL, REF)
        async with source.pack() as early:
            await target.receive(early)
        token = await source.freeze()
        async with source.pack() as last:
            await target.receive(last)
        assert await reason(kit.pools.take(SPEC, await sent(PASSWORD), "another")) == "MoveStale"
        for _ in range(2):
            await kit.pools.take(SPEC, await sent(PASSWORD), token)
        await kit.admin().add_identity("later", HASHED)
        async with source.pack() as late:
            assert await reason(target.receive(late)) == "NotFound"
        with session(pool_server.engine_url(REF.id)) as connection:
            for mark in ("prepared", token):
                fills = asyncio.to_thread(may_fill, connection, mark, "digest", replaces=True)
                assert (await fills if mark == token else await reason(fills)) == (False if mark == token else "MoveStale")
        assert {one.username for one in await kit.admin().identities()} == {"admin", "earlier", "later"}


async def test_an_engine_that_was_never_written_comes_to_a_server(
    kit: PoolKit, pool_server: PoolServerKit, tmp_path: Path
) -> None:
    (tmp_path / "volume").mkdir()
    async with pool_of(tmp_path / "volume", keys=kit.keys) as volume:
        await volume.pools.deploy(SPEC, await sent(PASSWORD))
        await keep_a_place(kit, pool_server)
        source, target = volume.pools.link(POOL, REF), kit.pools.link(POOL, REF)
        token = await source.freeze()
        async with source.pack() as copy:
            await target.receive(copy)
        await kit.pools.take(SPEC, await sent(PASSWORD), token)
        assert [one.username for one in await kit.admin().identities()] == ["admin"]


async def test_a_backup_under_way_keeps_no_engine_read_only(kit: PoolKit, pool_server: PoolServerKit) -> None:
    url = pool_server.engine_url(REF.id)
    token = freeze(url)
    with session(url) as backup:
        keep_migrations_out(backup)
        give(url, token)
        thaw(url, cancelled=True)
    assert token_of(url) == ""


async def test_a_vacuum_of_the_server_makes_way(kit: PoolKit, pool_server: PoolServerKit) -> None:
    url = pool_server.engine_url(REF.id)
    with closing(psycopg.connect(url)) as vacuum:
        vacuum.execute("LOCK TABLE crm__accounts IN SHARE UPDATE EXCLUSIVE MODE")
        assert moving._is_vacuumed(url)
        vacuum.execute("INSERT INTO crm__accounts (name) VALUES ('a')")
        assert not moving._is_vacuumed(url)


async def test_what_a_person_reads_names_no_server(kit: PoolKit, pool_server: PoolServerKit) -> None:
    await pool_server.databases.drop(POOL, REF)
    for asked in (kit.pools.link(POOL, REF).freeze(), kit.pools.link(POOL, REF).thaw(cancelled=True)):
        with pytest.raises(Halt) as refused:
            await asked
        assert "127.0.0.1" not in refused.value.told
        assert "its server is not reached" in refused.value.told


@pytest.mark.parametrize(("origin", "target"), [("a", "s"), ("s", "a"), ("s", "t"), ("s", POD), (POD, "s")])
async def test_the_last_copy_has_only_what_changed(
    tmp_path: Path, pool_server: PoolServerKit, monkeypatch: pytest.MonkeyPatch, origin: str, target: str
) -> None:
    """With the role of an engine, which may nothing else on the server, and any replica for each command."""
    members: list[list[str]] = []
    receive = Link.receive

    async def received(link: Link, copy: Packed) -> None:
        content = b"".join([block async for block in copy.blocks])
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            members.append(archive.getnames())

        async def again() -> AsyncIterator[bytes]:
            yield content

        await receive(link, copy._replace(blocks=again()))

    engine: dict[str, Any] = {"placement": "Dedicated"} if origin == POD else {"pool": origin}
    async with moving_world(tmp_path, server=pool_server, **engine) as world:
        token = await world.sign_in()
        assert await world.add_row(token, "kept") == 201
        monkeypatch.setattr(Link, "receive", received)
        await world.declare(target)
        await world.settle()
        assert await world.rows(token) == ["kept"]
    first, last = members
    whole, changes = ("engine/engine.db", "rows/engine.db") if "engine/engine.db" in first else ("database/", "database/changed/")
    assert [name for name in first if name.startswith(whole)]
    assert [name for name in last if name.startswith(changes)]
    assert not [name for name in last if name.startswith("database/rows/") or name == "engine/engine.db"]
