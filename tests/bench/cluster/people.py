"""A person who writes rows at the host of an environment, and the ingress controller that sends the person to its engine."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.client.objects import path_of

EVERY_S = 0.02
"""Between two rows of a person. A time without writes is no more precise than that."""


class Hosts:
    """The namespaces to which hosts lead, as an ingress controller learns them: by a watch of the Ingresses."""

    def __init__(self) -> None:
        self._spaces: dict[tuple[str, str], str] = {}

    async def follow(self, client: Client) -> None:
        """Learn them until it is cancelled."""
        while True:
            self._spaces.clear()  # a watch begins with all that is there
            async for change in client.stream(path_of("networking.k8s.io/v1", "Ingress"), {"watch": "1"}):
                self.learn(change["type"], change["object"])

    def learn(self, change: str, ingress: Mapping[str, Any]) -> None:
        space = ingress["metadata"]["namespace"]
        for rule in ingress["spec"]["rules"]:
            if change == "DELETED":
                self._spaces.pop((rule["host"], space), None)
            else:
                self._spaces[rule["host"], space] = space

    def space(self, host: str) -> str:
        """Return the namespace to which a host leads, `""` if it leads nowhere."""
        return next((space for (known, _), space in self._spaces.items() if known == host), "")


@dataclass
class Written:
    """The rows of a person, and the longest time without one, in seconds.

    kept: those that were acknowledged. unanswered: those that may be there: their connection broke. refused: answers by status, 0
    for a host that leads nowhere.
    """

    kept: list[str] = field(default_factory=list)
    unanswered: set[str] = field(default_factory=set)
    refused: Counter[int] = field(default_factory=Counter)
    longest_s: float = 0.0
    _last: float = 0.0

    def begin(self, now: float) -> None:
        """Measure the longest time from now on."""
        self.longest_s, self._last = 0.0, now

    def add(self, name: str, status: int, now: float) -> None:
        """Note the answer to a row."""
        if status == httpx.codes.CREATED:
            self.kept.append(name)
            self.longest_s, self._last = max(self.longest_s, now - self._last), now
            return
        self.refused[status] += 1
        if status == httpx.codes.BAD_GATEWAY:  # the proxy lost the engine, perhaps after its commit
            self.unanswered.add(name)

    def lost(self, found: Sequence[str]) -> set[str]:
        """Return the rows that were acknowledged and are not among those found.

        Raises RuntimeError if one is there twice, or one that nobody wrote.
        """
        there = set(found)
        if len(there) != len(found) or not there <= {*self.kept, *self.unanswered}:
            raise RuntimeError(f"{len(found)} rows, {len(there)} of them different, and {len(self.kept)} were acknowledged")
        return set(self.kept) - there


class Person:
    """Writes rows at the host of an environment, with the token of one sign-in. proxy: leads to the Services of a cluster."""

    def __init__(self, hosts: Hosts, host: str, proxy: str) -> None:
        self.written = Written()
        self._hosts = hosts
        self._host = host
        self._client = httpx.AsyncClient(proxy=proxy, trust_env=False, timeout=120, headers={"Host": host})
        self._number = 0

    async def __aenter__(self) -> Person:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def sign_in(self, username: str, password: str) -> None:
        answer = await self.request("POST", "/api/v1/auth/token", data={"username": username, "password": password})
        self._client.headers["Authorization"] = f"Bearer {answer.raise_for_status().json()['access_token']}"

    async def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Raises httpx.HTTPError; LookupError while the host leads nowhere."""
        space = self._hosts.space(self._host)
        if not space:
            raise LookupError(f"{self._host} leads nowhere")
        return await self._client.request(method, f"http://engine.{space}.svc:8080{path}", **options)

    async def write(self, path: str) -> None:
        """Write a row again and again, until it is cancelled."""
        self.written.begin(time.perf_counter())
        while True:
            self._number += 1
            name = f"row-{self._number}"
            try:
                self.written.add(name, await self._status(path, name), time.perf_counter())
            except asyncio.CancelledError:
                self.written.unanswered.add(name)
                raise
            await asyncio.sleep(EVERY_S)

    async def _status(self, path: str, name: str) -> int:
        try:
            return (await self.request("POST", path, json={"name": name})).status_code
        except LookupError:
            return 0
        except httpx.HTTPError:
            return int(httpx.codes.BAD_GATEWAY)
