"""Environments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

from starlette.requests import Request
from starlette.responses import Response

from tenantry.api import tenancy
from tenantry.api.auth.authentication import SignedInUser
from tenantry.api.cloud.renaming import check_edit, edited
from tenantry.api.facade_context import FacadeContext
from tenantry.api.http.bodies import (
    CreateEnvironmentRequest,
    EditEnvironmentRequest,
    EditRequest,
    EnvironmentBody,
    EnvironmentCreatedResponse,
    OperationQueuedResponse,
    SlugCheckResponse,
)
from tenantry.api.reading.answers import list_answer, queued, row_answer, row_written
from tenantry.api.reading.body_cache import Row
from tenantry.api.reading.waiting import until
from tenantry.api.writing.preconditions import Marks, made_by
from tenantry.api.writing.queueing import deletion_of, queue, queue_change
from tenantry.api.writing.writes import WriteContext, check_slug, create_by_slug, edit, new_document, remove, signed
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.region.spec import Region
from tenantry.kinds.tenancy import sleeping_since
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.resource import WAKE_REQUESTED, Document, Ref, format_time
from tenantry.model.verdicts import Halt, Invalid, Transient
from tenantry.model.wording import counted
from tenantry.rest.bodies import invalid, json_response, parse_json, read_bytes, read_json
from tenantry.rest.routes import CONDITIONAL, PAGED, TAGGED, Query, Route
from tenantry.runtime.cache import Cache
from tenantry.runtime.operations.attribution import attribution_of
from tenantry.runtime.reconcile.revising import revise

NAMESPACE_WAIT_S = 10.0


OF_TENANT = Query("tenantId", "Only those of this tenant. An unknown or foreign one has none.")


class Environments:
    """GET, POST, PUT, DELETE /environments, their slug check, and what wakes one."""

    def __init__(self, context: FacadeContext) -> None:
        self._context = context

    def routes(self) -> Sequence[Route]:
        one = "/environments/{id}"
        writes = ("If-Match", "If-Plan", "Prefer")
        return [
            Route("GET", "/environments", self.list, 200, list[EnvironmentBody], (400, 500), (*PAGED, OF_TENANT), TAGGED),
            Route(
                "POST", "/environments", self.create, 202, EnvironmentCreatedResponse, (400, 403, 412, 500, 503),
                ("tenantId", "dryRun"), ("Idempotency-Key", "If-Plan", "Prefer"), CreateEnvironmentRequest,
            ),
            Route(
                "GET", "/environments/check-slug", self.check_slug, 200, SlugCheckResponse, (400,),
                ("slug!", "tenantId", "region"),
            ),
            Route("GET", one, self.get, 200, EnvironmentBody, (404,), (), TAGGED),
            Route(
                *("PUT", one, self.edit, 200, EnvironmentBody, CONDITIONAL),
                *(("dryRun",), ("If-Match", "If-Plan"), EditEnvironmentRequest),
            ),
            Route("DELETE", one, self.delete, 202, OperationQueuedResponse, CONDITIONAL, ("dryRun",), writes),
            Route(
                "POST", f"{one}/wake", self.wake, 202, OperationQueuedResponse, (400, 403, 404, 412), ("dryRun",),
                ("If-Plan", "Prefer"),
            ),
        ]  # fmt: skip

    async def list(self, request: Request) -> Response:
        """List the environments that the caller may see."""
        principal = await self._context.enter(request)
        scope = tenancy.environments(self._context, principal, request.query_params.get(OF_TENANT.name, ""))
        return list_answer(request, self._context.environments, scope)

    async def get(self, request: Request) -> Response:
        """Get one environment."""
        principal = await self._context.enter(request)
        return row_answer(request, tenancy.environment(self._context, principal, request.path_params["id"]))

    async def create(self, request: Request) -> Response:
        """Create an environment; its provisioning is queued."""
        context = self._context
        principal = await context.enter(request)
        principal.require_writer()
        raw = await read_bytes(request)
        body = parse_json(raw, CreateEnvironmentRequest)
        tenant = tenancy.chosen_tenant(context, principal, request)
        if tenant is None:
            raise invalid("tenantId", "is required")
        marks = context.marks(request, principal, raw)
        write = partial(self._create, principal=principal, tenant=tenant.metadata.name, body=body, marks=marks)
        document = await context.make(request, principal, write, f"environments/{tenant.metadata.name}")
        row = cast(Row, context.environments.row((document["metadata"]["namespace"], document["metadata"]["name"])))
        operation = await self._queue(document, principal, marks)
        if await context.wait_if_preferred(request, operation, document):
            row = context.environments.row(row.name) or row
        return queued(context.versions.headers(document), operation, f"environment {body.slug} is being created", row.body)

    async def check_slug(self, request: Request) -> Response:
        """Check a slug's format, and that it is free within the tenant."""
        principal = await self._context.enter(request)
        slug = request.query_params.get("slug", "")
        if not slug:
            raise invalid("slug", "is required")
        if principal.superuser and not request.query_params.get("tenantId"):
            raise invalid("tenantId", "is required")
        url = ""
        try:
            tenant = tenancy.chosen_tenant(self._context, principal, request)
            if tenant is not None:
                url = self._preview(request.query_params.get("region", ""), tenant, slug)
            check_slug(slug)
            if tenant is not None:
                _check_free(self._context.cache, tenant, slug)
        except Invalid as refusal:
            return json_response({"valid": False, "error": refusal.told, "url": ""})
        return json_response({"valid": True, "error": "", "url": url})

    async def edit(self, request: Request) -> Response:
        """Change an environment's name, slug, or both."""
        context = self._context
        principal = await context.enter(request)
        row = tenancy.environment(context, principal, request.path_params["id"])
        principal.require_writer()
        body = await read_json(request, EditEnvironmentRequest)
        write = partial(self._edit, request=request, row=row, principal=principal, body=body)
        before, after = await context.make(request, principal, write)
        changed = cast(Row, context.environments.row(row.name))
        if after is not before:
            await self._queue(after, principal)
        return row_written(changed, context.versions.headers(after))

    async def delete(self, request: Request) -> Response:
        """Delete an environment; its removal is queued."""
        context = self._context
        principal = await context.enter(request)
        row = tenancy.environment(context, principal, request.path_params["id"])
        principal.require_writer()
        write = partial(self._delete, request=request, row=row, principal=principal)
        environment = context.environment(row)
        document = await context.make(request, principal, write)
        operation = deletion_of(context.cache, environment.metadata.uid) or await self._queue(document, principal)
        await context.wait_if_preferred(request, operation, document)
        return queued(context.versions.headers(document), operation, f"environment {environment.wanted_slug} is being deleted")

    async def wake(self, request: Request) -> Response:
        """Wake the engine of an environment that sleeps; it is queued."""
        context = self._context
        principal = await context.enter(request)
        row = tenancy.environment(context, principal, request.path_params["id"])
        principal.require_writer()
        environment, asked = context.environment(row), format_time(context.facade.now())
        write = partial(self._wake, environment=environment, principal=principal, asked=asked)
        document = await context.make(request, principal, write)
        whose = attribution_of(environment, context.cache)
        operation = await queue(
            context.facade.store, environment, action="WAKE_ENVIRONMENT", cause=asked, attribution=whose, caller=principal.caller
        )
        await context.wait_if_preferred(request, operation, document)
        return queued(context.versions.headers(document), operation, f"environment {environment.wanted_slug} is being woken")

    async def _wake(self, writes: WriteContext, *, environment: Environment, principal: SignedInUser, asked: str) -> Document:
        def woken(current: Document) -> Document:
            found = Environment.model_validate(current)
            if found.deleting or not sleeping_since(found):
                raise invalid("", "the engine of the environment does not sleep")
            return signed(current, principal.caller, {WAKE_REQUESTED: asked})

        _, document = await revise(writes.store.as_(principal.caller), environment.ref, woken)
        return document

    async def _create(
        self, writes: WriteContext, *, principal: SignedInUser, tenant: str, body: CreateEnvironmentRequest, marks: Marks | None
    ) -> Document:
        made = made_by(writes.cache, Environment.KIND, marks, self._context.facade.now())
        if made is not None:
            return cast(Document, writes.cache.document(made.ref))
        check_slug(body.slug)
        owner = await _bound(writes.cache, tenant)
        _check_region(writes.cache, owner, body.region)
        _check_free(writes.cache, owner, body.slug)
        _check_quota(writes.cache, owner)
        spec = {"displayName": body.name, "slug": body.slug, "region": body.region}
        document = new_document(Environment, owner.bound_namespace, spec, principal.caller, marks)
        return await create_by_slug(writes.store.as_(principal.caller), document, body.slug)

    async def _edit(
        self, writes: WriteContext, *, request: Request, row: Row, principal: SignedInUser, body: EditRequest
    ) -> tuple[Document, Document]:
        def check(current: Document) -> None:
            environment = Environment.model_validate(current)

            def check_free(slug: str) -> None:
                owner = self._context.owners.of_namespace(environment.metadata.namespace)
                if owner is not None:
                    _check_free(writes.cache, owner, slug, but=environment.metadata.uid)

            check_edit(writes, current, environment, body, check_free)

        caller, ref = principal.caller, Ref(Environment.KIND, *row.name)
        store = writes.store.as_(caller)
        return await edit(writes.turns, store, request, ref, caller, lambda spec: edited(spec, body), check=check)

    async def _delete(self, writes: WriteContext, *, request: Request, row: Row, principal: SignedInUser) -> Document:
        def check(current: Document) -> None:
            writes.check_free(current)
            if current["spec"].get("deletionProtection"):
                raise invalid("", "the environment is protected: its spec.deletionProtection is true")

        store, ref = writes.store.as_(principal.caller), Ref(Environment.KIND, *row.name)
        return await remove(store, request, ref, principal.caller, check)

    async def _queue(self, document: Document, principal: SignedInUser, marks: Marks | None = None) -> str:
        environment = Environment.model_validate(document)
        fresh = environment.metadata.generation == 1 or environment.status.phase in (None, "PENDING")
        context = self._context
        return await queue_change(context.facade.store, context.cache, environment, principal.caller, fresh=fresh, marks=marks)

    def _preview(self, region: str, tenant: Tenant, slug: str) -> str:
        """`""` without a region: none can be built."""
        if not region:
            return ""
        _check_region(self._context.cache, tenant, region)
        return self._context.renderer.preview(region, tenant, slug)


