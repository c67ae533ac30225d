"""Plans of whole sources: what `tenantry plan SOURCE` asks where the platform runs elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.facade_context import FacadeContext
from tenantry.api.http.bodies import SourcePlanResponse
from tenantry.model.verdicts import Forbidden
from tenantry.rest.bodies import json_response
from tenantry.rest.fairness.long_steps import off_the_loop
from tenantry.rest.plan_bundle import MEDIA_TYPE
from tenantry.rest.routes import Route
from tenantry.runtime.planning.planned import Planned

_BUNDLE = {
    "description": "A zip, not compressed: packages/SHA256.tapp, and source.json: name, commit, history (the commits that lead "
    "to it; without them a rewritten history is assumed), passed_over (the number of documents of other API groups, which stay "
    "there), documents (file, line, document).",
    "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
    "required": True,
}


class Plans:
    """POST /plans."""

    def __init__(self, context: FacadeContext) -> None:
        self._context = context

    def routes(self) -> Sequence[Route]:
        return [Route("POST", "/plans", self.make, 200, SourcePlanResponse, (400, 403, 413, 500), body=_BUNDLE)]

    async def make(self, request: Request) -> Response:
        """Tell what applying a source would do, and do nothing. Of an ADMIN: in its tenant alone."""
        context = self._context
        principal = await context.enter(request)
        principal.require_writer()
        if not principal.superuser and not principal.namespace:
            raise Forbidden("your tenant has no namespace yet")
        namespace = "" if principal.superuser else principal.namespace
        async with context.facade.uploads.body(request) as file:
            work = partial(context.facade.plan_bundle, file, principal.caller, namespace)
            planned = await context.plan(request, principal, work)
        return await off_the_loop(planned.size, lambda: json_response(_body(planned)))


def _body(planned: Planned) -> dict[str, Any]:
    kept = [{"object": str(each.held.ref), "reason": each.reason, "approvable": each.approvable} for each in planned.kept]
    steps = [step._asdict() for step in planned.steps]
    said = {"problems": list(planned.problems), "kept": kept, "steps": steps, "passed_over": planned.passed_over}
    return planned.to_json() | said
