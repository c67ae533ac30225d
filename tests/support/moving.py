"""A cluster with two pools and one environment, whose engine moves. Pools and engines are real, the API server is in memory.

People reach the engine by its host: a request goes where the Ingress of that host leads.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psycopg

from tenantry.adapters.engine.http import HttpEngines
from tenantry.adapters.keys import KeyRing
from tenantry.adapters.kubernetes.engines.placed import PlacedDeployer
from tenantry.adapters.kubernetes.engines.workload import namespace_of, service_url
from tenantry.adapters.overlay.packages import NoLogs
from tenantry.adapters.pools.client import Pools
from tenantry.adapters.pools.server_databases import ServerDatabases
from tenantry.adapters.pools.server_urls import pool_url
from tenantry.adapters.store.memory import MemoryStore
from tenantry.adapters.store.secrets import StoreSecrets
from tenantry.bootstrap.pass_ports import Ports
from tenantry.cli.processes.engine_process import EngineProcess
from tenantry.cli.processes.pools.pool_process import OpenedPool
from tenantry.hosts.declared_objects import DeclaredObjects
from tenantry.kinds.admission import Admission
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.region.pools import pool_id
from tenantry.kinds.registry import FOLLOWED, KINDS, TYPES
from tenantry.model.facts import EngineEndpoint, EngineRef
from tenantry.model.resource import SYSTEM_NAMESPACE, Document, Ref, held_of
from tenantry.packages.build import build
from tenantry.packages.check import inspect
from tenantry.runtime.cache import Cache
from tenantry.runtime.reconcile.cycle import Cycle, Ended
from tenantry.runtime.reconcile.following import TrackedView
from tenantry.runtime.reconcile.writing_store import WritingStore
from tenantry.settings import ManagedEngineSettings, Settings
from tests.contract.deployers import Controllers, cluster
from tests.contract.engine_admins import AdminSecret
from tests.scenario.data_world import DATA, HASHED, MANIFEST, PASSWORD
from tests.support.deployer_kit import make
from tests.support.pool_servers import PLATFORM, PoolServerKit
from tests.support.pools import opened_pool

ADMISSION = Admission()
ID = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
SPACE = "tenant-acme"
DEV = Ref("Environment", SPACE, "dev")
HOST = "dev--acme.apps.example.com"
ROWS = f"{DATA}/accounts"
POD = "pod"
"""The engine's own pod, among the names of pools."""
ON_SERVER = ("s", "t")
"""The names of the pools on a PostgreSQL server."""
PASSES = 30
ServerOf = Callable[..., PoolServerKit | None]
"""The server of pools, if any of the places that it is given is on it."""
Strike = Callable[[str], Awaitable[None]]
"""Called with each request to an engine or a pool, before it is sent and after its answer; raises Killed to end the operator."""


async def nothing(told: str) -> None:
    """Let the operator live."""


class Killed(BaseException):
    """The end of the operator at this moment."""


@dataclass
class Place:
    """A pool, or the pod of the engine. apps: its servers, to which requests go by turns; none while it is down."""

    folder: Path
    apps: list[Any] = field(default_factory=list)
    closes: list[Callable[[], Any]] = field(default_factory=list)
    asked: int = 0

    @property
    def app(self) -> Any:
        """The server of the next request."""
        self.asked += 1
        return self.apps[self.asked % len(self.apps)] if self.apps else None

    async def close(self) -> None:
        self.apps = []
        while self.closes:
            await self.closes.pop()()


class Wire(httpx.AsyncBaseTransport):
    """The network of the operator. strike: sees each request."""

    def __init__(self, world: MovingWorld) -> None:
        self._world = world

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = f"{request.url.host.split('.')[1]} {request.url.path.rpartition('/')[2]}"
        await self._world.strike(f"before {path}")
        place = self._world.places.get(request.url.host.split(".")[1])
        app = place.app if place is not None else None
        if app is None:
            raise httpx.ConnectError("nobody listens")
        answer = await httpx.ASGITransport(app).handle_async_request(request)
        await self._world.strike(f"after {path}")
        return answer