async def _bound(cache: Cache, name: str) -> Tenant:
    """The tenant once its namespace is there. Raises Invalid while it is being deleted; answered 503 when it takes too long."""
    ref = Ref(Tenant.KIND, "", name)

    def ready() -> Tenant | None:
        tenant = cast("Tenant | None", cache.resource(ref))
        if tenant is None:
            raise invalid("tenantId", "no such tenant")
        if tenant.deleting:
            raise invalid("tenantId", "the tenant is being deleted")
        bound = tenant.bound_namespace
        there = bound != "" and cache.entry(Ref("Namespace", "", bound)) is not None
        return tenant if there else None

    tenant = await until(cache, ready, lambda seen: seen.ref.kind in (Tenant.KIND, "Namespace"), NAMESPACE_WAIT_S)
    if tenant is None:
        raise Halt(Transient("NamespaceMissing", f"the namespace of tenant {name} does not exist yet"))
    return tenant


def _check_region(cache: Cache, tenant: Tenant, name: str) -> None:
    region = cast("Region | None", cache.resource(Ref(Region.KIND, "", name)))
    if region is None or region.deleting or not region.allows(tenant.metadata.name, tenant.metadata.uid):
        raise invalid("region", "no such region")


def _check_free(cache: Cache, tenant: Tenant, slug: str, but: str = "") -> None:
    found = cache.resources(Environment.KIND, tenant.bound_namespace, f"slug={slug}")
    if any(one.metadata.uid != but for one in found):
        raise invalid("slug", f"{slug!r} is taken")


def _check_quota(cache: Cache, tenant: Tenant) -> None:
    quota = tenant.spec.quota.environments
    if quota is not None and cache.count(Environment.KIND, tenant.bound_namespace) >= quota:
        raise invalid("", f"the quota is reached: tenant {tenant.metadata.name} may have {counted(quota, 'environment')}")
