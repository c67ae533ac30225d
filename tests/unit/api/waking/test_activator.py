"""Requests for engines that sleep: they wake it once, wait, and are forwarded as they are. Servers and connections are real."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from tenantry.adapters.store.memory import MemoryStore
from tenantry.api.waking.activator import Activator
from tenantry.api.waking.asking import ask_to_wake
from tenantry.api.waking.forwarding import Forwarder
from tenantry.api.waking.places import WaitingPlaces
from tenantry.cli.clients.sockets import listening, url_of
from tenantry.cli.processes.serving import serving
from tenantry.hosts.standalone import fill
from tenantry.kinds.admission import Admission
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.registry import TYPES
from tenantry.model.facts import EngineRef
from tenantry.model.resource import API_VERSION, REQUESTED_BY, WAKE_REQUESTED, Document, Ref, held_of
from tenantry.runtime.cache import Cache
from tenantry.runtime.reconcile.writing_store import WritingStore
from tests.support.patience import DEADLINE_S
from tests.support.ports import free_port
from tests.support.waiting import eventually

HOST, SINCE = "dev--acme.example.com", "2026-11-28T20:00:00Z"
DEV = Ref("Environment", "tenant-acme", "dev")
App = Callable[[Scope, Receive, Send], Awaitable[None]]


@asynccontextmanager
async def served(app: App) -> AsyncIterator[str]:
    bound = listening("127.0.0.1", 0)
    async with serving(app, bound):
        yield url_of(bound)


@dataclass
class Played:
    """An engine that answers what it was sent, and a platform that wakes it when `wake` is called."""

    memory: MemoryStore = field(default_factory=lambda: MemoryStore(Admission()))
    cache: Cache = field(default_factory=lambda: Cache(TYPES))
    url: str = ""
    looked: list[EngineRef] = field(default_factory=list)
    writes: int = 0
    seen: list[Scope] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def store(self) -> WritingStore:
        return WritingStore(self.memory, self.cache)

    async def declare(self, wake: str = "OnRequest", **engine: Any) -> None:
        for document in (
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant-acme"}},
            {
                "apiVersion": API_VERSION,
                "kind": "Environment",
                "metadata": {"name": "dev", "namespace": "tenant-acme"},
                "spec": {"region": "home", "hibernation": {"after": "30m", "wake": wake}},
            },
        ):
            await self.memory.create(document)
        await fill(self.memory, self.cache, "Environment")
        told = {"id": "e", "name": "engine-dev", "url": f"https://{HOST}", "status": "SLEEPING", "sleepingSince": SINCE}
        await self.tell(told | engine)

    async def tell(self, engine: Document) -> None:
        held = held_of(await self.memory.get(DEV))
        await self.store.set_status(held, {"phase": "READY", "slug": "dev", "tenantSlug": "acme", "engine": engine})

    async def wake(self, url: str) -> None:
        """The engine runs, as the operator says and its pod shows."""
        engine = (await self.memory.get(DEV))["status"]["engine"]
        self.url = url
        await self.tell({key: value for key, value in engine.items() if key != "sleepingSince"} | {"status": "RUNNING"})

    async def address(self, ref: EngineRef) -> str:
        self.looked.append(ref)
        return self.url

    async def ask(self, environment: Environment) -> None:
        before = (await self.memory.get(DEV))["metadata"]["resourceVersion"]
        await ask_to_wake(self.store, environment)
        self.writes += (await self.memory.get(DEV))["metadata"]["resourceVersion"] != before

    async def asked(self) -> Document:
        """Return the annotations once somebody has asked for the wake."""

        async def found() -> Document | None:
            annotations: Document = (await self.memory.get(DEV))["metadata"].get("annotations", {})
            return annotations if WAKE_REQUESTED in annotations else None

        annotations = await eventually(found)
        assert annotations is not None
        return annotations

    async def engine(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send back each part of the body as it comes; `/endless` sends until its client has left."""
        self.seen.append(scope)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-engine", b"e"), (b"set-cookie", b"a=1")]})
        await send({"type": "http.response.body", "body": b"begun;", "more_body": True})
        more = True
        while more:
            message = await receive()
            more = message.get("more_body", False)
            await send({"type": "http.response.body", "body": message.get("body", b""), "more_body": True})
        if scope["path"] == "/endless":
            while (await receive())["type"] != "http.disconnect":
                pass
            self.ended.set()
        await send({"type": "http.response.body", "body": b""})

    def activator(self, hold_s: float = 30, places: WaitingPlaces | None = None) -> Activator:
        transport = httpx.AsyncHTTPTransport(limits=httpx.Limits(max_keepalive_connections=0))
        return Activator(self.cache, self, self.ask, Forwarder(transport), places, hold_s)


