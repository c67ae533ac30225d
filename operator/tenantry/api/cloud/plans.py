"""Plans of whole sources: what `tenantry plan SOURCE` asks where the platform runs elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.bodies import SourcePlanResponse
from tenantry.api.front import Front
from tenantry.api.routes import Route
from tenantry.model.verdicts import Forbidden
from tenantry.rest.bodies import json_response
from tenantry.rest.plan_bundle import MEDIA_TYPE
from tenantry.runtime.planned import Planned

_BUNDLE = {
    "description": "A zip, not compressed: source.json (name, commit, documents: file, line, document), packages/SHA256.tapp.",
    "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
    "required": True,
}


class Plans:
    """POST /plans."""

    def __init__(self, front: Front) -> None:
        self._front = front

    def routes(self) -> Sequence[Route]:
        return [Route("POST", "/plans", self.make, 200, SourcePlanResponse, (400, 403, 413, 500), body=_BUNDLE)]

    async def make(self, request: Request) -> Response:
        """Tell what applying a source would do, and do nothing. Of an ADMIN: in its tenant alone."""
        front = self._front
        principal = await front.enter(request)
        principal.require_writer()
        if not principal.superuser and not principal.namespace:
            raise Forbidden("your tenant has no namespace yet")
        namespace = "" if principal.superuser else principal.namespace
        async with front.facade.uploads.body(request) as file, front.turn("plans"):
            planned = await front.facade.plan_bundle(file, principal.caller, namespace)
        return json_response(_body(planned))


def _body(planned: Planned) -> dict[str, Any]:
    kept = [{"object": str(each.held.ref), "reason": each.reason, "approvable": each.approvable} for each in planned.kept]
    steps = [step._asdict() for step in planned.steps]
    return {**planned.to_json(), "problems": list(planned.problems), "kept": kept, "steps": steps}
