"""The story that tries references: a tenant with things in it, and then another customer's tenant of the same name."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.cluster.running import until
from tests.scenario.hosts import Host, Object, condition, object_
from tests.scenario.repositories import Remote, Served, served_over_http
from tests.scenario.serving import serving
from tests.security.forging import CLIENT, Issuer, published, token_of
from tests.support.patience import DEADLINE_S

SLUG, NAMESPACE = "iso", "tenant-iso"
PASSWORD = "a long password"
WAITS = {"Prefer": "wait=60"}
READY_S = 90.0
HERE = {"name": "Dev", "slug": "dev", "region": "here"}
ENTERS = "Basic YW5uOnRva2Vu"
"""The authorization that the private repositories want: `ann:token`."""


@dataclass
class Outside:
    """The services outside the platform: repositories that anybody may read and write, private ones, and an issuer of tokens."""

    folder: Path
    open: Served
    private: Served
    issuer: Issuer
    other: Issuer = field(default_factory=Issuer)
    claims: dict[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, str]:
        """The environment variables by which a platform reaches all of it."""
        trusted = json.dumps([{"issuer": self.issuer.url, "audience": CLIENT}])
        return {
            "TENANTRY_OUTBOUND__HTTP": "true",
            "TENANTRY_OUTBOUND__NETWORKS": "127.0.0.0/8",
            "TENANTRY_ISSUERS": trusted,
        }

    def repository(self, name: str, private: bool = False) -> tuple[Remote, str]:
        """A new repository, and its URL."""
        served, folder = (self.private, "private") if private else (self.open, "open")
        own = f"{name}-{len(list((self.folder / folder).iterdir()))}.git"  # each host has its own
        made = Remote.at(self.folder / folder / own)
        made.git("config", "http.receivepack", "true")
        return made, f"{served.url}/{own}"

    def token(self, tenant: str) -> str:
        """A token of the issuer for an ADMIN of the tenant of that id."""
        return token_of(self, role="ADMIN", tenantId=tenant)


@contextmanager
def outside(folder: Path) -> Iterator[Outside]:
    for name in ("open", "private"):
        (folder / name).mkdir()
    with (
        served_over_http(folder / "open") as open_,
        served_over_http(folder / "private") as private,
        _issuer() as issuer,
    ):
        private.wants = ENTERS
        yield Outside(folder, open_, private, issuer)


@contextmanager
def _issuer() -> Iterator[Issuer]:
    """An issuer that is served by a thread of its own."""
    issuer, serves, ends = Issuer(keys=published()), threading.Event(), threading.Event()

    async def serve() -> None:
        async with serving(issuer.app()) as issuer.url:
            serves.set()
            await asyncio.to_thread(ends.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="issuer")
    thread.start()
    try:
        assert serves.wait(DEADLINE_S), "the issuer did not start"
        yield issuer
    finally:
        ends.set()
        thread.join()


@dataclass
class Story:
    """The first tenant of a name with its history, and the second one. kept: what each reference remembers of the first."""

    host: Host
    outside: Outside
    tenants: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    environments: list[str] = field(default_factory=list)
    kept: dict[str, Any] = field(default_factory=dict)

    def begin(self, admin: str) -> None:
        """A tenant of the name, with an ADMIN and an environment."""
        made = self.host.rest("POST", "/tenants", json={"name": "Iso", "slug": SLUG}, headers={"Idempotency-Key": "make-iso"})
        assert made.status_code == 201, made.text
        self.tenants.append(made.json()["id"])
        user = {"username": admin, "password": PASSWORD, "type": "ADMIN", "tenantId": self.tenant}
        assert (answer := self.host.rest("POST", "/users", json=user)).status_code == 201, answer.text
        self.tokens.append(self.host.signed_in(admin, PASSWORD))
        asked = self.rest("POST", "/environments", json=HERE, headers=WAITS)
        assert asked.status_code == 202, asked.text
        self.environments.append(asked.json()["environment"]["id"])

    def end(self) -> None:
        """Deletes the tenant."""
        assert self.host.rest("DELETE", f"/tenants/{self.tenant}", headers=WAITS).status_code == 202
        gone = self.tenant
        until(lambda: gone not in {each["id"] for each in self.host.rest("GET", "/tenants").json()}, "deleted", READY_S)

    @property
    def tenant(self) -> str:
        return self.tenants[-1]

    def rest(self, method: str, path: str, **options: Any) -> httpx.Response:
        """As the present tenant's ADMIN."""
        return self.host.rest(method, path, self.tokens[-1], **options)

    def engine(self, method: str, path: str, **options: Any) -> httpx.Response:
        """The declared engine interface of the present tenant's environment."""
        root = f"{self.host.url}/engines/{self.environments[-1]}/api/v1/admin"
        headers = {"Authorization": f"Bearer {self.tokens[-1]}"}
        return httpx.request(method, root + path, headers=headers, timeout=120, **options)

    def declare(self, kind: str, name: str, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        """`tenantry apply` of an object in the tenant's namespace."""
        made = object_(kind, NAMESPACE, name, **spec)
        self.host.apply({**made, "metadata": {**made["metadata"], "annotations": annotations or {}}})

    def secret(self, name: str, credential: str, password: str) -> None:
        metadata = {"name": name, "namespace": NAMESPACE, "labels": {"tenantry.dev/credential": credential}}
        self.host.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": password}})

    def remove(self, kind: str, name: str) -> None:
        """Deletes an object of the tenant's namespace, and waits until it is gone."""
        self.host("delete", f"{kind}/{name}", "-n", NAMESPACE)
        until(lambda: not self.there(kind, name), f"{kind}/{name} gone", READY_S)

    def there(self, kind: str, name: str) -> bool:
        found = ((each["metadata"].get("namespace"), each["metadata"]["name"]) for each in self.host.objects(kind))
        return (NAMESPACE, name) in found

    def comes_to(self, kind: str, name: str, *reasons: str, status: str = "False") -> Object:
        """Waits until the condition Ready of an object has that status, for one of these reasons where some are given."""
        found: list[Object] = []

        def looked() -> bool:
            found[:] = [self.host.get(kind, NAMESPACE, name)]
            ready, reason, _ = condition(found[0], "Ready")
            return ready == status and (not reasons or reason in reasons)

        until(looked, f"{kind}/{name} {reasons or status}", READY_S, lambda: str(found[0].get("status")))
        return found[0]

    def ready(self, kind: str, name: str) -> Object:
        return self.comes_to(kind, name, status="True")

    def ends_as(self, kind: str, namespace: str, name: str, *ends: str) -> str:
        """Waits until an object is not Ready for one of these reasons; the message."""
        found: list[Object] = []

        def looked() -> bool:
            found[:] = [self.host.get(kind, namespace, name)]
            status, reason, _ = condition(found[0], "Ready")
            return status == "False" and reason in ends

        until(looked, f"{kind}/{name} {ends}", READY_S, lambda: str(found[0].get("status")))
        return condition(found[0], "Ready")[2]
