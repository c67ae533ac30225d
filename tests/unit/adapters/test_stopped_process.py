"""An operator that was stopped asks no engine and no pool for anything once another one may act."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.adapters.engine.http import HttpEngines
from tenantry.adapters.keys import KeyRing
from tenantry.adapters.moving.leaving import Packed
from tenantry.adapters.moving.links import Link
from tenantry.adapters.pools.client import Pools
from tenantry.model.facts import EngineEndpoint, IdentityProviderSettings, PackageFacts, Password
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Halt, Transient
from tenantry.ports import EngineAdmin
from tenantry.rest.outbound import Rules
from tests.contract.engine_admins import AdminSecret
from tests.support.pools import POOL, REF, SPEC, URL, sent

OWN, FOREIGN = EngineEndpoint("e1", URL), EngineEndpoint("e1", URL, Ref("Secret", "tenant-acme", "engine-credentials"))
PROVIDER = IdentityProviderSettings("corp", "https://idp.example.com", "tenantry")
LOCAL = {("FOREIGN", "steps"), ("FOREIGN", "preview"), ("FOREIGN", "set_roles")}
"""Calls that ask nobody."""


class Clear(AdminSecret):
    async def reveal(self, namespace: str, name: str, key: str, for_kind: str) -> Password:
        return Password(clear="s3cret")


class Operator:
    """Its clients of pools and engines, and how often they asked anything."""

    def __init__(self, folder: Path, check: Callable[[], None]) -> None:
        self.requests = 0
        wire = httpx.MockTransport(self._refuse)
        keys, facts = KeyRing(folder / "keys", "tenantry"), PackageFacts("crm", "1.0.0", "CRM", "Us", "0" * 64, 1, 0, False)
        self.pools = Pools(keys, lambda pool: URL, lambda url: wire, check)
        self.engines = HttpEngines(
            keys,
            Clear(),
            lambda path: facts,
            folder,
            lambda url: wire,
            rules_for=lambda endpoint: Rules(http=True),
            guard=lambda rules: wire,
            check=check,
        )

    async def _refuse(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        return httpx.Response(500)

    def at(self, place: str) -> Pools | Link | EngineAdmin:
        match place:
            case "pools":
                return self.pools
            case "link":
                return self.pools.link(POOL, REF)
            case _:
                return self.engines.at(OWN if place == "OWN" else FOREIGN)


def public(cls: type) -> Iterator[str]:
    for name, member in inspect.getmembers(cls, inspect.isfunction):
        called = inspect.unwrap(member)
        asks = inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)
        if asks and not name.startswith("_") and name != "aclose":
            yield name


CALLS = [
    *(("pools", name) for name in public(Pools)),
    *(("link", name) for name in public(Link)),
    *((place, name) for place in ("OWN", "FOREIGN") for name in public(EngineAdmin)),
]


async def called(at: Any, name: str, package: Path) -> None:
    """Call it with arguments of the names that it has."""

    async def blocks() -> Any:
        yield b""

    given = {"pool": POOL, "ref": REF, "spec": SPEC, "sent": await sent(), "documents": (), "token": "t", "cancelled": True}
    given |= {"earlier": b"", "copy": Packed("t", "s", blocks()), "package": package, "app": "crm", "version": "1.0.0"}
    given |= {"username": "alice", "password": Password(clear="x"), "roles": (), "id_": "1", "settings": PROVIDER}
    given |= {"client_secret": Password(clear="x")}
    method = getattr(at, name)
    wanted = {
        each: given[each]
        for each, parameter in inspect.signature(method).parameters.items()
        if parameter.default is inspect.Parameter.empty
    }
    result = method(**wanted)
    if hasattr(result, "__aenter__"):
        async with result:
            return
    await result


def may_not_act() -> None:
    raise Halt(Transient("LeaseNotRenewed", "another one may act"))


@pytest.mark.parametrize(("place", "name"), CALLS)
async def test_nothing_is_asked_while_another_operator_may_act(tmp_path: Path, place: str, name: str) -> None:
    package = tmp_path / "crm.tapp"
    package.write_bytes(b"")
    acting, stopped = Operator(tmp_path, lambda: None), Operator(tmp_path, may_not_act)
    with suppress(Halt):
        await called(acting.at(place), name, package)
    if (place, name) in LOCAL:
        assert acting.requests == 0
        return
    with pytest.raises(Halt, match="LeaseNotRenewed"):
        await called(stopped.at(place), name, package)
    assert (acting.requests, stopped.requests) == (1, 0)
