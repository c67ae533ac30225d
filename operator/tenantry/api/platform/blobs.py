"""Package bytes and logs for the operator, which keeps none: behind a token that only the platform's own key signs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.facade import Keys
from tenantry.model.facts import Download
from tenantry.model.verdicts import NotFound, Unauthorized
from tenantry.ports import OperationLogs, Packages
from tenantry.rest.apps.plain import PlainApp
from tenantry.rest.blobs import AUDIENCE, LOGS, PACKAGES, SHARED
from tenantry.rest.bodies import Body, json_response, read_json
from tenantry.rest.files import file_response
from tenantry.rest.uploads import Uploads

Endpoint = Callable[[Request], Awaitable[Response]]


class Appended(Body):
    """Text to append to a log, and the text that its Operation's status has so far."""

    before: str
    added: str


def add_blobs(app: PlainApp, packages: Packages, logs: OperationLogs, uploads: Uploads, keys: Keys) -> None:
    """Adds the routes, which the described interface does not show."""
    blobs = Blobs(packages, logs, uploads)
    package, log = f"{PACKAGES}/{{tenant}}/{{sha256}}", f"{LOGS}/{{operation}}"
    rows: tuple[tuple[str, str, Endpoint], ...] = (
        ("GET", f"{package}/facts", blobs.facts),
        ("GET", package, blobs.bytes),
        ("PUT", package, blobs.put),
        ("DELETE", package, blobs.remove),
        ("DELETE", f"{PACKAGES}/{{tenant}}", blobs.remove_all),
        ("GET", log, blobs.log),
        ("POST", log, blobs.append),
        ("DELETE", log, blobs.forget),
    )
    for method, path, endpoint in rows:
        app.serve(method, path, _guarded(endpoint, keys))


class Blobs:
    """ports.Packages and ports.OperationLogs as requests."""

    def __init__(self, packages: Packages, logs: OperationLogs, uploads: Uploads) -> None:
        self._packages = packages
        self._logs = logs
        self._uploads = uploads

    async def facts(self, request: Request) -> Response:
        """Return the facts of a stored package."""
        found = await self._packages.inspect(*_about(request))
        if found is None:
            raise NotFound("the package is not stored")
        return json_response(asdict(found))

    async def bytes(self, request: Request) -> Response:
        """The package file."""
        tenant, sha256 = _about(request)
        path = await self._packages.fetch(tenant, sha256)
        return await file_response(request, Download(path, path.name, path.stat().st_size, sha256))

    async def put(self, request: Request) -> Response:
        """Stores a package file."""
        async with self._uploads.body(request) as path:
            return json_response(asdict(await self._packages.put(_about(request)[0], path)))

    async def remove(self, request: Request) -> Response:
        """Forgets a package."""
        await self._packages.remove(*_about(request))
        return Response(status_code=204)

    async def remove_all(self, request: Request) -> Response:
        """Forgets all packages of a tenant."""
        tenant = request.path_params["tenant"]
        await self._packages.remove_all("" if tenant == SHARED else tenant)
        return Response(status_code=204)

    async def log(self, request: Request) -> Response:
        """The whole log of an Operation."""
        text = await self._logs.read(request.path_params["operation"])
        if text is None:
            raise NotFound("the Operation's status carries the whole log")
        return Response(text, media_type="text/plain; charset=utf-8")

    async def append(self, request: Request) -> Response:
        """Adds lines."""
        lines = await read_json(request, Appended)
        await self._logs.append(request.path_params["operation"], lines.before, lines.added)
        return Response(status_code=204)

    async def forget(self, request: Request) -> Response:
        """Removes a log."""
        await self._logs.remove(request.path_params["operation"])
        return Response(status_code=204)


def _guarded(endpoint: Endpoint, keys: Keys) -> Endpoint:
    """The endpoint behind the operator's token; without it Unauthorized is raised."""

    async def checked(request: Request) -> Response:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthorized("only the operator may ask this")
        keys.verify(token.strip(), AUDIENCE)
        return await endpoint(request)

    return checked


def _about(request: Request) -> tuple[str, str]:
    tenant = request.path_params["tenant"]
    return "" if tenant == SHARED else tenant, request.path_params["sha256"]
