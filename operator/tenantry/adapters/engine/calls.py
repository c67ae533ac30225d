"""The engine interface, call by call: of engines of ours with the operator's extension, of others by the specification alone."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import parse_qs, quote, urlsplit

from tenantry.adapters.engine.wire import LONG_TIMEOUT, Json, Wire
from tenantry.model.facts import (
    Download,
    EngineApp,
    EngineIdentity,
    EngineIdentityProvider,
    IdentityProviderSettings,
    MigrationStep,
    PackageFacts,
    Password,
)
from tenantry.model.fields import is_engine_admin
from tenantry.model.resource import parse_time
from tenantry.model.verdicts import Halt, Invalid, NotFound, Problem, Transient
from tenantry.rest.engine.bodies import grants_body, step_body
from tenantry.rest.engine.extension import PREFIX as EXTENSION
from tenantry.rest.engine.viewed import ViewedRows, ViewedTable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LARGEST_FILE = 1 << 30
"""Bytes of a download."""
Inspect = Callable[[Path], PackageFacts]
"""Read the facts of a package file. Blocks. Raises Invalid."""
Marks = MutableMapping[str, str]
"""By the id of an identity or provider: the fingerprint of the secret that was delivered to it."""


class PlainEngine:
    """ports.EngineAdmin by the interface of the specification, and nothing else."""

    def __init__(
        self, wire: Wire, inspect: Inspect, scratch: Path, largest: int = LARGEST_FILE, marks: Marks | None = None
    ) -> None:
        self._wire = wire
        self._inspect = inspect
        self._scratch = scratch
        self._largest = largest
        self._marks: Marks = {} if marks is None else marks
        self._ids: dict[str, str] = {}

    async def apps(self) -> tuple[EngineApp, ...]:
        return tuple(self._wire.parsed(_app, item) for item in await self._wire.data("/admin/apps"))

    async def apps_with_rows(self) -> frozenset[str]:
        """Those with tables: such an engine does not count rows."""
        return frozenset(app.id for app in await self.apps() if app.persisted)

    async def steps(self, app: str, version: str) -> tuple[MigrationStep, ...]:
        """Return nothing: such an engine has no list of steps and only refuses."""
        return ()

    async def preview(self, package: Path) -> tuple[MigrationStep, ...]:
        """Nothing, for the same reason."""
        return ()

    async def identities(self, named: str = "") -> tuple[EngineIdentity, ...]:
        """With the marks of what we delivered: such an engine keeps none, and has all of them in one list."""
        found = tuple(self._wire.parsed(_plain_identity, item) for item in await self._wire.data("/admin/identities"))
        self._ids = {one.username: one.id for one in found}
        return tuple(replace(one, fingerprint=self._marks.get(one.id, "")) for one in found if one.answers_to(named))

    async def identity_providers(self) -> tuple[EngineIdentityProvider, ...]:
        """The same."""
        items = await self._wire.data("/admin/idps/external")
        found = (self._wire.parsed(_plain_provider, item) for item in items)
        return tuple(replace(one, fingerprint=self._marks.get(one.id, "")) for one in found)

    async def upload(self, package: Path) -> PackageFacts:
        return await self._send("/admin/apps/upload", package, {})

    async def publish(self, package: Path, allow_drops: bool = False) -> PackageFacts:
        return await self._send("/admin/apps/publish", package, _drops(allow_drops))

    async def install(
        self, app: str, version: str, allow_drops: bool = False, listed: Sequence[MigrationStep] | None = None
    ) -> None:
        """Of an engine of others nobody knows what it lists."""
        path = f"/admin/apps/{_safe(app)}/install/{_safe(version)}"
        await self._wire.perform("POST", path, LONG_TIMEOUT, params=_drops(allow_drops))

    async def uninstall(self, app: str) -> None:
        await self._wire.perform("POST", f"/admin/apps/{_safe(app)}/uninstall", LONG_TIMEOUT)

    async def drop_data(self, app: str) -> None:
        await self._wire.perform("POST", f"/admin/apps/{_safe(app)}/drop-data", LONG_TIMEOUT)

    async def delete_version(self, app: str, version: str) -> None:
        await self._wire.perform("DELETE", f"/admin/apps/{_safe(app)}/{_safe(version)}")

    async def download(self, app: str, version: str) -> Download:
        """By variant A, and where the engine does not have that by B."""
        name = f"{app}-{version}.tapp"
        try:
            return await self._fetch(f"/admin/apps/{_safe(app)}/download/{_safe(version)}", name)
        except NotFound:
            return await self._fetch(f"{_version_path(app, version)}/download/app", name)

    async def symbols(self, app: str, version: str) -> Download:
        return await self._fetch(f"{_version_path(app, version)}/download/sym", f"{app}-{version}.sym")

    async def add_identity(self, username: str, password: Password, roles: Sequence[tuple[str, str]] = ()) -> EngineIdentity:
        self._refuse_roles(roles)
        _refuse_admin(username)
        body = {"username": username, "password": _clear(password)}
        made = self._wire.parsed(_plain_identity, await self._wire.call("POST", "/admin/identities", json=body))
        self._marks[made.id] = password.fingerprint
        return replace(made, fingerprint=password.fingerprint)

    async def set_password(self, username: str, password: Password) -> None:
        await self._wire.perform("PUT", f"/admin/identities/{_safe(username)}", json={"password": _clear(password)})
        if username in self._ids:
            self._marks[self._ids[username]] = password.fingerprint

    async def set_roles(self, username: str, roles: Sequence[tuple[str, str]]) -> None:
        self._refuse_roles(roles)

    async def delete_identity(self, username: str) -> None:
        _refuse_admin(username)
        await self._wire.perform("DELETE", f"/admin/identities/{_safe(username)}")

    async def add_identity_provider(self, settings: IdentityProviderSettings, client_secret: Password) -> EngineIdentityProvider:
        self._refuse_roles_of(settings)
        body = _settings_body(settings) | _plain_secret_body(client_secret)
        made = self._wire.parsed(_plain_provider, await self._wire.call("POST", "/admin/idps/external", json=body))
        self._marks[made.id] = client_secret.fingerprint
        return replace(made, fingerprint=client_secret.fingerprint)

    async def edit_identity_provider(self, id_: str, settings: IdentityProviderSettings, client_secret: Password | None) -> None:
        """A secret that nobody declares stays: such an engine may have one that we know nothing of."""
        self._refuse_roles_of(settings)
        body = _settings_body(settings) | _plain_secret_body(client_secret or Password())
        await self._wire.perform("PUT", f"/admin/idps/external/{_safe(id_)}", json=body)
        if client_secret is not None:
            self._marks[id_] = client_secret.fingerprint

    async def delete_identity_provider(self, id_: str) -> None:
        await self._wire.perform("DELETE", f"/admin/idps/external/{_safe(id_)}")
        self._marks.pop(id_, None)

    async def _send(self, path: str, package: Path, query: dict[str, str]) -> PackageFacts:
        with await asyncio.to_thread(package.open, "rb") as file:
            await self._wire.perform("POST", path, LONG_TIMEOUT, params=query, files=_form(package, file))
        return await asyncio.to_thread(self._inspect, package)

    async def _fetch(self, path: str, name: str) -> Download:
        """Into the scratch folder, under the name of its content."""
        digest = hashlib.sha256()
        descriptor, unfinished = await asyncio.to_thread(tempfile.mkstemp, ".part", "download-", self._scratch)
        try:
            with os.fdopen(descriptor, "wb") as file:
                async with self._wire.stream("GET", path, LONG_TIMEOUT) as response:
                    async for chunk in response.aiter_bytes(1 << 20):
                        digest.update(chunk)
                        await asyncio.to_thread(file.write, chunk)
                        if file.tell() > self._largest:
                            raise Halt(Transient("EngineAnswer", f"{name} has more than {self._largest} bytes"))
                size = file.tell()
            target = self._scratch / digest.hexdigest()
            await asyncio.to_thread(Path(unfinished).rename, target)
        except BaseException:
            Path(unfinished).unlink(missing_ok=True)  # noqa: ASYNC240 - also while being cancelled
            raise
        return Download(target, name, size, digest.hexdigest())

    @staticmethod
    def _refuse_roles(roles: Sequence[tuple[str, str]]) -> None:
        if roles:
            raise Invalid((Problem("roles", "the engine's interface does not take roles"),))

    def _refuse_roles_of(self, settings: IdentityProviderSettings) -> None:
        self._refuse_roles(tuple(settings.default_roles.items()))
        if settings.roles_claim:
            raise Invalid((Problem("rolesClaim", "the engine's interface does not take roles"),))


class OwnEngine(PlainEngine):
    """An engine of ours: the interface and our operator's extension."""

    async def apps_with_rows(self) -> frozenset[str]:
        try:
            return frozenset(map(str, await self._wire.data(f"{EXTENSION}/data")))
        except NotFound:  # the engine is of an older release, which has no such route
            return await super().apps_with_rows()

    async def steps(self, app: str, version: str) -> tuple[MigrationStep, ...]:
        items = await self._wire.data(f"{EXTENSION}/apps/{_safe(app)}/steps/{_safe(version)}")
        return tuple(self._wire.parsed(_step, item) for item in items)

    async def preview(self, package: Path) -> tuple[MigrationStep, ...]:
        with await asyncio.to_thread(package.open, "rb") as file:
            answer = await self._wire.call("POST", f"{EXTENSION}/preview", LONG_TIMEOUT, files=_form(package, file))
        return self._wire.parsed(lambda body: tuple(_step(item) for item in body["data"]), answer)

    async def install(
        self, app: str, version: str, allow_drops: bool = False, listed: Sequence[MigrationStep] | None = None
    ) -> None:
        if listed is None:
            await super().install(app, version, allow_drops)
            return
        path = f"{EXTENSION}/apps/{_safe(app)}/install/{_safe(version)}"
        body = {"allow_drops": allow_drops, "listed": [step_body(step) for step in listed]}
        await self._wire.perform("POST", path, LONG_TIMEOUT, json=body)

    async def identities(self, named: str = "") -> tuple[EngineIdentity, ...]:
        if named:
            with suppress(NotFound):  # the engine is of an earlier release, which has no such route
                return await self._identities(f"/named/{_safe(named)}")
        return tuple(one for one in await self._identities() if one.answers_to(named))

    async def _identities(self, which: str = "") -> tuple[EngineIdentity, ...]:
        return tuple(self._wire.parsed(_identity, item) for item in await self._wire.data(f"{EXTENSION}/identities{which}"))

    async def identity_providers(self) -> tuple[EngineIdentityProvider, ...]:
        return tuple(self._wire.parsed(_provider, item) for item in await self._wire.data(f"{EXTENSION}/idps"))

    async def add_identity(self, username: str, password: Password, roles: Sequence[tuple[str, str]] = ()) -> EngineIdentity:
        body = {"username": username, **_password_body(password), "roles": grants_body(roles)}
        return self._wire.parsed(_identity, await self._wire.call("POST", f"{EXTENSION}/identities", json=body))

    async def set_password(self, username: str, password: Password) -> None:
        await self._wire.perform("PUT", f"{EXTENSION}/identities/{_safe(username)}", json=_password_body(password))

    async def set_roles(self, username: str, roles: Sequence[tuple[str, str]]) -> None:
        await self._wire.perform("PUT", f"{EXTENSION}/identities/{_safe(username)}", json={"roles": grants_body(roles)})

    async def add_identity_provider(self, settings: IdentityProviderSettings, client_secret: Password) -> EngineIdentityProvider:
        body = _extended_settings_body(settings) | _client_secret_body(client_secret)
        return self._wire.parsed(_provider, await self._wire.call("POST", f"{EXTENSION}/idps", json=body))

    async def edit_identity_provider(self, id_: str, settings: IdentityProviderSettings, client_secret: Password | None) -> None:
        body = _extended_settings_body(settings) | (_client_secret_body(client_secret) if client_secret else {})
        await self._wire.perform("PUT", f"{EXTENSION}/idps/{_safe(id_)}", json=body)


