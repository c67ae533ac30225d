"""/: where a browser goes first. It shows the console if there is one, otherwise a small page that names no tenant."""

from __future__ import annotations

from html import escape

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from tenantry.rest.apps.plain import PlainApp
from tenantry.rest.docs.page_headers import PAGE_HEADERS
from tenantry.rest.release import release_label

_STYLE = "body{font:15px/1.5 system-ui,sans-serif;max-width:40rem;margin:2rem auto;padding:0 1rem;color:#1c2733}"
_LINKS = {
    "docs/": "the documentation of this version",
    "docs/api/": "every endpoint of the REST interfaces",
    "openapi.json": "the same as OpenAPI",
    "readyz": "the state of the platform",
}
"""Paths that answer everybody, and what is there."""


def serve_home(app: PlainApp, console: str = "") -> None:
    """Add GET /. console: the path of the pages that browsers are sent to."""

    async def home(request: Request) -> Response:
        if console and "text/html" in request.headers.get("accept", ""):
            return Response(status_code=303, headers={"Location": console, "Vary": "Accept"})
        page = home_page(f"{app.title} {release_label()}", request.scope.get("root_path", ""))
        return HTMLResponse(page, headers=PAGE_HEADERS)

    app.serve("GET", "/", home)


def home_page(title: str, root: str) -> str:
    """The HTML page. root: the path below which the application is reached, `""` for none."""
    links = (f'<li><a href="{escape(f"{root}/{path}")}">{escape(f"{root}/{path}")}</a>: {text}' for path, text in _LINKS.items())
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
        f"<h1>{escape(title)}</h1><p>The platform answers here. It shows tenants, environments and the addresses of their "
        f"engines to those who sign in.<ul>{''.join(links)}</ul>"
        "<p>On the command line, <code>tenantry get environments</code> lists the engines that you may see.</html>"
    )
