"""An engine that is not ours: the specification's stable channel (download variant A), and nothing beyond it.

No symbol files, no hashes of passwords, no marks, no roles. It shares no code with ours. It can be slow, refuse, answer
nonsense, and do what it is asked while its answer is lost.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

PREFIX = "/api/v1"
Fault = Callable[[str, str], str]
"""By method and path: `` (none), `fail` (before the effect), `lose` (after it), `slow`, `nonsense`."""


class Refusal(Exception):  # noqa: N818 - an answer
    """An error answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class StoredApp:
    """versions: bytes by version, in upload order. columns: of the tables that hold data, None for none."""

    name: str = ""
    author: str = ""
    installed: str = ""
    versions: dict[str, bytes] = field(default_factory=dict)
    columns: frozenset[str] | None = None


@dataclass
class ForeignEngine:
    """The engine, and what it was asked: `method path`, in order. effects: of these, what changed something."""

    password: str = "the admin's password"
    fault: Fault = lambda method, path: ""
    apps: dict[str, StoredApp] = field(default_factory=dict)
    users: dict[str, dict[str, str]] = field(default_factory=dict)
    providers: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    effects: list[str] = field(default_factory=list)
    _numbers: int = 0

    def __post_init__(self) -> None:
        self.users["admin"] = {"id": "u-0", "username": "admin", "created_at": "a while ago", "password": self.password}
        self.http = _application(self)

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    def passwords(self) -> dict[str, str]:
        """By username."""
        return {name: user["password"] for name, user in self.users.items()}

    def state(self) -> str:
        """All that it holds, as one text to compare."""
        return repr((self.apps, self.users, self.providers))

    async def upload(self, body: bytes) -> tuple[str, str]:
        manifest = _manifest(body)
        app, version = manifest["id"], manifest["version"]
        stored = self.apps.setdefault(app, StoredApp())
        if stored.versions.get(version, body) != body:
            raise Refusal(400, f"{app} {version} is stored with other content")
        stored.versions[version] = body
        stored.name, stored.author = manifest["name"], manifest["author"]
        return app, version

    def install(self, app: str, version: str, allow_drops: bool) -> None:
        stored = self._stored(app, version)
        wanted = _columns(_manifest(stored.versions[version]))
        lost = sorted((stored.columns or frozenset()) - wanted)
        if lost and not allow_drops:
            raise Refusal(400, f"would drop {', '.join(lost)}")
        stored.installed, stored.columns = version, wanted or stored.columns

    def uninstall(self, app: str) -> None:
        stored = self._app(app)
        if not stored.installed:
            raise Refusal(400, f"{app} is not installed")
        stored.installed = ""

    def drop_data(self, app: str) -> None:
        stored = self._app(app)
        if stored.installed:
            raise Refusal(400, f"{app} is installed")
        stored.columns = None
        self._tidy(app)

    def delete_version(self, app: str, version: str) -> None:
        stored = self._stored(app, version)
        if stored.installed == version:
            raise Refusal(400, f"{version} is installed")
        del stored.versions[version]
        self._tidy(app)

    def download(self, app: str, version: str) -> bytes:
        return self._stored(app, version).versions[version]

    def add_user(self, body: Mapping[str, Any]) -> dict[str, str]:
        name, password = str(body.get("username", "")), str(body.get("password", ""))
        if not re.fullmatch(r"[A-Za-z0-9._@-]{1,64}", name) or name.lower() in {one.lower() for one in self.users}:
            raise Refusal(400, f"username {name!r} cannot be taken")
        self.users[name] = {"id": f"u-{self.number()}", "username": name, "created_at": "today", "password": _checked(password)}
        return self.users[name]

    def change_password(self, name: str, body: Mapping[str, Any]) -> None:
        self._user(name)["password"] = _checked(str(body.get("password", "")))

    def delete_user(self, name: str) -> None:
        if name == "admin":
            raise Refusal(400, "admin stays")
        self._user(name)
        del self.users[name]

    def put_provider(self, id_: str | None, body: Mapping[str, Any]) -> dict[str, Any]:
        if id_ is not None and id_ not in self.providers:
            raise Refusal(404, f"no provider {id_}")
        if any(one["name"] == body["name"] for key, one in self.providers.items() if key != id_):
            raise Refusal(400, f"name {body['name']} is taken")
        id_ = id_ or f"p-{self.number()}"
        before = self.providers.get(id_, {"id": id_, "created_at": "2026-01-01"})
        self.providers[id_] = {**before, **body}
        return self.providers[id_]

    def delete_provider(self, id_: str) -> None:
        if self.providers.pop(id_, None) is None:
            raise Refusal(404, f"no provider {id_}")

    def _app(self, app: str) -> StoredApp:
        if app not in self.apps:
            raise Refusal(404, f"no app {app}")
        return self.apps[app]

    def _stored(self, app: str, version: str) -> StoredApp:
        if version not in self._app(app).versions:
            raise Refusal(404, f"no version {version} of {app}")
        return self.apps[app]

    def _tidy(self, app: str) -> None:
        if not self.apps[app].versions and self.apps[app].columns is None:
            del self.apps[app]

    def _user(self, name: str) -> dict[str, str]:
        if name not in self.users:
            raise Refusal(404, f"no user {name}")
        return self.users[name]


