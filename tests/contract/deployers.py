"""Every placement that the contract of a deployer runs over. Clusters are API servers in memory; pools and engines are real."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from tenantry.adapters.keys import KeyRing
from tenantry.adapters.kubernetes.engines.kept_volumes import kept_volumes
from tenantry.adapters.kubernetes.engines.placed import PlacedDeployer
from tenantry.adapters.kubernetes.engines.workload import namespace_of
from tenantry.adapters.local.backups import Backups
from tenantry.adapters.local.data_loss.survey import DataSurvey
from tenantry.adapters.local.databases import Databases
from tenantry.adapters.local.deployer import LocalDeployer
from tenantry.adapters.local.folders import EngineFolders
from tenantry.adapters.local.hosting import LocalHosting
from tenantry.adapters.local.opening import EngineOpener
from tenantry.adapters.pools.server_databases import ServerDatabases
from tenantry.model.facts import EngineRef, EngineSpec
from tenantry.model.resource import Ref, SecretKeyRef
from tenantry.model.verdicts import Halt
from tenantry.ports import Deployer
from tests.contract.engine_admins import AdminSecret
from tests.support.deployer_kit import Kit, declaration, kit_of
from tests.support.pool_servers import PLATFORM, SERVER, PoolServerKit, ServerSecret
from tests.support.pools import POOL, pool_of
from tests.unit.adapters.kubernetes.engines.fake_api import FakeApi

Step = Callable[[EngineRef], Awaitable[None]]


@dataclass
class Placed:
    """A deployer. fill: gives an engine data; settle: what a cluster does about it, to which only the empty step is local.

    kept: the ids of the environments whose engines were archived.
    """

    deployer: Deployer
    spec: EngineSpec
    secret: Ref
    fill: Step
    settle: Step
    kept: Callable[[], Awaitable[list[str]]]
    other_spec: EngineSpec = field(init=False)

    def __post_init__(self) -> None:
        ref = replace(self.spec.ref, name="live", id="e2", slug="live")
        self.other_spec = replace(self.spec, ref=ref)

    @property
    def ref(self) -> EngineRef:
        return self.spec.ref

    async def deploy(self, spec: EngineSpec | None = None) -> None:
        """As passes do it: once more, after what the cluster did."""
        for _ in range(2):
            await self.deployer.deploy(spec or self.spec, self.secret)
            await self.settle((spec or self.spec).ref)

    async def remove(self, ref: EngineRef) -> None:
        """To the end."""
        try:
            await self.deployer.undeploy(ref)
        except Halt as halt:
            if halt.verdict.reason != "EngineNamespaceDeleting":
                raise
            await self.settle(ref)
            await self.deployer.undeploy(ref)


async def nothing(ref: EngineRef) -> None:
    """No cluster has to do anything."""


@asynccontextmanager
async def local(folder: Path) -> AsyncIterator[Placed]:
    """Engines in the process of the platform."""
    folders = EngineFolders(folder)
    secrets = AdminSecret()
    opener = EngineOpener(secrets, KeyRing(folder / "keys", "tenantry"), lambda id_: "http://facade")
    hosting = LocalHosting(folders, opener, 1 << 20)
    backups = Backups(folder, folders, lambda ref: (declaration(ref),))
    survey = DataSurvey(folders, hosting)
    databases = Databases(secrets)
    deployer = LocalDeployer(folders, backups, "http://host", hosting.closed, databases, hosting.try_open, survey)

    async def fill(ref: EngineRef) -> None:
        record = folders.held(ref.id)
        assert record is not None
        await hosting.try_open(record)

    async def kept() -> list[str]:
        return [facts.id for facts in await backups.kept()]

    ref = EngineRef("tenant-acme", "dev", "e1", "acme", "dev", "uid-acme")
    yield Placed(deployer, EngineSpec(ref, "home", "Local"), Ref("Secret", "tenant-acme", "dev-admin"), fill, nothing, kept)
    await hosting.aclose()
    folders.close()


@dataclass
class Controllers:
    """The controllers of a cluster, for its engines."""

    api: FakeApi
    kit: Kit

    async def settle(self, ref: EngineRef) -> None:
        """Its namespace is emptied if it is being deleted; else its pod becomes ready."""
        space = f"/api/v1/namespaces/{namespace_of(ref.id)}"
        if "deletionTimestamp" in self.api.held.get(space, {}).get("metadata", {}):
            self.api.finish(namespace_of(ref.id))
        for path, held in [*self.api.held.items()]:
            if held["kind"] == "StatefulSet" and f"/{namespace_of(ref.id)}/" in path:
                self.api.held[path] = {**held, "status": {"readyReplicas": 1, "updatedReplicas": 1}}

    async def bind(self, ref: EngineRef) -> None:
        """Its claim gets a volume."""
        claim = self.api.held[f"/api/v1/namespaces/{namespace_of(ref.id)}/persistentvolumeclaims/engine"]
        claim["spec"]["volumeName"] = name = f"pv-{ref.id}"
        spec = {"capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Delete"}
        bound = {**spec, "claimRef": {"uid": claim["metadata"]["uid"]}}
        document = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": bound}
        self.api.put(f"/api/v1/persistentvolumes/{name}", document)

    async def kept(self) -> list[str]:
        return [each.backup.ref.id for each in await kept_volumes(self.api.client)]


async def cluster() -> Controllers:
    """A cluster whose region `home` publishes engines, with the password of `dev` and `live`."""
    api = FakeApi()
    kit = await kit_of(api.client)
    kit.ref = replace(kit.ref, id="e1", tenant_uid="uid-acme")
    kit.declared.settle(subdomain="apps.example.com", ingressClassName="nginx")
    return Controllers(api, kit)


@asynccontextmanager
async def dedicated(folder: Path) -> AsyncIterator[Placed]:
    """Engines in pods of their own."""
    there = await cluster()
    kit = there.kit
    deployer = cast(Deployer, kit.deployer)  # moves are the affair of the one that places engines
    yield Placed(deployer, kit.spec, kit.admin_secret, there.bind, there.settle, there.kept)


@dataclass
class OnePool:
    """placed.PoolLookup of a region with one pool. server: the Secret of its server, None for a pool on a volume."""

    kit: Kit
    server: SecretKeyRef | None = None

    def server_of(self, pool: str) -> SecretKeyRef | None:
        return self.server

    def replicas_of(self, pool: str) -> int:
        return 1

    def of(self, ref: EngineRef) -> str:
        return self.kit.declared.of(ref)

    def pools_of(self, ref: EngineRef) -> tuple[str, ...]:
        return (POOL,)

    def moves_of(self, ref: EngineRef) -> tuple[str, ...]:
        return ()

    def pools(self) -> frozenset[str]:
        return frozenset({POOL})


@asynccontextmanager
async def pooled(folder: Path, there: Controllers | None = None, server: PoolServerKit | None = None) -> AsyncIterator[Placed]:
    """Engines that share a pod. server: their databases are there."""
    there = there or await cluster()
    kit = there.kit
    async with pool_of(folder / "pool", server=server.url if server is not None else "") as pool:
        secrets, lookup = kit.deployer._secrets, OnePool(kit, SERVER if server is not None else None)
        given = ServerSecret(server.admin) if server is not None else secrets
        databases = ServerDatabases(lookup, given, PLATFORM)
        deployer = PlacedDeployer(kit.deployer, pool.pools, lookup, secrets, lambda ref: (declaration(ref),), databases)

        async def fill(ref: EngineRef) -> None:
            await pool.admin(ref).identities()

        async def kept() -> list[str]:
            return [facts.id for facts in await pool.opened.backups.kept()]

        yield Placed(deployer, replace(kit.spec, pool=POOL), kit.admin_secret, fill, there.settle, kept)


Row = Callable[[Path], AbstractAsyncContextManager[Placed]]
ON_SERVER = "in a pool on a server"
DEPLOYERS: dict[str, Row] = {"in the process": local, "in a pod of its own": dedicated, "in a pool": pooled}
