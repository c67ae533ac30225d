"""A pool on a PostgreSQL server: the operator makes a database for each engine, and nobody reaches that of another."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenantry.adapters.local.backups import KEEP
from tenantry.adapters.pools import server_databases
from tenantry.adapters.pools.archives import ArchivePlace, VolumePlace, receive, send
from tenantry.adapters.pools.server_databases import CONNECTIONS, EACH, UNLIMITED, ServerDatabases
from tenantry.adapters.pools.server_urls import LONGEST, engine_database, pool_url
from tenantry.adapters.pools.shared.backups import SharedPlace
from tenantry.model.facts import EngineRef, Password, Trust
from tenantry.model.verdicts import Halt, Stalled, Transient
from tests.support.pool_servers import PLATFORM, OnServer, PoolServerKit, ServerSecret
from tests.support.pools import COMING, DECLARED, OTHER, OTHER_SPEC, POOL, REF, SPEC, PoolKit, pool_of, sent
from tests.support.waiting import eventually, until

pytestmark = pytest.mark.slow


def shared_place(server: PoolServerKit, folder: Path) -> SharedPlace:
    """As a command in the pod of a replica has it, whose folder that is."""
    return SharedPlace(server.url, POOL, folder / "data", KEEP)


async def people(kit: PoolKit) -> list[str]:
    return sorted(each.username for each in await kit.admin().identities())


async def deployed(kit: PoolKit, server: PoolServerKit) -> None:
    """The engine of acme with the user alice."""
    await server.databases.ensure(POOL, REF)
    await kit.pools.deploy(SPEC, await sent())
    await kit.admin().add_identity("alice", Password(clear="battery staple"))


async def test_a_role_reaches_its_own_database_and_no_other(pool_server: PoolServerKit) -> None:
    for ref in (REF, OTHER):
        await pool_server.databases.ensure(POOL, ref)
    own, others = (engine_database(pool_server.url, POOL, ref.id) for ref in (REF, OTHER))
    with psycopg.connect(own.url) as connection:
        rights = "SELECT rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls, rolconnlimit FROM pg_roles"
        row = connection.execute(f"{rights} WHERE rolname = current_user".encode()).fetchone()
        assert row == (False, 100)
    for url in (own.url.replace(f"/{own.name}", f"/{others.name}"), others.url.replace(others.password, own.password)):
        with pytest.raises(psycopg.OperationalError, match=r"permission denied|authentication failed"):
            psycopg.connect(url)


SHARED = """
SELECT relname FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND has_table_privilege(oid, 'SELECT')
AND (relisshared AND relkind = 'r' OR relkind = 'v')
"""
"""The catalogs and views that show more than one database."""


async def test_no_catalog_shows_a_role_the_name_of_another_tenant(pool_server: PoolServerKit, tmp_path: Path) -> None:
    """A restored archive brings defaults and indexes of its tables, which are SQL that its engine's role runs."""
    async with pool_of(tmp_path, server=pool_server.url) as kit:
        await deployed(kit, pool_server)
        await pool_server.databases.ensure(POOL, OTHER)
        await kit.pools.deploy(OTHER_SPEC, await sent(url="https://dev--globex.apps.example.com"))
        await kit.admin(OTHER).apps()  # a session of the other engine is open
        with psycopg.connect(pool_server.engine_url(REF.id), autocommit=True) as connection:
            catalogs = [name for (name,) in connection.execute(SHARED)]
            assert {"pg_shdescription", "pg_database", "pg_roles", "pg_stat_activity"} <= {*catalogs}
            shown = {name: str(connection.execute(f"SELECT * FROM {name}".encode()).fetchall()) for name in catalogs}
    assert [name for name, text in shown.items() if OTHER.namespace in text or OTHER.tenant_slug in text] == []