async def unused(wire: Wire) -> timedelta | None:
    """Return for how long nobody used an engine of ours; None if it is of an older release, which has no such route."""
    try:
        return wire.parsed(_unused, await wire.call("GET", f"{EXTENSION}/use"))
    except NotFound:
        return None


def _unused(body: Json) -> timedelta:
    return timedelta(seconds=float(body["unused_s"]))


def _form(package: Path, file: BinaryIO) -> dict[str, Any]:
    return {"file": (package.name, file, "application/octet-stream")}


def _safe(part: str) -> str:
    return quote(part, safe="")


def _version_path(app: str, version: str) -> str:
    return f"/admin/apps/{_safe(app)}/versions/{_safe(version)}"


class EngineRowViews:
    """Rows of the apps of one engine, through the operator's extension of our engines' interface."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def tables(self, app: str) -> tuple[ViewedTable, ...]:
        """Return the tables of an installed app. Raises NotFound where it is not installed, Halt."""
        items = await self._wire.data(f"{EXTENSION}/rows/{_safe(app)}")
        return tuple(self._wire.parsed(_viewed_table, item) for item in items)

    async def rows(self, app: str, table: str, query: Sequence[tuple[str, str]]) -> ViewedRows:
        """Return a page of rows. query: as of the data API. Raises NotFound, Invalid (the query), Halt."""
        body, link = await self._wire.page(f"{EXTENSION}/rows/{_safe(app)}/{_safe(table)}", query)
        return self._wire.parsed(_viewed_rows, {"rows": body, "next": link})


def _viewed_table(item: Json) -> ViewedTable:
    return ViewedTable(str(item["name"]), tuple(map(str, item["columns"])), tuple(map(str, item["key"])))


def _viewed_rows(answer: Json) -> ViewedRows:
    rows = json.loads(answer["rows"])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("the rows are no list of objects")
    return ViewedRows(tuple(rows), parse_qs(urlsplit(answer["next"]).query).get("continue", [""])[0])


def _drops(allow: bool) -> dict[str, str]:
    return {"allow_drops": "true"} if allow else {}


def _clear(password: Password) -> str:
    if not password.clear:
        raise Invalid((Problem("password", "the engine's interface takes clear text only, and the Secret holds a hash"),))
    return password.clear


def _password_body(password: Password) -> dict[str, str]:
    form = {"password_hash": password.hash} if password.hash else {"password": password.clear}
    return form | {"fingerprint": password.fingerprint}


def _plain_secret_body(secret: Password) -> dict[str, str]:
    return {"client_secret": secret.clear} if secret.clear else {}


def _client_secret_body(secret: Password) -> dict[str, str]:
    return {"client_secret": secret.clear, "fingerprint": secret.fingerprint}


def _settings_body(settings: IdentityProviderSettings) -> dict[str, Any]:
    return {
        "name": settings.name,
        "issuer_url": settings.issuer_url,
        "client_id": settings.client_id,
        "scopes": settings.scopes,
        "auto_provision": settings.auto_provision,
        "is_active": settings.is_active,
    }


def _extended_settings_body(settings: IdentityProviderSettings) -> dict[str, Any]:
    return {**_settings_body(settings), "default_roles": dict(settings.default_roles), "roles_claim": settings.roles_claim}


def _time(text: str) -> datetime:
    """The interface does not fix the format of times; one that we cannot read counts as the epoch."""
    try:
        moment = parse_time(text)
    except ValueError:
        return _EPOCH
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _app(item: Json) -> EngineApp:
    versions = tuple(part.strip() for part in item["availableVersions"].split(",") if part.strip())
    version = item["version"] if item["installed"] else ""
    return EngineApp(item["id"], item["name"], item["author"], version, versions, item["persisted"])


def _step(item: Json) -> MigrationStep:
    return MigrationStep(item["text"], item["loses_data"], item["rows"], item["impossible"])


def _refuse_admin(username: str) -> None:
    """An engine of others may compare names by case, and would make a second `Admin`."""
    if is_engine_admin(username):
        raise Invalid((Problem("username", f"{username} is the engine's own user"),))


def _identity(item: Json) -> EngineIdentity:
    roles = {grant["app"]: grant["role"] for grant in item.get("roles", [])}
    return EngineIdentity(item["id"], item["username"], _time(item["created_at"]), item.get("fingerprint", ""), roles)


def _plain_identity(item: Json) -> EngineIdentity:
    """Only what the specification names, whatever else another's engine says."""
    return EngineIdentity(str(item["id"]), str(item["username"]), _time(item["created_at"]))


def _plain_provider(item: Json) -> EngineIdentityProvider:
    return replace(_provider({**item, "default_roles": {}, "roles_claim": ""}), fingerprint="")


def _provider(item: Json) -> EngineIdentityProvider:
    settings = IdentityProviderSettings(
        item["name"],
        item["issuer_url"],
        item["client_id"],
        item["scopes"],
        item["auto_provision"],
        item["is_active"],
        item.get("default_roles", {}),
        item.get("roles_claim", ""),
    )
    return EngineIdentityProvider(item["id"], settings, _time(item["created_at"]), item.get("fingerprint", ""))
