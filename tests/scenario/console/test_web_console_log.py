"""C6: the log of an Operation of `tenantry up` with 100,000 lines, on its page, while the platform is killed again and again.

tests/cluster/test_console_log.py does the same on a cluster.
"""

from __future__ import annotations

import asyncio
import re
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.async_api import Page

from tenantry.adapters.store.state_folder import password_file
from tests.campaigns.scale import at_full
from tests.scenario.cli import serving
from tests.scenario.console.browser_place import browsing, declare_in, sign_in
from tests.support.patience import BUSY
from tests.support.ports import free_port

KILLS = at_full(10, otherwise=4)
LINES = 100_000
LONGEST_MS = 200
"""The gate of the design for a task of the browser."""
LIVE_MS = 90_000
WATCH_TASKS = """new PerformanceObserver((list) => {
    for (const each of list.getEntries()) console.log(`task ${each.duration}`);
}).observe({entryTypes: ["longtask"]});"""
pytestmark = pytest.mark.slow


class Log:
    """The stored log of an Operation, which replaces the short one of its status."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.lines = 0

    def grow(self, to: int) -> None:
        """Append lines."""
        with self._file.open("a") as file:
            file.writelines(f"2026-11-23T08:00:00Z INFO step {n} <b>of</b> many\n" for n in range(self.lines + 1, to + 1))
        self.lines = to


async def test_a_log_of_100_000_lines_is_whole_although_the_platform_is_killed(tmp_path: Path) -> None:
    source, listen, tasks = declare_in(tmp_path / "source", "0"), f"127.0.0.1:{free_port()}", list[float]()
    with ExitStack() as stack:
        running = stack.enter_context(serving("up", source, "--listen", listen, cwd=tmp_path))
        base = f"{running.url.replace('127.0.0.1', 'localhost')}/console/"
        async with browsing() as page:
            page.on("console", lambda message: tasks.append(float(message.text[5:])) if message.text[:5] == "task " else None)
            await page.add_init_script(WATCH_TASKS)
            await sign_in(page, f"{base}environments", password_file(tmp_path / ".tenantry"))
            await page.click("td.name a")
            await page.locator(".head .state.ready").wait_for(timeout=LIVE_MS)
            await page.click("a:text('CREATE_ENVIRONMENT')")
            await page.locator("[data-n]").first.wait_for()
            operation = page.url.rpartition("/")[2]
            log = Log(tmp_path / ".tenantry" / "packages" / "_texts" / operation)
            log.grow(LINES // 2)
            for turn in range(1, KILLS + 1):
                running.process.send_signal(signal.SIGKILL)
                await asyncio.to_thread(running.process.wait)
                log.grow(log.lines + LINES // 4 // KILLS)
                running = await asyncio.to_thread(stack.enter_context, serving("up", source, "--listen", listen, cwd=tmp_path))
                log.grow(LINES // 2 + turn * LINES // 2 // KILLS)
                declare_in(source, str(turn))  # a change of the cache, as each step of an Operation is one
                await page.locator(f"#log-{log.lines}").wait_for(state="attached", timeout=LIVE_MS)
            assert await numbers(page, base, operation) == list(range(1, LINES + 1))
    print(f"longest task: {max(tasks, default=0):.0f} ms of {len(tasks)} above 50 ms")
    assert max(tasks, default=0) <= LONGEST_MS * BUSY


async def numbers(page: Page, base: str, operation: str) -> list[int]:
    """The numbers of the lines on all pages of the log, from the newest back to the first."""
    found, address = list[int](), f"{base}operations/{operation}"
    while address:
        shown = await (await page.request.get(address)).text()
        found = [int(each) for each in re.findall(r'data-n="(\d+)"', shown)] + found
        older = re.search(r'id="older" href="[^"]*\?from=(\d+)', shown)
        address = f"{base}operations/{operation}?from={older[1]}" if older else ""
    return found
