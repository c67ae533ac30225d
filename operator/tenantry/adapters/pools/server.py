"""A pool: many engines in one process, each in its folder. People reach them by host, the operator by id."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, NamedTuple

import orjson
import structlog
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from structlog.contextvars import bound_contextvars

from tenantry.adapters.kubernetes.engines.workload import BY_ID
from tenantry.adapters.local.backups import Backups
from tenantry.adapters.local.data_loss.survey import DataSurvey
from tenantry.adapters.local.deployer import LocalDeployer
from tenantry.adapters.local.folders import EngineFolders, SentFacts
from tenantry.adapters.local.hosting import LOCATED, EnvironmentSubject, LocalHosting
from tenantry.adapters.moving.leaving import Packed
from tenantry.adapters.moving.source import command
from tenantry.adapters.moving.wire import REF, SIGNER, TOKEN, earlier_copy, packed_response
from tenantry.adapters.pools.declarations import SentDeclarations
from tenantry.adapters.pools.moves import PoolMoves, comes
from tenantry.adapters.pools.operators import OperatorKeys, answered
from tenantry.adapters.pools.shared.folders import CatalogFollower
from tenantry.adapters.pools.wire import PREFIX, audience_of, facts_body, parse_deploy, parse_ref
from tenantry.model.facts import EngineRef, EngineRoute, EngineSpec
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Halt, Invalid, Problem, Waiting, unforeseen
from tenantry.model.wording import counted
from tenantry.rest.bodies import json_response, read_bytes
from tenantry.rest.problems import log_unexpected, problem
from tenantry.rest.traces.requests import traced_requests
from tenantry.tracing.work import SUBJECT

LARGEST = 8 << 20
"""Bytes of a body: the declarations of one environment are the largest."""
LOOKS_AGAIN = timedelta(seconds=60)
CLOSED = timedelta(seconds=60)
"""The time in which a closed pool takes no new engine. The operator may end before it removes the pool."""
DEPLOYING = ("deploy", "expect", "reserve", "take")
"""The commands that create an engine or bring it to its spec; `expect` names the backup that the engine comes from. With
`reserve` and `take` an engine moves into the pool."""
LEAVING = ("freeze", "give", "thaw")
"""The commands about an engine that leaves the pool."""
STREAMING = ("pack", "receive", "blocks")
"""The commands with an archive in the answer, and in the request; `blocks` answers the digests of what it may leave out."""
NO_SECRET = Ref("Secret", "", "")
REFRESHED_S = 0.05
"""Seconds between two looks at the catalog for hosts and ids that this replica does not know."""
log = structlog.get_logger(__name__)


class Pool:
    """Keeps the engines of one pool. capacity: the number of engines that it takes."""

    def __init__(
        self,
        id_: str,
        capacity: int,
        folders: EngineFolders,
        deployer: LocalDeployer,
        declared: SentDeclarations,
        backups: Backups,
        survey: DataSurvey,
        moves: PoolMoves,
        follower: CatalogFollower | None = None,
    ) -> None:
        """follower: knows what other replicas of this pool wrote; None for a pool on a volume."""
        self._follower = follower
        self.id = id_
        self.moves = moves
        self._survey = survey
        self._backups = backups
        self._capacity = capacity
        self._folders = folders
        self._deployer = deployer
        self._declared = declared
        self._coming: set[str] = set()
        self._closed_until = datetime.min.replace(tzinfo=UTC)

    @property
    def is_shared(self) -> bool:
        """Return True if other replicas serve the same engines."""
        return self._follower is not None

    async def refresh(self) -> None:
        """Return when this replica knows what others wrote before. Raises Halt."""
        if self._follower is not None:
            await self._follower.refresh()

    async def engine(self, ref: EngineRef) -> dict[str, Any]:
        """Return the facts of an engine of this pool. Raises NotFound, EngineTaken."""
        facts = await self._deployer.engine(ref)
        return {"engine": None if facts is None else facts_body(facts)}

    async def deploy(self, body: Any, id_: str) -> None:
        """Create an engine or bring it to its spec. Raises Halt: PoolFull, PoolClosing, EngineTaken, Invalid."""
        spec, sent = self._parsed(body, id_)
        held = self._folders.held(id_)
        if held is not None and comes(held):
            raise Halt(Waiting("Moving", f"the engine {id_} moves into this pool, and is not whole yet", expected=True))
        await self._admitted(id_, self._deployer.hold(spec, NO_SECRET, sent))

    async def reserve(self, body: Any, id_: str) -> None:
        """Keep a place for an engine that moves into this pool. Raises Halt: PoolFull, PoolClosing, EngineTaken, EngineThere."""
        spec, sent = self._parsed(body, id_)
        await self.moves.free_forgotten(datetime.now(UTC))
        await self._admitted(id_, self.moves.reserve(spec, sent))

    async def take(self, body: Any, id_: str) -> None:
        """Serve an engine that moved into this pool. Raises Halt: NotFound, MoveStale."""
        spec, sent = self._parsed(body, id_)
        await self.moves.take(spec, sent, str(body["token"]))

    async def undeploy(self, ref: EngineRef) -> None:
        """Remove an engine with its data, and a backup that it did not take. Raises EngineTaken."""
        await self._deployer.undeploy(ref)
        await asyncio.to_thread(self._backups.staging.discard, ref.id)

    async def withdraw(self, ref: EngineRef) -> None:
        """Take the host from an engine."""
        await self._deployer.withdraw(ref)

    async def snapshot(self, ref: EngineRef, documents: Any) -> None:
        """Keep an archive of an engine in the pool's volume, with the declarations of its environment."""
        with self._declared.of(ref, tuple(documents)):
            await self._deployer.snapshot(ref)

    def losses(self) -> dict[str, Any]:
        """Return the engines whose data is missing or damaged, as the last survey found them."""
        return {"lost": [{"ref": asdict(ref), "told": str(loss)} for ref, loss in self._survey.lost]}

    async def close(self) -> int:
        """Take no new engine for a while. Return the number of archives of removed engines. Raises a Waiting Halt (PoolInUse) if
        there are engines."""
        kept = await self._backups.kept()
        await self.moves.free_forgotten(datetime.now(UTC))
        held, again = len(self._folders.ids | self._coming), datetime.now(UTC) + LOOKS_AGAIN
        if not held and self._follower is not None:
            held = await self._follower.shut(CLOSED)
        if held:
            raise Halt(Waiting("PoolInUse", f"the pool holds {counted(held, 'engine')}", again))
        self._closed_until = datetime.now(UTC) + CLOSED
        return len(kept)

    def _parsed(self, body: Any, id_: str) -> tuple[EngineSpec, SentFacts]:
        spec, sent = parse_deploy(body)
        if (spec.ref.id, spec.pool) != (id_, self.id):
            raise Invalid((Problem("spec", f"is not of engine {id_} in pool {self.id}"),))
        return spec, sent

    async def _admitted(self, id_: str, coming: Coroutine[Any, Any, None]) -> None:
        try:
            self._admit(id_)
        except Halt:
            coming.close()
            raise
        self._coming.add(id_)
        try:
            await coming
        finally:
            self._coming.discard(id_)

    def _admit(self, id_: str) -> None:
        held = self._folders.ids | self._coming
        now = datetime.now(UTC)
        if id_ in held:
            return
        if now < self._closed_until:
            raise Halt(Waiting("PoolClosing", "the pool is being removed", self._closed_until))
        if len(held) >= self._capacity:
            way_on = "enginesPerReplica allows no more: raise it, or add another pool"
            told = f"the pool holds {counted(len(held), 'engine')}, and {way_on}"
            raise Halt(Waiting("PoolFull", told, now + LOOKS_AGAIN))


