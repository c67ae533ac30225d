"""The console of `tenantry up`: its pages are imported and made once REST answers, which does not wait for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from tenantry.rest.apps.later import LaterApp

if TYPE_CHECKING:
    from tenantry.api.auth.one_time_codes import OneTimeCodes
    from tenantry.api.facade_context import FacadeContext
    from tenantry.rest.apps.plain import PlainApp

PAGES = ("tenantry.console.app",)
PATHS = ("/console", "/console/{below:path}")


def add_later_console(app: PlainApp, context: FacadeContext, codes: OneTimeCodes) -> LaterApp:
    """Add the pages to an application. Return their own, which is made when it is first needed."""

    def make() -> ASGIApp:
        from tenantry.console.app import add_console
        from tenantry.rest.apps.plain import PlainApp

        pages = PlainApp("Console", (), lambda inner: inner)
        add_console(pages, context, codes)
        return pages

    later = LaterApp(PAGES, make, _filled, context.facade.ready, context.facade.requests.count)
    for path in PATHS:
        app.delegate(path, later)
    return later


async def _filled() -> None:
    """The facade has read what is stored before it leaves a request to the pages."""
