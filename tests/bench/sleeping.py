"""P20: the first request to an engine of a shared process that is not open, against a raw open of its database and one row."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import cycle
from pathlib import Path
from statistics import quantiles

import httpx
from starlette.types import Message, Scope

from tenantry.adapters.engine.http import HttpEngines
from tenantry.adapters.keys import KeyRing
from tenantry.adapters.local.backups import Backups
from tenantry.adapters.local.data_loss.survey import DataSurvey
from tenantry.adapters.local.databases import Databases
from tenantry.adapters.local.deployer import LocalDeployer
from tenantry.adapters.local.folders import EngineFolders
from tenantry.adapters.local.hosting import LocalHosting
from tenantry.adapters.local.opening import EngineOpener
from tenantry.engine.sql.files import FILE
from tenantry.model.facts import EngineEndpoint, EngineRef, EngineSpec, Password
from tenantry.model.resource import Ref
from tenantry.packages.check import inspect
from tests.bench.row import Row, Scale, Took, interleaved, row, stopwatch, told
from tests.contract.engine_admins import AdminSecret
from tests.scenario.serving import serving

ENGINES = 20
ROUNDS = 5
GATE = 10.0
PACKAGE = Path("examples/02-music-company/packages/music-store-1.0.0.tapp")
TABLE = "Artist"
USER, PASSWORD = "ann", "a long password"
ROLES = (("music-store", "manager"),)


def measure(scale: Scale) -> Sequence[Row]:
    """Both, by turns. One engine may be open, so that each request of a round finds its engine closed."""
    count = max(3, scale.of(ENGINES))
    with asyncio.Runner() as runner:
        world = _world(scale.folder / "P20", count)
        hosting, tokens, files = runner.run(world.__anext__())
        engines = cycle(tokens.items())
        taken: list[float] = []
        try:
            requests = ROUNDS * count
            times = interleaved(
                lambda: runner.run(_requests(hosting, engines, requests, taken)),
                lambda: _opens(files, requests),
                scale.repetitions,
            )
        finally:
            runner.run(world.aclose())
    p99 = quantiles(taken, n=100)[98]
    work, reference = "first request for a row of an engine that is not open", "a raw open of its database, and a row"
    return (row("P20", work, reference, times, "lower", GATE, each=told(times.wall[0] / requests), p99=told(p99)),)


@asynccontextmanager
async def _served(state: Path, count: int) -> AsyncIterator[tuple[LocalHosting, dict[str, str], list[Path]]]:
    """Engines with an app and a row in each table that is read; tokens of a user by the path of a request."""
    keys, folders = KeyRing(state / "keys", "tenantry"), EngineFolders(state)
    hosting = LocalHosting(folders, EngineOpener(AdminSecret(), keys, str), 1 << 26, capacity=1)
    tokens = {}
    async with serving(hosting) as url, httpx.AsyncClient(base_url=url, timeout=60) as client:
        backups = Backups(state, folders, lambda ref: ())
        survey = DataSurvey(folders, hosting)
        deployer = LocalDeployer(folders, backups, url, hosting.closed, Databases(AdminSecret()), hosting.try_open, survey)
        admins = HttpEngines(keys, AdminSecret(), inspect, state / "incoming")
        for number in range(count):
            name = f"env{number}"
            ref = EngineRef("tenant-acme", name, f"id-{number}", "acme", name)
            await deployer.deploy(EngineSpec(ref, "eu", "Local"), Ref("Secret", "tenant-acme", f"{name}-admin"))
            admin = admins.at(EngineEndpoint(ref.id, f"{url}/e/acme/{name}"))
            await admin.publish(PACKAGE)
            await admin.add_identity(USER, Password(clear=PASSWORD), ROLES)
            form = {"username": USER, "password": PASSWORD}
            answer = await client.post(f"/e/acme/{name}/api/v1/auth/token", data=form)
            tokens[f"/e/acme/{name}/api/v1/data/music-store/{TABLE}"] = answer.raise_for_status().json()["access_token"]
        await admins.aclose()
    for path, token in tokens.items():
        await _asked(hosting, "POST", path, token, b'{"Name": "One"}', 201)
    yield hosting, {f"{path}/1": token for path, token in tokens.items()}, sorted(folders.engines.glob(f"*/{FILE}"))
    await hosting.aclose()


async def _world(state: Path, count: int) -> AsyncGenerator[tuple[LocalHosting, dict[str, str], list[Path]], None]:
    async with _served(state, count) as served:
        yield served


async def _requests(hosting: LocalHosting, engines: Iterator[tuple[str, str]], requests: int, taken: list[float]) -> Took:
    with stopwatch() as took:
        for _ in range(requests):
            path, token = next(engines)
            with stopwatch() as one:
                await _asked(hosting, "GET", path, token)
            taken.append(one.wall)
    return took


async def _asked(hosting: LocalHosting, method: str, path: str, token: str, body: bytes = b"", status: int = 200) -> None:
    """A request without a socket: the reference has none either."""
    told: list[Message] = []

    async def send(message: Message) -> None:
        told.append(message)

    bodies = [body]

    async def receive() -> Message:
        if not bodies:
            await asyncio.Event().wait()  # the client stays until it is answered
        return {"type": "http.request", "body": bodies.pop(), "more_body": False}

    headers = [(b"authorization", f"Bearer {token}".encode()), (b"content-type", b"application/json"), (b"host", b"localhost")]
    scope: Scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"", "headers": headers,
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 1), "scheme": "http", "http_version": "1.1", "root_path": "",
        "asgi": {"version": "3.0"},
    }  # fmt: skip
    await hosting(scope, receive, send)
    if told[0]["status"] != status:
        raise RuntimeError(f"{method} {path}: {told}")


def _opens(files: Sequence[Path], requests: int) -> Took:
    """The reference: as many opens, of the same databases by turns."""
    with stopwatch() as took:
        for _, file in zip(range(requests), cycle(files), strict=False):
            connection = sqlite3.connect(file)
            found = connection.execute(f'SELECT * FROM "music_store__{TABLE}" WHERE "ArtistId" = 1').fetchone()
            connection.close()
            if found is None:
                raise RuntimeError(f"{file} has no such row")
    return took