async def test_databases_are_made_and_dropped_again_without_harm(pool_server: PoolServerKit) -> None:
    await asyncio.gather(*[pool_server.databases.ensure(POOL, REF) for _ in range(4)])
    with psycopg.connect(pool_server.engine_url(REF.id), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS id")
        await pool_server.databases.ensure(POOL, REF)
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (1,)
        for _ in range(2):
            await pool_server.databases.drop(POOL, REF)  # also with a session that uses it
    assert pool_server.names() == set()


@pytest.mark.parametrize("made", range(11))
async def test_what_a_killed_operator_left_is_completed(
    pool_server: PoolServerKit, made: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator ends before the statement of that number."""
    real, done = psycopg.Connection.execute, 0

    def ended(self: Any, query: Any, *given: Any, **named: Any) -> Any:
        nonlocal done
        if done == made:
            raise KeyboardInterrupt
        done += 1
        return real(self, query, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(psycopg.Connection, "execute", ended)
        with pytest.raises(KeyboardInterrupt):
            await pool_server.databases.ensure(POOL, REF)
    await pool_server.databases.ensure(POOL, REF)
    with psycopg.connect(pool_server.engine_url(REF.id), autocommit=True) as connection:
        connection.execute("CREATE TABLE mine (id int)")
    database = pool_server.ask(
        "SELECT array_to_string(datacl, ' ') FROM pg_database WHERE datname LIKE 'tenantry~_%%~_%%' ESCAPE '~'"
    )
    assert [acl.startswith("=") or " =" in acl for acl in database] == [False]  # nothing for PUBLIC


async def test_an_engine_has_its_rows_on_the_server_and_nothing_in_the_volume(pool_server: PoolServerKit, tmp_path: Path) -> None:
    async with pool_of(tmp_path, server=pool_server.url) as kit:
        await deployed(kit, pool_server)
        facts = await kit.pools.engine(POOL, REF)
        assert facts is not None
        assert (facts.status, facts.spec, facts.place, facts.altered) == ("RUNNING", SPEC, "", ())
        assert await kit.signs_in("correct horse") == 200
        assert not list((tmp_path / "data" / "engines" / REF.id).glob("engine.db*[!d]"))
        with psycopg.connect(pool_server.engine_url(REF.id)) as connection:
            found = connection.execute("SELECT username FROM _tenantry_identities ORDER BY 1").fetchall()
        assert ("alice",) in found
    async with pool_of(tmp_path / "other", server=pool_server.url) as kit:  # a new pod, before the operator said anything
        assert await people(kit) == ["admin", "alice"]


async def test_no_file_of_a_pool_holds_a_password_of_a_database(pool_server: PoolServerKit, tmp_path: Path) -> None:
    async with pool_of(tmp_path, server=pool_server.url) as kit:
        await deployed(kit, pool_server)
    password = engine_database(pool_server.url, POOL, REF.id).password.encode()
    files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert files and [path for path in files if password in path.read_bytes()] == []


async def test_an_archive_of_a_removed_engine_has_its_rows_and_brings_them_back(
    pool_server: PoolServerKit, tmp_path: Path
) -> None:
    async with pool_of(tmp_path, server=pool_server.url) as kit:
        await deployed(kit, pool_server)
        place = shared_place(pool_server, tmp_path)
        await kit.pools.snapshot(POOL, REF, [DECLARED])
        await pool_server.databases.drop(POOL, REF)
        await kit.pools.undeploy(POOL, REF)
        assert pool_server.names() == set()
        out = io.BytesIO()
        send(place, REF.id, out)
        await pool_server.databases.ensure(POOL, REF)
        await kit.pools.deploy(COMING, await sent())
        assert await kit.signs_in("correct horse") == 503
        for _ in range(2):  # interrupted, and run again
            receive(place, io.BytesIO(out.getvalue()), REF.id, tmp_path / "scratch", Trust())
        await kit.pools.deploy(COMING, await sent())
        assert await people(kit) == ["admin", "alice"]


@pytest.mark.parametrize("source", ["volume", "server"])
async def test_an_archive_of_the_other_kind_of_pool_brings_its_rows(
    pool_server: PoolServerKit, tmp_path: Path, source: str
) -> None:
    target = "server" if source == "volume" else "volume"
    urls = {"volume": "", "server": pool_server.url}

    def place(kind: str) -> ArchivePlace:
        return shared_place(pool_server, tmp_path / kind) if kind == "server" else VolumePlace(tmp_path / kind / "data", KEEP)

    await pool_server.databases.ensure(POOL, REF)
    for kind in urls:
        (tmp_path / kind).mkdir()
    async with pool_of(tmp_path / source, server=urls[source]) as kit:
        await kit.pools.deploy(SPEC, await sent())
        await kit.admin().add_identity("alice", Password(clear="battery staple"))
        await kit.pools.snapshot(POOL, REF, [DECLARED])
        out = io.BytesIO()
        send(place(source), REF.id, out)
        await kit.pools.undeploy(POOL, REF)
    await pool_server.databases.drop(POOL, REF)
    await pool_server.databases.ensure(POOL, REF)
    async with pool_of(tmp_path / target, server=urls[target]) as kit:
        await kit.pools.deploy(COMING, await sent())
        for _ in range(2):  # interrupted, and run again
            receive(place(target), io.BytesIO(out.getvalue()), REF.id, tmp_path / "scratch", Trust(unprotected=True))
        await kit.pools.deploy(COMING, await sent())
        assert await people(kit) == ["admin", "alice"]


async def test_a_database_that_lost_its_rows_is_not_taken_for_a_new_one(pool_server: PoolServerKit, tmp_path: Path) -> None:
    async with pool_of(tmp_path, server=pool_server.url) as kit:
        await deployed(kit, pool_server)
    await pool_server.databases.drop(POOL, REF)
    await pool_server.databases.ensure(POOL, REF)
    async with pool_of(tmp_path / "other", server=pool_server.url) as kit:
        assert await kit.signs_in("correct horse") == 503
    with psycopg.connect(pool_server.engine_url(REF.id)) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)


async def test_a_new_secret_of_the_platform_reaches_roles_and_replicas(pool_server: PoolServerKit, tmp_path: Path) -> None:
    async with pool_of(tmp_path, server=pool_server.url) as kit:
        await deployed(kit, pool_server)
    url = pool_url(pool_server.admin, POOL, "another secret")
    databases = ServerDatabases(OnServer(), ServerSecret(pool_server.admin), "another secret")
    await databases.ensure_pool(EngineRef("", "eu", POOL, slug="small"))
    async with pool_of(tmp_path / "other", server=url, keys=kit.keys) as kit:
        facts = await kit.pools.engine(POOL, REF)
        assert facts is not None and facts.spec is None and facts.altered == ("the URL of its database has changed",)
        await databases.ensure(POOL, REF)
        await kit.pools.deploy(SPEC, await sent())
        facts = await kit.pools.engine(POOL, REF)
        assert facts is not None and facts.spec == SPEC
        assert await people(kit) == ["admin", "alice"]


@pytest.mark.parametrize(
    ("change", "reason", "kind"),
    [
        (lambda url: url.replace("pool_admin", "few_rights"), "PoolServerRefuses", Stalled),
        (lambda url: url.replace("pool_admin:", "pool_admin:not"), "PoolServerUnreachable", Transient),
        (lambda url: "postgresql://pool_admin:secret7q@127.0.0.1:9/postgres", "PoolServerUnreachable", Transient),
        (lambda url: "mysql://pool_admin:secret7q@127.0.0.1/postgres", "DatabaseUrlRefused", Stalled),
    ],
    ids=["few rights", "another password", "no server", "no PostgreSQL"],
)
async def test_a_server_that_refuses_is_told_without_its_address(
    pool_server: PoolServerKit, change: Any, reason: str, kind: type[Any]
) -> None:
    with psycopg.connect(pool_server.root, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS few_rights")
        password = pool_server.admin.split(":")[2].partition("@")[0]
        connection.execute(f"CREATE ROLE few_rights LOGIN PASSWORD '{password}'".encode())
    databases = ServerDatabases(OnServer(), ServerSecret(change(pool_server.admin)), PLATFORM)
    with pytest.raises(Halt) as refused:
        await databases.ensure(POOL, REF)
    verdict = refused.value.verdict
    assert (type(verdict), verdict.reason) == (kind, reason)
    assert "127.0.0.1" not in verdict.message and "secret7q" not in verdict.message
    assert pool_server.names() == set()


async def test_an_operator_that_may_not_act_makes_and_drops_nothing(pool_server: PoolServerKit) -> None:
    def check() -> None:
        raise Halt(Transient("LeaseNotRenewed", "another operator may act"))

    pool = EngineRef("", "eu", POOL, slug="small")
    await pool_server.databases.ensure_pool(pool)
    await pool_server.databases.ensure(POOL, REF)
    before = pool_server.names() | pool_server.pools()
    stopped = ServerDatabases(OnServer(), ServerSecret(pool_server.admin), PLATFORM, check)
    other = EngineRef("tenant-acme", "live", "e2")
    for work in (stopped.ensure(POOL, other), stopped.drop(POOL, REF), stopped.ensure_pool(pool), stopped.drop_pool(pool)):
        with pytest.raises(Halt, match="LeaseNotRenewed"):
            await work
    assert pool_server.names() | pool_server.pools() == before


async def test_an_operator_that_is_stopped_before_a_drop_does_not_go_on_with_it(
    pool_server: PoolServerKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the lock and its check behind it. The server ends its session, so another operator can make the database again."""
    await pool_server.databases.ensure(POOL, REF)
    with psycopg.connect(pool_server.engine_url(REF.id)) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS id")
    monkeypatch.setattr(server_databases, "IDLE_MS", 500)
    one_at_a_time = server_databases._one_at_a_time

    def stopped_after(connection: Any, *about: Any) -> None:
        one_at_a_time(connection, *about)
        pid = connection.info.backend_pid
        until(lambda: not pool_server.ask("SELECT pid FROM pg_stat_activity WHERE pid = %s", pid))

    with monkeypatch.context() as patched, pytest.raises(Halt, match="PoolServerUnreachable"):
        patched.setattr(server_databases, "_one_at_a_time", stopped_after)
        await pool_server.databases.drop(POOL, REF)
    await pool_server.databases.ensure(POOL, REF)  # nobody keeps the lock
    with psycopg.connect(pool_server.engine_url(REF.id)) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (1,)


async def test_an_operator_that_waited_for_another_looks_again_whether_it_may_act(pool_server: PoolServerKit) -> None:
    """The other one took its lease over, and has made the database again when it lets the lock go."""
    (pool,), lost = pool_server.pools(), list[bool]()
    name = engine_database(pool_server.url, POOL, REF.id).name

    def check() -> None:
        if lost:
            raise Halt(Transient("LeaseNotRenewed", "another one may act"))

    await pool_server.databases.ensure(POOL, REF)
    slow = ServerDatabases(OnServer(), ServerSecret(pool_server.admin), PLATFORM, check)
    own = EngineRef("", "eu", POOL, slug="small")
    for work, locked in (
        (slow.drop(POOL, REF), name),
        (slow.ensure(POOL, REF), name),
        (slow.drop_pool(own), pool),
        (slow.ensure_pool(own), pool),
    ):
        lost.clear()
        with psycopg.connect(pool_server.root, autocommit=True) as other:
            other.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (locked,))
            waiting = asyncio.create_task(work)
            await eventually(lambda: pool_server.ask("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"))
            lost.append(True)
        with pytest.raises(Halt, match="LeaseNotRenewed"):
            await waiting
    assert pool_server.names() == {name} and pool_server.pools() == {pool}


def limits(server: PoolServerKit) -> list[int]:
    """The most connections of the roles of engines."""
    return server.ask("SELECT rolconnlimit FROM pg_roles WHERE rolname ~ '^tenantry_.*_' ORDER BY rolname")


async def test_more_pods_have_room_for_their_connections_to_each_engine(pool_server: PoolServerKit) -> None:
    servers = OnServer(replicas=2)
    databases = ServerDatabases(servers, ServerSecret(pool_server.admin), PLATFORM)
    for id_ in ("e1", "x" * 128):
        await databases.ensure(POOL, EngineRef("tenant-acme", "dev", id_))
    assert limits(pool_server) == [CONNECTIONS] * 2
    servers.replicas = 20
    await databases.ensure_pool(EngineRef("", "eu", POOL, slug="small"))
    assert limits(pool_server) == [20 * EACH] * 2
    assert pool_server.ask("SELECT rolconnlimit FROM pg_roles WHERE rolname = %s", *pool_server.pools()) == [UNLIMITED]
    await databases.ensure(POOL, EngineRef("tenant-acme", "live", "e2"))
    assert limits(pool_server) == [20 * EACH] * 3
    servers.replicas = 1
    await databases.ensure_pool(EngineRef("", "eu", POOL, slug="small"))
    assert limits(pool_server) == [CONNECTIONS] * 3


async def test_a_maximum_for_which_the_server_has_too_few_connections_is_refused(pool_server: PoolServerKit) -> None:
    databases, pool = pool_server.databases, EngineRef("", "eu", POOL, slug="small")
    (most, reserved) = (int(*pool_server.ask(f"SHOW {name}")) for name in ("max_connections", "superuser_reserved_connections"))
    fits = (most - reserved) // EACH
    await databases.ensure_pool(pool, fits)
    with pytest.raises(Halt) as refused:
        await databases.ensure_pool(pool, fits + 1)
    verdict = refused.value.verdict
    assert (type(verdict), verdict.reason) == (Stalled, "PoolServerTooSmall")
    missing = (fits + 1) * EACH - (most - reserved)
    assert f"lower it to {fits} at most, or raise max_connections of the server by {missing}" in verdict.message
    assert "127.0.0.1" not in verdict.message


@pytest.mark.parametrize("id_", ["e1", "x" * 128, "3f2b8c1e-3a4d-4a58-9a52-0a4b6d2f9e10"])
async def test_an_id_of_any_length_has_a_database_of_its_own(pool_server: PoolServerKit, id_: str) -> None:
    refs = [EngineRef("tenant-acme", "dev", id_), EngineRef("tenant-acme", "dev", f"{id_[:-1]}y")]
    for ref in refs:
        await pool_server.databases.ensure(POOL, ref)
    names = pool_server.names()
    assert len(names) == 2 and max(map(len, names)) <= LONGEST
    for ref in refs:
        with psycopg.connect(pool_server.engine_url(ref.id)) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
