"""The database that replicas of a pool share: what happens at once, what is cut off, and what goes with an engine."""

from __future__ import annotations

import io
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
import yaml

from tenantry.adapters.local.archives import RESOURCES
from tenantry.adapters.local.backups import KEEP
from tenantry.adapters.pools.archives import send
from tenantry.adapters.pools.shared.backups import SharedPlace
from tenantry.adapters.pools.shared.catalog import PACKAGES, Catalog, CatalogRecord
from tenantry.adapters.pools.shared.packages import CatalogPackages
from tenantry.model.resource import Document
from tenantry.model.verdicts import Halt, NotFound
from tests.scenario.data_world import PASSWORD
from tests.support.pool_servers import PoolServerKit
from tests.support.pools import COMING, HOST, POOL, REF, SPEC, pool_of, sent

pytestmark = pytest.mark.slow


@pytest.fixture
def catalog(pool_server: PoolServerKit) -> Catalog:
    """With the engines `one` and `two`."""
    catalog = Catalog(pool_server.url)
    catalog.prepare()
    catalog.put([CatalogRecord(id_, b"{}", False) for id_ in ("one", "two")])
    return catalog


def package(folder: Path, content: bytes = b"package") -> Path:
    path = folder / "package"
    path.write_bytes(content)
    return path


def test_a_replica_starts_and_serves_while_another_brings_a_package(
    catalog: Catalog, pool_server: PoolServerKit, tmp_path: Path
) -> None:
    with psycopg.connect(pool_server.url) as bringing, ThreadPoolExecutor(1) as beside:
        bringing.execute("INSERT INTO blobs (name, part, content) VALUES ('package/far', 0, 'x')")
        started = Catalog(pool_server.url)
        beside.submit(started.prepare).result(timeout=60)
        assert [change.id for change in beside.submit(started.changes).result(timeout=60).records] == ["one", "two"]


def test_an_engine_that_goes_takes_no_package_that_another_one_brings(
    catalog: Catalog, pool_server: PoolServerKit, tmp_path: Path
) -> None:
    sha256 = "5c3fbcb4a9a14ff0ee5dc8d4ac6a1a9b0e5d0e7e6a0b6dfd86dd4e9c35f66ebb"
    one, two = CatalogPackages(catalog, "one"), CatalogPackages(catalog, "two")
    one.put(sha256, package(tmp_path))
    with psycopg.connect(pool_server.url) as bringing:
        bringing.execute("SELECT pg_advisory_xact_lock_shared(%s)", (PACKAGES,))
        bringing.execute("INSERT INTO packages (engine, sha256) VALUES ('two', %s)", (sha256,))
        catalog.remove("one")
    assert two.has(sha256) and pool_server.rows("SELECT count(*) FROM blobs") == [1]
    catalog.remove("two")
    assert pool_server.rows("SELECT count(*) FROM blobs") == [0]


def test_what_could_not_go_with_its_engine_goes_with_the_next_sweep(
    catalog: Catalog, pool_server: PoolServerKit, tmp_path: Path
) -> None:
    CatalogPackages(catalog, "one").put("aa", package(tmp_path))
    with psycopg.connect(pool_server.url) as bringing:
        bringing.execute("SELECT pg_advisory_xact_lock_shared(%s)", (PACKAGES,))
        catalog.remove("one")
        assert pool_server.rows("SELECT count(*) FROM blobs") == [1]
    catalog.sweep()
    assert pool_server.rows("SELECT count(*) FROM blobs") == [0]


def test_nothing_is_kept_for_an_engine_that_is_gone(catalog: Catalog, pool_server: PoolServerKit, tmp_path: Path) -> None:
    catalog.remove("one")
    with pytest.raises(NotFound):
        CatalogPackages(catalog, "one").put("aa", package(tmp_path))
    for keep in (catalog.keys, catalog.replace_keys):
        with pytest.raises(NotFound):
            keep("one", {"secret.key": b"x"})
    left = ("SELECT count(*) FROM blobs", "SELECT count(*) FROM packages", "SELECT count(*) FROM keys WHERE engine <> ''")
    assert pool_server.rows(*left) == [0, 0, 0]


def test_an_engine_that_is_gone_does_not_come_back_by_a_late_change(catalog: Catalog, pool_server: PoolServerKit) -> None:
    catalog.remove("one")
    with pytest.raises(NotFound):
        catalog.put([CatalogRecord("one", b"{}", False, known=True)])
    catalog.put([CatalogRecord("one", b"{}", False)])
    assert {change.id: change.body for change in catalog.changes().records} == {"one": b"{}", "two": b"{}"}


def test_a_number_that_was_not_given_yet_is_of_another_life(catalog: Catalog) -> None:
    life, whole, records = catalog.changes()
    last = records[-1].changed
    assert whole and catalog.changes(last, life) == (life, False, [])
    assert catalog.changes(last + 1, life) == catalog.changes(last, "another") == (life, True, records)


