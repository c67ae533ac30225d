"""Lists of a running `up`, read from its control socket without a library for HTTP."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tenantry.model.documents import Document
from tenantry.rest.release import VERSION

if TYPE_CHECKING:
    from tenantry.hosts.console.protocol import SourceReport

PATIENCE_S = 300.0
CHUNK = 1 << 18


class Unanswered(Exception):  # noqa: N818 - the ordinary way says why
    """Nothing runs there, or it answers something else than a list."""


class ConsoleReads(Protocol):
    """The part of a Console that only reads."""

    async def list(self, kind: str) -> Sequence[Document]:
        """All objects of a kind. Raises Halt."""

    def watch(self, kind: str) -> AsyncIterator[Any]:
        """Yield the present objects as ADDED, then every change, without end."""

    async def source(self) -> SourceReport:
        """Return the report of the followed source. Raises NotFound when none is followed."""


class ControlReads:
    """ConsoleReads over a control socket; see hosts/console/control.py. Blocks: nothing else happens in a command that reads."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def list(self, kind: str) -> Sequence[Document]:
        """Raises Unanswered."""
        body = json.dumps([kind])
        ours = f"Host: tenantry\r\nConnection: close\r\nTenantry-Release: {VERSION}"
        head = f"POST /list HTTP/1.1\r\n{ours}\r\nContent-Length: {len(body)}\r\n\r\n"
        status, answer = self._exchanged(f"{head}{body}".encode())
        if status != b"200":
            raise Unanswered
        documents: Sequence[Document] = json.loads(answer)
        return documents

    def watch(self, kind: str) -> AsyncIterator[Any]:
        """Raises Unanswered."""
        raise Unanswered

    async def source(self) -> SourceReport:
        """Raises Unanswered."""
        raise Unanswered

    def _exchanged(self, request: bytes) -> tuple[bytes, bytes]:
        """The status and the body of the answer, which has a Content-Length. Raises Unanswered."""
        parts: list[bytes] = []
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.settimeout(PATIENCE_S)
                client.connect(str(self._path))
                client.sendall(request)
                while part := client.recv(CHUNK):
                    parts.append(part)
        except OSError:
            raise Unanswered from None
        head, _, body = b"".join(parts).partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        if f"content-length: {len(body)}".encode() not in lines:  # it was cut off
            raise Unanswered
        return lines[0].split(b" ")[1], body


def completed(work: Coroutine[Any, Any, None]) -> None:
    """Run work that waits for nothing but ControlReads, without an event loop. Raises what it raises."""
    try:
        work.send(None)
    except StopIteration:
        return
    work.close()
    raise AssertionError("it waits for something else")