def client(url: str, host: str = HOST) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, headers={"Host": host}, trust_env=False, timeout=30)


async def test_fifty_requests_at_once_wake_an_engine_once_and_all_are_answered() -> None:
    played = Played()
    await played.declare()
    async with served(played.engine) as engine, served(played.activator()) as url, client(url) as http:
        sent = [asyncio.create_task(http.post("/rows", content=str(number))) for number in range(50)]
        annotations = await played.asked()
        assert (annotations[WAKE_REQUESTED], annotations[REQUESTED_BY]) == (f"request-{SINCE}", "a request")
        assert not any(each.done() for each in sent)
        await played.wake(engine)
        answers = await asyncio.gather(*sent)
    assert [(each.status_code, each.text) for each in answers] == [(200, f"begun;{number}") for number in range(50)]
    assert played.writes == 1
    assert {(ref.namespace, ref.name) for ref in played.looked} == {("tenant-acme", "dev")}


async def test_replicas_of_the_api_ask_once() -> None:
    played = Played()
    await played.declare()
    environment = played.cache.resource(DEV)
    assert isinstance(environment, Environment)
    before = int(played.memory.version)
    await asyncio.gather(*(played.ask(environment) for _ in range(3)))
    await played.ask(environment)
    assert int(played.memory.version) == before + 1


async def test_the_engine_of_an_environment_that_was_made_again_is_not_woken() -> None:
    played = Played()
    await played.declare()
    environment = played.cache.resource(DEV)
    assert isinstance(environment, Environment)
    other = environment.model_copy(update={"metadata": environment.metadata.model_copy(update={"uid": "another"})})
    await played.ask(other)
    assert played.writes == 0


@pytest.mark.parametrize(
    ("host", "declared"),
    [
        ("prod--acme.example.com", {}),
        ("dev--acme.example.com.evil.example", {}),
        ("tenantry.example.com", {}),
        ("10.0.0.7:8083", {}),
        (f"somebody@{HOST}", {}),
        ("[", {}),
        (HOST, {"wake": "Manual"}),
        (HOST, {"pool": "pool-1"}),
    ],
    ids=[
        "of another",
        "a longer name",
        "of the platform",
        "an address",
        "of somebody",
        "malformed",
        "woken by people",
        "in a pool",
    ],
)
async def test_any_other_host_gets_one_answer_and_wakes_nothing(host: str, declared: dict[str, Any]) -> None:
    played = Played()
    await played.declare(**declared)
    async with served(played.activator()) as url, client(url, host) as http:
        for path in ("/", "/healthz", "/readyz", "/api/v1/environments", "/console/"):
            answer = await http.get(path)
            assert (answer.status_code, answer.json()) == (404, {"error": "no such host", "reason": "NotFound"})
    assert (played.writes, played.looked) == (0, [])


