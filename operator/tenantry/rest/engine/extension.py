"""The operator's extension of our engines' interface, under /admin/tenantry: foreign engines have none of it."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from tenantry.model.facts import MigrationStep, Password
from tenantry.rest.bodies import invalid, json_response, read_json
from tenantry.rest.engine.bodies import (
    ExtendedIdentityAdd,
    ExtendedIdentityEdit,
    ExtendedIdp,
    ExtendedInstall,
    SuccessResponse,
    extended_identity_body,
    extended_provider_body,
    grants_of,
    step_body,
)
from tenantry.rest.engine.routes import AdminOf, by_creation, data_response, done
from tenantry.rest.routes import JSON, PAGED, TAGGED, UPLOAD, Route
from tenantry.rest.uploads import Uploads

PREFIX = "/admin/tenantry"


def extension_routes(operator_of: AdminOf, uploads: Uploads) -> list[Route]:
    """The extension's routes, without the prefix /api/v1. `operator_of` lets trusted callers through alone."""
    routes = _ExtensionRoutes(operator_of, uploads)
    return [
        Route("POST", f"{PREFIX}/preview", routes.preview, 200, JSON, body=UPLOAD),
        Route("GET", f"{PREFIX}/data", routes.data, 200, JSON),
        Route("GET", f"{PREFIX}/apps/{{id}}/steps/{{version}}", routes.steps, 200, JSON),
        Route("POST", f"{PREFIX}/apps/{{id}}/install/{{version}}", routes.install, 200, SuccessResponse, body=ExtendedInstall),
        Route("GET", f"{PREFIX}/identities", routes.identities, 200, JSON, (), PAGED, TAGGED),
        Route("GET", f"{PREFIX}/identities/named/{{username}}", routes.named_identities, 200, JSON),
        Route("POST", f"{PREFIX}/identities", routes.add_identity, 200, JSON, body=ExtendedIdentityAdd),
        Route("PUT", f"{PREFIX}/identities/{{username}}", routes.edit_identity, 200, SuccessResponse, body=ExtendedIdentityEdit),
        Route("GET", f"{PREFIX}/idps", routes.providers, 200, JSON, (), PAGED, TAGGED),
        Route("POST", f"{PREFIX}/idps", routes.add_provider, 200, JSON, body=ExtendedIdp),
        Route("PUT", f"{PREFIX}/idps/{{id}}", routes.edit_provider, 200, SuccessResponse, body=ExtendedIdp),
    ]


class _ExtensionRoutes:
    def __init__(self, operator_of: AdminOf, uploads: Uploads) -> None:
        self._operator_of = operator_of
        self._uploads = uploads

    async def preview(self, request: Request) -> Response:
        """Show the steps of installing a package now, without storing it."""
        admin = await self._operator_of(request)
        async with self._uploads.receive(request) as package:
            return _steps_response(await admin.preview(package))

    async def data(self, request: Request) -> Response:
        """The ids of the apps whose tables hold rows."""
        admin = await self._operator_of(request)
        return json_response({"data": sorted(await admin.apps_with_rows())})

    async def steps(self, request: Request, id: str, version: str) -> Response:
        """Show the steps of installing a stored version now."""
        admin = await self._operator_of(request)
        return _steps_response(await admin.steps(id, version))

    async def install(self, request: Request, id: str, version: str) -> Response:
        """Install a stored version; what may lose data is listed."""
        admin = await self._operator_of(request)
        body = await read_json(request, ExtendedInstall)
        await admin.install(id, version, body.allow_drops, body.steps())
        return done(f"{id} {version} is installed")

    async def identities(self, request: Request) -> Response:
        """Local users with roles and password marks."""
        admin = await self._operator_of(request)
        return data_response(request, await admin.identities(), by_creation, extended_identity_body)

    async def named_identities(self, request: Request, username: str) -> Response:
        """The local user of that name, in whatever case, as a list of at most one."""
        admin = await self._operator_of(request)
        return json_response({"data": [extended_identity_body(one) for one in await admin.identities(username)]})

    async def add_identity(self, request: Request) -> Response:
        """Create a local user, by password or hash."""
        admin = await self._operator_of(request)
        body = await read_json(request, ExtendedIdentityAdd)
        secret = body.secret()
        if secret is None:
            raise invalid("password", "is required, or password_hash")
        return json_response(extended_identity_body(await admin.add_identity(body.username, secret, grants_of(body.roles))))

    async def edit_identity(self, request: Request, username: str) -> Response:
        """Change a local user's password, roles, or both."""
        admin = await self._operator_of(request)
        body = await read_json(request, ExtendedIdentityEdit)
        secret = body.secret()
        if secret is not None:
            await admin.set_password(username, secret)
        if body.roles is not None:
            await admin.set_roles(username, grants_of(body.roles))
        return done(f"{username} is changed")

    async def providers(self, request: Request) -> Response:
        """External identity providers with default roles and secret marks."""
        admin = await self._operator_of(request)
        return data_response(request, await admin.identity_providers(), by_creation, extended_provider_body)

    async def add_provider(self, request: Request) -> Response:
        """Create an external identity provider."""
        admin = await self._operator_of(request)
        body = await read_json(request, ExtendedIdp)
        provider = await admin.add_identity_provider(body.settings(), body.secret() or Password())
        return json_response(extended_provider_body(provider))

    async def edit_provider(self, request: Request, id: str) -> Response:
        """Replace an external identity provider's settings; without client_secret the secret stays."""
        admin = await self._operator_of(request)
        body = await read_json(request, ExtendedIdp)
        await admin.edit_identity_provider(id, body.settings(), body.secret())
        return done(f"{id} is changed")


def _steps_response(steps: Sequence[MigrationStep]) -> Response:
    return json_response({"data": [step_body(step) for step in steps]})