@dataclass
class MovingWorld:
    """places: by namespace. strike: see Strike. pods_run: whether the cluster has room for the pods of engines.

    server: of the pools ON_SERVER, which have two replicas each.
    """

    folder: Path
    there: Controllers
    keys: KeyRing
    store: MemoryStore
    places: dict[str, Place] = field(default_factory=dict)
    strike: Strike = nothing
    pods_run: bool = True
    server: PoolServerKit | None = None

    def __post_init__(self) -> None:
        self.wire = Wire(self)
        self.pools_client = Pools(self.keys, service_url, lambda url: self.wire)
        self.restart()

    def restart(self, through: Callable[[Any], Any] = lambda deployer: deployer) -> None:
        """Begin a process of the operator that has seen nothing. through: gives the deployer that it uses instead of its own."""
        self.cache = Cache(TYPES)
        for kind in FOLLOWED:
            for document in self.store._rows.kinds.get(kind, {}):
                self.cache.absorb(self.document(document))
        store = WritingStore(self.store, self.cache)
        secrets = StoreSecrets(store, self.cache.document, b"key")
        declared = DeclaredObjects(self.cache)
        databases = ServerDatabases(declared, secrets, PLATFORM)
        deployer = PlacedDeployer(self.there.kit.deployer, self.pools_client, declared, secrets, self._declared, databases)
        none: Any = None
        ports = Ports(store, lambda store: none, b"key", through(deployer), none, none, NoLogs(), none, none)
        self.deployer, self.writes = deployer, store
        self.cycle = Cycle({"Environment": KINDS["Environment"]}, self.cache, ports, lambda: datetime.now(UTC))

    def _declared(self, ref: EngineRef) -> tuple[Document, ...]:
        """The declarations that an archive of the engine has."""
        return (self.document(DEV),)

    def document(self, ref: Ref) -> Document:
        found: Document = self.store._codec.decode(self.store._rows.kinds[ref.kind][ref])
        return found

    @property
    def environment(self) -> Environment:
        return Environment.model_validate(self.document(DEV))

    @property
    def told(self) -> str:
        """The reason and the message of Ready."""
        ready = next(each for each in self.document(DEV)["status"]["conditions"] if each["type"] == "Ready")
        return f"{ready['reason']}: {ready.get('message', '')}"

    @property
    def operations(self) -> list[tuple[str, str, str]]:
        kept = map(self.document, self.store._rows.kinds["Operation"])
        made = sorted(kept, key=lambda each: int(each["metadata"]["resourceVersion"]))
        return [(each["spec"]["action"], each["status"]["status"], each["status"]["result"]) for each in made]

    async def create(self, kind: str, name: str, namespace: str = "", status: Any = None, **fields: Any) -> None:
        metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **fields.pop("metadata", {})}
        version = "v1" if kind in ("Secret", "Namespace") else "tenantry.dev/v1alpha1"
        body = {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}
        stored = await self.writes.create(ADMISSION.admit(body, None))
        if status is not None:
            await self.writes.set_status(held_of(stored), status)

    async def declare(self, name: str) -> None:
        """Declare the place of the engine: a pool, or POD."""
        engine = {"pool": name} if name != POD else {"placement": "Dedicated"}
        document = self.document(DEV)
        await self.writes.replace(
            {**document, "spec": {**document["spec"], "engine": engine}}, document["metadata"]["resourceVersion"]
        )

    async def reconcile(self) -> Ended:
        ended = await self.cycle.run(DEV, TrackedView(self.cache))
        await self._follow_pods()
        return ended

    async def settle(self) -> None:
        """Reconcile until nothing is left to do."""
        for _ in range(PASSES):
            await self.reconcile()
            if self.environment.ready:
                return
        raise AssertionError(f"not Ready after {PASSES} passes: {self.told}")

    async def add_pool(self, name: str, capacity: int = 300) -> str:
        id_ = self.pool(name)
        (self.folder / name).mkdir(parents=True)
        self.places[namespace_of(id_)] = Place(self.folder / name)
        if name in ON_SERVER:
            await self.deployer._databases.ensure_pool(EngineRef("", "home", id_, slug=name))
        self.open_pool(id_, capacity)
        return id_

    def open_pool(self, id_: str, capacity: int = 300) -> OpenedPool:
        place = self.places[namespace_of(id_)]
        assert not place.apps
        on_server = self.server is not None and place.folder.name in ON_SERVER
        for replica in ("one", "two") if on_server else ("only",):
            url = pool_url(self.server.admin, id_, PLATFORM) if self.server is not None and on_server else ""
            opened = opened_pool(place.folder / replica, self.keys, capacity, id_, server=url)
            place.apps.append(opened.server)
            place.closes.append(opened.close)
        return opened

    async def restart_pool(self, id_: str) -> None:
        """End its process and begin another, with the same volume."""
        await self.places[namespace_of(id_)].close()
        self.open_pool(id_)

    async def _follow_pods(self) -> None:
        """The engine has a pod as long as there is a workload of it."""
        if not self.pods_run:
            return
        space, api = namespace_of(ID), self.there.api
        await self.there.settle(EngineRef(SPACE, "dev", ID))
        wanted = any(each["kind"] == "StatefulSet" and f"/{space}/" in path for path, each in api.held.items())
        if wanted and space not in self.places:
            await self._start_pod(space)
        if not wanted and space in self.places:
            await self.places.pop(space).close()

    async def _start_pod(self, space: str) -> None:
        """Begin the process of the engine's pod. Its volume is as old as its namespace."""
        uid = self.there.api.held[f"/api/v1/namespaces/{space}"]["metadata"]["uid"]
        data, mounted = self.folder / f"volume-{uid}", self.folder / f"mounted-{uid}"
        shutil.rmtree(mounted, ignore_errors=True)
        for folder in (data, mounted):
            folder.mkdir(exist_ok=True)
        config = self.there.api.held[f"/api/v1/namespaces/{space}/configmaps/engine"]["data"]
        for name, text in {**config, "jwks.json": json.dumps(self.keys.jwks()), "password": "correct horse"}.items():
            (mounted / name).write_text(text)
        managed = ManagedEngineSettings(
            uid=ID,
            namespace=SPACE,
            name="dev",
            facade_url="https://api.example.com",
            jwks=mounted / "jwks.json",
            admin_password=mounted / "password",
        )
        process = EngineProcess(data, None, Settings(managed=managed))
        self.places[space] = Place(data, [await process.application()], [process.close])

    async def restart_pod(self) -> None:
        """End the process of the engine's pod and begin another, with the same volume."""
        space = namespace_of(ID)
        await self.places.pop(space).close()
        await self._start_pod(space)

    async def restart_places(self) -> None:
        """End the processes of the pools and of the pod, and begin others."""
        for name in ("a", "b", *(ON_SERVER if self.server is not None else ())):
            await self.restart_pool(self.pool(name))
        if namespace_of(ID) in self.places:
            await self.restart_pod()

    async def fill(self) -> None:
        """Install the app, and let the user `ed` in."""
        source = self.folder / "source"
        source.mkdir()
        (source / "app.yaml").write_text(MANIFEST)
        build(source, self.folder / "crm.tapp")
        engines = HttpEngines(self.keys, AdminSecret(), inspect, self.folder / "scratch", lambda url: self.wire)
        url = DeclaredObjects(self.cache).address_of(EngineEndpoint(ID, ""))
        admin = engines.at(EngineEndpoint(ID, url))
        await admin.publish(self.folder / "crm.tapp")
        await admin.add_identity("ed", HASHED, [("crm", "editor")])
        await engines.aclose()

    @property
    def workload(self) -> Document:
        """The StatefulSet of the engine's own pod."""
        held: Document = self.there.api.held[f"/apis/apps/v1/namespaces/{namespace_of(ID)}/statefulsets/engine"]
        return held

    def spaces_of_host(self) -> list[str]:
        """The namespaces whose Ingress leads people to an engine."""
        held = self.there.api.held.values()
        rules = [(each["metadata"]["namespace"], each["spec"]["rules"]) for each in held if each["kind"] == "Ingress"]
        return [space for space, hosts in rules if any(rule["host"] == HOST for rule in hosts)]

    def client(self, space: str = "", token: str = "") -> httpx.AsyncClient:
        """A browser of a person, at the host of the engine. space: at the engine there, whatever the Ingress says."""
        at = space or self.spaces_of_host()[0]
        headers = {"Host": HOST, **({"Authorization": f"Bearer {token}"} if token else {})}
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.places[at].app), base_url=f"http://{HOST}", headers=headers)

    async def sign_in(self) -> str:
        async with self.client() as browser:
            answer = await browser.post("/api/v1/auth/token", data={"username": "ed", "password": PASSWORD})
            return str(answer.json()["access_token"])

    def space(self, name: str) -> str:
        """The namespace of a place: of a pool, or of the engine's own pod."""
        return namespace_of(ID if name == POD else self.pool(name))

    def holds(self, name: str) -> bool:
        """Return True if that place has anything of the engine."""
        if name == POD:
            return any(f"/{namespace_of(ID)}/" in path for path in self.there.api.held)
        if name not in ON_SERVER:
            return bool(list((self.folder / name).glob(f"*/data/engines/{ID}*")))
        assert self.server is not None
        catalog = f"tenantry_{self.pool(name).removeprefix('pool-')}"
        # What a replica has in its folder is a copy, and goes when it looks at the catalog.
        known = "SELECT EXISTS (SELECT FROM engines WHERE id = %s AND body IS NOT NULL)"
        with psycopg.connect(self.server.root.replace("/postgres", f"/{catalog}")) as connection:
            row = connection.execute(known.encode(), (ID,)).fetchone()
        return row == (True,) or any(catalog in each for each in self.server.names())

    def pool(self, name: str) -> str:
        """The id of the pool of that name."""
        return pool_id(self.document(Ref("Region", "", "home"))["metadata"]["uid"], name, name in ON_SERVER)

    async def rows(self, token: str, begins: str = "") -> list[str]:
        """All rows whose name begins so."""
        async with self.client(token=token) as browser:
            answer = await browser.get(ROWS, params={"name": f"like.{begins}*"}, headers={"Accept": "application/x-ndjson"})
            assert answer.status_code == 200, answer.text
            return sorted(json.loads(line)["name"] for line in answer.text.splitlines())

    async def add_row(self, token: str, name: str, space: str = "") -> int:
        return (await self.post_row(token, name, space)).status_code

    async def post_row(self, token: str, name: str, space: str = "") -> httpx.Response:
        async with self.client(space, token) as browser:
            return await browser.post(ROWS, json={"name": name})

    async def writable(self, token: str, name: str) -> list[str]:
        """The places that take a row of the person, whoever is sent there."""
        return [space for space in self.places if await self.add_row(token, f"{name}-{space}", space) == 201]