async def test_a_request_reaches_the_engine_as_it_was_sent() -> None:
    played = Played()
    await played.declare()
    headers = {
        "Authorization": "Bearer t", "Cookie": "s=1", "X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https",
        "Connection": "keep-alive, X-Hop", "X-Hop": "1", "TE": "trailers", "X-Kept": "k", "Proxy-Authorization": "Basic p",
    }  # fmt: skip
    async with served(played.engine) as engine, served(played.activator()) as url, client(url) as http:
        await played.wake(engine)
        answer = await http.request("PUT", "/a%2Fb//c?x=%20&y", content=b"body", headers=headers)
    (scope,) = played.seen
    got = {name.decode(): value.decode() for name, value in scope["headers"]}
    assert (scope["method"], scope["raw_path"], scope["query_string"]) == ("PUT", b"/a%2Fb//c", b"x=%20&y")
    assert got["host"] == HOST
    assert (got["authorization"], got["cookie"], got["x-kept"], got["content-length"]) == ("Bearer t", "s=1", "k", "4")
    assert got["x-forwarded-for"] == "203.0.113.9, 127.0.0.1"
    assert got["x-forwarded-proto"] == "http", "who sent it is no proxy that is trusted"
    assert not {"x-hop", "te", "proxy-authorization"} & got.keys()
    assert (answer.headers["x-engine"], answer.headers["set-cookie"], answer.text) == ("e", "a=1", "begun;body")
    assert len(answer.headers.get_list("date")) == 1


async def test_bodies_and_answers_stream() -> None:
    played = Played()
    await played.declare()
    begun = asyncio.Event()

    async def parts() -> AsyncIterator[bytes]:
        yield b"first;"
        await begun.wait()  # the engine's answer has come, and the body goes on
        yield b"last"

    async with served(played.engine) as engine, served(played.activator()) as url, client(url) as http:
        await played.wake(engine)
        answered = asyncio.create_task(http.post("/", content=parts()))
        await eventually(lambda: len(played.seen) == 1)  # before the body has ended
        begun.set()
        assert (await answered).text == "begun;first;last"
        async with http.stream("GET", "/endless") as answer:
            first = await anext(answer.aiter_raw())
            assert first == b"begun;"


async def test_a_client_that_leaves_ends_its_request_to_the_engine() -> None:
    played = Played()
    await played.declare()
    async with served(played.engine) as engine, served(played.activator()) as url:
        await played.wake(engine)
        async with client(url) as http, http.stream("GET", "/endless") as answer:
            await anext(answer.aiter_raw())
        await asyncio.wait_for(played.ended.wait(), DEADLINE_S)


async def test_the_last_client_that_leaves_gives_its_place_back() -> None:
    played, places = Played(), WaitingPlaces(per_environment=1)
    await played.declare()
    activator = played.activator(places=places)
    async with served(played.engine) as engine, served(activator) as url:
        async with client(url) as http:
            waiting = asyncio.create_task(http.get("/"))
            await played.asked()
            refused = await http.get("/")
            assert (refused.status_code, refused.headers["retry-after"], refused.json()["reason"]) == (503, "5", "Sleeping")
            waiting.cancel()
        await played.wake(engine)

        async def answered() -> bool:
            async with client(url) as http:
                return (await http.get("/")).status_code == 200

        await eventually(answered)


async def test_a_wake_that_takes_too_long_is_answered_with_the_reason() -> None:
    played = Played()
    await played.declare()
    async with served(played.activator(hold_s=0.05)) as url, client(url) as http:
        answer = await http.post("/", content=b"x" * 100_000)
    assert (answer.status_code, answer.headers["retry-after"], answer.json()["reason"]) == (503, "5", "Sleeping")


async def test_an_engine_that_is_not_reached_yet_is_tried_again() -> None:
    played = Played()
    await played.declare()
    nowhere = f"http://127.0.0.1:{free_port()}"
    async with served(played.engine) as engine, served(played.activator()) as url, client(url) as http:
        await played.wake(nowhere)
        sent = asyncio.create_task(http.post("/", content=b"body"))
        await eventually(lambda: len(played.looked) > 1)
        played.url = engine
        assert (await sent).text == "begun;body"


async def test_nobody_waits_for_an_environment_that_is_suspended() -> None:
    played = Played()
    await played.declare()
    document = await played.memory.get(DEV)
    await played.store.replace({**document, "spec": {**document["spec"], "suspend": True}}, held_of(document).version)
    async with served(played.activator()) as url, client(url) as http:
        assert (await http.get("/")).status_code == 503
    assert played.writes == 0
