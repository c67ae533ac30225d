"""The server behind the URLs of engines that sleep: it wakes them, holds their requests, and forwards those once they run.

Only requests to the host of such an engine are served. It has no route of the api, and the api has none of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import orjson
import structlog
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from tenantry.api.waking.forwarding import Forwarder, NoAnswer, NotReached
from tenantry.api.waking.places import NoPlaceLeft, WaitingPlaces
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.tenancy import sleeping_since
from tenantry.model.facts import EngineRef
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Halt
from tenantry.rest.apps.host_header import host_of
from tenantry.runtime.cache import Cache

HOLD_S = 55.0
"""A request waits for its engine at most this long: many ingress controllers give up after 60 s, and say no reason."""
LOOKS_AGAIN_S = 0.2
AFTER_FAILURE_S = 1.0
RETRY_AFTER_S = 5

log = structlog.get_logger(__name__)


class ReadyEngines(Protocol):
    """The addresses of engines that run."""

    async def address(self, ref: EngineRef) -> str:
        """The URL of the pod of that very engine, `""` while it does not answer. Raises Halt."""


class _Unavailable(Exception):  # noqa: N818 - an answer, not an error
    """The reason for which a request is answered 503."""


class Activator:
    """An ASGI application. ask: asks once for the wake of an engine, whoever else does."""

    def __init__(
        self,
        cache: Cache,
        engines: ReadyEngines,
        ask: Callable[[Environment], Awaitable[None]],
        forwarder: Forwarder,
        places: WaitingPlaces | None = None,
        hold_s: float = HOLD_S,
    ) -> None:
        self._cache = cache
        self._engines = engines
        self._ask = ask
        self._forwarder = forwarder
        self._places = places or WaitingPlaces()
        self._hold_s = hold_s
        self._wakes: dict[str, _Wake] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        environment = self._named(scope)
        if environment is None:
            await _answer(404, "no such host", "NotFound")(scope, receive, send)
            return
        held = HeldReceive(receive, has_body(scope))
        try:
            await self._serve(environment, scope, held, send)
        except _Unavailable as refusal:
            await _answer(503, str(refusal), "Sleeping")(scope, receive, send)
        except NoAnswer:
            await _answer(502, "the engine ended without an answer", "EngineAnswer")(scope, receive, send)

    def _named(self, scope: Scope) -> Environment | None:
        """Return the environment whose URL has the host of the request, if requests wake its engine."""
        key = f"wakes-at={host_of(scope)}"
        found = [each for each in self._cache.resources(Environment.KIND, by=key) if isinstance(each, Environment)]
        return found[0] if len(found) == 1 else None

    async def _serve(self, environment: Environment, scope: Scope, receive: HeldReceive, send: Send) -> None:
        deadline = asyncio.get_running_loop().time() + self._hold_s
        while True:
            base = await self._awaited(environment, receive, deadline)
            if not base:
                return
            try:
                await self._forwarder.forward(scope, receive.again, send, base)
            except NotReached:  # it fell asleep again, or was restarted
                await asyncio.sleep(LOOKS_AGAIN_S)
            else:
                return

    async def _awaited(self, environment: Environment, receive: HeldReceive, deadline: float) -> str:
        """Return the URL of the engine once it answers, `""` if the client left before. Raises _Unavailable."""
        uid = environment.metadata.uid
        left = asyncio.create_task(receive.client_left(), name="client left")
        try:
            with self._places.taken(uid), self._wake_of(environment) as wake:
                async with asyncio.timeout_at(deadline):
                    await asyncio.wait((wake.task, left), return_when=asyncio.FIRST_COMPLETED)
                return wake.task.result() if wake.task.done() else ""
        except TimeoutError:
            raise _Unavailable("the engine sleeps, and was not awake in time; try again") from None
        except NoPlaceLeft:
            raise _Unavailable("the engine sleeps, and too many requests wait for it; try again") from None
        finally:
            left.cancel()
            await asyncio.gather(left, return_exceptions=True)

    def _wake_of(self, environment: Environment) -> _Wake:
        """Return the one wake of an engine that is under way; requests at once share it."""
        uid = environment.metadata.uid
        wake = self._wakes.get(uid)
        if wake is None or wake.task.done():
            task = asyncio.create_task(self._until_ready(environment.ref, uid), name="wake")
            wake = self._wakes[uid] = _Wake(task, lambda ended: self._forget(uid, ended))
        return wake

    def _forget(self, uid: str, ended: _Wake) -> None:
        if self._wakes.get(uid) is ended:
            del self._wakes[uid]

    async def _until_ready(self, ref: Ref, uid: str) -> str:
        """Ask for the wake, and return the engine's URL once it answers. Raises _Unavailable where nobody will wake it."""
        asked = ""
        while True:
            environment = self._cache.resource(ref)
            if not isinstance(environment, Environment) or environment.metadata.uid != uid or environment.deleting:
                raise _Unavailable("the environment is gone")
            if environment.suspended:
                raise _Unavailable("the engine sleeps, and its environment is suspended")
            since = sleeping_since(environment)
            try:
                if since and asked != since:
                    await self._ask(environment)
                    asked = since
                    log.info("engine woken by a request", object=str(ref))
                elif not since and (base := await self._engines.address(engine_of(environment))):
                    return base
            except Halt as halt:
                log.warning("engine not woken yet", object=str(ref), error=str(halt))
                await asyncio.sleep(AFTER_FAILURE_S)
            await asyncio.sleep(LOOKS_AGAIN_S)


class _Wake:
    """A wake that is under way, until the last request that waits for it has left."""

    def __init__(self, task: asyncio.Task[str], forget: Callable[[_Wake], None]) -> None:
        self.task = task
        self._forget = forget
        self._waiting = 0

    def __enter__(self) -> _Wake:
        self._waiting += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting -= 1
        if not self._waiting:
            self.task.cancel()
            self._forget(self)


class HeldReceive:
    """The messages of a request that is held. What was taken to notice that its client left is given again."""

    def __init__(self, receive: Receive, has_body: bool) -> None:
        self._receive = receive
        self._has_body = has_body
        self._taken: list[Message] = []

    async def client_left(self) -> None:
        """Return when the client has left. A body is not read: then nobody notices before it is."""
        if self._has_body:
            await asyncio.Event().wait()
        while not self._taken or self._taken[-1]["type"] != "http.disconnect":
            self._taken.append(await self._receive())

    async def again(self) -> Message:
        """Return the next message."""
        return self._taken.pop(0) if self._taken else await self._receive()


def engine_of(environment: Environment) -> EngineRef:
    """Return the reference of the engine, without its slugs."""
    return EngineRef(environment.metadata.namespace, environment.metadata.name, environment.id)


def has_body(scope: Scope) -> bool:
    """Return True if the request announces a body."""
    headers = {name: value for name, value in scope["headers"] if name in (b"content-length", b"transfer-encoding")}
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


def _answer(status: int, message: str, reason: str) -> Response:
    retry = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else {}
    body = orjson.dumps({"error": message, "reason": reason})
    return Response(body, status, {"Cache-Control": "no-store", **retry}, "application/json")
