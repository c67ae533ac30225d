"""An engine that comes into a pool is not served before it is whole, and one that leaves is read-only until that is given up."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tenantry.adapters.local.staging import Staging
from tenantry.adapters.moving import leaving
from tenantry.adapters.moving.leaving import freeze, give, thaw
from tenantry.adapters.pools import server
from tenantry.adapters.pools.moves import FORGOTTEN
from tenantry.engine.service import Engine
from tenantry.engine.sql.files import FILE
from tenantry.engine.sql.moving import token_of
from tenantry.model.facts import MOVING_MARK, Password
from tenantry.model.verdicts import Halt
from tests.scenario.data_world import HASHED
from tests.support.pools import OTHER, OTHER_SPEC, POOL, REF, SPEC, PoolKit, pool_of, sent

REFUSED = "EngineFailing"
"""The operator's reason for the status 503 of an engine."""
COMING = replace(SPEC, restoring=MOVING_MARK)


@pytest.fixture
async def pools(tmp_path: Path) -> AsyncIterator[tuple[PoolKit, PoolKit]]:
    """A pool with the engine, and its user alice; and one to which it may move."""
    async with AsyncExitStack() as stack:
        old = await stack.enter_async_context(pool_of(tmp_path / "old"))
        new = await stack.enter_async_context(pool_of(tmp_path / "new", capacity=1))
        await old.pools.deploy(SPEC, await sent())
        await old.admin().add_identity("alice", HASHED)
        yield old, new


async def reason(asked: Awaitable[object]) -> str:
    with pytest.raises(Halt) as refused:
        await asked
    return refused.value.verdict.reason


async def copy(old: PoolKit, new: PoolKit) -> None:
    async with old.pools.link(POOL, REF).pack() as archive:
        await new.pools.link(POOL, REF).receive(archive)


