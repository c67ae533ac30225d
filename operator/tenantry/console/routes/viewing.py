"""The page of an app's rows."""

from __future__ import annotations

from typing import cast

from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.platform.app_rows import AppRows, AskedRows
from tenantry.console.reading.rights import Rights, find
from tenantry.console.routes.shell import PageShell
from tenantry.console.texts import TEXTS
from tenantry.console.views.data import rows_page
from tenantry.kinds.app.spec import App


class Viewing:
    """GET shows the rows of a table."""

    def __init__(self, shell: PageShell) -> None:
        self._rows = AppRows(shell.context)
        self._shell = shell

    async def show(self, request: Request) -> Response:
        """Show a page of rows. Raises Forbidden for who does not administer the environment, NotFound."""
        principal = await self._shell.sessions.principal(request)
        self._rows.check(principal)
        app = cast(App, find(self._shell.cache, Rights.of(principal), App.KIND, request.path_params["id"]))
        asked = AskedRows.of(request.query_params)
        shown = await self._rows.shown(principal, app, asked)
        title, values = f"{TEXTS['rows']} {app.metadata.name}", rows_page(app, asked, shown)
        return self._shell.still(request, principal, title, App.PLURAL, "rows.html", values, shown.status)
