"""/docs/api/: the OpenAPI description as a page, by Swagger UI. Nothing is loaded from elsewhere."""

from __future__ import annotations

from html import escape
from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from tenantry.rest.assets import Assets
from tenantry.rest.docs.document import finished
from tenantry.rest.docs.page_headers import PAGE_HEADERS
from tenantry.rest.release import release_label

PATH = "/docs/api"
SWAGGER_UI_VERSION = "5.35.0"
VENDORED = {
    "swagger-ui-5.35.0.js": "e6a898692f2d768e807c3ba4626068a69a2c5dd960dd6c76f3e4d3a3de180af2",
    "swagger-ui-5.35.0.css": "5ed08757e53da3e026d6cbecc61fe5d43585c9560b302d534ad56692519a273d",
}
"""The sha256 of swagger-ui-bundle.js and swagger-ui.css of the npm package swagger-ui-dist (Apache-2.0) at that version."""
ASSETS = Assets("tenantry.rest.docs", (*VENDORED, "api.js", "api.css"), f"{PATH}/static")
_API_HEADERS = PAGE_HEADERS | {
    # Swagger UI styles elements by attributes, and its style sheet holds pictures.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}


def serve_api_page(app: FastAPI) -> None:
    """Add GET /docs/api/. Make /openapi.json tell what really is answered: `{"error": ...}`, never 422."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = finished(get_openapi(title=app.title, version=release_label(), routes=app.routes))
        return app.openapi_schema

    async def page(request: Request) -> Response:
        return HTMLResponse(api_page(app.openapi(), request.scope.get("root_path", "")), headers=_API_HEADERS)

    async def start(request: Request) -> Response:
        return RedirectResponse(f"{request.scope.get('root_path', '')}{PATH}/", 307)

    async def file(request: Request) -> Response:
        return ASSETS.answer(request.path_params["name"], request.path_params["version"])

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to change the description
    app.add_api_route(f"{PATH}/", page, include_in_schema=False)
    app.add_api_route(PATH, start, include_in_schema=False)
    app.add_api_route(f"{PATH}/static/{{version}}/{{name}}", file, include_in_schema=False, response_model=None)


def api_page(schema: dict[str, Any], root: str) -> str:
    """The HTML page. root: the path below which the application is reached, `""` for none.

    The description stands in the page, so that it is also shown where pages run in a sandbox and can fetch nothing.
    """
    title = escape(f"{schema['info']['title']} {schema['info']['version']}")
    served = {**schema, "servers": [{"url": root or "/"}]}
    # `<` would end the element that holds the text.
    description = orjson.dumps(served).decode().replace("<", "\\u003c")
    files = {name: escape(root + address) for name, address in ASSETS.addresses.items()}
    styles = "".join(f'<link rel="stylesheet" href="{files[name]}">' for name in files if name.endswith(".css"))
    scripts = "".join(f'<script src="{files[name]}" defer></script>' for name in files if name.endswith(".js"))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<title>{title}</title><link rel="icon" href="data:,">{styles}<header><h1>{title}</h1><p>The same as a file: '
        f'<a href="{escape(root)}/openapi.json">openapi.json</a>. '
        "Every error is <code>{&quot;error&quot;: &quot;...&quot;}</code>.</p><h2>Operations</h2></header>"
        '<div id="api"><noscript><main>Scripts are off: read openapi.json.</main></noscript></div>'
        f'<script type="application/json" id="description">{description}</script>{scripts}</html>'
    )