class PoolServer:
    """The ASGI application of a pool. A request to the host of an engine reaches that engine, whatever its path is."""

    def __init__(self, pool: Pool, folders: EngineFolders, hosting: LocalHosting, keys: OperatorKeys) -> None:
        self._pool = pool
        self._folders = folders
        self._hosting = hosting
        self._keys = keys
        self._looked = 0.0
        self._looking: asyncio.Future[None] | None = None
        """The last look for an unknown engine, and the time of its beginning. Those who come meanwhile wait for it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._traced(scope, receive, send)

    @cached_property
    def _traced(self) -> ASGIApp:
        """Made by the first request: whether traces are recorded is known by then."""
        return traced_requests(self._serve)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = Headers(scope=scope).get("host", "")
        route = self._by_host(host) or await self._by_new_host(host)
        if route is not None:
            await self._hosting({**scope, LOCATED: route}, receive, send)
            return
        parts = scope["path"].split("/", 3)
        if parts[1] == BY_ID and len(parts) > 2:
            if self._folders.held(parts[2]) is None:
                await self._refreshed()
            await self._by_id(parts[2])({**scope, "root_path": f"/{BY_ID}/{parts[2]}"}, receive, send)
            return
        await (await self._answer(Request(scope, receive)))(scope, receive, send)

    def _by_host(self, host: str) -> EngineRoute | None:
        """Return the engine of a host such as `dev--acme.apps.example.com`, None if there is none."""
        label = host.partition(".")[0].lower()
        at = label.find("--")
        while at > 0:
            route = EngineRoute(label[:at], label[at + 2 :])
            if self._folders.route(route.tenant_slug, route.slug) is not None:
                return route
            at = label.find("--", at + 1)
        return None

    async def _by_new_host(self, host: str) -> EngineRoute | None:
        """Return the engine of a host that another replica may have learned of a moment ago."""
        return self._by_host(host) if "--" in host and await self._refreshed() else None

    async def _refreshed(self) -> bool:
        """Return False, and do nothing, if that was done a moment ago: hosts that are none cost the server nothing."""
        if self._looking is None or self._looking.done():
            now = time.monotonic()
            if not self._pool.is_shared or now - self._looked < REFRESHED_S:
                return False
            self._looked, self._looking = now, asyncio.ensure_future(self._pool.refresh())
        try:
            await asyncio.shield(self._looking)
        except Halt as halt:
            log.warning("the records of the pool cannot be read", error=halt.told)
        return True

    def _by_id(self, id_: str) -> ASGIApp:
        record = self._folders.held(id_)
        route = record.route if record is not None else None
        served = self._folders.route(route.tenant_slug, route.slug) if route is not None else None
        if route is None or served is None or served.ref.id != id_:
            return problem(404, "no such engine")

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            await self._hosting({**scope, LOCATED: route}, receive, send)

        return serve

    async def _answer(self, request: Request) -> Response:
        path = request.url.path
        if path in ("/healthz", "/readyz") and request.method == "GET":
            return json_response({"status": "ok"})
        if not path.startswith(f"{PREFIX}/"):
            return problem(404, f"no such path: {path}")

        async def carry_out() -> Response:
            await self._pool.refresh()
            match request.method, path.removeprefix(PREFIX).split("/")[1:]:
                case "POST", ["engines", id_, verb] if verb in STREAMING:
                    return await self._stream(request, id_, verb)
            return json_response(await self._carry_out(request, path.removeprefix(PREFIX)))

        return await answered(request, self._keys, audience_of(self._pool.id), "what a pool takes", carry_out)

    async def _carry_out(self, request: Request, path: str) -> dict[str, Any]:
        match request.method, path.split("/")[1:]:
            case "POST", ["close"]:
                return {"archives": await self._pool.close()}
            case "POST", ["losses"]:
                return self._pool.losses()
            case "POST", ["engines", id_, verb]:
                body = orjson.loads(await read_bytes(request, LARGEST))
                ref = parse_ref((body["spec"] if verb in DEPLOYING else body)["ref"])
                if ref.id != id_:
                    raise Invalid((Problem("ref.id", f"must be {id_}"),))
                request.scope["route"] = _Command(f"{PREFIX}/engines/{{id}}/{verb}")
                with _about(request.scope, ref):
                    return await self._on_engine(verb, ref, body)
        raise Invalid((Problem("path", "is not of a pool's interface"),))

    async def _on_engine(self, verb: str, ref: EngineRef, body: Any) -> dict[str, Any]:
        if verb in DEPLOYING:
            deploying = {"reserve": self._pool.reserve, "take": self._pool.take}.get(verb, self._pool.deploy)
            await deploying(body, ref.id)
            return {}
        if verb in LEAVING:
            return await command(await self._pool.moves.leaving(ref), verb, body)
        changing: dict[str, Callable[[EngineRef], Awaitable[None]]] = {
            "cancel": self._pool.moves.cancel,
            "undeploy": self._pool.undeploy,
            "withdraw": self._pool.withdraw,
            "snapshot": lambda each: self._pool.snapshot(each, body["documents"]),
        }
        if verb == "look":
            return await self._pool.engine(ref)
        if verb not in changing:
            raise Invalid((Problem("path", "is not of a pool's interface"),))
        # Once begun it is carried out, whether or not the operator still waits for the answer.
        await asyncio.shield(asyncio.ensure_future(changing[verb](ref)))
        return {}

    async def _stream(self, request: Request, id_: str, verb: str) -> Response:
        """An archive of an engine that leaves this pool, or of one that comes."""
        ref = parse_ref(orjson.loads(request.headers[REF]))
        if ref.id != id_:
            raise Invalid((Problem("ref.id", f"must be {id_}"),))
        request.scope["route"] = _Command(f"{PREFIX}/engines/{{id}}/{verb}")
        with _about(request.scope, ref):
            if verb == "pack":
                leaving = await self._pool.moves.leaving(ref)
                return packed_response(await leaving.pack(await earlier_copy(request)))
            if verb == "blocks":
                return Response(await self._pool.moves.blocks(ref), media_type="application/octet-stream")
            await self._pool.moves.receive(ref, Packed(request.headers[TOKEN], request.headers[SIGNER], request.stream()))
        return json_response({})


class _Command(NamedTuple):
    """A route, as spans name it."""

    path: str


@contextmanager
def _about(scope: Scope, ref: EngineRef) -> Iterator[None]:
    """Name the environment in the log lines of the block, also in the one about a bug. Raises Halt for a bug."""
    with bound_contextvars(**{SUBJECT: EnvironmentSubject(ref)}):
        try:
            yield
        except (Halt, KeyError, TypeError, ValueError):
            raise
        except Exception as bug:
            log_unexpected(scope, bug)
            raise Halt(unforeseen(bug)) from bug
