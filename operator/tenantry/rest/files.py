"""Serving a file: ETag, one range, and large chunks read ahead in threads."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tenantry.model.facts import Download
from tenantry.model.verdicts import NotFound
from tenantry.rest.bodies import names_tag
from tenantry.rest.problems import problem

CHUNK = 1 << 20
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


async def file_response(request: Request, download: Download, media_type: str = "application/octet-stream") -> Response:
    """The file, or the range of it that the request asks for. Several ranges at once are answered by the whole file.

    Raises NotFound when the file has gone meanwhile.
    """
    tag = f'"{download.sha256}"'
    headers = {
        "Accept-Ranges": "bytes",
        "Content-Disposition": _disposition(download.filename),
        "Content-Type": media_type,
        "ETag": tag,
        "X-Content-Type-Options": "nosniff",
    }
    if names_tag(request.headers.get("if-none-match"), tag):
        return Response(None, 304, headers)
    first, end, status = 0, download.size, 200
    wanted = _RANGE.fullmatch(request.headers.get("range", "").replace(" ", ""))
    if wanted and any(wanted.groups()) and request.headers.get("if-range", tag) == tag:
        first, end = _bounds(wanted[1], wanted[2], download.size)
        status = 206
        if first >= end:
            return problem(416, "Range: outside the file", {"Content-Range": f"bytes */{download.size}"})
        headers["Content-Range"] = f"bytes {first}-{end - 1}/{download.size}"
    return _FileSlice(await asyncio.to_thread(_open, download.path), first, end, status, headers)


def _bounds(first: str, last: str, size: int) -> tuple[int, int]:
    """The half-open slice that a range names."""
    if not first:
        return max(size - int(last), 0), size
    return int(first), min(int(last) + 1, size) if last else size


def _disposition(filename: str) -> str:
    quoted = quote(filename, safe="+")
    plain = f'filename="{filename}"' if quoted == filename else f"filename*=utf-8''{quoted}"
    return f"attachment; {plain}"


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb", buffering=0)
    except FileNotFoundError:
        raise NotFound("the file has just been removed") from None


class _FileSlice(Response):
    """Bytes [first, end) of an open file, which it closes."""

    def __init__(self, file: BinaryIO, first: int, end: int, status: int, headers: dict[str, str]) -> None:
        super().__init__(None, status, {**headers, "Content-Length": str(end - first)})
        self._file = file
        self._first = first
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            ahead = self._read(self._first)
            try:
                for position in range(self._first, self._end, CHUNK):
                    chunk = await asyncio.shield(ahead)
                    following = position + CHUNK
                    ahead = self._read(following)
                    await send({"type": "http.response.body", "body": chunk, "more_body": following < self._end})
            finally:
                await asyncio.wait([ahead])  # also when cancelled: a thread must not read a descriptor that is closed
            if self._first == self._end:
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _read(self, position: int) -> asyncio.Task[bytes]:
        size = max(min(CHUNK, self._end - position), 0)
        return asyncio.create_task(asyncio.to_thread(os.pread, self._file.fileno(), size, position))
