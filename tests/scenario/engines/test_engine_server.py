"""Engines behind a real server on a loopback port: one of its own, and many in one process."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.adapters.engine.http import HttpEngines
from tenantry.adapters.keys import KeyRing
from tenantry.adapters.local.backups import Backups
from tenantry.adapters.local.data_loss.survey import DataSurvey
from tenantry.adapters.local.databases import Databases
from tenantry.adapters.local.deployer import LocalDeployer
from tenantry.adapters.local.folders import EngineFolders
from tenantry.adapters.local.hosting import LocalHosting
from tenantry.adapters.local.opening import EngineOpener
from tenantry.engine.access import Served
from tenantry.engine.server import engine_app
from tenantry.engine.service import Engine
from tenantry.model.facts import EngineEndpoint, EngineRef, EngineSpec, Password
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Halt
from tenantry.packages.build import build
from tenantry.packages.check import inspect
from tenantry.rest.uploads import Uploads
from tests.contract.engine_admins import AdminSecret
from tests.scenario.serving import serving
from tests.support.waiting import eventually

ADMIN = ("admin", "the admin's password")
API = "/api/v1"
MANIFEST = """
apiVersion: tenantry.dev/app/v1
id: shop
name: Shop
author: Us
version: 1.0.0
tables:
  - name: goods
    primaryKey: [id]
    columns: [{name: id, type: integer, generated: true}]
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    (source / "content").mkdir(parents=True)
    (source / "app.yaml").write_text(MANIFEST)
    (source / "symbols.sym").write_bytes(b"symbols")
    (source / "content" / "index.html").write_text("<h1>Shop</h1>")
    (source / "content" / "large.bin").write_bytes(random.Random(1).randbytes(3_000_000))
    build(source, tmp_path / "shop.tapp")
    return tmp_path / "shop.tapp"


