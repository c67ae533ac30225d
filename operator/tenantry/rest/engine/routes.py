"""The engine management interface, written once over EngineAdmin, for the engine itself and for the facade."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from tenantry.model.facts import EngineIdentityProvider, Password
from tenantry.model.verdicts import NotFound
from tenantry.ports import EngineAdmin
from tenantry.rest.bodies import json_response, read_json, tagged_response
from tenantry.rest.engine.bodies import (
    AppListWrapper,
    ExternalIdpAddRequest,
    ExternalIdpEditRequest,
    ExternalIdpListWrapper,
    ExternalIdpResponse,
    IdentityAddRequest,
    IdentityEditRequest,
    IdentityListWrapper,
    IdentityResponse,
    SuccessResponse,
    app_body,
    grants_of,
    identity_body,
    provider_body,
)
from tenantry.rest.files import file_response
from tenantry.rest.paging import Key, page_of
from tenantry.rest.routes import FILE, PAGED, TAGGED, UPLOAD, Route
from tenantry.rest.uploads import Uploads

AdminOf = Callable[[Request], Awaitable[EngineAdmin]]
"""Return the handler of a request, authenticated and authorised (`request.method` reveals a write). Raises a Halt."""
T = TypeVar("T")


def engine_routes(admin_of: AdminOf, uploads: Uploads) -> list[Route]:
    """Every route of the interface, without the prefix /api/v1."""
    routes = _EngineRoutes(admin_of, uploads)
    apps = [
        Route("GET", "/admin/apps", routes.list_apps, 200, AppListWrapper, (), PAGED, TAGGED),
        Route("POST", "/admin/apps/publish", routes.publish, 200, SuccessResponse, body=UPLOAD),
        Route("POST", "/admin/apps/upload", routes.upload, 200, SuccessResponse, body=UPLOAD),
        Route("POST", "/admin/apps/{id}/drop-data", routes.drop_data, 200, SuccessResponse),
        Route("POST", "/admin/apps/{id}/install/{version}", routes.install, 200, SuccessResponse),
        Route("POST", "/admin/apps/{id}/uninstall", routes.uninstall, 200, SuccessResponse),
        Route("DELETE", "/admin/apps/{id}/{version}", routes.delete_version, 200, SuccessResponse),
        Route("GET", "/admin/apps/{id}/download/{version}", routes.download, 200, FILE),
        Route("GET", "/admin/apps/{id}/versions/{version}/download/app", routes.download_app, 200, FILE),
        Route("GET", "/admin/apps/{id}/versions/{version}/download/sym", routes.download_sym, 200, FILE),
    ]
    identities = [
        Route("GET", "/admin/identities", routes.list_identities, 200, IdentityListWrapper, (), PAGED, TAGGED),
        Route("POST", "/admin/identities", routes.add_identity, 200, IdentityResponse, body=IdentityAddRequest),
        Route("PUT", "/admin/identities/{username}", routes.edit_identity, 200, SuccessResponse, body=IdentityEditRequest),
        Route("DELETE", "/admin/identities/{username}", routes.delete_identity, 200, SuccessResponse),
    ]
    providers = [
        Route("GET", "/admin/idps/external", routes.list_providers, 200, ExternalIdpListWrapper, (), PAGED, TAGGED),
        Route("POST", "/admin/idps/external", routes.add_provider, 200, ExternalIdpResponse, body=ExternalIdpAddRequest),
        Route("PUT", "/admin/idps/external/{id}", routes.edit_provider, 200, SuccessResponse, body=ExternalIdpEditRequest),
        Route("DELETE", "/admin/idps/external/{id}", routes.delete_provider, 200, SuccessResponse),
    ]
    return [*apps, *identities, *providers]


def data_response(request: Request, items: Sequence[T], key: Callable[[T], Key], body: Callable[[T], dict[str, Any]]) -> Response:
    """`{data: [...]}` of the page that the request asks for, ordered by `key`."""
    page = page_of(request, sorted(items, key=key), key)
    return tagged_response(request, {"data": [body(item) for item in page.items]}, page.link)


def done(message: str) -> Response:
    """SuccessResponse."""
    return json_response({"message": message, "success": True})


async def provider_with(admin: EngineAdmin, id_: str) -> EngineIdentityProvider:
    """The provider with that id. Raises NotFound."""
    found = next((provider for provider in await admin.identity_providers() if provider.id == id_), None)
    if found is None:
        raise NotFound(f"no identity provider with id {id_}")
    return found


class _EngineRoutes:
    def __init__(self, admin_of: AdminOf, uploads: Uploads) -> None:
        self._admin_of = admin_of
        self._uploads = uploads

    async def list_apps(self, request: Request) -> Response:
        """List the applications."""
        admin = await self._admin_of(request)
        return data_response(request, await admin.apps(), lambda app: (app.id,), app_body)

    async def publish(self, request: Request, allow_drops: bool = False) -> Response:
        """Store a package and install it."""
        admin = await self._admin_of(request)
        async with self._uploads.receive(request) as package:
            facts = await admin.publish(package, allow_drops)
        return done(f"{facts.app} {facts.version} is published")

    async def upload(self, request: Request) -> Response:
        """Store a package."""
        admin = await self._admin_of(request)
        async with self._uploads.receive(request) as package:
            facts = await admin.upload(package)
        return done(f"{facts.app} {facts.version} is stored")

    async def drop_data(self, request: Request, id: str) -> Response:
        """Drop the tables of an application that is not installed."""
        await (await self._admin_of(request)).drop_data(id)
        return done(f"the data of {id} is dropped")

    async def install(self, request: Request, id: str, version: str, allow_drops: bool = False) -> Response:
        """Install a stored version."""
        await (await self._admin_of(request)).install(id, version, allow_drops)
        return done(f"{id} {version} is installed")

    async def uninstall(self, request: Request, id: str) -> Response:
        """Deactivate the installed version."""
        await (await self._admin_of(request)).uninstall(id)
        return done(f"{id} is uninstalled")

    async def delete_version(self, request: Request, id: str, version: str) -> Response:
        """Remove a stored version."""
        await (await self._admin_of(request)).delete_version(id, version)
        return done(f"{id} {version} is deleted")

    async def download(self, request: Request, id: str, version: str) -> Response:
        """Download a package (stable channel)."""
        admin = await self._admin_of(request)
        return await file_response(request, await admin.download(id, version))

    async def download_app(self, request: Request, id: str, version: str) -> Response:
        """Download a package (insider channel)."""
        return await self.download(request, id, version)

    async def download_sym(self, request: Request, id: str, version: str) -> Response:
        """Download the symbol file of a version (insider channel)."""
        admin = await self._admin_of(request)
        return await file_response(request, await admin.symbols(id, version))

    async def list_identities(self, request: Request) -> Response:
        """List the local users."""
        admin = await self._admin_of(request)
        return data_response(request, await admin.identities(), by_creation, identity_body)

    async def add_identity(self, request: Request) -> Response:
        """Create a local user."""
        admin = await self._admin_of(request)
        body = await read_json(request, IdentityAddRequest)
        identity = await admin.add_identity(body.username, Password(clear=body.password), grants_of(body.roles))
        return json_response(identity_body(identity))

    async def edit_identity(self, request: Request, username: str) -> Response:
        """Change a local user's password."""
        admin = await self._admin_of(request)
        body = await read_json(request, IdentityEditRequest)
        await admin.set_password(username, Password(clear=body.password))
        return done(f"the password of {username} is changed")

    async def delete_identity(self, request: Request, username: str) -> Response:
        """Delete a local user."""
        await (await self._admin_of(request)).delete_identity(username)
        return done(f"{username} is deleted")

    async def list_providers(self, request: Request) -> Response:
        """List the external identity providers."""
        admin = await self._admin_of(request)
        return data_response(request, await admin.identity_providers(), by_creation, provider_body)

    async def add_provider(self, request: Request) -> Response:
        """Create an external identity provider."""
        admin = await self._admin_of(request)
        body = await read_json(request, ExternalIdpAddRequest)
        secret = Password(clear=body.client_secret or "")
        return json_response(provider_body(await admin.add_identity_provider(body.settings(), secret)))

    async def edit_provider(self, request: Request, id: str) -> Response:
        """Edit an external identity provider; what is left out stays."""
        admin = await self._admin_of(request)
        current = await provider_with(admin, id)
        body = await read_json(request, ExternalIdpEditRequest)
        secret = None if body.client_secret is None else Password(clear=body.client_secret)
        await admin.edit_identity_provider(id, body.over(current.settings), secret)
        return done(f"{id} is changed")

    async def delete_provider(self, request: Request, id: str) -> Response:
        """Delete an external identity provider."""
        await (await self._admin_of(request)).delete_identity_provider(id)
        return done(f"{id} is deleted")


def by_creation(item: Any) -> Key:
    """The order of identities and providers."""
    return (item.created_at.isoformat(), item.id)
