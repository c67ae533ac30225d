"""Package bytes that a client pushes for a Package that it declares."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response

from tenantry.api import tenancy
from tenantry.api.facade_context import FacadeContext
from tenantry.api.http.bodies import PackageBody
from tenantry.api.writing.writes import signed
from tenantry.kinds.package.spec import Package
from tenantry.kinds.signatures import LONGEST
from tenantry.model.declared import mark_of
from tenantry.model.facts import Caller, PackageFacts
from tenantry.model.resource import RECONCILE_REQUESTED, SYSTEM_NAMESPACE, Document, Ref, format_time
from tenantry.model.verdicts import NotFound
from tenantry.rest.bodies import invalid, json_response
from tenantry.rest.routes import Route
from tenantry.runtime.reconcile.revising import revise

SIGNATURE = "Tenantry-Signature"
_BYTES = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}, "required": True}


def _signature(request: Request) -> str:
    """Return the .minisig file of the header Tenantry-Signature, from base64. Raises Invalid."""
    try:
        text = base64.b64decode(request.headers.get(SIGNATURE, ""), validate=True).decode()
    except ValueError:
        raise invalid(SIGNATURE, "must be a .minisig file in base64") from None
    if len(text) > LONGEST:
        raise invalid(SIGNATURE, f"must have at most {LONGEST} characters")
    return text


class PackageBytes:
    """PUT /packages/{sha256}: what `tenantry package push` calls."""

    def __init__(self, context: FacadeContext) -> None:
        self._context = context

    def routes(self) -> Sequence[Route]:
        path, errors, query = "/packages/{sha256}", (400, 403, 412, 413, 500), ("tenantId", "dryRun")
        return [Route("PUT", path, self.put, 200, PackageBody, errors, query, ("If-Plan", SIGNATURE), _BYTES)]

    async def put(self, request: Request) -> Response:
        """Store the bytes of a package for a tenant; a SUPERUSER who names none stores them for all."""
        context = self._context
        principal = await context.enter(request)
        principal.require_writer()
        tenant = tenancy.chosen_tenant(context, principal, request)
        async with context.facade.uploads.body(request) as path:
            facts = await context.facade.inspect(path, principal.caller.tenant)
            if facts.sha256 != request.path_params["sha256"]:
                raise invalid("sha256", f"the bytes' own is {facts.sha256}")
            namespace = SYSTEM_NAMESPACE if tenant is None else tenant.bound_namespace
            waiting, signature = self._waiting(namespace, facts), _signature(request)
            if signature and not waiting:
                told = (
                    f"no Package of {facts.app} {facts.version} with these bytes is declared, so nothing can hold the signature"
                )
                raise invalid(SIGNATURE, f"{told}: declare it first")
            owner = tenant.metadata.name if tenant else ""
            await context.make(request, principal, lambda writes: writes.packages.put(owner, path, facts))
        for ref in waiting:
            await self._tell(ref, facts.sha256, signature, principal.caller)
        return json_response({"app": facts.app, "version": facts.version, "sha256": facts.sha256, "size": facts.size})

    def _waiting(self, namespace: str, facts: PackageFacts) -> list[Ref]:
        """The Packages of these bytes, and those that name no sha256 yet."""
        named = self._context.cache.names(Package.KIND, namespace, by=f"package={facts.app}@{facts.version}")
        found = ((ref, self._context.cache.document(ref)) for ref in [Ref(Package.KIND, *name) for name in named])
        return [ref for ref, document in found if document and document["spec"].get("sha256") in (None, facts.sha256)]

    async def _tell(self, ref: Ref, sha256: str, signature: str, caller: Caller) -> None:
        def told(current: Document) -> Document:
            if current["spec"].get("sha256") not in (None, sha256):
                return current
            filled_in = mark_of(Package.KIND, current["spec"])
            asked = signed(current, caller, {RECONCILE_REQUESTED: format_time(self._context.facade.now()), **filled_in})
            return asked | {"spec": {**current["spec"], "sha256": sha256} | ({"signature": signature} if signature else {})}

        with suppress(NotFound):
            await revise(self._context.facade.store.as_(caller), ref, told)
