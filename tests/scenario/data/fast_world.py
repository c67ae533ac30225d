"""An engine whose frequent requests are asked both ways: before the framework, and by the endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from unittest.mock import patch

from starlette.types import ASGIApp, Message, Scope

from tenantry.adapters.local.folders import EngineFolders, EngineRecord
from tenantry.adapters.local.hosting import LocalHosting, OpenEngine
from tenantry.console.http.origins import Sandboxed
from tenantry.engine.access import Served
from tenantry.engine.data.fast_rows import FastRows
from tenantry.engine.server import engine_app
from tenantry.engine.service import Engine
from tenantry.rest.answers import WHOLE_BODY, LateAnswer, ReadyAnswer
from tenantry.rest.cross_origin import CrossOrigin
from tenantry.rest.uploads import Uploads
from tests.scenario.data.plain_rows import PLAIN, ROWS
from tests.scenario.data_world import PASSWORD, engine_with_app
from tests.support.local_engines import SECRET, SPEC

DATA = "/api/v1/data/crm"
ORIGIN = "https://app.example.com"
USERS = ("ed", "rea", "wri", "none")
Way = Callable[[Served, Path], ASGIApp]


def alone(served: Served, folder: Path) -> ASGIApp:
    """As `tenantry engine` serves it."""
    return engine_app(lambda request: served, Uploads(folder))


def hosted(served: Served, folder: Path) -> ASGIApp:
    """As `tenantry up` serves it, to pages of a listed origin."""

    async def opened(record: EngineRecord, made: Path) -> OpenEngine:
        return OpenEngine(served, nothing, lambda: None)

    async def nothing() -> None:
        return

    folders = EngineFolders(folder)
    folders.save([EngineRecord(SPEC, SECRET, datetime.now(UTC))])
    hosting = LocalHosting(folders, opened, 1 << 20)
    return CrossOrigin(Sandboxed(hosting, hosting.answer_now), [ORIGIN])


WAYS: Mapping[str, tuple[Way, str]] = {"alone": (alone, ""), "hosted": (hosted, "/e/acme/dev")}


@dataclass
class World:
    """An engine, its application, and the answers that were given before the framework."""

    engine: Engine
    served: Served
    app: ASGIApp
    root: str
    tokens: dict[str, str]
    fast: list[ReadyAnswer] = field(default_factory=list)

    async def ask(
        self, asked: str, user: str = "ed", body: bytes | None = None, **headers: str
    ) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Status, headers and body of the answer. asked: method, path and query. body: it came with the head."""
        method, _, target = asked.partition(" ")
        path, _, query = target.partition("?")
        raw = f"{self.root}{path}".encode()
        given = {"host": "engine.example.com", **({"authorization": self.tokens[user]} if user else {}), **headers}
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": raw.decode().replace("%2C", ",").replace("%C3%A4", "ä"),
            "raw_path": raw,
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 5000),
            "server": ("127.0.0.1", 80),
            "state": {},
        }
        if body is not None:
            scope[WHOLE_BODY] = body
        sent: list[Message] = []

        incoming: list[Message] = [{"type": "http.request", "body": body or b"", "more_body": False}]

        async def receive() -> Message:
            if not incoming:  # the client stays
                await asyncio.Future()
            return incoming.pop()

        async def send(message: Message) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        body = b"".join(message.get("body", b"") for message in sent[1:])
        return sent[0]["status"], list(sent[0]["headers"]), body

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Notes the answers that are given before the framework."""
        answer = FastRows.answer

        def noted(rows: FastRows, scope: Scope, path: str, engine: Served) -> ReadyAnswer | LateAnswer | None:
            found = answer(rows, scope, path, engine)
            return found if found is None else seen(found) if isinstance(found, ReadyAnswer) else partial(waited, found)

        def seen(found: ReadyAnswer) -> ReadyAnswer:
            self.fast.append(found)
            return found

        async def waited(late: LateAnswer) -> ReadyAnswer | None:
            found = await late()
            return found and seen(found)

        with patch.object(FastRows, "answer", noted):
            yield

    @contextmanager
    def endpoints(self) -> Iterator[None]:
        """Leaves every request to them."""
        with patch.object(FastRows, "answer", return_value=None):
            yield

    async def same(self, asked: str, user: str = "ed", **headers: str) -> tuple[int, bool]:
        """Ask both ways and compare the answers. Return the status, and whether the fast way was gone."""
        with self.endpoints():
            slow = await self.ask(asked, user, None, **headers)
        before = len(self.fast)
        with self.watched():
            fast = await self.ask(asked, user, None, **headers)
        assert fast == slow
        return fast[0], len(self.fast) > before


@asynccontextmanager
async def world_of(name: str, tmp_path: Path, url: str | None = None) -> AsyncIterator[World]:
    way, root = WAYS[name]
    async with engine_with_app(tmp_path, url, manifest=PLAIN, seeds={"plain": ROWS}) as (engine, _):
        served = Served(engine, tmp_path / "data" / "token-key.jwk")
        (tmp_path / "host").mkdir()
        app = way(served, tmp_path / "host")
        tokens = {user: f"Bearer {await served.issue(*await engine.authenticate(user, PASSWORD))}" for user in USERS}
        world = World(engine, served, app, root, tokens)
        for user in USERS:  # from now on the token is known, and the statements are compiled
            for path in (f"{DATA}/plain?limit=100", f"{DATA}/plain/003", f"{DATA}/contacts?limit=100", f"{DATA}/contacts/1"):
                await world.ask(f"GET {path}", user)
        yield world
