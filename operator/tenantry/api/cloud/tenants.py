"""Tenants."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

from starlette.requests import Request
from starlette.responses import Response

from tenantry.api import tenancy
from tenantry.api.answers import list_answer, queued, row_answer, row_written
from tenantry.api.authentication import Principal
from tenantry.api.bodies import CreateTenantRequest, EditRequest, OperationQueuedResponse, SlugCheckResponse, TenantBody
from tenantry.api.cloud.environments import edited
from tenantry.api.fragments import Row, Scope
from tenantry.api.front import Front
from tenantry.api.preconditions import Marks, made_by
from tenantry.api.queueing import deletion_of, queue
from tenantry.api.routes import CONDITIONAL, PAGED, TAGGED, Route
from tenantry.api.writes import Desk, check_slug, create_by_slug, edit, new_document, remove
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.resource import Document, Ref
from tenantry.model.verdicts import Invalid
from tenantry.rest.bodies import invalid, json_response, parse_json, read_bytes, read_json
from tenantry.runtime.attribution import attribution_of
from tenantry.runtime.cache import Cache
from tenantry.runtime.operations import DELETION


class Tenants:
    """GET, POST, PUT, DELETE /tenants and their slug check: a SUPERUSER's."""

    def __init__(self, front: Front) -> None:
        self._front = front

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
            Route("PUT", one, self.edit, 200, TenantBody, CONDITIONAL, ("dryRun",), ("If-Match", "If-Plan"), EditRequest),
            Route(
                "DELETE", one, self.delete, 202, OperationQueuedResponse, CONDITIONAL, ("dryRun",),
                ("If-Match", "If-Plan", "Prefer"),
            ),
        ]  # fmt: skip
        return [route._replace(role="SUPERUSER") for route in routes]

    async def list(self, request: Request) -> Response:
        """List the tenants."""
        await self._front.enter_superuser(request)
        return list_answer(request, self._front.tenants, Scope())

    async def get(self, request: Request) -> Response:
        """Get one tenant."""
        await self._front.enter_superuser(request)
        return row_answer(request, tenancy.tenant(self._front, request.path_params["id"]))

    async def create(self, request: Request) -> Response:
        """Create a tenant."""
        front = self._front
        principal = await front.enter_superuser(request)
        raw = await read_bytes(request)
        body = parse_json(raw, CreateTenantRequest)
        marks = front.marks(request, principal, raw)
        write = partial(self._create, principal=principal, body=body, marks=marks)
        if (plan := await front.planned(request, principal, write)) is not None:
            return plan
        async with front.turn("tenants"):
            document = await write(front.desk)
        row = cast(Row, front.tenants.row(("", document["metadata"]["name"])))
        front.follow(principal, self._queue(document, principal, marks))
        return row_written(row, front.versions.headers(document), 201)

    async def check_slug(self, request: Request) -> Response:
        """Check a slug's format, and that it is free."""
        await self._front.enter_superuser(request)
        slug = request.query_params.get("slug", "")
        if not slug:
            raise invalid("slug", "is required")
        error = ""
        try:
            check_slug(slug)
            _check_free(self._front.cache, slug)
        except Invalid as refusal:
            error = refusal.verdict.message
        return json_response({"valid": not error, "error": error, "url": ""})

    async def edit(self, request: Request) -> Response:
        """Change a tenant's name, slug, or both."""
        front = self._front
        principal = await front.enter_superuser(request)
        row = tenancy.tenant(front, request.path_params["id"])
        body = await read_json(request, EditRequest)
        write = partial(self._edit, request=request, row=row, principal=principal, body=body)
        if (plan := await front.planned(request, principal, write)) is not None:
            return plan
        before, after = await write(front.desk)
        changed = cast(Row, front.tenants.row(row.name))
        if after is not before:
            await self._queue(after, principal)
        return row_written(changed, front.versions.headers(after))

    async def delete(self, request: Request) -> Response:
        """Delete a tenant with all its environments; the removal is queued."""
        front = self._front
        principal = await front.enter_superuser(request)
        row = tenancy.tenant(front, request.path_params["id"])
        write = partial(self._delete, request=request, row=row, principal=principal)
        if (plan := await front.planned(request, principal, write)) is not None:
            return plan
        tenant = front.tenant(row)
        document = await write(front.desk)
        operation = deletion_of(front.cache, tenant.metadata.uid) or await self._queue(document, principal)
        await front.wait_if_preferred(request, operation, document)
        return queued(front.versions.headers(document), operation, f"tenant {tenant.wanted_slug} is being deleted")

    async def _create(self, desk: Desk, *, principal: Principal, body: CreateTenantRequest, marks: Marks | None) -> Document:
        made = made_by(desk.cache, Tenant.KIND, marks, self._front.facade.now())
        if made is not None:
            return cast(Document, desk.cache.document(made.ref))
        check_slug(body.slug)
        _check_free(desk.cache, body.slug)
        spec = {"displayName": body.name, "slug": body.slug}
        document = new_document(Tenant, "", spec, principal.caller, marks)
        return await create_by_slug(desk.store, document, body.slug)

    async def _edit(
        self, desk: Desk, *, request: Request, row: Row, principal: Principal, body: EditRequest
    ) -> tuple[Document, Document]:
        ref = Ref(Tenant.KIND, *row.name)
        document = await desk.store.get(ref)
        desk.check_free(document)
        tenant = Tenant.model_validate(document)
        if tenant.deleting:
            raise invalid("", "the tenant is being deleted")
        if body.slug is not None and body.slug != tenant.wanted_slug:
            check_slug(body.slug)
            _check_free(desk.cache, body.slug, but=tenant.metadata.uid)
        return await edit(desk.turns, desk.store, request, ref, principal.caller, lambda spec: edited(spec, body))

    async def _delete(self, desk: Desk, *, request: Request, row: Row, principal: Principal) -> Document:
        ref = Ref(Tenant.KIND, *row.name)
        document = await desk.store.get(ref)
        if not document["metadata"].get("deletionTimestamp"):
            desk.check_free(document)
            _check_unprotected(desk.cache, Tenant.model_validate(document))
        return await remove(desk.store, request, ref, principal.caller)

    async def _queue(self, document: Document, principal: Principal, marks: Marks | None = None) -> str:
        tenant = Tenant.model_validate(document)
        fresh = tenant.metadata.generation == 1 or tenant.status.phase is None
        action, cause = ("CREATE_TENANT" if fresh else "UPDATE_TENANT"), str(tenant.metadata.generation)
        if tenant.deleting:
            action, cause = "DELETE_TENANT", DELETION
        elif marks is not None:
            action, cause = "CREATE_TENANT", "1"  # a repeated POST may find it changed
        whose = attribution_of(tenant, self._front.cache)
        store, caller = self._front.facade.store, principal.caller
        return await queue(store, tenant, action=action, cause=cause, attribution=whose, caller=caller, marks=marks)


def _check_free(cache: Cache, slug: str, but: str = "") -> None:
    if any(one.metadata.uid != but for one in cache.resources(Tenant.KIND, by=f"slug={slug}")):
        raise invalid("slug", f"{slug!r} is taken")


def _check_unprotected(cache: Cache, tenant: Tenant) -> None:
    """Neither the tenant nor one of its environments may be protected: a deletion cannot be taken back."""
    if tenant.spec.deletion_protection:
        raise invalid("", "the tenant is protected: its spec.deletionProtection is true")
    bound = tenant.status.namespace
    for one in cache.resources(Environment.KIND, bound.name) if bound is not None else ():
        environment = cast(Environment, one)
        if environment.spec.deletion_protection and not environment.deleting:
            raise invalid("", f"environment {environment.wanted_slug} is protected: its spec.deletionProtection is true")
