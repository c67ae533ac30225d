"""HTTP connections of clients that dawdle: ended, so that they hold neither memory nor a place that others need."""

from __future__ import annotations

import asyncio
import socket
import struct
from ipaddress import ip_address
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tenantry.cli.processes.http.connections import Connections
from tenantry.cli.processes.http.one_write import OneWrite
from tenantry.rest.auth.throttle import network_of
from tenantry.settings import IPNetworks

HEAD_S = 10.0
"""A request's head is whole this long after its first byte, the first one this long after the connection was made, and the rest
of a body that nobody waits for this long after its answer."""
LONGEST_HEAD = 64 * 1024
WRITE_S = 10.0
SLOWEST_BYTES_PER_S = 4 * 1024
"""A client that has not taken an answer's bytes at this rate within WRITE_S is gone."""
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"

_BUSY = b'{"error":"too many connections at once; try again shortly"}'
_NO_ROOM = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_BUSY), _BUSY)
)
PARTING_S = 1.0
"""A client that there is no room for has so long to read that. A connection that is closed before loses the answer."""


class Patient(HttpToolsProtocol):
    """uvicorn's protocol, whose patience ends. Slow bodies are the affair of who reads them."""

    def __init__(self, *args: Any, connections: Connections, proxies: IPNetworks, **options: Any) -> None:
        super().__init__(*args, **options)
        self._connections, self._proxies = connections, proxies
        self._address = ""
        self._head: asyncio.TimerHandle | None = None
        self._in_head = False
        self._head_bytes = 0
        self._rest: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None
        self._parting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._writer = OneWrite(transport, self.loop)
        super().connection_made(cast(asyncio.Transport, self._writer))
        self._address = self._address_of_client()
        if self._address and not self._connections.enter(self._address, self):
            self._part()
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        self._rest_came()
        self._unset_writing()
        if self._parting is not None:
            self._parting.cancel()
            self._connections.parted()
        self._connections.leave(self._address, self)
        super().connection_lost(exc)

    @property
    def idle(self) -> bool:
        """Return True if it waits for a request, or for the rest of a request's head."""
        return self.cycle is None or self.cycle.response_complete

    def end(self) -> None:
        """Closes it, for another to have its place."""
        self._connections.leave(self._address, self)
        self._abort()

    def data_received(self, data: bytes) -> None:
        if self._parting is not None:
            return
        super().data_received(data)
        if self._in_head and self._head is None:
            self._await_head()
        if self._head is not None:
            self._head_bytes += len(data)
            if self._head_bytes > LONGEST_HEAD and not self.transport.is_closing():
                self.transport.write(_TOO_LARGE)
                self.transport.close()

    def on_message_begin(self) -> None:
        self._in_head = True  # most heads come whole, and need no timer
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_came()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._rest_came()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self.cycle.more_body and not self.transport.is_closing():
            self._rest = self.loop.call_later(HEAD_S, self._abort)
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_writing()

    def resume_writing(self) -> None:
        self._unset_writing()
        super().resume_writing()

    def _address_of_client(self) -> str:
        """As one attacker has it; `""` for a proxy, which holds the connections of many, and for a local socket."""
        host = self.client[0] if self.client else ""
        try:
            parsed = ip_address(host)
        except ValueError:
            return ""
        return "" if any(parsed in network for network in self._proxies) else network_of(host)

    def _await_head(self) -> None:
        self._head_bytes = 0
        self._head = self.loop.call_later(HEAD_S, self._abort)

    def _head_came(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _rest_came(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    def _await_writing(self) -> None:
        self._unset_writing()
        self._writing = self.loop.call_later(WRITE_S, self._look_at_writing, self.transport.get_write_buffer_size())

    def _unset_writing(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None

    def _look_at_writing(self, before: int) -> None:
        if before - self.transport.get_write_buffer_size() < SLOWEST_BYTES_PER_S * WRITE_S:
            self._abort()
        else:
            self._await_writing()

    def _part(self) -> None:
        """Answer that there is no room, whatever is asked, and close. Many at once are closed without an answer."""
        if not self._connections.part():
            self._abort()
            return
        self._parting = self.loop.call_later(PARTING_S, self._abort)
        self._writer.write_whole(_NO_ROOM)
        self._writer.write_eof()

    def _abort(self) -> None:
        """At once: else the kernel would keep what the client does not take."""
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()
