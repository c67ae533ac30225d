"""Events reach a listener in their order, whether its connection takes them at once or its task sends them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from tenantry.engine.data.live.listeners import EventBatch, Listener
from tenantry.engine.data.live.rendering import RowEvent
from tenantry.rest.answers import as_part
from tests.support.waiting import eventually


def batch(*positions: int) -> EventBatch:
    return EventBatch([RowEvent(seq, b"<%d>" % seq) for seq in positions])


@dataclass
class Connection:
    """A connection that takes parts at once while it is open, and the task of a listener, which waits while it is not."""

    listener: Listener = field(default_factory=Listener)
    taken: list[bytes] = field(default_factory=list)
    by_task: list[bytes] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)

    def now(self, part: bytes) -> bool:
        if self.open.is_set():
            self.taken.append(part)
        return self.open.is_set()

    async def send(self) -> None:
        while (data := await self.listener.next()) is not None:
            await self.open.wait()
            self.by_task.append(data)
            self.taken.append(as_part(data))


@pytest.fixture
async def connection() -> Connection:
    connection = Connection()
    connection.listener.now = connection.now
    return connection


async def test_the_connection_takes_events_at_once_while_the_task_has_nothing_to_send(connection: Connection) -> None:
    connection.open.set()
    sending = asyncio.create_task(connection.send())
    await asyncio.sleep(0)
    for positions in ((1, 2), (3,)):
        connection.listener.put(batch(*positions))
    assert (connection.taken, connection.by_task) == ([b"6\r\n<1><2>\r\n", b"3\r\n<3>\r\n"], [])
    sending.cancel()


async def test_events_wait_behind_those_that_the_task_sends(connection: Connection) -> None:
    sending = asyncio.create_task(connection.send())
    await asyncio.sleep(0)
    connection.listener.put(batch(1))  # the connection takes nothing
    await asyncio.sleep(0)
    connection.listener.put(batch(2))  # the task has the first one
    connection.open.set()
    connection.listener.put(batch(3))
    await eventually(lambda: len(connection.by_task) == 2)
    await asyncio.sleep(0)
    connection.listener.put(batch(4))
    assert connection.by_task == [b"<1>", b"<2><3>"]
    assert connection.taken == [as_part(data) for data in (b"<1>", b"<2><3>", b"<4>")]
    sending.cancel()


async def test_nothing_is_sent_at_once_before_the_task_waits_for_events(connection: Connection) -> None:
    """It catches up first."""
    connection.open.set()
    connection.listener.put(batch(1))
    assert connection.taken == []


async def test_only_events_behind_the_listener_s_position_are_sent(connection: Connection) -> None:
    connection.open.set()
    connection.listener.after = 2
    sending = asyncio.create_task(connection.send())
    await asyncio.sleep(0)
    for positions in ((1, 2), (2, 3), (4,)):
        connection.listener.put(batch(*positions))
    await eventually(lambda: connection.taken)
    assert connection.taken == [as_part(b"<3><4>")]
    sending.cancel()


async def test_a_listener_that_ends_gets_no_more_events(connection: Connection) -> None:
    connection.open.set()
    sending = asyncio.create_task(connection.send())
    await asyncio.sleep(0)
    connection.listener.end("the engine stops")
    connection.listener.put(batch(1))
    await sending
    assert connection.taken == []
