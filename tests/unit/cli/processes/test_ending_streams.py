"""Servers end their event streams first, and let other requests finish."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tenantry.cli.clients.sockets import listening, url_of
from tenantry.cli.processes.ending_streams import EndingStreams
from tenantry.cli.processes.serving import serving

STREAMS = 50
SOON_S = 60


async def forever() -> AsyncIterator[dict[str, str]]:
    yield {"data": "first"}
    await asyncio.Event().wait()


async def events(_: Request) -> Response:
    return EventSourceResponse(forever())


class Waiting:
    """An application with streams without end, and a request that is answered once all of them have ended."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.all_ended = asyncio.Event()
        routes = [Route("/events", events), Route("/answer", self.answer), Route("/table", self.table)]
        self.app = Starlette(routes=routes)

    async def answer(self, _: Request) -> Response:
        self.asked.set()
        await self.all_ended.wait()
        return PlainTextResponse("done")

    async def table(self, _: Request) -> Response:
        async def rows() -> AsyncIterator[str]:
            yield "first\n"
            self.asked.set()
            await self.all_ended.wait()
            yield "last\n"

        return StreamingResponse(rows(), media_type="text/csv")


async def follow(client: httpx.AsyncClient, opened: asyncio.Semaphore) -> str:
    """The text of a stream that ended as an answer should. Raises TransportError for one that broke."""
    text = ""
    async with client.stream("GET", "/events") as answer:
        async for part in answer.aiter_text():
            if not text:
                opened.release()
            text += part
    return text


async def answered_after_the_streams(path: str) -> tuple[str, list[str]]:
    """The answer of a request that outlasts all streams of a server that ends, and what the streams held."""
    waiting, opened = Waiting(), asyncio.Semaphore(0)
    bound = listening("127.0.0.1", 0)
    limits = httpx.Limits(max_connections=STREAMS + 1)
    async with httpx.AsyncClient(base_url=url_of(bound), timeout=SOON_S, limits=limits) as client:
        async with asyncio.timeout(SOON_S), serving(waiting.app, bound):
            streams = [asyncio.create_task(follow(client, opened)) for _ in range(STREAMS)]
            for _ in streams:
                await opened.acquire()
            asked = asyncio.create_task(client.get(path))
            await waiting.asked.wait()
            ends = asyncio.gather(*streams)
            ends.add_done_callback(lambda _: waiting.all_ended.set())
        return (await asked).text, await ends


async def test_a_running_request_outlasts_the_event_streams() -> None:
    answer, streams = await answered_after_the_streams("/answer")
    assert answer == "done"
    assert [each.split() for each in streams] == [["data:", "first"]] * STREAMS


async def test_an_answer_in_parts_is_no_event_stream() -> None:
    answer, _ = await answered_after_the_streams("/table")
    assert answer == "first\nlast\n"


async def test_a_stream_that_begins_at_the_end_ends_too() -> None:
    app = EndingStreams(Waiting().app)
    app.end()
    transport = httpx.ASGITransport(app)
    async with asyncio.timeout(SOON_S), httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        assert (await client.get("/events")).status_code == 200
