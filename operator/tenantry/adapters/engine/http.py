"""Engines over HTTP: ports.Engines for our own engines and, by the plain interface alone, for those of others."""

from __future__ import annotations

import base64
import copy
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tenantry.model.facts import EngineEndpoint
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Halt, Invalid, MayAct, Problem, Stalled
from tenantry.ports import EngineAdmin, Secrets
from tenantry.rest.auth.tokens import OperatorTokens, TokenSigner
from tenantry.rest.outbound import Rules, checked_url

if TYPE_CHECKING:
    from datetime import timedelta

    import httpx

    from tenantry.adapters.engine.calls import EngineRowViews, Inspect, PlainEngine
    from tenantry.adapters.engine.wire import LongRequestTurns, Wire

URL_FIELD = "spec.engine.external.url"


TransportFor = Callable[[str], "httpx.AsyncBaseTransport | None"]
"""The transport to the URL of an engine of ours; None for the network."""
AddressOf = Callable[[EngineEndpoint], str]
"""The address by which this process reaches one of our engines; people may use another one."""
RulesFor = Callable[[EngineEndpoint], Rules]
"""The addresses that a foreign engine may have."""


class HttpEngines:
    """ports.Engines over httpx. `scratch` is a folder for downloads; it exists. largest: bytes of a download.

    No engine is asked while `check` raises. One of others is reached through `guard` alone, wherever its URL leads; None: a
    GuardedTransport.
    """

    def __init__(
        self,
        signer: TokenSigner,
        secrets: Secrets,
        inspect: Inspect,
        scratch: Path,
        transport_for: TransportFor = lambda url: None,
        address_of: AddressOf = lambda endpoint: endpoint.url,
        rules_for: RulesFor = lambda endpoint: Rules(),
        guard: Callable[[Rules], httpx.AsyncBaseTransport] | None = None,
        largest: int = 1 << 30,
        check: MayAct | None = None,
    ) -> None:
        self._secrets = secrets
        self._inspect = inspect
        self._scratch = scratch
        self._transport_for = transport_for
        self._address_of = address_of
        self._rules_for = rules_for
        self._guard = guard
        self._largest = largest
        self._check = check
        self._clients: dict[httpx.AsyncBaseTransport | None, httpx.AsyncClient] = {}
        self._guarded: dict[Rules, httpx.AsyncClient] = {}
        self._tokens = OperatorTokens(signer)
        self._turns: dict[str, LongRequestTurns] = {}
        self._marks: defaultdict[str, dict[str, str]] = defaultdict(dict)

    def at(self, endpoint: EngineEndpoint) -> EngineAdmin:
        """The engine there: ours, or with an admin Secret that of another."""
        if endpoint.admin_secret is not None:
            return self._foreign(endpoint, endpoint.admin_secret)
        from tenantry.adapters.engine.calls import OwnEngine

        return OwnEngine(self._own(endpoint), self._inspect, self._scratch, self._largest)

    async def unused(self, endpoint: EngineEndpoint) -> timedelta | None:
        """Return for how long nobody used an engine of ours; None for one of others, and of an older release."""
        from tenantry.adapters.engine.calls import unused

        return await unused(self._own(endpoint)) if endpoint.admin_secret is None else None

    def rows(self, endpoint: EngineEndpoint) -> EngineRowViews:
        """The rows of the engine there. Raises Invalid for an engine of others: its interface shows the platform none."""
        if endpoint.admin_secret is not None:
            raise Invalid((Problem("", "the console does not show the rows of an engine that others run"),))
        from tenantry.adapters.engine.calls import EngineRowViews

        return EngineRowViews(self._own(endpoint))

    def seeing(self, secrets: Secrets, rules_for: RulesFor) -> HttpEngines:
        """The same over the same connections, with other Secrets and rules."""
        other = copy.copy(self)
        other._secrets, other._rules_for = secrets, rules_for
        return other

    async def aclose(self) -> None:
        """Closes the connections."""
        for client in (*self._clients.values(), *self._guarded.values()):
            await client.aclose()

    def _foreign(self, endpoint: EngineEndpoint, secret: Ref) -> PlainEngine:
        from tenantry.adapters.engine.calls import PlainEngine
        from tenantry.adapters.engine.wire import TIMEOUT, LongRequestTurns, Wire
        from tenantry.adapters.guarded import GuardedTransport, PlainClient

        rules = self._rules_for(endpoint)

        async def basic() -> str:
            _check_base(endpoint.url, rules)
            return basic_authorization(await self._password(secret, endpoint.admin_key))

        client = self._guarded.get(rules)
        if client is None:
            client = self._guarded[rules] = PlainClient((self._guard or GuardedTransport)(rules), TIMEOUT, self._check)
        base = f"{endpoint.url.rstrip('/')}/api/v1"
        turns = self._turns.setdefault(secret.namespace, LongRequestTurns())
        wire = Wire(client, base, basic, turns=turns)
        return PlainEngine(wire, self._inspect, self._scratch, self._largest, self._marks[endpoint.environment_id])

    def _own(self, endpoint: EngineEndpoint) -> Wire:
        from tenantry.adapters.engine.wire import Wire

        url = self._address_of(endpoint)

        async def token() -> str:
            return self._tokens.authorization(f"engine:{endpoint.environment_id}")

        return Wire(self._client(url), f"{url.rstrip('/')}/api/v1", token)

    def _client(self, url: str) -> httpx.AsyncClient:
        from tenantry.adapters.engine.wire import TIMEOUT
        from tenantry.adapters.guarded import PlainClient

        transport = self._transport_for(url)
        client = self._clients.get(transport)
        if client is None:
            client = self._clients[transport] = PlainClient(transport, TIMEOUT, self._check)
        return client

    async def _password(self, secret: Ref, key: str) -> str:
        password = await self._secrets.reveal(secret.namespace, secret.name, key, "environment")
        if not password.clear:
            raise Halt(Stalled("NoClearPassword", f"{secret}: an external engine needs the password itself, not its hash"))
        return password.clear


def basic_authorization(password: str) -> str:
    """The header's value by which `admin` enters an engine of others."""
    return f"Basic {base64.b64encode(f'admin:{password}'.encode()).decode()}"


def _check_base(url: str, rules: Rules) -> None:
    checked_url(url, rules, URL_FIELD)
    if "?" in url:
        raise Invalid((Problem(URL_FIELD, "must have no query"),))
