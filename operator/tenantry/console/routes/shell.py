"""The frame of every page, and the page of a refusal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlsplit

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.auth.authentication import SignedInUser
from tenantry.api.facade_context import FacadeContext
from tenantry.console.http.assets import ASSETS
from tenantry.console.http.origins import at_localhost, safe
from tenantry.console.http.pages import Fragment, page, redirect, rendered
from tenantry.console.http.sessions import BASE, Sessions
from tenantry.console.reading.rights import TYPES, Rights
from tenantry.console.routes.screens import HEALTH, Screen, Screens
from tenantry.console.texts import TEXTS, kind_words
from tenantry.model.resource import Document, ref_of
from tenantry.model.verdicts import Halt, Unauthorized
from tenantry.rest.problems import explanation_of, reason_to_explain, status_of

Endpoint = Callable[[Request], Awaitable[Response]]


class PageShell:
    """Puts contents into pages."""

    def __init__(self, context: FacadeContext, sessions: Sessions, screens: Screens) -> None:
        self.context = context
        self.cache = context.cache
        self.sessions = sessions
        self.screens = screens

    def still(
        self, request: Request, principal: SignedInUser, title: str, here: str, template: str, values: Mapping[str, Any],
        status: int = 200,
    ) -> Response:  # fmt: skip
        """A page that does not follow the cache: a form, a plan. It gets the session's token and the time."""
        shared = {"csrf": self.sessions.csrf(request), "now": self.context.facade.now(), "help": explanation_of(status, "")}
        screen = Screen(title, here, Fragment.of(rendered(template, {**values, **shared})))
        return self.whole(request, principal, screen, status, live=False)

    def whole(
        self, request: Request, principal: SignedInUser, screen: Screen, status: int = 200, *, live: bool = True
    ) -> Response:
        """A page for a signed-in user. live: it follows the cache."""
        rights = Rights.of(principal)
        query = f"?{request.url.query}" if request.url.query else ""
        values = {
            "title": screen.title,
            "here": screen.here,
            "content": Markup(screen.content if live else self.screens.old_banner() + screen.content),  # noqa: S704 - made by the templates, which escape
            "navigation": [
                *([(HEALTH, TEXTS["health"])] if rights.superuser else []),
                *([("plan", TEXTS["plans"])] if rights.writes else []),
                *((TYPES[kind].PLURAL, kind_words(kind)[1]) for kind in rights.kinds),
            ],
            "username": principal.caller.username,
            "role": principal.caller.role,
            "csrf": self.sessions.csrf(request),
            "live": f"{BASE}/live?of={quote(request.url.path.removeprefix(BASE) + query, safe='')}&seen={screen.fragment.digest}"
            if live
            else "",
            "assets": ASSETS.addresses,
        }
        return page("layout.html", values, status, request.headers.get("accept-encoding", ""))

    def places(self, documents: Iterable[Document]) -> list[str]:
        """The places of the commits that writes of these documents make, each a new object or one that is there."""
        held = [(self.cache.document(ref_of(each)), each) for each in documents]
        writers = self.context.facade.writers
        return sorted({writers.place_of(now or each, new=now is None) for now, each in held} - {""})

    def plain(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        """A page for anybody."""
        return page(template, {"assets": ASSETS.addresses, **values}, status, request.headers.get("accept-encoding", ""))

    def guarded(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint, with a page for each refusal, and only at an address where a session is safe."""

        async def guarded(request: Request) -> Response:
            if elsewhere := at_localhost(request):
                return Response(status_code=307, headers={"Location": elsewhere})
            if not safe(request):
                return self.plain(request, "not_here.html", HTTPStatus.FORBIDDEN, title=TEXTS["not_here"])
            return await endpoint(request)

        return self.answering(guarded)

    def answering(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint, with a page for each refusal, at every address: for the files that pages load, not_here.html too."""

        async def answering(request: Request) -> Response:
            try:
                return await endpoint(request)
            except Unauthorized:
                return redirect(f"{BASE}/sign-in?next={quote(_page_of(request), safe='')}")
            except Halt as halt:
                return self.refusal(request, halt)

        return answering

    def refusal(self, request: Request, halt: Halt) -> Response:
        """The page of an error: what REST would say."""
        status = status_of(halt, conditional=False)
        title = {404: TEXTS["not_found"], 403: TEXTS["refused"]}.get(status, TEXTS["failed"])
        help_ = explanation_of(status, reason_to_explain(halt))
        return self.plain(request, "error.html", status, title=title, code=status, message=halt.told, help=help_)


def refused(halt: Halt) -> tuple[str, int]:
    """The message of a refusal and its HTTP status. Raises Unauthorized again: it leads to the sign-in."""
    if isinstance(halt, Unauthorized):
        raise halt
    return halt.told, status_of(halt, conditional=True)


def _page_of(request: Request) -> str:
    """The page that the browser shows, also when that page has just sent a form or asked for its news."""
    visited = request.method == "GET" and request.headers.get("sec-fetch-mode", "navigate") == "navigate"
    try:
        shown = urlsplit(str(request.url) if visited else request.headers.get("referer", ""))
    except ValueError:  # no page: a browser sends none that is malformed
        return ""
    return f"{shown.path}?{shown.query}" if shown.query else shown.path