@asynccontextmanager
async def moving_world(
    folder: Path, capacity: int = 300, server: PoolServerKit | None = None, **engine: Any
) -> AsyncIterator[MovingWorld]:
    """The environment dev, Ready where `engine` declares it, with the app crm and the user ed. capacity: of the pool b.

    server: of the pools ON_SERVER; they are there with it alone.
    """
    there = await cluster()
    async with AsyncExitStack() as stack:
        world = MovingWorld(folder, there, KeyRing(folder / "keys", "tenantry"), MemoryStore(ADMISSION), server=server)
        stack.push_async_callback(world.pools_client.aclose)
        await world.create("Namespace", SPACE, metadata={"labels": {"tenantry.dev/tenant": "acme"}})
        namespace = {"name": SPACE, "uid": world.document(Ref("Namespace", "", SPACE))["metadata"]["uid"]}
        await world.create("Tenant", "acme", spec={}, status={"phase": "READY", "slug": "acme", "namespace": namespace})
        pools: list[dict[str, Any]] = [{"name": "a"}, {"name": "b"}]
        if server is not None:
            by = {"labels": {"tenantry.dev/credential": "region"}}
            await world.create("Secret", "pool-server", SYSTEM_NAMESPACE, stringData={"url": server.admin}, metadata=by)
            admin = {"adminSecretRef": {"name": "pool-server", "key": "url"}}
            pools += [{"name": name, "postgres": admin} for name in ON_SERVER]
        settings = {"subdomain": "apps.example.com", "kubernetes": {"ingressClassName": "nginx"}}
        await world.create("Region", "home", spec={**settings, "engine": {"pools": pools}}, status={"provider": "Kubernetes"})
        labels = {"tenantry.dev/credential": "environment"}
        secret = {"stringData": {"password": "correct horse"}, "metadata": {"labels": labels}}
        await world.create("Secret", "dev-admin", SPACE, **secret)
        await make(there.kit.client, "Secret", "dev-admin", SPACE, **secret)
        for name in [each["name"] for each in pools]:
            await world.add_pool(name, capacity if name == "b" else 300)
        await world.create("Environment", "dev", SPACE, spec={"id": ID, "region": "home", "engine": engine})

        async def close() -> None:
            for place in world.places.values():
                await place.close()

        stack.push_async_callback(close)
        await world.settle()
        await world.fill()
        yield world
