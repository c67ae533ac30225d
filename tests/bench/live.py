"""C2: the time from a change by REST until it is on the page of each of 50 people, at 200 changes a second.

The platform is this process. The people and the changes are a process of their own, `python -m tests.bench.live`: it reads
{base, host, cookies, changes, mark, rate, seconds} from standard input. `changes` is {method, addresses, headers, body}:
how each environment is changed, with TITLE in the body. It prints seconds and numbers:
{p50, p99, longest, rate, delivered, expected}.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from statistics import median
from typing import Any

import httpx

from tenantry.cli.clients.issuing import issuer
from tenantry.cli.processes.lean_imports import ASKED_FOR_AT_EACH_REQUEST, remember_absent
from tenantry.cli.processes.serving import loop_factory
from tests.bench.row import Row, Scale, told
from tests.bench.served import Served, platform
from tests.scenario.rest_world import declare_user

PEOPLE, ENVIRONMENTS, CHANGES_S, SECONDS = 50, 40, 200, 10.0
LIMIT_S = 1.0
"""The gate of the design."""
LATE_S = 10.0
"""Seconds after the last change in which its arrival counts."""


def measure(scale: Scale) -> Sequence[Row]:
    """One row."""
    people = scale.of(PEOPLE)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        stack = AsyncExitStack()
        try:
            entered = stack.enter_async_context(platform(scale.folder / "C2", scale.of(ENVIRONMENTS)))
            served: Served = runner.run(entered)
            asked = runner.run(_asked(served, people)) | {"seconds": max(0.1, SECONDS * scale.share)}
            turns = range(max(1, scale.repetitions // 2) + 1)
            found = [runner.run(measured_apart({**asked, "mark": f"change-{turn}-"})) for turn in turns][1:]  # the first warms up
        finally:
            runner.run(stack.aclose())
    ratios = sorted(each["p99"] / LIMIT_S for each in found)
    p99 = median(each["p99"] for each in found)
    lost = sum(int(each["expected"] - each["delivered"]) for each in found)
    beside = {
        "p50": told(median(each["p50"] for each in found)),
        "longest": told(max(each["longest"] for each in found)),
        "changes": f"{median(each['rate'] for each in found):.0f}/s of {CHANGES_S}",
        "lost": str(lost),
    }
    work, figures = f"p99 until a change by REST is on the pages of {people} people", (told(p99), told(LIMIT_S))
    return [Row("C2", work, told(LIMIT_S), p99 / LIMIT_S, (ratios[0], ratios[-1]), "lower", 1.0, figures, beside, held=not lost)]


async def _asked(served: Served, people: int) -> dict[str, Any]:
    await declare_user(served.platform, "root", "SUPERUSER")
    await served.platform.converged()
    issue = issuer(served.platform)
    cookies = [f"tenantry-console-{served.port}={await issue('root', timedelta(hours=1))}" for _ in range(people)]
    base = f"http://127.0.0.1:{served.port}"
    changes = {
        "method": "PUT",
        "addresses": [f"{base}/api/v1/environments/{id_}" for id_ in served.environments],
        "headers": {"Authorization": f"Bearer {served.token}", "Content-Type": "application/json"},
        "body": '{"name": "TITLE"}',
    }
    return {"base": base, "host": f"localhost:{served.port}", "rate": CHANGES_S, "cookies": cookies, "changes": changes}


async def measured_apart(asked: Mapping[str, Any]) -> dict[str, float]:
    """Return what `measured` does, from a process of its own."""
    command = (sys.executable, "-m", "tests.bench.live")
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
    process = await asyncio.create_subprocess_exec(*command, **pipes)  # type: ignore[arg-type]
    printed, errors = await process.communicate(json.dumps(asked).encode())
    if process.returncode:
        raise RuntimeError(errors.decode()[-2000:])
    found: dict[str, float] = json.loads(printed)
    return found


LONGEST_MARK = 40
"""Bytes that a mark takes at most. It may stand in two parts of an answer."""


class Arrivals:
    """The changes and their arrivals. Change n is of environment n modulo their number; a later one of it stands for it too."""

    def __init__(self, environments: int, expected: int, mark: str) -> None:
        self._environments = environments
        self._marked = re.compile(rf">{mark}(\d+)<".encode())
        self.expected = expected
        self.sent: dict[int, float] = {}
        self.taken: list[float] = []
        self.whole = asyncio.Event()

    def add(self, seen: dict[int, int], page: bytes) -> None:
        """Count the changes that a part of a page shows. seen: the next change of each environment that this person waits for."""
        now = time.perf_counter()
        for number in map(int, self._marked.findall(page)):
            of = number % self._environments
            for each in range(seen.get(of, of), number + 1, self._environments):
                self.taken.append(now - self.sent[each])
                seen[of] = each + self._environments
        if len(self.taken) >= self.expected:
            self.whole.set()


async def measured(asked: Mapping[str, Any]) -> dict[str, float]:
    """Open the pages, change environments at the rate, and wait for the arrivals."""
    changes, count = asked["changes"], int(asked["rate"] * asked["seconds"])
    addresses = changes["addresses"]
    arrivals = Arrivals(len(addresses), count * len(asked["cookies"]), asked["mark"])
    limits = httpx.Limits(max_connections=None)
    # Two clients: a pool looks at all its connections at each request.
    async with (
        httpx.AsyncClient(base_url=asked["base"], timeout=60, limits=limits) as streams,
        httpx.AsyncClient(timeout=60) as http,
    ):
        first = [asyncio.Event() for _ in asked["cookies"]]

        async def look(cookie: str, open_: asyncio.Event) -> None:
            headers = {"Host": asked["host"], "Cookie": cookie, "Accept-Encoding": "identity"}
            seen, rest = dict[int, int](), b""
            async with streams.stream("GET", "/console/live", params={"of": "/environments"}, headers=headers) as answer:
                answer.raise_for_status()
                async for part in answer.aiter_raw():  # lines would cost more than all that serves them
                    open_.set()
                    if arrivals.sent:
                        arrivals.add(seen, rest + part)
                        rest = part[-LONGEST_MARK:]

        looking = [asyncio.create_task(look(cookie, open_)) for cookie, open_ in zip(asked["cookies"], first, strict=True)]
        await asyncio.wait_for(asyncio.gather(*(each.wait() for each in first)), 60)
        began = time.perf_counter()

        async def change(environment: int) -> None:
            for number in range(environment, count, len(addresses)):
                await asyncio.sleep(max(0.0, began + number / asked["rate"] - time.perf_counter()))
                arrivals.sent[number] = time.perf_counter()
                body = changes["body"].replace("TITLE", f"{asked['mark']}{number}")
                request = http.request(changes["method"], addresses[environment], content=body, headers=changes["headers"])
                (await request).raise_for_status()

        await asyncio.gather(*(change(environment) for environment in range(len(addresses))))
        took = time.perf_counter() - began
        with suppress(TimeoutError):  # what has not arrived is counted as lost
            await asyncio.wait_for(arrivals.whole.wait(), LATE_S)
        for each in looking:
            if each.done():
                raise RuntimeError("a stream ended") from each.exception()
            each.cancel()
    late = sorted(arrivals.taken) or [LATE_S]
    return {
        "p50": late[len(late) // 2],
        "p99": late[int(len(late) * 0.99)],
        "longest": late[-1],
        "rate": count / took,
        "delivered": len(arrivals.taken),
        "expected": arrivals.expected,
    }


if __name__ == "__main__":
    remember_absent(ASKED_FOR_AT_EACH_REQUEST)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        print(json.dumps(runner.run(measured(json.load(sys.stdin)))))
