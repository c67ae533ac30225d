"""Packages that a person publishes from a page: their facts, and the REST call that stores and installs them."""

from __future__ import annotations

import asyncio
import tempfile
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.engine.admin import EngineAdmins
from tenantry.api.facade_context import FacadeContext
from tenantry.kinds.environment.spec import Environment
from tenantry.model.facts import PackageFacts
from tenantry.rest.bodies import invalid
from tenantry.rest.engine.routes import engine_routes

LARGEST = 2 << 20
"""Bytes of a package that a page takes: the browser sends it twice, for the plan and for its confirmation."""


def uploaded(content: bytes) -> tuple[bytes, str]:
    """Return the body of a request that uploads a package, and its media type."""
    boundary = uuid4().hex
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="package.tapp"\r\n\r\n'
    return head.encode() + content + f"\r\n--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


class PackagePublishing:
    """POST /engines/{environmentId}/api/v1/admin/apps/publish, for a package that is in memory."""

    def __init__(self, context: FacadeContext) -> None:
        self._context = context
        routes = engine_routes(EngineAdmins(context).of, context.facade.uploads)
        self._publish = next(route.endpoint for route in routes if route.path == "/admin/apps/publish")

    async def publish(self, request: Request) -> Response:
        """Store and install the package. Raises PlanAnswered for a dry run, and the refusals of REST."""
        answer: Response = await self._publish(request)
        return answer

    async def facts(self, environment: Environment, content: bytes) -> PackageFacts:
        """Return what a package declares. Raises Invalid for what is no package, and for one that is too large."""
        if not content:
            raise invalid("file", "choose the file of a package")
        if len(content) > LARGEST:
            raise invalid("file", f"is larger than {LARGEST >> 20} MiB; use `tenantry package push FILE`")
        facade = self._context.facade
        owner = self._context.owners.of_namespace(environment.metadata.namespace)
        with tempfile.NamedTemporaryFile("wb", 0, prefix="shown-", dir=facade.uploads.folder) as file:
            await asyncio.to_thread(file.write, content)
            return await facade.inspect(facade.uploads.folder / file.name, owner.metadata.name if owner is not None else "")