async def copy_changes(old: PoolKit, new: PoolKit) -> int:
    """Copy as the move does while the engine is read-only. Return the bytes of the archive."""
    there, sizes = new.pools.link(POOL, REF), [0]

    async def counted(blocks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for block in blocks:
            sizes.append(len(block))
            yield block

    async with old.pools.link(POOL, REF).pack(await there.blocks()) as archive:
        await there.receive(archive._replace(blocks=counted(archive.blocks)))
    return sum(sizes)


async def all_of(blocks: list[bytes]) -> AsyncIterator[bytes]:
    for block in blocks:
        yield block


def fill(kit: PoolKit, rows: int) -> None:
    """Put megabytes into the database of the engine."""
    with closing(sqlite3.connect(kit.folder / "data" / "engines" / REF.id / FILE)) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS large (content BLOB)")
        connection.executemany("INSERT INTO large VALUES (?)", [(secrets.token_bytes(1 << 20),)] * rows)


async def coming(kit: PoolKit) -> str:
    facts = await kit.pools.engine(POOL, REF)
    return "" if facts is None else f"{facts.status} {facts.coming}".strip()


async def people(kit: PoolKit) -> list[str]:
    return sorted(each.username for each in await kit.admin().identities())


async def test_it_waits_for_the_last_copy(pools: tuple[PoolKit, PoolKit]) -> None:
    old, new = pools
    place, given = old.pools.link(POOL, REF), await sent()
    await new.pools.reserve(COMING, given)
    await new.pools.reserve(COMING, given)
    assert await coming(new) == "PENDING Reserved"
    await copy(old, new)
    assert await coming(new) == "PENDING Copied"
    assert await reason(new.pools.deploy(SPEC, given)) == "Moving"
    assert await new.signs_in("correct horse") == 503
    await old.admin().add_identity("bob", HASHED)
    token = await place.freeze()
    assert await reason(new.pools.take(SPEC, given, token)) == "MoveStale"
    assert await reason(new.pools.take(SPEC, given, "prepared")) == "MoveStale"
    await copy(old, new)
    await place.give(token)
    await new.pools.take(SPEC, given, token)
    await new.pools.take(SPEC, given, token)
    assert (await coming(new), await people(new)) == ("RUNNING", ["admin", "alice", "bob"])
    facts = await new.pools.engine(POOL, REF)
    assert facts is not None
    assert facts.spec == SPEC
    assert await reason(new.pools.cancel(POOL, REF)) == "EngineThere"


async def test_it_is_read_only_until_the_move_is_given_up(pools: tuple[PoolKit, PoolKit]) -> None:
    old, _ = pools
    place = old.pools.link(POOL, REF)
    token = await place.freeze()
    assert await place.freeze() == token
    assert await people(old) == ["admin", "alice"]
    assert await reason(old.admin().add_identity("bob", HASHED)) == REFUSED
    await place.thaw(cancelled=False)
    await old.admin().add_identity("bob", HASHED)
    assert await reason(place.give(token)) == "MoveStale"
    token = await place.freeze()
    await place.give(token)
    assert await reason(place.thaw(cancelled=False)) == "Moving"
    assert await reason(old.admin().add_identity("eve", HASHED)) == REFUSED
    await place.thaw(cancelled=True)
    await old.admin().add_identity("eve", HASHED)


async def test_a_full_pool_keeps_no_place_and_a_forgotten_place_is_free_again(pools: tuple[PoolKit, PoolKit]) -> None:
    _, new = pools
    given = await sent()
    await new.pools.reserve(replace(OTHER_SPEC, restoring=MOVING_MARK), given)
    assert await reason(new.pools.reserve(COMING, given)) == "PoolFull"
    moves = new.opened.server._pool.moves
    await moves.free_forgotten(datetime.now(UTC) + FORGOTTEN - timedelta(minutes=1))
    assert await new.pools.engine(POOL, OTHER) is not None
    await moves.free_forgotten(datetime.now(UTC) + FORGOTTEN + timedelta(minutes=1))
    assert await new.pools.engine(POOL, OTHER) is None
    await new.pools.reserve(COMING, given)


async def test_a_copy_that_was_changed_on_its_way_is_refused(pools: tuple[PoolKit, PoolKit]) -> None:
    old, new = pools
    await new.pools.reserve(COMING, await sent())

    async def changed(blocks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        whole = b"".join([block async for block in blocks])
        at = len(whole) // 2
        yield whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]

    async with old.pools.link(POOL, REF).pack() as archive:
        assert await reason(new.pools.link(POOL, REF).receive(archive._replace(blocks=changed(archive.blocks)))) == "Invalid"
    assert await coming(new) == "PENDING Reserved"


async def test_the_last_copy_sends_only_what_changed(pools: tuple[PoolKit, PoolKit]) -> None:
    old, new = pools
    fill(old, 4)
    given = await sent()
    await new.pools.reserve(COMING, given)
    await copy(old, new)
    await old.admin().add_identity("bob", HASHED)
    token = await old.pools.link(POOL, REF).freeze()
    assert 0 < await copy_changes(old, new) < 2 << 20
    assert 0 < await copy_changes(old, new) < 1 << 20
    await old.pools.link(POOL, REF).give(token)
    await new.pools.take(SPEC, given, token)
    assert await people(new) == ["admin", "alice", "bob"]
    with closing(sqlite3.connect(new.folder / "data" / "engines" / REF.id / FILE)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT sum(length(content)) FROM large").fetchone() == (4 << 20,)


async def test_a_pool_that_began_anew_tells_the_same_of_the_copy(pools: tuple[PoolKit, PoolKit]) -> None:
    old, new = pools
    await new.pools.reserve(COMING, await sent())
    place = new.pools.link(POOL, REF)
    assert await place.blocks() == b""
    await copy(old, new)
    again = Staging(new.folder / "data").blocks(REF)
    assert again is not None
    assert await place.blocks() == again.packed()


async def test_changes_of_another_copy_are_refused_and_a_whole_one_is_needed(pools: tuple[PoolKit, PoolKit]) -> None:
    old, new = pools
    await new.pools.reserve(COMING, await sent())
    place = new.pools.link(POOL, REF)
    async with old.pools.link(POOL, REF).pack() as first:
        earlier = [block async for block in first.blocks]
    await old.admin().add_identity("bob", HASHED)
    await copy(old, new)
    later = await place.blocks()
    await place.receive(first._replace(blocks=all_of(earlier)))
    async with old.pools.link(POOL, REF).pack(later) as changes:
        assert await reason(place.receive(changes)) == "Invalid"
    assert (await coming(new), await place.blocks()) == ("PENDING Reserved", b"")
    async with old.pools.link(POOL, REF).pack(later) as changes:
        assert await reason(place.receive(changes)) == "Invalid"
    await copy(old, new)
    assert await coming(new) == "PENDING Copied"


async def test_an_earlier_release_takes_whole_archives(pools: tuple[PoolKit, PoolKit], monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = pools
    fill(old, 2)
    await new.pools.reserve(COMING, await sent())
    await copy(old, new)
    monkeypatch.setattr(server, "STREAMING", ("pack", "receive"))
    assert await new.pools.link(POOL, REF).blocks() == b""
    assert await copy_changes(old, new) > 2 << 20
    assert await coming(new) == "PENDING Copied"


async def test_a_write_that_began_before_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaving, "DRAIN_S", 0.1)
    engine = await Engine.open(tmp_path)
    await engine.add_identity("alice", HASHED)
    with engine._database.writing():
        with pytest.raises(Halt) as refused:
            freeze(tmp_path)
        assert refused.value.verdict.reason == "MoveWaits"
    assert token_of(tmp_path) == ""
    await engine.add_identity("bob", HASHED)
    token = freeze(tmp_path)
    with pytest.raises(Halt) as refused:
        await engine.set_password("bob", Password(clear="another one"))
    assert refused.value.verdict.reason == "Moving"
    give(tmp_path, token)
    assert token_of(tmp_path) == token
    thaw(tmp_path, cancelled=True)
    await engine.set_password("bob", Password(clear="another one"))
    await engine.close()
