"""Requests that need no waiting are answered without a task, with the bytes that a task sends, in their order."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import MethodType
from typing import cast
from weakref import ReferenceType, ref

import pytest
from starlette.types import Receive, Scope, Send

from tenantry.cli.clients.sockets import listening
from tenantry.cli.processes.serving import serving
from tenantry.rest.answers import PART_NOW, WHOLE_BODY, AnswerNow, LateAnswer, PartNow, ReadyAnswer, as_part, not_now
from tenantry.rest.fairness.long_steps import LARGE
from tenantry.settings import HttpSettings

SOON_S = 60
PLAIN = HttpSettings()


def answer_to(scope: Scope) -> ReadyAnswer:
    """An answer that says what was asked. `/none/...` has no body."""
    if scope["path"].startswith("/none"):
        return ReadyAnswer(304, [(b"etag", b'"1"')], b"")
    body = b"%s %s?%s" % (scope["method"].encode(), scope["raw_path"], scope["query_string"])
    return ReadyAnswer(200, [(b"content-length", b"%d" % len(body)), (b"content-type", b"text/plain")], body)


@dataclass
class Told:
    """An application that answers what it is asked, at once if it can, and the paths that it answered in each way.

    asked: set by each request.
    """

    at_once: list[str] = field(default_factory=list)
    by_tasks: list[str] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        self.by_tasks.append(scope["path"])
        self.asked.set()
        while (await receive()).get("more_body"):
            pass
        await answer_to(scope).send(send)

    def now(self, scope: Scope) -> ReadyAnswer | None:
        if scope["path"].startswith("/waits"):
            return None
        self.at_once.append(scope["path"])
        return answer_to(scope)

    def later(self, scope: Scope) -> LateAnswer:
        """The same, after a wait."""

        async def answer() -> ReadyAnswer | None:
            await asyncio.sleep(0)
            return self.now(scope)

        return answer


WAYS: list[Callable[[Told], AnswerNow]] = [lambda told: told.now, lambda told: told.later]


@asynccontextmanager
async def connected(
    told: Told, now: AnswerNow, http: HttpSettings = PLAIN
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    bound = listening("127.0.0.1", 0)
    async with asyncio.timeout(SOON_S), serving(told, bound, http, now):
        reader, writer = await asyncio.open_connection(*bound.getsockname())
        yield reader, writer
        writer.close()


def request(path: str, *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: here", *headers, "", ""]).encode()


async def answers(told: Told, now: AnswerNow, *parts: bytes, http: HttpSettings = PLAIN) -> list[bytes]:
    """All that the server sends for these parts and for `/last`, which ends the connection, without dates."""
    async with connected(told, now, http) as (reader, writer):
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(request("/last", "Connection: close"))
        lines = (await reader.read()).split(b"\r\n")
    return [line for line in lines if not line.startswith(b"date: ")]


ONE = request("/one?a=b")
BODY = request("/body", "Content-Length: 4")
CHUNKS = request("/chunks", "Transfer-Encoding: chunked")


def post(length: int, *headers: str) -> bytes:
    """A POST with its body."""
    return request("/post", f"Content-Length: {length}", *headers, method="POST") + b"x" * length


@pytest.mark.parametrize(
    ("parts", "at_once", "by_tasks"),
    [
        ([ONE], ["/one"], []),
        ([request("/none")], ["/none"], []),
        ([request("/with%20space/%C3%A4?q=%20")], ["/with space/ä"], []),
        ([ONE[:9], ONE[9:]], ["/one"], []),
        ([request("/waits")], [], ["/waits"]),
        ([request("/one", method="POST")], [], ["/one"]),
        ([request("/one", method="HEAD")], [], ["/one"]),
        ([post(4)], ["/post"], []),
        ([post(LARGE - 1)], ["/post"], []),
        ([post(LARGE)], [], ["/post"]),
        ([post(4, "Expect: 100-continue")], [], ["/post"]),
        ([request("/post", "Transfer-Encoding: chunked", method="POST") + b"4\r\nabcd\r\n0\r\n\r\n"], ["/post"], []),
        ([BODY + b"abcd"], ["/body"], []),
        ([CHUNKS + b"4\r\nabcd\r\n0\r\n\r\n"], ["/chunks"], []),
    ],
)
@pytest.mark.parametrize("way", WAYS, ids=["now", "later"])
async def test_an_answer_has_the_same_bytes_in_both_ways(
    parts: list[bytes], at_once: list[str], by_tasks: list[str], way: Callable[[Told], AnswerNow]
) -> None:
    told, other = Told(), Told()
    assert await answers(told, way(told), *parts) == await answers(other, not_now, *parts)
    assert (told.at_once, told.by_tasks) == (at_once, [*by_tasks, "/last"])
    assert other.at_once == []


async def test_a_body_that_has_not_come_is_waited_for_in_a_task() -> None:
    told = Told()
    async with connected(told, told.now) as (reader, writer):
        writer.write(BODY)
        await told.asked.wait()
        writer.write(b"abcd")
        assert (await reader.readuntil(b"GET /body?")).startswith(b"HTTP/1.1 200 ")
    assert (told.at_once, told.by_tasks) == ([], ["/body"])


async def test_the_body_of_a_post_is_in_its_scope_if_it_came_with_the_head() -> None:
    told, bodies = Told(), list[bytes | None]()

    def now(scope: Scope) -> ReadyAnswer:
        bodies.append(scope.get(WHOLE_BODY))
        return answer_to(scope)

    for part in (post(3), ONE):
        await answers(told, now, part)
    assert bodies == [b"xxx", None]


@pytest.mark.parametrize("way", WAYS, ids=["now", "later"])
async def test_requests_that_come_together_are_answered_in_their_order(way: Callable[[Told], AnswerNow]) -> None:
    told, other = Told(), Told()
    together = b"".join(request(f"/{'waits/' if number % 7 == 3 else ''}{number}") for number in range(300))
    assert await answers(told, way(told), together) == await answers(other, not_now, together)
    assert "/0" in told.at_once
    assert len(told.by_tasks) > len(told.at_once)  # others have their turn in between


async def test_a_late_answer_is_not_sent_to_a_client_that_has_left() -> None:
    told, left, ended = Told(), asyncio.Event(), asyncio.Event()

    def now(scope: Scope) -> LateAnswer:
        async def answer() -> ReadyAnswer:
            told.asked.set()
            await left.wait()
            ended.set()
            return answer_to(scope)

        return answer

    async with connected(told, now) as (_, writer):
        writer.write(ONE)
        await told.asked.wait()
        writer.transport.abort()
        await writer.wait_closed()
        left.set()
        await ended.wait()
    assert told.by_tasks == []


async def test_a_server_that_ends_sends_its_late_answers() -> None:
    told, ending = Told(), asyncio.Event()

    def now(scope: Scope) -> LateAnswer:
        async def answer() -> ReadyAnswer:
            told.asked.set()
            await ending.wait()
            return answer_to(scope)

        return answer

    bound = listening("127.0.0.1", 0)
    async with asyncio.timeout(SOON_S):
        async with serving(told, bound, PLAIN, now):
            reader, writer = await asyncio.open_connection(*bound.getsockname())
            writer.write(ONE)
            await told.asked.wait()
            asyncio.get_running_loop().call_later(0.1, ending.set)
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        writer.close()


async def test_a_bad_request_behind_a_good_one_ends_the_connection_in_both_ways() -> None:
    told, other = Told(), Told()
    parts = ONE + b"no request\r\n\r\n"
    assert await answers(told, told.now, parts) == await answers(other, not_now, parts)


@pytest.mark.parametrize("http", [HttpSettings(origins="https://a.example.com"), HttpSettings(proxies="127.0.0.0/8")])
async def test_proxies_and_origins_leave_every_request_to_the_application(http: HttpSettings) -> None:
    told = Told()
    sent = await answers(told, told.now, request("/one", "Origin: https://a.example.com"), http=http)
    assert sent[0] == b"HTTP/1.1 200 OK"
    assert (told.at_once, told.by_tasks) == ([], ["/one", "/last"])


async def test_a_client_that_reads_nothing_has_its_answers_made_in_tasks() -> None:
    told, large = Told(), bytes(1 << 20)

    def now(scope: Scope) -> ReadyAnswer:
        told.at_once.append(scope["path"])
        told.asked.set()
        return ReadyAnswer(200, [(b"content-length", b"%d" % len(large))], large)

    async with connected(told, now) as (_, writer):
        for number in range(100):
            writer.write(request(f"/{number}"))
            await told.asked.wait()
            told.asked.clear()
            if told.by_tasks:
                break
        assert told.by_tasks


@dataclass
class Streaming:
    """An application that sends a part as a message, and others at once; taken: what came of each."""

    length: int | None = None
    taken: list[bool] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        now: PartNow = scope[PART_NOW]
        self.taken.append(now(as_part(b"early")))
        headers = [] if self.length is None else [(b"content-length", b"%d" % self.length)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        self.taken.append(now(as_part(b"second")))
        await send({"type": "http.response.body", "body": b"last", "more_body": False})
        self.taken.append(now(as_part(b"late")))


async def streamed(app: Streaming) -> bytes:
    """The body of its answer, as it is sent."""
    bound = listening("127.0.0.1", 0)
    async with asyncio.timeout(SOON_S), serving(app, bound):
        reader, writer = await asyncio.open_connection(*bound.getsockname())
        writer.write(request("/stream", "Connection: close"))
        whole = await reader.read()
        writer.close()
    return whole.partition(b"\r\n\r\n")[2]


async def test_a_part_is_sent_at_once_in_its_place() -> None:
    app = Streaming()
    assert await streamed(app) == b"5\r\nfirst\r\n6\r\nsecond\r\n4\r\nlast\r\n0\r\n\r\n"
    assert app.taken == [False, True, False], "neither before the head nor after the end"


async def test_a_request_with_a_task_of_its_own_leaves_nothing_to_the_garbage_collector() -> None:
    """Its scope alone is several KiB, and the collector looks through old objects very seldom."""
    cycles = list[ReferenceType[object]]()

    class Recorded(Streaming):
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            cycles.append(ref(cast(MethodType, receive).__self__))
            await super().__call__(scope, receive, send)

    gc.disable()
    try:
        await streamed(Recorded())
        assert [cycle() for cycle in cycles] == [None]
    finally:
        gc.enable()


async def test_an_answer_of_a_known_length_takes_no_parts() -> None:
    app = Streaming(length=len(b"firstlast"))
    assert await streamed(app) == b"firstlast"
    assert app.taken == [False, False, False]


async def test_a_client_that_does_not_read_takes_no_more_parts() -> None:
    refused = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        now: PartNow = scope[PART_NOW]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(10_000):
            if not now(as_part(b"x" * 65536)):
                refused.set()
                break
            await asyncio.sleep(0)
        await receive()

    bound = listening("127.0.0.1", 0)
    async with asyncio.timeout(SOON_S), serving(app, bound):
        _, writer = await asyncio.open_connection(*bound.getsockname(), limit=1024)
        writer.write(request("/stream"))
        await refused.wait()
        writer.transport.abort()