def _manifest(body: bytes) -> Any:
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            return yaml.safe_load(archive.read("app.yaml"))
    except (zipfile.BadZipFile, KeyError) as error:
        raise Refusal(400, f"no package: {error}") from None


def _columns(manifest: Any) -> frozenset[str]:
    tables = manifest.get("tables", ())
    return frozenset(f"{table['name']}.{column['name']}" for table in tables for column in table["columns"])


def _checked(password: str) -> str:
    if not 8 <= len(password) <= 1024:
        raise Refusal(400, "the password has 8 to 1024 characters")
    return password


def _application(engine: ForeignEngine) -> Any:
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    app.add_exception_handler(Refusal, lambda _, error: JSONResponse({"error": str(error)}, getattr(error, "status", 500)))
    _app_routes(app, engine)
    _user_routes(app, engine)
    _provider_routes(app, engine)

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        await _Exchange(engine, scope, receive, send).run(app)

    return serve


SUCCESS = {"message": "done", "success": True}


def _app_routes(app: FastAPI, engine: ForeignEngine) -> None:
    @app.get(f"{PREFIX}/admin/apps")
    async def apps() -> Any:
        return {"data": [_app_body(id_, one) for id_, one in engine.apps.items()]}

    @app.post(f"{PREFIX}/admin/apps/upload")
    async def upload(request: Request) -> Any:
        async with request.form() as form:
            await engine.upload(await form["file"].read())  # type: ignore[union-attr]
        return SUCCESS

    @app.post(f"{PREFIX}/admin/apps/publish")
    async def publish(request: Request, allow_drops: bool = False) -> Any:
        async with request.form() as form:
            engine.install(*await engine.upload(await form["file"].read()), allow_drops)  # type: ignore[union-attr]
        return SUCCESS

    @app.post(f"{PREFIX}/admin/apps/{{id_}}/install/{{version}}")
    async def install(id_: str, version: str, allow_drops: bool = False) -> Any:
        engine.install(id_, version, allow_drops)
        return SUCCESS

    @app.post(f"{PREFIX}/admin/apps/{{id_}}/uninstall")
    async def uninstall(id_: str) -> Any:
        engine.uninstall(id_)
        return SUCCESS

    @app.post(f"{PREFIX}/admin/apps/{{id_}}/drop-data")
    async def drop_data(id_: str) -> Any:
        engine.drop_data(id_)
        return SUCCESS

    @app.delete(f"{PREFIX}/admin/apps/{{id_}}/{{version}}")
    async def delete(id_: str, version: str) -> Any:
        engine.delete_version(id_, version)
        return SUCCESS

    @app.get(f"{PREFIX}/admin/apps/{{id_}}/download/{{version}}")
    async def download(id_: str, version: str) -> Any:
        return Response(engine.download(id_, version), media_type="application/octet-stream")


