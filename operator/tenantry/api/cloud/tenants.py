"""Tenants."""

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
    CreateTenantRequest,
    EditRequest,
    EditTenantRequest,
    OperationQueuedResponse,
    SlugCheckResponse,
    TenantBody,
)
from tenantry.api.reading.answers import list_answer, queued, row_answer, row_written
from tenantry.api.reading.body_cache import Row, Scope
from tenantry.api.writing.preconditions import Marks, made_by
from tenantry.api.writing.queueing import deletion_of, queue_change
from tenantry.api.writing.writes import WriteContext, check_slug, create_by_slug, edit, new_document, remove
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.resource import Document, Ref
from tenantry.model.verdicts import Invalid
from tenantry.rest.bodies import invalid, json_response, parse_json, read_bytes, read_json
from tenantry.rest.routes import CONDITIONAL, PAGED, TAGGED, Route
from tenantry.runtime.cache import Cache


class Tenants:
    """GET, POST, PUT, DELETE /tenants and their slug check: a SUPERUSER's."""

    def __init__(self, context: FacadeContext) -> None:
        self._context = context

    def routes(self) -> Sequence[Route]:
        one = "/tenants/{id}"
        routes = [
            Route("GET", "/tenants", self.list, 200, list[TenantBody], (400, 403, 500), PAGED, TAGGED),
            Route(
                "POST", "/tenants", self.create, 201, TenantBody, (400, 403, 412, 500), ("dryRun",),
                ("Idempotency-Key", "If-Plan"), CreateTenantRequest,
            ),
            Route("GET", "/tenants/check-slug", self.check_slug, 200, SlugCheckResponse, (400, 403), ("slug!",)),
            Route("GET", one, self.get, 200, TenantBody, (403, 404), (), TAGGED),
            Route("PUT", one, self.edit, 200, TenantBody, CONDITIONAL, ("dryRun",), ("If-Match", "If-Plan"), EditTenantRequest),
            Route(
                "DELETE", one, self.delete, 202, OperationQueuedResponse, CONDITIONAL, ("dryRun",),
                ("If-Match", "If-Plan", "Prefer"),
            ),
        ]  # fmt: skip
        return [route._replace(role="SUPERUSER") for route in routes]

    async def list(self, request: Request) -> Response:
        """List the tenants."""
        await self._context.enter_superuser(request)
        return list_answer(request, self._context.tenants, Scope())

    async def get(self, request: Request) -> Response:
        """Get one tenant."""
        await self._context.enter_superuser(request)
        return row_answer(request, tenancy.tenant(self._context, request.path_params["id"]))

    async def create(self, request: Request) -> Response:
        """Create a tenant."""
        context = self._context
        principal = await context.enter_superuser(request)
        raw = await read_bytes(request)
        body = parse_json(raw, CreateTenantRequest)
        marks = context.marks(request, principal, raw)
        write = partial(self._create, principal=principal, body=body, marks=marks)
        document = await context.make(request, principal, write, "tenants")
        row = cast(Row, context.tenants.row(("", document["metadata"]["name"])))
        context.follow(principal, self._queue(document, principal, marks))
        return row_written(row, context.versions.headers(document), 201)

    async def check_slug(self, request: Request) -> Response:
        """Check a slug's format, and that it is free."""
        await self._context.enter_superuser(request)
        slug = request.query_params.get("slug", "")
        if not slug:
            raise invalid("slug", "is required")
        error = ""
        try:
            check_slug(slug)
            _check_free(self._context.cache, slug)
        except Invalid as refusal:
            error = refusal.told
        return json_response({"valid": not error, "error": error, "url": ""})

    async def edit(self, request: Request) -> Response:
        """Change a tenant's name, slug, or both."""
        context = self._context
        principal = await context.enter_superuser(request)
        row = tenancy.tenant(context, request.path_params["id"])
        body = await read_json(request, EditTenantRequest)
        write = partial(self._edit, request=request, row=row, principal=principal, body=body)
        before, after = await context.make(request, principal, write)
        changed = cast(Row, context.tenants.row(row.name))
        if after is not before:
            await self._queue(after, principal)
        return row_written(changed, context.versions.headers(after))

    async def delete(self, request: Request) -> Response:
        """Delete a tenant with all its environments; the removal is queued."""
        context = self._context
        principal = await context.enter_superuser(request)
        row = tenancy.tenant(context, request.path_params["id"])
        write = partial(self._delete, request=request, row=row, principal=principal)
        tenant = context.tenant(row)
        document = await context.make(request, principal, write)
        operation = deletion_of(context.cache, tenant.metadata.uid) or await self._queue(document, principal)
        await context.wait_if_preferred(request, operation, document)
        return queued(context.versions.headers(document), operation, f"tenant {tenant.wanted_slug} is being deleted")

    async def _create(
        self, writes: WriteContext, *, principal: SignedInUser, body: CreateTenantRequest, marks: Marks | None
    ) -> Document:
        made = made_by(writes.cache, Tenant.KIND, marks, self._context.facade.now())
        if made is not None:
            return cast(Document, writes.cache.document(made.ref))
        check_slug(body.slug)
        _check_free(writes.cache, body.slug)
        spec = {"displayName": body.name, "slug": body.slug}
        document = new_document(Tenant, "", spec, principal.caller, marks)
        return await create_by_slug(writes.store, document, body.slug)

    async def _edit(
        self, writes: WriteContext, *, request: Request, row: Row, principal: SignedInUser, body: EditRequest
    ) -> tuple[Document, Document]:
        def check(current: Document) -> None:
            tenant = Tenant.model_validate(current)
            check_edit(writes, current, tenant, body, lambda slug: _check_free(writes.cache, slug, but=tenant.metadata.uid))

        caller, ref = principal.caller, Ref(Tenant.KIND, *row.name)
        return await edit(writes.turns, writes.store, request, ref, caller, lambda spec: edited(spec, body), check=check)

    async def _delete(self, writes: WriteContext, *, request: Request, row: Row, principal: SignedInUser) -> Document:
        def check(current: Document) -> None:
            writes.check_free(current)
            _check_unprotected(writes.cache, Tenant.model_validate(current))

        return await remove(writes.store, request, Ref(Tenant.KIND, *row.name), principal.caller, check)

    async def _queue(self, document: Document, principal: SignedInUser, marks: Marks | None = None) -> str:
        tenant = Tenant.model_validate(document)
        fresh = tenant.metadata.generation == 1 or tenant.status.phase is None
        context = self._context
        return await queue_change(context.facade.store, context.cache, tenant, principal.caller, fresh=fresh, marks=marks)


def _check_free(cache: Cache, slug: str, but: str = "") -> None:
    if any(one.metadata.uid != but for one in cache.resources(Tenant.KIND, by=f"slug={slug}")):
        raise invalid("slug", f"{slug!r} is taken")


def _check_unprotected(cache: Cache, tenant: Tenant) -> None:
    """Neither the tenant nor one of its environments may be protected: a deletion cannot be taken back."""
    if tenant.spec.deletion_protection:
        raise invalid("", "the tenant is protected: its spec.deletionProtection is true")
    bound = tenant.bound_namespace
    for one in cache.resources(Environment.KIND, bound) if bound else ():
        environment = cast(Environment, one)
        if environment.spec.deletion_protection and not environment.deleting:
            raise invalid("", f"environment {environment.wanted_slug} is protected: its spec.deletionProtection is true")
