"""Changes that say when the platform acts on an object: reconcile, suspend, resume, approve.

REST has no routes for them. They are made as its edits are: by the facade's writes, with a plan, in the caller's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.auth.authentication import SignedInUser
from tenantry.api.facade_context import FacadeContext
from tenantry.api.writing.writes import WriteContext, signed
from tenantry.kinds.registry import OF_TENANTS
from tenantry.kinds.source.spec import Source
from tenantry.model import resource as words
from tenantry.model.resource import Document, Resource, format_time
from tenantry.model.verdicts import NotFound
from tenantry.rest.bodies import invalid, json_response
from tenantry.runtime.reconcile.revising import revise

RECONCILE, SUSPEND, RESUME, APPROVE = "reconcile", "suspend", "resume", "approve"


class ReconcileControls:
    """The writes, as endpoints."""

    def __init__(self, context: FacadeContext) -> None:
        self._context = context

    async def change(self, request: Request, *, found: Resource[Any, Any], verb: str) -> Response:
        """Make one of the changes. found: an object that the caller sees.

        Raises PlanAnswered, NotFound, Forbidden, Invalid, Conflict.
        """
        context = self._context
        principal = await context.enter(request)
        principal.require_writer()
        if found.KIND not in OF_TENANTS:
            principal.require_superuser()
        await context.make(request, principal, partial(self._write, principal=principal, found=found, verb=verb))
        return json_response({})

    async def _write(self, writes: WriteContext, *, principal: SignedInUser, found: Resource[Any, Any], verb: str) -> None:
        def changed(current: Document) -> Document:
            metadata = current["metadata"]
            if metadata["uid"] != found.metadata.uid:
                raise NotFound(f"no {found.KIND} with id {found.metadata.uid}")
            if verb in (SUSPEND, RESUME):
                if metadata.get("deletionTimestamp"):
                    raise invalid("", f"{found.KIND} {found.metadata.name} is being deleted")
                writes.check_free(current)
            annotations, spec = self._made(current, found, verb)
            after = signed({**current, "spec": spec}, principal.caller)
            kept = {name: value for name, value in (after["metadata"]["annotations"] | annotations).items() if value is not None}
            return {**after, "metadata": {**after["metadata"], "annotations": kept}}

        store = writes.store.as_(principal.caller) if found.KIND in OF_TENANTS else writes.store
        await revise(store, found.ref, changed)

    def _made(self, current: Document, found: Resource[Any, Any], verb: str) -> tuple[Mapping[str, str | None], Document]:
        """The annotations of a change, None for one that goes, and the spec."""
        spec = dict(current.get("spec") or {})
        match verb:
            case "reconcile":
                return {words.RECONCILE_REQUESTED: format_time(self._context.facade.now())}, spec
            case "approve":
                approval = found.status.approval if isinstance(found, Source) else None
                if not approval:
                    raise invalid("", "nothing in it waits for approval")
                return {words.PRUNE_APPROVED: approval}, spec
        if "suspend" in type(found.spec).model_fields:
            return {words.SUSPEND: None}, {**spec, "suspend": verb == SUSPEND}
        return {words.SUSPEND: "true" if verb == SUSPEND else None}, spec
