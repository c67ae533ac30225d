"""C6: the log of an Operation on its page, with 100,000 lines and an api that is killed ten times.

It prints the longest task of the browser, which the load of the machine decides as well.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from playwright.async_api import Page

from tests.cluster.charting import NAMESPACE
from tests.cluster.consoles import LIVE_MS, console, signed_in
from tests.cluster.running import Kube, Platform, kept, object_

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]
KILLS = 10
LINES = 100_000
WATCH_TASKS = """new PerformanceObserver((list) => {
    for (const each of list.getEntries()) console.log(`task ${each.duration}`);
}).observe({entryTypes: ["longtask"]});"""


class Log:
    """The stored log of an Operation that goes on. The operator writes its end into the status as well."""

    def __init__(self, kube: Kube, operation: str, file: Path) -> None:
        self._kube = kube
        self._operation = operation
        self._file = file
        self._lines = 0

    def grow(self, count: int) -> None:
        """Append lines."""
        added = [
            f"2026-11-23T08:00:00Z INFO step {number} <b>of</b> many"
            for number in range(self._lines + 1, self._lines + count + 1)
        ]
        self._lines += count
        with self._file.open("a") as file:
            file.writelines(f"{line}\n" for line in added)
        status = json.dumps({"status": {"logs": "\n".join(added[-20:]) + "\n"}})
        where = ("-n", NAMESPACE, "--type=merge")
        self._kube("patch", "operation", self._operation, *where, "-p", status)


async def numbers_of(page: Page) -> list[int]:
    return [int(each) for each in await page.locator("[data-n]").evaluate_all("all => all.map(one => one.dataset.n)")]


async def test_a_log_of_100_000_lines_is_whole_although_the_api_is_killed_ten_times(
    appearing: Platform, kube: Kube, tmp_path: Path
) -> None:
    with kept(appearing):
        await asyncio.to_thread(kube.apply, object_("Tenant", "logging", displayName="Logging"))
        await asyncio.to_thread(kube.ready, "tenant/logging")
    operations = kube.get("operations", namespace=NAMESPACE)
    operation = next(each["metadata"]["name"] for each in operations if each["spec"]["target"]["name"] == "logging")
    replica, tasks = appearing.replica(tmp_path), list[float]()
    texts = tmp_path / "blobs" / "_texts"
    texts.mkdir(parents=True)
    log = Log(kube, operation, texts / operation)
    await asyncio.to_thread(log.grow, LINES // 2)
    running = replica.api()
    await asyncio.to_thread(running.__enter__)
    try:
        async with signed_in(replica, kube, f"operations/{operation}") as page:
            page.on(
                "console", lambda message: tasks.append(float(message.text[5:])) if message.text.startswith("task ") else None
            )
            await page.context.add_init_script(WATCH_TASKS)
            await page.reload()
            for turn in range(1, KILLS + 1):
                await asyncio.to_thread(os.kill, replica.pids["api"], signal.SIGKILL)
                await asyncio.to_thread(running.__exit__, None, None, None)
                await asyncio.to_thread(log.grow, LINES // 4 // KILLS)
                running = replica.api()
                await asyncio.to_thread(running.__enter__)
                await asyncio.to_thread(log.grow, LINES // 4 // KILLS)
                last = LINES // 2 + turn * LINES // 2 // KILLS
                await page.locator(f"#log-{last}").wait_for(state="attached", timeout=LIVE_MS)
            found = await numbers_of(page)
            while await page.locator("#older").count():
                await page.goto(f"{console(replica).removesuffix('/console/')}{await page.get_attribute('#older', 'href')}")
                found = await numbers_of(page) + found
            assert found == list(range(1, LINES + 1))
            print(f"longest task: {max(tasks, default=0):.0f} ms of {len(tasks)} above 50 ms")
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)
