"""Serves tables of routes by Starlette. FastAPI describes them: it is imported when somebody asks for the description.

Engines and the facade answer their users without FastAPI, whose modules and models of routes take 8 MiB.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from inspect import Parameter, signature
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from tenantry.rest.apps.methods import EveryMethod
from tenantry.rest.problems import answer_problems
from tenantry.rest.routes import Endpoint, RouteTable, strict, truth
from tenantry.rest.traces.requests import traced_requests

if TYPE_CHECKING:
    from fastapi import FastAPI

DESCRIPTIONS = ("/openapi.json", "/docs", "/docs/{below:path}")


class PlainApp(Starlette):
    """An application of tables, with `outer` around all of Starlette's middleware: what that answers is spared the rest."""

    def __init__(self, title: str, tables: Iterable[RouteTable], outer: Callable[[ASGIApp], ASGIApp]) -> None:
        super().__init__()
        self.router.redirect_slashes = False
        self.title = title
        self._outer = outer
        self._tables = tuple(tables)
        self._description: FastAPI | None = None
        for path in DESCRIPTIONS:
            self.router.routes.append(StarletteRoute(path, _Described(self)))
        for table in self._tables:
            for route in table.routes:
                self.serve(route.method, table.at + route.path, route.endpoint, route.parameters)
        answer_problems(self)

    def serve(self, method: str, path: str, endpoint: Endpoint, known: frozenset[str] | None = None) -> None:
        """Add a route that no description names. The endpoint takes the request, and what its signature names besides.

        known: its query parameters; None takes any.
        """
        route = StarletteRoute(path, _parsing(endpoint, known), methods=[method], include_in_schema=False)
        route.methods = {method}  # without the HEAD that Starlette adds: the endpoint does not expect it
        self.router.routes.append(route)

    def delegate(self, path: str, app: ASGIApp) -> None:
        """Leave a path, with every method, to an application that is no function."""
        self.router.routes.append(StarletteRoute(path, app, include_in_schema=False))

    def build_middleware_stack(self) -> ASGIApp:
        """Return the application with all that is around it."""
        return traced_requests(self._outer(EveryMethod(super().build_middleware_stack(), self.router.routes)))

    def description(self) -> FastAPI:
        """Return the application that answers DESCRIPTIONS. Blocks for 0.3 s at the first call."""
        if self._description is None:
            from tenantry.rest.apps.described import described

            self._description = described(self.title, self._tables)
        return self._description


class _Described:
    def __init__(self, app: PlainApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        description = await asyncio.to_thread(self._app.description)
        await description({**scope, "path_params": {}}, receive, send)


def _parsing(endpoint: Endpoint, known: frozenset[str] | None) -> Callable[[Request], object]:
    """Return the endpoint for a request alone: parameters of its path are texts, and those with a default are flags."""
    _, *named = signature(endpoint).parameters.values()
    flags = {each.name: each.default for each in named if each.default is not Parameter.empty}
    parts = [each.name for each in named if each.name not in flags]

    async def answer(request: Request) -> Response:
        given = {name: truth(request, name, default) for name, default in flags.items()}
        return await endpoint(request, **{name: request.path_params[name] for name in parts}, **given)

    return strict(answer, known)
