"""A browser whose pages come without their security policy: only how a text was written decides whether it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from playwright.async_api import Dialog, Page, Route

from tests.scenario.console.browser_place import browsing
from tests.scenario.console.console_world import BASE

LEFT_OUT = ("content-security-policy", "content-encoding", "content-length")
"""Headers: the policy, and what is no longer true of the decoded body."""
COUNTED = "document.querySelectorAll('#canary, [onerror], img[src=x]').length"
AGAIN = """address => htmx.ajax("GET", address, {target: "#page", swap: "innerMorph"})"""


@asynccontextmanager
async def unguarded(browser: httpx.AsyncClient) -> AsyncIterator[tuple[Page, list[str]]]:
    """A page of a browser that shows what that client gets, and the messages of the dialogs that scripts have opened."""
    opened = list[str]()

    async def answer(route: Route) -> None:
        asked = route.request
        if "/console/live?" in asked.url and "once=" not in asked.url:
            await route.abort()  # a stream does not end
            return
        answered = await browser.get(asked.url)
        headers = {name: value for name, value in answered.headers.items() if name not in LEFT_OUT}
        await route.fulfill(status=answered.status_code, headers=headers, body=answered.content)

    async def note(dialog: Dialog) -> None:
        opened.append(dialog.message)
        await dialog.dismiss()

    async with browsing() as page:
        await page.route("**/*", answer)
        page.on("dialog", note)
        yield page, opened


async def shown(page: Page, path: str) -> list[str]:
    """Show a page of the console, then swap its content as a live update does. Returns what of it became markup."""
    answer = await page.goto(f"{BASE}/console{path}")
    assert answer is not None, path
    assert answer.status == 200, path
    found = [f"{path}: loaded"] * await page.evaluate(COUNTED)
    await page.evaluate(AGAIN, f"{BASE}/console/live?of={path}&once=1&seen=none")
    return found + [f"{path}: swapped"] * await page.evaluate(COUNTED)
