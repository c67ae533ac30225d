"""/docs/: the documentation of the running version. `make docs` builds it, and the package holds it."""

from __future__ import annotations

import json
import os
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from tenantry.rest.docs.api_page import PATH
from tenantry.rest.docs.page_headers import PAGE_HEADERS

SITE = Path(str(files("tenantry"))) / "site"
INLINE = "inline.json"
"""The hashes of the scripts that stand in the pages."""
_MISSING = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Documentation</title><h1>Documentation</h1>'
    "<p>This copy of Tenantry was installed without its documentation. Run <code>make docs</code> in the repository, or "
    f'read the folder <code>docs</code> there. <a href="{PATH}/">The description of REST</a> is always here.</html>'
)


def serve_site(app: FastAPI, folder: Path = SITE) -> None:
    """Add GET /docs/. Add it after the routes below /docs: it takes the other paths."""

    async def start(request: Request) -> Response:
        return RedirectResponse(f"{request.scope.get('root_path', '')}/docs/", 307)

    async def missing(request: Request) -> Response:
        return HTMLResponse(_MISSING, 404, PAGE_HEADERS)

    app.add_api_route("/docs", start, include_in_schema=False)
    if (folder / INLINE).exists():
        app.mount("/docs", _Site(folder))
    else:
        app.add_api_route("/docs/", missing, include_in_schema=False)


class _Site(StaticFiles):
    """The files of the built site. A path that is not a file of it shows the site's own page for that."""

    def __init__(self, folder: Path) -> None:
        super().__init__(directory=folder, html=True)
        scripts = " ".join(f"'{each}'" for each in json.loads((folder / INLINE).read_text("utf-8")))
        self._headers = {
            "Content-Security-Policy": (
                f"default-src 'none'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
                "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
            ),
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-cache",
        }

    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """A file, with the policy of the site's pages."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers.update(self._headers)
        return response
