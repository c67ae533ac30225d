"""Package uploads: streamed to disk, bounded, and gone when they are refused."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tenantry.rest import bodies, uploads
from tests.unit.rest.conftest import LIMIT
from tests.unit.rest.engine_double import EngineDouble

UPLOAD = "/api/v1/admin/apps/upload"


def form(*parts: tuple[str, bytes], end: bytes = b"--B--\r\n", boundary: bytes = b"B") -> bytes:
    body = b"".join(
        b'--%b\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n' % (boundary, name.encode(), content)
        for name, content in parts
    )
    return body + end


def typed(value: str = "multipart/form-data; boundary=B") -> dict[str, str]:
    return {"Content-Type": value}


def cut(body: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


@pytest.mark.parametrize("size", [1, 7, 4096, 1 << 20])
async def test_the_file_arrives_whole_however_it_is_cut(client: httpx.AsyncClient, double: EngineDouble, size: int) -> None:
    content = (b"v-000001" + b"\r\n--C \r\n--\r\n-\r" * 50 + os.urandom(200)) * (1 if size == 1 else 40)

    async def chunks() -> AsyncIterator[bytes]:
        for chunk in cut(form(("note", b"ignored"), ("file", content)), size):
            yield chunk

    answer = await client.post(UPLOAD, content=chunks(), headers=typed())
    assert answer.status_code == 200, answer.text
    assert double.packages["v-000001"].read_bytes() == content


@pytest.mark.parametrize(
    ("body", "headers", "status", "error"),
    [
        pytest.param(b"{}", {"Content-Type": "application/json"}, 400, "body: must be multipart/form-data", id="json"),
        pytest.param(b"", typed("multipart/form-data"), 400, "body: must be multipart/form-data", id="no boundary"),
        pytest.param(form(("file", b"x")), typed(f"multipart/form-data; boundary={'x' * 300}"), 400, "body: is not", id="long"),
        pytest.param(form(("files", b"x")), typed(), 400, "file: is required", id="no file part"),
        pytest.param(b"--B--\r\n", typed(), 400, "file: is required", id="no part at all"),
        pytest.param(form(("file", b"x"), ("file", b"y")), typed(), 400, "file: is given more than once", id="two files"),
        pytest.param(form(("file", b"x"), end=b""), typed(), 400, "body: ends before", id="cut off"),
        pytest.param(b"garbage", typed(), 400, "body: is not multipart form data", id="garbage"),
        pytest.param(form(*[("n", b"")] * 30), typed(), 400, "body: has more than 20 parts", id="many parts"),
        pytest.param(
            lambda: form(("file", b"x" * (LIMIT + 1))), typed(), 413, f"file: larger than {LIMIT} bytes", id="too large"
        ),
        pytest.param(lambda: form(("n", b"x" * (LIMIT + 70_000))), typed(), 413, "file: larger than", id="large beside the file"),
    ],
)
async def test_a_bad_upload_is_refused_and_leaves_nothing(
    client: httpx.AsyncClient,
    tmp_path: Path,
    body: bytes | Callable[[], bytes],
    headers: dict[str, str],
    status: int,
    error: str,
) -> None:
    answer = await client.post(UPLOAD, content=body() if callable(body) else body, headers=headers)
    assert answer.status_code == status
    assert answer.json()["error"].startswith(error)
    assert list((tmp_path / "incoming").iterdir()) == []


async def test_a_body_of_unknown_length_is_bounded_too(client: httpx.AsyncClient, tmp_path: Path) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield form(("file", b""), end=b"").removesuffix(b"\r\n")
        for _ in range(100):
            yield b"x" * 100_000

    answer = await client.post(UPLOAD, content=endless(), headers=typed())
    assert (answer.status_code, answer.json()) == (413, {"error": f"file: larger than {LIMIT} bytes"})
    assert list((tmp_path / "incoming").iterdir()) == []


async def test_nothing_is_read_of_a_caller_who_may_not_upload(client: httpx.AsyncClient) -> None:
    async def unread() -> AsyncIterator[bytes]:
        pytest.fail("the body was read")
        yield b""

    answer = await client.post(UPLOAD, content=unread(), headers=typed(), auth=("admin", "wrong"))
    assert answer.status_code == 401


async def test_a_sender_that_is_too_slow_is_refused(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "PATIENCE_SECONDS", 0.05)

    async def stalling() -> AsyncIterator[bytes]:
        yield form(("file", b"x"), end=b"")
        await asyncio.Event().wait()

    answer = await client.post(UPLOAD, content=stalling(), headers=typed())
    assert answer.json() == {"error": "file: arrives too slowly"}


async def test_a_form_is_parsed_outside_of_the_event_loop(
    client: httpx.AsyncClient, double: EngineDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte takes up to 3.4 ms, and others' requests would wait for it."""
    threads: set[int] = set()
    feed = uploads._FilePart.feed

    def noted(part: uploads._FilePart, chunk: bytes) -> list[bytes]:
        threads.add(threading.get_ident())
        return feed(part, chunk)

    monkeypatch.setattr(uploads._FilePart, "feed", noted)
    answer = await client.post(UPLOAD, content=form(("file", b"v-000002" + b"x" * (2 << 20))), headers=typed())
    assert answer.status_code == 200, answer.text
    assert threads and threading.get_ident() not in threads
