"""The head and the body of an answer are sent together."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tenantry.cli.processes.http.one_write import LONGEST, OneWrite


class Sent:
    """A transport that notes what is sent."""

    def __init__(self) -> None:
        self.calls: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        assert not self.closed
        self.calls.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def get_write_buffer_size(self) -> int:
        return 7


@pytest.fixture
async def sent() -> tuple[Sent, OneWrite]:
    sent = Sent()
    return sent, OneWrite(cast(asyncio.Transport, sent), asyncio.get_running_loop())


HEAD = b"HTTP/1.1 200 OK\r\n\r\n"
LARGE = b"x" * LONGEST


@pytest.mark.parametrize(
    ("written", "calls"),
    [
        ([HEAD, b"body"], [HEAD + b"body"]),
        ([HEAD], [HEAD]),
        ([HEAD, b""], [HEAD]),
        ([HEAD, memoryview(b"body")], [HEAD + b"body"]),
        ([HEAD, b"body", HEAD, b"one"], [HEAD + b"body", HEAD + b"one"]),
        ([HEAD, b"part", b"part"], [HEAD + b"part", b"part"]),
        ([memoryview(b"part")], [b"part"]),
        ([HEAD, LARGE, b"more"], [HEAD, LARGE, b"more"]),
        ([LARGE + b"y", b"more"], [LARGE + b"y", b"more"]),
    ],
)
async def test_what_is_written_in_one_step_is_sent_in_order(
    sent: tuple[Sent, OneWrite], written: list[bytes], calls: list[bytes]
) -> None:
    transport, one = sent
    for data in written:
        one.write(data)
    await asyncio.sleep(0)
    assert transport.calls == calls


async def test_nothing_is_held_longer_than_a_step(sent: tuple[Sent, OneWrite]) -> None:
    transport, one = sent
    for data in (HEAD, b"b"):
        one.write(data)
        await asyncio.sleep(0)
    assert transport.calls == [HEAD, b"b"]


async def test_a_part_of_a_stream_is_not_held(sent: tuple[Sent, OneWrite]) -> None:
    transport, one = sent
    one.write(b"part")
    assert transport.calls == [b"part"]


async def test_what_is_held_is_sent_before_the_end_unless_the_client_is_given_up(sent: tuple[Sent, OneWrite]) -> None:
    transport, one = sent
    one.write(HEAD)
    one.close()
    assert (transport.calls, transport.closed) == ([HEAD], True)
    one.write(HEAD)
    await asyncio.sleep(0)
    assert transport.calls == [HEAD]
    other = Sent()
    given_up = OneWrite(cast(asyncio.Transport, other), asyncio.get_running_loop())
    given_up.write(HEAD)
    given_up.abort()
    await asyncio.sleep(0)
    assert (other.calls, other.closed) == ([], True)


async def test_everything_else_is_the_transport_s_own(sent: tuple[Sent, OneWrite]) -> None:
    assert sent[1].get_write_buffer_size() == 7