@pytest.fixture
async def standalone(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A standalone engine, and a client that has not signed in."""
    (tmp_path / "incoming").mkdir()
    engine = await Engine.open(tmp_path / "data")
    await engine.set_admin_password(Password(clear=ADMIN[1]))
    served = Served(engine, tmp_path / "data" / "token-key.jwk")
    app = engine_app(lambda request: served, Uploads(tmp_path / "incoming"))
    async with serving(app) as url, httpx.AsyncClient(base_url=url) as client:
        yield client
    await engine.close()


@pytest.mark.slow
async def test_a_standalone_engine_serves_an_app_from_upload_to_download(standalone: httpx.AsyncClient, package: Path) -> None:
    signed_in = await standalone.post(f"{API}/auth/token", data={"username": ADMIN[0], "password": ADMIN[1]})
    standalone.headers["Authorization"] = f"Bearer {signed_in.json()['access_token']}"
    content = await asyncio.to_thread(package.read_bytes)
    published = await standalone.post(f"{API}/admin/apps/publish", files={"file": ("shop.tapp", content)})
    assert published.json() == {"message": "shop 1.0.0 is published", "success": True}
    assert (await standalone.get("/apps/shop/")).text == "<h1>Shop</h1>"

    download = f"{API}/admin/apps/shop/versions/1.0.0/download/app"
    whole = await standalone.get(download)
    assert whole.content == content
    middle = await standalone.get(download, headers={"Range": "bytes=100-199", "If-Range": whole.headers["etag"]})
    assert (middle.status_code, middle.content) == (206, content[100:200])
    assert (await standalone.get(f"{API}/admin/apps/shop/versions/1.0.0/download/sym")).content == b"symbols"


async def test_a_client_that_goes_away_in_the_middle_leaves_nothing(standalone: httpx.AsyncClient, tmp_path: Path) -> None:
    host, port = standalone.base_url.host, standalone.base_url.port
    _, writer = await asyncio.open_connection(host, port)
    head = (
        f"POST {API}/admin/apps/upload HTTP/1.1\r\nHost: x\r\nAuthorization: {httpx.BasicAuth(*ADMIN)._auth_header}\r\n"
        "Content-Type: multipart/form-data; boundary=B\r\nContent-Length: 9000000\r\n\r\n"
        '--B\r\nContent-Disposition: form-data; name="file"\r\n\r\n'
    )
    writer.write(head.encode() + b"x" * 3_000_000)
    await writer.drain()
    await eventually(lambda: any((tmp_path / "incoming").iterdir()))
    writer.transport.abort()
    await eventually(lambda: not any((tmp_path / "incoming").iterdir()))
    assert (await standalone.get("/healthz")).status_code == 200


def overwritten(file: Path) -> None:
    file.write_bytes(os.urandom(20_000))


def emptied(file: Path) -> None:
    os.truncate(file, 0)


def moved(file: Path) -> None:
    file.rename(file.with_name("moved.db"))


@pytest.mark.parametrize("harm", [emptied, moved])  # what is overwritten is seen when SQLite next reads it from the disk
async def test_a_standalone_engine_whose_database_is_damaged_is_not_ready_and_takes_no_write(
    standalone: httpx.AsyncClient, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    assert (await standalone.get("/readyz")).status_code == 200
    harm(tmp_path / "data" / "engine.db")
    body = {"username": "ada", "password": "long enough"}
    answers = [await standalone.post(f"{API}/admin/identities", json=body, auth=ADMIN), await standalone.get("/readyz")]
    answers.append(await standalone.get(f"{API}/admin/identities", auth=ADMIN))
    assert [each.status_code for each in answers] == [503, 503, 503], [each.text for each in answers]
    assert [each.text for each in answers if str(tmp_path) in each.text] == []
    assert "engine.db" in answers[1].text
    assert (await standalone.get("/healthz")).status_code == 200


def made_a_folder(file: Path) -> None:
    moved(file)
    file.mkdir()


@pytest.mark.parametrize("harm", [overwritten, emptied, moved, made_a_folder])
async def test_a_standalone_engine_does_not_start_over_a_damaged_database(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    async def start() -> None:
        engine = await Engine.open(tmp_path)
        try:
            await engine.set_admin_password(Password(clear=ADMIN[1]))
        finally:
            await engine.close()

    await start()
    harm(tmp_path / "engine.db")
    for _ in range(2):
        with pytest.raises(Halt, match=r"engine\.db is .*[Pp]ut (it|the file) back"):
            await start()


async def test_the_password_of_a_token_that_was_changed_ends_it(standalone: httpx.AsyncClient) -> None:
    await standalone.post(f"{API}/admin/identities", json={"username": "ada", "password": "long enough"}, auth=ADMIN)
    answer = await standalone.post(f"{API}/auth/token", data={"username": "ada", "password": "long enough"})
    token = {"Authorization": f"Bearer {answer.json()['access_token']}"}
    assert (await standalone.get(f"{API}/auth/me", headers=token)).json()["username"] == "ada"
    assert (await standalone.get(f"{API}/admin/apps", headers=token)).status_code == 403
    await standalone.put(f"{API}/admin/identities/ada", json={"password": "another one"}, auth=ADMIN)
    assert (await standalone.get(f"{API}/auth/me", headers=token)).status_code == 401


@pytest.mark.slow
async def test_many_engines_of_one_process_are_apart_and_take_the_admin_password_of_their_secret(
    tmp_path: Path, package: Path
) -> None:
    keys = KeyRing(tmp_path / "keys", "tenantry")
    folders = EngineFolders(tmp_path)
    hosting = LocalHosting(folders, EngineOpener(AdminSecret(), keys, lambda id_: f"http://facade/{id_}"), 1 << 26, capacity=2)
    async with serving(hosting) as url:
        deployer = LocalDeployer(
            folders,
            Backups(tmp_path, folders, lambda ref: ()),
            url,
            hosting.closed,
            Databases(AdminSecret()),
            hosting.try_open,
            DataSurvey(folders, hosting),
        )
        engines = HttpEngines(keys, AdminSecret(), inspect, tmp_path / "incoming")
        for number in range(5):
            ref = EngineRef("tenant-acme", f"env{number}", f"id-{number}", "acme", f"env{number}")
            await deployer.deploy(EngineSpec(ref, "eu", "Local"), Ref("Secret", "tenant-acme", f"env{number}-admin"))
            facts = await deployer.engine(ref)
            assert facts is not None
            admin = engines.at(EngineEndpoint(ref.id, facts.url))
            await admin.add_identity(f"user{number}", Password(clear="long enough"))
            if number == 0:
                await admin.publish(package)
        async with httpx.AsyncClient(base_url=url, auth=ADMIN) as client:
            for number in range(5):
                people = (await client.get(f"/e/acme/env{number}{API}/admin/identities")).json()["data"]
                assert sorted(one["username"] for one in people) == ["admin", f"user{number}"]
            refused = await client.post(f"/e/acme/env0{API}/admin/apps/shop/uninstall")
            assert refused.json() == {"error": "this engine is managed; make the change at http://facade/id-0"}
            elsewhere = keys.sign({"sub": "operator", "aud": "engine:id-1"}, timedelta(minutes=5))
            foreign = await client.get(f"/e/acme/env0{API}/admin/apps", auth=_Bearer(elsewhere))
            assert foreign.status_code == 401
            assert (await client.get("/e/acme/env0/apps/shop/index.html")).text == "<h1>Shop</h1>"
        await engines.aclose()
    await hosting.aclose()


class _Bearer(httpx.Auth):
    def __init__(self, token: str) -> None:
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Any:
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request
