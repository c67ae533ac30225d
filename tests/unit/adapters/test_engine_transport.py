"""The transport by aiohttp asks for the same path and query as httpx would, directly and by a proxy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import httpx
import pytest
from aiohttp import web

from tenantry.adapters.engine.transport import EngineTransport

NAMES = (
    "a/b", "a%2Fb", "a b", "ä€😀", "a+b", "a&b=c", "a;b", "a,b", "a'b", "a(b)", "a:b", "a@b", "~._-", "a%b", "a#b", "a?b",
    "a/../b", "[x]", "{x}", "|", "\\", '"', "<>", "`^", "%41", "%zz", "*!$",
)  # fmt: skip


@asynccontextmanager
async def asked() -> AsyncIterator[tuple[str, list[tuple[str, str]]]]:
    """A server's URL, and the hosts and targets of its requests."""
    seen: list[tuple[str, str]] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        seen.append((request.headers["Host"], request.raw_path))
        return web.json_response({})

    runner = web.ServerRunner(web.Server(answer, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield "http://{}:{}".format(*runner.addresses[0]), seen
    finally:
        await runner.cleanup()


def meant(target: str) -> tuple[list[str], list[tuple[str, str]]]:
    parts = urlsplit(target)
    return [unquote(part) for part in parts.path.split("/")], parse_qsl(parts.query, keep_blank_values=True)


@pytest.mark.parametrize("name", NAMES)
async def test_a_name_is_the_same_in_a_path_and_in_a_query(name: str) -> None:
    async with asked() as (url, seen), httpx.AsyncClient(transport=EngineTransport()) as client:
        await client.get(f"{url}/rows/{quote(name, safe='')}/all", params=[("filter", name), ("filter", ""), ("limit", "5")])
    ((_, target),) = seen
    assert meant(target) == (["", "rows", name, "all"], [("filter", name), ("filter", ""), ("limit", "5")])


async def test_a_proxy_is_asked_for_the_whole_url() -> None:
    host = "engine.env-1.svc:8080"
    async with asked() as (proxy, seen), httpx.AsyncClient(transport=EngineTransport(proxy)) as client:
        answer = await client.post(f"http://{host}/api/v1/apps", content=b"{}")
    assert (answer.status_code, seen) == (200, [(host, f"http://{host}/api/v1/apps")])
