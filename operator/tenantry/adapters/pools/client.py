"""The operator's side of a pool's interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import httpx
import orjson

from tenantry.adapters.guarded import PlainClient
from tenantry.adapters.kubernetes.engines.workload import BY_ID
from tenantry.adapters.local.folders import SentFacts
from tenantry.adapters.moving.links import Link
from tenantry.adapters.moving.source import PREFIX as MOVE
from tenantry.adapters.moving.source import audience_of_move
from tenantry.adapters.moving.wire import REF
from tenantry.adapters.pools.verdicts import parse_verdict
from tenantry.adapters.pools.wire import PREFIX, Json, audience_of, deploy_body, parse_facts, parse_ref
from tenantry.model.facts import EngineFacts, EngineRef, EngineSpec, awaits_archive
from tenantry.model.resource import Document
from tenantry.model.verdicts import Halt, MayAct, Transient
from tenantry.rest.auth.tokens import OperatorTokens, TokenSigner
from tenantry.tracing.work import header, span

TIMEOUT = httpx.Timeout(30.0, connect=5.0)
LONG = httpx.Timeout(600.0, connect=5.0)
"""For an archive of a large engine."""
UrlOf = Callable[[str], str]
"""The URL at which this process reaches the pool with that id."""


class Pools:
    """Speaks to pools by id. transport_for: the way to a URL, None for the network.

    A pool is asked nothing while `check` raises: it does not know which of two operators is the present one.
    """

    def __init__(
        self,
        signer: TokenSigner,
        url_of: UrlOf,
        transport_for: Callable[[str], httpx.AsyncBaseTransport | None] = lambda url: None,
        check: MayAct | None = None,
    ) -> None:
        self._url_of = url_of
        self._transport_for = transport_for
        self._check = check
        self._clients: dict[httpx.AsyncBaseTransport | None, httpx.AsyncClient] = {}
        self._tokens = OperatorTokens(signer)

    async def engine(self, pool: str, ref: EngineRef) -> EngineFacts | None:
        """Return the engine of an environment in a pool, None if it is not there. Raises EngineTaken, Halt."""
        found = (await self._call(pool, ref.id, "look", {"ref": asdict(ref)})).get("engine")
        try:
            return None if found is None else parse_facts(found)
        except (KeyError, TypeError, ValueError) as error:
            raise _garbage(pool, error) from error

    async def losses(self, pool: str) -> Mapping[EngineRef, str]:
        """Return the engines of a pool whose data is missing or damaged, and how. Raises Halt."""
        found = await self._request(pool, "", "/losses", {}, TIMEOUT)
        try:
            return {parse_ref(each["ref"]): str(each["told"]) for each in found["lost"]}
        except (KeyError, TypeError, ValueError) as error:
            raise _garbage(pool, error) from error

    async def deploy(self, spec: EngineSpec, sent: SentFacts) -> None:
        """Create an engine in its pool, or bring it to its spec. Raises Halt: PoolFull, PoolClosing, EngineTaken."""
        # A pool of an earlier release would make an empty engine and does not know the other command.
        verb = "expect" if awaits_archive(spec.restoring) else "deploy"
        try:
            await self._call(spec.pool, spec.ref.id, verb, deploy_body(spec, sent))
        except Halt as halt:
            if verb == "expect" and halt.verdict.reason == "Invalid":
                told = "runs an earlier release, which takes no backup: it restarts in the rollout window of its region"
                raise Halt(Transient("PoolAnswer", f"pool {spec.pool} {told}")) from halt
            raise

    async def snapshot(self, pool: str, ref: EngineRef, documents: Sequence[Document]) -> None:
        """Keep an archive of an engine in its pool. Raises Halt."""
        await self._call(pool, ref.id, "snapshot", {"ref": asdict(ref), "documents": list(documents)}, LONG)

    async def undeploy(self, pool: str, ref: EngineRef) -> None:
        """Remove an engine from its pool. Raises Halt."""
        await self._call(pool, ref.id, "undeploy", {"ref": asdict(ref)})

    async def withdraw(self, pool: str, ref: EngineRef) -> None:
        """Take the host from an engine of a pool. Raises Halt."""
        await self._call(pool, ref.id, "withdraw", {"ref": asdict(ref)})

    async def reserve(self, spec: EngineSpec, sent: SentFacts) -> None:
        """Keep a place in a pool for an engine that comes. Raises Halt: PoolFull, PoolClosing, EngineTaken, EngineThere."""
        await self._call(spec.pool, spec.ref.id, "reserve", deploy_body(spec, sent))

    async def take(self, spec: EngineSpec, sent: SentFacts, token: str) -> None:
        """Serve an engine that came to its pool. Raises Halt: MoveStale."""
        await self._call(spec.pool, spec.ref.id, "take", {**deploy_body(spec, sent), "token": token})

    async def cancel(self, pool: str, ref: EngineRef) -> None:
        """Give the place of an engine that does not come free. Raises a Waiting Halt (EngineThere) if it came."""
        await self._call(pool, ref.id, "cancel", {"ref": asdict(ref)})

    def link(self, pool: str, ref: EngineRef) -> Link:
        """Return the link to an engine in a pool, for its move; without a pool, to one with a pod of its own."""
        url = self._url_of(pool or ref.id)
        audience = audience_of(pool) if pool else audience_of_move(ref.id)
        path = f"{PREFIX}/engines/{ref.id}" if pool else MOVE.rstrip("/")
        body = {"ref": asdict(ref)}
        named = orjson.dumps(body["ref"]).decode()

        def signed() -> dict[str, str]:
            return {"Authorization": self._tokens.authorization(audience), REF: named, **header()}

        return Link(self._client(url), f"{url}{path}", signed, body, ref.id)

    async def serves(self, pool: str, ref: EngineRef) -> bool:
        """Return True if the engine answers in its pool, or in a pod of its own without one."""
        url = f"{self._url_of(pool)}/{BY_ID}/{ref.id}" if pool else self._url_of(ref.id)
        try:
            return (await self._client(url).get(f"{url}/readyz", timeout=TIMEOUT)).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    async def close(self, pool: str) -> bool:
        """Make an empty pool take no engine for a while. Return True if its volume has archives. Raises Halt: PoolInUse."""
        return bool((await self._request(pool, "", "/close", {}, TIMEOUT)).get("archives"))

    async def aclose(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            await client.aclose()

    async def _call(self, pool: str, id_: str, verb: str, body: Json, timeout: httpx.Timeout = TIMEOUT) -> Json:
        return await self._request(pool, id_, f"/engines/{id_}/{verb}", body, timeout)

    async def _request(self, pool: str, id_: str, path: str, body: Json, timeout: httpx.Timeout) -> Json:
        url = self._url_of(pool)
        content = orjson.dumps(body)
        try:
            with span(f"pool {path.rpartition('/')[2]}", "client"):
                signed = {"Authorization": self._tokens.authorization(audience_of(pool))}
                headers = {**signed, "Content-Type": "application/json", **header()}
                answer = await self._client(url).post(f"{url}{PREFIX}{path}", content=content, headers=headers, timeout=timeout)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Halt(Transient("PoolUnreachable", f"{url} does not answer: {str(error) or type(error).__name__}")) from error
        try:
            value: dict[str, Any] = orjson.loads(answer.content)
            if answer.status_code != httpx.codes.OK:
                raise parse_verdict(value["verdict"], id_)
        except (KeyError, TypeError, ValueError) as error:
            raise _garbage(pool, error) from error
        return value

    def _client(self, url: str) -> httpx.AsyncClient:
        transport = self._transport_for(url)
        client = self._clients.get(transport)
        if client is None:
            client = self._clients[transport] = PlainClient(transport, TIMEOUT, self._check)
        return client


def _garbage(pool: str, error: Exception) -> Halt:
    return Halt(Transient("PoolAnswer", f"pool {pool} does not answer as pools do: {type(error).__name__}: {error}"))