def test_packages_of_two_engines_come_at_once(catalog: Catalog, pool_server: PoolServerKit, tmp_path: Path) -> None:
    with psycopg.connect(pool_server.url) as bringing, ThreadPoolExecutor(1) as beside:
        bringing.execute("SELECT pg_advisory_xact_lock_shared(%s)", (PACKAGES,))
        beside.submit(CatalogPackages(catalog, "one").put, "aa", package(tmp_path)).result(timeout=60)
    assert CatalogPackages(catalog, "one").has("aa")


def test_a_server_that_is_not_reached_is_not_named() -> None:
    with pytest.raises(Halt) as refused:
        Catalog("postgresql://role7q:secret7q@127.0.0.1:9/base7q").changes()
    assert refused.value.verdict.reason == "PoolServerUnreachable"
    assert not any(word in refused.value.verdict.message for word in ("127.0.0.1", "role7q", "base7q"))


async def test_people_read_nothing_of_the_server_of_an_engine(pool_server: PoolServerKit, tmp_path: Path) -> None:
    async with pool_of(tmp_path, server=pool_server.url) as kit:
        await pool_server.databases.ensure(POOL, REF)
        await kit.pools.deploy(SPEC, await sent(PASSWORD))
        (name,) = pool_server.names()
        with psycopg.connect(pool_server.root, autocommit=True) as connection:
            connection.execute(f'ALTER ROLE "{name}" NOLOGIN'.encode())
            connection.execute(b"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", (name,))
        form = {"username": "admin", "password": PASSWORD}
        answer = await kit.people.post("/api/v1/auth/token", data=form, headers={"Host": HOST})
    assert answer.status_code == 503
    assert not any(word in answer.text for word in ("127.0.0.1", name))


async def test_an_archive_has_all_that_was_declared_before_its_deletion_was_interrupted(
    pool_server: PoolServerKit, tmp_path: Path
) -> None:
    def declared(kind: str, name: str) -> Document:
        metadata = {"name": name, "namespace": REF.namespace}
        return {"apiVersion": "tenantry.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": {"region": "eu"}}

    environment, app, identity = declared("Environment", "dev"), declared("App", "dev.crm"), declared("Identity", "ann")
    async with pool_of(tmp_path, server=pool_server.url) as kit:
        await pool_server.databases.ensure(POOL, REF)
        await kit.pools.deploy(SPEC, await sent(PASSWORD))
        for documents in ([environment, app, identity], [environment, identity], [environment]):
            await kit.pools.snapshot(POOL, REF, documents)
        out = io.BytesIO()
        send(SharedPlace(pool_server.url, POOL, tmp_path / "data", KEEP), REF.id, out)
    with tarfile.open(fileobj=io.BytesIO(out.getvalue())) as archive:
        member = archive.extractfile(RESOURCES)
        assert member is not None
        assert {document["kind"] for document in yaml.safe_load_all(member.read())} == {"Environment", "App", "Identity"}


async def test_a_backup_of_an_engine_that_waits_for_one_does_not_start_it(pool_server: PoolServerKit, tmp_path: Path) -> None:
    async with pool_of(tmp_path, server=pool_server.url) as kit:
        await pool_server.databases.ensure(POOL, REF)
        await kit.pools.deploy(COMING, await sent(PASSWORD))
        SharedPlace(pool_server.url, POOL, tmp_path / "data", KEEP).engine(REF.id)
        await kit.pools.deploy(COMING, await sent(PASSWORD))
        facts = await kit.pools.engine(POOL, REF)
        assert facts is not None and (facts.status, facts.altered) == ("PENDING", ())


async def test_an_engine_that_is_made_again_under_its_id_is_another_one_at_each_replica(
    pool_server: PoolServerKit, tmp_path: Path
) -> None:
    async with (
        pool_of(tmp_path / "one", server=pool_server.url) as one,
        pool_of(tmp_path / "two", server=pool_server.url, keys=one.keys) as two,
    ):
        await pool_server.databases.ensure(POOL, REF)
        await one.pools.deploy(SPEC, await sent(PASSWORD))
        await two.admin().identities()
        await pool_server.databases.drop(POOL, REF)
        await one.pools.undeploy(POOL, REF)
        await pool_server.databases.ensure(POOL, REF)
        await one.pools.deploy(SPEC, await sent(PASSWORD))
        form = {"username": "admin", "password": PASSWORD}
        bearer = (await one.people.post("/api/v1/auth/token", data=form, headers={"Host": HOST})).json()["access_token"]
        await two.pools.engine(POOL, REF)
        me = await two.people.get("/api/v1/auth/me", headers={"Host": HOST, "Authorization": f"Bearer {bearer}"})
        assert me.status_code == 200
