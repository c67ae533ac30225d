"""`spec.engine.database` on one machine: engines on a real PostgreSQL, by the URL in a Secret of their tenant."""

from __future__ import annotations

import base64
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from psycopg import sql

from tenantry.adapters.local import backups
from tenantry.adapters.local.staging import Staging
from tenantry.bootstrap.embedded import Platform
from tenantry.cli.clients.opening import console_of
from tenantry.model.resource import API_VERSION, CREDENTIAL_LABEL, Document, Ref, held_of
from tenantry.model.verdicts import Invalid
from tenantry.packages.build import build
from tenantry.runtime.reconcile.revising import revise
from tenantry.settings import OutboundSettings, Settings
from tests.scenario.data_world import MANIFEST
from tests.scenario.postgres import database_url
from tests.support.waiting import eventually

BASE = "http://platform"
SPACE = "tenant-acme"
LOOPBACK = Settings(outbound=OutboundSettings(networks="127.0.0.0/8"))


def url_of(server: str) -> str:
    """Of a new database, as a tenant writes it."""
    return database_url(server).replace("postgresql+psycopg://", "postgresql://")


@asynccontextmanager
async def platform_in(state: Path, settings: Settings = LOOPBACK) -> AsyncIterator[Platform]:
    platform = await Platform.open(state, BASE, settings=settings)
    await platform.start()
    try:
        yield platform
    finally:
        await platform.close()


async def put(platform: Platform, kind: str, name: str, namespace: str = "", **spec: Any) -> None:
    """Declares it, or edits what is declared."""
    ref, where = Ref(kind, namespace, name), {"namespace": namespace} if namespace else {}
    if platform.state.cache.document(ref) is None:
        document = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name, **where}, "spec": spec}
        await platform.state.writing.create(document)
    else:
        await revise(platform.state.writing, ref, lambda held: {**held, "spec": spec})


async def secret(platform: Platform, name: str, url: str) -> None:
    ref, data = Ref("Secret", SPACE, name), {"url": base64.b64encode(url.encode()).decode()}
    if platform.state.cache.document(ref) is None:
        metadata = {"name": name, "namespace": SPACE, "labels": {CREDENTIAL_LABEL: "environment"}}
        await platform.state.writing.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
    else:
        await revise(platform.state.writing, ref, lambda held: {**held, "data": data})


async def tenant(platform: Platform) -> None:
    await put(platform, "Region", "here")
    await put(platform, "Tenant", "acme")
    await platform.converged()


def on(name: str) -> dict[str, Any]:
    return {"region": "here", "engine": {"database": {"secretRef": {"name": name, "key": "url"}}}}


async def comes(platform: Platform, name: str, reason: str, kind: str = "Environment") -> str:
    """The message of Ready, once it has that reason for what is declared now."""
    ref = Ref(kind, SPACE, name)
    await eventually(lambda: told(platform, name, kind=kind)[0] == reason, shows=lambda: platform.state.cache.document(ref))
    return told(platform, name, kind=kind)[1]


def told(platform: Platform, name: str, type_: str = "Ready", kind: str = "Environment") -> tuple[str, str]:
    """Reason and message of a condition."""
    held: Document = platform.state.cache.document(Ref(kind, SPACE, name)) or {}
    conditions = held.get("status", {}).get("conditions", ())
    current = [each for each in conditions if each.get("observedGeneration") == held["metadata"]["generation"]]
    return next(((each["reason"], each["message"]) for each in current if each["type"] == type_), ("", ""))


