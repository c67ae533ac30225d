"""The engine management interface of one environment, over the store: reads from the cache, writes by declaring."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from tenantry.api import tenancy
from tenantry.api.engine.apps import Apps
from tenantry.api.engine.identities import Identities
from tenantry.api.engine.providers import Providers
from tenantry.api.engine.site import PlanAnswered, Site
from tenantry.api.front import Front
from tenantry.model.facts import (
    EngineApp,
    EngineIdentity,
    EngineIdentityProvider,
    IdentityProviderSettings,
    MigrationStep,
    PackageFacts,
    Password,
)
from tenantry.ports import Download, EngineAdmin
from tenantry.rest.bodies import invalid

READS = frozenset({"GET", "HEAD"})


class EngineAdmins:
    """Who answers a request to /engines/{environmentId}."""

    def __init__(self, front: Front) -> None:
        self._front = front

    async def of(self, request: Request) -> EngineAdmin:
        """The environment's. Raises Unauthorized, NotFound, Forbidden, Invalid (it is being deleted), in this order."""
        front = self._front
        principal = await front.enter(request)
        row = tenancy.environment(front, principal, request.path_params["environmentId"])
        environment = front.environment(row)
        if request.method not in READS:
            principal.require_writer()
            if environment.deleting:
                raise invalid("", "the environment is being deleted")
        tenant = front.owners.of_namespace(environment.metadata.namespace)
        if tenant is None:
            raise invalid("", "the environment's namespace belongs to no tenant")
        return StoreEngineAdmin(Site(front, request, principal, environment, tenant))


class StoreEngineAdmin:
    """ports.EngineAdmin over App, Package, Identity and IdentityProvider resources."""

    def __init__(self, site: Site) -> None:
        self._apps = Apps(site)
        self._identities = Identities(site)
        self._providers = Providers(site)

    async def apps(self) -> tuple[EngineApp, ...]:
        return self._apps.list()

    async def apps_with_rows(self) -> frozenset[str]:
        return await self._apps.with_rows()

    async def steps(self, app: str, version: str) -> tuple[MigrationStep, ...]:
        return await self._apps.steps(app, version)

    async def preview(self, package: Path) -> tuple[MigrationStep, ...]:
        return await self._apps.preview(package)

    async def upload(self, package: Path) -> PackageFacts:
        return await self._apps.take(package, install=False, allow_drops=False)

    async def publish(self, package: Path, allow_drops: bool = False) -> PackageFacts:
        return await self._apps.take(package, install=True, allow_drops=allow_drops)

    async def install(
        self, app: str, version: str, allow_drops: bool = False, listed: Sequence[MigrationStep] | None = None
    ) -> None:
        await self._apps.install(app, version, allow_drops)

    async def uninstall(self, app: str) -> None:
        await self._apps.uninstall(app)

    async def drop_data(self, app: str) -> None:
        await self._apps.drop_data(app)

    async def delete_version(self, app: str, version: str) -> None:
        await self._apps.delete_version(app, version)

    async def download(self, app: str, version: str) -> Download:
        return await self._apps.download(app, version)

    async def symbols(self, app: str, version: str) -> Download:
        return await self._apps.symbols(app, version)

    async def identities(self) -> tuple[EngineIdentity, ...]:
        return self._identities.list()

    async def add_identity(self, username: str, password: Password, roles: Sequence[tuple[str, str]] = ()) -> EngineIdentity:
        return await self._identities.add(username, password, roles)

    async def set_password(self, username: str, password: Password) -> None:
        await self._identities.set_password(username, password)

    async def set_roles(self, username: str, roles: Sequence[tuple[str, str]]) -> None:
        await self._identities.set_roles(username, roles)

    async def delete_identity(self, username: str) -> None:
        await self._identities.delete(username)

    async def identity_providers(self) -> tuple[EngineIdentityProvider, ...]:
        return self._providers.list()

    async def add_identity_provider(self, settings: IdentityProviderSettings, client_secret: Password) -> EngineIdentityProvider:
        return await self._providers.add(settings, client_secret)

    async def edit_identity_provider(self, id_: str, settings: IdentityProviderSettings, client_secret: Password | None) -> None:
        await self._providers.edit(id_, settings, client_secret)

    async def delete_identity_provider(self, id_: str) -> None:
        await self._providers.delete(id_)


async def _plan(request: Request, error: Exception) -> Response:
    assert isinstance(error, PlanAnswered)
    return error.response


def answer_plans(app: FastAPI) -> None:
    """Answers `?dryRun=true` of an engine write with its plan."""
    app.add_exception_handler(PlanAnswered, _plan)
