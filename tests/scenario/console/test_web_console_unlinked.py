"""C10 and C11 on pages to which no link leads: refusals, pages of objects that went, old data, and confirmations that moved."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import ConsoleMessage, Page

from tests.scenario.console.accessibility import violations
from tests.scenario.console.browser_place import Place, place_in
from tests.scenario.console.declared_crm import BASE, declare, environment, source_of

LIVE_MS = 90_000
DISMISSED = "Failed to load resource: the server responded with a status of"
"""The beginning of the browser's message about an answer that is no success."""
pytestmark = pytest.mark.slow


def beyond_loopback(place: Place) -> str:
    """The address of the platform by a name for which browsers ask this machine, and which the console does not know."""
    return place.base.replace("localhost", "platform.localhost")


async def at_a_host_without_tls(place: Place) -> None:
    await place.page.goto(f"{beyond_loopback(place)}/console/environments")
    await place.page.get_by_text("Sign-in is off at this address").wait_for()


async def no_such_file(place: Place) -> None:
    await place.page.goto(f"{place.base}/console/static/none/console.css")
    await place.page.get_by_role("heading", name="Not found").wait_for()


async def a_code_that_was_used(place: Place) -> None:
    await place.page.goto(f"{place.base}/console/enter?code=used")
    await place.page.get_by_role("alert").wait_for()


async def a_sign_in_that_nobody_began(place: Place) -> None:
    await place.page.goto(f"{place.base}/console/callback?code=a&state=b")
    await place.page.get_by_role("alert").wait_for()


async def a_wrong_password(place: Place) -> None:
    await place.page.goto(f"{place.base}/console/sign-in")
    await place.page.fill("#username", "admin")
    await place.page.fill("#password", "wrong")
    await place.page.click("button.main")
    await place.page.get_by_role("alert").wait_for()


async def a_form_of_another_session(place: Place) -> None:
    await place.page.goto(f"{place.base}/console/regions/new")
    await place.page.goto(f"{place.base}/console/tenants/new")
    await place.page.locator("main input[name=csrf]").evaluate("field => { field.value = '0'; }")
    await place.page.click("text=Show the plan")
    await place.page.get_by_role("heading", name="Refused").wait_for()


async def a_deletion_that_moved(place: Place) -> None:
    await place.page.goto(f"{place.base}/console/tenants/new")
    for field, value in (("name", "Globex"), ("slug", "globex")):
        await place.page.fill(f"#{field}", value)
    await place.page.click("text=Show the plan")
    await place.page.click("button:text('Create')")
    await place.page.get_by_role("heading", name="Globex").wait_for()
    await place.page.click("a:text('Delete')")
    for field, value in (("plan", "0" * 64), ("lines", "- Environment/tenant-globex/gone")):
        await place.page.locator(f"main input[name={field}]").evaluate("(field, value) => { field.value = value; }", value)
    await place.page.fill("#name", "globex")
    await place.page.click("button.danger")
    await place.page.get_by_text("Changed since you looked").wait_for()


async def an_object_that_went(place: Place) -> None:
    await place.page.goto(f"{place.base}/console/environments")
    await place.page.click("td.name a:text('DEV')")
    await place.page.locator(".head .state.ready").wait_for(timeout=LIVE_MS)
    declare(place, *(each for each in BASE if each != environment("dev") and each["metadata"]["name"] != "dev.crm"))
    await place.page.get_by_role("heading", name="Not found").wait_for(timeout=LIVE_MS)


async def an_environment_to_undelete(place: Place) -> None:
    await place.page.goto(f"{place.base}/console/removed")
    await place.page.click("td a:text('Undelete')")
    await place.page.get_by_role("heading", name="Undelete").wait_for()


async def old_data(place: Place) -> None:
    await place.page.goto(f"{place.base}/console/environments")
    folder = place.source.parent
    await asyncio.to_thread((folder / ".tenantry" / "state.db").rename, folder / "away.db")
    await place.page.locator("#old").wait_for(timeout=LIVE_MS)


async def no_such_backup(place: Place) -> None:
    await place.page.goto(f"{place.base}/console/removed/none")
    await place.page.get_by_role("heading", name="Not found").wait_for()


Step = Callable[[Place], Awaitable[None]]
OUTSIDE: tuple[Step, ...] = (
    at_a_host_without_tls, no_such_file, a_code_that_was_used, a_sign_in_that_nobody_began, a_wrong_password,
)  # fmt: skip
"""Pages for people without a session."""
INSIDE: tuple[Step, ...] = (
    a_form_of_another_session, a_deletion_that_moved, an_object_that_went, an_environment_to_undelete, no_such_backup,
    old_data,
)  # fmt: skip


@asynccontextmanager
async def watching(page: Page) -> AsyncIterator[list[str]]:
    """Collect the errors that the browser reports, except that a page itself is a refusal."""
    errors = list[str]()

    def reported(message: ConsoleMessage) -> None:
        refused = message.text.startswith(DISMISSED) and urlsplit(message.location["url"]).path == urlsplit(page.url).path
        if message.type in ("error", "warning") and not refused:
            errors.append(f"{page.url}: {message.text} {message.location['url']}")

    page.on("console", reported)
    yield errors


async def looked_at(place: Place, steps: tuple[Step, ...]) -> list[tuple[Any, ...]]:
    """The findings of axe on the page to which each step leads."""
    found = list[tuple[Any, ...]]()
    for step in steps:
        await step(place)
        found += [(step.__name__, *each) for each in await violations(place.page)]
    return found


async def test_pages_without_a_session_are_accessible_and_cause_no_errors(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place, watching(place.page) as errors:
        found = await looked_at(place, OUTSIDE)
    assert (found, errors) == ([], [])


async def test_pages_to_which_no_link_leads_are_accessible_and_cause_no_errors(tmp_path: Path) -> None:
    async with place_in(tmp_path, source_of(tmp_path / "declared")) as place, watching(place.page) as errors:
        await place.enter()
        await place.page.get_by_role("heading", name="1 needs you").wait_for(timeout=LIVE_MS)
        found = await looked_at(place, INSIDE)
    assert (found, errors) == ([], [])
