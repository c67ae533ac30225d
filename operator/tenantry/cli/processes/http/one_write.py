"""Sends the head and the body of a short answer by one call of the system. A call takes longer than the answer to make."""

from __future__ import annotations

import asyncio
from typing import Any

LONGEST = 32 << 10
"""Bytes that are copied to be sent together; more are sent by themselves."""
_HEAD = b"HTTP/1.1 "
"""The beginning of the head of an answer. Nothing else waits for what follows, such as the parts of a stream."""


class OneWrite:
    """A transport that sends the head of an answer with what follows it in the same step of the event loop."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._held: bytes | bytearray | memoryview = b""
        self.is_closing = transport.is_closing  # asked for each request

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send the data, at the latest when the loop goes on."""
        held = self._held
        if held:
            self._held = b""
            if len(held) + len(data) <= LONGEST:
                data = b"".join((held, data))
            else:
                self._transport.write(held)
            self._transport.write(data)
        elif data[: len(_HEAD)] == _HEAD and len(data) <= LONGEST:
            self._held = data
            self._loop.call_soon(self._send)
        else:
            self._transport.write(data)

    def write_whole(self, data: bytes) -> None:
        """Send the data now: nothing follows that belongs to it."""
        if self._held:
            self._send()
        self._transport.write(data)

    def close(self) -> None:
        """Send what is held, and close."""
        self._send()
        self._transport.close()

    def abort(self) -> None:
        """Close at once; what is held is lost."""
        self._held = b""
        self._transport.abort()

    def _send(self) -> None:
        held, self._held = self._held, b""
        if held and not self._transport.is_closing():
            self._transport.write(held)
