"""Package uploads: multipart form data, streamed part by part straight to a temporary file."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from tenantry.rest.bodies import body_chunks, invalid, too_large
from tenantry.rest.disk import write_whole, writing_to_disk
from tenantry.rest.fairness.long_steps import LONG_STEPS

BUFFER = 1 << 20
OVERHEAD = 64 * 1024
"""Bytes of a body that may be anything but the file."""
PARTS = 20
DEFAULT_LIMIT = 1 << 30


@dataclass(frozen=True)
class Uploads:
    """The folder of uploads during their check, and their limit in bytes. The folder exists."""

    folder: Path
    limit: int = DEFAULT_LIMIT

    @asynccontextmanager
    async def receive(self, request: Request) -> AsyncIterator[Path]:
        """The part `file` of the request as a file, which is gone afterwards. Raises Invalid; answers 413 above the limit."""
        part = _FilePart(_boundary(request), self.limit)
        async with self._file() as (path, file):
            with file, closing(part):
                await _stream(body_chunks(request, self.limit, "file", OVERHEAD), part.feed, file)
            part.check()
            yield path

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[Path]:
        """The whole body as a file, which is gone afterwards; answers 413 above the limit."""
        async with self._file() as (path, file):
            with file:
                await _stream(body_chunks(request, self.limit), _as_it_is, file)
            yield path

    @asynccontextmanager
    async def _file(self) -> AsyncIterator[tuple[Path, BinaryIO]]:
        descriptor, name = await asyncio.to_thread(_new_file, self.folder)
        path = Path(name)
        try:
            yield path, os.fdopen(descriptor, "wb", buffering=0)
        finally:
            await asyncio.to_thread(path.unlink, missing_ok=True)


def _boundary(request: Request) -> bytes:
    media_type, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary", b"")
    if media_type != b"multipart/form-data" or not boundary:
        raise invalid("body", "must be multipart/form-data with a part named file")
    return boundary


async def _stream(chunks: AsyncIterator[bytes], parse: Callable[[bytes], list[bytes]], file: BinaryIO) -> None:
    """Receives on the loop while a thread parses and writes the megabyte before. Raises what `parse` raises."""
    writing: asyncio.Future[None] | None = None
    received: list[bytes] = []
    try:
        async for chunk in chunks:
            received.append(chunk)
            if sum(map(len, received)) >= BUFFER:
                if writing:
                    await asyncio.shield(writing)
                writing = asyncio.ensure_future(asyncio.to_thread(_write, received, parse, file))
                received = []
        if writing:
            await asyncio.shield(writing)
        writing = asyncio.ensure_future(asyncio.to_thread(_write, received, parse, file))
        await asyncio.shield(writing)
    finally:
        if writing:
            await asyncio.wait([writing])  # also when cancelled: a thread must not write to a descriptor that is closed


def _write(received: list[bytes], parse: Callable[[bytes], list[bytes]], file: BinaryIO) -> None:
    # Many uploads at once would leave the event loop a small part of the interpreter.
    pieces = [LONG_STEPS.over(len(chunk), partial(parse, chunk)) for chunk in received]
    write_whole(file, [piece for each in pieces for piece in each])


def _as_it_is(chunk: bytes) -> list[bytes]:
    return [chunk]


def _new_file(folder: Path) -> tuple[int, str]:
    with writing_to_disk():
        return tempfile.mkstemp(".part", "upload-", folder)


class _FilePart:
    """Takes the part named `file` out of a multipart body; others are ignored."""

    def __init__(self, boundary: bytes, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._pieces: list[bytes] = []
        self._header = self._value = b""
        self._disposition = b""
        self._parts = 0
        self._wanted = self._seen = self._complete = False
        self._parser = self._parser_for(boundary)

    def _parser_for(self, boundary: bytes) -> MultipartParser:
        try:
            return MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin,
                    "on_header_field": self._header_field,
                    "on_header_value": self._header_value,
                    "on_header_end": self._header_end,
                    "on_headers_finished": self._headers_finished,
                    "on_part_data": self._data,
                    "on_end": self._end,
                },
            )
        except FormParserError as error:
            raise invalid("body", f"is not multipart form data: {error}") from None

    def feed(self, chunk: bytes) -> list[bytes]:
        """The file's bytes in it. Raises Invalid for a malformed body; answers 413 when the file is too large."""
        self._pieces = []
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise invalid("body", f"is not multipart form data: {error}") from None
        return self._pieces

    def close(self) -> None:
        """Let the parser go: each holds the other, and only the garbage collector would free them."""
        del self._parser

    def check(self) -> None:
        """Raises Invalid unless the body ended well and held the file."""
        if not self._complete:
            raise invalid("body", "ends before the multipart form data does")
        if not self._seen:
            raise invalid("file", "is required")

    def _begin(self) -> None:
        self._parts += 1
        self._disposition = b""
        if self._parts > PARTS:
            raise invalid("body", f"has more than {PARTS} parts")

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._header = self._value = b""

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._wanted = options.get(b"name") == b"file"
        if self._wanted and self._seen:
            raise invalid("file", "is given more than once")
        self._seen = self._seen or self._wanted

    def _data(self, data: bytes, start: int, end: int) -> None:
        if not self._wanted:
            return
        self._size += end - start
        if self._size > self._limit:
            raise too_large("file", self._limit)
        self._pieces.append(data[start:end])

    def _end(self) -> None:
        self._complete = True
