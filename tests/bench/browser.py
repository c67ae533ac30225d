"""C1 and C3: pages of the console in chromium, from the request until a person can use them: at most a second."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

from playwright import async_api as playwright

from tenantry.cli.clients.issuing import issuer
from tenantry.cli.processes.serving import loop_factory
from tests.bench.row import Row, Scale, Took, interleaved, row, stopwatch
from tests.bench.served import TENANT, Served, platform
from tests.scenario.console.browser_place import CHROMIUM
from tests.scenario.rest_world import declare, declare_user
from tests.support.built_programs import MissingProgram

ENVIRONMENTS, INSIDE, CHILDREN = 10_000, 500, 10
USABLE_S = 1.0
GATE = 3.0
NODES = 2_000
"""Objects of a tree that are drawn, at most."""


class Visit(NamedTuple):
    """A page to visit. usable: a part that a person can use; drawn: the nodes that are counted."""

    id: str
    words: str
    path: str
    usable: str
    drawn: str = ""


def measure(scale: Scale) -> Sequence[Row]:
    """The fleet and the list of many environments, and the tree of a tenant with many objects."""
    if CHROMIUM is None:
        raise MissingProgram("chromium: apt-get install chromium")
    many, inside = scale.of(ENVIRONMENTS), scale.of(INSIDE)
    listed = f"{many:,} environments"
    visits = [
        Visit("C1", f"fleet usable in chromium, {listed}", "", "#q"),
        Visit("C1", f"list usable in chromium, {listed}", "environments", "#q"),
    ]
    rows = _measured(scale, "C1", many, 0, visits)
    tree = f"{inside:,} environments and {inside * CHILDREN:,} objects in them"
    tenant = Visit("C3", f"tenant usable in chromium, {tree}", "tenants/{tenant}", ".tree a", ".tree li")
    return [*rows, *_measured(scale, "C3", inside, CHILDREN, [tenant])]


def _measured(scale: Scale, folder: str, environments: int, children: int, visits: Sequence[Visit]) -> list[Row]:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        stack = AsyncExitStack()
        try:
            entered = stack.enter_async_context(platform(scale.folder / folder, environments))
            served: Served = runner.run(entered)
            page = runner.run(_page(stack, served, environments, children))
            return [_row(scale, runner, served, page, visit) for visit in visits]
        finally:
            runner.run(stack.aclose())


async def _page(stack: AsyncExitStack, served: Served, environments: int, children: int) -> playwright.Page:
    """A page of a browser that a SUPERUSER has signed in with. The objects inside of the environments are there."""
    await declare_user(served.platform, "root", "SUPERUSER")
    for number in range(environments):
        for child in range(children):
            spec: dict[str, Any] = {"environment": f"env-{number}", "app": f"app{child}"}
            await declare(served.platform, "App", f"env-{number}.app{child}", spec, f"tenant-{TENANT}")
    await served.platform.converged()
    token = await issuer(served.platform)("root", timedelta(hours=1))
    started = await stack.enter_async_context(playwright.async_playwright())
    browser = await started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
    stack.push_async_callback(browser.close)
    context = await browser.new_context()
    cookie = {"name": f"tenantry-console-{served.port}", "value": token, "url": f"http://localhost:{served.port}/console"}
    await context.add_cookies([cookie])  # type: ignore[list-item]
    return await context.new_page()


def _row(scale: Scale, runner: asyncio.Runner, served: Served, page: playwright.Page, visit: Visit) -> Row:
    tenant = next(iter(served.platform.state.cache.resources("Tenant")))
    path = visit.path.replace("{tenant}", tenant.metadata.uid)

    def took(path: str, usable: str) -> Took:
        with stopwatch() as time:
            runner.run(_visit(page, f"http://localhost:{served.port}/console/{path}", usable))
        return time

    times = interleaved(lambda: took(path, visit.usable), lambda: took("sign-in", "#username"), scale.repetitions)
    drawn = runner.run(_count(page, f"http://localhost:{served.port}/console/{path}", visit.drawn)) if visit.drawn else 0
    beside: dict[str, Any] = {"drawn": f"{drawn:,} of at most {NODES:,}"} if visit.drawn else {}
    made = row(visit.id, visit.words, "sign-in page", times, "lower", GATE, bound=f"{USABLE_S:g} s", **beside)
    held = times.wall[0] <= USABLE_S and drawn <= NODES
    return replace(made, held=held)


async def _visit(page: playwright.Page, address: str, usable: str) -> None:
    """Open a page. It is usable when its scripts have run and a part of it takes the focus."""
    await page.goto(address, wait_until="load")
    await page.locator(usable).first.focus()


async def _count(page: playwright.Page, address: str, selector: str) -> int:
    await page.goto(address)
    return await page.locator(selector).count()