def tables(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        return {row[0] for row in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")}


async def answers(platform: Platform, name: str) -> int:
    """The engine's own answer to an unknown caller: 401 where it runs."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(platform.http), base_url=BASE) as http:
        return (await http.get(f"/e/acme/{name}/api/v1/auth/me")).status_code


async def install(platform: Platform, folder: Path, environment: str) -> None:
    (folder / "crm").mkdir()
    (folder / "crm" / "app.yaml").write_text(MANIFEST)
    facts = build(folder / "crm", folder / "crm.tapp")
    await put(platform, "Package", "crm-1-0-0", SPACE, app="crm", version="1.0.0", sha256=facts.sha256)
    await console_of(platform, BASE).put_package("acme", folder / "crm.tapp")
    await put(platform, "App", f"{environment}.crm", SPACE, environment=environment, app="crm", version="1.0.0")


@pytest.mark.slow
async def test_an_engine_keeps_its_rows_in_the_declared_database_and_none_in_its_folder(tmp_path: Path, server: str) -> None:
    url = url_of(server)
    async with platform_in(tmp_path / "state") as platform:
        await tenant(platform)
        await secret(platform, "db", url)
        await put(platform, "Environment", "dev", SPACE, **on("db"))
        await comes(platform, "dev", "Succeeded")
        await install(platform, tmp_path, "dev")
        await comes(platform, "dev.crm", "Succeeded", "App")
        assert any("contacts" in each for each in tables(url))
    assert list((tmp_path / "state" / "engines").rglob("engine.db")) == []
    async with platform_in(tmp_path / "state") as platform:
        await platform.converged()
        assert (told(platform, "dev")[0], await answers(platform, "dev")) == ("Succeeded", 401)


async def test_a_secret_that_is_not_there_is_waited_for(tmp_path: Path, server: str) -> None:
    async with platform_in(tmp_path) as platform:
        await tenant(platform)
        await put(platform, "Environment", "dev", SPACE, **on("db"))
        await comes(platform, "dev", "SecretNotFound")
        await secret(platform, "db", url_of(server))
        await comes(platform, "dev", "Succeeded")


async def test_a_second_environment_on_the_same_database_is_refused_and_the_first_goes_on(tmp_path: Path, server: str) -> None:
    async with platform_in(tmp_path) as platform:
        await tenant(platform)
        await secret(platform, "db", url_of(server))
        await put(platform, "Environment", "first", SPACE, **on("db"))
        await comes(platform, "first", "Succeeded")
        await put(platform, "Environment", "second", SPACE, **on("db"))
        await comes(platform, "second", "DatabaseTaken")
        assert told(platform, "first")[0] == "Succeeded"
        assert await answers(platform, "first") == 401


async def test_another_url_in_the_secret_moves_the_engine_there(tmp_path: Path, server: str) -> None:
    first, second = url_of(server), url_of(server)
    async with platform_in(tmp_path) as platform:
        await tenant(platform)
        await secret(platform, "db", first)
        await put(platform, "Environment", "dev", SPACE, **on("db"))
        await comes(platform, "dev", "Succeeded")
        # As a copy of the first under another name: an empty one would be missing its data.
        with psycopg.connect(second, autocommit=True) as connection, psycopg.connect(first) as source:
            connection.execute("CREATE TABLE _tenantry_owner (one integer PRIMARY KEY, id varchar(128) NOT NULL)")
            row = source.execute("SELECT one, id FROM _tenantry_owner").fetchone()
            connection.execute("INSERT INTO _tenantry_owner VALUES (%s, %s)", row)
        await secret(platform, "db", second)
        await platform.converged()
        assert told(platform, "dev")[0] == "Succeeded"
        assert "_tenantry_identities" in tables(second)
        await secret(platform, "db", "postgresql://127.0.0.1:1/nothing")
        await comes(platform, "dev", "DatabaseUnavailable")


async def test_an_address_that_the_platform_does_not_allow_is_refused(tmp_path: Path, server: str) -> None:
    async with platform_in(tmp_path, Settings()) as platform:
        await tenant(platform)
        await secret(platform, "db", url_of(server))
        await put(platform, "Environment", "dev", SPACE, **on("db"))
        assert await comes(platform, "dev", "AddressRefused") == "127.0.0.1 leads to an address that is not public"
        await secret(platform, "db", "sqlite:///etc/passwd")
        await comes(platform, "dev", "DatabaseUrlRefused")


async def test_an_engine_that_has_its_data_in_sqlite_goes_on_with_it_and_says_so(tmp_path: Path, server: str) -> None:
    url = url_of(server)
    async with platform_in(tmp_path) as platform:
        await tenant(platform)
        await put(platform, "Environment", "dev", SPACE, region="here")
        await install(platform, tmp_path, "dev")
        await comes(platform, "dev.crm", "Succeeded", "App")
        await secret(platform, "db", url)
        await put(platform, "Environment", "dev", SPACE, **on("db"))
        await comes(platform, "dev", "Succeeded")
        assert told(platform, "dev", "Warning")[0] == "DatabaseNotUsed"
        assert tables(url) == set()


async def test_an_engine_on_a_server_is_not_left_without_its_rows_when_the_field_is_taken_out(
    tmp_path: Path, server: str
) -> None:
    async with platform_in(tmp_path) as platform:
        await tenant(platform)
        await secret(platform, "db", url_of(server))
        await put(platform, "Environment", "dev", SPACE, **on("db"))
        await comes(platform, "dev", "Succeeded")
        await put(platform, "Environment", "dev", SPACE, region="here")
        await comes(platform, "dev", "DatabaseNotDeclared")
        assert await answers(platform, "dev") == 401
        await put(platform, "Environment", "dev", SPACE, **on("db"))
        await comes(platform, "dev", "Succeeded")


@pytest.mark.slow
async def test_a_backup_holds_the_tables_and_a_deletion_leaves_them_where_a_restore_finds_them(
    tmp_path: Path, server: str
) -> None:
    url = url_of(server)
    async with platform_in(tmp_path / "state") as platform:
        await tenant(platform)
        await secret(platform, "db", url)
        await put(platform, "Environment", "dev", SPACE, **on("db"))
        environment = Ref("Environment", SPACE, "dev")
        await install(platform, tmp_path, "dev")
        await comes(platform, "dev.crm", "Succeeded", "App")
        held = await platform.state.writing.get(environment)
        record = platform.state.folders.route("acme", "dev")
        assert record is not None
        await platform.backups.write(record.ref, tmp_path / "dev.tar", ())
        with tarfile.open(tmp_path / "dev.tar") as archive:
            assert "database/tables.json" in archive.getnames()
        await platform.state.writing.delete(held_of(held))
        await platform.converged()
        assert platform.state.cache.document(environment) is None
        assert any("contacts" in each for each in tables(url))
        with pytest.raises(Invalid, match="is not empty"):
            await console_of(platform, BASE).restore(str(tmp_path / "dev.tar"), "", "")
        await console_of(platform, BASE).restore(record.ref.id, "", "")
        await comes(platform, "dev", "Succeeded")
        await comes(platform, "dev.crm", "Succeeded", "App")


@pytest.mark.slow
@pytest.mark.parametrize("interrupted", ["before its rows are written", "before their end is recorded"])
async def test_a_restore_that_is_interrupted_goes_on_when_it_is_run_again(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch, interrupted: str
) -> None:
    """Into an empty database. Until then the engine does not start, so nobody meets it without its rows."""
    old, new, archive = url_of(server), url_of(server), tmp_path / "dev.tar"
    async with platform_in(tmp_path / "state") as platform:
        console = console_of(platform, BASE)
        await tenant(platform)
        await secret(platform, "db", old)
        await put(platform, "Environment", "dev", SPACE, **on("db"))
        await install(platform, tmp_path, "dev")
        await comes(platform, "dev.crm", "Succeeded", "App")
        record = platform.state.folders.route("acme", "dev")
        assert record is not None
        add_account(old)
        await platform.backups.write(record.ref, archive, ())
        await platform.state.writing.delete(held_of(await platform.state.writing.get(Ref("Environment", SPACE, "dev"))))
        await platform.converged()
        await secret(platform, "db", new)

        with monkeypatch.context() as patched:
            if interrupted == "before its rows are written":
                patched.setattr(backups, "load", interrupt)
            else:
                patched.setattr(Staging, "end_rows", interrupt)
            with pytest.raises(OSError, match="interrupted"):
                await console.restore(str(archive), "", "")
        assert "run `tenantry restore` again" in await comes(platform, "dev", "Restoring")
        assert await answers(platform, "dev") == 404

        await console.restore(str(archive), "", "")
        await comes(platform, "dev.crm", "Succeeded", "App")
        assert (accounts(new), await answers(platform, "dev")) == (["Ada"], 401)


def interrupt(*_: Any) -> None:
    raise OSError("interrupted")


def _accounts(connection: psycopg.Connection[Any]) -> sql.Identifier:
    found = connection.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE '%accounts'").fetchone()
    assert found is not None
    return sql.Identifier(found[0])


def add_account(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(sql.SQL("INSERT INTO {} (name) VALUES ('Ada')").format(_accounts(connection)))


def accounts(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute(sql.SQL("SELECT name FROM {}").format(_accounts(connection)))]