def _app_body(id_: str, app: StoredApp) -> dict[str, Any]:
    return {
        "id": id_,
        "name": app.name,
        "author": app.author,
        "version": app.installed or next(reversed(app.versions), ""),
        "availableVersions": ",".join(app.versions),
        "installed": bool(app.installed),
        "persisted": app.columns is not None,
    }


def _user_routes(app: FastAPI, engine: ForeignEngine) -> None:
    def shown(user: Mapping[str, str]) -> dict[str, str]:
        return {key: value for key, value in user.items() if key != "password"}

    @app.get(f"{PREFIX}/admin/identities")
    async def users() -> Any:
        return {"data": [shown(one) for one in engine.users.values()]}

    @app.post(f"{PREFIX}/admin/identities")
    async def add(request: Request) -> Any:
        return shown(engine.add_user(await request.json()))

    @app.put(f"{PREFIX}/admin/identities/{{name}}")
    async def change(name: str, request: Request) -> Any:
        engine.change_password(name, await request.json())
        return SUCCESS

    @app.delete(f"{PREFIX}/admin/identities/{{name}}")
    async def delete(name: str) -> Any:
        engine.delete_user(name)
        return SUCCESS


def _provider_routes(app: FastAPI, engine: ForeignEngine) -> None:
    path = f"{PREFIX}/admin/idps/external"

    def shown(provider: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in provider.items() if key != "client_secret"}

    @app.get(path)
    async def providers() -> Any:
        return {"data": [shown(one) for one in engine.providers.values()]}

    @app.post(path)
    async def add(request: Request) -> Any:
        return shown(engine.put_provider(None, await request.json()))

    @app.put(f"{path}/{{id_}}")
    async def edit(id_: str, request: Request) -> Any:
        engine.put_provider(id_, await request.json())
        return SUCCESS

    @app.delete(f"{path}/{{id_}}")
    async def delete(id_: str) -> Any:
        engine.delete_provider(id_)
        return SUCCESS


class _Exchange:
    """One request, with its fault."""

    def __init__(self, engine: ForeignEngine, scope: Any, receive: Any, send: Any) -> None:
        self._engine = engine
        self._scope = scope
        self._receive = receive
        self._send = send

    async def run(self, app: FastAPI) -> None:
        method, path = self._scope["method"], self._scope["path"]
        asked = f"{method} {path.removeprefix(PREFIX)}"
        self._engine.asked.append(asked)
        fault = self._engine.fault(method, path.removeprefix(PREFIX))
        if not self._allowed():
            await self._answer(401, b'{"error": "wrong password"}')
        elif fault == "fail":
            await self._answer(503, b'{"error": "out of order"}')
        elif fault == "nonsense":
            await self._answer(200, b"<html>It works!</html>")
        elif fault == "slow":
            while (await self._receive())["type"] != "http.disconnect":
                pass
        else:
            await self._do(app, asked, lose=fault == "lose")

    async def _do(self, app: FastAPI, asked: str, *, lose: bool) -> None:
        before = _digest(self._engine)
        answered: list[Any] = []

        async def keep(message: Any) -> None:
            answered.append(message)

        await app(self._scope, self._receive, keep)
        if _digest(self._engine) != before:
            self._engine.effects.append(asked)
        if lose:
            # More is announced than comes: the server cuts the connection.
            await self._send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1000")]})
            return
        for message in answered:
            await self._send(message)

    def _allowed(self) -> bool:
        wanted = base64.b64encode(f"admin:{self._engine.password}".encode()).decode()
        return dict(self._scope["headers"]).get(b"authorization") == f"Basic {wanted}".encode()

    async def _answer(self, status: int, body: bytes) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]})
        await self._send({"type": "http.response.body", "body": body})


def _digest(engine: ForeignEngine) -> str:
    return hashlib.sha256(engine.state().encode()).hexdigest()
