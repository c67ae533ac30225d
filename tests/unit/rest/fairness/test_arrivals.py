"""Requests that arrive together enter in turns, by their credentials."""

from __future__ import annotations

import asyncio
from typing import Any

from tenantry.rest.fairness.arrivals import Arrivals
from tenantry.rest.fairness.gate import AT_ONCE


class App:
    """Notes who has entered."""

    def __init__(self) -> None:
        self.entered: list[str] = []
        self.door = Arrivals(self)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.entered.append(scope["who"])

    def request(self, who: str, credentials: bool = True) -> asyncio.Task[None]:
        headers = [(b"authorization", who.encode())] if credentials else []
        scope = {"type": "http", "headers": headers, "who": who}
        return asyncio.ensure_future(self.door(scope, None, None))  # type: ignore[arg-type]


async def test_one_request_enters_before_the_many_of_others() -> None:
    app = App()
    acme = [app.request("acme") for _ in range(50)]
    globex = app.request("globex")
    await globex
    assert app.entered.count("acme") <= 2 * AT_ONCE
    await asyncio.gather(*acme)
    assert len(app.entered) == 51


async def test_one_sender_alone_does_not_wait() -> None:
    app = App()
    requests = [app.request("acme") for _ in range(50)]
    await asyncio.sleep(0)
    entered = len(app.entered)
    await asyncio.gather(*requests)
    assert entered >= AT_ONCE


async def test_requests_without_credentials_do_not_wait() -> None:
    app = App()
    requests = [app.request("acme") for _ in range(50)] + [app.request("nobody", credentials=False) for _ in range(20)]
    await asyncio.sleep(0)
    assert app.entered.count("nobody") == 20
    await asyncio.gather(*requests)
