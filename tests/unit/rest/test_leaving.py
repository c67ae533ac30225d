"""Work for a client that leaves ends with it, and with nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from tenantry.rest.leaving import while_connected
from tests.support.patience import DEADLINE_S


class Client:
    """A client that leaves on demand."""

    def __init__(self) -> None:
        self.left = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    def working(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        request = Request({"type": "http", "method": "GET", "headers": []}, self.receive)
        return asyncio.ensure_future(while_connected(request, work))


async def endless(ended: asyncio.Event) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.set()


async def test_the_result_of_the_work_is_returned_and_its_error_is_raised() -> None:
    async def fails() -> None:
        raise ValueError("no")

    assert await Client().working(asyncio.sleep(0, "done")) == "done"
    assert await Client().working(asyncio.sleep(0.05, "done")) == "done"
    with pytest.raises(ValueError, match="no"):
        await Client().working(fails())


async def test_a_client_that_leaves_ends_the_work() -> None:
    client, ended = Client(), asyncio.Event()
    task = client.working(endless(ended))
    client.left.set()
    with pytest.raises(ClientDisconnect):
        await asyncio.wait_for(task, DEADLINE_S)
    assert ended.is_set()
    assert not task.cancelled()


async def test_a_task_that_others_cancel_is_cancelled() -> None:
    client, ended = Client(), asyncio.Event()
    task = client.working(endless(ended))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
    assert task.cancelled()
